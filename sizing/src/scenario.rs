//! What a night is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::Manifest;
use profiles::classes::Classes;
use protocol::{AgentName, DurationMs, HostFacts, JobName, Label, ResourceName, WallMs};

use crate::draw::Draw;

/// Hosts, jobs and what happens to them between two instants.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub begins: WallMs,
    /// Nothing fires by schedule from here on; what is open by then is followed to its end.
    pub ends: WallMs,
    /// What is open so long after `ends` is left open.
    pub patience: DurationMs,
    pub hosts: Vec<Host>,
    pub jobs: Vec<Job>,
    /// Runs that somebody asks for, beside those of the schedules.
    pub arrivals: Vec<Arrival>,
    pub resources: BTreeMap<ResourceName, u32>,
    /// Classes of hosts that the coordinator goes by.
    pub classes: Arc<Classes>,
    /// What passes between a grant and the start of its process.
    pub start_lag: DurationMs,
    /// What passes between its end and the coordinator's word that it has ended.
    pub end_lag: DurationMs,
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub struct Host {
    pub name: AgentName,
    pub slots: u32,
    pub labels: Vec<Label>,
    /// What it registers with; a host of which nothing is known does not register.
    pub facts: HostFacts,
    /// From then on nobody hears of it any more, and what it runs is gone.
    pub lost_at: Option<WallMs>,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub manifest: Arc<Manifest>,
    pub lasts: Lasts,
    /// How much more there is to do than when `lasts` was learned. An attempt is taken to last longer
    /// in the same proportion.
    pub volume: f64,
}

/// How long one attempt of one shard lasts.
#[derive(Clone, Debug, PartialEq)]
pub enum Lasts {
    Always(DurationMs),
    /// Any of these, one as likely as the other, and what lies between two of them. Never empty.
    Drawn(Vec<DurationMs>),
    /// Of shard 0, 1, 2 ...; those beyond are as the last. Never empty.
    Each(Vec<DurationMs>),
    /// As in one of these runs: all attempts of a run as in the same one, for what makes one shard long
    /// makes the others long.
    ByRun(PastRuns),
}

/// Runs that shards last as long as in.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRuns {
    /// With the weight of itself and all before it, the least work first. Never empty.
    runs: Vec<(f64, Vec<DurationMs>)>,
}

/// After so many runs a run counts half as much, as in what a job is known to need.
const HALF_LIFE_RUNS: f64 = 10.0;

impl PastRuns {
    /// What each shard lasted in each run, the newest run first. `None` where there is none.
    pub fn new(newest_first: Vec<Vec<DurationMs>>) -> Option<PastRuns> {
        let each = newest_first.into_iter().filter(|each| !each.is_empty());
        let weighted = each
            .enumerate()
            .map(|(age, each)| ((-(age as f64) / HALF_LIFE_RUNS).exp2(), each));
        let mut runs: Vec<(f64, Vec<DurationMs>)> = weighted.collect();
        let work = |each: &[DurationMs]| each.iter().map(|lasts| lasts.0).sum::<i64>();
        runs.sort_by_key(|(_, each)| work(each));
        let mut sum = 0.0;
        for (weight, _) in &mut runs {
            sum += *weight;
            *weight = sum;
        }
        (!runs.is_empty()).then_some(PastRuns { runs })
    }

    /// The run that so much of the weight has no more work than; `part` from 0 to 1.
    pub fn at(&self, part: f64) -> &[DurationMs] {
        let whole = self.runs.last().map_or(0.0, |(weight, _)| *weight);
        let reached = |(weight, _): &(f64, _)| *weight < part * whole;
        let at = self.runs.partition_point(reached);
        &self.runs[at.min(self.runs.len() - 1)].1
    }
}

#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: WallMs,
    pub job: JobName,
    /// Of this one run, where that is known; else as its job's.
    pub lasts: Option<Lasts>,
}

impl Lasts {
    /// Sorted, so that a draw finds its place between them. `None` where there is none.
    pub fn drawn(mut observed: Vec<DurationMs>) -> Option<Lasts> {
        observed.sort_unstable();
        (!observed.is_empty()).then_some(Lasts::Drawn(observed))
    }

