//! The next night, of what was seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::Manifest;
use protocol::{DurationMs, JobName, WallMs};
use serde::Serialize;

use crate::history::{History, SeenAttempt, SeenJob, SeenRun};
use crate::scenario::{Arrival, Host, Job, Lasts, Scenario, quantile};
use crate::simulate::{SimulateError, simulate};

/// Newest runs whose lengths are drawn from.
const RUNS_DRAWN: usize = 30;

/// A night to come, and what of it is taken for granted.
#[derive(Clone, Debug)]
pub struct PlannedNight {
    pub scenario: Scenario,
    /// Jobs of which nothing was seen: their shards are taken to last what the manifests expect of a run.
    pub unknown: Vec<JobName>,
    /// Jobs that ask for a class, processors or memory, which hosts of a scenario say nothing of: they
    /// are placed by slots and labels alone.
    pub by_slots_alone: Vec<JobName>,
}

/// A scenario that goes on where the history ends: the hosts in service, the jobs in force, and each
/// attempt as long as one of those that were seen.
pub fn plan_night(history: &History, lasts: DurationMs, seed: u64) -> PlannedNight {
    let (mut unknown, mut by_slots_alone) = (Vec::new(), Vec::new());
    let jobs = history.jobs.iter().map(|job| {
        let seen = seen_lengths(job);
        if seen.is_none() {
            unknown.push(job.manifest.name.clone());
        }
        // What a run lasts is no more than its shards one after the other.
        let expected = Lasts::Always(job.manifest.expected_duration);
        let plain = by_slots(&job.manifest);
        if plain.is_some() {
            by_slots_alone.push(job.manifest.name.clone());
        }
        Job {
            manifest: plain.unwrap_or_else(|| Arc::clone(&job.manifest)),
            lasts: seen.unwrap_or(expected),
            volume: 1.0,
        }
    });
    let hosts = history.hosts.iter().filter(|host| host.in_service);
    let hosts = hosts.map(|host| Host {
        name: host.name.clone(),
        slots: host.slots,
        labels: host.labels.clone(),
        lost_at: None,
    });
    let scenario = Scenario {
        begins: history.to,
        ends: history.to + lasts,
        patience: DurationMs(2 * 86_400_000),
        hosts: hosts.collect(),
        jobs: jobs.collect(),
        arrivals: Vec::new(),
        resources: history.resources.clone(),
        classes: history.classes.clone(),
        start_lag: start_lag(history),
        end_lag: end_lag(history),
        seed,
    };
    PlannedNight {
        scenario,
        unknown,
        by_slots_alone,
    }
}

/// A manifest without what hosts of a scenario cannot answer, if it asks for any of it.
fn by_slots(manifest: &Manifest) -> Option<Arc<Manifest>> {
    const FIELDS: [&str; 3] = ["class", "cpu", "memory"];
    let mut json: serde_json::Value = serde_json::from_str(&manifest.to_json()).ok()?;
    let needs = json.get_mut("needs")?.as_object_mut()?;
    let before = needs.len();
    needs.retain(|name, value| value.is_null() || !FIELDS.contains(&name.as_str()));
    let is_less = needs.len() < before;
    let plain = is_less.then(|| Manifest::from_json(&json.to_string()).ok());
    plain.flatten().map(Arc::new)
}

/// What passed between grant and start, in the middle.
fn start_lag(history: &History) -> DurationMs {
    let runs = history.jobs.iter().flat_map(|job| &job.runs);
    let attempts = runs.flat_map(SeenRun::done);
    let mut lags: Vec<DurationMs> = attempts
        .map(|attempt| (attempt.started - attempt.granted).max(DurationMs::ZERO))
        .collect();
    lags.sort_unstable();
    quantile(&lags, 0.5)
}

/// What passed between the end of a run's last attempt and its own, in the middle.
fn end_lag(history: &History) -> DurationMs {
    let runs = history.jobs.iter().flat_map(|job| &job.runs);
    let mut lags: Vec<DurationMs> = runs
        .filter(|run| run.succeeded)
        .filter_map(|run| {
            let last = run.done().map(|attempt| attempt.ended).max()?;
            Some((run.ended? - last).max(DurationMs::ZERO))
        })
        .collect();
    lags.sort_unstable();
    quantile(&lags, 0.5)
}

