//! What the ledger did not take is not proposed again at once, and again, and again.
//!
//! A refusal is ordinary: the state moved while the command was on its way, and what is decided
//! next fits the new one. But a command that a damaged table refuses would be decided anew the
//! moment its refusal came back, and the core would run in circles, as fast as the disk writes. So
//! after the second refusal in a row the matter rests, longer each time, and a person is told.

use std::collections::BTreeMap;

use ledger::command::{AlertKind, On, RaiseAlert};
use ledger::{Done, Refusal};
use protocol::{BootMs, DurationMs, Now, Rule, RunId};

use crate::core::Core;
use crate::queue::Key;

/// Refusals in a row after which a person is told.
const TOLD_AFTER: u32 = 5;

/// First and longest rest.
const SHORTEST: DurationMs = DurationMs(100);
const LONGEST: DurationMs = DurationMs(60_000);

/// What a command was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Matter {
    run_id: RunId,
    /// `None`: the run as a whole.
    shard: Option<u32>,
}

impl Matter {
    pub(crate) const fn run(run_id: RunId) -> Matter {
        Matter {
            run_id,
            shard: None,
        }
    }

    pub(crate) const fn shard(key: Key) -> Matter {
        Matter {
            run_id: key.0,
            shard: Some(key.1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Setback {
    refusals: u32,
    rests_until: BootMs,
}

#[derive(Debug, Default)]
pub(crate) struct Setbacks {
    of: BTreeMap<Matter, Setback>,
}

impl Setbacks {
    /// Whether the matter is left alone for now.
    pub(crate) fn rests(&self, matter: Matter, now: Now) -> bool {
        self.rests_until(matter, now).is_some()
    }

    /// Until when it is left alone, if it is.
    pub(crate) fn rests_until(&self, matter: Matter, now: Now) -> Option<BootMs> {
        if self.of.is_empty() {
            return None;
        }
        let until = self.of.get(&matter)?.rests_until;
        (now.boot < until).then_some(until)
    }

    /// Runs that are, or of which a shard is, kept.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunId> + '_ {
        self.of.keys().map(|matter| matter.run_id)
    }

    pub(crate) fn forget_run(&mut self, run_id: RunId) {
        if !self.of.is_empty() {
            self.of.retain(|matter, _| matter.run_id != run_id);
        }
    }

    /// Counts one more refusal of the matter; answers how many it has had in a row.
    fn refused(&mut self, matter: Matter, now: Now) -> u32 {
        let setback = self.of.entry(matter).or_insert(Setback {
            refusals: 0,
            rests_until: now.boot,
        });
        setback.refusals = setback.refusals.saturating_add(1);
        setback.rests_until = now.boot + rest(setback.refusals);
        setback.refusals
    }
}

/// None after the first refusal, and then twice as long each time.
fn rest(refusals: u32) -> DurationMs {
    match refusals.checked_sub(2) {
        None => DurationMs::ZERO,
        Some(doublings) => DurationMs(SHORTEST.0 << doublings.min(16)).clamp_to(LONGEST),
    }
}

impl Core {
    /// What became of a command that this core's scheduler decided by itself.
    pub(crate) fn note_setback(
        &mut self,
        matter: Matter,
        result: &Result<Done, Refusal>,
        now: Now,
    ) {
        let Err(refusal) = result else {
            self.setbacks.of.remove(&matter);
            return;
        };
        // Of what was over before the ledger could answer nothing is tried again.
        let Some(run) = self.set.runs.get(&matter.run_id) else {
            return;
        };
        let on = On::Run(run.job_id, run.run_id);
        if !self.rules.on(Rule::RefusedRests) || self.setbacks.refused(matter, now) != TOLD_AFTER {
            return;
        }
        let shard = matter
            .shard
            .map_or_else(String::new, |shard| format!("shard {shard} of "));
        let text = format!(
            "{shard}{} does not go on: {refusal}; it is tried again, ever more rarely, and everything \
             else goes on; compare its rows with a sound copy of the ledger",
            matter.run_id
        );
        let kind = AlertKind::CommandRefused;
        self.alert(RaiseAlert { kind, on, text }, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_costs_nothing_and_the_rest_ever_more() {
        let rests: Vec<i64> = (1..=14).map(|n| rest(n).0).collect();
        assert_eq!(rests[..5], [0, 100, 200, 400, 800]);
        assert_eq!(rests[11..], [60_000; 3]);
        assert_eq!(rest(u32::MAX), LONGEST);
    }
}
