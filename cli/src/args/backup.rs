//! Backups, by hand: on the machine of a coordinator.

use std::path::PathBuf;

use clap::Args;

use super::{Text, parse_reason};
use crate::client::DATA_DEFAULT;

/// Works beside a coordinator that runs: the ledger is written to meanwhile.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// The file to be made
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "check",
        conflicts_with = "check"
    )]
    pub(crate) to: Option<PathBuf>,
    /// A backup to be read and compared with its seal, instead of making one
    #[arg(long, value_name = "FILE")]
    pub(crate) check: Option<PathBuf>,
    /// Data directory of the coordinator on this machine, or of `matins dev`
    #[arg(long, value_name = "DIR", env = "MATINS_DATA", hide_env_values = true, default_value = DATA_DEFAULT)]
    pub(crate) data: PathBuf,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Text,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) backup: PathBuf,
    /// Data directory of the coordinator that is to go on: nothing of a ledger may be
    /// in it; its `identity` may
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Text,
}
