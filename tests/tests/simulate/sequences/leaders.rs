//! Leaders that go, stall, come and go, and do not know that they are none.

use ledger::command::Command;

use super::{A, B, MINUTE, SECOND, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::Job;
use crate::world::{Held, World};

sequences! {
    leader_restart_same_term breaks without EpochChecked;
    led_lost_and_led_again breaks without ReignBeginsFromItsLook;
    failover_keeps_leases breaks without NewLeaderGivesFullTime;
    stuck_fsync_leader breaks without StalledLeaderGivesFullTime;
    flapping_leaders breaks without FlappingAlarm;
    expire_applied_twice breaks without ExpireNamesToken;
}

const HOUR: i64 = 60 * MINUTE;

fn short_lease(world: &mut World) -> Held {
    world.plan(&[works_for(600)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.takeover_s = 15;
    job.timeout_s = 900;
    world.put(&job)
}

/// A leader whose clock runs an hour ahead is replaced, does not know it, and goes on.
fn leader_restart_same_term(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/tonight").at("30 * * * *"))?;
    let old = world.front;
    world.start_leader();
    world.until_attached()?;
    if let Some(leader) = world.leaders.get_mut(&old) {
        leader.wall_error_ms = HOUR;
    }
    // Its gate believes a clock that stands still for a minute.
    world.run_for(3 * MINUTE)?;
    heal(world)
}

/// A node reads the ledger to lead, loses the lead unawares, and has it again: meanwhile another has
/// put a job.
fn led_lost_and_led_again(world: &mut World) -> Held {
    world.begin(1)?;
    let other = world.front;
    let unaware = world.start_leader();
    world.set_quorum(unaware, false);
    world.front = other;
    world.put(&Job::every_minute("a/minutely"))?;
    world.crash_leader(other, true);
    world.front = unaware;
    world.hears_nothing_of_others(unaware);
    world.set_quorum(unaware, true);
    world.run_for(2 * MINUTE)?;
    heal(world)
}

/// A leader dies and another leads before the hosts have found it.
fn failover_keeps_leases(world: &mut World) -> Held {
    short_lease(world)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.run_for(8 * SECOND)?;
    world.restart_leader_after(500, true)?;
    world.run_for(30 * SECOND)?;
    let processes = world.processes_of(run_id);
    world.require(
        processes == 1,
        "P4",
        "a change of leader interrupts nothing",
        || format!("{processes} processes were started"),
    );
    heal(world)
}

/// The leader's process stands still for 20 seconds, wakes, and runs its late timers.
fn stuck_fsync_leader(world: &mut World) -> Held {
    short_lease(world)?;
    world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.run_for(8 * SECOND)?;
    let leader = world.front;
    world.stop_leader(leader);
    world.run_for(20 * SECOND)?;
    world.resume_leader(leader);
    world.run_for(5 * SECOND)?;
    let expired = world.truth.expiry_proposed.len();
    world.require(
        expired == 0,
        "P4",
        "a stalled leader expires nothing",
        || format!("{expired} leases were to expire"),
    );
    heal(world)
}

/// Leaders come and go every five seconds for ten minutes, and one host with a lease is dead from
/// the start.
fn flapping_leaders(world: &mut World) -> Held {
    short_lease(world)?;
    world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.cut_power(A);
    world.add_host(4);
    for _ in 0..120 {
        world.restart_leader_after(100, true)?;
        world.run_for(5 * SECOND)?;
    }
    crate::invariants::audit(world)?;
    let taken_over = !world.alive_on(B).is_empty();
    world.require(
        !taken_over,
        "P4",
        "no lease expires before its full time",
        || "the shard was taken over although no leader lasted".to_owned(),
    );
    world.until_process_on(B)?;
    heal(world)
}

/// An expiry that was sent twice arrives again after the shard was granted elsewhere.
fn expire_applied_twice(world: &mut World) -> Held {
    short_lease(world)?;
    world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.add_host(4);
    world.until_attached()?;
    world.cut(A, true, true);
    world.until_process_on(B)?;
    let expire = world
        .log
        .iter()
        .rev()
        .find(|proposal| matches!(proposal.command, Command::Expire(_)))
        .cloned()
        .expect("the lease expired");
    world.apply_again(expire);
    world.run_for(5 * SECOND)?;
    heal(world)
}
