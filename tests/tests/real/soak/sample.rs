//! What every process of a site holds, and what lies in its directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::growth::{Curves, Measure, Point};
use crate::leftovers;
use crate::site::{COORDINATOR, Site, supervisor_name};

/// One look at everything.
pub(super) struct Sample {
    pub(super) values: Vec<Value>,
}

pub(super) struct Value {
    pub(super) name: String,
    pub(super) measure: Measure,
    /// Process id; 0 for what is no process.
    pub(super) incarnation: u32,
    pub(super) value: f64,
}

/// What is no process.
pub(super) const LEDGER: &str = "ledger";
pub(super) const SITE: &str = "site";

pub(super) fn output_of(n: u32) -> String {
    format!("output-{n}")
}

pub(super) fn disk_of(n: u32) -> String {
    format!("disk-{n}")
}

impl Sample {
    pub(super) fn take(site: &Site, hosts: u32) -> Result<Sample> {
        let mut sample = Sample { values: Vec::new() };
        let children = children();
        for name in site.process_names() {
            let pid = site.pid(&name)?;
            // One that has ended by now is told of by whoever looks whether all are alive.
            if let Ok(held) = held(pid) {
                for (measure, value) in held {
                    sample.add(&name, measure, pid, value);
                }
                let own = children.get(&pid).copied().unwrap_or(0);
                sample.add(&name, Measure::Children, pid, own as f64);
            }
        }
        sample.look_at_disks(site, hosts);
        let cgroups: usize = leftovers::cgroups(site.directory())?
            .iter()
            .map(|root| directories(root))
            .sum();
        sample.add(SITE, Measure::Cgroups, 0, cgroups as f64);
        let processes = leftovers::processes(site.directory()).len();
        sample.add(SITE, Measure::Processes, 0, processes as f64);
        Ok(sample)
    }

    fn look_at_disks(&mut self, site: &Site, hosts: u32) {
        let at = |name: &str| site.directory().join(name);
        let is_ledger = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ledger")
        };
        let (ledger, rest) = space(&at(COORDINATOR), &is_ledger);
        self.add_space(LEDGER, ledger);
        self.add_space("coordinator-data", rest);
        for n in 1..=hosts {
            let data = at(&format!("data-{n}"));
            let output = data.join("output");
            let (outputs, data) = space(&data, &|path| path.starts_with(&output));
            let supervisor = at(&supervisor_name(n));
            // Working directories that will serve again: as many as there were attempts at once.
            let spares = supervisor.join("spare");
            let (_, work) = space(&supervisor, &|path| path.starts_with(&spares));
            self.add_space(&output_of(n), outputs);
            self.add_space(&disk_of(n), data.and(work));
        }
    }

    fn add_space(&mut self, name: &str, space: Space) {
        self.add(name, Measure::Files, 0, space.files as f64);
        self.add(name, Measure::Kib, 0, space.bytes as f64 / 1_024.0);
    }

    fn add(&mut self, name: &str, measure: Measure, incarnation: u32, value: f64) {
        self.values.push(Value {
            name: name.to_owned(),
            measure,
            incarnation,
            value,
        });
    }

    pub(super) fn note(&self, curves: &mut Curves, at_s: f64) {
        for value in &self.values {
            let point = Point {
                at_s,
                incarnation: value.incarnation,
                value: value.value,
            };
            curves.note(&value.name, value.measure, point);
        }
    }
}

fn held(pid: u32) -> Result<Vec<(Measure, f64)>> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
    let (status, rollup) = (read("status")?, read("smaps_rollup")?);
    let (mut descriptors, mut sockets) = (0, 0);
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        descriptors += 1;
        // One that was closed meanwhile has been counted.
        let target = fs::read_link(entry?.path()).unwrap_or_default();
        sockets += u32::from(target.to_string_lossy().starts_with("socket:"));
    }
    Ok(vec![
        (Measure::AnonymousKib, number(&status, "RssAnon:")?),
        (Measure::RssKib, number(&status, "VmRSS:")?),
        (Measure::PssKib, number(&rollup, "Pss:")?),
        (Measure::Threads, number(&status, "Threads:")?),
        (Measure::Descriptors, f64::from(descriptors)),
        (Measure::Sockets, f64::from(sockets)),
    ])
}

/// The number behind this word, without its unit.
fn number(text: &str, word: &str) -> Result<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word));
    let number = rest.and_then(|rest| rest.split_whitespace().next());
    Ok(number.with_context(|| format!("no {word}"))?.parse()?)
}

/// How many children each process has, dead ones that nobody reaped too.
fn children() -> BTreeMap<u32, usize> {
    let mut children = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the command, which may hold anything: the state, and the parent.
        let after = stat.rsplit_once(')').map(|(_, after)| after);
        let parent = after.and_then(|after| after.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            *children.entry(parent).or_default() += 1;
        }
    }
    children
}

#[derive(Clone, Copy, Default)]
struct Space {
    files: u64,
    bytes: u64,
}

impl Space {
    fn and(self, other: Space) -> Space {
        Space {
            files: self.files + other.files,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Everything below a directory, itself not counted: first what is of this kind, then the rest.
/// What vanishes while it is looked at was not there.
fn space(directory: &Path, is_kind: &dyn Fn(&Path) -> bool) -> (Space, Space) {
    let (mut kind, mut rest) = (Space::default(), Space::default());
    let Ok(entries) = fs::read_dir(directory) else {
        return (kind, rest);
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let bytes = if metadata.is_file() {
            metadata.len()
        } else {
            0
        };
        let own = Space { files: 1, bytes };
        if is_kind(&path) {
            kind = kind.and(own);
        } else {
            rest = rest.and(own);
        }
        if metadata.is_dir() {
            let below = space(&path, is_kind);
            kind = kind.and(below.0);
            rest = rest.and(below.1);
        }
    }
    (kind, rest)
}

/// How many directories there are, this one and all below it.
fn directories(root: &Path) -> usize {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    1 + below.map(|entry| directories(&entry.path())).sum::<usize>()
}
