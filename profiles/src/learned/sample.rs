//! What was seen of one run.

use protocol::attempt::{AttemptOutcome, Counted, Usage};
use protocol::host::HostFacts;
use serde::{Deserialize, Serialize};

/// One run on hosts of one class: a run that was spread over hosts of two classes is a sample of
/// each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// From the start of its first attempt to the end of its last one; `None` unless it succeeded.
    pub wall_ms: Option<u64>,
    /// Attempts whose host told how they ended, in any order.
    pub attempts: Vec<AttemptSample>,
}

/// What one attempt used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSample {
    pub shard: u32,
    pub outcome: AttemptOutcome,
    /// From the start of its process to the end of the last one of its tree.
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub memory_bytes_peak: u64,
    /// That the kernel held it to.
    pub memory_limit_bytes: Option<u64>,
    pub out_of_memory: bool,
    pub usage: Usage,
    pub host: HostSize,
}

/// What a host has, as far as it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSize {
    /// Processors, in thousandths.
    pub cpu_milli: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Measured.
    pub random_write_iops: Option<u64>,
}

impl HostSize {
    pub fn of(facts: &HostFacts) -> HostSize {
        let number = |name| {
            let number = facts.number(name)?;
            u64::try_from(number).ok().filter(|number| *number > 0)
        };
        HostSize {
            cpu_milli: number("cpu.usable_milli"),
            memory_bytes: number("memory.usable_bytes"),
            random_write_iops: number("disk.random_write_iops"),
        }
    }
}

impl AttemptSample {
    /// Whether there was a process of it.
    pub(super) fn ran(&self) -> bool {
        !matches!(
            self.outcome,
            AttemptOutcome::Refused | AttemptOutcome::NeverStarted
        )
    }

    pub(super) fn succeeded(&self) -> bool {
        self.outcome == AttemptOutcome::Succeeded
    }

    pub(super) fn is_partial(&self, counted: Counted) -> bool {
        self.usage.partial.contains(&counted)
    }

    /// What its memory is known to have come to: where the kernel killed for want of it, no less than
    /// the limit, and nobody knows how much more.
    pub(super) fn memory_bytes_known(&self) -> u64 {
        let limit = self.memory_limit_bytes.filter(|_| self.out_of_memory);
        self.memory_bytes_peak.max(limit.unwrap_or(0))
    }

    /// What of its peak was surely not page cache that nobody needed in the end.
    pub(super) fn memory_bytes_kept(&self) -> u64 {
        let cache = self.usage.memory_cache_bytes.unwrap_or(0);
        self.memory_bytes_peak.saturating_sub(cache)
    }

    pub(super) fn io_bytes(&self) -> Option<u64> {
        sum(self.usage.read_bytes, self.usage.write_bytes)
    }

    pub(super) fn io_operations(&self) -> Option<u64> {
        sum(self.usage.read_operations, self.usage.write_operations)
    }
}

fn sum(read: Option<u64>, written: Option<u64>) -> Option<u64> {
    Some(read?.saturating_add(written?))
}
