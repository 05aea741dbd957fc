//! The supervisor's directory: for it alone, and there for as long as it lives.
//!
//! Nothing on a host is precious, this directory included. A supervisor whose directory is
//! deleted goes on holding its processes, but no agent that is started afterwards could find it:
//! so it looks now and then whether the socket is still where agents look for it, and makes
//! directory, lock and socket again where it is not. Where another supervisor was quicker, that
//! one has swept what ran here, and the older one has nothing left to do.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use super::{Error, socket, socket_path};
use crate::lock::{self, Refused};

/// Longest path a unix socket can have, its closing NUL not counted.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A directory that this process has to itself.
pub(super) struct Place {
    directory: PathBuf,
    /// Held for as long as any process of this supervisor is between fork and what shows whose it
    /// is, its cgroup or its environment, so that no successor can sweep before.
    lock: Flock<File>,
}

/// Where agents come in.
pub(super) struct Door {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file: another supervisor's has the same path.
    file: (u64, u64),
}

impl Place {
    /// Makes the directory where it is missing and takes it for this process alone.
    pub(super) fn take(path: &Path) -> Result<Place, Error> {
        let directory = prepare(path)?;
        let lock = lock(&directory)?;
        let socket = socket_path(&directory);
        if socket.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(Error::SocketPath {
                path: socket,
                longest: SOCKET_PATH_BYTES_MAX,
            });
        }
        Ok(Place { directory, lock })
    }

    /// Whether the lock still keeps others out: one that was deleted, or lies elsewhere now, does
    /// not.
    pub(super) fn is_held(&self) -> bool {
        let held = self.lock.metadata().map(|held| identity(&held));
        matches!((held, identify(&lock_path(&self.directory))), (Ok(a), Ok(b)) if a == b)
    }

    /// By its one true name: marks in environments are compared letter by letter.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Begins to listen. What an earlier supervisor left in the socket's place goes.
    pub(super) fn open_door(&self) -> Result<Door, Error> {
        let path = socket_path(&self.directory);
        let open = || Ok((socket::listen(&path)?, identify(&path)?));
        match open() {
            Ok((listener, file)) => Ok(Door {
                listener,
                path,
                file,
            }),
            Err(source) => Err(Error::Listen { path, source }),
        }
    }
}

impl Door {
    /// Whether whoever connects to the socket's path comes in here.
    pub(super) fn can_be_found(&self) -> bool {
        identify(&self.path).is_ok_and(|file| file == self.file)
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    Ok(identity(&fs::symlink_metadata(path)?))
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn lock_path(directory: &Path) -> PathBuf {
    directory.join("lock")
}

fn prepare(path: &Path) -> Result<PathBuf, Error> {
    let prepare = || {
        DirBuilder::new().mode(0o711).recursive(true).create(path)?;
        let directory = fs::canonicalize(path)?;
        // Users that attempts run as pass through to their working directories, and see nothing
        // on the way: lock, socket and heap are closed to them.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o711))?;
        Ok(directory)
    };
    prepare().map_err(|source| Error::Directory {
        path: path.to_owned(),
        source,
    })
}

fn lock(directory: &Path) -> Result<Flock<File>, Error> {
    let path = lock_path(directory);
    lock::take(&path).map_err(|refused| match refused {
        Refused::Held { pid } => Error::AlreadyRunning {
            directory: directory.to_owned(),
            pid,
        },
        Refused::Failed(source) => Error::Directory { path, source },
    })
}
