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
}

const HOUR: i64 = 60 * MINUTE;

/// How far ahead the coordinator's clock is before the gate must be shut: what stops it, what a beat
/// and its way back leave in doubt, and what it drifts between two looks.
const LIMIT_MS: i64 = 1_100;

/// The coordinator's clock is steered ahead, too gently for a step. One of four hosts is wrong by two
/// hours from the beginning, and that concerns nobody but itself.
fn drifting_clock(world: &mut World) -> Held {
    world.begin(4)?;
    let now = world.now;
    world.hosts[A].clock.step(now, 2 * HOUR);
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(5 * MINUTE)?;
    let fires = world.fires_of("a/minutely").len();
    world.require(
        fires == 5,
        "P6",
        "one wrong clock among many stops nothing",
        || format!("{fires} fires in five minutes"),
    );
    let now = world.now;
    world.coordinator_clock.set_rates(now, 0, 900);
    for _ in 0..180 {
        let before = world.fires_of("a/minutely").len();
        let error = world.coordinator_clock.wall_error(world.now);
        world.run_for(10 * SECOND)?;
        let after = world.fires_of("a/minutely").len();
        world.require(
            error < LIMIT_MS || after == before,
            "P6",
            "nothing fires by a clock that the fleet contradicts",
            || format!("it is {error} ms ahead, and fires"),
        );
    }
    let tables = world.tables();
    for words in ["jobs still fire", "nothing fires"] {
        let told = alert_with(&tables, words).is_some_and(|text| text.contains("of 3 hosts"));
        world.require(told, "P6", "a person is told who differs", || {
            format!("no alert says {words:?} of three hosts")
        });
    }
    let (now, error) = (world.now, world.coordinator_clock.wall_error(world.now));
    world.coordinator_clock.set_rates(now, 0, 0);
    world.step_clock(-error);
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}

/// The coordinator's clock is set 25 hours ahead, and nobody sets it back.
fn clock_set_and_left(world: &mut World) -> Held {
    world.begin(3)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(90 * SECOND)?;
    let before = world.fires_of("a/minutely").len();
    world.step_clock(25 * HOUR);
    world.run_for(10 * MINUTE)?;
    let fires = world.fires_of("a/minutely").len();
    world.require(
        fires == before,
        "P6",
        "nothing fires by a clock that the fleet contradicts",
        || format!("{} fires", fires - before),
    );
    // The hosts go away, and have still not agreed.
    for host in 0..world.hosts.len() {
        world.cut(host, true, true);
    }
    world.run_for(3 * MINUTE)?;
    let fires = world.fires_of("a/minutely").len();
    world.require(fires == before, "P6", "silence is no consent", || {
        format!("{} fires", fires - before)
    });
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
    world.begin(3)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(90 * SECOND)?;
    world.reboot_coordinator(true);
    let before = world.fires_of("a/minutely").len();
    world.step_clock(25 * HOUR);
    world.start_leader();
    world.run_for(10 * MINUTE)?;
    let fires = world.fires_of("a/minutely").len();
    world.require(
        fires == before,
        "P6",
        "nothing fires by a clock that nobody has looked at",
        || format!("{} fires", fires - before),
    );
    world.step_clock(-25 * HOUR);
    world.run_for(3 * MINUTE)?;
    // Where it comes back with the right time, the hosts say so, and that takes seconds.
    world.reboot_coordinator(true);
    world.start_leader();
    let before = world.fires_of("a/minutely").len();
    world.run_for(2 * MINUTE)?;
    let fires = world.fires_of("a/minutely").len();
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
    world.begin(1)?;
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_for(90 * SECOND)?;
    world.crash_leader(world.front, true);
    let before = world.fires_of("a/minutely").len();
    world.step_clock(25 * HOUR);
    world.start_leader();
    world.run_for(30 * SECOND)?;
    world.step_clock(-25 * HOUR);
    world.run_for(30 * SECOND)?;
    let fires = world.fires_of("a/minutely").len();
    world.require(
        fires == before,
        "P6",
        "nothing fires by a clock that was set while nobody looked",
        || format!("{} fires", fires - before),
    );
    world.run_for(3 * MINUTE)?;
    crate::invariants::audit(world)?;
    heal(world)
}
