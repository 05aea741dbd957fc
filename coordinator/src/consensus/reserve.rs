//! Room on the disk that is kept for a bad night.
//!
//! A log that finds no room ends the process, and on a disk that is full to the last byte not even a
//! database can be opened to make it smaller. So a file of nothing holds some room, and is given up
//! when a start finds the disk full; and long before that, somebody is told.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::posix_fallocate;
use nix::sys::statvfs::statvfs;

use crate::files::open_private;

/// Room that is held.
const BYTES: u64 = 64 << 20;

/// With less than this to spare, somebody is told.
const SPARE_MIN: u64 = 1 << 30;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(60);

/// Takes the room, or gives it up where the disk has hardly any other.
pub(super) fn keep(path: &Path) {
    let kept = held(path).and_then(|held| {
        let spare = spare(path)?;
        if held < BYTES && spare >= 4 * BYTES {
            take(path)?;
        } else if held > 0 && spare < BYTES {
            fs::remove_file(path)?;
            tracing::error!(
                spare,
                "the disk is full: the reserve was given up to start at all; make room at once"
            );
        }
        Ok(())
    });
    if let Err(error) = kept {
        let path = path.display();
        tracing::warn!(%path, %error, "no room could be reserved on the disk");
    }
}

/// Says when the disk fills up, and takes the room again when there is some.
pub(super) async fn watch(path: PathBuf) {
    let mut interval = tokio::time::interval(EVERY);
    let mut told = false;
    loop {
        interval.tick().await;
        match spare(&path) {
            Ok(spare) if spare < SPARE_MIN => {
                if !told {
                    tracing::warn!(
                        spare,
                        "the disk of the ledger fills up; when it is full this node ends"
                    );
                }
                told = true;
            }
            Ok(_) => {
                told = false;
                if held(&path).is_ok_and(|held| held < BYTES) {
                    keep(&path);
                }
            }
            Err(error) => tracing::warn!(%error, "how full the ledger's disk is, is unknown"),
        }
    }
}

fn held(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Ok(file) => Ok(file.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn take(path: &Path) -> io::Result<()> {
    let file = open_private(path)?;
    posix_fallocate(&file, 0, BYTES.cast_signed())?;
    Ok(())
}

/// Bytes that this process could still write beside `path`.
fn spare(path: &Path) -> io::Result<u64> {
    let directory = path.parent().unwrap_or(path);
    let disk = statvfs(directory)?;
    Ok(disk.blocks_available() * disk.fragment_size())
}
