//! Classes of hosts.

use std::path::PathBuf;

use clap::Args;
use protocol::{AgentName, ClassName};

use super::Asking;
use crate::complete;

#[derive(Args, Debug)]
pub(crate) struct Classes {
    /// This class alone, with its rules and its hosts; with --agent or --here the exit
    /// status is 1 where the host is not in it
    #[arg(value_name = "CLASS", conflicts_with = "facts")]
    pub(crate) class: Option<ClassName>,
    /// How this host stands to the classes, and why
    #[arg(long, value_name = "HOST", conflicts_with_all = ["here", "file", "facts"], add = complete::agents())]
    pub(crate) agent: Option<AgentName>,
    /// How this machine stands to the classes, without asking a coordinator: what its
    /// kernel and its time service tell
    #[arg(long, conflicts_with = "facts")]
    pub(crate) here: bool,
    /// With --here, the directory whose disk is meant; where it is that of an agent, or of one in
    /// `agent` below, what that has measured counts too
    #[arg(
        long,
        value_name = "DIR",
        requires = "here",
        default_value = "/var/lib/matins"
    )]
    pub(crate) disk: PathBuf,
    /// Read and check this class file, without asking a coordinator
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    pub(crate) file: Option<PathBuf>,
    /// List the facts that a rule can name
    #[arg(long)]
    pub(crate) facts: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}
