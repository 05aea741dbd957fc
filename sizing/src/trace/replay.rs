//! A trace as a scenario.
//!
//! Traces last for months, and the core must hear from its hosts every few seconds. So a second of
//! the trace is a millisecond here: whom the core places where follows from the order of things and
//! not from how far apart they are, and of its own durations only those that bound a run matter, which
//! are set out of the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::Manifest;
use profiles::classes::Classes;
use protocol::{AgentName, DurationMs, JobName, Label, WallMs};

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
    nodes: u32,
    processors_per_node: u32,
    memory_mib_per_node: u64,
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
    let shapes: BTreeSet<Shape> = trace.jobs.iter().map(Shape::of).collect();
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
        job: named[&Shape::of(job)].clone(),
        lasts: Some(seconds(job.run_s)),
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
    fn of(job: &TraceJob) -> Shape {
        Shape {
            nodes: job.nodes,
            processors_per_node: job.processors_per_node,
            memory_mib_per_node: job.memory_bytes_per_node.unwrap_or(0) >> 20,
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
    let shards = shape.nodes * shape.processors_per_node;
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
         needs: {{ labels: [{labels}] }}\n\
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
                lost_at: None,
            });
        }
    }
    Ok(hosts)
}
