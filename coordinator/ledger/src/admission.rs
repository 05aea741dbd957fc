//! Whether a run may start, and if not, what it waits for.
//!
//! One question, asked in one place: when a run is written, when what it waited for has changed,
//! and when a person wants it once more. Between any two of these others may have come, so the
//! answer of before never counts. It is found on rows alone: the conditions that the job's owner
//! has set ([`crate::conditions`]), then the job's place ([`crate::overlap`]).
//!
//! What a run waits for is kept as a code with ids and not in words: the words are made when
//! somebody reads ([`waiting_words`]), from what the other rows say by then.

use jobs::{Overlap, Previous};
use protocol::{JobId, Rule, RunId};
use rusqlite::Connection;

use crate::apply::{Context, Stop};
use crate::codes::{BlockerKind, Coded, FIRST_FINAL_RUN_STATE};
use crate::command::AlertKind;
use crate::rows::{Blocker, Namespace, RunState, ShardState, Wait};
use crate::settle::pending_at;
use crate::tables::job::{Policy, name_of};
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// The answer for a run that is about to be written, or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Start,
    Wait(Blocker),
    /// As soon as nothing of the live ones is leased any more. Those that wait are given up.
    Replace {
        live: Vec<RunId>,
        waiting: Vec<RunId>,
    },
    Skip(Never),
}

/// Why a run will never start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {
    /// The job forbids overlap, and this one is live.
    Overlap { live: RunId },
    /// A run that it comes after has ended without success.
    After {
        job: JobId,
        run: RunId,
        state: RunState,
    },
}

impl Context<'_> {
    /// Judges a run that is not live, and lets it start, wait, or be skipped. The caller writes the
    /// run's row afterwards.
    pub(crate) fn admit(&mut self, run: &mut Run) -> Result<(), Stop> {
        let policy = self.policy(run.row.job_id, run.row.version)?;
        if run.tally.leased > 0 {
            // Its leases of before are live, and so is the run.
            self.take_fence(run, &policy);
            run.row.state = RunState::Running;
            return Ok(());
        }
        match self.judge(run, &policy)? {
            Verdict::Start => self.make_ready(run, &policy),
            Verdict::Wait(blocker) => {
                self.make_waiting(run, blocker);
                Ok(())
            }
            Verdict::Replace { live, waiting } => self.replace(run, &policy, &live, &waiting),
            Verdict::Skip(never) => self.give_up(run, never),
        }
    }

    fn judge(&self, run: &Run, policy: &Policy) -> Result<Verdict, Stop> {
        if let Some(verdict) = self.judge_conditions(run, policy)? {
            return Ok(verdict);
        }
        self.judge_overlap(run, policy)
    }

    /// Lets a run start: takes its fence, and writes its shards where it has none yet.
    fn make_ready(&mut self, run: &mut Run, policy: &Policy) -> Result<(), Stop> {
        self.take_fence(run, policy);
        run.row.state = RunState::Ready;
        run.row.reason = None;
        run.row.waits = None;
        let state = pending_at(self.at);
        let shards = self.shards(run.row.run_id)?;
        if shards.is_empty() {
            for shard in 0..run.row.shards {
                self.insert_shard(run, &Shard::new(run.row.run_id, shard, state))?;
            }
            return Ok(());
        }
        for mut shard in shards {
            if matches!(shard.row.state, ShardState::Pending { .. }) {
                let why = shard.row.reason.clone();
                self.move_shard(run, &mut shard, state, why)?;
            }
        }
        Ok(())
    }

    /// A fence higher than that of every run of any job that left `waiting` before. Where runs of
    /// the job may overlap none overtakes another, and there is none.
    fn take_fence(&mut self, run: &mut Run, policy: &Policy) {
        if policy.overlap == Overlap::Allow {
            run.row.fence = None;
        } else if run.row.fence.is_none() || self.rules.on(Rule::FencePerExecution) {
            run.row.fence = Some(self.meta.mint_position());
        }
    }

    /// Its next start takes a new fence.
    fn make_waiting(&mut self, run: &mut Run, on: Blocker) {
        if self.rules.on(Rule::FencePerExecution) {
            run.row.fence = None;
        }
        let before = run.row.waits.filter(|_| run.row.state == RunState::Waiting);
        let same_kind = before.filter(|wait| wait.on.is_condition() == on.is_condition());
        run.row.state = RunState::Waiting;
        run.row.reason = None;
        run.row.waits = Some(Wait {
            on,
            since: same_kind.map_or(self.at, |wait| wait.since),
        });
    }

    /// Makes room: cancels what is live, gives up what waits, and starts when nothing is leased.
    fn replace(
        &mut self,
        run: &mut Run,
        policy: &Policy,
        live: &[RunId],
        waiting: &[RunId],
    ) -> Result<(), Stop> {
        let why = format!("replaced by {}", run.row.run_id);
        for &run_id in waiting {
            let mut other = self.run(run_id)?;
            self.make_skipped(&mut other, why.clone())?;
            self.update_run(&other)?;
        }
        let mut leased = None;
        for &run_id in live {
            let mut other = self.run(run_id)?;
            let ending = |shard: &Shard| match shard.row.state {
                ShardState::Leased(lease) => lease.cancelling && !shard.again,
                ShardState::Pending { .. } | ShardState::NeedsConfirmation => false,
                ShardState::Succeeded | ShardState::Cancelled => true,
            };
            if !self.shards(run_id)?.iter().all(ending) {
                self.cancel_open(&mut other, &why)?;
            }
            if !other.row.state.is_final() {
                leased = leased.or(Some(run_id));
            }
        }
        match leased {
            Some(other) => {
                self.make_waiting(run, Blocker::Replaced { run: other });
                Ok(())
            }
            None => self.make_ready(run, policy),
        }
    }

    fn give_up(&mut self, run: &mut Run, never: Never) -> Result<(), Stop> {
        let title = self.title(&run.row)?;
        let again = format!(
            "to run what was skipped: `matins rerun {} --reason WHY`{}",
            run.row.run_id,
            self.holds_up(run)?
        );
        let (kind, reason, text) = match never {
            Never::Overlap { live } => (
                AlertKind::OverlapSkipped,
                format!("overlap: {live} is live, and the policy is forbid"),
                format!(
                    "{title} was skipped: {live} was still live, and the overlap policy is forbid. \
                     See `matins describe {live}`; {again}"
                ),
            ),
            Never::After {
                job,
                run: other,
                state,
            } => {
                let name = name_of(self.conn, job)?;
                let state = state.as_str();
                (
                    AlertKind::PredecessorFailed,
                    format!("after: {other} of {name} is {state}"),
                    format!(
                        "{title} was skipped: it comes after {other} of {name}, which is {state}. \
                         See `matins describe {other}`; {again}"
                    ),
                )
            }
        };
        self.make_skipped(run, reason)?;
        self.raise(kind, run.on(), &text)
    }

    /// What comes after the advice to rerun a run that is skipped: whether the job's later fires
    /// wait for it.
    pub(crate) fn holds_up(&self, run: &Run) -> Result<&'static str, Stop> {
        let policy = self.policy(run.row.job_id, run.row.version)?;
        let needed = policy.previous == Some(Previous::Succeeded);
        Ok(if needed && run.row.namespace == Namespace::Scheduled {
            ". Until it has succeeded, the fire after it waits for it, and is skipped in turn \
             (`previous: succeeded`)"
        } else {
            ""
        })
    }

    /// Ends a run that waits, for good. The caller writes its row afterwards.
    pub(crate) fn make_skipped(&mut self, run: &mut Run, reason: String) -> Result<(), Stop> {
        // One that waits to be carried out again has shards already.
        for mut shard in self.shards(run.row.run_id)? {
            if matches!(shard.row.state, ShardState::Pending { .. }) {
                let why = Some("its run was skipped".to_owned());
                self.move_shard(run, &mut shard, ShardState::Cancelled, why)?;
            }
        }
        run.row.state = RunState::Skipped;
        run.row.reason = Some(reason);
        run.row.waits = None;
        run.ended_at = Some(self.at);
        Ok(())
    }

    /// What a waiting run waits for, in words.
    pub(crate) fn waits_for(&self, run_id: RunId) -> Result<String, Stop> {
        Ok(read_waiting_words(self.conn, run_id)?.unwrap_or_default())
    }
}

