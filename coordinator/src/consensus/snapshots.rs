//! The one snapshot that a member keeps, for those that need more than the log still has.
//!
//! It is made under another name, synced, renamed, and the directory synced; whatever lies here
//! under another name after a start was cut off, and is removed. It is never the only place of
//! anything: one that cannot be read is removed as well, and the next is made from the ledger.
//!
//! The name of the kept one may stand for a newer snapshot at any moment, so nobody works on that:
//! a [`SnapshotFile`] is a name of its own for one file, and goes with whoever holds it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use ledger::log::Position;
use ledger::replica::Applied;
use ledger::snapshot::{self, SnapshotError};

use super::fail;
use crate::exit::causes;
use crate::files;

/// A whole snapshot, under a name that nobody else uses.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
    /// Up to where it goes, once all of it was read and found to be whole.
    whole: OnceLock<Applied>,
}

impl SnapshotFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all of it, which takes as long as the disk does, the first time; answers up to where it
    /// goes.
    pub(super) fn verify(&self) -> Result<&Applied, SnapshotError> {
        if let Some(applied) = self.whole.get() {
            return Ok(applied);
        }
        let applied = snapshot::verify(&self.path)?;
        Ok(self.whole.get_or_init(|| applied))
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if let Err(error) = files::remove(&self.path) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "a snapshot that is no longer needed takes up room");
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("making the directory of snapshots {path}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("putting the snapshot {path} in its place")]
    Place { path: PathBuf, source: io::Error },
    #[error("the snapshot {path} does not go as far as its sender said")]
    Elsewhere { path: PathBuf },
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

#[derive(Clone)]
pub(super) struct Snapshots {
    directory: PathBuf,
    ledger: PathBuf,
    /// Up to where the kept one goes. Whoever asks does not wait for the copying of another.
    kept: Arc<Mutex<Option<Applied>>>,
    /// Held while another is made, until it is in its place.
    replacing: Arc<Mutex<()>>,
    names: Arc<AtomicU64>,
}

impl Snapshots {
    pub(super) fn open(directory: &Path, ledger: &Path) -> Result<Snapshots, KeepError> {
        let make = |source| KeepError::Directory {
            path: directory.to_owned(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(make)?;
        let snapshots = Snapshots {
            directory: directory.to_owned(),
            ledger: ledger.to_owned(),
            kept: Arc::default(),
            replacing: Arc::default(),
            names: Arc::default(),
        };
        let place = snapshots.place();
        for entry in fs::read_dir(directory).map_err(make)? {
            let path = entry.map_err(make)?.path();
            if path != place {
                remove(&path)?;
            }
        }
        if place.exists() {
            snapshots.take_up(snapshot::examine(&place))?;
        }
        Ok(snapshots)
    }

    /// Reads all of the kept one, if the ledger is behind it and it would be put in its place.
    pub(super) fn verify_ahead_of(&self, ledger: Option<Position>) -> Result<(), KeepError> {
        if index(self.reached()) > index(ledger) {
            self.take_up(snapshot::verify(&self.place()))?;
        }
        Ok(())
    }

    /// One that is of no use goes; one that a disk does not give away stays.
    fn take_up(&self, examined: Result<Applied, SnapshotError>) -> Result<(), KeepError> {
        let applied = match examined {
            Ok(applied) => Some(applied),
            Err(error @ (SnapshotError::Unreadable { .. } | SnapshotError::Length { .. })) => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "the snapshot cannot be used; another will be made from the ledger, or asked for"
                );
                remove(&self.place())?;
                None
            }
        };
        *self.kept() = applied;
        Ok(())
    }

    /// Up to where the kept one goes.
    pub(super) fn reached(&self) -> Option<Position> {
        self.kept().as_ref()?.position
    }

    pub(super) fn current(&self) -> Result<Option<(Applied, SnapshotFile)>, KeepError> {
        let kept = self.kept();
        let Some(applied) = kept.clone() else {
            return Ok(None);
        };
        let file = self.fresh();
        link(&self.place(), file.path())?;
        Ok(Some((applied, file)))
    }

    /// A name for a snapshot that is to be made or received, in the same file system as the kept
    /// one; there is no file yet.
    pub(super) fn fresh(&self) -> SnapshotFile {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        SnapshotFile {
            path: self.directory.join(format!("snapshot.{number}")),
            whole: OnceLock::new(),
        }
    }

    /// Copies the ledger as it is now. Takes as long as the disk does.
    pub(super) fn make(&self) -> Result<(Applied, SnapshotFile), KeepError> {
        let _replacing = self.replacing();
        let made = self.fresh();
        // It holds what the ledger holds.
        files::create_private(made.path()).map_err(|source| KeepError::Place {
            path: made.path().to_owned(),
            source,
        })?;
        let applied = snapshot::copy(&self.ledger, made.path())?;
        fail::point("snapshot copied");
        self.put_in_place(&made, &applied)?;
        Ok((applied, made))
    }

    /// Keeps a snapshot that goes up to `expected`, if it is whole.
    pub(super) fn keep(
        &self,
        snapshot: &SnapshotFile,
        expected: Option<Position>,
    ) -> Result<(), KeepError> {
        let _replacing = self.replacing();
        let applied = snapshot.verify()?;
        if applied.position != expected {
            let path = snapshot.path().to_owned();
            return Err(KeepError::Elsewhere { path });
        }
        self.put_in_place(snapshot, applied)
    }

    fn put_in_place(&self, snapshot: &SnapshotFile, applied: &Applied) -> Result<(), KeepError> {
        let place = self.place();
        let put = |source| KeepError::Place {
            path: place.clone(),
            source,
        };
        let file = File::open(snapshot.path()).map_err(put)?;
        // What takes long, before anybody is kept waiting.
        file.sync_all().map_err(put)?;
        let mut kept = self.kept();
        // Made from a ledger that is behind what was received meanwhile.
        if let Some(kept) = &*kept
            && index(kept.position) >= index(applied.position)
        {
            return Ok(());
        }
        let temporary = self.directory.join("snapshot.new");
        remove(&temporary)?;
        link(snapshot.path(), &temporary)?;
        fail::point("snapshot linked");
        files::put_in_place(&file, &temporary, &place).map_err(put)?;
        fail::point("snapshot in place");
        *kept = Some(applied.clone());
        Ok(())
    }

    fn place(&self) -> PathBuf {
        self.directory.join("snapshot.db")
    }

    fn kept(&self) -> MutexGuard<'_, Option<Applied>> {
        self.kept.lock().expect("nobody panics while holding it")
    }

    fn replacing(&self) -> MutexGuard<'_, ()> {
        self.replacing
            .lock()
            .expect("nobody panics while holding it")
    }
}

fn index(position: Option<Position>) -> Option<u64> {
    position.map(|position| position.index)
}

fn link(from: &Path, to: &Path) -> Result<(), KeepError> {
    fs::hard_link(from, to).map_err(|source| KeepError::Place {
        path: to.to_owned(),
        source,
    })
}

fn remove(path: &Path) -> Result<(), KeepError> {
    files::remove(path).map_err(|source| KeepError::Place {
        path: path.to_owned(),
        source,
    })
}
