//! How much output stays on a host: bounded by age, by its sum and by what is left of the disk.
//!
//! Outputs of ended attempts go, oldest first; one that a log writer has open never does. The newest
//! few of each job outlive their age: of a job that runs once a month, the last run is what somebody
//! will ask for. What a crash has left behind is open to nobody and goes in its turn. When the disk is
//! nearly full in spite of that, nothing is started here: a host that cannot keep what a job prints is
//! no place for it. What was removed is noted, so that who asks for it is told why it is not there.
//!
//! A host may have a hundred thousand outputs. One that is over changes no more, so it is looked at
//! once and remembered in few bytes, and so many at most are removed at a time. There is a bound to
//! their number too: small ones would come to millions before they come to gigabytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_core::agent::DiskFull;
use nix::sys::statvfs::statvfs;
use protocol::{DurationMs, WallMs};
use tokio::sync::mpsc;

use super::layout::{ABOUT, is_open};
use super::removed::{self, Why};
use crate::clock;
use crate::run::Input;

/// The disk is looked at this often, and what lies on it every so many looks.
const LOOK: Duration = Duration::from_secs(5);

/// Where more is too much than is removed at once, the next look comes sooner: outputs go faster than
/// attempts can come.
const BREATH: Duration = Duration::from_millis(500);
const LOOKS_BETWEEN_SWEEPS: u32 = 12;

/// Removed in one go; the rest follows at the next look.
const REMOVED_AT_ONCE: usize = 1_000;

/// More than this are not kept, however small they are.
const OUTPUTS_MAX: usize = 100_000;

/// What was written just now belongs to an attempt whose log writer was restarted, perhaps.
const SETTLED: DurationMs = DurationMs(60_000);

/// All outputs together take at most so much, or this share of the disk if that is less.
const TOTAL_BYTES_MAX: u64 = 5 << 30;
const TOTAL_SHARE: u64 = 10;

/// Free space below this, or this share of the disk if that is less, is a full disk.
const FLOOR_BYTES: u64 = 256 << 20;
const FLOOR_SHARE: u64 = 100;

/// How long and how much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) age: DurationMs,
    /// The newest so many of each job are kept beyond their age.
    pub(crate) of_each_job: u32,
    /// `None`: as much as the disk's size suggests.
    pub(crate) total_bytes: Option<u64>,
}

/// One attempt's output as it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    token: i64,
    /// Whose it is, as far as it says so. One text for all outputs of a job.
    job: Arc<str>,
    bytes: u64,
    written_at: WallMs,
    open: bool,
}

/// Outputs that are over, by their tokens: they change no more.
#[derive(Debug, Default)]
struct Shelf {
    outputs: BTreeMap<i64, Found>,
    jobs: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space {
    free_bytes: u64,
    size_bytes: u64,
}

impl Space {
    fn floor_bytes(self) -> u64 {
        FLOOR_BYTES.min(self.size_bytes / FLOOR_SHARE)
    }

    fn is_full(self) -> bool {
        self.free_bytes < self.floor_bytes()
    }

