//! How long a disk takes until a write is durable: what every commit of a coordinator waits for.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::grade::{Grade, SLOW_SYNC_US};
use super::histogram::Histogram;
use super::place::{Place, noise, on_a_thread};
use super::processors::{allowed, read_ticks, shares};
use super::{Measured, Refusal, Skip};

/// A write between two syncs: what etcd's log writes, and about what a batch of ours does.
pub const WRITE_BYTES: u64 = 2_300;
/// Writes of the measurement at registration.
const WRITES: u64 = 500;
const LIMIT: Duration = Duration::from_secs(10);
/// Writes of the hourly probe.
pub const HOURLY_WRITES: u64 = 100;
const HOURLY_LIMIT: Duration = Duration::from_secs(2);
/// Processors that are busier than this leave whoever waits for a sync waiting for them.
const PROCESSORS_BUSY_PER_MILLE_MAX: u32 = 500;

/// Busier than this, the disk is not probed as well.
const BUSY_PER_MILLE_MAX: u32 = 800;

/// Syncs, each after a write of 2,300 bytes behind the last, in a file that has its room already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsyncLatency {
    /// Of fdatasync alone.
    pub latency: Histogram,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// By the 99th percentile.
    pub grade: Grade,
    /// Syncs that took longer than a second: each is an event of its own, whatever the grade.
    pub slow_syncs: u64,
    /// Time was up before all were made.
    pub cut_short: bool,
    pub elapsed_ms: u64,
    /// What was written to the file.
    pub written_bytes: u64,
    /// What the device counted meanwhile, of others too: with the file system's own. None where there is
    /// no device or it does not count.
    pub device_written_bytes: Option<u64>,
    /// The device that was measured, as the kernel calls it.
    pub device: Option<String>,
    /// How busy the device was meanwhile, in thousandths.
    pub device_busy_per_mille: Option<u32>,
    /// Mean time of the device's own flushes meanwhile. Where it is far below the latency, the rest is the
    /// file system's, or waiting for a processor.
    pub device_flush_mean_us: Option<u64>,
    /// How busy the processors were meanwhile, in thousandths: whoever is told of a sync's end must get one
    /// first, so that the grade of a busy machine is worse than its disk's.
    pub processors_busy_per_mille: Option<u32>,
}

impl FsyncLatency {
    /// Whether processors were so busy meanwhile that the disk may be better than this. What is not known
    /// is held to be quiet.
    pub fn is_of_busy(&self) -> bool {
        let busy = self.processors_busy_per_mille;
        busy.is_some_and(|busy| busy > PROCESSORS_BUSY_PER_MILLE_MAX)
    }
}

/// What the hourly probe is told of the disk by whoever wants it. What is not known does not forbid it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Over the last minute or so, by [`DiskCounters`](hardware::DiskCounters).
    pub disk_busy_per_mille: Option<u32>,
    pub array_rebuilding: bool,
    /// A job of the class io runs here.
    pub io_job_runs: bool,
}

impl Conditions {
    fn forbid(&self) -> Option<Skip> {
        match self.disk_busy_per_mille {
            _ if self.array_rebuilding => Some(Skip::ArrayRebuilding),
            _ if self.io_job_runs => Some(Skip::IoJobRuns),
            Some(busy_per_mille) if busy_per_mille > BUSY_PER_MILLE_MAX => {
                Some(Skip::DiskBusy { busy_per_mille })
            }
            _ => None,
        }
    }
}

/// Makes 500 syncs in `directory`, or as many as ten seconds allow.
pub fn measure_fsync(directory: &Path, stop: &Arc<AtomicBool>) -> Measured<FsyncLatency> {
    measure(directory, WRITES, LIMIT, stop)
}

/// Makes a hundred syncs in `directory`, to be asked for once an hour: a tenth of a second on flash, about a
/// mebibyte on the device, and no file is left.
pub fn probe_fsync(
    directory: &Path,
    conditions: &Conditions,
    stop: &Arc<AtomicBool>,
) -> Measured<FsyncLatency> {
    match conditions.forbid() {
        Some(skip) => Measured::Skipped(skip),
        None => measure(directory, HOURLY_WRITES, HOURLY_LIMIT, stop),
    }
}

fn measure(
    directory: &Path,
    writes: u64,
    limit: Duration,
    stop: &Arc<AtomicBool>,
) -> Measured<FsyncLatency> {
    let directory = directory.to_owned();
    on_a_thread(limit, stop, move |stop| {
        let place = Place::open(&directory, writes * WRITE_BYTES)?;
        if !place.is_reserved {
            place
                .fill(writes * WRITE_BYTES, || stop.load(Ordering::Relaxed))
                .map_err(|error| {
                    Refusal::because(format!("the file could not be written: {error}"))
                })?;
        }
        append(&place, writes, limit, stop)
    })
}

fn append(
    place: &Place,
    writes: u64,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<FsyncLatency, Refusal> {
    let read = || place.device.as_ref()?.read_counters();
    let mut noise = noise(WRITE_BYTES as usize);
    let mut latency = Histogram::default();
    let mut slow_syncs = 0;
    let ticks = read_ticks().ok();
    let before = read();
    let begun = Instant::now();
    for write in 0..writes {
        if begun.elapsed() >= limit {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Skip::Stopped.into());
        }
        noise[..8].copy_from_slice(&write.to_le_bytes());
        place
            .file
            .write_all_at(&noise, write * WRITE_BYTES)
            .map_err(|error| Refusal::because(format!("write {write} failed: {error}")))?;
        let sync_begun = Instant::now();
        place
            .file
            .sync_data()
            .map_err(|error| Refusal::because(format!("sync {write} failed: {error}")))?;
        let us = sync_begun.elapsed().as_micros() as u64;
        slow_syncs += u64::from(us > SLOW_SYNC_US);
        latency.count_one(us);
    }
    let elapsed_ms = begun.elapsed().as_millis() as u64;
    let counted = before
        .zip(read())
        .and_then(|(before, after)| after.since(&before));
    let busy = || shares(&allowed().ok()?, &ticks?, &read_ticks().ok()?);
    let busy = busy();
    let p99_us = latency.quantile_us(990).unwrap_or(0);
    Ok(FsyncLatency {
        p50_us: latency.quantile_us(500).unwrap_or(0),
        p99_us,
        max_us: latency.max_us(),
        grade: Grade::of_p99_us(p99_us),
        slow_syncs,
        cut_short: latency.len() < writes,
        elapsed_ms,
        written_bytes: latency.len() * WRITE_BYTES,
        device_written_bytes: counted.map(|counted| counted.written_bytes),
        device: place.device.as_ref().map(|device| device.name.clone()),
        device_busy_per_mille: counted.and_then(|counted| counted.busy_per_mille(elapsed_ms)),
        device_flush_mean_us: counted.and_then(|counted| counted.flush_mean_us()),
        processors_busy_per_mille: busy.map(|busy| busy.busy_per_mille),
        latency,
    })
}
