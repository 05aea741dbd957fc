//! A site of three classes of hosts and a night of thirty jobs: each is where a planner would put it.

use std::collections::BTreeMap;

use ledger::RunState;
use protocol::{Rules, RunId};

use super::{MINUTE, SECOND, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::Job;
use crate::world::registration::machine;
use crate::world::{Held, World};

/// Two hosts of each class, and one that is of none: `c0 c1 m0 m1 d0 d1 g0`.
const HOSTS: [(&str, i64, i64, &str, i64); 7] = [
    ("c0", 16, 64, "hdd", 150),
    ("c1", 16, 64, "hdd", 150),
    ("m0", 4, 256, "hdd", 150),
    ("m1", 4, 256, "hdd", 150),
    ("d0", 4, 32, "ssd", 20_000),
    ("d1", 4, 32, "ssd", 20_000),
    ("g0", 2, 16, "hdd", 150),
];

/// Name; class, processors and memory that it needs; shards; where each shard may be, one of these
/// hosts each; or, where it waits, why.
type Row = (
    &'static str,
    (Option<&'static str>, Option<u32>, Option<&'static str>),
    u32,
    Place,
);

enum Place {
    /// One shard on each of these hosts.
    Each(&'static [&'static str]),
    /// On any of these.
    Any(&'static [&'static str]),
    /// Nowhere, and this is in what is said of it.
    Nowhere(&'static str),
}

use Place::{Any, Each, Nowhere};

const CPU: Option<&str> = Some("cpu");
const MEMORY: Option<&str> = Some("memory");
const IO: Option<&str> = Some("io");
const NIGHT: [Row; 30] = [
    // What computes: 24 processors of each host, of which two shards of a run are never together.
    ("n/prices", (CPU, Some(8), None), 2, Each(&["c0", "c1"])),
    (
        "n/risk",
        (CPU, Some(8), Some("8GiB")),
        2,
        Each(&["c0", "c1"]),
    ),
    ("n/render", (CPU, Some(4), None), 2, Each(&["c0", "c1"])),
    ("n/letters", (CPU, None, None), 2, Each(&["c0", "c1"])),
    ("n/index", (CPU, None, Some("2GiB")), 2, Each(&["c0", "c1"])),
    ("n/thumbs", (CPU, None, None), 1, Any(&["c0", "c1"])),
    ("n/hashes", (CPU, None, None), 1, Any(&["c0", "c1"])),
    (
        "n/forecast",
        (CPU, Some(4), None),
        1,
        Nowhere("without 4 processors left"),
    ),
    (
        "n/climate",
        (CPU, Some(32), None),
        1,
        Nowhere("too small for 32 processors"),
    ),
    // What holds its data in memory: 252 GiB of each host, with a sixteenth more for each.
    (
        "n/ledger",
        (MEMORY, None, Some("64GiB")),
        2,
        Each(&["m0", "m1"]),
    ),
    (
        "n/graph",
        (MEMORY, None, Some("64GiB")),
        2,
        Each(&["m0", "m1"]),
    ),
    (
        "n/cube",
        (MEMORY, None, Some("64GiB")),
        2,
        Each(&["m0", "m1"]),
    ),
    (
        "n/scores",
        (MEMORY, Some(2), Some("8GiB")),
        2,
        Each(&["m0", "m1"]),
    ),
    (
        "n/join",
        (MEMORY, None, Some("32GiB")),
        2,
        Each(&["m0", "m1"]),
    ),
    (
        "n/twin",
        (MEMORY, None, Some("64GiB")),
        1,
        Nowhere("without 64GiB of memory left"),
    ),
    (
        "n/universe",
        (MEMORY, None, Some("1TiB")),
        1,
        Nowhere("too small for 1TiB of memory"),
    ),
    // What reads and writes: four places at each disk.
    ("n/import", (IO, None, None), 2, Each(&["d0", "d1"])),
    ("n/export", (IO, None, None), 2, Each(&["d0", "d1"])),
    (
        "n/archive",
        (IO, None, Some("4GiB")),
        2,
        Each(&["d0", "d1"]),
    ),
    ("n/compact", (IO, Some(2), None), 2, Each(&["d0", "d1"])),
    (
        "n/vacuum",
        (IO, None, None),
        1,
        Nowhere("without a place at its disk left"),
    ),
    (
        "n/spill",
        (IO, None, Some("64GiB")),
        1,
        Nowhere("too small for 64GiB of memory"),
    ),
    // What names no class, and still fits on some hosts alone.
    (
        "n/model",
        (None, None, Some("16GiB")),
        1,
        Any(&["c0", "c1", "d0", "d1"]),
    ),
    (
        "n/batch",
        (None, Some(3), None),
        1,
        Any(&["d0", "d1", "m0", "m1", "g0"]),
    ),
    (
        "n/report",
        (None, Some(1), Some("1GiB")),
        1,
        Any(&["g0", "d0", "d1", "m0", "m1", "c0", "c1"]),
    ),
    (
        "n/mail",
        (Some("general"), None, None),
        1,
        Any(&["c0", "c1", "d0", "d1", "g0", "m0", "m1"]),
    ),
    (
        "n/ping",
        (None, None, None),
        1,
        Any(&["c0", "c1", "d0", "d1", "g0", "m0", "m1"]),
    ),
    (
        "n/everywhere",
        (None, None, None),
        7,
        Each(&["c0", "c1", "d0", "d1", "g0", "m0", "m1"]),
    ),
    // What no host can ever take.
    (
        "n/train",
        (Some("gpu"), None, None),
        1,
        Nowhere("there is no such class"),
    ),
    (
        "n/secrets",
        (Some("coordinator"), None, None),
        1,
        Nowhere("7 not of class `coordinator`"),
    ),
];

