//! What hosts offer and what jobs need: classes of hosts, what a host has room for, and what runs of a
//! job have been seen to use.
//!
//! Pure: facts of hosts and samples of runs come in, verdicts with their reasons go out.

pub mod changes;
pub mod classes;
pub mod learned;
pub mod matching;
