//! A day's load in half an hour, with everything that happens to machines and what people do
//! besides: nothing grows.
//!
//! Jobs of every policy fire every few seconds on four hosts. Processes are killed, stopped, told to
//! end and robbed of their files; people pause, cancel, redo, answer and drain; programs read and go
//! away. The coordinator is killed in the first third only and host 1 never, so that their processes
//! live long enough to be judged; all else is struck to the end. Every few seconds it is written down
//! what each process holds and what lies on the disks.
//!
//! Judged is growth ([`growth`]), the return to the level of rest that was measured before the load,
//! that every instant of every schedule is accounted for, and that nothing was done twice. What was
//! seen lies in `target/tmp/soak-SECONDS`: every value, a table and a chart.

mod drawing;
mod growth;
mod report;
mod sample;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::growth::{Curves, Measure, Slack, Stretch, Thing};
use self::sample::Sample;
use crate::chance::{chance, seed};
use crate::client::Client;
use crate::evidence::Evidence;
use crate::misfortune::Misfortune;
use crate::rng::Rng;
use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, supervisor_name};
use crate::usage::people::{People, Tallies};
use crate::usage::{load, tiling};

const HOSTS: u32 = 4;

/// As short as it can be, so that much is removed.
const KEEPING: &[&str] = &[
    "--output-age=1m",
    "--output-of-each-job=2",
    "--output-total=8MiB",
    "--output-per-attempt=1MiB",
];

/// From when on outputs go as fast as they come: their age, and two sweeps.
const OUTPUT_STEADY_S: f64 = 180.0;

/// How much more a process may hold, or a place, at the end of its life than early in it; `None`: it
/// may grow.
fn slack(thing: &Thing, length: Duration) -> Option<Slack> {
    let name = thing.name.as_str();
    if name == sample::LEDGER {
        return None;
    }
    if name.starts_with("output") {
        // The hosts that are robbed begin anew with theirs.
        let steady = length.as_secs_f64() / 5.0 > OUTPUT_STEADY_S;
        return (steady && name == sample::output_of(1)).then_some(Slack {
            absolute: 0.0,
            share: 0.25,
        });
    }
    Some(Slack::of(match thing.measure {
        Measure::AnonymousKib => memory_slack_kib(name),
        // Pages of the program and of its libraries come in when they are first needed.
        Measure::PssKib | Measure::RssKib => 8_192.0,
        Measure::Sockets | Measure::Threads => 4.0,
        // With each attempt a supervisor has a child, its pipes and a directory more.
        Measure::Children | Measure::Descriptors => 6.0,
        Measure::Files => 8.0,
        Measure::Cgroups | Measure::Processes => 12.0,
        Measure::Kib => 1_024.0,
    }))
}

fn memory_slack_kib(name: &str) -> f64 {
    match name {
        // SQLite keeps pages of a growing ledger up to a bound.
        COORDINATOR => 8_192.0,
        // It has taken 2.5 MiB at once up to twice in half an hour, and nothing between: see
        // docs/BENCHMARKS.md.
        name if name.starts_with("host") => 8_192.0,
        _ => 512.0,
    }
}

/// What nothing may hold more of at rest than it did before the load, but for so much.
fn slack_at_rest(thing: &Thing) -> Option<f64> {
    let name = thing.name.as_str();
    if name == sample::LEDGER || name.starts_with("output") {
        return None;
    }
    Some(match thing.measure {
        Measure::AnonymousKib => memory_slack_kib(name),
        // Connections to the API that nobody has closed yet.
        Measure::Descriptors | Measure::Sockets if name == COORDINATOR => 4.0,
        // A runtime keeps threads for a while, and a host notes what it has removed.
        Measure::Threads | Measure::Files => 2.0,
        Measure::Kib | Measure::PssKib | Measure::RssKib => return None,
        Measure::Descriptors
        | Measure::Sockets
        | Measure::Children
        | Measure::Cgroups
        | Measure::Processes => 0.0,
    })
}

struct Soak {
    site: Site,
    misfortune: Misfortune,
    length: Duration,
    curves: Curves,
    strikes: u32,
}

