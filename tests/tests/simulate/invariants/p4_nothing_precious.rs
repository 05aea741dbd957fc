//! P4: whatever a host loses, the only effect is that its shards run elsewhere. So when all is
//! whole again, everything finishes.

use std::collections::BTreeSet;

use ledger::{AgentRow, RunState, ShardState, VersionRow};
use protocol::{AgentName, RunId};

use super::tables::{Tables, number, number_or_null};
use crate::invariants::{self, p1_no_silence, p7_bounded};
use crate::world::people::{self, Job};
use crate::world::registration::machine;
use crate::world::{Held, World};

/// What is not finished yet; empty when the world has come to rest.
pub fn unfinished(world: &World) -> Vec<String> {
    let set = &world.truth.set;
    let mut open: Vec<String> = set
        .runs
        .values()
        .filter(|run| !is_to_wait(world, run.run_id))
        .map(|run| {
            let (state, on) = (run.state.as_str(), run.waits.map(|wait| wait.on));
            format!("{} is {state} {on:?}", run.run_id)
        })
        .collect();
    for shard in set.shards.values() {
        let is_open = match shard.state {
            ShardState::Pending { .. } => !is_to_wait(world, shard.run_id),
            ShardState::Leased(_) => true,
            _ => false,
        };
        if is_open {
            open.push(format!(
                "{}/{} is {}",
                shard.run_id,
                shard.shard,
                shard.state.as_str()
            ));
        }
    }
    for pid in &world.alive {
        open.push(format!("process {pid} is alive"));
    }
    for (index, host) in world.hosts.iter().enumerate() {
        let idle = host
            .agent
            .as_ref()
            .is_some_and(|agent| agent.core.attempts().next().is_none());
        if !idle && !host.scrapped {
            open.push(format!("host {index} holds attempts"));
        }
    }
    open
}

/// Whether the run is still to wait, for a person or until a deadline; or one that it waits for is.
fn is_to_wait(world: &World, run_id: RunId) -> bool {
    let set = &world.truth.set;
    let mut next = Some(run_id);
    // A chain is no longer than there are runs, unless it is a circle, which ends nowhere.
    for _ in 0..=set.runs.len() {
        let Some(run) = next.and_then(|run_id| set.runs.get(&run_id)) else {
            return false;
        };
        let in_time = p7_bounded::waits_until(world, run).is_some_and(|until| until > world.now);
        if in_time || run.state == RunState::NeedsConfirmation {
            return true;
        }
        next = run.waits.and_then(|wait| wait.on.run());
    }
    false
}

/// Runs the healed world until everything is finished.
pub fn come_to_rest(world: &mut World, bound_ms: i64) -> Held {
    const STEP_MS: i64 = 5_000;
    let until = world.now + bound_ms;
    while !unfinished(world).is_empty() {
        if world.now >= until {
            let open = unfinished(world);
            world.require(
                false,
                "P4",
                "when all is whole, everything finishes",
                || open.join("; "),
            );
        }
        world.run_for(STEP_MS)?;
    }
    // Receipts that were still on their way.
    world.run_for(20_000)
}

/// How long the healed world may take: the longest lease, the longest backoff and room.
const REST_MS: i64 = 75 * 60_000;

/// Everything is whole again; then everything must finish, and an auditor finds nothing.
pub fn heal(world: &mut World) -> Held {
    world.heal_everything();
    world.let_processes_finish();
    put_back_into_service(world)?;
    // Long enough for a clock that was just set right to be believed, and for what is due.
    world.run_for(4 * 60_000)?;
    p1_no_silence::audit_watermarks(world);
    world.holds()?;
    // Then nothing more comes due, and what is open must end.
    let jobs: Vec<String> = world
        .truth
        .set
        .jobs
        .values()
        .map(|job| job.name.to_string())
        .collect();
    for name in jobs {
        world.put(&Job::on_demand(&name))?;
    }
    come_to_rest(world, REST_MS)?;
    invariants::audit(world)?;
    p7_bounded::audit_at_rest(world, &Tables::of(world));
    let waiting = world.unanswered.len();
    world.require(waiting == 0, "P1", "every request is answered", || {
        format!("{waiting} requests wait for an answer")
    });
    receipts_arrived(world);
    nothing_is_held(world)?;
    let same = world.replayed().dump().ok() == world.store.dump().ok();
    world.require(same, "P3", "the same commands give the same ledger", || {
        "the log, replayed, gives another ledger".to_owned()
    });
    world.holds()
}

/// What operators have taken away they give back, and what is asked for is there.
fn put_back_into_service(world: &mut World) -> Held {
    world.run_until("a coordinator leads", 60_000, |w| {
        w.leader().is_some_and(|leader| leader.epoch().is_some())
    })?;
    // Somebody may have asked a coordinator that stood still for one more host to be taken away.
    world.run_until("every request is answered", 60_000, |w| {
        w.unanswered.is_empty()
    })?;
    let set = &world.truth.set;
    let asks = |version: &VersionRow| {
        let particular = ["\"ssd\"", "\"class\"", "\"cpu\"", "\"memory\""];
        particular.iter().any(|it| version.manifest.contains(it))
    };
    if set.versions.values().any(asks) {
        let host = world.add_labelled_host(8, &["ssd"]);
        world.set_facts(host, machine(64, 768, "ssd", 20_000));
        world.run_for(10_000)?;
    }
    let cordoned: Vec<AgentName> = world.truth.cordoned.iter().cloned().collect();
    for name in cordoned {
        let barred = |agent: &AgentRow| agent.name == name && agent.barred.is_some();
        if !world.truth.set.agents.values().any(barred) {
            world.must(people::uncordon(&name))?;
        }
    }
    if !world.truth.set.resources.is_empty() {
        world.must(people::put_resource("db", 100))?;
    }
    world.holds()
}

/// What ended under a supervisor that lives to this day is in the ledger, as its end or as a
/// stale one; unless a restore has broken off the history that it belongs to.
fn receipts_arrived(world: &mut World) {
    let tables = Tables::of(world);
    let known: BTreeSet<i64> = tables
        .rows("attempts")
        .iter()
        .filter(|row| number(row, "receipt") == 1 || number_or_null(row, "stale_outcome").is_some())
        .map(|row| number(row, "token"))
        .collect();
    let lost = world.processes.values().find(|process| {
        let grant = world.truth.grants.get(&process.token);
        if grant.is_some_and(|grant| grant.broken_off) {
            return false;
        }
        let host = &world.hosts[process.host];
        process.own_end.is_some()
            && host
                .supervisor
                .as_ref()
                .is_some_and(|s| s.generation == process.parent)
            && world.is_listened_to(&host.identity)
            && !known.contains(&process.token.0)
    });
    let lost = lost.map(|process| (process.token, process.own_end));
    world.require(
        lost.is_none(),
        "P4",
        "a receipt is kept until it has arrived",
        || format!("{lost:?} is not in the ledger"),
    );
}

/// Every receipt has been acknowledged and forgotten: agents that start afresh hold nothing.
fn nothing_is_held(world: &mut World) -> Held {
    for host in 0..world.hosts.len() {
        world.kill_agent(host);
        world.start_agent(host);
    }
    world.run_for(30_000)?;
    // What is quarantined or revoked is answered no more.
    let held = world
        .hosts
        .iter()
        .filter(|host| world.is_listened_to(&host.identity))
        .find(|host| !host.last_held.is_empty());
    let held = held.map(|host| (host.identity.clone(), host.last_held.clone()));
    world.require(
        held.is_none(),
        "P4",
        "every receipt is acknowledged",
        || format!("{held:?} still held at rest"),
    );
    world.holds()
}