/// By shard where every one was seen under the present number of shards, else of all.
fn seen_lengths(job: &SeenJob) -> Option<Lasts> {
    let newest = job.runs.iter().rev().filter(|run| run.succeeded);
    let newest: Vec<_> = newest.take(RUNS_DRAWN).collect();
    let mut by_shard: BTreeMap<u32, Vec<DurationMs>> = BTreeMap::new();
    for run in newest.iter().filter(|run| run.shards == job.shards) {
        for attempt in run.done() {
            by_shard
                .entry(attempt.shard)
                .or_default()
                .push(attempt.lasted());
        }
    }
    if by_shard.len() == job.shards as usize {
        return Some(Lasts::by_shard(by_shard.into_values().collect()));
    }
    let all = newest.iter().flat_map(|run| run.done());
    Lasts::drawn(all.map(SeenAttempt::lasted).collect())
}

/// The first moment from `begins` on at which UTC clocks show this.
pub(crate) fn next_at(begins: WallMs, hour: i64, minute: i64) -> WallMs {
    const DAY: i64 = 86_400_000;
    let wanted = (hour * 60 + minute) * 60_000;
    let into = begins.0.rem_euclid(DAY);
    begins + DurationMs((wanted - into).rem_euclid(DAY))
}

/// What the newest run of a job came to, and what the runs before it had said that it would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Prediction {
    pub job: JobName,
    pub predicted_ms: i64,
    pub measured_ms: i64,
}

/// Runs that are learned from at the least.
const LEARNED_MIN: usize = 3;

/// How far the simulation can be trusted here: the newest run of each job, simulated by what was seen
/// before it on the hosts in service with nothing beside it.
pub fn check_predictions(history: &History, seed: u64) -> Result<Vec<Prediction>, SimulateError> {
    let mut predictions = Vec::new();
    for job in &history.jobs {
        let mut before = job.clone();
        let newest = before.runs.pop();
        let measured = newest.as_ref().and_then(SeenRun::lasted);
        let learned = before.runs.iter().filter(|run| run.succeeded).count();
        let (Some(newest), Some(measured)) = (newest, measured) else {
            continue;
        };
        if learned < LEARNED_MIN || newest.shards != job.shards {
            continue;
        }
        let alone = History {
            jobs: vec![before],
            to: newest.admitted,
            ..history.clone()
        };
        let name = job.manifest.name.clone();
        let mut scenario = plan_night(&alone, DurationMs(1), seed).scenario;
        scenario.arrivals.push(Arrival {
            at: scenario.begins,
            job: name.clone(),
            lasts: None,
        });
        let night = simulate(&scenario)?;
        if let Some(ended) = night
            .runs
            .first()
            .and_then(|run| Some(run.ended? - run.admitted))
        {
            predictions.push(Prediction {
                job: name,
                predicted_ms: ended.0,
                measured_ms: measured.0,
            });
        }
    }
    Ok(predictions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_host_can_answer_is_left_out() {
        let check = |needs: &str, expected: Option<&str>| {
            let text = format!(
                "name: t/job\npurpose: a test\nowner: ada\nrepeatable: {{ safe: true, how: nothing }}\n\
                 schedule: {{ cron: \"0 2 * * *\", timezone: Etc/UTC }}\n\
                 misfire: {{ policy: run_now, after: 60s }}\noverlap: queue\nexpected_duration: 1m\n\
                 timeout: 1h\n{needs}run: {{ exec: [\"/bin/true\"] }}\n"
            );
            let manifest = jobs::parse_manifests("test.yaml", &text).unwrap().remove(0);
            let plain = by_slots(&manifest).map(|plain| plain.needs.clone());
            let labels = plain.map(|needs| {
                assert_eq!(
                    (&needs.class, needs.cpu_milli, needs.memory_bytes),
                    (&None, None, None)
                );
                needs
                    .labels
                    .iter()
                    .map(ToString::to_string)
                    .collect::<String>()
            });
            assert_eq!(labels.as_deref(), expected, "{needs}");
        };
        check("", None);
        check("needs: { labels: [ssd] }\n", None);
        check("needs: { class: io, labels: [ssd] }\n", Some("ssd"));
        check("needs: { cpu: 2, memory: 1GiB }\n", Some(""));
    }
}
