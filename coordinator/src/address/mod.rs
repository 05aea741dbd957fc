//! The address that follows the leader, on both sides of a local socket: [`hold`] is the
//! coordinator's, [`keep`] the process that may change addresses and does nothing else.
//!
//! When it may be here is decided in [`coordinator_core::address`], which says why it cannot stay
//! behind. The kernel is told by messages of our own making: they are two, and what there is
//! ready-made would bring more code into a privileged process than the rest of it.
//!
//! **Invariant:** between the look at the boot clock and what rests on it, a write or a call, there is
//! nothing that waits.

mod announce;
mod door;
mod hold;
mod interface;
mod keep;
mod leader;
mod netlink;

pub use coordinator_core::address::{Fault, Pace, Trouble};
pub use hold::{Hold, hold};
pub use keep::{KeeperError, KeeperOptions, keep, remove};
pub(crate) use leader::follow;
