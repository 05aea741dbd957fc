//! P6: clocks lie harmlessly. Of a coordinator without any reference this can be asked: that it
//! fires nothing in the minute after its clock was set, and nothing that its clock says is still
//! to come. Which of two times is the right one, nobody there can know. In a group it can be known,
//! and a leader whose clock the others contradict moves no watermark.

use ledger::command::Decision;
use ledger::{Command, Namespace, Outcome, Proposal};
use protocol::WallMs;

use crate::world::World;

/// How long the gate must be shut after a step, as the boot clock of a slow machine counts it.
const SHUT_MS: i64 = 59_000;

/// What differs by more than the gate allows, by all that is not known of it.
const CONTRADICTED_MS: i64 = 1_100;

/// The clocks of others that differ by less agree.
const AGREE_MS: i64 = 400;

/// From the third look in a row on, a leader must have noticed.
const LOOKS: u32 = 3;

pub fn on_propose(world: &mut World, leader: u64, proposal: &Proposal) {
    if decisions(&proposal.command).is_none() {
        return;
    }
    let stepped = world
        .coordinators
        .get(&leader)
        .and_then(|leader| leader.stepped_at);
    let since = stepped.map(|at| world.now - at);
    world.require(
        since.is_none_or(|since| since >= SHUT_MS),
        "P6",
        "no watermark moves in the minute after a step",
        || format!("{:?} ms after a step: {:?}", since, proposal.command),
    );
    let looks = world.coordinators.get(&leader);
    let looks = looks.map_or(0, |leader| leader.contradicted);
    // Its clock may have been set right since, and the leader has looked again.
    let errors = errors(world);
    let still = (0..world.controls.len())
        .find(|&machine| world.process_on(machine) == Some(leader))
        .is_none_or(|machine| is_contradicted(world, &errors, machine));
    world.require(
        looks < LOOKS || !still,
        "P6",
        "no watermark moves by a clock that the group contradicts",
        || format!("for {looks} looks: {:?}", proposal.command),
    );
}

/// Notes of every coordinator that hears the others whether their clocks agree against its own.
pub fn look(world: &mut World) {
    let errors = errors(world);
    for machine in 0..world.controls.len() {
        let Some(process) = world.process_on(machine) else {
            continue;
        };
        let contradicted = is_contradicted(world, &errors, machine);
        if let Some(coordinator) = world.coordinators.get_mut(&process) {
            let heard = contradicted && coordinator.hears_members();
            coordinator.contradicted = if heard {
                coordinator.contradicted + 1
            } else {
                0
            };
        }
    }
}

/// How wrong the clock of each coordinator's machine is, where it has stood still and its process hears
/// the others.
fn errors(world: &World) -> Vec<Option<i64>> {
    let now = world.now;
    let error = |machine: usize| {
        let process = world.process_on(machine)?;
        let hears = world.coordinators[&process].hears_members();
        let control = &world.controls[machine];
        (hears && control.is_steady(now)).then(|| control.clock.wall_error(now))
    };
    (0..world.controls.len()).map(error).collect()
}

/// Whether all others agree with each other, and against the clock of this machine.
fn is_contradicted(world: &World, errors: &[Option<i64>], machine: usize) -> bool {
    let now = world.now;
    let own = world.controls[machine].clock.wall_error(now);
    let witness = world.witness.clock.wall_error(now);
    let witness = world.witness.is_steady(now).then_some(witness);
    let others = errors.iter().enumerate().filter(|&(at, _)| at != machine);
    let others: Option<Vec<i64>> = others.map(|(_, error)| *error).chain([witness]).collect();
    others.is_some_and(|others| {
        let far = |error: &i64| (own - error).abs() > CONTRADICTED_MS;
        let spread = others.iter().max().zip(others.iter().min());
        let agree = spread.is_some_and(|(most, least)| most - least < AGREE_MS);
        agree && others.iter().all(far)
    })
}

/// Nothing is fired that the clock of the leader in front has never reached.
pub fn before_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    if outcome.result.is_err() {
        return;
    }
    let reached = reached(world);
    for decision in decisions(&proposal.command).unwrap_or_default() {
        if let Decision::Run { fire_time, .. } = decision {
            world.require(
                *fire_time <= reached,
                "P6",
                "nothing fires before its time",
                || format!("{fire_time} is fired, and no clock has shown more than {reached}"),
            );
        }
    }
}

/// The highest time that a clock of the coordinator's has shown. One that was in front a moment ago may
/// have read it last.
fn reached(world: &World) -> WallMs {
    world.wall_reached.max(world.coordinator_now().wall)
}

/// A process of a scheduled fire has started.
pub fn on_start(world: &mut World, pid: u64) {
    let process = &world.processes[&pid];
    let (_, namespace, fire_time, _) = process.key;
    let early = namespace == Namespace::Scheduled && fire_time > reached(world);
    let run_id = process.run_id;
    world.require(!early, "P6", "nothing runs before its time", || {
        format!("{run_id} of {fire_time} has started")
    });
}

pub fn decisions(command: &Command) -> Option<&[Decision]> {
    match command {
        Command::Fire(fire) => Some(&fire.decisions),
        Command::PutJob(put) => Some(put.settle.as_ref().map_or(&[], |settle| &settle.decisions)),
        Command::DeleteJob(delete) => Some(&delete.settle.decisions),
        Command::ResumeJob(resume) => Some(&resume.settle.decisions),
        _ => None,
    }
}
