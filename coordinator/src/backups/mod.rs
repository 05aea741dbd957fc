//! Backups of the ledger as files, and a data directory that goes on from one.
//!
//! Under its name a backup is whole, tried and on the disk, or it is not there. It is made beside a
//! coordinator that runs or by itself; a restore has its directory for itself alone.

mod schedule;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ledger::Done;
use ledger::backup::{self, Backup, BackupError, Maker, Seal};
use ledger::command::Restore;

use crate::LEDGER_FILE;
use crate::clock::read_now;
use crate::data_dir::{DataDir, DataDirError, LOCK_FILE, TOKEN_FILE};
use crate::files;

pub(crate) use schedule::keep;
pub use schedule::{BackupSchedule, ShipError};

/// What may lie in a data directory that a ledger is restored to: how its process is known.
const NOT_OF_A_LEDGER: [&str; 3] = [LOCK_FILE, "identity", TOKEN_FILE];

/// Ends the name of a backup that is being made; a dot begins it.
const PARTIAL_SUFFIX: &str = ".partial";

/// A ledger on its way into a data directory.
const PARTIAL: &str = "restore.partial";

/// Room that is left on the disk beside a backup.
const ROOM_LEFT: u64 = 16 << 20;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("{path} is there already, and a backup replaces no file: give it another name")]
    Exists { path: PathBuf },
    #[error("{path} names no file")]
    NoFile { path: PathBuf },
    #[error("looking for room in {path}")]
    Room { path: PathBuf, source: io::Error },
    #[error(
        "{path} has room for {} MiB, and the backup needs {} MiB: make room, or name another disk",
        .has >> 20,
        (.needs >> 20) + 1
    )]
    NoRoom { path: PathBuf, has: u64, needs: u64 },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Backup(#[from] BackupError),
}

/// Why a data directory was not restored. Nothing of a ledger is in it then.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Room(#[from] MakeError),
    #[error("preparing the data directory")]
    DataDir(#[from] DataDirError),
    #[error(
        "{path} is not empty: it holds {found}. A restore replaces nothing; move the directory aside, or name another"
    )]
    NotEmpty { path: PathBuf, found: String },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
}

/// A data directory that was restored.
#[derive(Debug)]
pub struct Restored {
    pub seal: Seal,
    pub generation: i64,
    /// Runs that were open in the backup, and need a person now.
    pub runs: u32,
    /// Jobs whose schedule since the backup is unknown.
    pub jobs: u32,
}

