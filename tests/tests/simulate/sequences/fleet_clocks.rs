//! Clocks of the coordinator and of hosts, held against each other.

use super::{A, MINUTE, SECOND, alert_with, sequences};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::Job;
use crate::world::{Held, World};

sequences! {
    drifting_clock breaks without FleetContradicts;
    clock_set_and_left breaks without FleetContradicts;
    boot_with_wrong_clock breaks without ClockComparedAfterBoot;
    clock_set_between_reigns breaks without ClockGate;
    drifting_clock_with_a_time_service breaks without TimeServiceContradicts;
}

const HOUR: i64 = 60 * MINUTE;

/// How far ahead the coordinator's clock is before the gate must be shut: what stops it, what a beat
/// and its way back leave in doubt, and what it drifts between two looks.
const LIMIT_MS: i64 = 1_100;

/// So many hosts, and a job of every minute that has fired once.
fn begin_minutely(world: &mut World, hosts: usize) -> Held {
    world.begin(hosts)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(90 * SECOND)
}

/// How often it has fired.
fn fired(world: &World) -> usize {
    world.fires_of("a/minutely").len()
}

/// The job has not fired since it had fired so often.
fn require_still(world: &mut World, before: usize, invariant: &'static str) {
    let fires = fired(world);
    world.require(fires == before, "P6", invariant, || {
        format!("{} fires", fires - before)
    });
}

/// The coordinator's clock is steered ahead, too gently for a step. One of four hosts is wrong by two
/// hours from the beginning, and that concerns nobody but itself.
fn drifting_clock(world: &mut World) -> Held {
    world.begin(4)?;
    let now = world.now;
    world.hosts[A].clock.step(now, 2 * HOUR);
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(5 * MINUTE)?;
    let fires = fired(world);
    world.require(
        fires == 5,
        "P6",
        "one wrong clock among many stops nothing",
        || format!("{fires} fires in five minutes"),
    );
    let promise = "nothing fires by a clock that the fleet contradicts";
    drift_until_it_is_told(world, promise, "of 3 hosts")
}

/// The coordinator's clock is steered ahead, too gently for a step, and there is one host: nobody could
/// tell but the time service of its own machine, which cannot keep up.
fn drifting_clock_with_a_time_service(world: &mut World) -> Held {
    world.follow_server(0);
    begin_minutely(world, 1)?;
    let promise = "nothing fires by a clock that its own time service contradicts";
    drift_until_it_is_told(world, promise, "time service")
}

/// The clock drifts for half an hour and is set right. Alerts say `who` contradicts it.
fn drift_until_it_is_told(world: &mut World, promise: &'static str, who: &str) -> Held {
    let now = world.now;
    world.front_clock().set_rates(now, 0, 900);
    for _ in 0..180 {
        let before = fired(world);
        let now = world.now;
        let error = world.front_clock().wall_error(now);
        world.run_for(10 * SECOND)?;
        let after = fired(world);
        world.require(error < LIMIT_MS || after == before, "P6", promise, || {
            format!("it is {error} ms ahead, and fires")
        });
    }
    let tables = world.tables();
    for words in ["jobs still fire", "nothing fires"] {
        let told = alert_with(&tables, words).is_some_and(|text| text.contains(who));
        world.require(told, "P6", "a person is told who differs", || {
            format!("no alert says {words:?} and {who:?}")
        });
    }
    let now = world.now;
    let error = world.front_clock().wall_error(now);
    world.front_clock().set_rates(now, 0, 0);
    world.step_clock(-error);
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// The coordinator's clock is set 25 hours ahead, and nobody sets it back.
fn clock_set_and_left(world: &mut World) -> Held {
    begin_minutely(world, 3)?;
    let before = fired(world);
    world.step_clock(25 * HOUR);
    world.run_for(10 * MINUTE)?;
    require_still(
        world,
        before,
        "nothing fires by a clock that the fleet contradicts",
    );
    // The hosts go away, and have still not agreed.
    for host in 0..world.hosts.len() {
        world.cut(host, true, true);
    }
    world.run_for(3 * MINUTE)?;
    require_still(world, before, "silence is no consent");
    world.step_clock(-25 * HOUR);
    for host in 0..world.hosts.len() {
        world.heal(host);
    }
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// The coordinator's machine comes back with a dead battery, its clock 25 hours ahead, and leads
/// before any host has attached.
fn boot_with_wrong_clock(world: &mut World) -> Held {
    begin_minutely(world, 3)?;
    world.reboot_control(0, true);
    let before = fired(world);
    world.step_clock(25 * HOUR);
    world.start_leader();
    world.run_for(10 * MINUTE)?;
    require_still(
        world,
        before,
        "nothing fires by a clock that nobody has looked at",
    );
    world.step_clock(-25 * HOUR);
    world.run_for(3 * MINUTE)?;
    // Where it comes back with the right time, the hosts say so, and that takes seconds.
    world.reboot_control(0, true);
    world.start_leader();
    let before = fired(world);
    world.run_for(2 * MINUTE)?;
    let fires = fired(world);
    world.require(
        fires >= before + 2,
        "P1",
        "a right clock is believed soon",
        || format!("{} fires in two minutes", fires - before),
    );
    crate::invariants::audit(world)?;
    heal(world)
}

/// The clock is set 25 hours ahead while no coordinator runs; its one host is no reference.
fn clock_set_between_reigns(world: &mut World) -> Held {
    begin_minutely(world, 1)?;
    world.crash_leader(world.front, true);
    let before = fired(world);
    world.step_clock(25 * HOUR);
    world.start_leader();
    world.run_for(30 * SECOND)?;
    world.step_clock(-25 * HOUR);
    world.run_for(30 * SECOND)?;
    require_still(
        world,
        before,
        "nothing fires by a clock that was set while nobody looked",
    );
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}
