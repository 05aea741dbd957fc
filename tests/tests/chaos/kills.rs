//! Everything is killed at random moments, members of the group and hosts alike, while hundreds of
//! fires come due.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::chance::{chance, seed};
use crate::end::settle;
use crate::journal::Journal;
use crate::ledgers;
use crate::misfortune::Misfortune;
use crate::site::Site;
use crate::writers::Writer;

const HOSTS: u32 = 3;

/// How often jobs fire, and their shards: four fires a second together.
const JOBS: [(&str, u32); 7] = [
    ("@every 1s", 1),
    ("@every 1s", 1),
    ("@every 2s", 1),
    ("@every 2s", 1),
    ("@every 2s", 2),
    ("@every 3s", 4),
    ("@every 5s", 3),
];

/// How often its jobs have fired, as the ledger of this machine has it, whether or not anybody
/// answers there.
fn fired(site: &Site, name: &str) -> Result<usize> {
    let query = "SELECT CAST(count(*) AS TEXT) FROM runs JOIN jobs USING (job_id) \
                 WHERE jobs.name LIKE 'kills/%'";
    let answer = ledgers::ask(site, name, query)?;
    Ok(answer.first().context("a count")?.parse()?)
}

/// So many fires of so many sets of [`JOBS`], while something is killed after pauses of random length.
/// At most one control machine is dead by our hand at a time, now and then two: then nothing fires
/// until one is back.
fn killed_during(fires: usize, sets: usize, longest_pause_ms: i64, limit: Duration) -> Result<()> {
    let mut misfortune = Misfortune::new(chance(seed()), HOSTS, Duration::from_secs(5));
    let mut site = Site::of_three(HOSTS)?;
    site.start(HOSTS, 16)?;
    let journal = Journal::begin(&site)?;
    let names: Vec<_> = (0..sets * JOBS.len())
        .map(|n| format!("kills/j{n}"))
        .collect();
    let jobs: Vec<_> = names
        .iter()
        .zip(JOBS.iter().cycle())
        .map(|(name, &(schedule, shards))| Writer {
            schedule,
            shards,
            seconds: 0.1,
            ..Writer::of(name)
        })
        .collect();
    for job in &jobs {
        job.apply(&site)?;
    }
    let begun = Instant::now();
    let mut strikes = 0;
    let mut looked = Instant::now();
    loop {
        let next = misfortune.moment(100, longest_pause_ms);
        sleep(next.saturating_duration_since(Instant::now()));
        misfortune.heal(&mut site)?;
        site.check_alive()?;
        strikes += u32::from(misfortune.kill(&mut site)?);
        if looked.elapsed() > Duration::from_secs(3) {
            looked = Instant::now();
            let runs = fired(&site, "c1")?.max(fired(&site, "c2")?);
            if runs >= fires {
                break;
            }
            ensure!(begun.elapsed() < limit, "{runs} of {fires} fires");
        }
    }
    misfortune.heal_all(&mut site)?;
    site.wait_for_agents(HOSTS)?;
    println!("{strikes} killed in {:?}", begun.elapsed());
    let ended = settle(&mut site, journal, &jobs.iter().collect::<Vec<_>>(), limit)?;
    ended.nobody_was_overtaken()?;
    site.close()
}

#[test]
#[ignore = "make test-full: two minutes"]
fn killed_at_random_during_three_hundred_fires() -> Result<()> {
    killed_during(300, 1, 1_500, Duration::from_secs(600))
}

#[test]
#[ignore = "make test-full: half an hour"]
fn killed_at_random_during_ten_thousand_fires() -> Result<()> {
    killed_during(10_000, 2, 5_000, Duration::from_secs(3 * 3_600))
}
