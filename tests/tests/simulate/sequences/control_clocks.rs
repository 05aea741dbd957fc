//! Clocks of the control machines, held against each other: two coordinators, and a witness whose
//! clock is all that is modelled of it.

use coordinator_core::RequestError;
use ledger::RunState;
use ledger::command::Command;
use protocol::Rules;

use super::{FIRST, MINUTE, OTHER, SECOND, alert_with, sequences};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, Misfire, pause, put, resume};
use crate::world::{Held, Violation, World};

sequences! {
    step_forward_25h_in_a_group breaks without HeldClockHandsOver;
    step_back_2h_in_a_group breaks without HeldClockHandsOver;
    drifting_leader breaks without ControlClocksContradict;
    boot_beside_a_witness breaks without ControlClocksContradict;
    failover_lateness_after_boot breaks without ControlClocksSpareHosts;
    wrong_standby breaks without WrongClockDeclines;
    wrong_server breaks without AgreementOutweighsTimeService;
}

const HOUR: i64 = 60 * MINUTE;

/// A pair with so many hosts, and a job of every minute that has fired once.
fn begin_minutely(world: &mut World, hosts: usize) -> Held {
    world.begin_as_pair(hosts)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(90 * SECOND)
}

/// Every minute since `from` has a run that began at most `late` after it.
fn require_in_time(world: &mut World, from: i64, late: i64) {
    let first = from - from.rem_euclid(MINUTE) + MINUTE;
    let last = world.now - late;
    let job_id = world.job("a/minutely").job_id;
    let mut admitted: Vec<(i64, i64)> = world
        .truth
        .runs
        .values()
        .filter(|run| run.job_id == job_id)
        .map(|run| (run.fire_time.0, run.fired_at))
        .collect();
    admitted.sort_unstable();
    for minute in (0..)
        .map(|i| first + i * MINUTE)
        .take_while(|&at| at <= last)
    {
        let of_minute = admitted.iter().find(|&&(at, _)| at == minute);
        let by = of_minute.map(|&(at, admitted)| admitted - at);
        world.require(
            by.is_some_and(|by| (0..=late).contains(&by)),
            "P6",
            "who has the right time fires in time",
            || format!("minute {minute} was fired {by:?} ms after it"),
        );
    }
}

/// How many reigns the coordinator on this machine has begun.
fn reigns_of(world: &World, machine: usize) -> usize {
    let name = &world.controls[machine].name;
    let begins = |command: &Command| match command {
        Command::BecomeActive(begin) => &begin.node == name,
        _ => false,
    };
    let log = world.log.iter();
    log.filter(|proposal| begins(&proposal.command)).count()
}

/// The leader's clock is 25 hours ahead for ten seconds, with an apply and a resume in it: neither
/// sets a watermark by it, and the other coordinator leads.
fn step_forward_25h_in_a_group(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    world.put(&Job::every_minute("a/paused"))?;
    world.must(pause("a/paused"))?;
    let from = world.now;
    world.step_clock(25 * HOUR);
    let job = Job::every_minute("a/minutely").at("*/2 * * * *");
    let answer = world.ask(put(&job))?;
    world.require(
        matches!(answer, Err(RequestError::ClockHeld(_))),
        "P6",
        "no watermark moves while the clock is in doubt",
        || format!("{answer:?}"),
    );
    world.until_led_by(OTHER, 3 * SECOND)?;
    // Its clock is right, and what was refused is done there.
    world.must(resume("a/paused"))?;
    let through = world.job("a/paused").fired_through;
    let ahead = through.0 - world.now;
    world.require(
        ahead <= SECOND,
        "P6",
        "no watermark is set by a wrong clock",
        || format!("{ahead} ms ahead"),
    );
    world.run_for(10 * SECOND - (world.now - from))?;
    world.set_clock_right();
    world.run_for(3 * MINUTE)?;
    require_in_time(world, from, 2 * SECOND);
    crate::invariants::audit(world)?;
    heal(world)
}

/// The leader's clock is set back by two hours, and stays there: the other one leads, and goes on
/// firing.
fn step_back_2h_in_a_group(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    let from = world.now;
    world.step_clock(-2 * HOUR);
    world.run_for(5 * MINUTE)?;
    require_in_time(world, from, 2 * SECOND);
    let tables = world.tables();
    let told = alert_with(&tables, "clock of node 1 is 2h behind");
    let told = told.map(str::to_owned);
    world.require(told.is_some(), "P6", "a person is told who differs", || {
        "no alert says so".to_owned()
    });
    world.set_clock_right();
    world.run_for(2 * MINUTE)?;
    heal(world)
}

