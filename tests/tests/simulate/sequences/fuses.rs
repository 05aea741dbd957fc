//! Fuses: a job that fires too often, a backlog that grows old, and a herd that is neither.

use super::{MINUTE, SECOND, is_fire, sequences};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, resume};
use crate::world::{Held, World};

sequences! {
    flood breaks without FuseStopsFlood;
    old_backlog breaks without BacklogTold;
    midnight_herd breaks without RunAndWatermarkTogether;
}

/// Codes of alerts.
const FUSE_BLOWN: i64 = 14;
const BACKLOG_OLD: i64 = 15;

/// The ledger says that it has admitted a job's fires, and forgets them.
fn flood(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/floods"))?;
    world.put(&Job::every_minute("a/good"))?;
    world.run_for(70 * SECOND)?;
    world.forgets_fires_of = Some(world.job("a/floods").job_id);
    world.run_for(3 * MINUTE)?;
    let paused = world.job("a/floods").is_paused();
    world.require(paused, "P7", "a job that floods is stopped", || {
        "it goes on".to_owned()
    });
    let (told, fires) = (world.alerts(FUSE_BLOWN), world.fires_of("a/good").len());
    world.require(
        (told, fires) == (1, 4),
        "P7",
        "a person is told once, and everything else fires",
        || format!("{told} alerts, {fires} fires of the other job"),
    );
    world.forgets_fires_of = None;
    world.must(resume("a/floods"))?;
    world.run_for(2 * MINUTE)?;
    heal(world)
}

/// A shard may wait for three hours, and for one nobody takes it.
fn old_backlog(world: &mut World) -> Held {
    world.start_leader();
    world.run_for(SECOND)?;
    let mut job = Job::every_minute("a/waits").at("1 8 * * *");
    job.start_deadline_s = Some(3 * 3600);
    world.put(&job)?;
    world.run_for(58 * MINUTE)?;
    let early = world.alerts(BACKLOG_OLD);
    world.run_for(80 * MINUTE)?;
    let told = world.alerts(BACKLOG_OLD);
    world.require(
        (early, told) == (0, 1),
        "P7",
        "a backlog of more than an hour is told of once",
        || format!("{early} alerts before, {told} after an hour"),
    );
    heal(world)
}

/// Jobs that are due in the same second, and a coordinator that dies while it fires them.
fn midnight_herd(world: &mut World) -> Held {
    herd(world, 500)
}

fn herd(world: &mut World, jobs: usize) -> Held {
    world.begin(4)?;
    for job in 0..jobs {
        let mut job = Job::every_minute(&format!("h/job-{job}")).at("0 9 * * *");
        job.overlap = "queue";
        world.put(&job)?;
    }
    let midnight = world.now + 3_600_000 - world.now.rem_euclid(3_600_000);
    world.run_for(midnight - world.now - SECOND)?;
    world.run_until("the herd is on its way", 3 * SECOND, |w| {
        w.leader()
            .is_some_and(|leader| leader.has_on_its_way(is_fire))
    })?;
    world.restart_leader_after(SECOND, true)?;
    world.run_for(10 * MINUTE)?;
    let scheduled = world.truth.runs.values();
    let runs = scheduled.filter(|run| run.fire_time.0 == midnight).count();
    let blown = world.alerts(FUSE_BLOWN);
    world.require(
        (runs, blown) == (jobs, 0),
        "P1",
        "each of a herd fires once, and no fuse blows",
        || format!("{runs} runs of {jobs} jobs, {blown} fuses"),
    );
    crate::invariants::audit(world)
}

#[test]
#[ignore = "make test-full: ten thousand jobs in one second"]
fn ten_thousand_at_midnight() {
    let mut world = World::new(1, protocol::Rules::all(), false);
    if let Err(violation) = herd(&mut world, 10_000) {
        panic!("{violation}");
    }
}
