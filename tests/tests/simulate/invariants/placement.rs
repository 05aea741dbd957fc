//! P7 of hosts and of what shards share: nothing is granted where it must not be, and no more than
//! there is.
//!
//! What operators, and the rule about health, have said of a host is kept here from their commands,
//! whatever the row says.

use std::collections::BTreeMap;

use jobs::Manifest;
use jobs::manifest::Needs;
use ledger::command::Command;
use ledger::{AgentRow, Done, Outcome, Proposal, ShardState};
use profiles::classes::Classes;
use protocol::{AgentId, ResourceName, RunId};

use crate::world::World;

/// A core has decided to grant a shard.
pub fn on_propose(world: &mut World, proposal: &Proposal) {
    if let Command::Grant(grant) = &proposal.command {
        let key = (grant.run_id, grant.shard);
        world.truth.grant_decided.insert(key, world.truth.index);
    }
}

pub fn after_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    match (&proposal.command, &outcome.result) {
        (Command::CordonAgent(cordon), Ok(_)) => {
            world.truth.cordoned.insert(cordon.name.clone());
        }
        (Command::NoteHealth(note), Ok(Done::HealthNoted { cordoned: true })) => {
            world.truth.cordoned.insert(note.name.clone());
        }
        (Command::UncordonAgent(uncordon), Ok(_)) => {
            world.truth.cordoned.remove(&uncordon.name);
        }
        (Command::RegisterHost(register), Ok(_)) => {
            if let Some(agent_id) = world.truth.agent_named(&register.name) {
                world.truth.facts_told.insert(agent_id, world.truth.index);
            }
        }
        (Command::Grant(_), Ok(Done::Granted { run_id, shard, .. })) => {
            judge_grant(world, *run_id, *shard);
        }
        _ => {}
    }
}

fn judge_grant(world: &mut World, run_id: RunId, shard: u32) {
    let set = &world.truth.set;
    let Some(ShardState::Leased(lease)) = set.shards.get(&(run_id, shard)).map(|s| s.state) else {
        return;
    };
    let manifest = world.truth.manifest_in_force(run_id).cloned();
    let (Some(agent), Some(manifest)) = (set.agents.get(&lease.agent_id), manifest) else {
        return;
    };
    let agent = agent.clone();
    let (name, labels) = (agent.name.clone(), agent.labels.clone());
    let cordoned = world.truth.cordoned.contains(&name);
    world.require(
        !cordoned,
        "P7",
        "a host that is cordoned is granted nothing",
        || format!("{run_id}/{shard} was granted to {}", name.as_str()),
    );
    let lacks = manifest
        .needs
        .labels
        .iter()
        .find(|label| !labels.contains(label))
        .cloned();
    world.require(
        lacks.is_none(),
        "P7",
        "a shard goes only where all its labels are",
        || {
            format!(
                "{run_id}/{shard} went to {} without {lacks:?}",
                name.as_str()
            )
        },
    );
    let told = world.truth.facts_told.get(&lease.agent_id).copied();
    let decided = world.truth.grant_decided.get(&(run_id, shard)).copied();
    // What has been told of the host while the grant was on its way could not be known.
    if told <= decided {
        judge_class(world, &agent, &manifest, (run_id, shard));
        judge_room(world, lease.agent_id, &manifest.needs);
    }
    for name in manifest.needs.uses.keys() {
        let Some(row) = world.truth.set.resources.get(name).cloned() else {
            continue;
        };
        world.require(
            row.in_use <= row.capacity,
            "P7",
            "no more is given of a resource than there is",
            || format!("{run_id}/{shard}: {row:?}"),
        );
    }
}

fn judge_class(world: &mut World, agent: &AgentRow, manifest: &Manifest, shard: (RunId, u32)) {
    let Some(class) = &manifest.needs.class else {
        return;
    };
    let is_in = Classes::built_in().of(&agent.facts).is_in(class);
    world.require(
        is_in,
        "P7",
        "a shard goes only to hosts of its class",
        || format!("{shard:?} went to {}, not of {class:?}", agent.name),
    );
}

/// What the leases of a host ask for by their manifests is within what it has, in all that the newest of
/// them asks for: a host may have become smaller under those before. What it uses beside them is for its
/// agent to tell, and not judged here.
fn judge_room(world: &mut World, agent_id: AgentId, newest: &Needs) {
    let set = &world.truth.set;
    let on_it = set.shards.values().filter(|shard| {
        let lease = shard.state.lease();
        lease.is_some_and(|lease| lease.agent_id == agent_id)
    });
    let needs = on_it.filter_map(|shard| Some(&world.truth.manifest_in_force(shard.run_id)?.needs));
    let (mut memory, mut cpu_milli, mut at_disk) = (0, 0, 0);
    for needs in needs {
        let class = needs.class.as_ref().map_or("", |class| class.as_str());
        let bytes = needs.memory_bytes.unwrap_or(0);
        memory += bytes + bytes / 16;
        let of_class = if class == "cpu" { 1000 } else { 0 };
        cpu_milli += i64::from(needs.cpu_milli.unwrap_or(of_class));
        at_disk += i64::from(class == "io");
    }
    let Some(facts) = set.agents.get(&agent_id).map(|agent| agent.facts.clone()) else {
        return;
    };
    let known = |name| facts.number(name).unwrap_or(0);
    let of_class = |name| {
        newest
            .class
            .as_ref()
            .is_some_and(|class| class.as_str() == name)
    };
    let has = known("memory.usable_bytes").max(0).unsigned_abs();
    let lent = has.saturating_sub((has / 16).clamp(256 << 20, 4 << 30));
    world.require(
        memory <= lent || newest.memory_bytes.is_none(),
        "P7",
        "no more memory of a host is set aside than it has",
        || format!("{agent_id} lends {lent} bytes of {has}, and {memory} are asked for"),
    );
    // Between one and one and a half for each core.
    let processors = known("cpu.usable_milli").min(known("cpu.cores") * 1500);
    world.require(
        cpu_milli <= processors || newest.cpu_milli.is_none() && !of_class("cpu"),
        "P7",
        "no more processors of a host are set aside than it has",
        || format!("{agent_id} has {processors} thousandths, and {cpu_milli} are asked for"),
    );
    let places = match (facts.text("disk.medium"), facts.text("disk.fsync_grade")) {
        _ if facts.0.is_empty() => 0,
        (Some("hdd"), _) => 1,
        (Some("ssd"), Some("A" | "B")) => 4,
        _ => 2,
    };
    world.require(
        at_disk <= places || !of_class("io"),
        "P7",
        "no more work for its disk is on a host than it has places",
        || format!("{agent_id} has {places} places, and {at_disk} are asked for"),
    );
}

/// What leases hold by their manifests is what the ledger counts.
pub fn look(world: &mut World) {
    let mut held: BTreeMap<ResourceName, u32> = BTreeMap::new();
    let set = &world.truth.set;
    let leased = set.shards.values();
    for shard in leased.filter(|s| matches!(s.state, ShardState::Leased(_))) {
        if let Some(manifest) = world.truth.manifest_in_force(shard.run_id) {
            for (name, units) in &manifest.needs.uses {
                *held.entry(name.clone()).or_default() += units;
            }
        }
    }
    let wrong = set
        .resources
        .values()
        .find(|row| row.in_use != held.get(&row.name).copied().unwrap_or(0))
        .cloned();
    world.require(
        wrong.is_none(),
        "P7",
        "what is in use of a resource is what leases hold",
        || format!("{wrong:?}, by the leases {held:?}"),
    );
}
