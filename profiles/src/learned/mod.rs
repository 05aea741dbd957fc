//! What the runs of a job have been seen to use, and what that says about the next one.
//!
//! A profile is of one version of a job on one class of hosts: another version may be another program,
//! and a slower disk another duration. **One run is one sample**, however many shards and attempts it
//! had; a job that runs once a night is known after as many runs as one that runs every minute. So
//! weights fade by runs and not by hours: each counts half as much as the one ten runs later.
//!
//! What goes wrong elsewhere is guarded against here. A peak that was cut off by a limit is no peak: it is
//! known to be at least the limit, and the advice rises at once. Nothing is advised from nothing, or
//! from fewer than five runs. An advice falls by a fifth at most, and it is an advice: a person
//! writes the manifest. What was counted for a part of the tree only is marked so wherever it is shown.

mod advice;
mod bound;
mod decay;
mod histogram;
mod profile;
mod sample;

pub use advice::{MEMORY_FACTOR_PERCENT, NoAdvice, RUNS_MIN};
pub use bound::{Bound, Ratios};
pub use histogram::Histogram;
pub use profile::{Counts, JobProfile, RECENT_RUNS};
pub use sample::{AttemptSample, HostSize, Sample};

#[cfg(test)]
mod tests;