/// What a waiting run waits for, in words; `None` where it does not wait.
pub(crate) fn read_waiting_words(
    conn: &Connection,
    run_id: RunId,
) -> rusqlite::Result<Option<String>> {
    conn.prepare_cached(&format!(
        "SELECT {} FROM runs r WHERE r.run_id = ?1",
        waiting_words("r")
    ))?
    .query_row([run_id.0], |row| row.get(0))
}

/// An expression of SQL over a row `run` of `runs`: what it waits for, as the other rows have it
/// when it is asked. NULL where it does not wait.
pub(crate) fn waiting_words(run: &str) -> String {
    let states: Vec<String> = RunState::ALL
        .iter()
        .map(|state| format!("WHEN {} THEN '{}'", state.code(), state.word()))
        .collect();
    let states = states.join(" ");
    let state = format!(
        "coalesce((SELECT CASE o.state {states} END FROM runs o WHERE o.run_id = {run}.waits_run), 'gone')"
    );
    let job = format!("(SELECT j.name FROM jobs j WHERE j.job_id = {run}.waits_job)");
    let is_deleted = format!("(SELECT j.deleted FROM jobs j WHERE j.job_id = {run}.waits_job)");
    let other = format!("'run-' || {run}.waits_run");
    let words = |kind: BlockerKind| match kind {
        BlockerKind::Overlap => {
            format!("'overlap: in line behind ' || {other} || ', which is ' || {state}")
        }
        BlockerKind::Replaced => {
            format!("'overlap: replaces ' || {other} || ', and waits until nothing of it runs'")
        }
        BlockerKind::Previous => {
            // One that is over does not come to succeed by itself, where it has to.
            let (succeeded, needed) = (RunState::Succeeded.code(), Previous::Succeeded.code());
            let holds_up = format!(
                "EXISTS (SELECT 1 FROM runs o WHERE o.run_id = {run}.waits_run \
                 AND o.state >= {FIRST_FINAL_RUN_STATE} AND o.state <> {succeeded}) \
                 AND (SELECT v.previous = {needed} FROM versions v \
                 WHERE v.job_id = {run}.job_id AND v.version = {run}.version)"
            );
            format!(
                "'previous: the fire before is ' || {other} || ', which is ' || {state} \
                 || iif({holds_up}, ' and must be rerun first', '')"
            )
        }
        BlockerKind::After => format!(
            "'after: ' || iif({run}.waits_run IS NULL, {job} || iif({is_deleted}, \
             ' is deleted and has no run for this fire', ' has no run for this fire yet'), \
             {other} || ' of ' || {job} || ' is ' || {state})"
        ),
        BlockerKind::Turn => {
            format!("'catch_up: its turn comes after ' || {other} || ', which is ' || {state}")
        }
    };
    let cases: Vec<String> = BlockerKind::ALL
        .iter()
        .map(|&kind| format!("WHEN {} THEN {}", kind.code(), words(kind)))
        .collect();
    format!("CASE {run}.waits_on {} END", cases.join(" "))
}
