//! What the runs of a job have been seen to use.

use serde::{Deserialize, Serialize};

use crate::JobName;
use crate::attempt::Counted;

/// `GET /jobs/{namespace}/{name}/profile`: what the manifest in force declares, and what its newest runs
/// have used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobProfile {
    pub job: JobName,
    pub version: u32,
    pub declared: Declared,
    /// For each kind of hosts that ran it; the one that ran it last first.
    pub observed: Vec<Observed>,
}

/// What a manifest says of what its job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Declared {
    /// What an attempt may not exceed.
    pub memory_limit_bytes: Option<u64>,
    /// What is set aside for a shard.
    pub memory_needed_bytes: Option<u64>,
    /// In thousandths of a processor.
    pub cpu_needed_milli: Option<u32>,
    /// Of a run.
    pub expected_duration_ms: i64,
    /// Of an attempt.
    pub timeout_ms: i64,
    /// Of a shard.
    pub retries_at_most: u32,
}

/// What at most 100 runs have used on hosts of one kind. Newer runs count more: half as much ten runs ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observed {
    /// The class that the manifest asks for, else the classes that the hosts are in, `cpu, general`.
    pub hosts: String,
    pub runs: u32,
    pub attempts: u32,
    /// Attempts after the first of their shard.
    pub retries: u32,
    pub failed: u32,
    pub timed_out: u32,
    /// Attempts of which the kernel killed something because memory was used up.
    pub out_of_memory: u32,
    /// What was counted for a part of the process tree only, in one of the newest runs.
    pub partial: Vec<Counted>,
    /// What holds it back: `io`, `memory`, `cpu` or `mixed`.
    pub bound: Option<String>,
    pub ratios: ObservedRatios,
    /// Largest peak of an attempt in each run; of attempts that failed, too.
    pub memory_bytes: Option<Spread>,
    /// Processors that an attempt used on average, in thousandths.
    pub cpu_milli: Option<Spread>,
    /// CPU time of a shard.
    pub shard_cpu_ms: Option<Spread>,
    pub shard_ms: Option<Spread>,
    /// From the first start of a run to its last end.
    pub run_ms: Option<Spread>,
    pub io_bytes_per_s: Option<Spread>,
    pub io_operations_per_s: Option<Spread>,
    /// How long the slowest shard of a run took against the median one, in thousandths.
    pub skew_milli: Option<Spread>,
    /// Of the newest runs, the newest last.
    pub slowest_shards: Vec<SlowestShard>,
    pub memory_advice: Option<MemoryAdvice>,
    /// Processors to set aside for a shard, in thousandths: what it uses on average.
    pub cpu_advice_milli: Option<u64>,
    /// Why there is no advice on memory, `too few runs (3 of 5)`.
    pub no_advice: Option<String>,
}

/// What the word for what holds a job back rests on, in thousandths; `null` is what was not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedRatios {
    /// Processors used.
    pub cpu_milli: Option<u64>,
    /// Memory for each processor that it used, against what its hosts have for each.
    pub memory_share_milli: Option<u64>,
    /// Time in which all of it waited for memory.
    pub memory_stall_milli: Option<u64>,
    /// Time in which some of it waited for a disk.
    pub io_stall_milli: Option<u64>,
    /// Operations of disks against the measured random writes of its hosts.
    pub io_share_milli: Option<u64>,
}

/// How the values of runs are spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    pub runs: u32,
    pub mean: u64,
    /// Up to 5 % above the truth, and never below it.
    pub p50: u64,
    pub p95: u64,
    pub p98: u64,
    /// Of all of these runs, old ones too.
    pub max: u64,
    /// Largest value and weight of each bucket that has any, the smallest first.
    pub buckets: Vec<(u64, u64)>,
}

/// The shard of a run that took longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowestShard {
    pub shard: u32,
    /// Against the median one, in thousandths.
    pub milli: u64,
}

/// How much memory an attempt should be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryAdvice {
    pub bytes: u64,
    /// What 98 of 100 runs stayed within.
    pub p98_bytes: u64,
    /// The largest peak of the newest five.
    pub recent_max_bytes: u64,
    /// In one of the newest runs so much was not enough.
    pub exhausted_at_bytes: Option<u64>,
    /// Less would do; an advice falls by a fifth at a time.
    pub falls_by_steps: bool,
    /// Peaks are less than the truth.
    pub partial: bool,
    /// Page cache that was left at the end of one of the newest runs: part of the peak, and what a
    /// lower limit pushes out first.
    pub cache_bytes: Option<u64>,
}
