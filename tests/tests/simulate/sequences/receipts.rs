//! How an attempt's end reaches the ledger, early, late or never.

use ledger::RunState;
use protocol::attempt::Exit;

use super::{A, B, MINUTE, SECOND, fails_after, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::Job;
use crate::world::process::Behaviour;
use crate::world::{Held, World};

sequences! {
    receipt_in_old_epoch breaks without ReceiptHeldUntilAcked;
    late_receipt_before_regrant breaks without ReceiptCountsWithCurrentToken;
    late_receipt_after_regrant breaks without StaleReceiptChangesNothing;
    late_receipt_races_attach breaks without ReceiptBeforeRegrant;
    unsafe_killed_by_signal breaks without UnsafeUnknownGoesToPerson;
    unsafe_out_of_memory breaks without UnsafeUnknownGoesToPerson;
    unsafe_timed_out breaks without UnsafeUnknownGoesToPerson;
    unsafe_lost breaks without UnsafeUnknownGoesToPerson;
    three_drains breaks without InterruptionsAreFree;
}

/// The shard finishes while leaders change.
fn receipt_in_old_epoch(world: &mut World) -> Held {
    world.plan(&[works_for(10)]);
    world.begin_as_pair(1)?;
    world.put(&Job::on_demand("a/works"))?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.run_for(9_900)?;
    world.fail_over_after(SECOND, true)?;
    world.until_state(run_id, RunState::Succeeded, 2 * MINUTE)?;
    let processes = world.processes_of(run_id);
    world.require(processes == 1, "P2", "accepted once, not run again", || {
        format!("{processes} processes were started")
    });
    heal(world)
}

/// The lease expired, nothing was granted since, and the receipt arrives.
fn late_receipt_before_regrant(world: &mut World) -> Held {
    world.plan(&[works_for(10)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/debits");
    job.safe = false;
    job.takeover_s = 15;
    world.put(&job)?;
    let run_id = world.run_now("a/debits")?;
    world.until_process_on(A)?;
    world.cut(A, true, true);
    world.until_state(run_id, RunState::NeedsConfirmation, MINUTE)?;
    world.heal(A);
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    heal(world)
}

/// The same, after the shard was granted again.
fn late_receipt_after_regrant(world: &mut World) -> Held {
    world.plan(&[works_for(10), works_for(120)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.takeover_s = 15;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.add_host(4);
    world.until_attached()?;
    world.cut(A, true, true);
    world.until_process_on(B)?;
    world.heal(A);
    world.run_for(30 * SECOND)?;
    let stale = world
        .tables()
        .rows("attempts")
        .iter()
        .filter(|attempt| {
            crate::invariants::tables::number_or_null(attempt, "stale_outcome").is_some()
        })
        .count();
    world.require(
        stale == 1,
        "P2",
        "a late receipt is recorded as stale",
        || format!("{stale} attempts have a stale outcome"),
    );
    world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
    heal(world)
}

/// The lease expired and the backoff has passed, with no host to grant the shard to. Then its own
/// comes back, whose attach makes it a host with a free slot a moment before its receipt arrives.
fn late_receipt_races_attach(world: &mut World) -> Held {
    world.plan(&[works_for(10)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.takeover_s = 15;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.cut(A, true, true);
    world.run_until("the lease expires", MINUTE, |w| {
        w.truth.lease_of(run_id, 0).is_none()
    })?;
    world.run_for(10 * SECOND)?;
    world.heal(A);
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    let processes = world.processes_of(run_id);
    world.require(processes == 1, "P2", "accepted once, not run again", || {
        format!("{processes} processes were started")
    });
    heal(world)
}

fn unsafe_job(world: &mut World) -> Result<protocol::RunId, crate::world::Violation> {
    world.begin(2)?;
    let mut job = Job::on_demand("a/debits");
    job.safe = false;
    job.takeover_s = 15;
    job.timeout_s = 30;
    world.put(&job)?;
    world.run_now("a/debits")
}

fn goes_to_person(world: &mut World, run_id: protocol::RunId) -> Held {
    world.run_for(2 * MINUTE)?;
    let state = world.state_of(run_id);
    world.require(
        state == Some(RunState::NeedsConfirmation),
        "P2",
        "an unknown end of an unsafe job goes to a person",
        || format!("{run_id} is {state:?}"),
    );
    heal(world)
}

/// An attempt of a job that must not run twice is killed from outside.
fn unsafe_killed_by_signal(world: &mut World) -> Held {
    world.plan(&[fails_after(5, Exit::Signal(9)), works_for(5)]);
    let run_id = unsafe_job(world)?;
    goes_to_person(world, run_id)
}

/// The kernel kills a child for memory, and the program around it exits as after any failure.
fn unsafe_out_of_memory(world: &mut World) -> Held {
    let starved = Behaviour {
        out_of_memory: true,
        ..fails_after(5, Exit::Code(1))
    };
    world.plan(&[starved, works_for(5)]);
    let run_id = unsafe_job(world)?;
    goes_to_person(world, run_id)
}

fn unsafe_timed_out(world: &mut World) -> Held {
    world.plan(&[works_for(300), works_for(5)]);
    let run_id = unsafe_job(world)?;
    goes_to_person(world, run_id)
}

fn unsafe_lost(world: &mut World) -> Held {
    world.plan(&[works_for(25), works_for(5)]);
    let run_id = unsafe_job(world)?;
    world.run_for(5 * SECOND)?;
    let host = (A..=B)
        .find(|&host| !world.alive_on(host).is_empty())
        .expect("it runs");
    world.cut_power(host);
    goes_to_person(world, run_id)
}

/// A shard is interrupted by three drains of its host.
fn three_drains(world: &mut World) -> Held {
    world.plan(&[works_for(60)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.retries = 2;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    for _ in 0..3 {
        world.until_process_on(A)?;
        world.run_for(5 * SECOND)?;
        world.ask_supervisor_to_stop(A);
        world.run_until("the process is gone", 10 * SECOND, |w| {
            w.alive_on(A).is_empty()
        })?;
    }
    world.until_state(run_id, RunState::Succeeded, 5 * MINUTE)?;
    heal(world)
}