    fn full(self, directory: &Path) -> Option<DiskFull> {
        self.is_full().then(|| DiskFull {
            directory: directory.display().to_string(),
            free_bytes: self.free_bytes,
            floor_bytes: self.floor_bytes(),
        })
    }
}

/// What a look has found.
struct Kept {
    full: Option<DiskFull>,
    /// More is to be removed.
    more: bool,
}

/// Sees to the bounds for as long as anybody listens to `inputs`, who is told of a full disk.
pub(crate) async fn run(directory: PathBuf, bounds: Bounds, inputs: mpsc::Sender<Input>) {
    let mut told = false;
    let mut shelf = Shelf::default();
    let mut until_sweep = 0;
    loop {
        let (directory, due) = (directory.clone(), until_sweep == 0);
        // A disk that hangs holds a thread, and its last verdict stands.
        let looked = tokio::task::spawn_blocking(move || {
            let kept = keep(&directory, bounds, due, &mut shelf);
            (kept, shelf)
        });
        let kept = match looked.await {
            Ok((kept, returned)) => {
                shelf = returned;
                kept
            }
            Err(error) => {
                shelf = Shelf::default();
                Err(io::Error::other(error))
            }
        };
        let more = matches!(&kept, Ok(kept) if kept.more);
        let rest;
        (until_sweep, rest) = next_look(more, until_sweep);
        match kept {
            Ok(Kept { full, .. }) => {
                if full.is_some() != told {
                    told = full.is_some();
                    if let Some(full) = &full {
                        tracing::error!(%full, "nothing is started: disk full");
                    } else {
                        tracing::info!("the disk has room again");
                    }
                    if inputs.send(Input::Disk(full)).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "the disk with the output cannot be looked at"),
        }
        tokio::time::sleep(rest).await;
    }
}

/// How many looks come before the next that removes, after one with so many before it, and when.
fn next_look(more: bool, until_sweep: u32) -> (u32, Duration) {
    match until_sweep {
        _ if more => (0, BREATH),
        0 => (LOOKS_BETWEEN_SWEEPS - 1, LOOK),
        _ => (until_sweep - 1, LOOK),
    }
}

/// Removes what is too much, if that is due or the disk is full; whether it is full then.
fn keep(directory: &Path, bounds: Bounds, due: bool, shelf: &mut Shelf) -> io::Result<Kept> {
    let space = read_space(directory)?;
    if !due && !space.is_full() {
        let (full, more) = (None, false);
        return Ok(Kept { full, more });
    }
    let now = clock::now().wall;
    shelf.read(directory, now)?;
    let doomed = plan(shelf.outputs.values(), bounds, space, now);
    let more = doomed.len() > REMOVED_AT_ONCE;
    let mut gone = Vec::new();
    for (output, why) in doomed.into_iter().take(REMOVED_AT_ONCE) {
        let own = directory.join(output.token.to_string());
        match fs::remove_dir_all(&own) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let directory = own.display();
                tracing::warn!(%directory, %error, "an old output cannot be removed");
            }
            _ => gone.push((output.token, why)),
        }
    }
    if !gone.is_empty() {
        tracing::info!(outputs = gone.len(), "old output was removed");
        if let Err(error) = removed::note(directory, &gone, now) {
            tracing::warn!(%error, "it cannot be noted which output was removed");
        }
    }
    for (token, _) in &gone {
        shelf.outputs.remove(token);
    }
    let full = read_space(directory)?.full(directory);
    Ok(Kept { full, more })
}

fn read_space(directory: &Path) -> io::Result<Space> {
    let found = match statvfs(directory) {
        // Nothing has been written yet, or somebody has removed it all.
        Err(nix::Error::ENOENT) => {
            fs::create_dir_all(directory)?;
            statvfs(directory)?
        }
        found => found?,
    };
    Ok(Space {
        free_bytes: found.blocks_available() * found.fragment_size(),
        size_bytes: found.blocks() * found.fragment_size(),
    })
}

/// The token that a directory is named after; others are none of ours.
fn token_of(directory: &Path) -> Option<i64> {
    let name = directory.file_name()?.to_str()?;
    let token: i64 = name.parse().ok()?;
    (token.to_string() == name).then_some(token)
}

impl Shelf {
    /// Takes over what lies there now. What is known to be over is not looked at again.
    fn read(&mut self, directory: &Path, now: WallMs) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.outputs);
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Some(token) = token_of(&entry.path()) else {
                continue;
            };
            let over = |found: &Found| !found.open && now - found.written_at >= SETTLED;
            if let Some(known) = before.remove(&token).filter(over) {
                self.outputs.insert(token, known);
                continue;
            }
            if !entry.file_type()?.is_dir() {
                continue;
            }
            match self.read_output(token, &entry.path()) {
                Ok(output) => {
                    self.outputs.insert(token, output);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // Of jobs that have no output any more.
        drop(before);
        self.jobs.retain(|job| Arc::strong_count(job) > 1);
        Ok(())
    }

    fn read_output(&mut self, token: i64, directory: &Path) -> io::Result<Found> {
        let (mut bytes, mut written_s) = (0, directory.metadata()?.mtime());
        for file in fs::read_dir(directory)? {
            let file = file?.metadata()?;
            bytes += file.blocks() * 512;
            written_s = written_s.max(file.mtime());
        }
        Ok(Found {
            token,
            open: is_open(directory)?,
            job: self.job(&read_job(&directory.join(ABOUT))),
            bytes,
            written_at: WallMs(written_s.saturating_mul(1000)),
        })
    }

    /// The one text of this name.
    fn job(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.jobs.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        self.jobs.insert(Arc::clone(&new));
        new
    }
}

/// What says nothing of its job is nobody's, and nobody asks for it by a job.
fn read_job(about: &Path) -> String {
    let about = fs::read_to_string(about).unwrap_or_default();
    let job = about.lines().find_map(|line| line.strip_prefix("job: "));
    job.unwrap_or_default().to_owned()
}