    /// The same attempt is answered the same.
    pub(crate) fn of(&self, shard: u32, seed: u64, which: Which) -> DurationMs {
        let unit = |stream| Draw::new(seed, stream).unit();
        match self {
            Lasts::Always(duration) => *duration,
            Lasts::Drawn(observed) => quantile(observed, unit(which.attempt)),
            Lasts::Each(each) => of_shard(each, shard),
            Lasts::ByRun(runs) => of_shard(runs.at(unit(which.run)), shard),
        }
    }
}

/// Numbers that tell runs apart, and the attempts of all runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which {
    pub(crate) run: u64,
    pub(crate) attempt: u64,
}

fn of_shard(each: &[DurationMs], shard: u32) -> DurationMs {
    let found = each.get(shard as usize).or(each.last());
    found.copied().unwrap_or(DurationMs::ZERO)
}

/// Of sorted durations, with what lies between two of them in proportion; `part` from 0 to 1. Zero of
/// none.
pub fn quantile(sorted: &[DurationMs], part: f64) -> DurationMs {
    let Some(last) = sorted.len().checked_sub(1) else {
        return DurationMs::ZERO;
    };
    let place = part.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let (from, to) = (sorted[below].0, sorted[(below + 1).min(last)].0);
    DurationMs(from + ((to - from) as f64 * place.fract()).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_what_was_seen() {
        let sorted = [10, 20, 40].map(DurationMs);
        for (part, expected) in [
            (0.0, 10),
            (0.25, 15),
            (0.5, 20),
            (0.75, 30),
            (1.0, 40),
            (9.0, 40),
        ] {
            assert_eq!(quantile(&sorted, part), DurationMs(expected), "{part}");
        }
        assert_eq!(quantile(&[], 0.5), DurationMs::ZERO);
    }

    #[test]
    fn a_shard_lasts_as_it_did() {
        let which = |run, attempt| Which { run, attempt };
        let each = Lasts::Each([5, 7, 9].map(DurationMs).to_vec());
        for (shard, expected) in [(0, 5), (2, 9), (8, 9)] {
            assert_eq!(each.of(shard, 1, which(1, 1)), DurationMs(expected));
        }
        let drawn = Lasts::drawn([30, 10].map(DurationMs).to_vec()).unwrap();
        let mean: i64 = (0..1_000)
            .map(|stream| drawn.of(0, 3, which(1, stream)).0)
            .sum::<i64>()
            / 1_000;
        assert!((18..=22).contains(&mean), "{mean}");
        assert_eq!(drawn.of(0, 3, which(1, 5)), drawn.of(4, 3, which(2, 5)));
        assert_eq!(Lasts::drawn(Vec::new()), None);
    }

    #[test]
    fn shards_of_a_run_last_as_in_one_run_of_the_past() {
        let runs = [[2, 3], [20, 30], [200, 300]].map(|each| each.map(DurationMs).to_vec());
        let past = PastRuns::new(runs.to_vec()).unwrap();
        for (part, expected) in [
            (0.0, 2),
            (0.3, 2),
            (0.5, 20),
            (0.66, 20),
            (0.9, 200),
            (1.0, 200),
        ] {
            assert_eq!(past.at(part)[0], DurationMs(expected), "{part}");
        }
        // Nine new runs of one kind, and ten of another before them: the new ones weigh more.
        let kinds = [vec![vec![DurationMs(9)]; 9], vec![vec![DurationMs(1)]; 10]].concat();
        assert_eq!(PastRuns::new(kinds).unwrap().at(0.5), [DurationMs(9)]);
        assert_eq!(PastRuns::new(vec![Vec::new()]), None);
        let lasts = Lasts::ByRun(past);
        for run in 0..50 {
            let of = |shard, attempt| lasts.of(shard, 1, Which { run, attempt }).0;
            assert_eq!(of(0, 1) * 3, of(1, 2) * 2, "both of one run");
        }
    }
}
