//! What holds a job back: processors, memory, disks, or nothing in particular.
//!
//! The rules are tried in order and the first that holds gives the word; the ratios are told with it,
//! because a word alone can be argued with by nobody. Waiting for disks is seen by the kernel's pressure
//! counters: `iowait` is idle time of a processor, and says little where there is more than one.
//! How many threads a job has is not counted; one is assumed, and so a job of many threads that each
//! wait most of the time passes for one that computes. Whether it is the bandwidth of memory that holds
//! a job back, only counters of the processor could tell: that is not claimed.

use serde::{Deserialize, Serialize};

use super::sample::AttemptSample;

/// What a job waits for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Io,
    Memory,
    Cpu,
    Mixed,
}

impl Bound {
    pub const fn as_str(self) -> &'static str {
        match self {
            Bound::Io => "io",
            Bound::Memory => "memory",
            Bound::Cpu => "cpu",
            Bound::Mixed => "mixed",
        }
    }
}

/// Some thread waits for a disk in so much of the time: pressure that the USE method calls saturation.
const IO_STALL_MILLI: u64 = 200;
/// Or it computes in less than this part of the time,
const IDLE_MILLI: u64 = 300;
/// and asks for this part of what the disk was measured to do.
const IO_SHARE_MILLI: u64 = 300;
/// It needs so much more memory for a processor than its host has for each.
const MEMORY_SHARE_MILLI: u64 = 1_500;
/// Or everything of it waits for memory in so much of the time.
const MEMORY_STALL_MILLI: u64 = 10;
/// It computes in so much of the time.
const BUSY_MILLI: u64 = 700;

/// What the word rests on, each in thousandths. `None` is what was not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratios {
    /// Processors used on average.
    pub cpu_milli: Option<u64>,
    /// Processors that one thread could have had: 1,000, or less on a host that has less.
    pub cpu_allowed_milli: Option<u64>,
    /// Memory for each processor that it used, at least one, against what its host has for each. Page
    /// cache that was left at its end is not counted.
    pub memory_share_milli: Option<u64>,
    /// Time in which all of it waited for memory.
    pub memory_stall_milli: Option<u64>,
    /// Time in which some of it waited for a disk.
    pub io_stall_milli: Option<u64>,
    /// Operations of disks against the measured random writes of its host.
    pub io_share_milli: Option<u64>,
}

impl Ratios {
    /// Of the attempts of one run together.
    pub(super) fn of(attempts: &[&AttemptSample]) -> Ratios {
        let per_wall = |of: &dyn Fn(&AttemptSample) -> Option<u64>| {
            let (mut sum, mut wall) = (0_u128, 0_u128);
            for attempt in attempts {
                if let Some(value) = of(attempt) {
                    sum += u128::from(value);
                    wall += u128::from(attempt.wall_ms);
                }
            }
            let milli = (sum * 1_000).checked_div(wall)?;
            Some(u64::try_from(milli).unwrap_or(u64::MAX))
        };
        let largest = |of: &dyn Fn(&AttemptSample) -> Option<u64>| {
            attempts.iter().filter_map(|attempt| of(attempt)).max()
        };
        Ratios {
            cpu_milli: per_wall(&|a| Some(a.cpu_ms)),
            cpu_allowed_milli: attempts
                .iter()
                .filter_map(|a| a.host.cpu_milli)
                .min()
                .map(|milli| milli.min(1_000)),
            memory_share_milli: largest(&memory_share_milli),
            memory_stall_milli: per_wall(&|a| a.usage.stall_memory_full_ms),
            io_stall_milli: per_wall(&|a| a.usage.stall_io_ms),
            io_share_milli: largest(&io_share_milli),
        }
    }

    /// The first rule that holds. A kernel that killed for want of memory has answered the question.
    pub fn bound(&self, out_of_memory: bool) -> Bound {
        let above = |ratio: Option<u64>, limit| ratio.is_some_and(|ratio| ratio >= limit);
        let cpu = self.cpu_milli.unwrap_or(0);
        let allowed = self.cpu_allowed_milli.unwrap_or(1_000);
        let idle = cpu * 1_000 < IDLE_MILLI * allowed;
        match () {
            () if above(self.io_stall_milli, IO_STALL_MILLI) => Bound::Io,
            () if idle && above(self.io_share_milli, IO_SHARE_MILLI) => Bound::Io,
            () if above(self.memory_share_milli, MEMORY_SHARE_MILLI + 1) => Bound::Memory,
            () if above(self.memory_stall_milli, MEMORY_STALL_MILLI) => Bound::Memory,
            () if out_of_memory => Bound::Memory,
            () if cpu * 1_000 >= BUSY_MILLI * allowed => Bound::Cpu,
            () => Bound::Mixed,
        }
    }
}

fn memory_share_milli(attempt: &AttemptSample) -> Option<u64> {
    let (cpu_milli, memory_bytes) = (attempt.host.cpu_milli?, attempt.host.memory_bytes?);
    let used_milli = (u128::from(attempt.cpu_ms) * 1_000)
        .checked_div(u128::from(attempt.wall_ms))
        .unwrap_or(0)
        .max(1_000);
    let has = u128::from(memory_bytes) * used_milli;
    let kept = u128::from(attempt.memory_bytes_kept()) * u128::from(cpu_milli);
    u64::try_from((kept * 1_000).checked_div(has)?).ok()
}

fn io_share_milli(attempt: &AttemptSample) -> Option<u64> {
    let can = u128::from(attempt.host.random_write_iops?) * u128::from(attempt.wall_ms);
    let did = u128::from(attempt.io_operations()?) * 1_000 * 1_000;
    u64::try_from(did.checked_div(can)?).ok()
}
