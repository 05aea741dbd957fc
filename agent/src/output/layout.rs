//! Where the output of an attempt lies: `about`, `head`, `tail-00000001` and on.
//!
//! `head` is the first of the output and stays. What follows goes into tails, of which the newest
//! few stay. So both ends of a long output are there, and its middle is not. `about` says whose
//! output this is; the log writer holds a lock on it for as long as more may come.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

pub(crate) const ABOUT: &str = "about";
const HEAD: &str = "head";
const TAIL: &str = "tail-";

/// One file of an output: 0 is the head, and tails count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part(pub(crate) u64);

impl Part {
    pub(crate) const HEAD: Part = Part(0);

    pub(crate) fn next(self) -> Part {
        Part(self.0 + 1)
    }

    pub(crate) fn path(self, directory: &Path) -> PathBuf {
        match self.0 {
            0 => directory.join(HEAD),
            number => directory.join(format!("{TAIL}{number:08}")),
        }
    }

    fn parse(name: &str) -> Option<Part> {
        if name == HEAD {
            return Some(Part::HEAD);
        }
        let number = name.strip_prefix(TAIL)?.parse().ok()?;
        (number > 0).then_some(Part(number))
    }
}

/// What there is of an output now, in its order.
pub(crate) fn read_parts(directory: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(directory)? {
        parts.extend(entry?.file_name().to_str().and_then(Part::parse));
    }
    parts.sort_unstable();
    Ok(parts)
}

/// Whether a log writer has this output open: more of it may come.
pub(crate) fn is_open(directory: &Path) -> io::Result<bool> {
    let about = match File::open(directory.join(ABOUT)) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // Taken for the moment of the look only. Shared, so that two who look do not see each other.
    match Flock::lock(about, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(false),
        Err((_, nix::Error::EWOULDBLOCK)) => Ok(true),
        Err((_, errno)) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_order_and_strangers_are_none() {
        let home = tempfile::tempdir().unwrap();
        for name in [
            "about",
            "tail-00000010",
            "tail-00000002",
            "head",
            "tail-",
            "tail-0",
            "tail-x",
        ] {
            fs::write(home.path().join(name), "").unwrap();
        }
        let parts = read_parts(home.path()).unwrap();
        assert_eq!(parts, [0, 2, 10].map(Part));
        for part in parts {
            assert!(part.path(home.path()).exists());
        }
    }

    #[test]
    fn who_holds_about_has_it_open() {
        let home = tempfile::tempdir().unwrap();
        assert!(!is_open(home.path()).unwrap());
        let about = File::create(home.path().join(ABOUT)).unwrap();
        assert!(!is_open(home.path()).unwrap());
        let held = Flock::lock(about, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(is_open(home.path()).unwrap());
        drop(held);
        assert!(!is_open(home.path()).unwrap());
    }
}
