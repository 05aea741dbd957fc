//! Commands about manifests and schedules.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use protocol::WallMs;

use super::{Asking, Text};
use crate::client::Target;
use crate::subject::parse_time;

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// A manifest file, or a directory whose *.yaml and *.yml are read, those below it too; may be
    /// repeated
    #[arg(long = "file", short = 'f', value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Delete the jobs of the same namespaces that are not in these files
    #[arg(long)]
    pub(crate) prune: bool,
    /// Only say what would be created, changed and deleted, and when it fires then
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Next {
    /// An expression in quotes, after `--` where it begins with a dash; or a job of
    /// the coordinator, such as `finance/reconcile`
    #[arg(value_name = "EXPR|JOB", required_unless_present = "files")]
    pub(crate) what: Option<String>,
    /// A manifest file, or a directory whose *.yaml and *.yml are read, those below it too; may be
    /// repeated
    #[arg(
        long = "file",
        short = 'f',
        value_name = "FILE|DIR",
        conflicts_with = "what"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// How an expression is read [default: vixie]
    #[arg(long, value_name = "DIALECT", value_enum, conflicts_with = "files")]
    pub(crate) dialect: Option<Dialect>,
    /// Zone of an expression, such as Asia/Shanghai [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "files")]
    pub(crate) timezone: Option<String>,
    /// Only fires after this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) after: Option<WallMs>,
    /// How many fires
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Say in words what the schedule does, and what may surprise
    #[arg(long)]
    pub(crate) explain: bool,
    /// How the answer is written: json is an array of instants in UTC, with
    /// --explain an object
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Text,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// How a cron expression is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// Five fields, as in a crontab
    Vixie,
    /// Six or seven fields, the second first, 1 is Sunday
    Quartz,
    /// Five fields, as in a CronJob
    #[value(alias = "k8s")]
    Kubernetes,
}

impl From<Dialect> for jobs::Dialect {
    fn from(dialect: Dialect) -> jobs::Dialect {
        match dialect {
            Dialect::Vixie => jobs::Dialect::Vixie,
            Dialect::Quartz => jobs::Dialect::Quartz,
            Dialect::Kubernetes => jobs::Dialect::Kubernetes,
        }
    }
}
