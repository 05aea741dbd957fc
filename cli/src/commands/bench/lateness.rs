//! How late attempts start of jobs that are all due in the same second.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use jobs::Manifest;
use ledger::LeaseTimes;
use protocol::{DurationMs, WallMs};
use serde_json::json;

use super::site::{Site, Work};
use super::{leases_ended, no_op, percentile, print_figures, show_ms};
use crate::args::{BenchSite, Text};
use crate::clock;
use crate::failure::Failure;
use crate::output::{print_json, talk};

const AGENTS: u32 = 4;
const SLOTS_PRETENDING: u32 = 256;
const SLOTS_RUNNING: u32 = 64;

/// From when the jobs are known to when they are due: time for everything to start and for a
/// fleet to attach.
const LEAD: DurationMs = DurationMs::from_secs(5);

/// Jobs that any machine writes into a ledger in a second.
const PUT_PER_S_LEAST: i64 = 1000;

/// Longest wait for the last of them.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) fn lateness(options: &BenchSite, jobs: u32, processes: bool) -> Result<(), Failure> {
    talk(&format!("preparing a ledger with {jobs} jobs"));
    let mut site = Site::prepare(&options.dir, AGENTS)?;
    let filling = DurationMs::from_secs(i64::from(jobs) / PUT_PER_S_LEAST);
    let due = WallMs((clock::now() + filling + LEAD).0 / 1000 * 1000);
    site.fill((0..jobs).map(|n| manifest(n, due)).collect(), 0)?;
    site.start_coordinator()?;
    let (slots, work) = if processes {
        (SLOTS_RUNNING, Work::Run)
    } else {
        (SLOTS_PRETENDING, Work::Pretend { takes_ms: 0 })
    };
    site.start_agents(AGENTS, slots, work)?;
    let early = due - clock::now();
    if early <= DurationMs::ZERO {
        return Err(Failure::failed(
            format!("measuring how late {jobs} jobs are"),
            "this machine had not made ready when they were due",
            "measure again when it has less to do, or fewer jobs",
        ));
    }
    talk(&format!("waiting for {due}"));
    let leases = wait_for_all(&mut site, due, jobs)?;
    site.stop();
    report(options.output, due, jobs, &leases)
}

/// Reads, seldom so as not to disturb, until every job has started or the last is given up.
fn wait_for_all(site: &mut Site, due: WallMs, jobs: u32) -> Result<Vec<LeaseTimes>, Failure> {
    let until = Instant::now() + LIMIT;
    let early = (due - clock::now()).0.try_into().unwrap_or(0);
    thread::sleep(Duration::from_millis(early) + Duration::from_secs(2));
    loop {
        let leases = leases_ended(site, due, WallMs(i64::MAX))?;
        if leases.len() >= jobs as usize || Instant::now() > until {
            return Ok(leases);
        }
        site.check_alive()?;
        thread::sleep(Duration::from_secs(2));
    }
}

fn report(output: Text, due: WallMs, jobs: u32, leases: &[LeaseTimes]) -> Result<(), Failure> {
    let runs: BTreeSet<_> = leases.iter().map(|lease| lease.run_id).collect();
    let missing = u64::from(jobs).saturating_sub(runs.len() as u64);
    let duplicates = leases.len() - runs.len();
    let mut late: Vec<i64> = leases
        .iter()
        .filter_map(|lease| Some((lease.started_at? - due).0))
        .collect();
    let [p50, p99, last] = [50, 99, 100].map(|percent| percentile(&mut late, percent));
    match output {
        Text::Json => print_json(&json!({
            "jobs": jobs,
            "p50_ms": p50,
            "p99_ms": p99,
            "last_ms": last,
            "missing": missing,
            "duplicates": duplicates,
        })),
        Text::Text => print_figures(&[
            ("jobs due in one second", jobs.to_string()),
            ("from fire time to start, median", show_ms(p50)),
            ("99 of 100 within", show_ms(p99)),
            ("the last", show_ms(last)),
            ("missing", missing.to_string()),
            ("more than once", duplicates.to_string()),
        ]),
    }
}

/// Due once, at this second.
fn manifest(n: u32, due: WallMs) -> Manifest {
    let due = DateTime::<Utc>::from_timestamp_millis(due.0).unwrap_or_default();
    let cron = due.format("%-S %-M %-H %-d %-m ? %Y");
    let schedule = format!("{{ cron: \"{cron}\", timezone: Etc/UTC, dialect: quartz }}");
    let misfire = "{ policy: run_now, after: 1h }";
    let run = "{ exec: [\"/bin/true\"] }";
    no_op(&format!("late-{n}"), &schedule, misfire, 1, run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_at_its_second() {
        let due = WallMs(1_767_225_600_000 + 3_723_000);
        let manifest = manifest(7, due);
        let after = |at| manifest.schedule().next_after(at, at).map(|fire| fire.at);
        assert_eq!(after(due - DurationMs(1)), Some(due));
        assert_eq!(after(due), None);
    }
}
