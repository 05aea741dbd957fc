//! What belongs to one process at a time.
//!
//! A second one is refused before it does anything, and told who has what it wants: a command
//! typed once more beside a unit that is up must cost nobody a host.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// By this process, where that is known.
    Held {
        pid: Option<i32>,
    },
    Failed(io::Error),
}

/// How often a directory is made again that somebody removes at the same time.
const MAKES_MAX: u32 = 100;

/// Makes the directory where it is missing, with this mode, and locks a file of this name in it. What
/// is kept there may vanish at any moment, between the two as well.
pub(crate) fn take_in(directory: &Path, mode: u32, name: &str) -> Result<Flock<File>, Refused> {
    let mut makes = 0;
    loop {
        makes += 1;
        let mut make = DirBuilder::new();
        let made = make.mode(mode).recursive(true).create(directory);
        let taken = made
            .map_err(Refused::Failed)
            .and_then(|()| take(&directory.join(name)));
        match taken {
            // As `AlreadyExists` comes what vanished between two looks of the library.
            Err(Refused::Failed(error))
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists)
                    && makes < MAKES_MAX => {}
            taken => return taken,
        }
    }
}

/// Locks this file, which is made if absent, and writes in it who has it. The kernel releases it
/// when the process ends, however it ends.
pub(crate) fn take(path: &Path) -> Result<Flock<File>, Refused> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let file = opened.map_err(Refused::Failed)?;
    let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((file, Errno::EWOULDBLOCK)) => {
            return Err(Refused::Held {
                pid: read_pid(file),
            });
        }
        Err((_, errno)) => return Err(Refused::Failed(errno.into())),
    };
    let noted = lock
        .set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| writeln!(lock, "{}", std::process::id()));
    if let Err(error) = noted {
        // On a full disk; the lock holds without it.
        tracing::warn!(path = %path.display(), %error, "the lock does not name this process");
    }
    Ok(lock)
}

/// Without it the refusal stands all the same.
fn read_pid(mut file: File) -> Option<i32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// ` (process 7)`, for the middle of a sentence.
pub(crate) fn of_process(pid: Option<i32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_had_once_and_says_by_whom() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        std::fs::write(&path, "123456789 and more than a pid is long\n").unwrap();
        let first = take(&path).unwrap();
        let own = std::process::id().cast_signed();
        let Err(Refused::Held { pid }) = take(&path) else {
            panic!("it is held");
        };
        assert_eq!(pid, Some(own));
        drop(first);
        take(&path).unwrap();
        let made = home.path().join("a/new/one");
        take_in(&made, 0o750, "lock").unwrap();
        let missing = home.path().join("nowhere/lock");
        assert!(matches!(take(&missing), Err(Refused::Failed(_))));
    }

    #[test]
    fn a_directory_that_is_removed_meanwhile_is_made_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agent");
        let end = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    // Gone already, or not empty again.
                    let _ = std::fs::remove_dir_all(&path);
                }
            });
            let taken: Vec<_> = (0..500).map(|_| take_in(&path, 0o750, "lock")).collect();
            end.store(true, std::sync::atomic::Ordering::Relaxed);
            for lock in taken {
                match lock {
                    Ok(_) | Err(Refused::Held { .. }) => {}
                    Err(Refused::Failed(error)) => panic!("{error}"),
                }
            }
        });
    }
}
