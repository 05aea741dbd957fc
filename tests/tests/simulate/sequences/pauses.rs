//! Jobs that a person keeps from firing, for a moment or a year.

use coordinator_core::RequestError;
use ledger::RunState;

use super::{MINUTE, SECOND, is_fire, sequences};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::number;
use crate::world::people::{Job, pause, resume};
use crate::world::{Held, World};

sequences! {
    pause_a_year breaks without ResumeSkipsThePast;
    pause_before_fire breaks without PauseJudgedInApply;
    version_drops_owed_while_paused breaks without PutSettlesOwedInstants;
    resume_in_a_step breaks without ClockGate;
}

const DAY: i64 = 24 * 60 * MINUTE;

/// A job of every second is paused for a year, and resumed.
fn pause_a_year(world: &mut World) -> Held {
    world.start_leader();
    world.run_for(SECOND)?;
    world.put(&Job::every_minute("a/seconds").at("@every 1s"))?;
    world.must(pause("a/seconds"))?;
    world.crash_leader(world.front, true);
    world.run_for(365 * DAY)?;
    world.start_leader();
    world.run_for(MINUTE)?;
    let fires = world.fires_of("a/seconds");
    world.require(fires.is_empty(), "P1", "a paused job does not fire", || {
        format!("{fires:?}")
    });
    let from = world.job("a/seconds").fired_through;
    world.must(resume("a/seconds"))?;
    let through = world.job("a/seconds").fired_through;
    let instants = (through.0 - from.0) / SECOND;
    let tables = world.tables();
    let counts: Vec<i64> = tables
        .rows("gaps")
        .iter()
        .map(|gap| number(gap, "count"))
        .collect();
    let alerts = tables.rows("alerts").len();
    world.require(
        counts == [instants] && alerts == 0,
        "P1",
        "what a pause has kept from firing is one gap, and nobody is alarmed by it",
        || format!("gaps of {counts:?}, expected {instants}, and {alerts} alerts"),
    );
    world.run_for(3 * SECOND)?;
    let fires = world.fires_of("a/seconds");
    world.require(
        !fires.is_empty() && fires.iter().all(|&(at, _)| at > through.0),
        "P1",
        "a resumed job fires from then on",
        || format!("resumed at {through}: {fires:?}"),
    );
    world.holds()
}

/// The fire is computed, and a person's pause is committed first.
fn pause_before_fire(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.withhold = Some(is_fire);
    world.run_past_minute(100)?;
    world.must(pause("a/minutely"))?;
    world.release_withheld();
    world.run_for(3 * MINUTE)?;
    let fires = world.fires_of("a/minutely");
    world.require(fires.is_empty(), "P1", "a paused job does not fire", || {
        format!("{fires:?}")
    });
    world.must(resume("a/minutely"))?;
    world.run_for(70 * SECOND)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// A new version is put while the job is paused: what the old one owed is told of all the same.
fn version_drops_owed_while_paused(world: &mut World) -> Held {
    world.begin(1)?;
    let job = Job::every_minute("a/moves");
    world.put(&job)?;
    world.run_past_minute(20 * SECOND)?;
    world.must(pause("a/moves"))?;
    world.run_for(5 * MINUTE)?;
    world.put(&job.at("15,45 * * * *"))?;
    world.run_for(MINUTE)?;
    world.must(resume("a/moves"))?;
    let fires = world.fires_of("a/moves");
    world.require(
        fires.len() == 1 && fires[0].1 == RunState::Succeeded,
        "P1",
        "a paused job does not fire",
        || format!("{fires:?}"),
    );
    crate::invariants::audit(world)?;
    heal(world)
}

/// A job is resumed while the clock is a day ahead: its watermark stays where it was.
fn resume_in_a_step(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.must(pause("a/minutely"))?;
    world.run_for(2 * MINUTE)?;
    world.step_clock(DAY);
    world.run_for(SECOND)?;
    let answer = world.ask(resume("a/minutely"))?;
    world.require(
        matches!(answer, Err(RequestError::ClockHeld { .. })),
        "P6",
        "no watermark moves while the clock is in doubt",
        || format!("{answer:?}"),
    );
    world.step_clock(-DAY);
    world.run_for(2 * MINUTE)?;
    world.must(resume("a/minutely"))?;
    world.run_for(2 * MINUTE)?;
    let fires = world.fires_of("a/minutely").len();
    world.require(fires >= 1, "P1", "a resumed job fires", || {
        "it does not".to_owned()
    });
    heal(world)
}
