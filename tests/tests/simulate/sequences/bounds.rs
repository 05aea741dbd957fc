//! Outages, damage and want of hosts: what is bounded, and what goes to a person.

use ledger::RunState;
use ledger::command::Command;

use super::{A, FIRST, MINUTE, OTHER, SECOND, alert_with, is_fire, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::{number, text};
use crate::world::people::{self, Job};
use crate::world::process::Behaviour;
use crate::world::{Held, World};

sequences! {
    outage_12h breaks without MissedFiresBecomeOneGap;
    outage_12h_in_a_group breaks without RunAndWatermarkTogether;
    poison_row breaks without PoisonStaysAlone;
    poison_row_of_runs breaks without RefusedRests;
    unplaceable breaks without UnplaceableGoesToPerson;
    disk_full_agent breaks without RetriedElsewhere;
    process_that_cannot_be_killed breaks without TimeoutBoundsLease;
}

const JOBS: usize = 500;

/// Late fires of each that are caught up with.
const CAUGHT_UP: u32 = 3;

/// Codes of alerts.
const GIVEN_UP: i64 = 4;

/// Code of the trigger.
const CATCH_UP: i64 = 1;

/// Twelve hours down with minute jobs, and a crash in the middle of deciding about them.
fn outage_12h(world: &mut World) -> Held {
    world.begin(4)?;
    put_many(world)?;
    world.crash_leader(world.front, true);
    world.run_for(12 * 60 * MINUTE)?;
    world.start_leader();
    until_deciding(world)?;
    world.restart_leader_after(SECOND, false)?;
    require_one_decision_a_job(world)?;
    heal(world)
}

/// The same of two machines that were without power. Of those the one that decides crashes in the middle of it:
/// about every other job its decision has reached the voters, and the other machine goes on from there.
fn outage_12h_in_a_group(world: &mut World) -> Held {
    world.begin_as_pair(4)?;
    put_many(world)?;
    world.reboot_control(OTHER, true);
    world.reboot_control(FIRST, true);
    world.call_off_election();
    world.run_for(12 * 60 * MINUTE)?;
    world.start_coordinator(OTHER);
    world.elect(FIRST);
    world.withhold = Some(|c| matches!(c, Command::Fire(fire) if fire.job_id.0 % 2 == 0));
    until_deciding(world)?;
    world.reboot_control(FIRST, true);
    world.withhold = None;
    world.until_led_by(OTHER, 5 * SECOND)?;
    world.start_coordinator(FIRST);
    require_one_decision_a_job(world)?;
    crate::invariants::audit(world)
}

fn put_many(world: &mut World) -> Held {
    world.plan(&[works_for(1)]);
    for job in 0..JOBS {
        let mut job = Job::every_minute(&format!("m/job-{job}"));
        job.overlap = "allow";
        job.catch_up = (CAUGHT_UP, 1);
        world.put(&job)?;
    }
    world.holds()
}

fn until_deciding(world: &mut World) -> Held {
    world.run_until("deciding begins", MINUTE, |w| {
        let committed = w.alerts(GIVEN_UP);
        0 < committed
            || w.leader()
                .is_some_and(|leader| leader.has_on_its_way(is_fire))
    })
}

fn require_one_decision_a_job(world: &mut World) -> Held {
    world.run_for(30 * SECOND)?;
    let tables = world.tables();
    let (gaps, alerts) = (tables.rows("gaps").len(), world.alerts(GIVEN_UP));
    let runs = tables.rows("runs").iter();
    let caught_up = runs
        .filter(|run| number(run, "trigger") == CATCH_UP)
        .count();
    world.require(
        gaps == JOBS && alerts == JOBS && caught_up == JOBS * CAUGHT_UP as usize,
        "P7",
        "one gap and one alert a job, and the newest runs",
        || format!("{gaps} gaps, {alerts} alerts, {caught_up} caught up with, for {JOBS} jobs"),
    );
    world.holds()
}

/// One job's manifest cannot be read any more.
fn poison_row(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/good"))?;
    world.put(&Job::every_minute("a/poisoned"))?;
    world.run_for(70 * SECOND)?;
    let poisoned = world.job("a/poisoned").job_id;
    world.crash_leader(world.front, true);
    world.damage_manifest(poisoned);
    world.start_leader();
    world.run_for(3 * MINUTE)?;
    let told = alert_with(&world.tables(), "a/poisoned").is_some();
    world.require(told, "P1", "a job that cannot be read is told of", || {
        "no alert names it".to_owned()
    });
    let fires = world.fires_of("a/good").len();
    world.require(fires >= 4, "P1", "everything else fires", || {
        format!("{fires} fires of the other job in four minutes")
    });
    crate::invariants::audit(world)
}

/// The ledger takes no change of one job's runs any more: nothing of them can be granted, skipped
/// or given to a person.
fn poison_row_of_runs(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/good"))?;
    let mut job = Job::every_minute("a/poisoned");
    job.overlap = "queue";
    job.start_deadline_s = Some(30);
    world.put(&job)?;
    world.run_for(70 * SECOND)?;
    let poisoned = world.job("a/poisoned").job_id;
    world.crash_leader(world.front, true);
    world.damage_runs(poisoned);
    world.start_leader();
    world.run_past_minute(0)?;
    let before = world.log.len();
    world.run_for(3 * SECOND)?;
    let commands = world.log.len() - before;
    world.require(commands < 60, "P7", "no core runs in circles", || {
        format!("{commands} commands in three seconds")
    });
    world.run_for(4 * MINUTE)?;
    let tables = world.tables();
    let told = alert_with(&tables, "the row is damaged").is_some();
    world.require(told, "P1", "a run that cannot go on is told of", || {
        "no alert says so".to_owned()
    });
    let fires = world.fires_of("a/good").len();
    world.require(fires >= 5, "P1", "everything else fires", || {
        format!("{fires} fires of the other job in six minutes")
    });
    crate::invariants::audit(world)
}

/// No host can take the shard.
fn unplaceable(world: &mut World) -> Held {
    world.start_leader();
    world.run_for(SECOND)?;
    let mut job = Job::every_minute("a/nowhere").at("1 * * * *");
    job.start_deadline_s = Some(60);
    world.put(&job)?;
    world.run_for(4 * MINUTE)?;
    let tables = world.tables();
    let run = &tables.rows("runs")[0];
    let (state, reason) = (number(run, "state"), text(run, "reason").to_owned());
    let (run_id, _) = world.truth.runs.iter().next().expect("it fired");
    let asks = world.state_of(*run_id) == Some(RunState::NeedsConfirmation);
    world.require(
        asks && reason.contains("no host"),
        "P7",
        "what nobody can take goes to a person with the report",
        || format!("state {state}, reason {reason:?}"),
    );
    heal(world)
}

/// The kernel does not let go of a process at its time-out, and its host beats on.
fn process_that_cannot_be_killed(world: &mut World) -> Held {
    world.plan(&[
        Behaviour {
            dies_of_term_ms: None,
            stuck_ms: 10 * MINUTE,
            ..works_for(3_600)
        },
        works_for(5),
    ]);
    world.begin(2)?;
    let mut job = Job::on_demand("a/hangs");
    job.timeout_s = 20;
    job.takeover_s = 15;
    world.put(&job)?;
    let run_id = world.run_now("a/hangs")?;
    world.until_state(run_id, RunState::Succeeded, 4 * MINUTE)?;
    heal(world)
}

/// A grant is on its way when its run is cancelled: what the ledger then refuses is of what is over,
/// and nothing of that is kept.
#[test]
fn refused_after_the_end() {
    let scenario = |world: &mut World| {
        world.begin(1)?;
        world.put(&Job::on_demand("a/works"))?;
        world.withhold = Some(|command| matches!(command, Command::Grant(_)));
        let run_id = world.run_now("a/works")?;
        world.must(people::cancel(run_id))?;
        world.until_state(run_id, RunState::Cancelled, MINUTE)?;
        world.release_withheld();
        world.run_for(SECOND)?;
        crate::invariants::indexes::compare(world);
        world.holds()
    };
    let mut world = World::new(1, protocol::Rules::all(), true);
    if let Err(violation) = scenario(&mut world) {
        panic!("{violation}\n{}", world.journal().join("\n"));
    }
}

/// A host's disk is full: nothing can be started there.
fn disk_full_agent(world: &mut World) -> Held {
    world.begin(2)?;
    world.hosts[A].disk_full = true;
    world.put(&Job::on_demand("a/works"))?;
    let run_id = world.run_now("a/works")?;
    world.until_state(run_id, RunState::Succeeded, 2 * MINUTE)?;
    heal(world)
}