/// The leader's clock is steered ahead, too gently for a step, and its one host is no reference.
fn drifting_leader(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    let now = world.now;
    world.front_clock().set_rates(now, 0, 900);
    world.run_for(25 * MINUTE)?;
    let by_other = world.front_machine == OTHER;
    world.require(by_other, "P6", "whose clock is right leads", || {
        "the one that drifts leads".to_owned()
    });
    let now = world.now;
    world.controls[FIRST].clock.set_rates(now, 0, 0);
    world.set_clock_right();
    let early = world
        .truth
        .runs
        .values()
        .map(|run| run.fired_at - run.fire_time.0)
        .min();
    world.require(
        early.is_some_and(|early| early >= -1_100),
        "P6",
        "nothing fires earlier than the gate's limit",
        || format!("{early:?} ms after its time"),
    );
    world.run_for(2 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// One coordinator is dead; the other comes back with a dead battery, 25 hours ahead, and has nobody
/// but the witness to be held against. Nobody can tell which of the two is wrong.
fn boot_beside_a_witness(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    let dead = world.front;
    world.crash_leader(dead, true);
    world.call_off_election();
    world.reboot_control(OTHER, true);
    world.run_for(20 * SECOND)?;
    let now = world.now;
    world.controls[OTHER].clock.step(now, 25 * HOUR);
    world.start_coordinator(OTHER);
    let before = world.truth.runs.len();
    world.run_for(3 * SECOND)?;
    world.elect(OTHER);
    world.run_for(5 * MINUTE)?;
    let fired = world.truth.runs.len() - before;
    world.require(
        fired == 0,
        "P6",
        "nothing fires by a clock that the only other one contradicts",
        || format!("{fired} runs"),
    );
    let tables = world.tables();
    let told = alert_with(&tables, "which of the two is right").is_some();
    world.require(told, "P6", "a person is told who differs", || {
        "no alert says so".to_owned()
    });
    // The third clock decides, and whoever has the right one leads.
    world.bring_back(FIRST);
    world.until_led_by(FIRST, 3 * SECOND)?;
    let from = world.now;
    world.run_for(3 * MINUTE)?;
    require_in_time(world, from, 2 * SECOND);
    heal(world)
}

/// A coordinator that has never led since its machine was started takes over, and the job may not
/// be late by more than a few seconds: it does not wait for the hosts, since the other clocks agree
/// with its own.
fn failover_lateness_after_boot(world: &mut World) -> Held {
    world.begin_as_pair(3)?;
    let mut job = Job::every_minute("a/skips");
    job.misfire = Misfire::Skip;
    job.late_after_s = 3;
    world.put(&job)?;
    world.run_for(90 * SECOND)?;
    world.run_past_minute(-200)?;
    world.fail_over_after(1_400, true)?;
    world.run_for(20 * SECOND)?;
    let fires = world.fires_of("a/skips");
    let all_ran = fires.iter().all(|&(_, state)| state == RunState::Succeeded);
    world.require(
        fires.len() >= 2 && all_ran,
        "P1",
        "a fire that is merely late runs",
        || format!("{fires:?}"),
    );
    heal(world)
}

/// A standby's clock is two hours ahead. It begins no reign while the other could; when it is alone
/// it leads, fires nothing, and says so; and it gives the lead back.
fn wrong_standby(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    let now = world.now;
    world.controls[OTHER].set_clock(now, 2 * HOUR);
    world.run_for(2 * MINUTE)?;
    let from = world.now;
    // Its turn, though the other one is there: it declines.
    world.elect(OTHER);
    world.until_led_by(FIRST, 3 * SECOND)?;
    let reigns = reigns_of(world, OTHER);
    world.require(
        reigns == 0,
        "P6",
        "who has a wrong clock begins no reign that another could have",
        || format!("{reigns} reigns"),
    );
    world.run_for(2 * MINUTE)?;
    require_in_time(world, from, 3 * SECOND);
    // Alone, it keeps what runs, and holds.
    let run_id = world.put_to_work()?;
    world.run_for(MINUTE)?;
    world.crash_leader(world.front, true);
    world.until_led_by(OTHER, 10 * SECOND)?;
    let before = world.fires_of("a/minutely").len();
    world.run_for(3 * MINUTE)?;
    let after = world.fires_of("a/minutely").len();
    let processes = world.processes_of(run_id);
    world.require(
        after == before && processes == 1,
        "P6",
        "a wrong clock fires nothing, and all else goes on",
        || format!("{} fires, {processes} processes", after - before),
    );
    let tables = world.tables();
    let told = alert_with(&tables, "nothing fires").is_some();
    world.require(told, "P6", "a person is told who differs", || {
        "no alert says so".to_owned()
    });
    world.bring_back(FIRST);
    world.until_led_by(FIRST, 5 * SECOND)?;
    let from = world.now;
    world.run_for(2 * MINUTE)?;
    require_in_time(world, from, 2 * SECOND);
    world.set_clock_right();
    heal(world)
}

/// The server that both coordinators' time services follow is wrong, and their clocks, which agree with
/// each other and with the witness's, are right: they go on, and a person is told.
fn wrong_server(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    world.follow_server(0);
    world.run_for(MINUTE)?;
    world.follow_server(5 * SECOND);
    let from = world.now;
    world.run_for(5 * MINUTE)?;
    require_in_time(world, from, 3 * SECOND);
    let tables = world.tables();
    let told = alert_with(&tables, "jobs still fire");
    let told = told.is_some_and(|text| text.contains("time service"));
    world.require(told, "P6", "a person is told who differs", || {
        "no alert says so of the time service".to_owned()
    });
    world.follow_server(0);
    world.run_for(MINUTE)?;
    heal(world)
}

/// The witness's clock is wrong from the beginning, and the other coordinator dies: the one that
/// leads knows whose clock it was, and goes on.
#[test]
fn a_witness_that_was_wrong_before_stops_nobody() {
    let mut world = World::new(1, Rules::all(), true);
    if let Err(violation) = live_with_a_wrong_witness(&mut world) {
        panic!("{violation}\n{}", world.journal().join("\n"));
    }
}

fn live_with_a_wrong_witness(world: &mut World) -> Result<(), Violation> {
    begin_minutely(world, 1)?;
    world.step_other_clock(true, 5 * MINUTE);
    world.run_for(2 * MINUTE)?;
    let standby = world.process_on(OTHER).expect("it stands by");
    let from = world.now;
    world.crash_leader(standby, true);
    world.run_for(5 * MINUTE)?;
    require_in_time(world, from, 2 * SECOND);
    world.set_clock_right();
    heal(world)
}