/// What has to go, in this order, and why.
fn plan<'a>(
    found: impl Iterator<Item = &'a Found> + Clone,
    bounds: Bounds,
    space: Space,
    now: WallMs,
) -> Vec<(Found, Why)> {
    let suggested = TOTAL_BYTES_MAX.min(space.size_bytes / TOTAL_SHARE);
    let total_max = bounds.total_bytes.unwrap_or(suggested);
    let mut total: u64 = found.clone().map(|output| output.bytes).sum();
    let mut number = found.clone().count();
    let mut free = space.free_bytes;
    let mut closed: Vec<&Found> = found
        .filter(|output| !output.open && now - output.written_at >= SETTLED)
        .collect();
    // The newest first, to count off what each job keeps.
    closed.sort_by_key(|output| std::cmp::Reverse(output.written_at));
    let mut of_job: BTreeMap<&str, u32> = BTreeMap::new();
    let mut order: Vec<(bool, &Found)> = Vec::new();
    for output in closed {
        let newer = of_job.entry(&output.job).or_default();
        let is_spared = *newer < bounds.of_each_job && !output.job.is_empty();
        *newer += 1;
        order.push((is_spared, output));
    }
    order.sort_by_key(|(is_spared, output)| (*is_spared, output.written_at));
    let mut doomed = Vec::new();
    for (is_spared, output) in order {
        let why = if now - output.written_at > bounds.age && !is_spared {
            Why::Age
        } else if total > total_max {
            Why::Total
        } else if number > OUTPUTS_MAX {
            Why::Number
        } else if free < space.floor_bytes() {
            Why::DiskFull
        } else {
            continue;
        };
        total -= output.bytes;
        number -= 1;
        free += output.bytes;
        doomed.push((output.clone(), why));
    }
    doomed
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(1_000_000_000_000);
    const GIB: u64 = 1 << 30;

    /// Written so many seconds ago, of so many GiB, and whether it is open.
    fn found(outputs: &[(i64, u64, bool)]) -> Vec<Found> {
        let found = |(index, &(seconds, gib, open)): (usize, &(i64, u64, bool))| Found {
            token: index as i64,
            job: "t/a".into(),
            bytes: gib * GIB,
            written_at: NOW - DurationMs::from_secs(seconds),
            open,
        };
        outputs.iter().enumerate().map(found).collect()
    }

    #[test]
    fn the_oldest_go_and_what_is_open_stays() {
        const DAY: i64 = 86_400;
        let roomy = (500, 1000);
        for (what, outputs, total, (free, size), expected) in [
            (
                "nothing is too much",
                &[(DAY, 1, false)][..],
                None,
                roomy,
                &[][..],
            ),
            (
                "older than seven days",
                &[(DAY, 1, false), (8 * DAY, 1, false), (9 * DAY, 1, true)],
                None,
                roomy,
                &[1],
            ),
            (
                "more than five GiB",
                &[
                    (100, 2, false),
                    (300, 2, false),
                    (200, 2, false),
                    (400, 2, true),
                ],
                None,
                roomy,
                &[1, 2],
            ),
            (
                "more than a tenth of a small disk",
                &[(100, 1, false), (300, 1, false)],
                None,
                (5, 15),
                &[1],
            ),
            (
                "more than was said",
                &[(100, 1, false), (300, 1, false)],
                Some(GIB),
                roomy,
                &[1],
            ),
            (
                "a full disk",
                &[(100, 1, false), (300, 1, false), (30, 1, false)],
                None,
                (0, 1000),
                &[1],
            ),
            ("written just now", &[(30, 9, false)], None, roomy, &[]),
        ] {
            let bounds = Bounds {
                age: DurationMs::from_secs(7 * DAY),
                of_each_job: 0,
                total_bytes: total,
            };
            let space = Space {
                free_bytes: free * GIB,
                size_bytes: size * GIB,
            };
            let doomed = plan(found(outputs).iter(), bounds, space, NOW);
            assert_eq!(names(&doomed), expected, "{what}");
        }
    }

    fn names(doomed: &[(Found, Why)]) -> Vec<i64> {
        doomed.iter().map(|(output, _)| output.token).collect()
    }

    #[test]
    fn not_more_are_kept_than_an_agent_remembers_in_a_few_mebibytes() {
        assert!(size_of::<Found>() <= 48, "{}", size_of::<Found>());
        let seconds_ago = |n: usize| (n as i64 + 100, 0, n < 10);
        let outputs: Vec<_> = (0..OUTPUTS_MAX + 3).map(seconds_ago).collect();
        let bounds = Bounds {
            age: DurationMs::from_secs(7 * 86_400),
            of_each_job: 3,
            total_bytes: None,
        };
        let space = Space {
            free_bytes: 500 * GIB,
            size_bytes: 1000 * GIB,
        };
        let doomed = plan(found(&outputs).iter(), bounds, space, NOW);
        let oldest = OUTPUTS_MAX as i64;
        assert_eq!(names(&doomed), [oldest + 2, oldest + 1, oldest]);
        assert!(doomed.iter().all(|(_, why)| *why == Why::Number));
    }

    #[test]
    fn the_newest_of_each_job_outlive_their_age_and_nothing_else() {
        const DAY: i64 = 86_400;
        let mut outputs = found(&[
            (9 * DAY, 1, false),
            (8 * DAY, 1, false),
            (40 * DAY, 1, false),
            (30 * DAY, 1, false),
            (50 * DAY, 1, false),
        ]);
        for (index, job) in [(2, "t/monthly"), (3, "t/monthly"), (4, "")] {
            outputs[index].job = job.into();
        }
        let doomed = |total, free| {
            let bounds = Bounds {
                age: DurationMs::from_secs(7 * DAY),
                of_each_job: 1,
                total_bytes: Some(total * GIB),
            };
            let space = Space {
                free_bytes: free * GIB,
                size_bytes: 1000 * GIB,
            };
            plan(outputs.iter(), bounds, space, NOW)
        };
        // What is nobody's is kept for nobody.
        assert_eq!(names(&doomed(100, 500)), [4, 2, 0]);
        assert_eq!(names(&doomed(1, 500)), [4, 2, 0, 3]);
        let all = doomed(100, 0);
        assert_eq!(names(&all), [4, 2, 0], "three of them make room enough");
        let whys: Vec<Why> = doomed(1, 500).into_iter().map(|(_, why)| why).collect();
        assert_eq!(whys, [Why::Age, Why::Age, Why::Age, Why::Total]);
    }

    #[test]
    fn old_outputs_are_removed_and_strangers_are_not() {
        let home = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        for name in ["7", "8", "mine"] {
            let directory = home.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("head"), "x").unwrap();
            for path in [directory.join("head"), directory] {
                fs::File::open(path).unwrap().set_modified(old).unwrap();
            }
        }
        // The last to be written is not old.
        fs::write(home.path().join("8/about"), "x").unwrap();
        let bounds = Bounds {
            age: DurationMs::from_secs(3600),
            of_each_job: 0,
            total_bytes: Some(u64::MAX),
        };
        let mut shelf = Shelf::default();
        keep(home.path(), bounds, true, &mut shelf).unwrap();
        let left = ["7", "8", "mine"].map(|name| home.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
        let why = removed::why(home.path(), 7).unwrap().unwrap();
        assert!(why.contains("--output-age"), "{why}");
        assert_eq!(removed::why(home.path(), 8).unwrap(), None);
        // What is over is remembered; what comes and goes is seen.
        assert_eq!(shelf.outputs.keys().copied().collect::<Vec<_>>(), [8]);
        fs::remove_dir_all(home.path()).unwrap();
        keep(home.path(), bounds, true, &mut shelf).unwrap();
        assert!(shelf.outputs.is_empty() && shelf.jobs.is_empty());
    }

    #[test]
    fn what_is_too_much_goes_faster_than_attempts_come() {
        assert_eq!(next_look(false, 0), (11, LOOK));
        assert_eq!(next_look(false, 11), (10, LOOK));
        assert_eq!(next_look(true, 0), (0, BREATH));
        let each_second = REMOVED_AT_ONCE as f64 / BREATH.as_secs_f64();
        assert!(each_second > 1_500.0, "{each_second} a second");
    }

    #[test]
    fn a_disk_is_full_below_its_floor() {
        for (free_bytes, size_bytes, expected) in [
            (GIB, 1000 * GIB, false),
            (200 << 20, 1000 * GIB, true),
            (200 << 20, 10 * GIB, false),
            (50 << 20, 10 * GIB, true),
        ] {
            let space = Space {
                free_bytes,
                size_bytes,
            };
            assert_eq!(space.is_full(), expected, "{space:?}");
        }
    }
}
