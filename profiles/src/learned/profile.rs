//! The profile of one version of a job on one class of hosts.

use protocol::api::SlowestShard;
use protocol::attempt::{AttemptOutcome, Counted};
use serde::{Deserialize, Serialize};

use super::bound::{Bound, Ratios};
use super::decay::Mean;
use super::histogram::Histogram;
use super::sample::{AttemptSample, Sample};

/// Runs whose largest peak is looked at beside the percentile, and for which an exhausted memory counts.
pub const RECENT_RUNS: usize = 5;

/// What runs have been seen to use. Equal samples in an equal order make equal profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProfile {
    /// Largest peak of an attempt in each run.
    pub memory_bytes: Histogram,
    /// Processors that an attempt used on average, in thousandths; of attempts that succeeded, as all
    /// below.
    pub cpu_milli: Histogram,
    /// How long each shard took.
    pub shard_ms: Histogram,
    /// From the first start of a run to its last end.
    pub run_ms: Histogram,
    /// CPU time of a shard.
    pub shard_cpu_ms: Histogram,
    /// What an attempt read and wrote per second.
    pub io_bytes_per_s: Histogram,
    pub io_operations_per_s: Histogram,
    /// How much longer the slowest shard took than the median one, in thousandths of that.
    pub skew_milli: Histogram,
    pub counts: Counts,
    ratios: RatioMeans,
    /// The newest runs, the newest last.
    recent: Vec<Recent>,
}

