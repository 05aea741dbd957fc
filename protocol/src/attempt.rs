//! What an attempt is told, and how one ends.

use serde::{Deserialize, Serialize};

use crate::names::JobName;
use crate::time::{DurationMs, WallMs};
use crate::{ExecutionId, RunId};

/// Longest tail of output that travels with a receipt, in bytes.
pub const OUTPUT_TAIL_BYTES_MAX: usize = 4096;

/// Everything an agent needs to start one attempt of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub job: JobName,
    /// The name that the job was created under; `None`: the one that it has. No rename changes it, and
    /// no other job gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_name: Option<JobName>,
    pub run_id: RunId,
    pub execution_id: ExecutionId,
    pub fire_time: WallMs,
    /// Nominal local times the fire stands for, `2026-03-29T02:30:00`, oldest first.
    /// Empty for a manual run.
    pub nominal: Vec<String>,
    /// IANA name of the job's zone.
    pub timezone: String,
    pub shard: u32,
    pub shards: u32,
    /// 1 for the first attempt of this shard in this execution.
    pub attempt: u32,
    pub trigger: Trigger,
    /// Unset under `overlap: allow`.
    pub fence: Option<i64>,
    /// Of a run that was redone: attempts with lower tokens have done nothing that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redo: Option<i64>,
    /// Program and arguments, placeholders already replaced. Never empty.
    pub exec: Vec<String>,
    /// Time-out of this attempt.
    pub timeout: DurationMs,
    pub takeover: DurationMs,
    /// Name of the host's user to run as; `None`: the one the supervisor runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default)]
    pub limits: Limits,
}

/// What one attempt may use of its host; where one is unset, nothing is limited. The kernel
/// enforces them, where it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of all processes of the attempt together, what they page in included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Share of the CPU beside others, 1 to 10,000; 100 is that of everybody who says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u16>,
    /// The same of disks, where one of the host's weighs who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_weight: Option<u16>,
}

/// One of the [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Memory,
    Pids,
    CpuWeight,
    IoWeight,
}

impl Limit {
    /// As the manifest's field under `limits` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Limit::Memory => "memory",
            Limit::Pids => "pids",
            Limit::CpuWeight => "cpu_weight",
            Limit::IoWeight => "io_weight",
        }
    }
}

/// Why an execution exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    Scheduled,
    CatchUp,
    Manual,
    Rerun,
    /// All of it anew, what succeeded too.
    Redo,
}

impl Trigger {
    pub const fn as_str(self) -> &'static str {
        match self {
            Trigger::Scheduled => "scheduled",
            Trigger::CatchUp => "catch_up",
            Trigger::Manual => "manual",
            Trigger::Rerun => "rerun",
            Trigger::Redo => "redo",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    Succeeded,
    Failed,
    TimedOut,
    /// Nobody knows what it did: its host or its lease was lost.
    Lost,
    /// Ended by the supervisor's own stop, not by the job.
    Interrupted,
    Cancelled,
    /// The agent refused the Start.
    Refused,
    /// The supervisor alive at the grant never received it.
    NeverStarted,
}

impl AttemptOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            AttemptOutcome::Succeeded => "succeeded",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::TimedOut => "timed_out",
            AttemptOutcome::Lost => "lost",
            AttemptOutcome::Interrupted => "interrupted",
            AttemptOutcome::Cancelled => "cancelled",
            AttemptOutcome::Refused => "refused",
            AttemptOutcome::NeverStarted => "never_started",
        }
    }

    /// Whether this end uses up one of the job's retries.
    pub const fn uses_retry(self) -> bool {
        matches!(
            self,
            AttemptOutcome::Failed | AttemptOutcome::TimedOut | AttemptOutcome::Lost
        )
    }
}

/// What an attempt used beside CPU time and memory. `None` is what its host does not count, or did not
/// count for an attempt that was over at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Usage {
    /// Page cache that was left when the last process had ended: part of the peak, and what the kernel
    /// gives up first when memory runs short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_cache_bytes: Option<u64>,
    /// From and to disks, not what a cache answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_operations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_operations: Option<u64>,
    /// How long some thread of the tree waited for a processor, for memory, for a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_cpu_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_memory_ms: Option<u64>,
    /// How long all of them waited for memory at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_memory_full_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_io_ms: Option<u64>,
    /// What was not counted for the whole tree; each is less than the truth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<Counted>,
}

/// What is counted of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Of the main process and the children it waited for.
    Cpu,
    /// Of the largest single process, or as it was seen now and then.
    Memory,
    /// Of the main process and the children it waited for.
    Io,
}

impl Counted {
    pub const ALL: [Counted; 3] = [Counted::Cpu, Counted::Memory, Counted::Io];

    pub const fn as_str(self) -> &'static str {
        match self {
            Counted::Cpu => "cpu",
            Counted::Memory => "memory",
            Counted::Io => "io",
        }
    }
}

/// How the attempt's main process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// What the host saw of an attempt that has ended: what a receipt carries into the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub outcome: AttemptOutcome,
    /// `None` where no process was started.
    pub exit: Option<Exit>,
    pub started_at: Option<WallMs>,
    pub ended_at: WallMs,
    /// CPU time of the whole tree; of the main process and the children it waited for where the
    /// host counts no more.
    pub cpu: DurationMs,
    /// Of the whole tree, in bytes; of its largest single process where the host counts no more.
    pub memory_bytes_peak: u64,
    /// The kernel killed a process of the tree because the attempt's memory, or the host's, was
    /// used up: what the others did without it is not known.
    #[serde(default)]
    pub out_of_memory: bool,
    /// `None` where nobody measured it: no process was started, or by an older supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Limits that the manifest sets and this host could not enforce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<Limit>,
    /// Why, in words, where the outcome alone does not say it.
    pub reason: Option<String>,
    /// Last of the output for ends other than success, at most [`OUTPUT_TAIL_BYTES_MAX`] bytes.
    pub tail: String,
}
