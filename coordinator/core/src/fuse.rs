//! Fuses: what must never happen, and stops or is told of when it does.
//!
//! Everything else here is written so that a job fires as often as its schedule names instants. The first
//! fuse does not believe that: it counts what the ledger has admitted of each job in a minute of the boot
//! clock, and holds it against the number of instants in the stretch of the schedule that was settled
//! meanwhile. More than that, and `catch_up.at_most` on top, is a fault of ours, whatever its cause: a
//! schedule that does not advance, a watermark that does not move, a ledger that forgets. One job
//! that stands still, and says so, is better than one that runs a thousand times. A herd is no fault:
//! ten thousand jobs of one second are ten thousand counts of one, and a job that was held up for an hour
//! is measured by the hour that it makes up for.
//!
//! The second is for a backlog: shards that could be given out and are not, for longer than anybody can
//! have meant.

use std::collections::BTreeMap;

use jobs::Manifest;
use ledger::JobRow;
use ledger::command::{AlertKind, Command, On, Over, PauseJob, RaiseAlert};
use protocol::{BootMs, DurationMs, JobId, Now, Rule, WallMs};

use crate::core::{Core, Flight};
use crate::trigger::Owed;

/// The minute in which fires are counted.
const MINUTE_MS: i64 = 60_000;

/// How long a shard may be ready before a person is told; once told, not again before the backlog is
/// half as old.
const BACKLOG_AGE_MAX: DurationMs = DurationMs(3_600_000);

/// How often the backlog's age is looked at: it costs a walk over what is ready.
const LOOK_EVERY: DurationMs = DurationMs(MINUTE_MS);

/// Who stops a job whose fuse has blown, in its record.
const BY: &str = "matins (fuse)";

#[derive(Debug, Default)]
pub(crate) struct Fuses {
    /// The boot clock's minute that is counted.
    minute: i64,
    /// Jobs that fired in it.
    counts: BTreeMap<JobId, Count>,
    looked_at: Option<BootMs>,
    /// Unset until this reign knows.
    told_of_backlog: Option<bool>,
}

/// What one job fired in the current minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    version: u32,
    /// Its watermark before the first of them.
    from: WallMs,
    runs: u64,
}

/// A fire of a job on its way through the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fired {
    pub(crate) job_id: JobId,
    pub(crate) version: u32,
    pub(crate) from: WallMs,
    pub(crate) through: WallMs,
    /// Runs that it admits.
    pub(crate) runs: u64,
}

impl Fuses {
    /// The ledger has admitted it. Answers with what the job has fired this minute.
    fn count(&mut self, fired: &Fired, now: BootMs) -> Count {
        let minute = now.0.div_euclid(MINUTE_MS);
        if minute != self.minute {
            self.minute = minute;
            self.counts.clear();
        }
        let fresh = Count {
            version: fired.version,
            from: fired.from,
            runs: 0,
        };
        let count = self.counts.entry(fired.job_id).or_insert(fresh);
        if count.version != fired.version {
            *count = fresh;
        }
        count.runs += fired.runs;
        *count
    }
}

/// How many instants the schedule names where so many were fired, if those are too many.
fn too_many(manifest: &Manifest, anchor: WallMs, count: Count, through: WallMs) -> Option<u64> {
    let spare = u64::from(manifest.catch_up.at_most);
    if count.runs <= spare {
        return None;
    }
    let named = manifest.schedule().count(anchor, count.from, through);
    (count.runs > named + spare).then_some(named)
}

impl Core {
    /// Counts what the ledger has admitted, and stops the job where that is too much.
    pub(crate) fn count_fired(&mut self, fired: &Fired, now: Now) {
        let count = self.fuses.count(fired, now.boot);
        if !self.rules.on(Rule::FuseStopsFlood) {
            return;
        }
        let Some(job) = self.set.jobs.get(&fired.job_id) else {
            return;
        };
        let Some(Owed {
            manifest, anchor, ..
        }) = self.owed(job)
        else {
            return;
        };
        if let Some(named) = too_many(manifest, anchor, count, fired.through) {
            let job = job.clone();
            self.blow(&job, count.runs, named, now);
        }
    }

    fn blow(&mut self, job: &JobRow, runs: u64, named: u64, now: Now) {
        let reason = format!(
            "it fired {runs} times within a minute in which its schedule names {named} instants"
        );
        let text = format!(
            "{} was stopped: {reason}; this is a fault of Matins or of its ledger: look at its runs \
             (`matins describe job {0}`), and `matins resume {0}` when it is known why",
            job.name
        );
        self.firing.forget(job.job_id);
        let pause = PauseJob {
            job_id: job.job_id,
            by: BY.to_owned(),
            reason,
        };
        self.propose(Flight::Note, Command::PauseJob(pause), now);
        let (kind, on) = (AlertKind::FuseBlown, On::Job(job.job_id));
        self.alert(RaiseAlert { kind, on, text }, now);
    }

