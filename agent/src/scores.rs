//! What a host can do, as it was measured, kept from one look to the next.
//!
//! Measuring takes half a minute and wears the disk, so it is done once and kept in the agent's
//! directory: a file that may be thrown away, then the host is measured again. It holds for the processors
//! and disks that it was taken of; with other ones it counts no more. What could not be measured, because
//! somebody needed the machine, is tried again later and alone.
//!
//! Once an hour a hundred syncs are tried. Figures of the profile do not follow each of them, or a host
//! would be another one every hour: a grade that two in a row agree on takes the place of the one before.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hardware::{Health, Root, read_md_arrays};
use probes::measure::{
    Conditions, Device, FsyncLatency, Grade, KERNEL_VERSION, Measured, Scores, measure_cpu,
    measure_fsync, measure_memory, measure_random_writes, plan_wear, probe_fsync,
};
use probes::{Probes, measured_things};
use protocol::host::HostFacts;
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::supervisor::yield_to_everybody;

/// What of a host its agent measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measuring {
    /// Processors, memory and the disk.
    Full,
    /// The disk that holds the agent's files.
    Disk,
    Off,
}

impl Measuring {
    pub const ALL: [Measuring; 3] = [Measuring::Full, Measuring::Disk, Measuring::Off];

    pub fn as_str(self) -> &'static str {
        match self {
            Measuring::Full => "full",
            Measuring::Disk => "disk",
            Measuring::Off => "off",
        }
    }
}

/// What is to be measured next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Due {
    /// Whatever there is no figure of.
    Scores,
    /// The hourly syncs.
    Syncs,
}

/// Name of the file in the agent's directory.
const FILE: &str = "scores.json";

/// A file that is larger is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;

const HOUR_MS: i64 = 3_600_000;

/// What writes so much is tried once a day, however often it was given up.
const RANDOM_WRITES_APART_MS: i64 = 24 * HOUR_MS;

/// How long somebody looks whether the disk is busy.
const DISK_LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Figures of another version of the work are no figures of this one.
    version: u32,
    /// The processors and disks that it was measured of.
    things: String,
    scores: Scores,
    /// By the wall clock, since it must outlast a boot. One that was set back costs a measurement.
    tried_at_ms: i64,
    random_writes_at_ms: i64,
    syncs_at_ms: i64,
    /// A grade other than that of the scores, which the last hourly syncs had.
    doubted: Option<Grade>,
}

/// Why what was measured could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ScoresError {
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Kept {
    fn new(things: String) -> Kept {
        fn not<T>() -> Measured<T> {
            Measured::Unknown("it was not measured".to_owned())
        }
        Kept {
            version: KERNEL_VERSION,
            things,
            scores: Scores {
                cpu: not(),
                memory: not(),
                random_writes: not(),
                fsync: not(),
                wear: None,
            },
            tried_at_ms: i64::MIN,
            random_writes_at_ms: i64::MIN,
            syncs_at_ms: i64::MIN,
            doubted: None,
        }
    }

    /// What is kept in a directory of these things; nothing, where it is of others or is not to be read.
    fn read(data_directory: &Path, things: &str) -> Option<Kept> {
        let file = fs::File::open(data_directory.join(FILE)).ok()?;
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        (kept.version == KERNEL_VERSION && kept.things == things).then_some(kept)
    }

    /// Half a file is never read: it takes its name when it is whole.
    fn write(&self, data_directory: &Path) -> Result<(), ScoresError> {
        let path = data_directory.join(FILE);
        let new = data_directory.join("scores.json.new");
        // Keys are texts and numbers are finite.
        let text = serde_json::to_vec(self).expect("scores are JSON");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| ScoresError::Write { path, source })
    }

    /// What is to be measured at this time of the wall clock.
    fn due(&self, measuring: Measuring, wall_ms: i64) -> Option<Due> {
        if measuring == Measuring::Off {
            return None;
        }
        // A time to come is one of a clock that was wrong.
        let past = |at_ms: i64, apart_ms| {
            let passed_ms = wall_ms.saturating_sub(at_ms);
            !(0..apart_ms).contains(&passed_ms)
        };
        let scores = &self.scores;
        let full = measuring == Measuring::Full;
        let wanted = full && (scores.cpu.known().is_none() || scores.memory.known().is_none())
            || scores.fsync.known().is_none_or(FsyncLatency::is_of_busy)
            || scores.random_writes.known().is_none()
                && past(self.random_writes_at_ms, RANDOM_WRITES_APART_MS);
        if wanted && past(self.tried_at_ms, HOUR_MS) {
            return Some(Due::Scores);
        }
        let judged = scores.fsync.known().is_some();
        (judged && past(self.syncs_at_ms, HOUR_MS)).then_some(Due::Syncs)
    }

    /// Takes a whole measurement of syncs. One of a busy host stands until there is one of a quiet host,
    /// or a better one.
    fn take_syncs(&mut self, found: Measured<FsyncLatency>) {
        let stays = match (self.scores.fsync.known(), found.known()) {
            (Some(before), Some(now)) => now.is_of_busy() && before.p99_us <= now.p99_us,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !stays {
            self.scores.fsync = found;
            self.doubted = None;
        }
    }

    /// Takes what the hourly syncs have shown. Fewer of them have no 99th percentile worth a change of
    /// the profile, but for the grade.
    fn note_syncs(&mut self, found: &Measured<FsyncLatency>) {
        let (Some(before), Some(now)) = (self.scores.fsync.known(), found.known()) else {
            return;
        };
        if now.is_of_busy() {
            return;
        }
        if now.grade == before.grade {
            self.doubted = None;
        } else if self.doubted.replace(now.grade) == Some(now.grade) {
            self.doubted = None;
            self.scores.fsync = found.clone();
        }
    }
}

