//! The host side of Matins: the agent, which talks to the coordinator, and the supervisor, which
//! is the parent of the processes. Two programs of one crate, because they share a protocol, a
//! clock and a fate; what they decide is in [`agent_core`], and here is what they do.

mod backoff;
mod chain;
mod clock;
mod coordinator_link;
mod data_directory;
mod flushes;
mod host;
mod load;
mod lock;
mod look;
mod looks;
mod noop;
mod output;
mod policy;
mod pretended;
mod registration;
mod renewal;
mod run;
mod scores;
pub mod supervisor;
mod supervisor_link;

pub use look::{stand_back, write_look};
pub use looks::Looking;
pub use noop::PRETENDED_FILE;
pub use policy::{POLICY_FILE, PolicyError, Problems};
pub use run::{Error, Options, Work, run};
pub use scores::{Measuring, ScoresError, kept_scores, measure_host};
