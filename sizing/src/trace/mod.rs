//! Workloads that others had, and what would have become of them here.

mod machines;
mod replay;
mod swf;

pub use machines::{Machines, parse_machines};
pub use replay::{Replay, SECOND, plan_replay};
pub use swf::{Trace, TraceJob, parse_swf};

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Problem {
    pub line: usize,
    pub what: String,
}