/// What is kept of this host's figures, and what of them is due.
pub(crate) fn read_scores(
    root: &Path,
    data_directory: &Path,
    measuring: Measuring,
) -> (Option<HostFacts>, Option<Due>) {
    let root = Root::directory(root);
    // Copies of another machine's files cannot be measured.
    if !root.is_machine() {
        return (None, None);
    }
    let things = read_things(&root, data_directory);
    let kept = Kept::read(data_directory, &things);
    let facts = kept.as_ref().map(|kept| kept.scores.facts());
    let kept = kept.unwrap_or_else(|| Kept::new(things));
    (facts, kept.due(measuring, now().wall.0))
}

/// What an agent that has its files in this directory has measured of this machine.
pub fn kept_scores(data_directory: &Path) -> Option<HostFacts> {
    // Whoever has measured nothing need not be compared with this machine.
    data_directory.join(FILE).symlink_metadata().ok()?;
    read_scores(Path::new("/"), data_directory, Measuring::Off).0
}

fn read_things(root: &Root, data_directory: &Path) -> String {
    let report = Probes::new(None).look(root, data_directory);
    measured_things(root, &report, data_directory)
}

/// Measures what is due of this machine, after everybody else, until its standard input ends: whoever
/// asked holds that open.
pub fn measure_host(
    data_directory: &Path,
    measuring: Measuring,
    input: impl Read + Send + 'static,
) -> Result<(), ScoresError> {
    yield_to_everybody();
    let root = Root::machine();
    let things = read_things(&root, data_directory);
    let mut kept = Kept::read(data_directory, &things).unwrap_or_else(|| Kept::new(things));
    let wall_ms = now().wall.0;
    let Some(due) = kept.due(measuring, wall_ms) else {
        return Ok(());
    };
    let stop = stop_at_end(input);
    match due {
        Due::Scores => measure_missing(&mut kept, data_directory, measuring, &stop),
        Due::Syncs => {
            let found = probe_fsync(data_directory, &conditions(&root, data_directory), &stop);
            tell_of_syncs(&found);
            kept.note_syncs(&found);
            kept.syncs_at_ms = wall_ms;
        }
    }
    kept.write(data_directory)
}

/// Measures what there is no figure of. The processors first: what a disk has been given to do keeps the
/// kernel busy after it.
fn measure_missing(
    kept: &mut Kept,
    data_directory: &Path,
    measuring: Measuring,
    stop: &Arc<AtomicBool>,
) {
    let wall_ms = now().wall.0;
    kept.tried_at_ms = wall_ms;
    let mut is_quiet = true;
    if measuring == Measuring::Full {
        let scores = &mut kept.scores;
        if scores.cpu.known().is_none() {
            scores.cpu = measure_cpu(false, stop, &mut |_| {});
        }
        // Where they were too busy, all but the syncs, which say so, would tell less than it should.
        is_quiet = scores.cpu.known().is_some();
        if is_quiet && scores.memory.known().is_none() {
            scores.memory = measure_memory(stop, &mut |_| {});
        }
    }
    let fsync = kept.scores.fsync.known();
    if fsync.is_none_or(FsyncLatency::is_of_busy) {
        let found = measure_fsync(data_directory, stop);
        tell_of_syncs(&found);
        kept.take_syncs(found);
        kept.syncs_at_ms = wall_ms;
    }
    if is_quiet {
        measure_writes(kept, data_directory, wall_ms, stop);
    }
    let scores = &mut kept.scores;
    scores.wear = plan_wear(&scores.fsync, &scores.random_writes);
}

