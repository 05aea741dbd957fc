//! Both programs of the host side with real processes.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too
#![allow(clippy::print_stderr)] // a test that is skipped says so

mod agent;
mod crowd;
mod harness;
mod launches;
mod limits;
mod output;
mod supervisor;
mod trees;
mod usage;

/// Not a test: the body of the processes that the tests start (see [`harness`]).
#[test]
fn process_of_this_binary() {
    harness::become_what_was_asked_for();
}
