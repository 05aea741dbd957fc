//! Nights through the public door.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test says what it skips, and fails by panic

mod nights;
mod traces;
