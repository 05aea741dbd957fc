//! What a person asks of jobs and runs.

use clap::{Args, ValueEnum};
use protocol::{JobName, WallMs};

use super::{Asking, parse_reason};
use crate::subject::{RunRef, parse_time};

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A job, such as `finance/reconcile`
    #[arg(value_name = "JOB")]
    pub(crate) job: JobName,
    /// A past fire time of the job that has no run; without it the run is of no fire time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<WallMs>,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Rerun {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) run: RunRef,
    /// Only this shard
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Cancel {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) run: RunRef,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Confirm {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) run: RunRef,
    /// Only this shard; without it every shard that needs confirmation
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// How it is to be taken
    #[arg(long = "as", value_name = "VERDICT", value_enum)]
    pub(crate) verdict: Verdict,
    /// How you know, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// Its work is done
    Succeeded,
    /// Run it again
    Retry,
    /// Give the whole run up
    Failed,
}