impl Soak {
    /// The load: misfortune, people and programs at once. What programs got to read.
    fn strike_and_use(&mut self, people: &mut People, client: Client, rng: Rng) -> Result<Tallies> {
        people.while_in_use(client, rng, || self.strike())
    }

    /// Strikes and looks, for as long as it takes.
    fn strike(&mut self) -> Result<()> {
        let begun = Instant::now();
        let look_every = (self.length / 180).clamp(Duration::from_secs(1), Duration::from_secs(10));
        let (mut next_strike, mut looks) = (begun, 0);
        while begun.elapsed() < self.length {
            sleep(Duration::from_millis(100));
            self.misfortune.heal(&mut self.site)?;
            self.site.check_alive()?;
            if begun.elapsed() > self.length / 3 {
                self.misfortune.spare([COORDINATOR.to_owned()]);
            }
            if Instant::now() >= next_strike {
                self.strikes += u32::from(self.misfortune.strike(&mut self.site)?);
                next_strike = self.misfortune.moment(1_500, 7_500);
            }
            if begun.elapsed() >= look_every * looks {
                let at_s = begun.elapsed().as_secs_f64();
                Sample::take(&self.site, HOSTS)?.note(&mut self.curves, at_s);
                looks += 1;
            }
        }
        self.misfortune.heal_all(&mut self.site)?;
        self.site.wait_for_agents(HOSTS)
    }

    /// The level of everything when nothing is to be done: when it has not moved for a while.
    fn rest(&mut self) -> Result<BTreeMap<Thing, f64>> {
        let begun = Instant::now();
        let mut last = self.level()?;
        let mut still = 0;
        while still < 5 {
            ensure!(begun.elapsed() < PATIENCE, "no rest: {last:#?}");
            sleep(Duration::from_secs(1));
            self.site.check_alive()?;
            let level = self.level()?;
            let counts = |level: &BTreeMap<Thing, f64>| {
                let mut counts = level.clone();
                counts.retain(|thing, _| slack_at_rest(thing).is_some_and(|slack| slack < 100.0));
                counts
            };
            still = if counts(&level) == counts(&last) {
                still + 1
            } else {
                0
            };
            last = level;
        }
        Ok(last)
    }

    fn level(&self) -> Result<BTreeMap<Thing, f64>> {
        let sample = Sample::take(&self.site, HOSTS)?;
        let values = sample.values.into_iter().map(|value| {
            let (name, measure) = (value.name, value.measure);
            (Thing { name, measure }, value.value)
        });
        Ok(values.collect())
    }

    /// Waits until everything is as it was at rest before, and says what does not come to that.
    fn return_to(&mut self, before: &BTreeMap<Thing, f64>) -> Result<Vec<String>> {
        let begun = Instant::now();
        loop {
            let now = self.level()?;
            let more = before.iter().filter_map(|(thing, before)| {
                let now = now.get(thing)?;
                let more = *now > before + slack_at_rest(thing)?;
                more.then(|| format!("at rest {thing}: {before} before, {now} now"))
            });
            let more: Vec<String> = more.collect();
            if more.is_empty() || begun.elapsed() > PATIENCE {
                return Ok(more);
            }
            sleep(Duration::from_secs(1));
        }
    }
}

