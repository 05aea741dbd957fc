//! What every index holds, beside what is open. An index that keeps something of what is over grows
//! by that for as long as its leader reigns, which may be a year.

use std::collections::BTreeSet;

use protocol::RunId;

use crate::core::Core;

/// How full one index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub index: &'static str,
    pub entries: usize,
    /// As many as what is open, or on its way, can account for.
    pub at_most: usize,
}

impl Core {
    /// How full each index is. Walks over some of them.
    pub fn held(&self) -> Vec<Held> {
        let set = &self.set;
        let (jobs, runs, shards) = (set.jobs.len(), set.runs.len(), set.shards.len());
        let (agents, on_its_way) = (set.agents.len(), self.in_flight());
        let conns = self.sessions.connected();
        let held = |index, entries, at_most| Held {
            index,
            entries,
            at_most,
        };
        vec![
            held("versions", self.catalogue.len(), set.versions_needed()),
            held("demands", self.catalogue.demands(), self.catalogue.len()),
            held("names", self.names.len(), jobs),
            held("firing", self.firing.len(), 2 * jobs + on_its_way),
            held("queue", self.queue.len(), runs + 7 * shards + agents),
            held("waiting", self.waiting_len(), 5 * runs),
            held("reminders", self.reminders.runs().count(), runs),
            held("grants", self.grants.len(), 2 * shards + 4 * on_its_way),
            held("receipts", self.receipts.len(), 3 * shards),
            held("fleet", self.fleet.len(), 2 * agents),
            held("sessions", self.sessions.len(), 2 * conns + 2 * agents),
            held("healths", self.healths.len(), 2 * agents),
            held("setbacks", self.setbacks.runs().count(), runs + shards),
        ]
    }

    /// Whether what is kept of runs is kept of open ones only.
    pub(crate) fn check_kept(&self) -> Result<(), String> {
        let setbacks: BTreeSet<RunId> = self.setbacks.runs().collect();
        let failures = self.grants.failed_runs().collect();
        let reminders = self.reminders.runs().collect();
        for (what, kept) in [
            ("setbacks", setbacks),
            ("failures", failures),
            ("reminders", reminders),
        ] {
            if let Some(over) = kept.iter().find(|run| !self.set.runs.contains_key(run)) {
                return Err(format!("{what} of {over} are kept, and it is over"));
            }
        }
        // Who leads no more is thrown away with whatever it had begun.
        let leads = self.epoch().is_some();
        let full = |held: &Held| leads && held.entries > held.at_most;
        match self.held().into_iter().find(full) {
            Some(held) => Err(format!("an index holds too much: {held:?}")),
            None => Ok(()),
        }
    }
}
