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
    /// The same of shard 0, 1, 2 ...; those beyond are as the last. None of them empty.
    ByShard(Vec<Vec<DurationMs>>),
}

#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: WallMs,
    pub job: JobName,
    /// Of each shard of this one run, where that is known; else as its job's.
    pub lasts: Option<DurationMs>,
}

impl Lasts {
    /// Sorted, so that a draw finds its place between them. `None` where there is none.
    pub fn drawn(mut observed: Vec<DurationMs>) -> Option<Lasts> {
        observed.sort_unstable();
        (!observed.is_empty()).then_some(Lasts::Drawn(observed))
    }

    pub fn by_shard(mut observed: Vec<Vec<DurationMs>>) -> Lasts {
        for shard in &mut observed {
            shard.sort_unstable();
        }
        Lasts::ByShard(observed)
    }

    /// `stream` tells attempts apart: the same one is answered the same.
    pub(crate) fn of(&self, shard: u32, seed: u64, stream: u64) -> DurationMs {
        match self {
            Lasts::Always(duration) => *duration,
            Lasts::Drawn(observed) => quantile(observed, Draw::new(seed, stream).unit()),
            Lasts::ByShard(each) => {
                let at = (shard as usize).min(each.len().saturating_sub(1));
                let observed = each.get(at).map_or(&[][..], Vec::as_slice);
                quantile(observed, Draw::new(seed, stream).unit())
            }
        }
    }
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
        let each = Lasts::by_shard([5, 7, 9].map(|ms| vec![DurationMs(ms)]).to_vec());
        for (shard, expected) in [(0, 5), (2, 9), (8, 9)] {
            assert_eq!(each.of(shard, 1, 1), DurationMs(expected));
        }
        let drawn = Lasts::drawn([30, 10].map(DurationMs).to_vec()).unwrap();
        let mean: i64 = (0..1_000)
            .map(|stream| drawn.of(0, 3, stream).0)
            .sum::<i64>()
            / 1_000;
        assert!((18..=22).contains(&mean), "{mean}");
        assert_eq!(drawn.of(0, 3, 5), drawn.of(4, 3, 5));
        assert_eq!(Lasts::drawn(Vec::new()), None);
    }
}
