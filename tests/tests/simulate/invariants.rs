//! What must hold in every world, one file a promise.
//!
//! Most checks hang on something that happens: a proposal, a commit, a process that starts, a
//! write. They compare it with what the world knows for itself. Some look at the whole after
//! every so many events, and [`at_rest`] reads the ledger as an auditor would.

pub mod indexes;
pub mod leases;
pub mod oracle;
pub mod p1_no_silence;
pub mod p2_no_twice;
pub mod p4_nothing_precious;
pub mod p6_clocks;
pub mod p7_bounded;
pub mod placement;
pub mod tables;

use ledger::{Outcome, Proposal};

use crate::world::{Held, World};
use tables::Tables;

const LOOK_EVERY: u64 = 16;
const COMPARE_EVERY: u64 = 256;
const COMPARE_EVERY_OF_A_JOB: u64 = 8;

/// A core has decided something.
pub fn on_propose(world: &mut World, leader: u64, proposal: &Proposal) {
    leases::on_propose(world, proposal);
    p1_no_silence::on_propose(world, leader, proposal);
    p6_clocks::on_propose(world, leader, proposal);
    p7_bounded::on_propose(world, proposal);
    placement::on_propose(world, proposal);
}

/// A command has been applied; the world's mirror is still that of before.
pub fn on_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    p2_no_twice::before_commit(world, proposal, outcome);
    leases::before_commit(world, proposal, outcome);
    p1_no_silence::before_commit(world, proposal, outcome);
    p6_clocks::before_commit(world, proposal, outcome);
    p7_bounded::before_commit(world, proposal, outcome);
    world.absorb(outcome);
    p2_no_twice::after_commit(world, proposal, outcome);
    placement::after_commit(world, proposal, outcome);
    p7_bounded::after_commit(world, outcome);
}

/// A process has started.
pub fn on_start(world: &mut World, pid: u64) {
    p2_no_twice::on_start(world, pid);
    p6_clocks::on_start(world, pid);
}

pub fn after_event(world: &mut World) {
    if world.events_handled.is_multiple_of(LOOK_EVERY) {
        leases::look(world);
    }
    // What is compared grows with the number of jobs, and so does what happens to them.
    let compare_every =
        COMPARE_EVERY.max(COMPARE_EVERY_OF_A_JOB * world.truth.set.jobs.len() as u64);
    if world.events_handled.is_multiple_of(compare_every) {
        indexes::compare(world);
        p7_bounded::look(world);
        placement::look(world);
        world.forget_dead_connections();
        world.forget_unheard();
    }
}

/// Reads the whole ledger. To be called at any moment; nothing need have come to rest.
pub fn audit(world: &mut World) -> Held {
    let tables = Tables::of(world);
    p1_no_silence::audit(world, &tables);
    p7_bounded::audit(world, &tables);
    indexes::compare(world);
    world.holds()
}
