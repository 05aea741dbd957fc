//! Ends that cannot wait.
//!
//! The process may not say another word, to an agent or to a person, so it ends on the spot: what
//! is in the ledger is true, and whoever starts next goes on from there. A lead that is lost is no such
//! end: then the coordinator stands by.

use std::error::Error;

/// Status with which the process ends when the ledger could not be written (as `EX_IOERR` of
/// sysexits). The log says why; look at the disk before starting again.
pub const LEDGER_FAILED: i32 = 74;

pub(crate) fn now(status: i32, what: &'static str, error: Option<&dyn Error>) -> ! {
    let causes = error.map(causes).unwrap_or_default();
    tracing::error!(what, error = causes, status, "the coordinator ends at once");
    std::process::exit(status)
}

/// An error and what it came from, on one line.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