fn measure_writes(kept: &mut Kept, data_directory: &Path, wall_ms: i64, stop: &Arc<AtomicBool>) {
    let scores = &mut kept.scores;
    let passed_ms = wall_ms.saturating_sub(kept.random_writes_at_ms);
    let is_due = !(0..RANDOM_WRITES_APART_MS).contains(&passed_ms);
    if scores.random_writes.known().is_none() && is_due && !stop.load(Ordering::Relaxed) {
        kept.random_writes_at_ms = wall_ms;
        scores.random_writes = measure_random_writes(data_directory, stop);
    }
}

/// A sync that took longer than a second held up whoever waited, whatever the others did.
fn tell_of_syncs(found: &Measured<FsyncLatency>) {
    let Some(found) = found.known() else {
        return;
    };
    let (grade, p99_us, max_us) = (found.grade.as_str(), found.p99_us, found.max_us);
    if found.slow_syncs > 0 {
        let slow_syncs = found.slow_syncs;
        tracing::warn!(
            slow_syncs,
            max_us,
            grade,
            "a sync of this disk took longer than a second"
        );
    } else {
        tracing::debug!(p99_us, max_us, grade, "the syncs of this disk");
    }
}

/// Whoever asked knows of the attempts, and does not ask while one runs.
fn conditions(root: &Root, data_directory: &Path) -> Conditions {
    let arrays = read_md_arrays(root);
    let rebuilds = arrays.items.iter();
    let array_rebuilding = rebuilds
        .map(|item| item.health)
        .any(|health| health == Health::Rebuilding);
    Conditions {
        disk_busy_per_mille: disk_busy_per_mille(data_directory),
        array_rebuilding,
        io_job_runs: false,
    }
}

fn disk_busy_per_mille(data_directory: &Path) -> Option<u32> {
    let device = Device::below(data_directory)?;
    let (before, begun) = (device.read_counters()?, Instant::now());
    thread::sleep(DISK_LOOK);
    let since = device.read_counters()?.since(&before)?;
    let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).ok()?;
    since.busy_per_mille(elapsed_ms)
}

/// Asked to stop when there is nothing more to read.
fn stop_at_end(mut input: impl Read + Send + 'static) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    thread::spawn(move || {
        let mut rest = [0; 64];
        loop {
            match input.read(&mut rest) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        told.store(true, Ordering::Relaxed);
    });
    stop
}

#[cfg(test)]
mod tests {
    use probes::measure::Skip;

    use super::*;

    fn syncs(p99_us: u64) -> Measured<FsyncLatency> {
        let found = FsyncLatency {
            latency: probes::measure::Histogram::default(),
            p50_us: p99_us,
            p99_us,
            max_us: p99_us,
            grade: Grade::of_p99_us(p99_us),
            slow_syncs: 0,
            cut_short: false,
            elapsed_ms: 1,
            written_bytes: 1,
            device_written_bytes: None,
            device: None,
            device_busy_per_mille: None,
            device_flush_mean_us: None,
            processors_busy_per_mille: None,
        };
        Measured::Known(found)
    }

    #[test]
    fn what_is_missing_is_tried_every_hour_and_what_writes_much_once_a_day() {
        let hour = |hours: i64| 1_800_000_000_000 + hours * HOUR_MS;
        let mut kept = Kept::new(String::new());
        assert_eq!(kept.due(Measuring::Off, hour(0)), None);
        assert_eq!(kept.due(Measuring::Disk, hour(0)), Some(Due::Scores));
        (kept.tried_at_ms, kept.random_writes_at_ms) = (hour(0), hour(0));
        assert_eq!(kept.due(Measuring::Disk, hour(0)), None);
        assert_eq!(kept.due(Measuring::Disk, hour(1)), Some(Due::Scores));
        (kept.scores.fsync, kept.syncs_at_ms) = (syncs(100), hour(0));
        // Random writes alone are missing, and those of the processors where they count.
        assert_eq!(kept.due(Measuring::Full, hour(1)), Some(Due::Scores));
        assert_eq!(kept.due(Measuring::Disk, hour(0)), None);
        assert_eq!(kept.due(Measuring::Disk, hour(1)), Some(Due::Syncs));
        assert_eq!(kept.due(Measuring::Disk, hour(24)), Some(Due::Scores));
        // A clock that was set back keeps nothing from being measured.
        assert_eq!(kept.due(Measuring::Disk, hour(-1)), Some(Due::Scores));
    }

