//! What a host can do, measured: processors, memory, random writes, and how long a sync takes.
//!
//! What a machine is made of says little of what it does under a job: a drive that calls itself fast may
//! take 20 ms for a sync, and eight processors of a cloud may be worth three. So a host is measured when
//! it registers, and its disk a little every hour. Every measurement here is bounded in time and in bytes,
//! stops when it is asked to, leaves no file behind, and where it cannot be made says why instead of a
//! figure.
//!
//! | measured | at most | writes at most |
//! |---|---|---|
//! | [`measure_cpu`] | 10 s | nothing |
//! | [`measure_memory`] | about 1.5 s a NUMA node | nothing |
//! | [`measure_random_writes`] | 20 s | 256 MiB |
//! | [`measure_fsync`] | 10 s | 1.1 MiB, and what the file system adds |
//! | [`probe_fsync`], every hour | 2 s | 0.2 MiB, and what the file system adds |
//!
//! A disk that hangs holds up a thread of its own and nobody else: whoever asked is answered some seconds
//! past these limits, and the next one that the disk is still being measured.
//!
//! What is pure, [`Histogram`], [`Grade`], [`FlushDrift`], [`wear`](wear()) and the rule by which the hourly probe
//! is left out, stands apart from what touches the machine.

mod cpu;
mod device;
mod drift;
mod fsync;
mod grade;
mod histogram;
mod kernel;
mod memory;
mod place;
mod processors;
mod random_writes;
#[cfg(test)]
mod tests;
mod wear;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use protocol::host::{HostFacts, Value};
use serde::{Deserialize, Serialize};

pub use cpu::{BUSY_PER_MILLE_MAX, CpuScores, measure_cpu};
pub use device::Device;
pub use drift::{Drift, FlushDrift};
pub use fsync::{Conditions, FsyncLatency, HOURLY_WRITES, WRITE_BYTES, measure_fsync, probe_fsync};
pub use grade::{Grade, SLOW_SYNC_US};
pub use histogram::Histogram;
pub use kernel::KERNEL_VERSION;
pub use memory::{Bandwidth, NodeBandwidth, measure_memory};
pub use random_writes::{RandomWrites, Writes, measure_random_writes};
pub use wear::{RATED_BYTES, Repeated, Wear, wear};

/// What came of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured<T> {
    Known(T),
    /// It was left out, by a rule.
    Skipped(Skip),
    /// It could not be made; half a sentence says why.
    Unknown(String),
}

/// Why a measurement was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Skip {
    ProcessorsBusy {
        busy_per_mille: u32,
    },
    DiskBusy {
        busy_per_mille: u32,
    },
    SpaceShort {
        free_per_mille: u32,
    },
    ArrayRebuilding,
    /// A job has the disk to itself, or as good as.
    IoJobRuns,
    /// Somebody asked to stop.
    Stopped,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |per_mille: &u32| f64::from(*per_mille) / 10.0;
        match self {
            Skip::ProcessorsBusy { busy_per_mille } => write!(
                f,
                "the processors were {} % busy before, and more than {} % makes a score say less than it should",
                percent(busy_per_mille),
                percent(&BUSY_PER_MILLE_MAX)
            ),
            Skip::DiskBusy { busy_per_mille } => {
                write!(f, "the disk is {} % busy", percent(busy_per_mille))
            }
            Skip::SpaceShort { free_per_mille } => write!(
                f,
                "only {} % of the file system is free",
                percent(free_per_mille)
            ),
            Skip::ArrayRebuilding => f.write_str("the array is being filled"),
            Skip::IoJobRuns => f.write_str("a job that needs the disk runs"),
            Skip::Stopped => f.write_str("it was asked to stop"),
        }
    }
}

impl<T> Measured<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Measured::Known(value) => Some(value),
            Measured::Skipped(_) | Measured::Unknown(_) => None,
        }
    }

    /// Why there is no figure, as half a sentence.
    pub fn why(&self) -> Option<String> {
        match self {
            Measured::Known(_) => None,
            Measured::Skipped(skip) => Some(format!("not measured: {skip}")),
            Measured::Unknown(why) => Some(why.clone()),
        }
    }
}

/// There is no figure, of whatever it would have been.
enum Refusal {
    Skipped(Skip),
    Unknown(String),
}

impl Refusal {
    fn because(why: String) -> Refusal {
        Refusal::Unknown(why)
    }
}

impl From<Skip> for Refusal {
    fn from(skip: Skip) -> Refusal {
        Refusal::Skipped(skip)
    }
}

