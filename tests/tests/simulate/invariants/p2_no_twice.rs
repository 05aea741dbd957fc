//! P2: nothing runs twice. The truth is the set of processes, not the rows.

use std::collections::{BTreeMap, BTreeSet};

use ledger::command::{Confirm, Finish, Redo, Rerun};
use ledger::{Change, Command, Done, Outcome, Proposal, Refusal, ShardState};
use protocol::{DurationMs, JobId, RunId};

use crate::world::World;
use crate::world::process::Process;
use crate::world::truth::Grant;

/// Time that a supervisor's timers and a process's death may take.
pub const KILLED_WITHIN: DurationMs = DurationMs(150);

pub fn before_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    check_unique(world, outcome);
    check_fences(world, outcome);
    match (&proposal.command, &outcome.result) {
        (
            Command::Grant(_),
            Ok(Done::Granted {
                token,
                run_id,
                shard,
                ..
            }),
        ) => {
            check_grant(world, token.0, *run_id, *shard);
        }
        (Command::Finish(finish), result) => check_receipt(world, finish, result, outcome),
        (Command::Redo(redo), Ok(_)) => check_redo(world, redo),
        _ => {}
    }
}

pub fn after_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    match (&proposal.command, &outcome.result) {
        (
            Command::Grant(_),
            Ok(Done::Granted {
                token,
                run_id,
                shard,
                ..
            }),
        ) => {
            let row = world.truth.set.shards.get(&(*run_id, *shard));
            let agent_id = match row.map(|row| row.state) {
                Some(ShardState::Leased(lease)) => lease.agent_id,
                _ => return,
            };
            let facts = world.truth.facts_of(*run_id);
            let index = world.truth.index;
            let execution = world
                .truth
                .set
                .runs
                .get(run_id)
                .map_or(0, |run| run.execution);
            let grant = Grant {
                index,
                at: world.now,
                run_id: *run_id,
                shard: *shard,
                agent_id,
                execution,
                asked: facts.asked,
                admitted: facts.admitted,
                taken_at: None,
                receipt_seen: false,
                broken_off: false,
            };
            world.truth.grants.insert(*token, grant);
            world.truth.newest_grant.insert((*run_id, *shard), *token);
            world.truth.highest_position = world.truth.highest_position.max(token.0);
        }
        (Command::Finish(finish), Ok(_)) => {
            if let Some(grant) = world.truth.grants.get_mut(&finish.token) {
                grant.receipt_seen = true;
            }
        }
        (
            Command::Rerun(Rerun { run_id, .. })
            | Command::Redo(Redo { run_id, .. })
            | Command::Confirm(Confirm { run_id, .. }),
            Ok(_),
        ) => {
            if let Some(facts) = world.truth.runs.get_mut(run_id) {
                facts.asked += 1;
            }
        }
        _ => {}
    }
    check_overlap(world, outcome);
}

/// (job, fire time) is unique for ever, by the job's id and by every name it has borne.
fn check_unique(world: &mut World, outcome: &Outcome) {
    for change in &outcome.changes {
        if let Change::Run(run) = change {
            let key = (run.job_id, run.namespace, run.fire_time);
            let by_id = world.truth.by_fire.get(&key).copied();
            let name = world
                .truth
                .set
                .jobs
                .get(&run.job_id)
                .map(|job| job.name.clone());
            let by_name = name.and_then(|name| {
                let key = (name, run.namespace, run.fire_time);
                world.truth.by_name.get(&key).copied()
            });
            let other = by_id.or(by_name).filter(|&other| other != run.run_id);
            world.require(other.is_none(), "P2", "a fire has one run", || {
                format!(
                    "{} at {} has {other:?} and {}",
                    run.job_id, run.fire_time, run.run_id
                )
            });
        }
    }
}

/// A run that leaves `waiting` takes a fence above everything given out before.
fn check_fences(world: &mut World, outcome: &Outcome) {
    for change in &outcome.changes {
        if let Change::Run(run) = change
            && let Some(fence) = run.fence
            && world
                .truth
                .runs
                .get(&run.run_id)
                .and_then(|facts| facts.fence)
                != Some(fence)
        {
            let high = world.truth.highest_position;
            world.require(fence > high, "P2", "fences rise", || {
                format!(
                    "{} takes fence {fence}, {high} was given out before",
                    run.run_id
                )
            });
            world.truth.highest_position = high.max(fence);
        }
    }
}

