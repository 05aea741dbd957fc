//! What a person is told, and that it is over.
//!
//! An alert is a command like any other, so it is kept with the ledger and outlives who raised it. What
//! a new leader finds open it cannot know to be so still: it says again what it sees itself, and that
//! the rest is over.

use ledger::command::{AlertKind, Command, On, Over, RaiseAlert, SettleAlerts};
use protocol::{DurationMs, Now, WallMs};

use crate::clock::{self, Tell};
use crate::core::{Core, Flight};

/// Of what lasts, a person is reminded this often.
pub(crate) const REMIND_EVERY: DurationMs = DurationMs(86_400_000);

impl Core {
    pub(crate) fn alert(&mut self, alert: RaiseAlert, now: Now) {
        self.propose(Flight::Note, Command::RaiseAlert(alert), now);
    }

    pub(crate) fn settle_alerts(&mut self, kind: AlertKind, over: Over, now: Now) {
        let settle = SettleAlerts { kind, over };
        self.propose(Flight::Note, Command::SettleAlerts(settle), now);
    }

    pub(crate) fn tell_of_unreadable_jobs(&mut self, now: Now) {
        let unreadable: Vec<_> = self
            .set
            .jobs
            .values()
            .filter_map(|job| {
                let entry = self.catalogue.get(job.job_id, job.version)?;
                let error = entry.manifest.as_ref().err()?;
                let name = &job.name;
                let text = format!(
                    "{name} does not fire: {error}. Apply its manifest anew: `matins apply FILE`"
                );
                Some((On::Job(job.job_id), text))
            })
            .collect();
        let kind = AlertKind::UnreadableJob;
        let still = unreadable.iter().map(|&(on, _)| on).collect();
        self.settle_alerts(kind, Over::AllBut(still), now);
        for (on, text) in unreadable {
            self.alert(RaiseAlert { kind, on, text }, now);
        }
    }

    /// A clock that was ahead for longer than the gate doubts it has settled what is still to come.
    /// No instant runs twice for that, but once the clock is right nothing fires until it has
    /// caught up, and a person should not have to find out by themselves.
    pub(crate) fn tell_of_clock_behind(&mut self, now: Now) {
        let limit = now.wall + clock::STEP;
        let ahead = self.set.jobs.values().map(|job| job.fired_through);
        let ahead: Vec<WallMs> = ahead.filter(|&through| through > limit).collect();
        let kind = AlertKind::ClockBehind;
        let Some(&until) = ahead.iter().max() else {
            self.settle_alerts(kind, Over::AllBut(Vec::new()), now);
            return;
        };
        let text = format!(
            "the clock shows {}, but {} jobs are settled beyond it, until {until} at the furthest: \
             it was ahead before, or is behind now; they do not fire until then, \
             but `matins run` does",
            now.wall.whole_second(),
            ahead.len(),
        );
        let on = On::All;
        self.alert(RaiseAlert { kind, on, text }, now);
    }

    /// Says once of each doubt who differs, and by how much; and that it is over.
    pub(crate) fn tell_of_clock(&mut self, now: Now) {
        let verdict = self.clock_verdict(now);
        let odd = self.gate.odd_one();
        let (tell, over) = self.clock_told.note(verdict, odd, &self.node);
        if let Some((kind, text)) = tell {
            let on = On::All;
            self.alert(RaiseAlert { kind, on, text }, now);
        }
        for kind in over {
            self.settle_alerts(kind, Over::AllBut(Vec::new()), now);
        }
        self.tell_of_time_service(now);
    }

    fn tell_of_time_service(&mut self, now: Now) {
        let Some(word) = self.gate.service_word(now) else {
            return;
        };
        let kind = AlertKind::ClockUnsynchronised;
        match self.service_told.note(word, &self.node) {
            None => {}
            Some(Tell::Settle) => self.settle_alerts(kind, Over::AllBut(Vec::new()), now),
            Some(Tell::Raise(text)) => {
                let on = On::All;
                self.alert(RaiseAlert { kind, on, text }, now);
            }
        }
    }
}
