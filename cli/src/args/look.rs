//! Commands that only look.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use ledger::command::AlertKind;
use protocol::{AgentName, DurationMs, JobName, RunId, RunState, Token, WallMs};

use super::{Asking, Text, parse_length};
use crate::client::{DATA_DEFAULT, Target};
use crate::complete;
use crate::subject::{RunRef, Subject, Thing, parse_time};
use crate::watch::Watching;

#[derive(Subcommand, Debug)]
pub(crate) enum Get {
    /// Jobs, when they fire next and how they ended last
    Jobs {
        /// Only of this namespace
        #[arg(long, short = 'n', value_name = "NAMESPACE")]
        namespace: Option<String>,
        /// Only those that a person has paused
        #[arg(long)]
        paused: bool,
        #[command(flatten)]
        limit: Limit,
        #[command(flatten)]
        listing: Listing,
    },
    /// Runs, newest first
    Runs {
        /// Only of this job
        #[arg(long, value_name = "JOB", add = complete::jobs())]
        job: Option<JobName>,
        /// Only of jobs of this namespace
        #[arg(long, short = 'n', value_name = "NAMESPACE", conflicts_with = "job")]
        namespace: Option<String>,
        /// Only those that ran on this host, if only in part
        #[arg(long, value_name = "HOST", add = complete::agents())]
        agent: Option<AgentName>,
        /// Only those with a fire time from this instant on
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        from: Option<WallMs>,
        /// Only those with a fire time before this instant
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        to: Option<WallMs>,
        /// Only in this state
        #[arg(long, value_name = "STATE", value_parser = RunState::ALL.map(RunState::as_str))]
        state: Option<String>,
        #[command(flatten)]
        limit: Limit,
        #[command(flatten)]
        listing: Listing,
    },
    /// Agents, their slots and what they run
    Agents {
        #[command(flatten)]
        listing: Listing,
    },
    /// What a person should know and is not over yet, newest first
    Alerts {
        /// Only of this job
        #[arg(long, value_name = "JOB", add = complete::jobs())]
        job: Option<JobName>,
        /// Only of jobs of this namespace
        #[arg(long, short = 'n', value_name = "NAMESPACE", conflicts_with = "job")]
        namespace: Option<String>,
        /// Only of this kind
        #[arg(long, value_name = "KIND", value_parser = alert_kinds())]
        kind: Option<String>,
        /// Those that are over too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        limit: Limit,
        #[command(flatten)]
        listing: Listing,
    },
    /// What people did, newest first
    Audit {
        /// Only to this job and its runs
        #[arg(long, value_name = "JOB", add = complete::jobs())]
        job: Option<JobName>,
        /// Only to this run
        #[arg(long, value_name = "RUN")]
        run: Option<RunId>,
        /// Only to this host
        #[arg(long, value_name = "HOST", add = complete::agents())]
        agent: Option<AgentName>,
        /// Only by this person
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        #[command(flatten)]
        limit: Limit,
        #[command(flatten)]
        listing: Listing,
    },
    /// Named resources that shards share, and how much of them is in use
    Resources {
        #[command(flatten)]
        listing: Listing,
    },
}

fn alert_kinds() -> PossibleValuesParser {
    let kinds = AlertKind::ALL.iter().map(|kind| kind.as_str());
    PossibleValuesParser::new(kinds)
}

/// Options of every list.
#[derive(Args, Clone, Debug)]
pub(crate) struct Listing {
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// At most so many
    #[arg(long = "limit", value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rows: u32,
}

#[derive(Args, Debug)]
pub(crate) struct Describe {
    /// A job, a run (`run-12`), the run of a job's fire time, or a host
    #[arg(value_name = "JOB|RUN|JOB@TIME|HOST", add = complete::subjects())]
    pub(crate) thing: Thing,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Why {
    /// A fire time of a job, or `JOB@latest` for its newest run; or a run (`run-12`)
    #[arg(value_name = "JOB@TIME|RUN", add = complete::runs())]
    pub(crate) run: RunRef,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Sql {
    /// One SELECT; without it the views and their columns are listed
    #[arg(value_name = "SELECT")]
    pub(crate) query: Option<String>,
    /// At most so many rows
    #[arg(long = "limit", value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rows: u32,
    /// How long it may take, such as 10s, at most 60s
    #[arg(long, value_name = "DURATION", value_parser = parse_sql_limit, default_value = "10s")]
    pub(crate) time_limit: DurationMs,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Rows,
    /// Data directory of the coordinator, or of `matins dev`: the ledger is read where it lies
    #[arg(long, value_name = "DIR", env = "MATINS_DATA", hide_env_values = true, default_value = DATA_DEFAULT)]
    pub(crate) data: PathBuf,
}

/// How rows of a query are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// For people, at 80 columns
    #[default]
    Table,
    /// For people, each row on one line
    Wide,
    /// An array of objects; of columns of one name, those after the first get a number (a, a_2)
    Json,
    /// Objects in blocks
    Yaml,
    /// With a line of names first, as RFC 4180 has it
    Csv,
}

fn parse_sql_limit(text: &str) -> Result<DurationMs, String> {
    const MOST: DurationMs = DurationMs(60_000);
    match parse_length(text)? {
        length if length > MOST => Err("at most 60s: while it reads, the ledger's log cannot be \
                                        shortened"
            .to_owned()),
        length => Ok(length),
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Logs {
    /// A job, of which its newest run is meant, a run (`run-12`), or the run of a
    /// job's fire time
    #[arg(value_name = "JOB|RUN|JOB@TIME", add = complete::subjects())]
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
    /// How the answer is written: json is one object a line
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Text,
    #[command(flatten)]
    pub(crate) target: Target,
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
