//! How well the simulation tells what has been.
//!
//! A run of the past is simulated with every run beside it that was under way while it was, each from
//! the moment it began, for as long as its shards took. Twice: with the lengths that the runs before
//! it teach, which is the prediction; and with those that its own shards turned out to have, which is
//! the replay. What a replay is off is the simulation's: line, places, what starting and ending cost.
//! What a prediction is off beyond that is the run's: its shards took other times than those before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::{Manifest, Overlap, Shards};
use protocol::api::{IdText, Rfc3339};
use protocol::run::RunState;
use protocol::{AgentName, DurationMs, JobName, RunId, WallMs};
use serde::Serialize;

use crate::history::{History, SeenHost, SeenJob, SeenRun};
use crate::plan::{end_lag, past_runs, start_lag};
use crate::scenario::{Arrival, Host, Job, Lasts, PastRuns, Scenario, quantile};
use crate::simulate::{SimulateError, simulate};

/// Runs that are learned from at the least.
const LEARNED_MIN: usize = 3;

/// Newest runs of a job that are told, and of all jobs together: each is four simulations.
const TOLD_PER_JOB: usize = 10;
const TOLD_MAX: usize = 100;

/// Of the runs before it, by their work, what the bounds of a prediction leave out at either end.
const TAIL: f64 = 0.1;

/// A run of the past: what those before it said that it would come to, and what it did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub job: JobName,
    #[serde(with = "IdText::<RunId>")]
    pub run: RunId,
    #[serde(with = "Rfc3339")]
    pub fire_time: WallMs,
    /// Other runs that were under way while it was.
    pub beside: usize,
    /// If its shards take as long as in the middle one of the runs before it.
    pub predicted_ms: i64,
    /// If they do as in one with little work, and in one with much; four fifths lie between.
    pub predicted_ms_least: i64,
    pub predicted_ms_most: i64,
    /// With what its shards did take.
    pub replayed_ms: i64,
    pub measured_ms: i64,
    /// Processor time that it used against the median of the runs before it; unset where none was counted.
    pub cpu: Option<f64>,
}

/// All of them together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Accuracy {
    pub runs: usize,
    /// How far predictions are off, up or down, as a part of what was measured: in the middle.
    pub predicted_median: Option<f64>,
    pub replayed_median: Option<f64>,
    /// Runs that took no less and no more than the bounds of their predictions.
    pub within: usize,
    /// The prediction that is furthest off, by its place among them.
    pub worst: Option<usize>,
}

impl Prediction {
    /// How far it is off as a part of what was measured; above 0 where it says too much.
    pub fn error(&self) -> f64 {
        apart(self.predicted_ms, self.measured_ms)
    }

    pub fn replay_error(&self) -> f64 {
        apart(self.replayed_ms, self.measured_ms)
    }
}

fn apart(told: i64, measured: i64) -> f64 {
    told as f64 / measured.max(1) as f64 - 1.0
}

impl Accuracy {
    pub fn of(predictions: &[Prediction]) -> Accuracy {
        let middle = |error: fn(&Prediction) -> f64| {
            let mut errors: Vec<f64> = predictions.iter().map(|it| error(it).abs()).collect();
            errors.sort_by(f64::total_cmp);
            let (low, high) = (errors.len().checked_sub(1)? / 2, errors.len() / 2);
            Some(f64::midpoint(errors[low], errors[high]))
        };
        let is_within = |it: &&Prediction| {
            (it.predicted_ms_least..=it.predicted_ms_most).contains(&it.measured_ms)
        };
        let off = |&at: &usize| predictions[at].error().abs();
        Accuracy {
            runs: predictions.len(),
            predicted_median: middle(Prediction::error),
            replayed_median: middle(Prediction::replay_error),
            within: predictions.iter().filter(is_within).count(),
            worst: (0..predictions.len()).max_by(|a, b| off(a).total_cmp(&off(b))),
        }
    }
}

/// A run that can be told: all of it is known, and enough was before it.
struct Target<'a> {
    job: &'a SeenJob,
    run: &'a SeenRun,
    past: PastRuns,
    cpu: Option<f64>,
    from: WallMs,
    until: WallMs,
}

