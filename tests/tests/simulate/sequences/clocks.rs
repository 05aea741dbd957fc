//! Clocks that are set, zones that change theirs, and coordinators that were away meanwhile.

use coordinator_core::RequestError;
use ledger::RunState;
use protocol::WallMs;
use protocol::attempt::Exit;

use super::{MINUTE, SECOND, fails_after, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, Misfire, put};
use crate::world::{Held, World};

sequences! {
    failover_lateness breaks without LateIsNotMissed;
    step_forward_25h breaks without ClockGate;
    step_back_2h breaks without BackoffOnBootClock;
    jump_over_minute breaks without InstantsFromWatermark;
    dst_gap breaks without InstantsFromWatermark;
    dst_fold breaks without InstantsFromWatermark;
    dst_fold_of_half_an_hour breaks without InstantsFromWatermark;
    dst_fold_of_ramadan breaks without InstantsFromWatermark;
}

const HOUR: i64 = 60 * MINUTE;

/// Every fire is 1.2 seconds late by a failover, and the job says `skip`.
fn failover_lateness(world: &mut World) -> Held {
    world.begin_as_pair(1)?;
    let mut job = Job::every_minute("a/skips");
    job.misfire = Misfire::Skip;
    world.put(&job)?;
    for _ in 0..3 {
        world.run_past_minute(-200)?;
        world.fail_over_after(1_400, true)?;
        world.run_for(20 * SECOND)?;
    }
    let fires = world.fires_of("a/skips");
    let all_ran = fires.iter().all(|&(_, state)| state == RunState::Succeeded);
    world.require(
        fires.len() == 3 && all_ran,
        "P1",
        "a fire that is merely late runs",
        || format!("{fires:?}"),
    );
    heal(world)
}