impl<T> From<Result<T, Refusal>> for Measured<T> {
    fn from(found: Result<T, Refusal>) -> Measured<T> {
        match found {
            Ok(value) => Measured::Known(value),
            Err(Refusal::Skipped(skip)) => Measured::Skipped(skip),
            Err(Refusal::Unknown(why)) => Measured::Unknown(why),
        }
    }
}

/// Everything that is measured of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    pub cpu: Measured<CpuScores>,
    pub memory: Measured<Bandwidth>,
    pub random_writes: Measured<RandomWrites>,
    pub fsync: Measured<FsyncLatency>,
    /// What the hourly probe wears off the disk in a year, and this whole measurement once in it; None
    /// where the device does not tell what was written.
    pub wear: Option<Wear>,
}

/// Measures everything, the disk in `directory`, in less than a minute. What it needs of memory is large
/// for as long; a process that must stay small asks a child to do it. `force` measures the processors
/// also where they are busy; `tell` is called with what is being done.
pub fn measure(
    directory: &Path,
    force: bool,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&str),
) -> Scores {
    // The processors first: what a disk has been given to do keeps the kernel busy after it.
    let cpu = measure_cpu(force, stop, tell);
    let memory = measure_memory(stop, tell);
    tell("disk: syncs");
    let fsync = measure_fsync(directory, stop);
    tell("disk: random writes");
    let random_writes = measure_random_writes(directory, stop);
    let wear = plan_wear(&fsync, &random_writes);
    Scores {
        cpu,
        memory,
        random_writes,
        fsync,
        wear,
    }
}

/// What the hourly probe wears off the disk in a year, and a whole measurement once in it.
pub fn plan_wear(
    fsync: &Measured<FsyncLatency>,
    random_writes: &Measured<RandomWrites>,
) -> Option<Wear> {
    let fsync = fsync.known()?;
    let syncs_bytes = fsync.device_written_bytes?;
    let hourly_bytes = (syncs_bytes * HOURLY_WRITES).checked_div(fsync.latency.len())?;
    let whole = Repeated {
        bytes: syncs_bytes + random_writes.known().map_or(0, |of| of.written_bytes),
        times_a_year: 1,
    };
    Some(wear(&[Repeated::hourly(hourly_bytes), whole]))
}

impl Scores {
    /// The facts of a host that measuring gives, for its profile: known, or why not.
    pub fn facts(&self) -> HostFacts {
        let mut facts = HostFacts::default();
        let mut tell = |name: &'static str, value: Result<u64, String>| match value {
            Ok(value) => facts.know(name, number(value)),
            Err(why) => facts.miss(name, why),
        };
        tell("cpu.score_single", of(&self.cpu, |cpu| cpu.score_single));
        tell("cpu.score_all", of(&self.cpu, |cpu| cpu.score_all));
        tell(
            "memory.bandwidth_bytes_per_s",
            of(&self.memory, |memory| memory.bytes_per_s),
        );
        tell(
            "disk.random_write_iops",
            of(&self.random_writes, |writes| writes.durable.per_s),
        );
        let written = match &self.wear {
            Some(wear) => Ok(wear.bytes_a_year),
            None => Err(self
                .fsync
                .why()
                .unwrap_or_else(|| "the device does not tell what was written to it".to_owned())),
        };
        tell("disk.probe_bytes_per_year", written);
        self.tell_fsync(&mut facts);
        facts
    }

    /// A disk is as good as it was on a busy host, or better: the worst grade says nothing of it then.
    fn tell_fsync(&self, facts: &mut HostFacts) {
        let names = [
            "disk.fsync_grade",
            "disk.fsync_p99_us",
            "disk.fsync_while_busy",
        ];
        let why = match self.fsync.known() {
            None => self.fsync.why().unwrap_or_default(),
            Some(fsync) if fsync.is_of_busy() && fsync.grade == Grade::D => {
                "the processors were busy when it was measured, so that its D is no word on the disk"
                    .to_owned()
            }
            Some(fsync) => {
                let [grade, p99_us, while_busy] = names;
                facts.know(grade, Value::Text(fsync.grade.as_str().to_owned()));
                facts.know(p99_us, number(fsync.p99_us));
                facts.know(while_busy, Value::Truth(fsync.is_of_busy()));
                return;
            }
        };
        for name in names {
            facts.miss(name, why.clone());
        }
    }
}

fn of<T, U>(measured: &Measured<T>, value: impl FnOnce(&T) -> U) -> Result<U, String> {
    match measured.known() {
        Some(known) => Ok(value(known)),
        None => Err(measured.why().unwrap_or_default()),
    }
}

fn number(value: u64) -> Value {
    Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
}
