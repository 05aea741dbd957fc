//! Both programs of the host side with real processes.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod agent;
mod harness;
mod supervisor;

/// Not a test: the body of the processes that the tests start (see [`harness`]).
#[test]
fn process_of_this_binary() {
    harness::become_what_was_asked_for();
}
