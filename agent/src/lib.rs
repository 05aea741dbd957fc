//! The host side of Matins: the agent, which talks to the coordinator, and the supervisor, which
//! is the parent of the processes. Two programs of one crate, because they share a protocol, a
//! clock and a fate; what they decide is in [`agent_core`], and here is what they do.

mod clock;
pub mod supervisor;