/// The newest first, one of each job before the second of any.
fn targets(history: &History) -> Vec<Target<'_>> {
    let mut found: Vec<(usize, Target<'_>)> = Vec::new();
    for job in &history.jobs {
        let newest = job.runs.iter().enumerate().rev();
        let can_be_told = newest.filter_map(|(at, run)| target(job, run, &job.runs[..at]));
        found.extend(can_be_told.take(TOLD_PER_JOB).enumerate());
    }
    found.sort_by_key(|(age, _)| *age);
    let told = found.into_iter().take(TOLD_MAX);
    told.map(|(_, target)| target).collect()
}

fn target<'a>(job: &'a SeenJob, run: &'a SeenRun, before: &'a [SeenRun]) -> Option<Target<'a>> {
    let until = run.ended.filter(|_| run.succeeded)?;
    // What a program that fails costs is nothing that those before it teach.
    if run.shards != job.shards || run.attempts.len() != run.shards as usize {
        return None;
    }
    let learned = before.iter().filter(|run| run.succeeded);
    if learned.count() < LEARNED_MIN {
        return None;
    }
    // What a run waits for but a place is not simulated.
    let manifest = &job.manifest;
    let is_open = |other: &SeenRun| other.ended.is_none_or(|end| end > run.admitted);
    let waited = manifest.overlap != Overlap::Allow && before.iter().any(is_open);
    let waits = manifest.previous.is_some() || !manifest.after.is_empty() || waited;
    let from = if waits { run.begun()? } else { run.admitted };
    let past = past_runs(before, job.shards)?;
    let target = Target {
        job,
        run,
        past,
        cpu: cpu_against(run, before),
        from,
        until,
    };
    (target.until > target.from).then_some(target)
}

fn cpu_against(run: &SeenRun, before: &[SeenRun]) -> Option<f64> {
    let of = |run: &SeenRun| run.done().map(|attempt| attempt.cpu.0).sum::<i64>();
    let mut usual: Vec<DurationMs> = before
        .iter()
        .filter(|other| other.succeeded && other.shards == run.shards)
        .map(|other| DurationMs(of(other)))
        .collect();
    usual.sort_unstable();
    let usual = quantile(&usual, 0.5).0;
    (usual > 0).then(|| of(run) as f64 / usual as f64)
}

/// From when to when the runs were under way that can be told: whatever else was then is to be seen too.
pub fn spans_to_see(history: &History) -> Vec<(WallMs, WallMs)> {
    let mut spans: Vec<(WallMs, WallMs)> = targets(history)
        .iter()
        .map(|target| (target.from, target.until))
        .collect();
    spans.sort_unstable();
    let mut merged: Vec<(WallMs, WallMs)> = Vec::new();
    for (from, until) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => merged.push((from, until)),
        }
    }
    merged
}

/// The newest runs of each job, each simulated by what was seen before it.
pub fn check_predictions(history: &History, seed: u64) -> Result<Vec<Prediction>, SimulateError> {
    let mut seen: BTreeMap<RunId, (&JobName, &SeenRun)> = BTreeMap::new();
    for (job, run) in &history.beside {
        seen.insert(run.run, (job, run));
    }
    for job in &history.jobs {
        seen.extend(
            job.runs
                .iter()
                .map(|run| (run.run, (&job.manifest.name, run))),
        );
    }
    let lags = (start_lag(history), end_lag(history));
    let mut predictions = Vec::new();
    for target in targets(history) {
        let is_beside = |other: &SeenRun| {
            let span = other.begun().zip(other.done_at());
            other.run != target.run.run
                && span.is_some_and(|(from, until)| from < target.until && until > target.from)
        };
        let beside = seen.values().filter(|(_, other)| is_beside(other));
        let beside: Vec<(&JobName, &SeenRun)> = beside.copied().collect();
        let scenario = as_it_was(history, &target, &beside, lags, seed);
        let tell = |each: &[DurationMs]| tell(&scenario, each);
        let told = (
            tell(target.past.at(0.5))?,
            tell(target.past.at(TAIL))?,
            tell(target.past.at(1.0 - TAIL))?,
            tell(&target.run.taken())?,
        );
        if let (Some(middle), Some(low), Some(high), Some(replayed)) = told {
            predictions.push(Prediction {
                job: target.job.manifest.name.clone(),
                run: target.run.run,
                fire_time: target.run.fire_time,
                beside: scenario.arrivals.len() - 1,
                predicted_ms: middle.0,
                predicted_ms_least: low.min(middle).0,
                predicted_ms_most: high.max(middle).0,
                replayed_ms: replayed.0,
                measured_ms: (target.until - target.from).0,
                cpu: target.cpu,
            });
        }
    }
    Ok(predictions)
}

