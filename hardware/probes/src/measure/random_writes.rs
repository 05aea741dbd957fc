//! How many random writes of 4 KiB a disk takes in a second: one at a time and each durable, as the
//! databases of jobs make them, and 32 at a time, as fast as it takes them.
//!
//! The file is written full first, so that what is measured is the disk and not how the file system turns
//! reserved room into a file. All of it together is at most 256 MiB: that is a burst, which a drive may take
//! into a part of itself that is faster than the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::place::{Place, noise, on_a_thread};
use super::{Measured, Refusal, Skip};

const PAGE_BYTES: u64 = 4096;
/// What a write goes to a random page of.
const FILE_BYTES: u64 = 128 << 20;
/// At most so many of each kind: with the file itself 256 MiB.
const DURABLE_WRITES_MAX: u64 = (32 << 20) / PAGE_BYTES;
const DEEP_WRITES_MAX: u64 = (96 << 20) / PAGE_BYTES;
const DEPTH: u64 = 32;
const TIME: Duration = Duration::from_secs(3);
/// Until the file is full: a disk that needs longer has no random writes worth counting.
const FILL_LIMIT: Duration = Duration::from_secs(14);
/// Of threads that do nothing but wait.
const STACK_BYTES: usize = 128 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomWrites {
    /// One at a time, each durable before the next (O_DIRECT and O_DSYNC).
    pub durable: Writes,
    /// 32 at a time, which the drive may still hold in a cache (O_DIRECT).
    pub deep: Writes,
    /// How fast the file was written full, one MiB after the other, until it was durable.
    pub sequential_bytes_per_s: u64,
    /// The file, and what was written to it at random.
    pub written_bytes: u64,
    /// What the device counted meanwhile, of others too.
    pub device_written_bytes: Option<u64>,
    pub device: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writes {
    pub per_s: u64,
    pub count: u64,
    /// Writes under way at any time.
    pub depth: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub elapsed_ms: u64,
}

/// Measures the disk in `directory`, in 20 s at most and seven on most.
pub fn measure_random_writes(directory: &Path, stop: &Arc<AtomicBool>) -> Measured<RandomWrites> {
    let directory = directory.to_owned();
    on_a_thread(FILL_LIMIT + 2 * TIME, stop, move |stop| {
        let place = Place::open(&directory, FILE_BYTES)?;
        // Asked first, so that nothing is written where it cannot be.
        let durable = place.open_direct(true)?;
        let deep = place.open_direct(false)?;
        let read = || place.device.as_ref()?.read_counters();
        let before = read();
        let sequential_bytes_per_s = fill(&place, stop)?;
        let durable = write_at_random(&durable, 1, DURABLE_WRITES_MAX, TIME, stop)?;
        let deep = write_at_random(&deep, DEPTH, DEEP_WRITES_MAX, TIME, stop)?;
        let counted = before
            .zip(read())
            .and_then(|(before, after)| after.since(&before));
        Ok(RandomWrites {
            sequential_bytes_per_s,
            written_bytes: FILE_BYTES + (durable.count + deep.count) * PAGE_BYTES,
            device_written_bytes: counted.map(|counted| counted.written_bytes),
            device: place.device.as_ref().map(|device| device.name.clone()),
            durable,
            deep,
        })
    })
}

/// Writes the file full and says how fast.
fn fill(place: &Place, stop: &AtomicBool) -> Result<u64, Refusal> {
    let begun = Instant::now();
    let is_late = || begun.elapsed() > FILL_LIMIT;
    let is_stopped = || stop.load(Ordering::Relaxed);
    place
        .fill(FILE_BYTES, || is_stopped() || is_late())
        .map_err(|error| Refusal::because(format!("the file could not be written: {error}")))?;
    if is_stopped() {
        return Err(Skip::Stopped.into());
    }
    if is_late() {
        return Err(Refusal::because(format!(
            "the disk could not write {} MiB in {} s",
            FILE_BYTES >> 20,
            FILL_LIMIT.as_secs()
        )));
    }
    Ok((FILE_BYTES as f64 / begun.elapsed().as_secs_f64()) as u64)
}

/// Keeps so many writes under way, each by a thread that waits for it, until the time is up or enough are
/// made.
fn write_at_random(
    file: &File,
    depth: u64,
    writes_max: u64,
    time: Duration,
    stop: &AtomicBool,
) -> Result<Writes, Refusal> {
    let work = Work {
        file,
        time,
        stop,
        left: AtomicU64::new(writes_max),
        begun: OnceLock::new(),
    };
    let ended: Vec<io::Result<Histogram>> = thread::scope(|scope| {
        let work = &work;
        let begin = |number| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, move || work.write(number))
        };
        let threads: Vec<_> = (1..depth).map(begin).collect();
        // Until all are there it would not be so many at a time.
        work.begin();
        let own = work.write(0);
        let join = |thread: io::Result<thread::ScopedJoinHandle<'_, _>>| {
            let panicked = || io::Error::other("a thread that wrote panicked");
            thread?.join().unwrap_or_else(|_| Err(panicked()))
        };
        threads.into_iter().map(join).chain([own]).collect()
    });
    let elapsed = work.begin().elapsed();
    let mut latency = Histogram::default();
    for part in ended {
        let part = part.map_err(|error| Refusal::because(format!("a write failed: {error}")))?;
        latency.join(&part);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Skip::Stopped.into());
    }
    Ok(Writes {
        per_s: (latency.len() as f64 / elapsed.as_secs_f64()) as u64,
        count: latency.len(),
        depth,
        p50_us: latency.quantile_us(500).unwrap_or(0),
        p99_us: latency.quantile_us(990).unwrap_or(0),
        max_us: latency.max_us(),
        elapsed_ms: elapsed.as_millis() as u64,
    })
}

/// What the threads have in common.
struct Work<'a> {
    file: &'a File,
    time: Duration,
    stop: &'a AtomicBool,
    /// Writes that may still be begun.
    left: AtomicU64,
    begun: OnceLock<Instant>,
}

impl Work<'_> {
    /// When the first was let go, which is now if none was.
    fn begin(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    fn write(&self, number: u64) -> io::Result<Histogram> {
        let mut page = Page::new(number);
        let mut x = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number + 1);
        let mut latency = Histogram::default();
        let begun = *self.begun.wait();
        while begun.elapsed() < self.time && !self.stop.load(Ordering::Relaxed) && self.take_one() {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let place = (x >> 11) % (FILE_BYTES / PAGE_BYTES) * PAGE_BYTES;
            page.stamp(x);
            let write_begun = Instant::now();
            self.file.write_all_at(page.bytes(), place)?;
            latency.count_one(write_begun.elapsed().as_micros() as u64);
        }
        Ok(latency)
    }

    fn take_one(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}

/// Memory that the kernel can hand to a drive as it is: it begins where a page does.
struct Page {
    memory: Vec<u8>,
    begins: usize,
}

impl Page {
    fn new(number: u64) -> Page {
        let mut memory = noise(2 * PAGE_BYTES as usize);
        let begins = memory.as_ptr().align_offset(PAGE_BYTES as usize);
        memory[begins..begins + 8].copy_from_slice(&number.to_le_bytes());
        Page { memory, begins }
    }

    /// Makes its bytes other ones than any that were written before.
    fn stamp(&mut self, with: u64) {
        let from = self.begins + 8;
        self.memory[from..from + 8].copy_from_slice(&with.to_le_bytes());
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begins..self.begins + PAGE_BYTES as usize]
    }
}
