//! The control side: one process that fires jobs, grants shards to agents and answers people.
//!
//! Decisions are made in [`coordinator_core`], facts are kept in [`ledger`]; this crate gives
//! them threads, sockets and clocks.
//!
//! ```text
//!  agents ══QUIC══ reader/writer tasks ──▶ inputs ──▶ engine thread: Core ──▶ proposals
//!  people ──HTTP── handlers ─── requests ─▶   ▲              │                    │
//!                      │                      │           effects              committer
//!                      │                      └── outcomes ──┼──── Group: log.db, then Store
//!                      └──── read-only ── Readers            ▼                    │
//!                                            ▲        agents' queues          ledger.db
//!                                            └────────────────────────────────────┘
//! ```
//!
//! The engine thread takes one input after the other and never waits for a disk or a socket. The
//! committer writes what has come up since its last batch as the next one. An effect leaves only
//! after the outcome that caused it.
//!
//! **Invariant:** nothing is retried on the log or the ledger. An error there ends the process with
//! [`LEDGER_FAILED`], and the next start reads what is true.

pub mod address;
mod agents;
mod api;
mod authority;
mod backups;
mod class_file;
mod clock;
mod cluster;
mod committer;
pub mod consensus;
mod data_dir;
mod engine;
mod exit;
mod files;
mod fitness;
mod lead;
mod member;
mod members;
mod membership;
pub mod memory;
mod metrics;
mod narrate;
mod process;
mod quorum;
mod registration;
mod renewal;
mod roll;
mod roster;
mod run;
mod standing;
mod time_service;
mod token;
mod witness;

pub use backups::{
    BackupSchedule, MakeError, RestoreError, Restored, ShipError, back_up, check as check_backup,
    restore,
};
pub use class_file::{CLASS_FILE, ClassFile, ClassFileError};
pub use coordinator_core::clock::Thresholds;
pub use data_dir::{DataDirError, LEDGER_FILE};
pub use exit::LEDGER_FAILED;
pub use fitness::Fitness;
pub use membership::Membership;
pub use run::{CoordinatorError, Options, run, run_until};
pub use time_service::TimeService;
pub use token::TokenError;
pub use witness::{WitnessOptions, run_witness};
