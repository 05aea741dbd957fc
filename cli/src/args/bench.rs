//! Measuring.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Child, Text, Timers};

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
    /// From the leader's SIGKILL to the first lease of the next, in a group of three
    Failover {
        #[command(flatten)]
        rounds: BenchRounds,
        /// Do not measure beside it what etcd and keepalived do, where they are
        /// installed
        #[arg(long)]
        no_yardstick: bool,
    },
    /// How long no lease is granted while the lead is handed over, in a group of three
    Handover(BenchRounds),
    /// What many agents take of a leader, and how soon all are back at the next
    Connections {
        #[command(flatten)]
        site: BenchSite,
        /// How many agents
        #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
        agents: u32,
        /// How long is measured
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
        seconds: u32,
    },
    /// Many agents in one process, for the others
    #[command(hide = true)]
    Fleet(BenchFleet),
    /// What `hardware --probe` measures, beside fio, sysbench, stress-ng and STREAM's triad
    Hardware {
        #[command(flatten)]
        site: BenchSite,
        /// How many pairs of each
        #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
    },
    /// Next fires of usual schedules, and manifests parsed, on one core
    Next {
        /// How the answer is written
        #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
        output: Text,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Voters {
    #[default]
    #[value(name = "1")]
    One,
    #[value(name = "3")]
    Three,
}

/// What is done again and again to a group.
#[derive(Args, Debug)]
pub(crate) struct BenchRounds {
    #[command(flatten)]
    pub(crate) site: BenchSite,
    /// How often
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// How soon a lost leader is noticed
    #[arg(long, value_enum, value_name = "PROFILE", default_value_t)]
    pub(crate) timers: Timers,
}

#[derive(Args, Debug)]
pub(crate) struct BenchFleet {
    /// Directory of the measurement
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Number of the first agent
    #[arg(long, value_name = "N")]
    pub(crate) first: u32,
    /// How many agents
    #[arg(long, value_name = "N")]
    pub(crate) agents: u32,
    /// Where a coordinator listens for agents
    #[arg(long = "coordinator", value_name = "HOST:PORT", required = true)]
    pub(crate) coordinators: Vec<String>,
    #[command(flatten)]
    pub(crate) child: Child,
}

#[derive(Args, Debug)]
pub(crate) struct BenchLeases {
    #[command(flatten)]
    pub(crate) site: BenchSite,
    /// How many control machines keep the log: one, or a group of three
    #[arg(long, value_enum, value_name = "N", default_value_t)]
    pub(crate) voters: Voters,
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
