//! P6: clocks lie harmlessly. Of a coordinator without any reference this can be asked: that it
//! fires nothing in the minute after its clock was set, and nothing that its clock says is still
//! to come. Which of two times is the right one, nobody there can know.

use ledger::command::Decision;
use ledger::{Command, Proposal};

use crate::world::World;

/// How long the gate must be shut after a step, as the boot clock of a slow machine counts it.
const SHUT_MS: i64 = 59_000;

pub fn on_propose(world: &mut World, leader: u64, proposal: &Proposal) {
    let decisions: &[Decision] = match &proposal.command {
        Command::Fire(fire) => &fire.decisions,
        Command::PutJob(put) => put.settle.as_ref().map_or(&[], |settle| &settle.decisions),
        Command::DeleteJob(delete) => &delete.settle.decisions,
        _ => return,
    };
    let wall = world.coordinator_now().wall;
    for decision in decisions {
        if let Decision::Run { fire_time, .. } = decision {
            world.require(
                *fire_time <= wall,
                "P6",
                "nothing fires before its time",
                || format!("{fire_time} is fired at {wall}"),
            );
        }
    }
    let stepped = world
        .leaders
        .get(&leader)
        .and_then(|leader| leader.stepped_at);
    let since = stepped.map(|at| world.now - at);
    world.require(
        since.is_none_or(|since| since >= SHUT_MS),
        "P6",
        "no watermark moves in the minute after a step",
        || format!("{:?} ms after a step: {:?}", since, proposal.command),
    );
}
