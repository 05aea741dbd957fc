//! Leaders that go, stall, come and go, and do not know that they are none.

use ledger::command::Command;
use protocol::{Rules, RunId};

use super::{A, B, FIRST, MINUTE, OTHER, SECOND, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, put};
use crate::world::{Held, Violation, World};

sequences! {
    leader_restart_same_term breaks without EpochChecked;
    led_lost_and_led_again breaks without ReignBeginsFromItsLook;
    failover_keeps_leases breaks without NewLeaderGivesFullTime;
    stuck_fsync_leader breaks without StalledLeaderGivesFullTime;
    stuck_fsync_leader_in_a_group breaks without ExpiryAfterQuorum;
    stuck_fsync_of_both breaks without StalledLeaderGivesFullTime;
    disk_full_leader breaks without GrantBeforeWord;
    flapping_leaders breaks without FlappingAlarm;
    expire_applied_twice breaks without ExpireNamesToken;
}

const HOUR: i64 = 60 * MINUTE;

/// A leader whose clock runs an hour ahead is replaced, does not know it, and goes on.
fn leader_restart_same_term(world: &mut World) -> Held {
    world.begin_as_pair(1)?;
    world.put(&Job::every_minute("a/tonight").at("30 * * * *"))?;
    world.replace();
    world.until_attached()?;
    // What it knew of the others' clocks says nothing any more.
    world.run_for(6 * SECOND)?;
    let now = world.now;
    world.controls[FIRST].set_clock(now, HOUR);
    // Its gate believes a clock that stands still for a minute.
    world.run_for(3 * MINUTE)?;
    heal(world)
}

/// A node reads the ledger to lead, loses the lead unawares, and has it again: meanwhile another has
/// put a job.
fn led_lost_and_led_again(world: &mut World) -> Held {
    world.begin_as_pair(1)?;
    let between = world.front;
    let unaware = world.process_on(OTHER).expect("it stands by");
    world.set_quorum(unaware, false);
    world.lead(OTHER);
    (world.front, world.front_machine) = (between, FIRST);
    world.put(&Job::every_minute("a/minutely"))?;
    (world.front, world.front_machine) = (unaware, OTHER);
    world.crash_leader(between, true);
    world.hears_nothing_of_others(unaware);
    world.set_quorum(unaware, true);
    world.run_for(2 * MINUTE)?;
    heal(world)
}

/// A pair, with a process on host A under a short lease.
fn pair_at_work(world: &mut World) -> Result<RunId, Violation> {
    world.begin_as_pair(1)?;
    let run_id = world.put_to_work()?;
    world.run_for(8 * SECOND)?;
    Ok(run_id)
}

fn require_one_process(world: &mut World, run_id: RunId) -> Held {
    let processes = world.processes_of(run_id);
    let alive = world.alive.len();
    world.require(
        (processes, alive) == (1, 1),
        "P4",
        "a change of leader interrupts nothing",
        || format!("{processes} processes were started, {alive} live"),
    );
    world.holds()
}

/// A leader dies and another leads before the hosts have found it.
fn failover_keeps_leases(world: &mut World) -> Held {
    let run_id = pair_at_work(world)?;
    world.fail_over_after(500, true)?;
    world.run_for(30 * SECOND)?;
    require_one_process(world, run_id)?;
    heal(world)
}

/// However leaders change, by plan, by death or by a cut, and however often: what runs goes on,
/// and is run once.
#[test]
fn a_process_outlives_every_change_of_leader() {
    for seed in 1..=5 {
        let mut world = World::new(seed, Rules::all(), true);
        if let Err(violation) = change_leaders_in_all_ways(&mut world) {
            panic!("seed {seed}: {violation}\n{}", world.journal().join("\n"));
        }
    }
}

fn change_leaders_in_all_ways(world: &mut World) -> Held {
    let run_id = pair_at_work(world)?;
    for way in 0..12 {
        let (before, other) = (world.front, world.other_machine());
        match way % 4 {
            0 => world.hand_over(),
            1 => world.fail_over_after(900, true)?,
            2 => world.set_quorum(before, false),
            _ => world.stop_leader(before),
        }
        world.until_led_by(other, 5 * SECOND)?;
        world.run_for(SECOND)?;
        world.set_quorum(before, true);
        world.resume_leader(before);
        world.run_for(11 * SECOND)?;
        require_one_process(world, run_id)?;
    }
    let attempts = world.truth.grants.len();
    world.require(attempts == 1, "P4", "nothing is run again", || {
        format!("{attempts} leases were granted")
    });
    heal(world)
}

