//! The named orders of events. Each holds with all rules, and breaks without the one it is about.
