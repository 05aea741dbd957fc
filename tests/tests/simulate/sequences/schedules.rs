//! Manifests that change, jobs that go and come back, at the minute of a fire.

use ledger::RunState;

use super::{MINUTE, SECOND, is_fire, sequences};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, delete};
use crate::world::process::Behaviour;
use crate::world::{Held, World};

sequences! {
    version_between breaks without FireComparesAndSwaps;
    version_drops_owed breaks without PutSettlesOwedInstants;
    rename breaks without PutSettlesOwedInstants;
    delete_recreate breaks without Tombstones;
}

/// The leader computes a fire with one version; the clock is steered back a little; the next
/// version, which does not name that instant, is committed first.
fn version_between(world: &mut World) -> Held {
    world.begin(1)?;
    let job = Job::every_minute("a/moves");
    world.put(&job)?;
    world.withhold = Some(is_fire);
    world.run_past_minute(100)?;
    world.step_clock(-900);
    world.put(&job.at("15,45 * * * *"))?;
    world.release_withheld();
    world.run_for(20)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// The next version no longer names an instant that is due and not yet fired.
fn version_drops_owed(world: &mut World) -> Held {
    world.begin(1)?;
    let job = Job::every_minute("a/moves");
    world.put(&job)?;
    world.tick_late_ms = 500;
    world.run_past_minute(50)?;
    world.put(&job.at("15,45 * * * *"))?;
    world.run_for(20 * SECOND)?;
    let fires = world.fires_of("a/moves");
    world.require(
        fires.len() == 1 && fires[0].1 == RunState::Succeeded,
        "P1",
        "what the old version owed is settled",
        || format!("{fires:?}"),
    );
    heal(world)
}

/// The job is renamed in the minute of its fire: one of the two names fires.
fn rename(world: &mut World) -> Held {
    world.begin(1)?;
    let job = Job::every_minute("a/before");
    world.put(&job)?;
    world.tick_late_ms = 500;
    world.run_past_minute(50)?;
    world.put(&Job {
        renamed_from: Some(job.name),
        ..Job::every_minute("a/after")
    })?;
    world.run_for(20 * SECOND)?;
    let fires = world.fires_of("a/after");
    world.require(fires.len() == 1, "P1", "one of the two names fires", || {
        format!("{fires:?}")
    });
    heal(world)
}

/// Deleted and made again in the minute of a fire, while the clock is steered back a little.
fn delete_recreate(world: &mut World) -> Held {
    world.plan(&[Behaviour::succeeds_after(20)]);
    world.begin(1)?;
    let job = Job::every_minute("a/again");
    world.put(&job)?;
    world.run_past_minute(200)?;
    let run_id = *world.truth.runs.keys().next().expect("it fired");
    world.until_state(run_id, RunState::Succeeded, SECOND)?;
    world.step_clock(-900);
    world.must(delete("a/again"))?;
    world.put(&job)?;
    world.run_for(2 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}