/// What happened in the runs of a profile, each counting one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub runs: u32,
    pub attempts: u32,
    /// Attempts after the first of their shard.
    pub retries: u32,
    pub failed: u32,
    pub timed_out: u32,
    pub out_of_memory: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recent {
    pub(super) memory_bytes: Option<u64>,
    /// What an attempt that the kernel killed for want of memory had at least.
    pub(super) out_of_memory_at: Option<u64>,
    pub(super) cache_bytes: Option<u64>,
    partial: Vec<Counted>,
    slowest: Option<SlowestShard>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RatioMeans {
    cpu_milli: Mean,
    cpu_allowed_milli: Mean,
    memory_share_milli: Mean,
    memory_stall_milli: Mean,
    io_stall_milli: Mean,
    io_share_milli: Mean,
}

impl JobProfile {
    /// Of runs in the order in which they ended.
    pub fn learn<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> JobProfile {
        let mut profile = JobProfile::default();
        for sample in samples {
            profile.observe(sample);
        }
        profile
    }

    /// One more run. One of which no attempt ran teaches nothing and is not counted.
    pub fn observe(&mut self, sample: &Sample) {
        let ran: Vec<&AttemptSample> = sample.attempts.iter().filter(|a| a.ran()).collect();
        if ran.is_empty() {
            return;
        }
        self.count(&ran);
        self.remember(&ran);
        let succeeded: Vec<&AttemptSample> = ran.into_iter().filter(|a| a.succeeded()).collect();
        if succeeded.is_empty() {
            return;
        }
        self.run_ms.observe(sample.wall_ms.as_slice());
        let walls: Vec<u64> = succeeded.iter().map(|a| a.wall_ms).collect();
        self.shard_ms.observe(&walls);
        let cpu: Vec<u64> = succeeded.iter().map(|a| a.cpu_ms).collect();
        self.shard_cpu_ms.observe(&cpu);
        self.io_bytes_per_s
            .observe(rate_per_s(&succeeded, AttemptSample::io_bytes).as_slice());
        self.io_operations_per_s
            .observe(rate_per_s(&succeeded, AttemptSample::io_operations).as_slice());
        let ratios = Ratios::of(&succeeded);
        self.cpu_milli.observe(ratios.cpu_milli.as_slice());
        self.ratios.observe(&ratios);
        if let Some(slowest) = slowest(&succeeded) {
            self.skew_milli.observe(&[slowest.milli]);
        }
    }

    fn count(&mut self, ran: &[&AttemptSample]) {
        let counts = &mut self.counts;
        let of = |wanted: &dyn Fn(&AttemptSample) -> bool| {
            u32::try_from(ran.iter().filter(|a| wanted(a)).count()).unwrap_or(u32::MAX)
        };
        let mut shards: Vec<u32> = ran.iter().map(|a| a.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let again = u32::try_from(ran.len() - shards.len()).unwrap_or(u32::MAX);
        for (count, more) in [
            (&mut counts.runs, 1),
            (&mut counts.attempts, of(&|_| true)),
            (&mut counts.retries, again),
            (
                &mut counts.failed,
                of(&|a| a.outcome == AttemptOutcome::Failed),
            ),
            (
                &mut counts.timed_out,
                of(&|a| a.outcome == AttemptOutcome::TimedOut),
            ),
            (&mut counts.out_of_memory, of(&|a| a.out_of_memory)),
        ] {
            *count = count.saturating_add(more);
        }
    }

    fn remember(&mut self, ran: &[&AttemptSample]) {
        let known = ran.iter().map(|a| a.memory_bytes_known());
        // Nothing runs in no memory: such a peak was not measured.
        let memory_bytes = known.max().filter(|bytes| *bytes > 0);
        self.memory_bytes.observe(memory_bytes.as_slice());
        if self.recent.len() == RECENT_RUNS {
            self.recent.remove(0);
        }
        let exhausted = ran.iter().filter(|a| a.out_of_memory);
        let partial = |counted: &Counted| ran.iter().any(|a| a.is_partial(*counted));
        let succeeded: Vec<&AttemptSample> =
            ran.iter().copied().filter(|a| a.succeeded()).collect();
        self.recent.push(Recent {
            memory_bytes,
            out_of_memory_at: exhausted.map(|a| a.memory_bytes_known()).max(),
            cache_bytes: ran.iter().filter_map(|a| a.usage.memory_cache_bytes).max(),
            partial: Counted::ALL.into_iter().filter(partial).collect(),
            slowest: slowest(&succeeded),
        });
    }

    pub(super) fn recent(&self) -> &[Recent] {
        &self.recent
    }

    /// Means over the runs that succeeded.
    pub fn ratios(&self) -> Ratios {
        let means = &self.ratios;
        Ratios {
            cpu_milli: means.cpu_milli.value(),
            cpu_allowed_milli: means.cpu_allowed_milli.value(),
            memory_share_milli: means.memory_share_milli.value(),
            memory_stall_milli: means.memory_stall_milli.value(),
            io_stall_milli: means.io_stall_milli.value(),
            io_share_milli: means.io_share_milli.value(),
        }
    }

    /// What holds the job back; `None` before anything has succeeded or run out of memory.
    pub fn bound(&self) -> Option<Bound> {
        let exhausted = self.recent.iter().any(|r| r.out_of_memory_at.is_some());
        let known = exhausted || self.ratios.cpu_milli.value().is_some();
        known.then(|| self.ratios().bound(exhausted))
    }

    /// What in one of the newest runs was counted for a part of the tree only.
    pub fn partial(&self) -> Vec<Counted> {
        let is = |counted: &Counted| self.recent.iter().any(|r| r.partial.contains(counted));
        Counted::ALL.into_iter().filter(is).collect()
    }

    /// Of the newest runs of more than two shards, the newest last.
    pub fn slowest_shards(&self) -> impl Iterator<Item = SlowestShard> + '_ {
        self.recent.iter().filter_map(|run| run.slowest)
    }
}

impl RatioMeans {
    fn observe(&mut self, ratios: &Ratios) {
        for (mean, ratio) in [
            (&mut self.cpu_milli, ratios.cpu_milli),
            (&mut self.cpu_allowed_milli, ratios.cpu_allowed_milli),
            (&mut self.memory_share_milli, ratios.memory_share_milli),
            (&mut self.memory_stall_milli, ratios.memory_stall_milli),
            (&mut self.io_stall_milli, ratios.io_stall_milli),
            (&mut self.io_share_milli, ratios.io_share_milli),
        ] {
            if let Some(ratio) = ratio {
                mean.observe(ratio);
            }
        }
    }
}

fn rate_per_s(attempts: &[&AttemptSample], of: fn(&AttemptSample) -> Option<u64>) -> Option<u64> {
    let (mut sum, mut wall_ms) = (0_u128, 0_u128);
    for attempt in attempts {
        if let Some(value) = of(attempt) {
            sum += u128::from(value);
            wall_ms += u128::from(attempt.wall_ms);
        }
    }
    let rate = (sum * 1_000).checked_div(wall_ms)?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// With fewer than three shards there is no median to be slower than.
fn slowest(succeeded: &[&AttemptSample]) -> Option<SlowestShard> {
    if succeeded.len() < 3 {
        return None;
    }
    let mut walls: Vec<u64> = succeeded.iter().map(|a| a.wall_ms).collect();
    walls.sort_unstable();
    let median = u128::from(walls[walls.len() / 2]);
    let slowest = succeeded
        .iter()
        .max_by_key(|a| (a.wall_ms, std::cmp::Reverse(a.shard)))?;
    let milli = (u128::from(slowest.wall_ms) * 1_000).checked_div(median)?;
    Some(SlowestShard {
        shard: slowest.shard,
        milli: u64::try_from(milli).unwrap_or(u64::MAX),
    })
}
