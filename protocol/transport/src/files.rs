//! Files that are there wholly or not at all: written beside their place, synced, then moved.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Mode of files that only their owner reads.
pub(crate) const PRIVATE: u32 = 0o600;
/// Mode of files that anybody may read.
pub(crate) const PUBLIC: u32 = 0o644;

/// Makes the directory, readable by its owner alone, where it is missing. Its parents are others' as
/// well: where they are missing they are made as anybody makes one.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Puts a file in its place, over an older one if there is one.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = write_beside(path, content, mode)?;
    fs::rename(&temporary, path).or_else(|error| give_up(&temporary, error))?;
    sync_directory_of(path)
}

/// Puts a file in its place; an existing one is left as it is and reported as `AlreadyExists`.
pub(crate) fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = write_beside(path, content, mode)?;
    // A link, unlike a rename, fails where the name is taken.
    fs::hard_link(&temporary, path).or_else(|error| give_up(&temporary, error))?;
    fs::remove_file(&temporary)?;
    sync_directory_of(path)
}

fn write_beside(path: &Path, content: &[u8], mode: u32) -> io::Result<PathBuf> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // What an interrupted run left; its mode and content are not to be trusted.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    match file.write_all(content).and_then(|()| file.sync_all()) {
        Ok(()) => Ok(temporary),
        Err(error) => give_up(&temporary, error),
    }
}

/// Removes the temporary file and passes the first error on; that the removal may fail as well
/// changes nothing, since the next run begins by removing it.
fn give_up<T>(temporary: &Path, error: io::Error) -> io::Result<T> {
    let _ = fs::remove_file(temporary);
    Err(error)
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn replace_overwrites_and_create_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pem");
        create(&path, b"first", PUBLIC).unwrap();
        let error = create(&path, b"second", PUBLIC).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, b"third", PRIVATE).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            PRIVATE
        );
    }

    #[test]
    fn nothing_is_left_beside_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pem");
        fs::write(directory.path().join("a.pem.new"), b"half").unwrap();
        create(&path, b"whole", PUBLIC).unwrap();
        create(&path, b"other", PUBLIC).unwrap_err();
        let names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["a.pem"]);
    }
}
