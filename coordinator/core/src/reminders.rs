//! Who is asked to confirm a run is reminded while it lasts.

use std::collections::{BTreeMap, BTreeSet};

use ledger::RunRow;
use ledger::command::{Command, Remind};
use protocol::{BootMs, DurationMs, Now, RunId};

use crate::core::Core;

/// A person is reminded this often.
const REMIND: DurationMs = DurationMs(4 * 3_600_000);

/// Runs that wait for a person, and when each is to be told once more.
#[derive(Debug, Default)]
pub(crate) struct Reminders {
    due: BTreeSet<(BootMs, RunId)>,
    due_of: BTreeMap<RunId, BootMs>,
}

impl Reminders {
    /// Follows a run. The wall clock only says how much of the time is left, which is never more
    /// than all of it.
    pub(crate) fn note(&mut self, run: &RunRow, now: Now) {
        if let Some(at) = self.due_of.remove(&run.run_id) {
            self.due.remove(&(at, run.run_id));
        }
        if let Some(asked_at) = run.asked_at {
            let at = now.boot + (asked_at + REMIND - now.wall).clamp_to(REMIND);
            self.due.insert((at, run.run_id));
            self.due_of.insert(run.run_id, at);
        }
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = RunId> + '_ {
        self.due.iter().map(|&(_, run_id)| run_id)
    }

    fn due(&self, now: Now) -> impl Iterator<Item = RunId> + '_ {
        self.due
            .iter()
            .take_while(move |(at, _)| *at <= now.boot)
            .map(|&(_, run_id)| run_id)
    }
}

impl Core {
    pub(crate) fn remind(&mut self, now: Now) {
        for run_id in self.not_in_hand(self.reminders.due(now), now) {
            self.propose_for_run(run_id, Command::Remind(Remind { run_id }), now);
        }
    }
}