/// The leader's process stands still for 20 seconds, wakes, and runs its late timers.
fn stuck_fsync_leader(world: &mut World) -> Held {
    world.begin(1)?;
    world.put_to_work()?;
    world.run_for(8 * SECOND)?;
    let leader = world.front;
    world.stop_leader(leader);
    world.run_for(20 * SECOND)?;
    world.resume_leader(leader);
    world.run_for(5 * SECOND)?;
    require_nothing_expires(world)?;
    heal(world)
}

fn require_nothing_expires(world: &mut World) -> Held {
    let expired = world.truth.expiry_proposed.len();
    world.require(
        expired == 0,
        "P4",
        "a stalled leader expires nothing",
        || format!("{expired} leases were to expire"),
    );
    world.holds()
}

/// The same of two: meanwhile the other one leads and keeps the lease. The first wakes and runs its
/// late timers; nobody tells it for a minute that it was replaced, and no host speaks to it.
fn stuck_fsync_leader_in_a_group(world: &mut World) -> Held {
    let run_id = pair_at_work(world)?;
    let stuck = world.front;
    world.stop_leader(stuck);
    world.call_off_election();
    world.run_for(SECOND)?;
    world.replace();
    world.until_led_by(OTHER, SECOND)?;
    world.run_for(19 * SECOND)?;
    world.resume_leader(stuck);
    world.run_for(MINUTE)?;
    require_nothing_expires(world)?;
    world.tell(stuck);
    world.run_for(5 * SECOND)?;
    require_one_process(world, run_id)?;
    heal(world)
}

/// The leader is stuck, another leads, and is stuck in its turn before it has heard the hosts: that one
/// wakes first, with all voters behind it, and runs its late timers.
fn stuck_fsync_of_both(world: &mut World) -> Held {
    pair_at_work(world)?;
    let first = world.front;
    world.stop_leader(first);
    world.until_led_by(OTHER, 5 * SECOND)?;
    let second = world.front;
    world.stop_leader(second);
    world.run_for(20 * SECOND)?;
    world.resume_leader(second);
    world.run_for(SECOND)?;
    world.resume_leader(first);
    world.run_for(5 * SECOND)?;
    require_nothing_expires(world)?;
    heal(world)
}

/// How often a disk is full, of either machine in turn.
const ROUNDS: usize = 4;

/// The leader's disk is full: it ends with what it has to write next, which the other voters may have or not, and the
/// other machine leads. Started again without room, it ends again. Then there is room, and the other disk is full.
fn disk_full_leader(world: &mut World) -> Held {
    let run_id = pair_at_work(world)?;
    world.plan(&[works_for(1)]);
    world.put(&Job::every_minute("a/minutely"))?;
    world.run_past_minute(10 * SECOND)?;
    let (began, before) = (world.now, world.fires_of("a/minutely").len());
    let mut ended_again = 0;
    for round in 0..ROUNDS {
        let (full, other) = (world.front_machine, world.other_machine());
        world.fill_disk_of_control(full);
        let name = format!("a/put-{round}");
        let asked = world.request(put(&Job::on_demand(&name)));
        world.until_led_by(other, 5 * SECOND)?;
        let acknowledged = matches!(world.answers.get(&asked), Some(Ok(_)));
        let mut jobs = world.truth.set.jobs.values();
        let there = jobs.any(|job| job.name.as_str() == name);
        world.require(
            there || !acknowledged,
            "P3",
            "what was acknowledged is there",
            || format!("{name} was acknowledged and is gone"),
        );
        world.bring_back(full);
        world.run_for(MINUTE)?;
        ended_again += usize::from(world.process_on(full).is_none());
        world.free_disk_of_control(full);
        world.run_for(10 * SECOND)?;
    }
    require_one_process(world, run_id)?;
    world.require(
        ended_again == ROUNDS,
        "P4",
        "who has no room does not lead",
        || format!("{ended_again} of {ROUNDS} have ended again"),
    );
    let fires = world.fires_of("a/minutely").len() - before;
    let minutes = world.now / MINUTE - began / MINUTE;
    world.require(
        i64::try_from(fires) == Ok(minutes),
        "P1",
        "the other one fires in time",
        || format!("{fires} fires in {minutes} minutes"),
    );
    heal(world)
}

/// Leaders come and go every five seconds for ten minutes, now on one machine and now on the other,
/// and one host with a lease is dead from the start.
fn flapping_leaders(world: &mut World) -> Held {
    pair_at_work(world)?;
    world.cut_power(A);
    world.add_host(4);
    for _ in 0..120 {
        world.fail_over_after(100, true)?;
        world.run_for(4 * SECOND)?;
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
    world.begin(1)?;
    world.put_to_work()?;
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
