//! P7: recovery is bounded, and what is past the bounds goes to a person.

use std::collections::BTreeMap;

use ledger::command::Decision;
use ledger::{Change, Command, Done, Outcome, Proposal, RunRow, RunState, ShardState};
use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::{JobId, Token};

use super::p6_clocks::decisions;
use super::tables::{Tables, number, number_or_null, text};
use crate::world::World;

/// Ends in a row that use up no retry before a person is asked.
const FREE_ENDS_MAX: i64 = 10;

/// Late fires that one decision may bring.
const LATE_AT_MOST: usize = 1_000;

/// The most that a manifest may ask for.
const CATCH_UP_AT_MOST: usize = 100;

pub fn on_propose(world: &mut World, proposal: &Proposal) {
    let Some(decisions) = decisions(&proposal.command) else {
        return;
    };
    let version = match &proposal.command {
        Command::Fire(fire) => Some((fire.job_id, fire.version)),
        Command::DeleteJob(delete) => Some((delete.job_id, delete.settle.version)),
        Command::ResumeJob(resume) => Some((resume.job_id, resume.settle.version)),
        // A put knows its job by name only.
        _ => None,
    };
    let manifest = version.and_then(|version| world.truth.manifests.get(&version));
    let at_most = manifest.map_or(CATCH_UP_AT_MOST, |m| m.catch_up.at_most as usize);
    let catch_ups = catch_ups(decisions);
    world.require(
        catch_ups <= at_most,
        "P7",
        "one decision catches up with so many fires",
        || format!("{catch_ups} fires are caught up with at once, {at_most} are allowed"),
    );
    let len = decisions.len();
    world.require(
        len <= LATE_AT_MOST + 1 + CATCH_UP_AT_MOST,
        "P7",
        "a decision is bounded",
        || format!("{len} decisions in one command"),
    );
}

/// How many fires these decisions catch up with.
pub fn catch_ups(decisions: &[Decision]) -> usize {
    let is_catch_up = |decision: &&Decision| {
        matches!(
            decision,
            Decision::Run {
                trigger: Trigger::CatchUp,
                ..
            }
        )
    };
    decisions.iter().filter(is_catch_up).count()
}

/// Only `failed`, `timed_out` and `lost` use up a retry.
pub fn before_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    let how = |token: Token| -> Option<AttemptOutcome> {
        match (&proposal.command, &outcome.result) {
            (Command::Finish(finish), Ok(_)) if finish.token == token => Some(finish.end.outcome),
            (Command::Expire(expire), Ok(_)) if expire.token == token => Some(AttemptOutcome::Lost),
            (_, Ok(Done::Attached { released, .. })) => released
                .iter()
                .find(|(released, _)| *released == token)
                .map(|&(_, how)| how),
            _ => None,
        }
    };
    for change in &outcome.changes {
        let Change::Shard(after) = change else {
            continue;
        };
        let Some(before) = world.truth.set.shards.get(&(after.run_id, after.shard)) else {
            continue;
        };
        let (ShardState::Leased(lease), ShardState::Pending { .. }) = (before.state, after.state)
        else {
            continue;
        };
        let Some(how) = how(lease.token).filter(|_| !lease.cancelling) else {
            continue;
        };
        let used = after.retries_used - before.retries_used.min(after.retries_used);
        let expected = matches!(
            how,
            AttemptOutcome::Failed | AttemptOutcome::TimedOut | AttemptOutcome::Lost
        );
        world.require(
            used == u32::from(expected),
            "P7",
            "only failures use up retries",
            || format!("{} ended {how:?} and used up {used} retries", lease.token),
        );
    }
}

/// Commands that may be committed in one second: beyond it a core runs in circles.
const COMMANDS_A_SECOND: usize = 250;

/// What a herd may bring at once, and what each of its jobs may: fire, grant, start, receipt, and
/// some of them again.
const HERD: usize = 2_000;
const COMMANDS_A_JOB: usize = 6;

pub fn look(world: &mut World) {
    let (log, at) = (world.log.len(), world.now);
    let (log_before, at_before) = world.log_looked_at;
    let herd = HERD.max(COMMANDS_A_JOB * world.truth.set.jobs.len());
    let most = herd + COMMANDS_A_SECOND * ((at - at_before) / 1_000) as usize;
    if at - at_before > 10_000 || log - log_before > most {
        world.log_looked_at = (log, at);
        world.require(
            log - log_before <= most,
            "P7",
            "no core runs in circles",
            || format!("{} commands in {} ms", log - log_before, at - at_before),
        );
    }
    let mut over = None;
    for (index, host) in world.hosts.iter().enumerate() {
        if let Some(agent) = &host.agent {
            let held = agent.core.attempts().count();
            if held > host.slots as usize {
                over = Some((index, held));
            }
        }
    }
    world.require(
        over.is_none(),
        "P7",
        "a host holds no more than its slots",
        || format!("{over:?}"),
    );
}

