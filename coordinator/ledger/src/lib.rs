//! The durable truth: what was expected, what ran, who holds which lease.
//!
//! The ledger is a SQLite database changed in one way only: a batch of typed [`Command`]s is
//! applied in log order, one transaction a batch. Applying is synchronous, deterministic and
//! total. It reads no clock (the time comes with the [`Proposal`]), draws no random number,
//! evaluates no schedule (the proposer did, and `apply` re-checks the claim against the version
//! and watermark it meets) and cannot panic; a command that does not fit the state it meets is
//! answered with a [`Refusal`], which is an outcome like any other.
//!
//! **The state is the tables, nothing beside them.** What the scheduler keeps in memory is a
//! [`WorkingSet`]: loaded from the tables at start, and kept up by the [`Change`]s (after-images
//! of rows) that every outcome carries. The two must always be equal; the simulation checks it.
//!
//! [`Store::propose`] is the whole interface for writing where one machine keeps the ledger for
//! itself. Where a group keeps it, a replicated log takes its place: [`log`] is that log's file,
//! [`Store::apply`] applies its entries, [`snapshot`] copies the whole.

mod admission;
mod again;
mod answers;
mod apply;
pub mod backup;
mod codes;
pub mod command;
mod conditions;
mod decisions;
mod ended;
mod expectation;
mod lease_times;
pub mod log;
mod meta;
mod outcome;
mod overlap;
mod pages;
#[cfg(any(test, feature = "power-cuts"))]
pub mod power;
mod predecessors;
mod preview;
mod reader;
pub mod replica;
mod rows;
mod schema;
mod seen;
mod settle;
pub mod snapshot;
pub mod sql;
mod store;
mod tables;
#[cfg(test)]
mod testing;
pub mod wal;
mod working_set;

pub use command::{COMMANDS_VERSION, Command, Proposal};
pub use lease_times::LeaseTimes;
pub use outcome::{Change, Done, Outcome, Owed, PutKind, Refusal};
pub use pages::{
    AlertFilter, AuditFilter, JobFilter, Page, ROWS_MAX, RegisteredProfile, RunCursor, RunFilter,
};
pub use preview::{PutPreview, Standing};
pub use reader::{Reader, ReaderError};
pub use rows::{
    AgentRow, BackupRow, Bar, Blocker, Cordon, JobRow, Lease, Namespace, ProfileRow, ResourceRow,
    RunRow, RunState, SeenClock, ShardRow, ShardState, VersionRow, Wait,
};
pub use seen::{AttemptSeen, JobSeen, RunSeen, SEEN_ATTEMPTS_MAX, SEEN_RUNS_MAX};
pub use store::{Store, StoreError};
pub use tables::token::{RevokedToken, TokenRow};
pub use working_set::{Tally, WorkingSet};
