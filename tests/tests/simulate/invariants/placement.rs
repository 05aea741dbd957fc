//! P7 of hosts and of what shards share: nothing is granted where it must not be, and no more than
//! there is.
//!
//! What operators, and the rule about health, have said of a host is kept here from their commands,
//! whatever the row says.

use std::collections::BTreeMap;

use ledger::command::Command;
use ledger::{Done, Outcome, Proposal, ShardState};
use profiles::classes::Classes;
use protocol::{AgentId, ResourceName, RunId};

use crate::world::World;

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
    if let Some(class) = &manifest.needs.class {
        let is_in = Classes::built_in().of(&agent.facts).is_in(class);
        world.require(
            is_in,
            "P7",
            "a shard goes only to hosts of its class",
            || format!("{run_id}/{shard} went to {}", name.as_str()),
        );
    }
    judge_memory(world, lease.agent_id);
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

/// What the leases of a host ask for by their manifests is within what it has.
fn judge_memory(world: &mut World, agent_id: AgentId) {
    let set = &world.truth.set;
    let on_it = set.shards.values().filter(|shard| {
        let lease = shard.state.lease();
        lease.is_some_and(|lease| lease.agent_id == agent_id)
    });
    let asked = on_it.filter_map(|shard| {
        let manifest = world.truth.manifest_in_force(shard.run_id)?;
        manifest.needs.memory_bytes
    });
    let asked: u64 = asked.sum();
    let facts = set.agents.get(&agent_id).map(|agent| agent.facts.clone());
    let has = facts.and_then(|facts| facts.number("memory.usable_bytes"));
    let has = has.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    world.require(
        asked <= has,
        "P7",
        "no more memory of a host is set aside than it has",
        || format!("{agent_id} has {has} bytes, and {asked} are asked for"),
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
