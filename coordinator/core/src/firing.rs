//! Firing jobs when their instants have come.

use std::collections::{BTreeMap, BTreeSet};

use ledger::command::{AlertKind, Command, Decision, Fire, On, RaiseAlert};
use ledger::{Done, JobRow, Refusal};
use protocol::{JobId, JobName, Now, Rule, WallMs};

use crate::core::{Core, Flight};
use crate::fuse::Fired;
use crate::trigger::{self, Owed};

#[derive(Debug, Default)]
pub(crate) struct Firing {
    /// Next fire of every job that has one and can be read.
    due_of: BTreeMap<JobId, WallMs>,
    /// The same by time, without the jobs that are being moved: however many of them are on their
    /// way through the ledger, nobody has to look past them.
    due: BTreeSet<(WallMs, JobId)>,
    /// Jobs with a command in flight that moves their watermark.
    moving: BTreeSet<JobId>,
}

impl Firing {
    /// The earliest fire of any job that is not being moved: whose outcome is the next input.
    pub(crate) fn next(&self) -> Option<WallMs> {
        self.due.first().map(|&(at, _)| at)
    }

    pub(crate) fn begin_move(&mut self, job_id: JobId) {
        self.moving.insert(job_id);
        if let Some(&at) = self.due_of.get(&job_id) {
            self.due.remove(&(at, job_id));
        }
    }

    pub(crate) fn end_move(&mut self, job_id: JobId) {
        self.moving.remove(&job_id);
        if let Some(&at) = self.due_of.get(&job_id) {
            self.due.insert((at, job_id));
        }
    }

    fn expect(&mut self, job_id: JobId, at: WallMs) {
        self.due_of.insert(job_id, at);
        if !self.moving.contains(&job_id) {
            self.due.insert((at, job_id));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.due_of.len() + self.due.len() + self.moving.len()
    }

    /// It is not due any more, until its row changes or another reign begins.
    pub(crate) fn forget(&mut self, job_id: JobId) {
        if let Some(at) = self.due_of.remove(&job_id) {
            self.due.remove(&(at, job_id));
        }
    }
}

impl Core {
    /// Next fire of a job; `None` where it has none, is paused, or its manifest cannot be read.
    pub fn next_fire(&self, job_id: JobId) -> Option<WallMs> {
        self.firing.due_of.get(&job_id).copied()
    }

    /// Next fire of the job of this name.
    pub fn next_fire_of(&self, name: &JobName) -> Option<WallMs> {
        self.names
            .get(name)
            .and_then(|&job_id| self.next_fire(job_id))
    }

    pub(crate) fn fire_due(&mut self, now: Now) {
        if !self.clock_verdict(now).may_fire() {
            return;
        }
        if !self.rules.on(Rule::PoisonStaysAlone) && self.has_unreadable_job() {
            return;
        }
        let mut due: Vec<JobId> = self
            .firing
            .due
            .iter()
            .take_while(|(at, _)| *at <= now.wall)
            .map(|&(_, job_id)| job_id)
            .collect();
        // What others come after is there before them.
        due.sort_by_cached_key(|job_id| self.comes_after(*job_id));
        for job_id in due {
            let Some(job) = self.set.jobs.get(&job_id) else {
                continue;
            };
            let Some(owed) = self.owed(job) else { continue };
            let fire = Fire {
                job_id,
                version: job.version,
                from: job.fired_through,
                through: trigger::settles_through(now),
                decisions: if job.in_doubt {
                    trigger::unknown(owed, trigger::settles_through(now))
                } else {
                    trigger::decide(owed, trigger::settles_through(now), self.rules)
                },
            };
            let is_run = |decision: &&Decision| matches!(decision, Decision::Run { .. });
            let fired = Fired {
                job_id,
                version: fire.version,
                from: fire.from,
                through: fire.through,
                runs: fire.decisions.iter().filter(is_run).count() as u64,
            };
            self.firing.begin_move(job_id);
            self.propose(Flight::Fire(fired), Command::Fire(fire), now);
        }
    }

    fn comes_after(&self, job_id: JobId) -> bool {
        let owed = self.set.jobs.get(&job_id).and_then(|job| self.owed(job));
        owed.is_some_and(|owed| !owed.manifest.after.is_empty())
    }

    pub(crate) fn land_fire(&mut self, fired: Fired, result: Result<Done, Refusal>, now: Now) {
        let job_id = fired.job_id;
        self.firing.end_move(job_id);
        match result {
            Ok(_) => self.count_fired(&fired, now),
            // Computed from a state that has moved: `advance` computes it anew.
            Err(
                Refusal::WatermarkMoved { .. } | Refusal::NoSuchJob { .. } | Refusal::Paused { .. },
            ) => {}
            // It would be refused again and again: the job stands still, loudly, until its row
            // changes or another reign begins.
            Err(refusal) => {
                self.firing.forget(job_id);
                let name = self.set.jobs.get(&job_id).map(|job| job.name.to_string());
                let text = format!(
                    "{} does not fire: {refusal}",
                    name.unwrap_or_else(|| job_id.to_string())
                );
                let (kind, on) = (AlertKind::FireRefused, On::Job(job_id));
                self.alert(RaiseAlert { kind, on, text }, now);
            }
        }
    }

    pub(crate) fn note_job(&mut self, job: &JobRow) {
        self.firing.forget(job.job_id);
        if job.deleted {
            return;
        }
        self.names.insert(job.name.clone(), job.job_id);
        if job.in_doubt && self.owed(job).is_some() {
            // Settled as soon as there is a clock to settle it by, whether anything was due or not.
            return self.firing.expect(job.job_id, job.fired_through);
        }
        if job.is_paused() {
            return;
        }
        let next = self.owed(job).and_then(trigger::next_fire);
        if let Some(next) = next {
            self.firing.expect(job.job_id, next.at);
        }
    }

    /// `None` where the manifest in force cannot be read.
    pub(crate) fn owed(&self, job: &JobRow) -> Option<Owed<'_>> {
        let entry = self.catalogue.get(job.job_id, job.version)?;
        let manifest = entry.manifest.as_deref().ok()?;
        Some(Owed {
            manifest,
            anchor: entry.starts,
            from: job.fired_through,
        })
    }

    fn has_unreadable_job(&self) -> bool {
        self.set
            .jobs
            .values()
            .any(|job| self.catalogue.readable(job.job_id, job.version).is_none())
    }
}
