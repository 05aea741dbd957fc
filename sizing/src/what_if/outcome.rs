//! A night in a few figures, so that two of them can be laid side by side.

use std::collections::BTreeMap;

use ledger::RunState;
use profiles::matching::{Ask, Dimension, Offer, left_in};
use protocol::{DurationMs, JobName};
use serde::Serialize;

use crate::scenario::{Scenario, quantile};
use crate::simulate::{Night, RunNight, Span};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub runs: usize,
    pub succeeded: usize,
    /// Runs that began later than their job's `misfire.after` allows.
    pub late: usize,
    /// Runs that had not ended when their job's next fire was due.
    pub overran: usize,
    /// Runs that were given up: skipped, missed, or with a person.
    pub given_up: usize,
    /// From the first process to the last.
    pub worked_ms: i64,
    /// Longest time from a fire to its first process.
    pub wait_ms_max: i64,
    /// What was nearest to being used up at its peak, and how much of it was in use; 0 to 1.
    pub binds: Option<(String, f64)>,
    pub lost_attempts: u32,
    pub timed_out: u32,
    pub jobs: Vec<JobOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobOutcome {
    pub job: JobName,
    pub runs: usize,
    pub succeeded: usize,
    /// From the fire to the end: in the middle and at most, of those that succeeded.
    pub makespan_ms_p50: Option<i64>,
    pub makespan_ms_max: Option<i64>,
}

pub fn outcome(scenario: &Scenario, night: &Night) -> Outcome {
    let given_up = |run: &&RunNight| {
        use RunState::{Cancelled, Failed, Missed, NeedsConfirmation, Skipped};
        matches!(
            run.state,
            Cancelled | Failed | Missed | NeedsConfirmation | Skipped
        )
    };
    let late = |run: &&RunNight| {
        let after = scenario.jobs[run.job].manifest.misfire.after;
        run.wait().is_some_and(|wait| wait > after)
    };
    let (from, until) = night.worked().unwrap_or_default();
    let waits = night.runs.iter().filter_map(RunNight::wait);
    Outcome {
        runs: night.runs.len(),
        succeeded: night.count(RunState::Succeeded),
        late: night.runs.iter().filter(late).count(),
        overran: overran(night),
        given_up: night.runs.iter().filter(given_up).count(),
        worked_ms: (until - from).0,
        wait_ms_max: waits.max().unwrap_or(DurationMs::ZERO).0,
        binds: binds(scenario, night),
        lost_attempts: night.lost,
        timed_out: night.timed_out,
        jobs: jobs(scenario, night),
    }
}

fn overran(night: &Night) -> usize {
    let mut by_job: BTreeMap<usize, Vec<&RunNight>> = BTreeMap::new();
    for run in &night.runs {
        by_job.entry(run.job).or_default().push(run);
    }
    let is_over = |pair: &&[&RunNight]| pair[0].ended.is_none_or(|ended| ended > pair[1].fire_time);
    let each = by_job
        .values()
        .map(|runs| runs.windows(2).filter(is_over).count());
    each.sum()
}

fn jobs(scenario: &Scenario, night: &Night) -> Vec<JobOutcome> {
    let each = scenario.jobs.iter().enumerate().map(|(at, job)| {
        let runs = night.runs.iter().filter(|run| run.job == at);
        let succeeded = runs.clone().filter(|run| run.state == RunState::Succeeded);
        let mut lasted: Vec<DurationMs> = succeeded.filter_map(RunNight::makespan).collect();
        lasted.sort_unstable();
        JobOutcome {
            job: job.manifest.name.clone(),
            runs: runs.count(),
            succeeded: lasted.len(),
            makespan_ms_p50: (!lasted.is_empty()).then(|| quantile(&lasted, 0.5).0),
            makespan_ms_max: lasted.last().map(|last| last.0),
        }
    });
    each.filter(|job| job.runs > 0).collect()
}

/// Slots of all hosts, what else of them is set aside for shards, and each resource that shards share.
fn binds(scenario: &Scenario, night: &Night) -> Option<(String, f64)> {
    let slots: u64 = scenario
        .hosts
        .iter()
        .map(|host| u64::from(host.slots))
        .sum();
    let mut used = vec![("slots".to_owned(), peak(night, |_| 1), slots)];
    for dimension in [Dimension::Cpu, Dimension::Memory, Dimension::Io] {
        let offers = scenario.hosts.iter();
        let offers = offers.map(|host| Offer::of(host.slots, &host.facts).amounts());
        let of = |span: &Span| {
            let needs = &scenario.jobs[span.job].manifest.needs;
            left_in(&Ask::of(needs).takes, dimension)
        };
        let offered = offers.map(|offer| left_in(&offer, dimension)).sum();
        used.push((dimension.as_str().to_owned(), peak(night, of), offered));
    }
    for (resource, &capacity) in &scenario.resources {
        let of = |span: &Span| {
            let uses = &scenario.jobs[span.job].manifest.needs.uses;
            u64::from(uses.get(resource).copied().unwrap_or(0))
        };
        used.push((
            resource.as_str().to_owned(),
            peak(night, of),
            u64::from(capacity),
        ));
    }
    let shares = used
        .into_iter()
        .filter(|(_, peak, capacity)| *capacity > 0 && *peak > 0);
    let shares = shares.map(|(name, peak, capacity)| (name, peak as f64 / capacity as f64));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Most at once of what attempts take.
fn peak(night: &Night, of: impl Fn(&Span) -> u64) -> u64 {
    let spans = night.spans.iter().filter(|span| span.from < span.until);
    let mut steps: Vec<_> = spans
        .flat_map(|span| [(span.from, true, of(span)), (span.until, false, of(span))])
        .collect();
    // At one moment, what ends goes before what begins.
    steps.sort_unstable();
    let (mut now, mut most) = (0u64, 0);
    for (_, begins, amount) in steps {
        now = if begins { now + amount } else { now - amount };
        most = most.max(now);
    }
    most
}
