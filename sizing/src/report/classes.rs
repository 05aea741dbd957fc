//! The hosts of a class at the busiest moment, and what to buy.

use std::collections::BTreeMap;

use jobs::Needs;
use profiles::matching::{Ask, Offer};
use protocol::{AgentName, WallMs};
use serde::Serialize;

use super::control::ControlReport;
use crate::history::{History, SeenAttempt, SeenHost};

/// What should be left at the busiest moment: a host may be away.
const HEADROOM_MIN: f64 = 0.2;

/// Hosts that are counted together: of one class, or of none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    pub class: String,
    pub hosts: usize,
    pub dimensions: Vec<Dimension>,
    /// The dimension that is used up first.
    pub binds: Option<&'static str>,
    /// What is left of it at its peak; 0 to 1.
    pub headroom: Option<f64>,
    /// Hosts like those there, to have a fifth left at the peak.
    pub hosts_needed: Option<usize>,
}

/// Something that attempts take of hosts, at its busiest moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dimension {
    /// `slots`, `cpu` (processors), `memory` (bytes), `io_slots` (shards that ask for class `io`), `io`
    /// (reads and writes of disks a second).
    pub name: &'static str,
    /// Most that was in use at once; unset where no host has counted it.
    pub peak: Option<f64>,
    /// Whether some attempts were counted in part or not at all, so that the truth is more.
    pub partial: bool,
    /// When that began.
    #[serde(with = "protocol::api::Rfc3339OrNull")]
    pub peak_at: Option<WallMs>,
    /// All hosts of the class together; unset where their facts do not say.
    pub capacity: Option<f64>,
}

impl Dimension {
    /// 0 to 1, and more where hosts were given more than they have.
    pub fn used(&self) -> Option<f64> {
        let used = self.peak? / self.capacity?;
        used.is_finite().then_some(used)
    }
}

/// A line for whoever buys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Purchase {
    pub role: String,
    pub count: usize,
    pub what: String,
    pub why: String,
}

pub fn report_classes(history: &History) -> Vec<ClassReport> {
    let mut kinds: BTreeMap<String, Vec<&SeenHost>> = BTreeMap::new();
    let in_service = history.hosts.iter().filter(|host| host.in_service);
    for host in in_service {
        kinds
            .entry(host.kind(&history.classes))
            .or_default()
            .push(host);
    }
    let kinds = kinds.into_iter();
    kinds
        .map(|(class, hosts)| report_class(class, &hosts, history))
        .collect()
}

/// An attempt, and what its job asks for.
type Placed<'a> = (&'a SeenAttempt, &'a Needs);

fn report_class(class: String, hosts: &[&SeenHost], history: &History) -> ClassReport {
    let is_here = |name: &AgentName| hosts.iter().any(|host| host.name == *name);
    let placed = history.jobs.iter().flat_map(|job| {
        let attempts = job.runs.iter().flat_map(|run| &run.attempts);
        attempts.map(|attempt| (attempt, &job.manifest.needs))
    });
    let placed: Vec<Placed<'_>> = placed.filter(|(it, _)| is_here(&it.host)).collect();
    let total = |fact: &str, unit: f64| {
        let each = hosts.iter().map(|host| host.facts.number(fact));
        each.sum::<Option<i64>>().map(|sum| sum as f64 / unit)
    };
    let offered = hosts.iter().map(|host| Offer::of(host.slots, &host.facts));
    let io_slots: Option<u32> = offered.map(|offer| offer.io_slots).sum();
    let dimensions = vec![
        of_all("slots", &placed, |_| 1.0)
            .out_of(Some(hosts.iter().map(|host| f64::from(host.slots)).sum())),
        of_all("cpu", &placed, |(attempt, _)| processors(attempt))
            .out_of(total("cpu.usable_milli", 1_000.0)),
        of_all("memory", &placed, |(attempt, _)| {
            attempt.memory_bytes_peak as f64
        })
        .out_of(total("memory.usable_bytes", 1.0)),
        of_all("io_slots", &placed, |(_, needs)| {
            f64::from(Ask::of(needs).takes.io_slots)
        })
        .out_of(io_slots.map(f64::from)),
        operations(&placed).out_of(total("disk.random_write_iops", 1.0)),
    ];
    let fullest = dimensions
        .iter()
        .filter_map(|dimension| Some((dimension.name, dimension.used()?)))
        .filter(|(_, used)| *used > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let needed = |used: f64| {
        (hosts.len() as f64 * used / (1.0 - HEADROOM_MIN))
            .ceil()
            .max(1.0)
    };
    ClassReport {
        class,
        hosts: hosts.len(),
        dimensions,
        binds: fullest.map(|(name, _)| name),
        headroom: fullest.map(|(_, used)| (1.0 - used).max(0.0)),
        hosts_needed: fullest.map(|(_, used)| needed(used) as usize),
    }
}

/// Processors that it kept busy on average.
fn processors(attempt: &SeenAttempt) -> f64 {
    attempt.cpu.0 as f64 / attempt.lasted().0.max(1) as f64
}

/// Something that is counted of every attempt.
fn of_all(name: &'static str, placed: &[Placed<'_>], of: impl Fn(&Placed<'_>) -> f64) -> Dimension {
    let amounts = placed.iter().map(|placed| (placed.0, of(placed)));
    let (peak_at, peak) = peak(amounts);
    Dimension {
        name,
        peak: Some(peak),
        partial: false,
        peak_at,
        capacity: None,
    }
}

/// Reads and writes of disks a second, each attempt's spread evenly over its time: what hosts count of
/// it depends on their kernels.
fn operations(placed: &[Placed<'_>]) -> Dimension {
    let counted = |(attempt, _): &Placed<'_>| {
        let a_second = 1_000.0 / attempt.lasted().0.max(1) as f64;
        attempt.operations.map(|count| count as f64 * a_second)
    };
    let amounts = placed
        .iter()
        .filter_map(|placed| Some((placed.0, counted(placed)?)));
    let some = placed.iter().any(|placed| counted(placed).is_some());
    let (peak_at, peak) = peak(amounts);
    let missing = |(attempt, _): &Placed<'_>| {
        attempt.outcome.is_some() && (attempt.operations.is_none() || attempt.operations_partial)
    };
    Dimension {
        name: "io",
        peak: (some || placed.is_empty()).then_some(peak),
        partial: placed.iter().any(missing),
        peak_at,
        capacity: None,
    }
}

