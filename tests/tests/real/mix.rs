//! Everything at once: jobs of several kinds on three hosts, and at random moments anything is
//! killed, stopped, told to end or robbed of its files. Then all is healed, and every fire must be
//! accounted for, with nothing done twice and nothing left behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use protocol::RunId;

use crate::chance::{chance, seed};
use crate::evidence::{Evidence, Overlap};
use crate::fires::check_fires;
use crate::rng::Rng;
use crate::site::{COORDINATOR, Site, agent_name, supervisor_name};
use crate::writers::Writer;

const HOSTS: u32 = 3;

/// A supervisor that stood still for longer than this may have missed a deadline of the shortest
/// lease: 15 s less the margins, and less a beat that was on its way.
const MARGIN: Duration = Duration::from_secs(7);

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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Heal {
    Start(String),
    GoOn(String),
}

/// What has been done to a site and is not healed yet.
struct Misfortune {
    rng: Rng,
    /// How long a process may stand still.
    stop_max: Duration,
    ills: Vec<(Instant, Heal)>,
    stopped_at: BTreeMap<String, i64>,
    /// Supervisors that stood still beyond their margin: which host, from when to when.
    stalls: Vec<(String, i64, i64)>,
}

impl Misfortune {
    /// Lets misfortunes happen for so long, and heals all that is left of them.
    fn strike(&mut self, site: &mut Site, length: Duration) -> Result<u32> {
        let begun = Instant::now();
        let mut strikes = 0;
        while begun.elapsed() < length {
            sleep(Duration::from_millis(self.rng.between(100, 1_200) as u64));
            self.heal(site, Instant::now())?;
            site.check_alive()?;
            strikes += u32::from(self.strike_once(site, begun)?);
        }
        let all = Instant::now() + self.stop_max + Duration::from_secs(60);
        self.heal(site, all)?;
        Ok(strikes)
    }

    fn strike_once(&mut self, site: &mut Site, begun: Instant) -> Result<bool> {
        let n = self.rng.between(1, i64::from(HOSTS)) as u32;
        let (agent, supervisor) = (agent_name(n), supervisor_name(n));
        let both = vec![supervisor.clone(), agent.clone()];
        let names = match self.rng.index(7) {
            0 | 1 => vec![agent],
            2 | 3 => vec![supervisor],
            4 | 5 => both,
            _ => vec![COORDINATOR.to_owned()],
        };
        if names.iter().any(|name| self.is_ill(name)) {
            return Ok(false);
        }
        let what = self.rng.pick(&["kill", "kill", "end", "stop", "rob"]);
        let at = begun.elapsed().as_secs_f64();
        let length = match what {
            "stop" => self.rng.between(300, self.stop_max.as_millis() as i64),
            _ => self.rng.between(0, 3_000),
        };
        println!("{at:6.1} s: {what} {names:?} for {length} ms");
        let until = Instant::now() + Duration::from_millis(length as u64);
        for name in names {
            match what {
                "stop" => {
                    site.stop(&name)?;
                    self.stopped_at.insert(name.clone(), boot_ms()?);
                    self.ills.push((until, Heal::GoOn(name)));
                    continue;
                }
                // One that has only just begun to start may end by the signal itself.
                "end" => {
                    site.signal(&name, Signal::SIGTERM)?;
                    site.wait_for_end(&name)?;
                }
                _ => site.kill(&name)?,
            }
            if what == "rob" && name != COORDINATOR {
                rob(&site.directory().join(name.replace("host", "data")))?;
            }
            self.ills.push((until, Heal::Start(name)));
        }
        Ok(true)
    }

    fn is_ill(&self, name: &str) -> bool {
        let mut ills = self.ills.iter();
        ills.any(|(_, Heal::Start(ill) | Heal::GoOn(ill))| ill == name)
    }

    /// Heals what is due.
    fn heal(&mut self, site: &mut Site, now: Instant) -> Result<()> {
        let due: Vec<Heal> = self
            .ills
            .extract_if(.., |(until, _)| *until <= now)
            .map(|(_, heal)| heal)
            .collect();
        for heal in due {
            match heal {
                Heal::GoOn(name) => {
                    site.go_on(&name)?;
                    self.note_stall(&name)?;
                }
                Heal::Start(name) => match name.rsplit_once('-') {
                    Some(("host", n)) => site.start_agent(n.parse()?)?,
                    Some((_, n)) => site.start_supervisor(n.parse()?)?,
                    None => site.start_coordinator()?,
                },
            }
        }
        Ok(())
    }

