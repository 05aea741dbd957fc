//! What a person asks of jobs and runs.

use clap::{Args, Subcommand, ValueEnum};
use protocol::{AlertId, JobName, WallMs};

use super::{Asking, parse_reason};
use crate::complete;
use crate::subject::{RunRef, parse_time};

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A job, such as `finance/reconcile`
    #[arg(value_name = "JOB", add = complete::jobs())]
    pub(crate) job: JobName,
    /// A past fire time of the job that has no run; without it the run is of no fire time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<WallMs>,
    /// A value for this run instead of the manifest's own; may be repeated
    #[arg(long = "param", short = 'p', value_name = "NAME=VALUE", value_parser = parse_param)]
    pub(crate) params: Vec<(String, String)>,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Rerun {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME", add = complete::runs())]
    pub(crate) run: RunRef,
    /// Only this shard
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// Only the shards that failed or need confirmation, none that was cancelled
    #[arg(long, conflicts_with = "shard")]
    pub(crate) failed: bool,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Redo {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME", add = complete::runs())]
    pub(crate) run: RunRef,
    /// Although the manifest does not declare a second run harmless
    #[arg(long)]
    pub(crate) force: bool,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Cancel {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME", add = complete::runs())]
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
    #[arg(value_name = "RUN|JOB@TIME", add = complete::runs())]
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

#[derive(Args, Debug)]
pub(crate) struct Pause {
    /// A job, such as `finance/reconcile`
    #[arg(value_name = "JOB", add = complete::jobs())]
    pub(crate) job: JobName,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Resume {
    /// A job, such as `finance/reconcile`
    #[arg(value_name = "JOB", add = complete::jobs())]
    pub(crate) job: JobName,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Alerts {
    /// Say that a matter is over, although nothing has shown it
    Clear {
        /// The alert, such as `alert-3`
        #[arg(value_name = "ALERT")]
        alert: AlertId,
        /// Why, for those who read it later
        #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
        reason: String,
        #[command(flatten)]
        asking: Asking,
    },
}

/// `NAME=VALUE`. Which names there are the manifest says.
fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, as in region=east".to_owned()),
    }
}
