//! The control group: the machines that decide.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use protocol::{AgentName, ClusterId};

use super::Asking;
use super::serve::Joining;

#[derive(Subcommand, Debug)]
pub(crate) enum Cluster {
    /// Begin a cluster on this machine: its authority, and the identity of its first
    /// coordinator
    Init {
        /// Name of the cluster, stated in every certificate
        #[arg(long, value_name = "CLUSTER")]
        cluster: ClusterId,
        /// What this machine is to be called
        #[arg(long, value_name = "NAME")]
        name: AgentName,
        /// Directory that is to hold ca.pem, ca.key, cert.pem and key.pem
        #[arg(long, value_name = "DIR")]
        identity: PathBuf,
    },
    /// Get this machine the identity of a second coordinator or a witness, by a token
    /// that `matins token join` has made
    Join(Joining),
    /// Say who leads, who votes, who is behind, and what one more loss would mean
    Status {
        #[command(flatten)]
        asking: Asking,
    },
    /// Add the machine that answers at an address: a `matins coordinator --join` or a
    /// `matins witness` that waits
    Add {
        /// Where it listens for other control machines, such as c2.example:7410
        #[arg(value_name = "HOST:PORT")]
        address: String,
        #[command(flatten)]
        asking: Asking,
    },
    /// Take a machine out for ever; never give its number to another
    Remove {
        /// Its number, as `matins cluster status` says it
        #[arg(value_name = "NODE")]
        node: u64,
        #[command(flatten)]
        asking: Asking,
    },
    /// Hand the lead over to another coordinator
    Transfer {
        /// To whom [default: the coordinator that is least behind]
        #[arg(value_name = "NODE")]
        to: Option<u64>,
        #[command(flatten)]
        asking: Asking,
    },
}

/// How far each clock is ahead of that of the coordinator that leads, and how its own machine keeps it.
#[derive(Args, Debug)]
pub(crate) struct Clock {
    /// So many clocks, those that are furthest off [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) asking: Asking,
}
