//! What the fleet carries.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use protocol::{DurationMs, WallMs};

use super::parse_length;
use crate::client::Target;
use crate::subject::parse_time;

#[derive(Args, Debug)]
pub(crate) struct Sizing {
    /// What was seen from this instant on [default: 30 days before --to]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) from: Option<WallMs>,
    /// What was seen before this instant, and where the simulated night begins [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) to: Option<WallMs>,
    /// A file of changes to lay beside the night as it would be: more hosts, a lost one, another
    /// volume
    #[arg(long, value_name = "FILE")]
    pub(crate) what_if: Option<PathBuf>,
    /// How long schedules fire in the simulated night, 35d at most
    #[arg(long, value_name = "LENGTH", value_parser = parse_length, default_value = "1d")]
    pub(crate) night: DurationMs,
    /// Draws other lengths of attempts from those that were seen
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Sheet,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// For people, for programs, for spreadsheets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sheet {
    /// For people, at 80 columns
    #[default]
    Table,
    /// For programs
    Json,
    /// For spreadsheets: a line a figure
    Csv,
}
