//! What the coordinator decides: who fires, what waits, which host gets which shard, when an
//! acknowledgement may be given and when a lease may be taken away.
//!
//! [`Core`] is one state machine. Inputs come in through `handle_*` with the time at which they
//! arrived; what is to be done comes out through `poll_proposal` (commands for the ledger) and
//! `poll_effect` (words for agents and for people). It reads no clock, no file and no socket, so
//! a simulation can be its whole world.
//!
//! It *proposes*, the ledger *decides*: a proposal is computed from the [`ledger::WorkingSet`] as
//! this core last saw it, `apply` judges it again, and only the outcome has an effect. Between
//! proposal and outcome the thing in question is marked as in flight and left alone.
//!
//! | module | decides |
//! |---|---|
//! | [`trigger`] | what becomes of the instants between the watermark and now |
//! | [`clock`] | whether the wall clock may be believed |
//! | `yielding` | that a coordinator with a better clock leads instead |
//! | `successor` | to whom the lead is given |
//! | `group` | what of the control machines is told to a person |
//! | `catalogue` | what the stored manifests say, and which cannot be read |
//! | `waiting` | which waiting run the ledger is asked about again, and when |
//! | `queue` | which shards wait for a place, and since when |
//! | `line` | which of them is next |
//! | `fleet` | which hosts could take it |
//! | `pool` | which of many hosts has room, without asking each |
//! | [`dispatch`] | how it is said why a shard finds no place |
//! | `doubts` | what is told of a job that would find no place however long it waits |
//! | `firing` | when a job fires, and that it stands still |
//! | `fuse` | that a job fires too often, and that what is ready waits too long |
//! | `grants` | which host gets a shard, what is given up, and what is told |
//! | `health` | which host is cordoned because it does not fare well |
//! | `held` | nothing: it says how full each index is, for checks |
//! | `setbacks` | how long what the ledger refused is left alone |
//! | `sessions` | who is attached, on which connection, and that it is one process |
//! | `receipts` | which shards wait for a receipt that is to come |
//! | `acks` | when a heartbeat may be acknowledged |
//! | `expiry` | when a silent host's leases end |
//! | `alerts` | what a person is told at the beginning of a reign, and how often of what lasts |
//! | `backups` | when a person hears that the last backup is old |
//! | `certificates` | when a person hears that a certificate ends |
//! | `restored` | how long nothing is granted after a restore |
//! | `reminders` | when somebody who is asked is asked once more |
//! | `requests` | what people ask for |
//! | [`address`] | whether the address that people use may be on this machine |
//! | `shards` | how many shards there are, where the manifest leaves it to be computed |

mod acks;
pub mod address;
mod alerts;
mod backups;
mod catalogue;
mod certificates;
pub mod clock;
mod core;
pub mod dispatch;
mod doubts;
mod expiry;
mod firing;
mod fleet;
mod fuse;
mod grants;
mod group;
mod health;
mod held;
mod line;
mod pool;
mod queue;
mod receipts;
mod reminders;
mod requests;
mod restored;
mod sessions;
mod setbacks;
mod shards;
mod successor;
pub mod trigger;
mod waiting;
mod yielding;

pub use core::{Config, ConnId, Core, Effect, ProposalId, RequestId};
pub use doubts::Doubt;
pub use group::SeenMember;
pub use held::Held;
pub use requests::{Asked, Request, RequestError};
pub use successor::{Afterwards, Candidate, Chosen, NoSuccessor};
