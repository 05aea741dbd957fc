//! The next night, of what was seen.

use std::sync::Arc;

use profiles::matching::{Amounts, Ask, Offer, Strain, judge};
use protocol::{ClassName, DurationMs, JobName, WallMs};

use crate::history::{History, SeenAttempt, SeenHost, SeenJob, SeenRun};
use crate::scenario::{Job, Lasts, PastRuns, Scenario, quantile};

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
    let hosts = hosts.map(SeenHost::simulated);
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
pub(crate) fn start_lag(history: &History) -> DurationMs {
    let runs = history.jobs.iter().flat_map(|job| &job.runs);
    let attempts = runs.flat_map(SeenRun::done);
    let mut lags: Vec<DurationMs> = attempts
        .map(|attempt| (attempt.started - attempt.granted).max(DurationMs::ZERO))
        .collect();
    lags.sort_unstable();
    quantile(&lags, 0.5)
}

/// What passed between the end of a run's last attempt and its own, in the middle.
pub(crate) fn end_lag(history: &History) -> DurationMs {
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

/// As in the newest runs of as many shards as there are now; where there is none, as any attempt did.
fn seen_lengths(job: &SeenJob) -> Option<Lasts> {
    if let Some(past) = past_runs(&job.runs, job.shards) {
        return Some(Lasts::ByRun(past));
    }
    let newest = job.runs.iter().rev().filter(|run| run.succeeded);
    let all = newest.take(RUNS_DRAWN).flat_map(SeenRun::done);
    Lasts::drawn(all.map(SeenAttempt::lasted).collect())
}

/// What every shard lasted in the newest of these runs that succeeded.
pub(crate) fn past_runs(runs: &[SeenRun], shards: u32) -> Option<PastRuns> {
    let alike = runs.iter().rev();
    let alike = alike.filter(|run| run.succeeded && run.shards == shards);
    let each = alike.take(RUNS_DRAWN).filter_map(|run| {
        let mut each = vec![None; shards as usize];
        for attempt in run.done() {
            *each.get_mut(attempt.shard as usize)? = Some(attempt.lasted());
        }
        each.into_iter().collect::<Option<Vec<DurationMs>>>()
    });
    PastRuns::new(each.collect())
}

/// The first moment from `begins` on at which UTC clocks show this.
pub(crate) fn next_at(begins: WallMs, hour: i64, minute: i64) -> WallMs {
    const DAY: i64 = 86_400_000;
    let wanted = (hour * 60 + minute) * 60_000;
    let into = begins.0.rem_euclid(DAY);
    begins + DurationMs((wanted - into).rem_euclid(DAY))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ledger::RunState;
    use profiles::classes::Classes;
    use protocol::HostFacts;
    use protocol::host::Value;

    use super::*;
    use crate::simulate::simulate;

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
                    has_older: false,
                }],
                beside: Vec::new(),
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
