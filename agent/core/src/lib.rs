//! What a host decides, as two state machines without a clock, a socket or a process.
//!
//! [`Agent`] talks to the coordinator: it attaches, beats, accepts and refuses work, and computes
//! how long every attempt may live. [`Supervisor`] is the parent of the processes: it starts them,
//! enforces the deadlines it was given even when the agent is gone, and calls an attempt ended
//! only when nothing of it is alive. The two run in two processes so that either may die without
//! the other: an upgrade of the agent kills nothing, and a hung agent cannot leave a process
//! running past its lease.
//!
//! Inputs are `handle_*`, each with the time at which it is handled; outputs are `poll_action`
//! and `poll_timeout`. Shells turn actions into effects; the simulation links the same machines.

pub mod agent;
pub mod supervisor;

pub use agent::Agent;
pub use supervisor::Supervisor;