/// Makes a backup of the ledger in a data directory, whether or not a coordinator runs on it. Takes as
/// long as the disk does.
pub fn back_up(data_dir: &Path, to: &Path, node: &str) -> Result<Seal, MakeError> {
    let ledger = data_dir.join(LEDGER_FILE);
    if to.exists() {
        return Err(MakeError::Exists {
            path: to.to_owned(),
        });
    }
    let no_file = || MakeError::NoFile {
        path: to.to_owned(),
    };
    let name = to.file_name().ok_or_else(no_file)?.to_string_lossy();
    let directory = files::directory_of(to);
    let partial = directory.join(format!(".{name}{PARTIAL_SUFFIX}"));
    check_room(directory, backup::estimate(&ledger)?)?;
    let maker = Maker {
        node: node.to_owned(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        at: read_now().wall,
    };
    let made = write_backup(&ledger, &partial, to, &maker);
    if made.is_err() {
        // Whatever keeps it from being removed keeps the next from being made, which says so.
        let _ = files::remove(&partial);
    }
    made
}

fn write_backup(
    ledger: &Path,
    partial: &Path,
    to: &Path,
    maker: &Maker,
) -> Result<Seal, MakeError> {
    let write = |source| MakeError::Write {
        path: partial.to_owned(),
        source,
    };
    files::remove(partial).map_err(write)?;
    let mut file = files::open_private(partial).map_err(write)?;
    let seal = backup::make(ledger, partial, &mut file, maker)?;
    files::put_in_place(&file, partial, to).map_err(write)?;
    Ok(seal)
}

/// Reads a backup and compares all of it with its seal; says what it is.
pub fn check(backup: &Path) -> Result<Seal, BackupError> {
    open(backup)?.check()
}

fn open(backup: &Path) -> Result<Backup<File>, BackupError> {
    let file = File::open(backup).map_err(|source| BackupError::Read {
        path: backup.to_owned(),
        source,
    })?;
    Ok(Backup::new(file, backup))
}

/// Makes a data directory whose ledger goes on from a backup, in a new group of one voter.
pub fn restore(
    backup: &Path,
    data_dir: &Path,
    by: &str,
    reason: &str,
) -> Result<Restored, RestoreError> {
    let mut backup = open(backup)?;
    let seal = backup.seal()?;
    let _data = DataDir::open(data_dir)?;
    check_empty(data_dir)?;
    check_room(data_dir, seal.bytes)?;
    let partial = data_dir.join(PARTIAL);
    let restore = Restore {
        clock: read_now().wall,
        taken_at: seal.taken_at,
        by: by.to_owned(),
        reason: reason.to_owned(),
    };
    let done = write_ledger(&mut backup, &partial, data_dir, restore);
    if done.is_err() {
        // What is left is removed by the next restore.
        let _ = files::remove(&partial);
    }
    match done? {
        Done::Restored {
            generation,
            runs,
            jobs,
        } => Ok(Restored {
            seal,
            generation,
            runs,
            jobs,
        }),
        other => unreachable!("a restore is answered by {other:?}"),
    }
}

fn write_ledger(
    backup: &mut Backup<File>,
    partial: &Path,
    data_dir: &Path,
    restore: Restore,
) -> Result<Done, RestoreError> {
    let write = |source| RestoreError::Write {
        path: partial.to_owned(),
        source,
    };
    let mut file = files::create_private(partial).map_err(write)?;
    backup.unpack(&mut file)?;
    let done = backup::restore(partial, restore)?;
    files::put_in_place(&file, partial, &data_dir.join(LEDGER_FILE)).map_err(write)?;
    Ok(done)
}

/// Refuses a directory that anything of a ledger is in; removes what a restore before has left.
fn check_empty(data_dir: &Path) -> Result<(), RestoreError> {
    let write = |source| RestoreError::Write {
        path: data_dir.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(data_dir).map_err(write)? {
        let entry = entry.map_err(write)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PARTIAL) {
            files::remove(&entry.path()).map_err(write)?;
        } else if !NOT_OF_A_LEDGER.contains(&name.as_str()) {
            found.push(name);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.sort_unstable();
    Err(RestoreError::NotEmpty {
        path: data_dir.to_owned(),
        found: found.join(", "),
    })
}

fn check_room(directory: &Path, bytes: u64) -> Result<(), MakeError> {
    let disk = files::read_disk(directory).map_err(|source| MakeError::Room {
        path: directory.to_owned(),
        source,
    })?;
    let has = disk.spare_bytes;
    let needs = bytes + ROOM_LEFT;
    if has >= needs {
        return Ok(());
    }
    Err(MakeError::NoRoom {
        path: directory.to_owned(),
        has,
        needs,
    })
}

#[cfg(test)]
mod tests {
    use ledger::Store;
    use protocol::Rules;

    use super::*;

    /// A data directory with a ledger that a member of a group has left.
    pub(super) fn data() -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        let ledger = data.path().join(LEDGER_FILE);
        drop(Store::open_replica(&ledger, Rules::all()).unwrap());
        data
    }

    pub(super) fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_backup_has_its_name_when_it_is_whole_and_replaces_nothing() {
        let (data, place) = (data(), tempfile::tempdir().unwrap());
        let to = place.path().join("a.backup");
        let seal = back_up(data.path(), &to, "c1").unwrap();
        assert_eq!(check(&to).unwrap(), seal);
        assert_eq!(names(place.path()), ["a.backup"]);
        let again = back_up(data.path(), &to, "c1").unwrap_err();
        assert!(matches!(again, MakeError::Exists { .. }), "{again}");
        let nowhere = back_up(data.path(), &place.path().join("no/b"), "c1").unwrap_err();
        assert!(matches!(nowhere, MakeError::Room { .. }), "{nowhere}");
    }

    #[test]
    fn nothing_is_left_of_a_backup_that_failed() {
        let (data, place) = (data(), tempfile::tempdir().unwrap());
        // Damage where the copy does not look and the trial does.
        fs::write(data.path().join(LEDGER_FILE), [0x55; 8192]).unwrap();
        back_up(data.path(), &place.path().join("a.backup"), "c1").unwrap_err();
        assert_eq!(names(place.path()), Vec::<String>::new());
    }

    #[test]
    fn a_directory_is_restored_once_and_only_where_nothing_of_a_ledger_is() {
        let (data, place) = (data(), tempfile::tempdir().unwrap());
        let to = place.path().join("a.backup");
        back_up(data.path(), &to, "c1").unwrap();
        let new = place.path().join("new");
        fs::create_dir_all(new.join("identity")).unwrap();
        fs::write(new.join("restore.partial-wal"), "left behind").unwrap();
        let restored = restore(&to, &new, "ada", "lost").unwrap();
        assert!(restored.generation > 0);
        assert_eq!(names(&new), ["identity", "ledger.db", "lock"]);
        let again = restore(&to, &new, "ada", "lost").unwrap_err();
        assert!(
            matches!(&again, RestoreError::NotEmpty { found, .. } if found == "ledger.db"),
            "{again}"
        );
        let held = DataDir::open(&place.path().join("held")).unwrap();
        let running = restore(&to, &place.path().join("held"), "ada", "lost").unwrap_err();
        assert!(
            matches!(running, RestoreError::DataDir(DataDirError::InUse { .. })),
            "{running}"
        );
        drop(held);
    }

    #[test]
    fn a_damaged_backup_leaves_no_ledger() {
        let (data, place) = (data(), tempfile::tempdir().unwrap());
        let to = place.path().join("a.backup");
        back_up(data.path(), &to, "c1").unwrap();
        let mut bytes = fs::read(&to).unwrap();
        bytes[5000] ^= 1;
        fs::write(&to, bytes).unwrap();
        let new = place.path().join("new");
        let error = restore(&to, &new, "ada", "lost").unwrap_err();
        assert!(
            matches!(error, RestoreError::Backup(BackupError::Damaged { .. })),
            "{error}"
        );
        assert_eq!(names(&new), ["lock"]);
    }
}
