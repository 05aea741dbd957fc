//! One attempt as its supervisor knows it.

use protocol::attempt::{Exit, Limit};
use protocol::supervisor::End;
use protocol::{BootMs, DurationMs, WallMs};

use super::MainUsage;
use super::ladder::Ladder;

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) deadline: BootMs,
    pub(super) takeover: DurationMs,
    pub(super) timeout: DurationMs,
    pub(super) output_directory: String,
    /// Limits of the launch that this host does not enforce.
    pub(super) not_enforced: Vec<Limit>,
    pub(super) phase: Phase,
    /// Its tree is being killed.
    pub(super) ladder: Option<Ladder>,
    pub(super) output: Output,
}

/// Whether anything can still come of what the attempt has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Open,
    /// Every writer is gone, and all that came is written down.
    Drained,
}

#[derive(Debug)]
pub(super) enum Phase {
    Spawning,
    Running {
        started_at: WallMs,
        timeout_at: BootMs,
    },
    /// The main process has exited; its tree is not yet known to be empty.
    Draining {
        started_at: WallMs,
        exit: Exit,
        usage: MainUsage,
        ended_at: WallMs,
        leftovers: u32,
        look_at: BootMs,
        pause: DurationMs,
    },
    /// The tree is empty; its output is still being written down.
    Closing {
        end: End,
        until: BootMs,
    },
    Ended(End),
}

impl Attempt {
    pub(super) fn timeout_at(&self) -> Option<BootMs> {
        match self.phase {
            Phase::Running { timeout_at, .. } => Some(timeout_at),
            _ => None,
        }
    }

    /// When this attempt next needs a step.
    pub(super) fn next_step(&self, deadline_enforced: bool) -> Option<BootMs> {
        let ladder = self.ladder.as_ref().map(Ladder::next_rung);
        match &self.phase {
            Phase::Spawning | Phase::Running { .. } => ladder.or_else(|| {
                let deadline = deadline_enforced.then_some(self.deadline);
                deadline.into_iter().chain(self.timeout_at()).min()
            }),
            Phase::Draining { look_at, .. } => ladder.into_iter().chain([*look_at]).min(),
            Phase::Closing { until, .. } => Some(*until),
            Phase::Ended(_) => None,
        }
    }
}
