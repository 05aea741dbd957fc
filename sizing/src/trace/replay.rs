//! A trace as a scenario.
//!
//! Traces last for months, and the core must hear from its hosts every few seconds. So a second of
//! the trace is a millisecond here: whom the core places where follows from the order of things and
//! not from how far apart they are, and of its own durations only those that bound a run matter, which
//! are set out of the way.
//!
//! A shard is what a job has of one node: its processors and its memory there. Traces know jobs that
//! ask for more than a node of theirs has; those are cut into as few parts alike as fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::Manifest;
use profiles::classes::Classes;
use profiles::matching::with_margin;
use protocol::host::Value;
use protocol::{AgentName, DurationMs, HostFacts, JobName, Label, WallMs};

use super::{Machines, Trace, TraceJob};
use crate::scenario::{Arrival, Host, Job, Lasts, Scenario};
use crate::simulate::Night;

/// What a second of the trace is in the simulation.
pub const SECOND: DurationMs = DurationMs(1);

/// Where the trace's zero lies.
const ZERO: WallMs = WallMs(1_800_000_000_000);

/// A trace that is ready to be simulated.
#[derive(Clone, Debug)]
pub struct Replay {
    pub scenario: Scenario,
    /// Submit time of the first job.
    first_s: i64,
    /// As the machine of the trace had them, sorted.
    waits_s: Vec<i64>,
}

/// What a job asks for, apart from how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    shards: u32,
    processors: u32,
    /// None asks for none.
    memory_mib: Option<u64>,
    cluster: Option<String>,
}

/// Why a trace cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the trace has no job that ran")]
    Empty,
    #[error("`{0}` cannot be the name of a host or of a label")]
    Name(String),
    #[error("a job of the trace makes no manifest: {0}")]
    Shape(String),
}

pub fn plan_replay(trace: &Trace, machines: &[Machines], seed: u64) -> Result<Replay, ReplayError> {
    let first_s = trace.jobs.iter().map(|job| job.submit_s).min();
    let last_s = trace.jobs.iter().map(|job| job.submit_s).max();
    let (first_s, last_s) = first_s.zip(last_s).ok_or(ReplayError::Empty)?;
    let shape_of = |job| Shape::of(job, machines);
    let shapes: BTreeSet<Shape> = trace.jobs.iter().map(shape_of).collect();
    let named: BTreeMap<&Shape, JobName> = (1..)
        .zip(&shapes)
        .map(|(number, shape)| (shape, shape_name(number)))
        .collect();
    let jobs = named.iter().map(|(shape, name)| {
        Ok(Job {
            manifest: Arc::new(manifest(shape, name)?),
            lasts: Lasts::Always(SECOND),
            volume: 1.0,
        })
    });
    let arrivals = trace.jobs.iter().map(|job| Arrival {
        at: ZERO + seconds(job.submit_s - first_s),
        job: named[&Shape::of(job, machines)].clone(),
        lasts: Some(Lasts::Always(seconds(job.run_s))),
    });
    let mut waits_s: Vec<i64> = trace.jobs.iter().filter_map(|job| job.wait_s).collect();
    waits_s.sort_unstable();
    Ok(Replay {
        scenario: Scenario {
            begins: ZERO,
            ends: ZERO + seconds(last_s - first_s),
            patience: DurationMs(7 * 86_400_000),
            hosts: hosts(machines)?,
            jobs: jobs.collect::<Result<_, _>>()?,
            arrivals: arrivals.collect(),
            resources: BTreeMap::new(),
            classes: Arc::new(Classes::built_in()),
            start_lag: DurationMs::ZERO,
            end_lag: DurationMs::ZERO,
            seed,
        },
        first_s,
        waits_s,
    })
}

impl Replay {
    /// Processors set aside by what could have been on all of them from the first process to the last; 0 to 1.
    pub fn utilisation(&self, night: &Night) -> f64 {
        let Some((from, until)) = night.worked() else {
            return 0.0;
        };
        let jobs = &self.scenario.jobs;
        let milli = |job: usize| jobs[job].manifest.needs.cpu_milli.unwrap_or(0);
        let spans = night.spans.iter();
        let busy = spans.map(|span| (span.until - span.from).0 as f64 * f64::from(milli(span.job)));
        let processors: u64 = self
            .scenario
            .hosts
            .iter()
            .map(|it| u64::from(it.slots))
            .sum();
        let room = processors as f64 * 1000.0 * (until - from).0 as f64;
        if room > 0.0 {
            busy.sum::<f64>() / room
        } else {
            0.0
        }
    }

    /// A moment of the simulation in seconds of the trace.
    pub fn second_of(&self, at: WallMs) -> i64 {
        self.first_s + (at - ZERO).0 / SECOND.0
    }

    /// How long jobs waited on the machine of the trace, sorted, in seconds.
    pub fn waits_then_s(&self) -> &[i64] {
        &self.waits_s
    }

    /// How long they waited here, sorted, in seconds of the trace.
    pub fn waits_here_s(&self, night: &Night) -> Vec<i64> {
        let waits = night
            .runs
            .iter()
            .filter_map(|run| Some(run.started? - run.admitted));
        let mut waits: Vec<i64> = waits.map(|wait| wait.0 / SECOND.0).collect();
        waits.sort_unstable();
        waits
    }
}

fn seconds(count: i64) -> DurationMs {
    DurationMs(count.saturating_mul(SECOND.0))
}

