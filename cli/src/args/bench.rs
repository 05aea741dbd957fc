//! Measuring.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Text;

#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// Leases granted, told and ended in a second, without processes
    Leases(BenchLeases),
    /// From the fire time of jobs due in one second to the start of their attempts
    Lateness {
        #[command(flatten)]
        site: BenchSite,
        /// How many jobs
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        jobs: u32,
        /// Start a process for each of them, instead of none
        #[arg(long)]
        processes: bool,
    },
    /// Attempts of /bin/true started and ended in a second, beside bare processes
    Spawn {
        #[command(flatten)]
        site: BenchSite,
        /// How long is measured
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
        seconds: u32,
    },
    /// What coordinator, agent and supervisor take that have nothing to do
    Idle {
        #[command(flatten)]
        site: BenchSite,
        /// How many jobs the coordinator knows
        #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        jobs: u32,
        /// How long is measured
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
        seconds: u32,
    },
    /// Next fires of usual schedules, and manifests parsed, on one core
    Next {
        /// How the answer is written
        #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
        output: Text,
    },
}

#[derive(Args, Debug)]
pub(crate) struct BenchLeases {
    #[command(flatten)]
    pub(crate) site: BenchSite,
    /// How many agents
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) agents: u32,
    /// How many attempts each agent holds at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: u32,
    /// How long is measured
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Do not measure beside it what PostgreSQL claims with SKIP LOCKED, where it
    /// is installed
    #[arg(long)]
    pub(crate) no_yardstick: bool,
}

/// Options of every benchmark that runs a Matins of its own.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchSite {
    /// Where the ledger of the measurement is kept, for as long as it takes: on the
    /// disk that is to hold a real one
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) dir: PathBuf,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Text,
}
