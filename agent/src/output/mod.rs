//! What attempts have written, as the agent has to do with it: the tail that travels with a
//! receipt, the whole on a bulk stream when a person asks, and what becomes of it in the end.
//!
//! The supervisor's log writer writes; [`protocol::output`] is the form, [`layout`] the place. All
//! is read on threads of their own: a disk that hangs must cost a tail, not a heartbeat.

pub(crate) mod keeping;
pub(crate) mod layout;
mod reader;
mod removed;
mod serve;
mod tails;

pub(crate) use serve::serve;
pub(crate) use tails::Tails;