    #[test]
    fn a_grade_changes_when_two_in_a_row_say_so() {
        for (probes, expected) in [
            (&[100, 1_900][..], 150),
            (&[5_000], 150),
            (&[5_000, 100, 5_000], 150),
            (&[5_000, 15_000, 5_000], 150),
            (&[5_000, 5_100], 5_100),
            (&[5_000, 5_100, 7_000], 5_100),
        ] {
            let mut kept = Kept::new(String::new());
            kept.scores.fsync = syncs(150);
            for &p99_us in probes {
                kept.note_syncs(&syncs(p99_us));
                kept.note_syncs(&Measured::Skipped(Skip::IoJobRuns));
            }
            assert_eq!(
                kept.scores.fsync.known().unwrap().p99_us,
                expected,
                "{probes:?}"
            );
        }
    }

    #[test]
    fn syncs_of_a_busy_host_stand_until_there_are_better_ones() {
        let (busy, quiet) = (Some(501), Some(500));
        for (found, expected, is_wanted) in [
            (&[(30_000, busy)][..], 30_000, true),
            (&[(30_000, busy), (9_000, busy)], 9_000, true),
            (&[(9_000, busy), (30_000, busy)], 9_000, true),
            (&[(9_000, busy), (15_000, quiet)], 15_000, false),
            (&[(15_000, quiet), (30_000, busy)], 15_000, false),
            (&[(150, None)], 150, false),
        ] {
            let mut kept = Kept::new(String::new());
            (kept.tried_at_ms, kept.random_writes_at_ms) = (0, HOUR_MS);
            for &(p99_us, processors_busy_per_mille) in found {
                let Measured::Known(of) = syncs(p99_us) else {
                    unreachable!("they are made known");
                };
                kept.take_syncs(Measured::Known(FsyncLatency {
                    processors_busy_per_mille,
                    ..of
                }));
                // What could not be measured takes nothing away.
                kept.take_syncs(Measured::Skipped(Skip::Stopped));
            }
            let fsync = kept.scores.fsync.known().unwrap();
            assert_eq!(fsync.p99_us, expected, "{found:?}");
            let due = kept.due(Measuring::Disk, HOUR_MS);
            assert_eq!(due == Some(Due::Scores), is_wanted, "{found:?}: {due:?}");
            // Hourly ones of a busy host say nothing of the grade.
            let of = kept.scores.fsync.clone();
            let busy = |of: &FsyncLatency| FsyncLatency {
                processors_busy_per_mille: Some(900),
                grade: Grade::D,
                ..of.clone()
            };
            let later = Measured::Known(busy(of.known().unwrap()));
            kept.note_syncs(&later);
            kept.note_syncs(&later);
            assert_eq!(kept.scores.fsync, of, "{found:?}");
        }
    }

    #[test]
    fn what_is_kept_counts_for_the_same_things_alone() {
        let place = tempfile::tempdir().unwrap();
        let mut kept = Kept::new("a".to_owned());
        kept.scores.fsync = syncs(150);
        kept.write(place.path()).unwrap();
        assert_eq!(Kept::read(place.path(), "a"), Some(kept));
        assert_eq!(Kept::read(place.path(), "b"), None);
        fs::write(place.path().join(FILE), "{\"version\":").unwrap();
        assert_eq!(Kept::read(place.path(), "a"), None);
    }

    #[test]
    fn whoever_is_asked_to_stop_leaves_no_figure_and_no_file() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut kept = Kept::new(String::new());
        let stop = Arc::new(AtomicBool::new(true));
        measure_missing(&mut kept, place.path(), Measuring::Disk, &stop);
        assert_eq!(kept.scores.fsync.known(), None);
        assert_eq!(kept.scores.random_writes.known(), None);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        // What was not begun is not waited a day for.
        assert_eq!(kept.random_writes_at_ms, i64::MIN);
    }

    #[test]
    fn the_end_of_what_is_read_stops() {
        let stop = stop_at_end(io::empty());
        while !stop.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }
}
