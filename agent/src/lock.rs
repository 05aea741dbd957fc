//! What belongs to one process at a time.
//!
//! A second one is refused before it does anything, and told who has what it wants: a command
//! typed once more beside a unit that is up must cost nobody a host.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
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
        let missing = home.path().join("nowhere/lock");
        assert!(matches!(take(&missing), Err(Refused::Failed(_))));
    }
}
