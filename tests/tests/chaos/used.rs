//! A group that is used while it is struck: jobs of every policy, people who pause, cancel, redo,
//! answer and drain, programs that read. What is asked meets leaders that come and go.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::chance::{chance, seed};
use crate::ledgers;
use crate::misfortune::Misfortune;
use crate::rng::Rng;
use crate::site::Site;
use crate::usage::people::People;
use crate::usage::{load, tiling};

const HOSTS: u32 = 3;

fn used_for(length: Duration) -> Result<()> {
    let seed = seed();
    let mut misfortune = Misfortune::new(chance(seed), HOSTS, Duration::from_secs(5));
    let mut site = Site::of_three(HOSTS)?;
    site.start(HOSTS, 16)?;
    let jobs = load::apply(&site)?;
    let names: Vec<&'static str> = jobs.iter().map(|(name, _)| *name).collect();
    let client = site.client();
    let mut people = People::new(client.clone(), Rng::new(seed ^ 1), HOSTS, names);
    people.while_in_use(client, Rng::new(seed ^ 2), || {
        let begun = Instant::now();
        while begun.elapsed() < length {
            let next = misfortune.moment(500, 4_000);
            sleep(next.saturating_duration_since(Instant::now()));
            misfortune.heal(&mut site)?;
            site.check_alive()?;
            misfortune.strike(&mut site)?;
        }
        misfortune.heal_all(&mut site)?;
        site.wait_for_agents(HOSTS)
    })?;
    println!("granted, refused, unheard: {:?}", people.tallies);
    people.leave(true)?;
    people.settle()?;
    let mut evidence = site.evidence()?;
    tiling::check(&site, &evidence, &jobs)?;
    let writers = load::writers();
    let writes = |job: &str| writers.iter().any(|known| known.writer.name == job);
    evidence.runs.retain(|run| writes(&run.run.job.to_string()));
    println!("{}", evidence.summary());
    evidence.check()?;
    let mut overlaps = evidence.overlaps();
    overlaps.retain(|overlap| {
        let (older, newer) = (&overlap.older.0, &overlap.newer.0);
        let allowed = older.job == load::ALLOW && older.fire_time != newer.fire_time;
        !allowed && !misfortune.excuses(overlap, &evidence)
    });
    ensure!(overlaps.is_empty(), "overlaps: {overlaps:#?}");
    evidence.check_unsafe(load::UNSAFE, &people.asked)?;
    ledgers::check_equal(&site)?;
    site.close()
}

#[test]
#[ignore = "make test-full: four minutes"]
fn used_for_two_minutes_while_leaders_come_and_go() -> Result<()> {
    used_for(Duration::from_secs(120))
}