/// What the first arrival comes to if its shards last so long; unset where it comes to no good end.
fn tell(scenario: &Scenario, each: &[DurationMs]) -> Result<Option<DurationMs>, SimulateError> {
    let mut scenario = scenario.clone();
    scenario.arrivals[0].lasts = Some(Lasts::Each(each.to_vec()));
    let night = simulate(&scenario)?;
    let run = night.runs.iter().find(|run| run.arrival == Some(0));
    let run = run.filter(|run| run.state == RunState::Succeeded);
    Ok(run.and_then(|run| Some(run.ended? - run.admitted)))
}

/// The time of a run again: its hosts, its jobs, and each run from when it began. Nothing fires by
/// itself.
fn as_it_was(
    history: &History,
    target: &Target<'_>,
    beside: &[(&JobName, &SeenRun)],
    (start_lag, end_lag): (DurationMs, DurationMs),
    seed: u64,
) -> Scenario {
    let mut jobs: BTreeMap<&JobName, &SeenJob> = BTreeMap::new();
    jobs.insert(&target.job.manifest.name, target.job);
    let arrival = |at, job: &JobName, lasts| Arrival {
        at,
        job: job.clone(),
        lasts,
    };
    let mut arrivals = vec![arrival(target.from, &target.job.manifest.name, None)];
    let mut hosts: BTreeSet<&AgentName> = BTreeSet::new();
    hosts.extend(target.run.attempts.iter().map(|attempt| &attempt.host));
    for &(name, run) in beside {
        // A job that is not there any more has no manifest to go by.
        let found = history.jobs.iter().find(|job| job.manifest.name == *name);
        let (Some(job), Some(begun)) = (found, run.begun()) else {
            continue;
        };
        jobs.insert(name, job);
        hosts.extend(run.attempts.iter().map(|attempt| &attempt.host));
        let mut taken = run.taken();
        if run.shards != job.shards {
            // Cut otherwise then: the same work in as many pieces as there are now.
            let work = taken.iter().fold(0, |sum, taken| sum + taken.0);
            taken = vec![DurationMs(work / i64::from(job.shards.max(1)))];
        }
        arrivals.push(arrival(begun, name, Some(Lasts::Each(taken))));
    }
    let begins = arrivals.iter().map(|arrival| arrival.at).min();
    let begins = begins.unwrap_or(target.from);
    let last = arrivals.iter().map(|arrival| arrival.at).max();
    let was_there = |host: &&SeenHost| host.in_service || hosts.contains(&host.name);
    Scenario {
        begins,
        ends: begins,
        patience: last.unwrap_or(target.until) - begins + DurationMs(2 * 86_400_000),
        hosts: history
            .hosts
            .iter()
            .filter(was_there)
            .map(SeenHost::simulated)
            .collect::<Vec<Host>>(),
        jobs: jobs.into_values().map(by_hand).collect(),
        arrivals,
        resources: history.resources.clone(),
        classes: Arc::clone(&history.classes),
        start_lag,
        end_lag,
        seed,
    }
}

/// The job as one that is run when somebody asks and waits for no other run.
fn by_hand(job: &SeenJob) -> Job {
    let mut manifest = Manifest::clone(&job.manifest);
    manifest.renamed_from = None;
    manifest.overlap = Overlap::Allow;
    manifest.previous = None;
    manifest.after = Vec::new();
    manifest.start_deadline = None;
    manifest.shards = Shards::Fixed(job.shards);
    Job {
        lasts: Lasts::Always(manifest.expected_duration),
        manifest: Arc::new(manifest),
        volume: 1.0,
    }
}

#[cfg(test)]
mod tests;
