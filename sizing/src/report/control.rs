//! What the control machines have to write, and how much of it stays.
//!
//! The sizes of rows are measured of a ledger that the simulator has filled (`cargo bench -p sizing
//! --bench rows`): pages of the file, with their indexes and their slack, by run and by lease.

use protocol::WallMs;
use serde::Serialize;

use crate::history::History;

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

const YEAR_MS: f64 = 365.25 * 86_400_000.0;
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlReport {
    pub runs_per_year: f64,
    pub leases_per_year: f64,
    pub gib_per_year: f64,
    /// In the busiest second, if no two commands shared a batch.
    pub commits_per_s_peak: f64,
    /// Synced writes a second that the disk should be good for.
    pub iops: u64,
    /// A year of history, twice for a snapshot and a backup, and as much again.
    pub disk_gib: u64,
}

pub fn report_control(history: &History) -> ControlReport {
    let span = (history.to - history.from).0.max(1) as f64;
    let runs = history.jobs.iter().flat_map(|job| &job.runs);
    let (mut count, mut leases, mut moments) = (0u64, 0u64, Vec::<WallMs>::new());
    for run in runs {
        count += 1;
        leases += run.attempts.len() as u64;
        moments.push(run.admitted);
        for attempt in &run.attempts {
            moments.extend([attempt.granted, attempt.started, attempt.ended]);
        }
    }
    let a_year = |count: u64| count as f64 / span * YEAR_MS;
    let bytes = a_year(count) * RUN_BYTES as f64 + a_year(leases) * LEASE_BYTES as f64;
    let peak = busiest_second(moments);
    let iops = (peak * LEDGER_SYNCS * IOPS_MARGIN).ceil() as u64;
    ControlReport {
        runs_per_year: a_year(count),
        leases_per_year: a_year(leases),
        gib_per_year: bytes / GIB,
        commits_per_s_peak: peak,
        iops: iops.max(IOPS_MIN),
        disk_gib: ((bytes / GIB * 4.0).ceil() as u64).max(DISK_GIB_MIN),
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
    use super::*;

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
