//! The group is lost, and its ledger goes on from a backup. The hosts, and what ran on them, have gone
//! on without it.

use ledger::RunState;
use ledger::command::Command;

use super::{A, B, MINUTE, SECOND, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::{Row, number};
use crate::world::people::Job;
use crate::world::restore::Backup;
use crate::world::{Held, Violation, World};

sequences! {
    restore breaks without RestoreRaisesGeneration;
    restore_twice breaks without RestoreRaisesGeneration;
    restore_fires_nothing_again breaks without RestoredScheduleIsUnknown;
    restore_with_open_runs breaks without RestoredRunsGoToPerson;
    restore_before_late_receipt breaks without RestoreOvertakesReceipts;
    restore_beside_a_cut_off_host breaks without RestoreHoldsGrants;
}

/// Codes of the ledger's tables.
const UNKNOWN_GAP: i64 = 3;
const RESTORED_ALERT: i64 = 17;
const UNKNOWN_ALERT: i64 = 18;

/// A job that may run twice, on two hosts, for some minutes before the backup and some after.
fn history(world: &mut World) -> Result<Backup, Violation> {
    world.plan(&[works_for(20)]);
    world.begin(2)?;
    world.put(&Job {
        catch_up: (10, 1),
        ..Job::every_minute("a/each")
    })?;
    world.run_for(5 * MINUTE)?;
    let backup = world.take_backup();
    world.run_for(20 * MINUTE)?;
    Ok(backup)
}

/// The group is lost, and its hosts find the one that goes on from the backup.
fn goes_on_from(world: &mut World, backup: Backup) -> Held {
    world.restore(backup);
    world.start_leader();
    world.until_attached()
}

/// The group is lost while things run; the hosts attach to the restored one, whose tokens, epochs and
/// sessions all lie above what they have seen.
fn restore(world: &mut World) -> Held {
    let backup = history(world)?;
    world.run_past_minute(5 * SECOND)?;
    world.restore(backup);
    world.run_for(30 * SECOND)?;
    world.start_leader();
    world.until_attached()?;
    let granted = world.truth.grants.len();
    world.run_for(15 * MINUTE)?;
    let early = world.truth.grants.len() - granted;
    world.require(
        early == 0,
        "P2",
        "a restored ledger grants nothing for as long as a lease lasts",
        || format!("{early} leases were granted"),
    );
    told_of_everything(world);
    world.until_process_on(A)?;
    heal(world)
}

fn told_of_everything(world: &mut World) {
    let unknown = world.alerts(UNKNOWN_ALERT) + world.alerts(RESTORED_ALERT);
    let tables = world.tables();
    let of_doubt = |gap: &&Row| number(gap, "reason") == UNKNOWN_GAP;
    let gaps: Vec<_> = tables.rows("gaps").iter().filter(of_doubt).collect();
    let held: i64 = gaps.iter().map(|gap| number(gap, "count")).sum();
    let data = format!("{unknown} alerts, {gaps:?}");
    world.require(
        unknown == 2 && held >= 20,
        "P1",
        "what nobody knows since a backup is a gap, and told of",
        || data,
    );
}

/// The same backup is restored twice, an hour apart.
fn restore_twice(world: &mut World) -> Held {
    let backup = history(world)?;
    for _ in 0..2 {
        goes_on_from(world, backup)?;
        world.run_for(60 * MINUTE)?;
    }
    heal(world)
}

/// What has fired since the backup fires no second time, although its job catches up.
fn restore_fires_nothing_again(world: &mut World) -> Held {
    let backup = history(world)?;
    goes_on_from(world, backup)?;
    world.run_for(MINUTE)?;
    heal(world)
}

/// A run that is ready in the backup has been carried out since, and a second time does harm.
fn restore_with_open_runs(world: &mut World) -> Held {
    world.plan(&[works_for(20)]);
    world.begin(1)?;
    world.put(&Job {
        safe: false,
        ..Job::on_demand("a/pays")
    })?;
    world.withhold = Some(|command| matches!(command, Command::Grant(_)));
    let run_id = world.run_now("a/pays")?;
    let backup = world.take_backup();
    world.withhold = None;
    world.release_withheld();
    world.until_state(run_id, RunState::Succeeded, 2 * MINUTE)?;
    goes_on_from(world, backup)?;
    world.run_for(20 * MINUTE)?;
    let state = world.state_of(run_id);
    world.require(
        state == Some(RunState::NeedsConfirmation),
        "P2",
        "what was open in a backup goes to a person",
        || format!("{run_id} is {state:?}"),
    );
    heal(world)
}

/// A host is cut off while it works, and the shard is granted elsewhere; the ledger of before that knows
/// only of the first, and hears of its success.
fn restore_before_late_receipt(world: &mut World) -> Held {
    world.plan(&[works_for(30), works_for(600)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.takeover_s = 60;
    job.timeout_s = 900;
    world.put(&job)?;
    world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.run_for(5 * SECOND)?;
    let backup = world.take_backup();
    world.cut(A, true, true);
    world.add_host(4);
    world.until_process_on(B)?;
    world.restore(backup);
    world.heal(A);
    world.start_leader();
    world.until_attached()?;
    world.run_for(MINUTE)?;
    heal(world)
}

/// A host that does not find the restored group works on under a lease of which that knows nothing.
fn restore_beside_a_cut_off_host(world: &mut World) -> Held {
    world.plan(&[works_for(600)]);
    world.begin(1)?;
    world.put(&Job {
        takeover_s: 900,
        timeout_s: 1200,
        ..Job::every_minute("a/each")
    })?;
    let backup = world.take_backup();
    world.until_process_on(A)?;
    world.run_for(10 * SECOND)?;
    world.cut(A, true, true);
    world.restore(backup);
    world.add_host(4);
    world.start_leader();
    world.run_for(5 * MINUTE)?;
    heal(world)
}