    /// Tells of shards that are ready for too long.
    pub(crate) fn tell_of_backlog(&mut self, now: Now) {
        let due = self.fuses.looked_at;
        if due.is_some_and(|at| now.boot - at < LOOK_EVERY) || !self.rules.on(Rule::BacklogTold) {
            return;
        }
        self.fuses.looked_at = Some(now.boot);
        let oldest = self.queue.oldest_ready(&self.set);
        let age = oldest.map_or(DurationMs::ZERO, |(since, _)| now.boot - since);
        let is_over = match self.fuses.told_of_backlog {
            // A leader counts from when it learned of them: only none at all says something.
            None => oldest.is_none(),
            Some(told) => told && age <= DurationMs(BACKLOG_AGE_MAX.0 / 2),
        };
        if is_over {
            self.fuses.told_of_backlog = Some(false);
            self.settle_alerts(AlertKind::BacklogOld, Over::AllBut(Vec::new()), now);
        }
        let Some((_, (run_id, shard))) = oldest.filter(|_| age > BACKLOG_AGE_MAX) else {
            return;
        };
        if self.fuses.told_of_backlog.replace(true) == Some(true) {
            return;
        }
        let text = format!(
            "shards wait for a host for longer than {BACKLOG_AGE_MAX}, first of all shard {shard} of \
             {run_id}, of {} that are ready: see which hosts take work (`matins get agents`)",
            self.queue.ready().count()
        );
        let (kind, on) = (AlertKind::BacklogOld, On::All);
        self.alert(RaiseAlert { kind, on, text }, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(cron: &str, more: &str) -> Manifest {
        let yaml = format!(
            "name: t/a\npurpose: x\nowner: x\nrepeatable: {{ safe: false }}\n\
             schedule: {{ cron: \"{cron}\", timezone: Etc/UTC }}\nmisfire: {{ policy: run_now }}\n\
             overlap: queue\nexpected_duration: 1m\ntimeout: 1m\nrun: {{ exec: [\"/bin/true\"] }}\n{more}"
        );
        jobs::parse_manifests("t.yaml", &yaml).unwrap().remove(0)
    }

    /// Whether the fuse blows at the last of these fires: (boot time, watermark before and after in
    /// seconds, runs), each of a job at `cron`.
    fn blows(cron: &str, more: &str, fires: &[(i64, i64, i64, u64)]) -> bool {
        let manifest = manifest(cron, more);
        let start = WallMs(1_800_000_000_000);
        let mut fuses = Fuses::default();
        let mut verdict = None;
        for &(boot, from, through, runs) in fires {
            let fired = Fired {
                job_id: JobId(1),
                version: 1,
                from: start + DurationMs::from_secs(from),
                through: start + DurationMs::from_secs(through),
                runs,
            };
            let count = fuses.count(&fired, BootMs(boot));
            verdict = too_many(&manifest, start, count, fired.through);
        }
        verdict.is_some()
    }

    #[test]
    fn only_more_than_the_schedule_names_blows_it() {
        type Fires = &'static [(i64, i64, i64, u64)];
        let cases: &[(&str, &str, Fires, bool)] = &[
            // In time, minute by minute.
            (
                "* * * * *",
                "",
                &[(0, 0, 60, 1), (60_000, 60, 120, 1)],
                false,
            ),
            // The same instant over and over.
            ("* * * * *", "", &[(0, 0, 60, 1), (100, 0, 60, 1)], false),
            (
                "* * * * *",
                "",
                &[(0, 0, 60, 1), (100, 0, 60, 1), (200, 0, 60, 1)],
                true,
            ),
            // A thousand instants of one second each that were merely late are named, all of them.
            ("@every 1s", "", &[(0, 0, 1_000, 1_000)], false),
            ("@every 1s", "", &[(0, 0, 1_000, 1_002)], true),
            // Sixty a minute, told in sixty commands.
            (
                "@every 10s",
                "",
                &[(0, 0, 10, 1), (10_000, 10, 20, 1), (20_000, 20, 30, 1)],
                false,
            ),
            // What is caught up is of the past.
            (
                "0 0 1 1 *",
                "catch_up: { at_most: 3 }",
                &[(0, 0, 60, 3)],
                false,
            ),
            (
                "0 0 1 1 *",
                "catch_up: { at_most: 3 }",
                &[(0, 0, 60, 3), (100, 60, 61, 1)],
                true,
            ),
            // Another minute is another count.
            ("0 0 1 1 *", "", &[(0, 0, 60, 1), (59_999, 60, 61, 1)], true),
            (
                "0 0 1 1 *",
                "",
                &[(0, 0, 60, 1), (60_000, 60, 61, 1)],
                false,
            ),
        ];
        for &(cron, more, fires, expected) in cases {
            assert_eq!(blows(cron, more, fires), expected, "{cron} {fires:?}");
        }
    }
}