impl Dimension {
    fn out_of(self, capacity: Option<f64>) -> Dimension {
        Dimension { capacity, ..self }
    }
}

/// Most at once of what attempts have, and when it began.
fn peak<'a>(amounts: impl Iterator<Item = (&'a SeenAttempt, f64)>) -> (Option<WallMs>, f64) {
    let mut steps: Vec<(WallMs, bool, f64)> = Vec::new();
    for (attempt, amount) in amounts.filter(|(attempt, _)| attempt.lasted().0 > 0) {
        // At one moment, what ends goes before what begins.
        steps.push((attempt.started, true, amount));
        steps.push((attempt.ended, false, -amount));
    }
    steps.sort_by_key(|&(at, begins, _)| (at, begins));
    let (mut now, mut most) = (0.0, (None, 0.0));
    for (at, _, amount) in steps {
        now += amount;
        if now > most.1 {
            most = (Some(at), now);
        }
    }
    most
}

/// A dimension as people say it.
pub fn in_words(dimension: &str) -> &str {
    match dimension {
        "cpu" => "processors",
        "io_slots" => "slots for io",
        "io" => "reads and writes",
        other => other,
    }
}

impl Purchase {
    /// Hosts that a class lacks at its peak.
    pub(super) fn of_class(report: &ClassReport) -> Option<Purchase> {
        let more = report.hosts_needed?.checked_sub(report.hosts)?;
        let (binds, headroom) = (report.binds?, report.headroom?);
        let each = |dimension: &Dimension| {
            let each = dimension.capacity? / report.hosts as f64;
            match dimension.name {
                "slots" => Some(format!("{each:.0} slots")),
                "memory" => Some(format!("{:.0} GiB of memory", each / f64::from(1 << 30))),
                "cpu" => Some(format!("{each:.0} processors")),
                "io" if dimension.peak? > 0.0 => Some(format!("{each:.0} random writes a second")),
                _ => None,
            }
        };
        let each: Vec<String> = report.dimensions.iter().filter_map(each).collect();
        let disk = if report.class == "io" {
            "; NVMe with power-loss protection, 1,000 random writes a second and more"
        } else {
            ""
        };
        (more > 0).then(|| Purchase {
            role: format!("executor, {}", report.class),
            count: more,
            what: format!("each {}{disk}", each.join(", ")),
            why: format!(
                "{:.0} % of {} left at the peak, and 20 % should be",
                headroom * 100.0,
                in_words(binds)
            ),
        })
    }

    pub(super) fn of_control(report: &ControlReport) -> Purchase {
        Purchase {
            role: "control machine".to_owned(),
            count: 2,
            what: format!(
                "2 cores, 4 GiB of memory; two power supplies; mirrored SSDs with power-loss protection, \
                 {} synced writes a second, {} GiB; for the witness one more with the same disk",
                report.iops, report.disk_gib
            ),
            why: format!(
                "{:.1} commits a second at the peak, {} a year at the least",
                report.commits_per_s_peak,
                report.bytes_in_words()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
