//! P4: whatever a host loses, the only effect is that its shards run elsewhere. So when all is
//! whole again, everything finishes.

use ledger::{RunState, ShardState};

use crate::world::{Held, World};

/// What is not finished yet; empty when the world has come to rest.
pub fn unfinished(world: &World) -> Vec<String> {
    let set = &world.truth.set;
    let mut open: Vec<String> = set
        .runs
        .values()
        .filter(|run| run.state != RunState::NeedsConfirmation)
        .map(|run| format!("{} is {}", run.run_id, run.state.as_str()))
        .collect();
    for shard in set.shards.values() {
        if matches!(
            shard.state,
            ShardState::Pending { .. } | ShardState::Leased(_)
        ) {
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
        if !idle {
            open.push(format!("host {index} holds attempts"));
        }
    }
    open
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
