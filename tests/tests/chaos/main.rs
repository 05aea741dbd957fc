//! A control group of real processes, and what befalls it while its jobs write: machines that are
//! killed, stopped, cut off, filled up or wiped.
//!
//! Every trial ends the same way ([`end`]): all is healed, and then the diary, the results, the
//! ledgers and the journal of a client who noted every acknowledgement must agree.
#![allow(clippy::print_stdout)] // what a trial saw

#[path = "../machines/mod.rs"]
mod machines;

use machines::{
    cables, chance, client, control, evidence, faketime, fires, grounds, leftovers, misfortune,
    person, rng, site, timekeeping, usage, writers,
};

mod clocks;
mod cuts;
mod disks;
mod end;
mod failover;
mod journal;
mod kills;
mod ledgers;
mod mix;
mod restarts;
mod room;
mod smoke;
mod stalls;
mod time_service;
mod used;
mod versions;