impl Shape {
    fn of(job: &TraceJob, machines: &[Machines]) -> Shape {
        let may = machines
            .iter()
            .filter(|it| job.cluster.as_ref().is_none_or(|name| *name == it.name));
        let largest = may.map(|it| (it.processors, it.memory_bytes >> 20));
        let (processors, memory_mib) = largest.max().unwrap_or((1, 0));
        let parts = job.processors_per_node.div_ceil(processors.max(1)).max(1);
        // What was asked for of memory was no bound there, and jobs ran that asked for more than there is.
        let asked_mib = job.memory_bytes_per_node.map(|bytes| bytes >> 20);
        let asked_mib = asked_mib.map(|mib| (mib / u64::from(parts)).min(memory_mib));
        Shape {
            shards: job.nodes * parts,
            processors: job.processors_per_node.div_ceil(parts),
            memory_mib: asked_mib.filter(|&mib| mib > 0),
            cluster: job.cluster.clone(),
        }
    }
}

fn shape_name(number: usize) -> JobName {
    let name = format!("trace/shape-{number}");
    name.parse().expect("a word and a number are a name")
}

/// A run of its own for each job of this shape; none of them is ever given up.
fn manifest(shape: &Shape, name: &JobName) -> Result<Manifest, ReplayError> {
    let Shape {
        shards, processors, ..
    } = shape;
    let memory = shape
        .memory_mib
        .map_or_else(String::new, |mib| format!(", memory: {mib}MiB"));
    let labels = shape.cluster.as_deref().unwrap_or_default();
    let text = format!(
        "name: {}\n\
         purpose: a job of a trace\n\
         owner: trace\n\
         repeatable: {{ safe: true, how: it is only simulated }}\n\
         schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: skip, after: 60s }}\n\
         overlap: allow\n\
         expected_duration: 1h\n\
         timeout: 24h\n\
         start_deadline: 24h\n\
         shards: {shards}\n\
         needs: {{ labels: [{labels}], cpu: {processors}{memory} }}\n\
         run: {{ exec: [\"/bin/true\"] }}\n",
        name.as_str(),
    );
    let parsed = jobs::parse_manifests(name.as_str(), &text);
    let one = parsed.map(|mut manifests| manifests.pop());
    match one {
        Ok(Some(manifest)) => Ok(manifest),
        Ok(None) => Err(ReplayError::Shape(format!("{shape:?}"))),
        Err(problems) => {
            let first = problems.first().map(ToString::to_string);
            Err(ReplayError::Shape(first.unwrap_or_default()))
        }
    }
}

fn hosts(machines: &[Machines]) -> Result<Vec<Host>, ReplayError> {
    let mut hosts = Vec::new();
    for cluster in machines {
        let bad = |_| ReplayError::Name(cluster.name.clone());
        let label: Label = cluster.name.parse().map_err(bad)?;
        for number in 1..=cluster.nodes {
            let name: AgentName = format!("{}-{number}", cluster.name)
                .parse()
                .map_err(|_| ReplayError::Name(cluster.name.clone()))?;
            hosts.push(Host {
                name,
                slots: cluster.processors,
                labels: vec![label.clone()],
                facts: facts(cluster),
                lost_at: None,
            });
        }
    }
    Ok(hosts)
}

/// A node whose processors and memory are all for jobs: what a host keeps for itself, and the margin
/// that each shard has, come on top.
fn facts(cluster: &Machines) -> HostFacts {
    const KEPT_BYTES_MIN: u64 = 256 << 20;
    const KEPT_BYTES_MAX: u64 = 4 << 30;
    let offered = with_margin(cluster.memory_bytes);
    // A sixteenth of the whole is a fifteenth of the rest.
    let usable = offered + offered.div_ceil(15).clamp(KEPT_BYTES_MIN, KEPT_BYTES_MAX);
    let number = |amount: u64| Value::Number(i64::try_from(amount).unwrap_or(i64::MAX));
    let mut facts = HostFacts::default();
    facts.know(
        "cpu.usable_milli",
        number(u64::from(cluster.processors) * 1000),
    );
    facts.know("memory.usable_bytes", number(usable));
    facts
}

#[cfg(test)]
mod tests {
    use profiles::matching::Offer;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn machines() -> Vec<Machines> {
        let machines = |name: &str, processors, gib| Machines {
            name: name.to_owned(),
            nodes: 2,
            processors,
            memory_bytes: gib * GIB,
        };
        vec![machines("small", 12, 1), machines("large", 80, 500)]
    }

    #[test]
    fn a_node_holds_what_the_trace_says_of_it() {
        for cluster in machines() {
            let offer = Offer::of(cluster.processors, &facts(&cluster));
            assert_eq!(offer.cpu_milli, Some(cluster.processors * 1000));
            let offered = offer.memory_bytes.unwrap();
            let wanted = with_margin(cluster.memory_bytes);
            assert!(
                (wanted..wanted + 2).contains(&offered),
                "{offered} {wanted}"
            );
        }
    }

    #[test]
    fn a_shard_is_what_a_job_has_of_a_node() {
        let check =
            |nodes, processors_per_node, gib: Option<u64>, cluster: Option<&str>, expected| {
                let job = TraceJob {
                    submit_s: 0,
                    wait_s: None,
                    run_s: 1,
                    nodes,
                    processors_per_node,
                    memory_bytes_per_node: gib.map(|gib| gib * GIB),
                    cluster: cluster.map(str::to_owned),
                };
                let shape = Shape::of(&job, &machines());
                assert_eq!((shape.shards, shape.processors, shape.memory_mib), expected);
            };
        check(1, 1, None, None, (1, 1, None));
        check(8, 12, Some(1), Some("small"), (8, 12, Some(1024)));
        check(1, 80, Some(400), None, (1, 80, Some(400 << 10)));
        // More than a node of it has.
        check(1, 30, Some(3), Some("small"), (3, 10, Some(1024)));
        check(1, 1, Some(9), Some("small"), (1, 1, Some(1024)));
        // No machine is known by that name.
        check(1, 2, None, Some("gone"), (2, 1, None));
    }
}
