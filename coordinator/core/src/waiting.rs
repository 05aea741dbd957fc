//! Runs that wait: who must be judged again when what changes, and until when each may wait.
//!
//! The ledger says in a run's row what the run waits for, and only the ledger judges whether it is
//! still so. This index turns that around: from a run, or a job, to those that wait for it. What
//! has changed wakes those, and nobody else; a queue of a thousand costs no more than one of two,
//! because each stands behind the one before it.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Blocker, Namespace, RunRow, RunState, WorkingSet};
use protocol::attempt::Trigger;
use protocol::{BootMs, DurationMs, JobId, Now, Rule, Rules, RunId, WallMs};

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    rules: Rules,
    runs: BTreeMap<RunId, Entry>,
    /// (what is waited for, who waits).
    for_run: BTreeSet<(RunId, RunId)>,
    for_job: BTreeSet<(JobId, RunId)>,
    /// Who waits for the fire before it, and who for its turn to catch up: by job and fire time.
    for_previous: BTreeSet<(JobId, WallMs, RunId)>,
    for_turn: BTreeSet<(JobId, WallMs, RunId)>,
    skip_at: BTreeSet<(BootMs, RunId)>,
    /// To be judged again.
    woken: BTreeSet<RunId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    job_id: JobId,
    fire_time: WallMs,
    on: Blocker,
    skip_at: Option<BootMs>,
}

/// What others see of a run that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Waits { in_line: bool },
    Live,
    Asks,
    Final,
}

impl Waiting {
    /// Nobody has watched what they waited for, so those that wait are to be judged again; but not
    /// those that stand behind one that stands where it stood: its own change will wake them. A
    /// queue of a thousand costs a new leader no more than one of two, for to judge each would be
    /// to look at all the others each time.
    pub(crate) fn build(set: &WorkingSet, now: Now, rules: Rules) -> Waiting {
        let mut waiting = Waiting {
            rules,
            ..Waiting::default()
        };
        for run in set.runs.values() {
            waiting.note(run, now);
            if run.state == RunState::Waiting && !stands_behind(run, set) {
                waiting.woken.insert(run.run_id);
            }
        }
        waiting.wake_next_turns();
        waiting
    }

    /// Follows a run's change; `before` is its row until now, where it was open.
    pub(crate) fn follow(&mut self, before: Option<&RunRow>, run: &RunRow, now: Now) {
        let changed =
            before.is_none_or(|before| (before.state, before.waits) != (run.state, run.waits));
        if !changed {
            return;
        }
        self.note(run, now);
        match before {
            None => self.wake_for_new(run),
            Some(before) => {
                // Where one has got its turn there may be room for the next.
                let turn = |run: &RunRow| {
                    run.waits
                        .is_some_and(|wait| matches!(wait.on, Blocker::Turn { .. }))
                };
                let catches_up = |run: &RunRow| run.trigger == Trigger::CatchUp;
                if turn(before) && !turn(run) || catches_up(before) && !catches_up(run) {
                    self.wake_next_turn(run.job_id);
                }
                self.wake_for_moved(standing(before), run);
            }
        }
    }

