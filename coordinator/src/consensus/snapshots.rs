//! The one snapshot that a member keeps, for those that need more than the log still has.
//!
//! It is made under another name, synced, renamed, and the directory synced; whatever lies here
//! under another name after a start was cut off, and is removed. It is never the only place of
//! anything: one that cannot be read is removed as well, and the next is made from the ledger.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use ledger::log::Position;
use ledger::replica::Applied;
use ledger::snapshot::{self, SnapshotError};

use crate::files;

/// A whole snapshot: a file that nobody changes, though its name may come to stand for a newer one.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
}

impl SnapshotFile {
    /// A file that has arrived from elsewhere, whole.
    pub(super) fn arrived(path: PathBuf) -> SnapshotFile {
        SnapshotFile { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("making the directory of snapshots {path}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("putting the snapshot {path} in its place")]
    Place { path: PathBuf, source: io::Error },
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
        };
        let place = snapshots.place();
        for entry in fs::read_dir(directory).map_err(make)? {
            let path = entry.map_err(make)?.path();
            if path != place {
                remove(&path)?;
            }
        }
        if place.exists() {
            match snapshot::examine(&place) {
                Ok(applied) => *snapshots.kept() = Some(applied),
                Err(error) => {
                    tracing::warn!(
                        error = crate::exit::causes(&error),
                        "the snapshot cannot be used; another will be made from the ledger"
                    );
                    remove(&place)?;
                }
            }
        }
        Ok(snapshots)
    }

    /// Up to where the kept one goes.
    pub(super) fn reached(&self) -> Option<Position> {
        self.kept().as_ref()?.position
    }

    pub(super) fn current(&self) -> Option<(Applied, SnapshotFile)> {
        let applied = self.kept().clone()?;
        Some((applied, SnapshotFile { path: self.place() }))
    }

    /// Copies the ledger as it is now. Takes as long as the disk does.
    pub(super) fn make(&self) -> Result<(Applied, SnapshotFile), KeepError> {
        let _replacing = self.replacing();
        let temporary = self.directory.join("snapshot.new");
        remove(&temporary)?;
        // It holds what the ledger holds.
        files::create_private(&temporary).map_err(|source| KeepError::Place {
            path: temporary.clone(),
            source,
        })?;
        let applied = snapshot::copy(&self.ledger, &temporary)?;
        self.put_in_place(&temporary, &applied)?;
        Ok((applied, SnapshotFile { path: self.place() }))
    }

    /// Keeps a snapshot that lies complete somewhere in the same file system.
    pub(super) fn keep(
        &self,
        snapshot: &SnapshotFile,
    ) -> Result<(Applied, SnapshotFile), KeepError> {
        let _replacing = self.replacing();
        let applied = snapshot::examine(&snapshot.path)?;
        if snapshot.path != self.place() {
            let temporary = self.directory.join("snapshot.kept");
            remove(&temporary)?;
            fs::hard_link(&snapshot.path, &temporary).map_err(|source| KeepError::Place {
                path: snapshot.path.clone(),
                source,
            })?;
            self.put_in_place(&temporary, &applied)?;
        }
        Ok((applied, SnapshotFile { path: self.place() }))
    }

    fn put_in_place(&self, temporary: &Path, applied: &Applied) -> Result<(), KeepError> {
        let place = self.place();
        let put = || {
            let file = File::open(temporary)?;
            // What takes long, before anybody is kept waiting.
            file.sync_all()?;
            let mut kept = self.kept();
            files::put_in_place(&file, temporary, &place)?;
            *kept = Some(applied.clone());
            Ok(())
        };
        put().map_err(|source| KeepError::Place {
            path: place.clone(),
            source,
        })
    }

    /// Where one that arrives from a node is written, in the same file system. It is removed at the
    /// next start, and by whoever wrote it.
    pub(super) fn arriving(&self, from: u64) -> PathBuf {
        self.directory.join(format!("snapshot.from-{from}"))
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

fn remove(path: &Path) -> Result<(), KeepError> {
    files::remove(path).map_err(|source| KeepError::Place {
        path: path.to_owned(),
        source,
    })
}