fn check_grant(world: &mut World, token: i64, run_id: RunId, shard: u32) {
    let high = world.truth.highest_position;
    world.require(token > high, "P2", "tokens rise", || {
        format!("token {token} after {high}")
    });
    let other = world.truth.lease_of(run_id, shard);
    world.require(other.is_none(), "P2", "one live lease a shard", || {
        format!("{run_id}/{shard}: {other:?} lives, and token {token} was granted")
    });
}

/// What succeeded is done once more where that is harmless, or somebody answers for it, and never
/// while a lease of before lives.
fn check_redo(world: &mut World, redo: &Redo) {
    let manifest = world.truth.manifest_of(redo.run_id);
    let safe = manifest.is_none_or(|manifest| manifest.safe);
    world.require(
        safe || redo.force,
        "P2",
        "what is not harmless is redone by force only",
        || format!("{redo:?}"),
    );
    let shards = world.truth.set.shards_of(redo.run_id);
    let leased = shards.filter(|shard| matches!(shard.state, ShardState::Leased(_)));
    let leased = leased.count();
    world.require(leased == 0, "P2", "no redo while a lease lives", || {
        format!("{redo:?}: {leased} leases live")
    });
}

/// A receipt counts while no later lease was granted, and changes nothing after that.
fn check_receipt(
    world: &mut World,
    finish: &Finish,
    result: &Result<Done, Refusal>,
    outcome: &Outcome,
) {
    let Some(grant) = world.truth.grants.get(&finish.token).copied() else {
        return;
    };
    let newest = world
        .truth
        .newest_grant
        .get(&(grant.run_id, grant.shard))
        .copied();
    if newest != Some(finish.token) || grant.broken_off {
        let changes = outcome.changes.len();
        let counted = matches!(result, Ok(Done::Finished { counted: true }));
        world.require(
            changes == 0 && !counted,
            "P2",
            "an overtaken receipt changes nothing",
            || {
                format!(
                    "{} after {newest:?}: {result:?}, {:?}",
                    finish.token, outcome.changes
                )
            },
        );
        return;
    }
    let facts = world.truth.facts_of(grant.run_id);
    let run = world.truth.set.runs.get(&grant.run_id);
    let same_execution = run.is_some_and(|run| run.execution == grant.execution);
    let owner = grant.agent_id == finish.agent_id;
    let asked_again = facts.asked != grant.asked;
    let revoked = world.truth.is_revoked(finish.agent_id);
    if same_execution && owner && !asked_again && !grant.receipt_seen && !revoked {
        world.require(
            matches!(result, Ok(Done::Finished { counted: true })),
            "P2",
            "a receipt counts while no later lease was granted",
            || format!("{} ({:?}): {result:?}", finish.token, finish.end.outcome),
        );
    }
}

/// But under `allow` one run of a job is live at a time.
fn check_overlap(world: &mut World, outcome: &Outcome) {
    let moved = outcome.changes.iter().filter_map(|change| match change {
        Change::Run(run) => Some(run.job_id),
        _ => None,
    });
    let moved: BTreeSet<JobId> = moved.collect();
    if moved.is_empty() {
        return;
    }
    let mut live: BTreeMap<JobId, RunId> = BTreeMap::new();
    let mut both = None;
    let runs = world.truth.set.runs.values();
    for run in runs.filter(|run| moved.contains(&run.job_id)) {
        let counts = run.state.is_live() && !world.truth.may_overlap(run.run_id);
        if counts && let Some(other) = live.insert(run.job_id, run.run_id) {
            both = Some((run.job_id, other, run.run_id));
        }
    }
    world.require(both.is_none(), "P2", "one live run of a job", || {
        format!("{both:?} are live together")
    });
}

