//! The coordinator is killed again and again in the middle of its work: no fire is missing, none
//! comes twice.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use protocol::{RunState, WallMs};

use crate::site::{PATIENCE, Site};
use crate::{job, lines};

const JOBS: usize = 20;
const FIRES: usize = 2_000;
const KILLS: u64 = 50;

#[test]
fn killed_fifty_times_during_two_thousand_fires() -> Result<()> {
    let mut site = Site::new(2)?;
    site.start(2, 32)?;
    let log = site.path("jobs.log");
    let manifests: String = (0..JOBS)
        .map(|n| job(&format!("kill/job-{n}"), "@every 1s", 1, &log, ""))
        .collect();
    site.apply("jobs.yaml", &manifests)?;

    for kill in 0..KILLS {
        // A spread of moments: during start-up and recovery, and amid steady firing.
        sleep(Duration::from_millis(60 + kill * 397 % 1_900));
        site.kill("coordinator")?;
        site.start_coordinator()?;
        site.check_alive()?;
    }
    site.wait_for("the API after the last kill", |site| {
        Ok(site.runs().is_ok())
    })?;
    let begun = Instant::now();
    while site.runs()?.len() < FIRES {
        ensure!(
            begun.elapsed() < PATIENCE,
            "{} of {FIRES} fires",
            site.runs()?.len()
        );
        sleep(Duration::from_millis(500));
    }
    let settled = site.runs()?;
    let last = settled.iter().map(|run| run.run).max();
    site.wait_for("every one of these runs to succeed", |site| {
        let runs = site.runs()?;
        Ok(runs
            .iter()
            .filter(|run| Some(run.run) <= last)
            .all(|run| run.state == RunState::Succeeded))
    })?;

    let mut fires: BTreeMap<String, Vec<WallMs>> = BTreeMap::new();
    for run in &settled {
        fires
            .entry(run.job.to_string())
            .or_default()
            .push(run.fire_time);
    }
    ensure!(
        fires.len() == JOBS,
        "only {} of {JOBS} jobs fired",
        fires.len()
    );
    for (job, times) in &mut fires {
        times.sort();
        for pair in times.windows(2) {
            ensure!(
                (pair[1] - pair[0]).0 == 1_000,
                "{job}: {} then {}",
                pair[0],
                pair[1]
            );
        }
    }

    let mut ran: BTreeMap<(String, String), u32> = BTreeMap::new();
    for line in lines(&log)?.into_iter().filter(|line| line.ended) {
        *ran.entry((line.job, line.fire_time)).or_default() += 1;
    }
    for run in &settled {
        let key = (run.job.to_string(), run.fire_time.to_string());
        let times = ran.get(&key).copied().unwrap_or(0);
        ensure!(
            times == 1,
            "{} at {} was carried out {times} times",
            key.0,
            key.1
        );
    }
    println!(
        "{} fires, {KILLS} kills: none missing, none twice",
        settled.len()
    );
    site.close()
}