    /// Those that are to be judged again.
    pub(crate) fn woken(&self) -> impl Iterator<Item = RunId> + '_ {
        self.woken.iter().copied()
    }

    /// A command that judges the run is on its way.
    pub(crate) fn asked(&mut self, run_id: RunId) {
        self.woken.remove(&run_id);
    }

    /// It was not judged: it is to be, unless it does not wait any more.
    pub(crate) fn not_judged(&mut self, run_id: RunId) {
        if self.runs.contains_key(&run_id) {
            self.woken.insert(run_id);
        }
    }

    /// Runs that have passed their start deadline.
    pub(crate) fn overdue(&self, now: Now) -> impl Iterator<Item = RunId> + '_ {
        self.skip_at
            .iter()
            .take_while(move |(at, _)| *at <= now.boot)
            .map(|&(_, run)| run)
    }

    /// The next moment at which something here changes by itself.
    pub(crate) fn next_wake(&self) -> Option<BootMs> {
        self.skip_at.first().map(|&(at, _)| at)
    }

    pub(crate) fn len(&self) -> usize {
        let conditions = self.for_run.len() + self.for_job.len() + self.for_previous.len();
        let turns = self.for_turn.len();
        self.runs.len() + conditions + turns + self.skip_at.len() + self.woken.len()
    }

    /// The index without its moments: what two ways of building it must agree on.
    pub(crate) fn shape(&self) -> BTreeMap<RunId, (JobId, Blocker, bool)> {
        self.runs
            .iter()
            .map(|(&run, entry)| (run, (entry.job_id, entry.on, entry.skip_at.is_some())))
            .collect()
    }

    fn note(&mut self, run: &RunRow, now: Now) {
        self.forget(run.run_id);
        let Some(wait) = run.waits.filter(|_| run.state == RunState::Waiting) else {
            self.woken.remove(&run.run_id);
            return;
        };
        let entry = Entry {
            job_id: run.job_id,
            fire_time: run.fire_time,
            on: wait.on,
            skip_at: self.skip_at(run, now),
        };
        self.runs.insert(run.run_id, entry);
        self.skip_at
            .extend(entry.skip_at.map(|at| (at, run.run_id)));
        self.for_run
            .extend(wait.on.run().map(|on| (on, run.run_id)));
        let by_fire = (run.job_id, run.fire_time, run.run_id);
        match wait.on {
            Blocker::After { job, .. } => {
                self.for_job.insert((job, run.run_id));
            }
            Blocker::Previous { .. } => {
                self.for_previous.insert(by_fire);
            }
            Blocker::Turn { .. } => {
                self.for_turn.insert(by_fire);
            }
            Blocker::Overlap { .. } | Blocker::Replaced { .. } => {}
        }
    }

    fn forget(&mut self, run_id: RunId) {
        let Some(entry) = self.runs.remove(&run_id) else {
            return;
        };
        if let Some(at) = entry.skip_at {
            self.skip_at.remove(&(at, run_id));
        }
        if let Some(on) = entry.on.run() {
            self.for_run.remove(&(on, run_id));
        }
        let by_fire = (entry.job_id, entry.fire_time, run_id);
        match entry.on {
            Blocker::After { job, .. } => self.for_job.remove(&(job, run_id)),
            Blocker::Previous { .. } => self.for_previous.remove(&by_fire),
            Blocker::Turn { .. } => self.for_turn.remove(&by_fire),
            Blocker::Overlap { .. } | Blocker::Replaced { .. } => false,
        };
    }

    /// When its start deadline passes, if that counts while it waits for this.
    fn skip_at(&self, run: &RunRow, now: Now) -> Option<BootMs> {
        if !self.rules.on(Rule::WaitingIsBounded) {
            return None;
        }
        let (until, length) = (run.waits_until()?, run.start_deadline?);
        // The wall clock only says how much of it is left, which is never more than all of it.
        Some(now.boot + (until - now.wall).clamp_to(length))
    }

    /// A run that nobody could see before: of a new fire, or one that is carried out again.
    fn wake_for_new(&mut self, run: &RunRow) {
        let waiters = self.for_job.range((run.job_id, RunId(i64::MIN))..);
        let waiters = waiters.take_while(|(job, _)| *job == run.job_id);
        self.woken.extend(waiters.map(|&(_, waiter)| waiter));
        if run.namespace == Namespace::Scheduled {
            // It may be the fire before the next one that waits for such.
            let later = (run.job_id, run.fire_time + DurationMs(1), RunId(i64::MIN));
            let next = self.for_previous.range(later..).next();
            let next = next.filter(|(job, _, _)| *job == run.job_id);
            self.woken.extend(next.map(|&(_, _, waiter)| waiter));
        }
        if run.state.is_final() {
            self.wake_for_end(run);
        }
    }

    fn wake_for_moved(&mut self, before: Standing, run: &RunRow) {
        match (before, standing(run)) {
            (before, after) if before == after => {}
            // Who stands behind it goes on standing there.
            (_, Standing::Live) | (Standing::Waits { .. }, Standing::Waits { in_line: true }) => {}
            // One that joins the line, as after a rerun, stands at its end.
            (_, Standing::Waits { .. } | Standing::Asks | Standing::Final) => {
                self.wake_for_end(run);
            }
        }
    }

    fn wake_for_end(&mut self, run: &RunRow) {
        let waiters = self.for_run.range((run.run_id, RunId(i64::MIN))..);
        let waiters = waiters.take_while(|(on, _)| *on == run.run_id);
        self.woken.extend(waiters.map(|&(_, waiter)| waiter));
        if run.trigger == Trigger::CatchUp {
            self.wake_next_turn(run.job_id);
        }
    }

    /// The oldest of each job: whoever had to wake it may not have come to that.
    fn wake_next_turns(&mut self) {
        let mut job = None;
        for &(job_id, _, waiter) in &self.for_turn {
            if job.replace(job_id) != Some(job_id) {
                self.woken.insert(waiter);
            }
        }
    }

    fn wake_next_turn(&mut self, job_id: JobId) {
        let first = (job_id, WallMs(i64::MIN), RunId(i64::MIN));
        let oldest = self.for_turn.range(first..).next();
        let oldest = oldest.filter(|(job, _, _)| *job == job_id);
        self.woken.extend(oldest.map(|&(_, _, waiter)| waiter));
    }
}

/// Whether the run waits in a line, and who is before it there has not moved out of the way.
fn stands_behind(run: &RunRow, set: &WorkingSet) -> bool {
    let Some(wait) = run.waits else {
        return false;
    };
    let before = wait.on.run().and_then(|before| set.runs.get(&before));
    let Some(before) = before else {
        return false;
    };
    match (wait.on, standing(before)) {
        (Blocker::Overlap { .. } | Blocker::Turn { .. }, Standing::Live) => true,
        (Blocker::Overlap { .. }, Standing::Waits { in_line: true }) => {
            before.execution_id < run.execution_id
        }
        (Blocker::Turn { .. }, Standing::Waits { .. }) => before.fire_time < run.fire_time,
        _ => false,
    }
}

fn standing(run: &RunRow) -> Standing {
    match run.state {
        RunState::Waiting => Standing::Waits {
            in_line: run.waits.is_some_and(|wait| wait.on.is_line()),
        },
        RunState::Ready | RunState::Running => Standing::Live,
        RunState::NeedsConfirmation => Standing::Asks,
        RunState::Succeeded
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Skipped
        | RunState::Missed => Standing::Final,
    }
}