#[test]
fn a_night_of_three_classes() {
    let mut world = World::new(1, Rules::all(), true);
    if let Err(violation) = night(&mut world) {
        panic!("{violation}\n{}", world.journal().join("\n"));
    }
}

fn night(world: &mut World) -> Held {
    world.plan(&[works_for(600)]);
    world.start_leader();
    for (name, cores, memory_gib, medium, iops) in HOSTS {
        let host = world.add_host_named(name.parse().expect("a good name"), 16);
        world.set_facts(host, machine(cores, memory_gib, medium, iops));
    }
    world.until_attached()?;
    world.run_until("all are registered", 20 * SECOND, |w| {
        let mut agents = w.truth.set.agents.values();
        agents.all(|agent| agent.profile.is_some())
    })?;
    let mut runs = Vec::new();
    for (name, (class, cpu, memory), shards, _) in &NIGHT {
        let mut job = Job::on_demand(name);
        (job.class, job.cpu, job.memory) = (*class, *cpu, *memory);
        (job.shards, job.timeout_s) = (*shards, 900);
        job.start_deadline_s = Some(2_700);
        world.put(&job)?;
        runs.push(world.run_now(name)?);
    }
    world.run_for(10 * SECOND)?;
    let wrong: Vec<String> = NIGHT
        .iter()
        .zip(&runs)
        .filter_map(|(row, &run_id)| misplaced(world, row, run_id))
        .collect();
    world.require(
        wrong.is_empty(),
        "P7",
        "each job is where a planner would put it",
        || wrong.join("\n"),
    );
    world.holds()?;
    // What only waits for others has its turn after them.
    for ((name, ..), &run_id) in NIGHT.iter().zip(&runs) {
        if ["n/forecast", "n/twin", "n/vacuum"].contains(name) {
            world.until_state(run_id, RunState::Succeeded, 30 * MINUTE)?;
        }
    }
    heal(world)
}

/// What is wrong with where a job is.
fn misplaced(world: &World, (name, _, shards, place): &Row, run_id: RunId) -> Option<String> {
    let mut on: BTreeMap<&str, u32> = BTreeMap::new();
    for process in world.processes.values().filter(|p| p.run_id == run_id) {
        *on.entry(world.hosts[process.host].identity.as_str())
            .or_default() += 1;
    }
    let placed: u32 = on.values().sum();
    let said = said(world, run_id);
    let is_well = match place {
        Each(hosts) => hosts.len() == on.len() && hosts.iter().all(|host| on.get(host) == Some(&1)),
        Any(hosts) => on.keys().all(|host| hosts.contains(host)) && placed == *shards,
        Nowhere(why) => on.is_empty() && said.contains(why),
    };
    (!is_well).then(|| format!("{name} is on {on:?}; {said}"))
}

/// What people are told of the first shard that has no place.
fn said(world: &World, run_id: RunId) -> String {
    let core = world.leader().and_then(|leader| leader.core.as_ref());
    let waits = core.map(|core| core.waits_of(run_id, world.coordinator_now()));
    let first = waits.and_then(|waits| waits.into_values().next());
    first.map_or_else(String::new, |waits| waits.to_string())
}
