//! Machines of a site, and what is done to them and asked of them: shared by the trials of
//! `real/` and those of `chaos/`.
//!
//! A [`site::Site`] is coordinators, agents and supervisors as processes of their own. Its jobs are
//! writers (`writer.py`) that write without a pause and do not stop because they are refused, so
//! that two processes of one shard, or a stale write that was let through, cannot hide:
//! [`evidence::Evidence`] finds them.
#![allow(dead_code)] // neither of the two uses all of it

pub(crate) mod cables;
pub(crate) mod chance;
pub(crate) mod client;
pub(crate) mod control;
pub(crate) mod evidence;
pub(crate) mod faketime;
pub(crate) mod fires;
pub(crate) mod grounds;
pub(crate) mod leftovers;
pub(crate) mod misfortune;
pub(crate) mod person;
#[path = "../simulate/rng.rs"]
#[allow(unreachable_pub)]
pub(crate) mod rng;
pub(crate) mod site;
pub(crate) mod timekeeping;
pub(crate) mod usage;
pub(crate) mod writers;
