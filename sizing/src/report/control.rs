//! What the control machines have to write, and how much of it stays.
//!
//! The sizes of rows are measured of a ledger that the simulator has filled (`cargo bench -p sizing
//! --bench rows`): pages of the file, with their indexes and their slack, by run and by lease.

use protocol::WallMs;
use serde::Serialize;

use crate::history::{History, SeenJob};

/// What a finished run adds to the ledger's file, beside its leases.
pub const RUN_BYTES: u64 = 151;

/// What each lease adds.
pub const LEASE_BYTES: u64 = 94;

/// Syncs of the disk for a batch of commands: one of the log; the ledger is not synced by itself.
pub const LEDGER_SYNCS: f64 = 1.0;

/// A disk that is asked for more than a fifth of what it can is slow when something else asks too.
const IOPS_MARGIN: f64 = 5.0;

/// Fewer are not sold.
const IOPS_MIN: u64 = 500;
const DISK_GIB_MIN: u64 = 20;

const DAY_MS: i64 = 86_400_000;
const YEAR_MS: f64 = 365.25 * DAY_MS as f64;
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlReport {
    pub runs_per_year: f64,
    pub leases_per_year: f64,
    /// Rows with their indexes, and the reasons and tails of attempts: the least that it can be.
    pub gib_per_year: f64,
    /// What of it are reasons and tails.
    pub text_gib_per_year: f64,
    /// In the busiest second, if no two commands shared a batch.
    pub commits_per_s_peak: f64,
    /// Synced writes a second that the disk should be good for.
    pub iops: u64,
    /// A year of history, twice for a snapshot and a backup, and as much again.
    pub disk_gib: u64,
}

pub fn report_control(history: &History) -> ControlReport {
    let (mut runs, mut leases, mut text) = (0.0, 0.0, 0.0);
    let mut moments = Vec::<WallMs>::new();
    for job in &history.jobs {
        let a_year = YEAR_MS / span(job, history);
        let attempts = || job.runs.iter().flat_map(|run| &run.attempts);
        runs += job.runs.len() as f64 * a_year;
        leases += attempts().count() as f64 * a_year;
        text += attempts().map(|it| it.text_bytes).sum::<u64>() as f64 * a_year;
        moments.extend(job.runs.iter().map(|run| run.admitted));
        moments.extend(attempts().flat_map(|it| [it.granted, it.started, it.ended]));
    }
    let bytes = runs * RUN_BYTES as f64 + leases * LEASE_BYTES as f64 + text;
    let peak = busiest_second(moments);
    let iops = (peak * LEDGER_SYNCS * IOPS_MARGIN).ceil() as u64;
    ControlReport {
        runs_per_year: runs,
        leases_per_year: leases,
        gib_per_year: bytes / GIB,
        text_gib_per_year: text / GIB,
        commits_per_s_peak: peak,
        iops: iops.max(IOPS_MIN),
        disk_gib: ((bytes / GIB * 4.0).ceil() as u64).max(DISK_GIB_MIN),
    }
}

/// Milliseconds that the runs of a job are of: from the first of them on, and a day where that is less,
/// for a job that began an hour ago may never run again; but what has older runs is as busy as it looks.
fn span(job: &SeenJob, history: &History) -> f64 {
    let whole = (history.to - history.from).0;
    let first = job.runs.first().map_or(history.from, |run| run.admitted);
    let since = (history.to - first).0;
    let span = if job.has_older {
        since
    } else {
        since.max(DAY_MS).min(whole)
    };
    span.max(1) as f64
}

impl ControlReport {
    /// What a year adds to the ledger.
    pub fn bytes_in_words(&self) -> String {
        bytes_in_words(self.gib_per_year * GIB)
    }
}

/// In the largest unit of which there is one.
pub fn bytes_in_words(bytes: f64) -> String {
    let units = [("GiB", GIB), ("MiB", GIB / 1024.0), ("KiB", 1024.0)];
    match units.into_iter().find(|(_, worth)| bytes >= *worth) {
        Some((unit, worth)) => format!("{:.1} {unit}", bytes / worth),
        None => format!("{bytes:.0} bytes"),
    }
}

