//! What machines are made of.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use hardware::Tool;

use crate::output::Format;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Hardware {
    #[command(subcommand)]
    pub(crate) about: Option<AboutHardware>,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

/// This machine, by what its kernel, its drives, the tools of their controllers and its time service tell.
/// Nothing is written unless it is measured. Another machine, by copies of its files, which alone are read
/// then.
#[derive(Args, Debug)]
pub(crate) struct Machine {
    /// A directory with copies of /proc and /sys, to look there instead
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Measure processors, memory and the disk as well, in half a minute; writes at most
    /// 260 MiB and leaves no file
    #[arg(long, conflicts_with = "root")]
    pub(crate) probe: bool,
    /// Where a disk is measured: the one that is to hold a ledger or the files of jobs
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/tmp",
        requires = "probe"
    )]
    pub(crate) directory: PathBuf,
    /// Measure processors that are busy, too
    #[arg(long, requires = "probe")]
    pub(crate) force: bool,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AboutHardware {
    /// Say what the output of a tool tells of arrays, controllers, batteries, drives, memory, sensors
    /// or the clock
    Parse {
        /// What printed it
        #[arg(value_name = "KIND", value_parser = tools())]
        kind: Tool,
        /// The output, compressed or not; `-` is standard input. For cpu-root a tar or a directory with
        /// copies of /proc and /sys
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How the answer is written
        #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
        output: Format,
    },
}

fn tools() -> impl TypedValueParser<Value = Tool> {
    let names = PossibleValuesParser::new(Tool::ALL.map(Tool::name));
    names.map(|name| Tool::of_name(&name).expect("only names of tools are possible"))
}