/// A process has just started.
pub fn on_start(world: &mut World, pid: u64) {
    let process = &world.processes[&pid];
    let (key, token, run_id, shard) = (process.key, process.token, process.run_id, process.shard);
    let asked = process.asked;
    let current = world.truth.is_current(token);
    let mut twice = None;
    let mut unsafe_again = None;
    let manifest = world.truth.manifest_of(run_id);
    let safe = manifest.is_none_or(|manifest| manifest.safe);
    let alone = !world.truth.may_overlap(run_id);
    let mut beside = None;
    for &other_pid in world.alive.iter().filter(|&&other| other != pid) {
        let other = &world.processes[&other_pid];
        let overlaps = alone && other.run_id != run_id && !world.truth.may_overlap(other.run_id);
        if other.key.0 == key.0 && overlaps && !is_excused(world, other) {
            beside = Some((other_pid, other.run_id));
        }
        if other.key == key && !is_excused(world, other) {
            twice = Some(other_pid);
        }
    }
    let of_fire = world.processes_of_fire.get(&key).into_iter().flatten();
    for &other_pid in of_fire.filter(|&&other| other != pid) {
        let other = &world.processes[&other_pid];
        let same_wish = other.run_id == run_id && other.asked == asked;
        if !safe && same_wish && (other.is_alive() || !other.failed_knowingly()) {
            unsafe_again = Some(other_pid);
        }
    }
    world.require(
        twice.is_none(),
        "P2",
        "no two processes of a shard at once",
        || format!("{key:?}: process {twice:?} is alive while {pid} starts"),
    );
    world.require(
        beside.is_none(),
        "P2",
        "no two runs of a job at once, where that is not allowed",
        || format!("{beside:?} is alive while {pid} of {run_id} starts"),
    );
    if twice.is_some() {
        return;
    }
    world.require(
        current,
        "P2",
        "a process starts under its shard's lease",
        || format!("{run_id}/{shard} starts under {token}, which is not the shard's lease"),
    );
    world.require(
        unsafe_again.is_none(),
        "P2",
        "an unknown end of an unsafe job goes to a person",
        || format!("{run_id}/{shard}: process {unsafe_again:?} ended nobody knows how, and {pid} starts"),
    );
}

/// Whether nobody could have ended this process in time: its deadline has passed, and it cannot
/// be killed, or its supervisor stands still or is gone, or has only just come back.
pub fn is_excused(world: &World, process: &Process) -> bool {
    let host = &world.hosts[process.host];
    let Some(&deadline) = world.deadlines.get(&(process.host, process.token)) else {
        return false;
    };
    let boot = world.host_now(process.host).boot;
    if boot <= deadline {
        return false;
    }
    if process.stuck || !host.is_supervised() {
        return true;
    }
    let back = host.clock.read(host.unsupervised_at).boot;
    back >= deadline && boot <= back + KILLED_WITHIN
}

/// A process has written, and the guard has let it or not.
pub fn on_write(world: &mut World, pid: u64, accepted: bool) {
    let process = &world.processes[&pid];
    let (key, token) = (process.key, process.token);
    let (granted, admitted) = (process.granted, process.admitted);
    let fenced = process.fence.is_some();
    let granted_high = world.results.granted_high.get(&key).copied().unwrap_or(0);
    let admitted_high = world
        .results
        .admitted_high
        .get(&key.0)
        .copied()
        .unwrap_or(0);
    if accepted {
        world.require(
            granted >= granted_high,
            "P2",
            "an overtaken process cannot write",
            || format!("process {pid} of {key:?} writes under {token} after a later lease wrote"),
        );
        world.require(
            !fenced || admitted >= admitted_high,
            "P2",
            "an overtaken execution cannot write",
            || format!("process {pid} of {key:?} writes after a later execution of its job wrote"),
        );
        world
            .results
            .granted_high
            .insert(key, granted_high.max(granted));
        if fenced {
            let high = admitted_high.max(admitted);
            world.results.admitted_high.insert(key.0, high);
        }
    } else {
        // What is being cancelled may have been overtaken by the next execution.
        let wanted = world.truth.is_wanted(token);
        world.require(!wanted, "P2", "who holds the lease can write", || {
            format!(
                "process {pid} of {key:?} under {token} holds the lease, and its write was refused"
            )
        });
    }
}