    fn note_stall(&mut self, name: &str) -> Result<()> {
        let from = self.stopped_at.remove(name).context("it was stopped")?;
        let through = boot_ms()?;
        if name.starts_with("supervisor") && through - from > MARGIN.as_millis() as i64 {
            let host = name.replace("supervisor", "host");
            self.stalls.push((host, from, through));
        }
        Ok(())
    }

    /// Whether the older of the two was on a host that stood still past its margin while it was
    /// there.
    fn excuses(&self, overlap: &Overlap, evidence: &Evidence) -> bool {
        let (piece, token) = &overlap.older;
        let mut attempts = evidence.attempts();
        let Some((_, attempt)) = attempts.find(|(p, a)| p == piece && a.token.0 == *token) else {
            return false;
        };
        let host = attempt.agent.to_string();
        let presences = evidence.presences();
        presences.get(&overlap.older).is_some_and(|there| {
            self.stalls.iter().any(|(stalled, from, through)| {
                *stalled == host && there.from <= *through && there.through >= *from
            })
        })
    }
}

/// Removes a directory that others may still write into: what a killed supervisor leaves behind
/// (attempts that die with it, the writer of their logs) adds files for a moment.
fn rob(directory: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        match fs::remove_dir_all(directory) {
            Err(error)
                if error.kind() == ErrorKind::DirectoryNotEmpty
                    && begun.elapsed() < Duration::from_secs(10) =>
            {
                sleep(Duration::from_millis(10));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", directory.display()));
            }
            _ => return Ok(()),
        }
    }
}

fn boot_ms() -> Result<i64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    Ok(now.tv_sec() * 1_000 + now.tv_nsec() / 1_000_000)
}

/// Waits until every run up to `last` is final, and answers for the person that those wait for
/// whose outcome nobody knows. How often each of them was asked about.
fn settle(site: &mut Site, last: RunId, limit: Duration) -> Result<BTreeMap<RunId, usize>> {
    let mut asked = BTreeMap::new();
    let begun = Instant::now();
    loop {
        let runs = site.runs()?;
        let open: Vec<_> = runs
            .iter()
            .filter(|run| run.run <= last && run.ended_at.is_none())
            .collect();
        if open.is_empty() {
            return Ok(asked);
        }
        ensure!(begun.elapsed() < limit, "still open: {open:#?}");
        for run in open.iter().filter(|run| run.state == "needs_confirmation") {
            let id = run.run.to_string();
            site.matins(&["confirm", &id, "--as", "retry", "--reason", "looked at it"])?;
            *asked.entry(run.run).or_default() += 1;
        }
        site.check_alive()?;
        sleep(Duration::from_millis(200));
    }
}

/// A shard of an unsafe job began once, and once more for each time a person said so.
fn check_unsafe(evidence: &Evidence, asked: &BTreeMap<RunId, usize>) -> Result<()> {
    let there = evidence.presences();
    for run in evidence
        .runs
        .iter()
        .filter(|r| r.run.job.to_string() == "mix/unsafe")
    {
        let answers = asked.get(&run.run.run).copied().unwrap_or(0);
        for shard in 0..run.run.shards {
            let begun = there.keys().filter(|(piece, _)| {
                piece.job == "mix/unsafe"
                    && piece.fire_time == run.run.fire_time.to_string()
                    && piece.shard == shard
            });
            let begun = begun.count();
            ensure!(
                begun <= 1 + answers,
                "{} shard {shard} began {begun} times after {answers} answers",
                run.run.run
            );
        }
    }
    Ok(())
}

fn mix(length: Duration, stop_max: Duration) -> Result<()> {
    let mut misfortune = Misfortune {
        rng: chance(seed()),
        stop_max,
        ills: Vec::new(),
        stopped_at: BTreeMap::new(),
        stalls: Vec::new(),
    };
    let mut site = Site::new(HOSTS)?;
    site.start(HOSTS, 16)?;
    for (job, _) in jobs() {
        job.apply(&site)?;
    }
    let strikes = misfortune.strike(&mut site, length)?;
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
    check_unsafe(&evidence, &asked)?;
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
