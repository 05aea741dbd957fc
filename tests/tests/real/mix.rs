//! Everything at once: jobs of several kinds on three hosts, and at random moments anything is
//! killed, stopped, told to end or robbed of its files. Then all is healed, and every fire must be
//! accounted for, with nothing done twice and nothing left behind.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::RunId;

use crate::chance::{chance, seed};
use crate::fires::check_fires;
use crate::misfortune::Misfortune;
use crate::person::answer_for;
use crate::site::Site;
use crate::writers::Writer;

const HOSTS: u32 = 3;

fn jobs() -> Vec<(Writer<'static>, i64)> {
    let of = |name, schedule, shards, seconds, overlap, safe, ways| Writer {
        schedule,
        shards,
        seconds,
        overlap,
        safe,
        ways,
        ..Writer::of(name)
    };
    vec![
        (of("mix/queue", "@every 6s", 4, 2.0, "queue", true, &[]), 6),
        (
            of("mix/forbid", "@every 8s", 2, 3.0, "forbid", true, &[]),
            8,
        ),
        (
            of(
                "mix/wide",
                "@every 15s",
                8,
                2.0,
                "queue",
                true,
                &["stubborn"],
            ),
            15,
        ),
        (
            of(
                "mix/daemon",
                "@every 9s",
                1,
                2.0,
                "queue",
                true,
                &["daemon"],
            ),
            9,
        ),
        (
            of("mix/unsafe", "@every 10s", 2, 2.0, "forbid", false, &[]),
            10,
        ),
    ]
}

/// Waits until every run up to `last` is final, and answers for the person that those wait for
/// whose outcome nobody knows. How often each of them was asked about.
fn settle(site: &mut Site, last: RunId, limit: Duration) -> Result<BTreeMap<RunId, usize>> {
    let mut asked = BTreeMap::new();
    let begun = Instant::now();
    loop {
        let runs = site.runs()?;
        let open = runs.into_iter();
        let open: Vec<_> = open
            .filter(|run| run.run <= last && run.ended_at.is_none())
            .collect();
        if open.is_empty() {
            return Ok(asked);
        }
        ensure!(begun.elapsed() < limit, "still open: {open:#?}");
        answer_for(site, &open, &mut asked)?;
        site.check_alive()?;
        sleep(Duration::from_millis(200));
    }
}

fn mix(length: Duration, stop_max: Duration) -> Result<()> {
    let mut misfortune = Misfortune::new(chance(seed()), HOSTS, stop_max);
    let mut site = Site::new(HOSTS)?;
    site.start(HOSTS, 16)?;
    for (job, _) in jobs() {
        job.apply(&site)?;
    }
    let begun = Instant::now();
    let mut strikes = 0;
    while begun.elapsed() < length {
        let next = misfortune.moment(100, 1_200);
        sleep(next.saturating_duration_since(Instant::now()));
        misfortune.heal(&mut site)?;
        site.check_alive()?;
        strikes += u32::from(misfortune.strike(&mut site)?);
    }
    misfortune.heal_all(&mut site)?;
    site.wait_for_agents(HOSTS)?;
    let last = site.runs()?.last().context("jobs have fired")?.run;
    // What is queued has come in for so long, and goes faster than it came.
    let asked = settle(&mut site, last, Duration::from_secs(120) + length)?;
    let evidence = site.evidence()?;
    let stalls = misfortune.stalls.len();
    println!("{strikes} strikes, {stalls} stalls; {}", evidence.summary());
    evidence.check()?;
    let mut overlaps = evidence.overlaps();
    overlaps.retain(|overlap| !misfortune.excuses(overlap, &evidence));
    ensure!(overlaps.is_empty(), "overlaps: {overlaps:#?}");
    evidence.check_unsafe("mix/unsafe", &asked)?;
    for (job, every) in jobs() {
        let fires = check_fires(&site, job.name, every * 1_000)?;
        println!("{}: {fires} fires, none missing, none twice", job.name);
    }
    site.close()
}

#[test]
fn a_minute_of_everything() -> Result<()> {
    mix(Duration::from_secs(60), Duration::from_secs(5))
}

#[test]
#[ignore = "make test-full: 12 minutes"]
fn ten_minutes_of_everything() -> Result<()> {
    mix(Duration::from_secs(600), Duration::from_secs(25))
}
