//! The hosts of a class at the busiest moment, and what to buy.

use std::collections::BTreeMap;

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
    /// The busiest moment of what was seen.
    pub peak_at: Option<WallMs>,
    pub dimensions: Vec<Dimension>,
    /// The dimension that is used up first.
    pub binds: Option<&'static str>,
    /// What is left of it at its peak; 0 to 1.
    pub headroom: Option<f64>,
    /// Hosts like those there, to have a fifth left at the peak.
    pub hosts_needed: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dimension {
    pub name: &'static str,
    /// Most that was in use at once.
    pub peak: f64,
    /// All hosts of the class together; unset where their facts do not say.
    pub capacity: Option<f64>,
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

fn report_class(class: String, hosts: &[&SeenHost], history: &History) -> ClassReport {
    let is_here = |name: &AgentName| hosts.iter().any(|host| host.name == *name);
    let runs = history.jobs.iter().flat_map(|job| &job.runs);
    let attempts = runs.flat_map(|run| &run.attempts);
    let attempts: Vec<&SeenAttempt> = attempts.filter(|attempt| is_here(&attempt.host)).collect();
    let total = |fact: &str, unit: f64| {
        let each = hosts.iter().map(|host| host.facts.number(fact));
        each.sum::<Option<i64>>().map(|sum| sum as f64 / unit)
    };
    let (slots_at, slots) = peak(&attempts, |_| 1.0);
    let dimensions = vec![
        Dimension {
            name: "slots",
            peak: slots,
            capacity: Some(hosts.iter().map(|host| f64::from(host.slots)).sum()),
        },
        Dimension {
            name: "cpu",
            peak: peak(&attempts, processors).1,
            capacity: total("cpu.usable_milli", 1_000.0),
        },
        Dimension {
            name: "memory",
            peak: peak(&attempts, |attempt| attempt.memory_bytes_peak as f64).1,
            capacity: total("memory.usable_bytes", 1.0),
        },
    ];
    let fullest = dimensions
        .iter()
        .filter_map(|dimension| Some((dimension.name, dimension.peak / dimension.capacity?)))
        .filter(|(_, used)| used.is_finite() && *used > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let needed = |used: f64| {
        (hosts.len() as f64 * used / (1.0 - HEADROOM_MIN))
            .ceil()
            .max(1.0)
    };
    ClassReport {
        class,
        hosts: hosts.len(),
        peak_at: slots_at,
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

/// Most at once of what attempts have, and when it began.
fn peak(attempts: &[&SeenAttempt], of: impl Fn(&SeenAttempt) -> f64) -> (Option<WallMs>, f64) {
    let mut steps: Vec<(WallMs, bool, f64)> = Vec::new();
    for attempt in attempts.iter().filter(|attempt| attempt.lasted().0 > 0) {
        let amount = of(attempt);
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

impl Purchase {
    /// Hosts that a class lacks at its peak.
    pub(super) fn of_class(report: &ClassReport) -> Option<Purchase> {
        let more = report.hosts_needed?.checked_sub(report.hosts)?;
        let (binds, headroom) = (report.binds?, report.headroom?);
        let each = |dimension: &Dimension| {
            let each = dimension.capacity? / report.hosts as f64;
            Some(match dimension.name {
                "memory" => format!("{:.0} GiB of memory", each / f64::from(1 << 30)),
                "cpu" => format!("{each:.0} processors"),
                _ => format!("{each:.0} slots"),
            })
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
                "{:.0} % of {binds} left at the peak, and 20 % should be",
                headroom * 100.0
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
                "{:.1} commits a second at the peak, {:.2} GiB a year",
                report.commits_per_s_peak, report.gib_per_year
            ),
        }
    }
}