fn busiest_second(mut moments: Vec<WallMs>) -> f64 {
    moments.sort_unstable();
    let mut most = 0;
    let mut first = 0;
    for (at, moment) in moments.iter().enumerate() {
        while moment.0 - moments[first].0 >= 1_000 {
            first += 1;
        }
        most = most.max(at - first + 1);
    }
    most as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use profiles::classes::Classes;
    use protocol::{DurationMs, RunId};

    use super::*;
    use crate::history::{SeenAttempt, SeenRun};

    #[test]
    fn bytes_are_told_in_the_unit_that_they_fill() {
        for (bytes, expected) in [
            (0.0, "0 bytes"),
            (1_023.0, "1023 bytes"),
            (1_024.0, "1.0 KiB"),
            (5_400_000.0, "5.1 MiB"),
            (GIB, "1.0 GiB"),
            (GIB * 2_000.0, "2000.0 GiB"),
        ] {
            assert_eq!(bytes_in_words(bytes), expected);
        }
    }

    #[test]
    fn a_year_is_what_was_seen_so_many_times() {
        let text = "name: t/job\npurpose: a test\nowner: ada\nrepeatable: { safe: true, how: nothing }\n\
                    schedule: { cron: \"0 2 * * *\", timezone: Etc/UTC }\n\
                    misfire: { policy: run_now, after: 60s }\noverlap: queue\nexpected_duration: 1m\n\
                    timeout: 1h\nrun: { exec: [\"/bin/true\"] }\n";
        let manifest = Arc::new(jobs::parse_manifests("t.yaml", text).unwrap().remove(0));
        const HOUR: i64 = DAY_MS / 24;
        // Runs so many hours before the end, each with two attempts that left a hundred bytes.
        let check = |hours: &[i64], has_older: bool, a_day: f64| {
            let to = WallMs(60 * DAY_MS);
            let run = |hour: &i64| {
                let at = WallMs(to.0 - hour * HOUR);
                let attempt = SeenAttempt {
                    host: "a".parse().unwrap(),
                    shard: 0,
                    granted: at,
                    started: at,
                    ended: at,
                    outcome: None,
                    cpu: DurationMs::ZERO,
                    memory_bytes_peak: 0,
                    operations: None,
                    operations_partial: false,
                    text_bytes: 100,
                };
                SeenRun {
                    run: RunId(1),
                    fire_time: at,
                    nominal: None,
                    admitted: at,
                    ended: None,
                    succeeded: false,
                    shards: 1,
                    attempts: vec![attempt.clone(), attempt],
                }
            };
            let history = History {
                from: WallMs(30 * DAY_MS),
                to,
                hosts: Vec::new(),
                jobs: vec![SeenJob {
                    manifest: Arc::clone(&manifest),
                    shards: 1,
                    runs: hours.iter().map(run).collect(),
                    has_older,
                }],
                beside: Vec::new(),
                resources: BTreeMap::new(),
                classes: Arc::new(Classes::built_in()),
            };
            let report = report_control(&history);
            let near = |figure: f64, expected: f64| {
                assert!(
                    (figure / expected - 1.0).abs() < 1e-9,
                    "{report:?} {expected}"
                );
            };
            let year = a_day * 365.25;
            near(report.runs_per_year, year);
            near(report.leases_per_year, year * 2.0);
            let row = (RUN_BYTES + 2 * (LEASE_BYTES + 100)) as f64;
            near(report.gib_per_year * GIB, year * row);
            near(report.text_gib_per_year * GIB, year * 200.0);
        };
        check(&[48, 24], false, 1.0);
        check(&[10 * 24, 24], false, 0.2);
        // A burst an hour ago, of which nobody knows whether it comes again, and the same of many.
        check(&[1, 1, 1], false, 3.0);
        check(&[1, 1, 1], true, 72.0);
    }

    #[test]
    fn the_busiest_second_is_any_thousand_milliseconds() {
        let check = |moments: &[i64], expected: f64| {
            let moments = moments.iter().map(|&at| WallMs(at)).collect();
            assert_eq!(busiest_second(moments).to_bits(), expected.to_bits());
        };
        check(&[], 0.0);
        check(&[0, 999, 1_000, 5_000], 2.0);
        check(&[900, 1_000, 1_100, 1_899, 1_900], 4.0);
    }
}
