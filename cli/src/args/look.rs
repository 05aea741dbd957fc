//! Commands that only look.

use clap::{Args, Subcommand, ValueEnum};
use protocol::{JobName, Token, WallMs};

use super::Asking;
use crate::subject::{Subject, parse_time};

#[derive(Subcommand, Debug)]
pub(crate) enum Get {
    /// Jobs, when they fire next and how they ended last
    Jobs {
        #[command(flatten)]
        asking: Asking,
    },
    /// Runs, newest first
    Runs {
        /// Only of this job
        #[arg(long, value_name = "JOB")]
        job: Option<JobName>,
        /// Only in this state
        #[arg(long, value_name = "STATE", value_enum)]
        state: Option<RunState>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        asking: Asking,
    },
    /// Agents, their slots and what they run
    Agents {
        #[command(flatten)]
        asking: Asking,
    },
    /// What a person should know, newest first
    Alerts {
        /// Only of this job
        #[arg(long, value_name = "JOB")]
        job: Option<JobName>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        asking: Asking,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum RunState {
    Waiting,
    Ready,
    Running,
    NeedsConfirmation,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
    Missed,
}

#[derive(Args, Debug)]
pub(crate) struct Describe {
    /// A job, a run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "JOB|RUN|JOB@TIME")]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Logs {
    /// A job, of which its newest run is meant, a run (`run-12`), or the run of a
    /// job's fire time
    #[arg(value_name = "JOB|RUN|JOB@TIME")]
    pub(crate) subject: Subject,
    /// Only of this shard
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// Of this attempt; without it the newest of each shard
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Token>,
    /// Of the attempt of this number
    #[arg(long, value_name = "N", conflicts_with = "token")]
    pub(crate) attempt: Option<u32>,
    /// Go on with what is printed, until the attempts have ended
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Only the last N lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u64>,
    /// Only what was printed from this instant on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<WallMs>,
    /// Only one of the two streams
    #[arg(long, value_name = "STREAM", value_enum)]
    pub(crate) stream: Option<OutputStream>,
    /// Write before each line when it was read
    #[arg(long)]
    pub(crate) timestamps: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }
}
