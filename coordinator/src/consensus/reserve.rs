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
use tokio::sync::watch;

use crate::files::{directory_of, open_private, read_disk};

/// Room that is held.
const BYTES: u64 = 64 << 20;

/// With less than this to spare, somebody is told.
const SPARE_MIN: u64 = 1 << 30;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(60);

/// What is left of the disk on which log and ledger lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    #[default]
    Enough,
    /// It fills up; when it is full, this node ends.
    Short { spare_bytes: u64 },
}

impl Room {
    /// What is left, where it is too little.
    pub(crate) fn short(self) -> Option<u64> {
        match self {
            Room::Enough => None,
            Room::Short { spare_bytes } => Some(spare_bytes),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Take,
    GiveUp,
}

/// What to do about the reserve when so much of it is held and so much is to spare beside it.
fn plan(held: u64, spare: u64) -> Plan {
    if held < BYTES && spare >= 4 * BYTES {
        Plan::Take
    } else if held > 0 && spare < BYTES {
        Plan::GiveUp
    } else {
        Plan::Nothing
    }
}

fn room(spare_bytes: u64) -> Room {
    if spare_bytes < SPARE_MIN {
        Room::Short { spare_bytes }
    } else {
        Room::Enough
    }
}

/// Takes the room, or gives it up where the disk has hardly any other.
pub(super) fn keep(path: &Path) {
    let kept = held(path).and_then(|held| {
        let spare = spare(path)?;
        let plan = plan(held, spare);
        if plan == Plan::GiveUp {
            tracing::error!(
                spare,
                "the disk is full: the reserve is given up to start at all; make room at once"
            );
        }
        execute(plan, path)
    });
    if let Err(error) = kept {
        let path = path.display();
        tracing::warn!(%path, %error, "no room could be reserved on the disk");
    }
}

/// Says when the disk fills up, and takes the room again when there is some.
pub(super) async fn watch(path: PathBuf, say: watch::Sender<Room>) {
    let mut interval = tokio::time::interval(EVERY);
    loop {
        interval.tick().await;
        let now = match spare(&path) {
            Ok(spare) => room(spare),
            Err(error) => {
                tracing::warn!(%error, "how full the ledger's disk is, is unknown");
                continue;
            }
        };
        let before = say.send_replace(now);
        if let (Room::Enough, Room::Short { spare_bytes }) = (before, now) {
            tracing::warn!(
                spare = spare_bytes,
                "the disk of the ledger fills up; when it is full this node ends"
            );
        }
        if now == Room::Enough {
            keep(&path);
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

fn execute(plan: Plan, path: &Path) -> io::Result<()> {
    match plan {
        Plan::Nothing => Ok(()),
        Plan::Take => {
            let file = open_private(path)?;
            posix_fallocate(&file, 0, BYTES.cast_signed())?;
            Ok(())
        }
        Plan::GiveUp => fs::remove_file(path),
    }
}

/// Bytes that this process could still write beside `path`.
fn spare(path: &Path) -> io::Result<u64> {
    Ok(read_disk(directory_of(path))?.spare_bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn room_is_taken_where_there_is_plenty_and_given_up_where_there_is_none() {
        const MIB: u64 = 1 << 20;
        for (held, spare, expected) in [
            (0, 256, Plan::Take),
            (0, 255, Plan::Nothing),
            // One that was cut off while it was made.
            (63, 256, Plan::Take),
            (64, 9999, Plan::Nothing),
            (64, 64, Plan::Nothing),
            (64, 63, Plan::GiveUp),
            (1, 0, Plan::GiveUp),
            (0, 0, Plan::Nothing),
        ] {
            assert_eq!(plan(held * MIB, spare * MIB), expected, "{held} {spare}");
        }
        assert_eq!(room(1 << 30), Room::Enough);
        let spare_bytes = (1 << 30) - 1;
        assert_eq!(room(spare_bytes), Room::Short { spare_bytes });
    }

    #[test]
    fn what_is_held_is_really_taken_from_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reserve");
        assert_eq!(held(&path).unwrap(), 0);
        execute(Plan::Take, &path).unwrap();
        assert_eq!(held(&path).unwrap(), BYTES);
        let file = fs::metadata(&path).unwrap();
        assert!(file.blocks() * 512 >= BYTES, "{} blocks", file.blocks());
        execute(Plan::GiveUp, &path).unwrap();
        assert_eq!(held(&path).unwrap(), 0);
    }

    #[tokio::test]
    async fn whoever_asks_is_told_how_the_disk_stands() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reserve");
        // Nobody has looked yet.
        let stale = Room::Short { spare_bytes: 1 };
        let (say, mut told) = watch::channel(stale);
        let watching = tokio::spawn(watch(path.clone(), say));
        told.changed().await.unwrap();
        let now = *told.borrow();
        assert_eq!(now, room(spare(&path).unwrap()));
        watching.abort();
    }
}
