//! The next night, of what was seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use profiles::matching::{Amounts, Ask, Offer, Strain, judge};
use protocol::{ClassName, DurationMs, JobName, WallMs};
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
    /// Jobs that no host of it could take, were nothing else on it: their runs wait until it is over.
    pub nowhere: Vec<JobName>,
}

/// A scenario that goes on where the history ends: the hosts in service, the jobs in force, and each
/// attempt as long as one of those that were seen.
pub fn plan_night(history: &History, lasts: DurationMs, seed: u64) -> PlannedNight {
    let mut unknown = Vec::new();
    let jobs = history.jobs.iter().map(|job| {
        let seen = seen_lengths(job);
        if seen.is_none() {
            unknown.push(job.manifest.name.clone());
        }
        // What a run lasts is no more than its shards one after the other.
        let expected = Lasts::Always(job.manifest.expected_duration);
        Job {
            manifest: Arc::clone(&job.manifest),
            lasts: seen.unwrap_or(expected),
            volume: 1.0,
        }
    });
    let hosts = history.hosts.iter().filter(|host| host.in_service);
    let hosts = hosts.map(|host| Host {
        name: host.name.clone(),
        slots: host.slots,
        labels: host.labels.clone(),
        facts: host.facts.clone(),
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
        nowhere: nowhere(&scenario),
        scenario,
        unknown,
    }
}

/// Jobs that every host of a scenario lacks something for.
fn nowhere(scenario: &Scenario) -> Vec<JobName> {
    let offers = scenario.hosts.iter().map(|host| {
        let membership = scenario.classes.of(&host.facts);
        let classes: Vec<ClassName> = membership.classes().cloned().collect();
        let mut labels = host.labels.clone();
        labels.sort_unstable();
        (Offer::of(host.slots, &host.facts), classes, labels)
    });
    let offers: Vec<_> = offers.collect();
    let has_host = |job: &&Job| {
        let ask = Ask::of(&job.manifest.needs);
        offers.iter().any(|(offer, classes, labels)| {
            let idle = (offer, &Strain::default());
            judge(&ask, classes, labels, idle, &Amounts::default()).is_none()
        })
    };
    let jobs = scenario.jobs.iter().filter(|job| !has_host(job));
    jobs.map(|job| job.manifest.name.clone()).collect()
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
    use ledger::RunState;
    use profiles::classes::Classes;
    use protocol::HostFacts;
    use protocol::host::Value;

    use super::*;
    use crate::history::SeenHost;

    #[test]
    fn a_job_that_no_host_could_take_is_named() {
        let check = |needs: &str, expected: bool| {
            let text = format!(
                "name: t/job\npurpose: a test\nowner: ada\nrepeatable: {{ safe: true, how: nothing }}\n\
                 schedule: {{ cron: \"0 2 * * *\", timezone: Etc/UTC }}\n\
                 misfire: {{ policy: run_now, after: 60s }}\noverlap: queue\nexpected_duration: 1m\n\
                 timeout: 1h\n{needs}run: {{ exec: [\"/bin/true\"] }}\n"
            );
            let manifest = jobs::parse_manifests("test.yaml", &text).unwrap().remove(0);
            let mut facts = HostFacts::default();
            facts.know("cpu.usable_milli", Value::Number(4_000));
            facts.know("memory.usable_bytes", Value::Number(8 << 30));
            let host = |name: &str, label: &str, facts: HostFacts| SeenHost {
                name: name.parse().unwrap(),
                slots: 2,
                labels: vec![label.parse().unwrap()],
                facts,
                in_service: true,
            };
            let history = History {
                from: WallMs(1_796_068_800_000),
                to: WallMs(1_796_068_800_000),
                hosts: vec![
                    host("known", "ssd", facts),
                    host("unknown", "lab", HostFacts::default()),
                ],
                jobs: vec![SeenJob {
                    manifest: Arc::new(manifest),
                    shards: 1,
                    runs: Vec::new(),
                }],
                resources: BTreeMap::new(),
                classes: Arc::new(Classes::built_in()),
            };
            let planned = plan_night(&history, DurationMs(86_400_000), 1);
            assert_eq!(!planned.nowhere.is_empty(), expected, "{needs}");
            // The coordinator's own word is the same.
            let night = simulate(&planned.scenario).unwrap();
            assert_eq!(night.count(RunState::Succeeded) == 0, expected, "{needs}");
        };
        check("", false);
        check("needs: { labels: [lab] }\n", false);
        check("needs: { labels: [hdd] }\n", true);
        check("needs: { cpu: 4, memory: 4GiB }\n", false);
        check("needs: { cpu: 5 }\n", true);
        check("needs: { memory: 8GiB }\n", true);
        check("needs: { cpu: 1, labels: [lab] }\n", true);
        check("needs: { class: io }\n", true);
    }
}