/// The leader's clock is 25 hours ahead for ten seconds, with an apply in it.
fn step_forward_25h(world: &mut World) -> Held {
    world.begin(1)?;
    let job = Job::every_minute("a/minutely");
    world.put(&job)?;
    world.run_for(90 * SECOND)?;
    world.step_clock(25 * HOUR);
    world.run_for(2 * SECOND)?;
    let answer = world.ask(put(&job.at("*/2 * * * *")))?;
    world.require(
        matches!(answer, Err(RequestError::ClockHeld(_))),
        "P6",
        "no watermark moves while the clock is in doubt",
        || format!("{answer:?}"),
    );
    world.run_for(8 * SECOND)?;
    world.step_clock(-25 * HOUR);
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// The clock is set back by two hours while a retry backs off.
fn step_back_2h(world: &mut World) -> Held {
    world.plan(&[fails_after(1, Exit::Code(1)), works_for(2)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/retries");
    job.backoff_s = vec![30];
    world.put(&job)?;
    let run_id = world.run_now("a/retries")?;
    world.run_for(10 * SECOND)?;
    world.step_clock(-2 * HOUR);
    world.until_state(run_id, RunState::Succeeded, 2 * MINUTE)?;
    heal(world)
}

/// The clock jumps over the minute of a fire.
fn jump_over_minute(world: &mut World) -> Held {
    world.begin(1)?;
    let mut job = Job::every_minute("a/minutely");
    job.late_after_s = 300;
    job.overlap = "queue";
    world.put(&job)?;
    world.run_past_minute(-SECOND)?;
    world.step_clock(3 * SECOND);
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// Jobs in zones that change their clocks; the coordinator is away for a minute at each change.
/// (job, cron, zone, expected fires from the first morning to the second).
type Expected = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

fn change_of_clock(world: &mut World, begin: &str, change: &str, expected: &[Expected]) -> Held {
    let at = |text: &str| WallMs::parse_rfc3339(text).expect("a good time").0;
    world.begin_at(at(begin));
    world.begin(1)?;
    for &(name, cron, zone, _) in expected {
        let mut job = Job::every_minute(name).at(cron);
        zone.clone_into(&mut job.timezone);
        job.late_after_s = 300;
        job.overlap = "queue";
        world.put(&job)?;
    }
    world.run_for(at(change) - world.now - 10 * SECOND)?;
    world.restart_leader_after(80 * SECOND, true)?;
    world.run_for(2 * HOUR)?;
    for &(name, _, _, times) in expected {
        let fires: Vec<i64> = world.fires_of(name).iter().map(|&(at, _)| at).collect();
        let wanted: Vec<i64> = times.iter().map(|time| at(time)).collect();
        world.require(
            fires == wanted,
            "P1",
            "every local time fires as often as it should",
            || {
                let shown = |times: &[i64]| {
                    times
                        .iter()
                        .map(|&t| WallMs(t).to_string())
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                format!(
                    "{name}: fired {}, expected {}",
                    shown(&fires),
                    shown(&wanted)
                )
            },
        );
    }
    world.holds()
}

/// New York, 14 March 2027: 02:00 becomes 03:00 at 07:00Z.
fn dst_gap(world: &mut World) -> Held {
    change_of_clock(
        world,
        "2027-03-14T06:10:00Z",
        "2027-03-14T07:00:00Z",
        &[
            (
                "gap/fixed",
                "30 2 * * *",
                "America/New_York",
                &["2027-03-14T07:00:00Z"],
            ),
            (
                "gap/two",
                "15,45 2 * * *",
                "America/New_York",
                &["2027-03-14T07:00:00Z"],
            ),
            (
                "gap/interval",
                "*/30 * * * *",
                "America/New_York",
                &[
                    "2027-03-14T06:30:00Z",
                    "2027-03-14T07:00:00Z",
                    "2027-03-14T07:30:00Z",
                    "2027-03-14T08:00:00Z",
                    "2027-03-14T08:30:00Z",
                    "2027-03-14T09:00:00Z",
                ],
            ),
        ],
    )
}

/// New York, 7 November 2027: 02:00 becomes 01:00 at 06:00Z.
fn dst_fold(world: &mut World) -> Held {
    change_of_clock(
        world,
        "2027-11-07T05:10:00Z",
        "2027-11-07T05:30:00Z",
        &[
            (
                "fold/fixed",
                "30 1 * * *",
                "America/New_York",
                &["2027-11-07T05:30:00Z"],
            ),
            (
                "fold/interval",
                "*/30 * * * *",
                "America/New_York",
                &[
                    "2027-11-07T05:30:00Z",
                    "2027-11-07T06:00:00Z",
                    "2027-11-07T06:30:00Z",
                    "2027-11-07T07:00:00Z",
                    "2027-11-07T07:30:00Z",
                ],
            ),
        ],
    )
}

/// Lord Howe, 4 April 2027: 02:00 becomes 01:30 at 15:00Z of the day before.
fn dst_fold_of_half_an_hour(world: &mut World) -> Held {
    change_of_clock(
        world,
        "2027-04-03T14:20:00Z",
        "2027-04-03T14:45:00Z",
        &[
            (
                "half/fixed",
                "45 1 * * *",
                "Australia/Lord_Howe",
                &["2027-04-03T14:45:00Z"],
            ),
            (
                "half/interval",
                "*/30 * * * *",
                "Australia/Lord_Howe",
                &[
                    "2027-04-03T14:30:00Z",
                    "2027-04-03T15:00:00Z",
                    "2027-04-03T15:30:00Z",
                    "2027-04-03T16:00:00Z",
                    "2027-04-03T16:30:00Z",
                ],
            ),
        ],
    )
}

/// Casablanca goes back for the month of fasting: 7 February 2027, 03:00 becomes 02:00 at 02:00Z.
fn dst_fold_of_ramadan(world: &mut World) -> Held {
    change_of_clock(
        world,
        "2027-02-07T01:10:00Z",
        "2027-02-07T01:30:00Z",
        &[
            (
                "fast/fixed",
                "30 2 * * *",
                "Africa/Casablanca",
                &["2027-02-07T01:30:00Z"],
            ),
            (
                "fast/interval",
                "0 * * * *",
                "Africa/Casablanca",
                &["2027-02-07T02:00:00Z", "2027-02-07T03:00:00Z"],
            ),
        ],
    )
}