fn soak(length: Duration, stop_max: Duration) -> Result<()> {
    let seed = seed();
    let mut misfortune = Misfortune::new(chance(seed), HOSTS, stop_max);
    misfortune.spare([agent_name(1), supervisor_name(1)]);
    let mut site = Site::new(HOSTS)?;
    site.set_agent_options(KEEPING);
    site.start(HOSTS, 16)?;
    let jobs = load::apply(&site)?;
    let names: Vec<&'static str> = jobs.iter().map(|(name, _)| *name).collect();
    let client = site.client();
    let mut people = People::new(client.clone(), Rng::new(seed ^ 1), HOSTS, names.clone());
    let mut soak = Soak {
        site,
        misfortune,
        length,
        curves: Curves::default(),
        strikes: 0,
    };
    wait_for_first_runs(&mut soak.site, &names)?;
    people.leave(true)?;
    people.settle()?;
    let before = soak.rest()?;
    people.leave(false)?;

    let used = soak.strike_and_use(&mut people, client, Rng::new(seed ^ 2));
    let written = report::write(&soak.curves, length, |thing| slack(thing, length))?;
    println!("{written}");
    let read = used?;
    println!("{}", report::tallies(&[&people.tallies, &read]));
    people.leave(true)?;
    people.settle()?;
    let mut evidence = soak.site.evidence()?;
    tiling::check(&soak.site, &evidence, &jobs)?;
    let writers = load::writers();
    let writes = |job: &str| writers.iter().any(|known| known.writer.name == job);
    evidence.runs.retain(|run| writes(&run.run.job.to_string()));
    let (strikes, stalls) = (soak.strikes, soak.misfortune.stalls.len());
    println!("{strikes} strikes, {stalls} stalls; {}", evidence.summary());
    check_work(&soak, &evidence, &people)?;
    let mut grown = grown(&soak.curves, length)?;
    grown.extend(soak.return_to(&before)?);
    ensure!(grown.is_empty(), "grown: {grown:#?}");
    check_deeds(&people.tallies, &read, length)?;
    soak.site.close()
}

fn wait_for_first_runs(site: &mut Site, jobs: &[&str]) -> Result<()> {
    site.wait_for("every job to have run", |site| {
        let runs = site.runs()?;
        Ok(jobs.iter().all(|job| {
            let mut of_job = runs.iter().filter(|run| run.job.to_string() == *job);
            of_job.any(|run| run.leased + run.succeeded > 0)
        }))
    })
}

/// Nothing twice, and nothing late that counts.
fn check_work(soak: &Soak, evidence: &Evidence, people: &People) -> Result<()> {
    evidence.check()?;
    let mut overlaps = evidence.overlaps();
    overlaps.retain(|overlap| {
        let (older, newer) = (&overlap.older.0, &overlap.newer.0);
        let allowed = older.job == load::ALLOW && older.fire_time != newer.fire_time;
        !allowed && !soak.misfortune.excuses(overlap, evidence)
    });
    ensure!(overlaps.is_empty(), "overlaps: {overlaps:#?}");
    evidence.check_unsafe(load::UNSAFE, &people.asked)
}

/// Who held more at the end of its life than it may.
fn grown(curves: &Curves, length: Duration) -> Result<Vec<String>> {
    let stretches = curves.stretches();
    // Whom the misfortune spares lives long enough to be judged.
    for name in [COORDINATOR.to_owned(), agent_name(1), supervisor_name(1)] {
        let lived = stretches.iter().any(|(thing, _)| thing.name == name);
        ensure!(lived, "{name} did not live long enough to be judged");
    }
    let grown = stretches.iter().filter_map(|(thing, stretch)| {
        let Stretch { second, last, .. } = stretch;
        let allowed = slack(thing, length)?.allows(*second, *last);
        (!allowed).then(|| format!("under load {thing}: {second} early, {last} late"))
    });
    Ok(grown.collect())
}

/// Each deed was done: a soak in which nobody gets anything done proves nothing. A minute may pass
/// without a deed of some kind.
fn check_deeds(people: &Tallies, read: &Tallies, length: Duration) -> Result<()> {
    let many = length >= Duration::from_secs(300);
    for (what, [granted, ..]) in people.iter().filter(|_| many).chain(read) {
        ensure!(*granted > 0, "nobody got `{what}` done");
    }
    Ok(())
}

#[test]
fn nothing_grows_in_a_minute() -> Result<()> {
    soak(Duration::from_secs(60), Duration::from_secs(5))
}

#[test]
#[ignore = "make test-full: 35 minutes; MATINS_SOAK_MINUTES says another number"]
fn nothing_grows_in_a_day() -> Result<()> {
    let minutes = match std::env::var("MATINS_SOAK_MINUTES") {
        Ok(minutes) => minutes.parse().context("MATINS_SOAK_MINUTES is a number")?,
        Err(_) => 30,
    };
    soak(Duration::from_secs(60 * minutes), Duration::from_secs(10))
}
