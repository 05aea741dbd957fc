//! Chance strikes a site: its processes are killed, stopped, told to end or robbed of their files,
//! and a while later what was done to them is healed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};

use crate::evidence::{Evidence, Overlap};
use crate::rng::Rng;
use crate::site::{Site, agent_name, supervisor_name};

/// A supervisor that stood still for longer than this may have missed a deadline of the shortest
/// lease: 15 s less the margins, and less a beat that was on its way.
const MARGIN: Duration = Duration::from_secs(7);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Heal {
    Start(String),
    GoOn(String),
}

/// What has been done to a site and is not healed yet.
pub(crate) struct Misfortune {
    rng: Rng,
    hosts: u32,
    /// How long a process may stand still.
    stop_max: Duration,
    /// Processes that live on: they stand still at times, and nothing worse.
    spared: BTreeSet<String>,
    begun: Instant,
    ills: Vec<(Instant, Heal)>,
    stopped_at: BTreeMap<String, i64>,
    /// Supervisors that stood still beyond their margin: which host, from when to when.
    pub(crate) stalls: Vec<(String, i64, i64)>,
}

impl Misfortune {
    /// None yet, for a site with so many hosts.
    pub(crate) fn new(rng: Rng, hosts: u32, stop_max: Duration) -> Misfortune {
        Misfortune {
            rng,
            hosts,
            stop_max,
            spared: BTreeSet::new(),
            begun: Instant::now(),
            ills: Vec::new(),
            stopped_at: BTreeMap::new(),
            stalls: Vec::new(),
        }
    }

    pub(crate) fn spare(&mut self, names: impl IntoIterator<Item = String>) {
        self.spared.extend(names);
    }

    /// A moment between these two, from now on.
    pub(crate) fn moment(&mut self, shortest_ms: i64, longest_ms: i64) -> Instant {
        Instant::now() + Duration::from_millis(self.rng.between(shortest_ms, longest_ms) as u64)
    }

    /// Heals all that is left, due or not.
    pub(crate) fn heal_all(&mut self, site: &mut Site) -> Result<()> {
        let all = Instant::now() + self.stop_max + Duration::from_secs(60);
        self.heal_until(site, all)
    }

    pub(crate) fn heal(&mut self, site: &mut Site) -> Result<()> {
        self.heal_until(site, Instant::now())
    }

    /// Something happens to somebody who is well, if it is somebody who is well that is drawn.
    pub(crate) fn strike(&mut self, site: &mut Site) -> Result<bool> {
        let n = self.rng.between(1, i64::from(self.hosts)) as u32;
        let (agent, supervisor) = (agent_name(n), supervisor_name(n));
        let both = vec![supervisor.clone(), agent.clone()];
        let control = site.control_names();
        let names = match self.rng.index(6 + control.len()) {
            0 | 1 => vec![agent],
            2 | 3 => vec![supervisor],
            4 | 5 => both,
            6.. => vec![control[self.rng.index(control.len())].clone()],
        };
        if names.iter().any(|name| self.is_ill(name)) {
            return Ok(false);
        }
        let what = match self.rng.pick(&["kill", "kill", "end", "stop", "rob"]) {
            _ if names.iter().any(|name| self.spared.contains(name)) => "stop",
            what => what,
        };
        let at = self.begun.elapsed().as_secs_f64();
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
            if what == "rob" && site.control(&name).is_err() {
                rob(&site.directory().join(name.replace("host", "data")))?;
            }
            self.ills.push((until, Heal::Start(name)));
        }
        Ok(true)
    }

    /// One process that is well is killed, if it is one that is drawn, and is started again within
    /// three seconds.
    pub(crate) fn kill(&mut self, site: &mut Site) -> Result<bool> {
        let names = site.process_names();
        let name = names[self.rng.index(names.len())].clone();
        let length = self.rng.between(0, 3_000);
        if self.is_ill(&name) {
            return Ok(false);
        }
        let at = self.begun.elapsed().as_secs_f64();
        println!("{at:6.1} s: kill {name} for {length} ms");
        site.kill(&name)?;
        let until = Instant::now() + Duration::from_millis(length as u64);
        self.ills.push((until, Heal::Start(name)));
        Ok(true)
    }

    fn is_ill(&self, name: &str) -> bool {
        let mut ills = self.ills.iter();
        ills.any(|(_, Heal::Start(ill) | Heal::GoOn(ill))| ill == name)
    }

    /// Heals what is due by then.
    fn heal_until(&mut self, site: &mut Site, now: Instant) -> Result<()> {
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
                    None => site.start_control(&name)?,
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
    pub(crate) fn excuses(&self, overlap: &Overlap, evidence: &Evidence) -> bool {
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
