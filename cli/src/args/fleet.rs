//! Hosts and what they share.

use clap::{Args, Subcommand};
use protocol::{AgentName, ResourceName};

use super::{Asking, parse_reason};
use crate::complete;

#[derive(Args, Debug)]
pub(crate) struct Cordon {
    /// The agent, as its certificate names it
    #[arg(value_name = "HOST", add = complete::agents())]
    pub(crate) host: AgentName,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Uncordon {
    /// The agent, as its certificate names it
    #[arg(value_name = "HOST", add = complete::agents())]
    pub(crate) host: AgentName,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Drain {
    /// The agent, as its certificate names it
    #[arg(value_name = "HOST", add = complete::agents())]
    pub(crate) host: AgentName,
    /// Interrupt what runs there instead of waiting for its end; it starts elsewhere
    #[arg(long)]
    pub(crate) now: bool,
    /// With --now, interrupt also what a second run may harm: it goes to a person
    #[arg(long, requires = "now")]
    pub(crate) force: bool,
    /// Do not wait until nothing runs there any more
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Resource {
    /// Say how much there is of something that shards share
    Set {
        /// Its name, as manifests write it under `needs.uses`
        #[arg(value_name = "NAME", add = complete::resources())]
        name: ResourceName,
        /// How many units all shards that run may hold together
        #[arg(value_name = "CAPACITY")]
        capacity: u32,
        #[command(flatten)]
        asking: Asking,
    },
    /// Show it
    Get {
        #[arg(value_name = "NAME", add = complete::resources())]
        name: ResourceName,
        #[command(flatten)]
        asking: Asking,
    },
    /// Forget it; refused while a job in force uses it
    Delete {
        #[arg(value_name = "NAME", add = complete::resources())]
        name: ResourceName,
        #[command(flatten)]
        asking: Asking,
    },
}