/// Catch-up runs of a job are live by turns.
pub fn after_commit(world: &mut World, outcome: &Outcome) {
    let moved =
        |change: &Change| matches!(change, Change::Run(run) if run.trigger == Trigger::CatchUp);
    if !outcome.changes.iter().any(moved) {
        return;
    }
    let mut live: BTreeMap<(JobId, u32), u32> = BTreeMap::new();
    let mut over = None;
    for run in world.truth.set.runs.values() {
        // One that a person has sent on again does not wait for its turn.
        let counts = run.trigger == Trigger::CatchUp && run.state.is_live();
        if !counts || world.truth.facts_of(run.run_id).asked > 0 {
            continue;
        }
        let key = (run.job_id, run.version);
        let n = live.entry(key).or_default();
        *n += 1;
        let manifest = world.truth.manifests.get(&key);
        if manifest.is_some_and(|manifest| *n > manifest.catch_up.concurrency) {
            over = Some((run.job_id, *n));
        }
    }
    world.require(over.is_none(), "P7", "catch-up runs take turns", || {
        format!("{over:?} are live at once")
    });
}

/// Nothing waits beyond its start deadline, but for its turn or a person.
fn audit_waiting(world: &mut World) {
    let over = world
        .truth
        .set
        .runs
        .values()
        .find(|run| waits_until(world, run).is_some_and(|until| world.now > until + ROOM_MS));
    let over = over.map(|run| format!("{} since {}: {:?}", run.run_id, run.admitted_at, run.waits));
    world.require(over.is_none(), "P7", "waiting is bounded", || {
        over.unwrap_or_default()
    });
}

/// How late a deadline may be noticed.
const ROOM_MS: i64 = 60_000;

/// True time until which a run may wait, where anything but its turn or a person ends its wait. A
/// clock that is wrong when a leader learns of it costs no more than the whole length once more.
pub fn waits_until(world: &World, run: &RunRow) -> Option<i64> {
    let wait = run.waits.filter(|_| run.state == RunState::Waiting)?;
    if run.trigger == Trigger::CatchUp && !wait.on.is_condition() {
        return None;
    }
    let (_, since) = world.truth.waits_since.get(&run.run_id)?;
    Some(since + run.start_deadline?.0)
}

/// At rest every attempt has ended, with an outcome.
pub fn audit_at_rest(world: &mut World, tables: &Tables) {
    audit_waiting(world);
    let open = tables
        .rows("attempts")
        .iter()
        .find(|attempt| number_or_null(attempt, "outcome").is_none());
    world.require(open.is_none(), "P7", "every attempt ends", || {
        format!("{open:?}")
    });
}

pub fn audit(world: &mut World, tables: &Tables) {
    let mut attempts: BTreeMap<(i64, i64, i64), i64> = BTreeMap::new();
    for attempt in tables.rows("attempts") {
        let key = ["run_id", "shard", "execution"].map(|column| number(attempt, column));
        *attempts.entry((key[0], key[1], key[2])).or_default() += 1;
    }
    let asked = |run_id: i64| {
        let facts = world.truth.facts_of(protocol::RunId(run_id));
        i64::from(facts.asked)
    };
    let retries_of: BTreeMap<(i64, i64), i64> = tables
        .rows("versions")
        .iter()
        .map(|version| {
            let key = (number(version, "job_id"), number(version, "version"));
            (key, number(version, "retry_at_most"))
        })
        .collect();
    let mut over = None;
    for run in tables.rows("runs") {
        let run_id = number(run, "run_id");
        let version = (number(run, "job_id"), number(run, "version"));
        let retries = retries_of.get(&version).copied().unwrap_or(0);
        let most = (retries + 1) * (FREE_ENDS_MAX + 1) * (asked(run_id) + 1);
        for ((of, shard, execution), count) in attempts.range((run_id, 0, 0)..(run_id + 1, 0, 0)) {
            if *count > most {
                over = Some(format!(
                    "run-{of}/{shard} of execution {execution}: {count} attempts, at most {most} ({})",
                    text(run, "reason")
                ));
            }
        }
    }
    world.require(over.is_none(), "P7", "attempts are bounded", || {
        over.unwrap_or_default()
    });
}
