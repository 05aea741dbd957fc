//! Files that are the coordinator's alone: private from their first moment on, and under their name
//! whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

/// Opens a file as it is; one that is made here is private.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Makes a private file where there is none.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Removes a file that need not be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives a file that is complete its name, in the same directory. On return the power may go.
pub(crate) fn put_in_place(file: &File, temporary: &Path, place: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(temporary, place)?;
    File::open(directory_of(place))?.sync_all()
}

/// The directory that a file lies in; of a bare name that is the one this process works in.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

/// The disk below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) read_only: bool,
    /// What this process could still write.
    pub(crate) spare_bytes: u64,
}

pub(crate) fn read_disk(directory: &Path) -> io::Result<Disk> {
    let disk = statvfs(directory)?;
    Ok(Disk {
        read_only: disk.flags().contains(FsFlags::ST_RDONLY),
        spare_bytes: disk.blocks_available() * disk.fragment_size(),
    })
}
