//! How much output stays on a host: bounded by age, by its sum and by what is left of the disk.
//!
//! Outputs of ended attempts go, oldest first; one that a log writer has open never does. What a
//! crash has left behind is open to nobody and goes in its turn. When the disk is nearly full in
//! spite of that, nothing is started here: a host that cannot keep what a job prints is no place
//! for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_core::agent::DiskFull;
use nix::sys::statvfs::statvfs;
use protocol::{DurationMs, WallMs};
use tokio::sync::mpsc;

use super::layout::is_open;
use crate::clock;
use crate::run::Input;

/// The disk is looked at this often, and what lies on it every so many looks.
const LOOK: Duration = Duration::from_secs(5);
const LOOKS_BETWEEN_SWEEPS: u32 = 12;

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
    /// `None`: as much as the disk's size suggests.
    pub(crate) total_bytes: Option<u64>,
}

/// One attempt's output as it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    directory: PathBuf,
    bytes: u64,
    written_at: WallMs,
    open: bool,
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

/// Sees to the bounds for as long as anybody listens to `inputs`, who is told of a full disk.
pub(crate) async fn run(directory: PathBuf, bounds: Bounds, inputs: mpsc::Sender<Input>) {
    let mut told = false;
    for look in 0_u32.. {
        let directory = directory.clone();
        let due = look % LOOKS_BETWEEN_SWEEPS == 0;
        // A disk that hangs holds a thread, and its last verdict stands.
        let looked = tokio::task::spawn_blocking(move || keep(&directory, bounds, due)).await;
        match looked.map_err(io::Error::other).and_then(|kept| kept) {
            Ok(full) => {
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
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes what is too much, if that is due or the disk is full; whether it is full then.
fn keep(directory: &Path, bounds: Bounds, due: bool) -> io::Result<Option<DiskFull>> {
    let space = read_space(directory)?;
    if !due && !space.is_full() {
        return Ok(None);
    }
    let found = read_outputs(directory)?;
    let doomed = plan(&found, bounds, space, clock::now().wall);
    for output in &doomed {
        match fs::remove_dir_all(&output.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let directory = output.directory.display();
                tracing::warn!(%directory, %error, "an old output cannot be removed");
            }
            _ => {}
        }
    }
    if !doomed.is_empty() {
        tracing::info!(outputs = doomed.len(), "old output was removed");
    }
    Ok(read_space(directory)?.full(directory))
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

/// Directories that are named as attempts are; others are none of ours.
fn read_outputs(directory: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_token = name
            .to_str()
            .is_some_and(|name| name.parse::<i64>().is_ok());
        if !is_token || !entry.file_type()?.is_dir() {
            continue;
        }
        match read_output(entry.path()) {
            Ok(output) => found.push(output),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn read_output(directory: PathBuf) -> io::Result<Found> {
    let (mut bytes, mut written_s) = (0, directory.metadata()?.mtime());
    for file in fs::read_dir(&directory)? {
        let file = file?.metadata()?;
        bytes += file.blocks() * 512;
        written_s = written_s.max(file.mtime());
    }
    Ok(Found {
        open: is_open(&directory)?,
        directory,
        bytes,
        written_at: WallMs(written_s.saturating_mul(1000)),
    })
}

/// What has to go, oldest first.
fn plan(found: &[Found], bounds: Bounds, space: Space, now: WallMs) -> Vec<Found> {
    let suggested = TOTAL_BYTES_MAX.min(space.size_bytes / TOTAL_SHARE);
    let total_max = bounds.total_bytes.unwrap_or(suggested);
    let mut total: u64 = found.iter().map(|output| output.bytes).sum();
    let mut free = space.free_bytes;
    let mut closed: Vec<&Found> = found
        .iter()
        .filter(|output| !output.open && now - output.written_at >= SETTLED)
        .collect();
    closed.sort_by_key(|output| output.written_at);
    let mut doomed = Vec::new();
    for output in closed {
        let is_old = now - output.written_at > bounds.age;
        if !is_old && total <= total_max && free >= space.floor_bytes() {
            break;
        }
        total -= output.bytes;
        free += output.bytes;
        doomed.push(output.clone());
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
            directory: index.to_string().into(),
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
                total_bytes: total,
            };
            let space = Space {
                free_bytes: free * GIB,
                size_bytes: size * GIB,
            };
            let doomed = plan(&found(outputs), bounds, space, NOW);
            let names: Vec<usize> = doomed
                .iter()
                .map(|output| output.directory.to_str().unwrap().parse().unwrap())
                .collect();
            assert_eq!(names, expected, "{what}");
        }
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
            total_bytes: Some(u64::MAX),
        };
        keep(home.path(), bounds, true).unwrap();
        let left = ["7", "8", "mine"].map(|name| home.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
        fs::remove_dir_all(home.path()).unwrap();
        keep(home.path(), bounds, true).unwrap();
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
