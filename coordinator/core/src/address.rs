//! The address that follows the leader.
//!
//! People and programs reach the active coordinator by one address. What must never happen is that
//! it stays behind on a machine that leads no longer, above all on one that hangs and can do nothing
//! about it. So it is held as a lease is, three times over:
//!
//! ```text
//!  quorum ──confirms──▶ Holder ──"hold until D"──▶ Keeper ──put, good for 2 s──▶ kernel
//!                       coordinator, no privilege  small, may change addresses   forgets by itself
//! ```
//!
//! 1. The [`Holder`] says "hold until D" only on a quorum round that it began itself, and D counts
//!    from the beginning of that round. By D nobody else can have been elected ([`Pace::of`]).
//! 2. The [`Keeper`] takes no D that has passed or lies far ahead. It removes the address at D, and
//!    when the coordinator's connection ends.
//! 3. The kernel is told how long the address is good ([`PUT_GOOD_FOR`]) with every put, and drops it
//!    when the keeper, or everything, is killed or stopped.
//!
//! What was stopped and wakes acts on no old word: the shells look at the boot clock right before
//! every write and every call, and the keeper looks once more after it.
//!
//! Nothing safe rests on the address. It is for finding the leader, not for being it.

mod holder;
mod keeper;

use std::net::IpAddr;

use protocol::{BootMs, DurationMs};
use serde::{Deserialize, Serialize};

pub use holder::{Holder, HolderAction, Pace, Trouble};
pub use keeper::{Action, Keeper, Link, Put, Refusal};

/// How long the kernel keeps an address that is not put again. It counts in whole seconds, and is up
/// to a quarter of one early or late.
pub const PUT_GOOD_FOR: DurationMs = DurationMs::from_secs(2);

/// How far ahead a hold may reach. More is a mistake of whoever says so.
pub const HOLD_MAX: DurationMs = DurationMs::from_secs(2);

/// From coordinator to keeper: one JSON object a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Word {
    /// Put the addresses, and keep them until then on the boot clock of this machine.
    Hold { until: BootMs },
    /// Remove them now.
    Release,
}

/// From keeper to coordinator: at the beginning, after every [`Word`], and when it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub interface: String,
    pub addresses: Vec<IpAddr>,
    /// All of them are where they belong.
    pub holds: bool,
    /// Why they are not, or would not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// Why this machine can hold no address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fault {
    #[error("the interface has no carrier: its cable or switch is gone")]
    NoCarrier,
    #[error("the interface is set down")]
    Down,
    #[error("there is no such interface")]
    Missing,
    #[error("the interface is no Ethernet, so nobody could be told where the address is")]
    NotEthernet,
    #[error("the kernel refuses {address}: {what}")]
    Refused { address: IpAddr, what: String },
}
