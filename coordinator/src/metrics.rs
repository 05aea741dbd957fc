//! What has happened since this process began, counted for whoever watches it.
//!
//! Counted here by the threads that do it, each count an atomic of its own; written as text, with
//! what is so at that moment, by `api/metrics.rs`. Labels come from closed sets: none grows with
//! jobs, runs or hosts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use ledger::command::{Command, Finish};
use ledger::{Change, Done, RunRow, RunState, WorkingSet};
use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::{BootMs, DurationMs, Now};

use crate::committer::Committed;

/// A count for each member of a closed set.
pub(crate) struct Tally<T: 'static> {
    members: &'static [T],
    counts: Vec<AtomicU64>,
}

/// How often a value was at most so large.
pub(crate) struct Histogram {
    /// Upper bounds, rising.
    pub(crate) bounds: &'static [f64],
    /// One for each bound, and one for what is larger than all.
    counts: Vec<AtomicU64>,
    /// Of all values, in millionths.
    sum_micros: AtomicU64,
}

pub(crate) struct Metrics {
    pub(crate) commands_done: AtomicU64,
    pub(crate) commands_refused: AtomicU64,
    /// Executions that were admitted, by what asked for them.
    pub(crate) executions: Tally<Trigger>,
    /// Runs that came to rest, by how.
    pub(crate) runs_ended: Tally<RunState>,
    pub(crate) leases_granted: AtomicU64,
    pub(crate) attempts_ended: Tally<AttemptOutcome>,
    /// Fire time to lease, seconds, of the first attempts of what the schedule fired.
    pub(crate) lateness: Histogram,
    pub(crate) commit: Histogram,
    pub(crate) batch: Histogram,
    pub(crate) clock_steps: AtomicU64,
    /// When the batch was begun that is being written; -1 between two batches.
    batch_begun: AtomicI64,
}

const TRIGGERS: &[Trigger] = &[
    Trigger::Scheduled,
    Trigger::CatchUp,
    Trigger::Manual,
    Trigger::Rerun,
    Trigger::Redo,
];

const ENDS: &[RunState] = &[
    RunState::Succeeded,
    RunState::Failed,
    RunState::Cancelled,
    RunState::Skipped,
    RunState::Missed,
];

const OUTCOMES: &[AttemptOutcome] = &[
    AttemptOutcome::Succeeded,
    AttemptOutcome::Failed,
    AttemptOutcome::TimedOut,
    AttemptOutcome::Lost,
    AttemptOutcome::Interrupted,
    AttemptOutcome::Cancelled,
    AttemptOutcome::Refused,
    AttemptOutcome::NeverStarted,
];

const LATENESS_BOUNDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0,
];

const COMMIT_BOUNDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

const BATCH_BOUNDS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0,
];

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            commands_done: AtomicU64::new(0),
            commands_refused: AtomicU64::new(0),
            executions: Tally::new(TRIGGERS),
            runs_ended: Tally::new(ENDS),
            leases_granted: AtomicU64::new(0),
            attempts_ended: Tally::new(OUTCOMES),
            lateness: Histogram::new(LATENESS_BOUNDS),
            commit: Histogram::new(COMMIT_BOUNDS),
            batch: Histogram::new(BATCH_BOUNDS),
            clock_steps: AtomicU64::new(0),
            batch_begun: AtomicI64::new(-1),
        }
    }
}

impl Metrics {
    pub(crate) fn note_batch_begun(&self, at: BootMs) {
        self.batch_begun.store(at.0, Ordering::Relaxed);
    }

    pub(crate) fn note_batch_ended(&self) {
        self.batch_begun.store(-1, Ordering::Relaxed);
    }

    pub(crate) fn note_batch_written(&self, commands: usize, took: Duration) {
        self.commit.note(took.as_secs_f64());
        self.batch.note(commands as f64);
    }

    /// How long the ledger has been writing one batch, if it is.
    pub(crate) fn writing_for(&self, now: BootMs) -> Option<DurationMs> {
        let begun = self.batch_begun.load(Ordering::Relaxed);
        (begun >= 0).then(|| now - BootMs(begun))
    }

    pub(crate) fn note_clock_step(&self) {
        add(&self.clock_steps);
    }

    /// Counts a batch that came back. `before` is the working set without it.
    pub(crate) fn note_committed(&self, before: &WorkingSet, batch: &[Committed], now: Now) {
        for committed in batch {
            let Ok(done) = &committed.outcome.result else {
                add(&self.commands_refused);
                continue;
            };
            add(&self.commands_done);
            for change in &committed.outcome.changes {
                if let Change::Run(run) = change {
                    self.note_run(before, run);
                }
            }
            self.note_attempts(before, committed.command(), done, now);
        }
    }

    fn note_run(&self, before: &WorkingSet, run: &RunRow) {
        // A run that is at rest is not in the working set; its next change is another execution.
        let known = before.runs.get(&run.run_id);
        if known.is_none_or(|known| known.execution != run.execution) {
            self.executions.note(run.trigger);
        }
        if run.state.is_final() {
            self.runs_ended.note(run.state);
        }
    }

    fn note_attempts(&self, before: &WorkingSet, command: &Command, done: &Done, now: Now) {
        match (command, done) {
            (
                Command::Grant(_),
                Done::Granted {
                    run_id, attempt, ..
                },
            ) => {
                add(&self.leases_granted);
                let run = before.runs.get(run_id);
                if let Some(run) = run.filter(|run| {
                    *attempt == 1 && run.execution == 1 && run.trigger == Trigger::Scheduled
                }) {
                    let late = (now.wall - run.fire_time).0.max(0);
                    self.lateness.note(late as f64 / 1000.0);
                }
            }
            (Command::Finish(Finish { end, .. }), Done::Finished { counted: true }) => {
                self.attempts_ended.note(end.outcome);
            }
            (Command::Expire(_), Done::Expired) => {
                self.attempts_ended.note(AttemptOutcome::Lost);
            }
            (Command::AttachAgent(_), Done::Attached { released, .. }) => {
                for (_, outcome) in released {
                    self.attempts_ended.note(*outcome);
                }
            }
            _ => {}
        }
    }
}

impl<T: Copy + PartialEq> Tally<T> {
    fn new(members: &'static [T]) -> Tally<T> {
        let counts = members.iter().map(|_| AtomicU64::new(0)).collect();
        Tally { members, counts }
    }

    fn note(&self, member: T) {
        if let Some(place) = self.members.iter().position(|known| *known == member) {
            add(&self.counts[place]);
        }
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (T, u64)> {
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        self.members.iter().copied().zip(counts)
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_micros: AtomicU64::new(0),
        }
    }

    fn note(&self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        add(&self.counts[place]);
        let micros = (value * 1e6) as u64;
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// For each bound, how many values were at most so large; then how many there were.
    pub(crate) fn cumulative(&self) -> Vec<u64> {
        let mut sum = 0;
        let counts = self.counts.iter();
        counts
            .map(|count| {
                sum += count.load(Ordering::Relaxed);
                sum
            })
            .collect()
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum_micros.load(Ordering::Relaxed) as f64 / 1e6
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_what_is_at_most_its_bound() {
        let histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        for value in [0.5, 1.0, 1.5, 4.0, 9.0] {
            histogram.note(value);
        }
        assert_eq!(histogram.cumulative(), [2, 3, 4, 5]);
        assert!((histogram.sum() - 16.0).abs() < 1e-9);
    }
}
