//! The core over a real ledger in memory: every word in, every word out, and one clock.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

mod acks;
mod backups;
mod bench;
mod certificates;
mod clocks;
mod dispatch;
mod doubts;
mod expiry;
mod fires;
mod group;
mod health;
mod people;
mod receipts;
mod reigns;
mod requests;
mod sessions;
mod waiting;
