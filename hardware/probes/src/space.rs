//! How full file systems are, asked so that none can hold up who asks.
//!
//! `statvfs` on a mount whose server is gone, or whose disk hangs, does not come back. So each mount is
//! asked on a thread of its own, nobody waits longer than a moment, and a mount that has not answered is
//! not asked again before it does: a thread for each look would fill the host. File systems of the network
//! are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

/// How long all mounts together may take to answer.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// Mounts asked at one look. A host with more has them from a container engine.
const MOUNTS_MAX: usize = 256;

/// What a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub size_bytes: u64,
    /// Free to those who are not root.
    pub free_bytes: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

/// What came of asking one mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Space(Space),
    /// It has not answered yet.
    Stuck,
    Failed(String),
}

/// Who asks. Kept from look to look, it knows which mounts still owe an answer.
#[derive(Clone, Debug, Default)]
pub struct Spaces {
    waiting: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Spaces {
    /// Asks these mounts, and waits at most `within` for all.
    pub fn ask(&self, mounts: &[PathBuf], within: Duration) -> BTreeMap<PathBuf, Answer> {
        self.ask_by(mounts, within, space_of)
    }

    fn ask_by(
        &self,
        mounts: &[PathBuf],
        within: Duration,
        ask: fn(&Path) -> Result<Space, String>,
    ) -> BTreeMap<PathBuf, Answer> {
        let (sender, receiver) = channel();
        let mut answers: BTreeMap<PathBuf, Answer> = BTreeMap::new();
        let mut asked = 0;
        for mount in mounts.iter().take(MOUNTS_MAX) {
            answers.insert(mount.clone(), Answer::Stuck);
            if !self.waiting().insert(mount.clone()) {
                continue;
            }
            let (sender, mount, spaces) = (sender.clone(), mount.clone(), self.clone());
            let thread = std::thread::Builder::new()
                .name("statvfs".to_owned())
                // It makes one call.
                .stack_size(64 << 10);
            let name = mount.clone();
            let started = thread.spawn(move || {
                let answer = ask(&mount);
                spaces.waiting().remove(&mount);
                // Nobody may be waiting for it any more.
                let _ = sender.send((mount, answer));
            });
            match started {
                Ok(_) => asked += 1,
                Err(error) => {
                    self.waiting().remove(&name);
                    answers.insert(name, Answer::Failed(error.to_string()));
                }
            }
        }
        drop(sender);
        receive(&receiver, asked, within, &mut answers);
        answers
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn receive(
    receiver: &Receiver<(PathBuf, Result<Space, String>)>,
    asked: usize,
    within: Duration,
    answers: &mut BTreeMap<PathBuf, Answer>,
) {
    let deadline = Instant::now() + within;
    for _ in 0..asked {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok((mount, Ok(space))) => answers.insert(mount, Answer::Space(space)),
            Ok((mount, Err(why))) => answers.insert(mount, Answer::Failed(why)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        };
    }
}

fn space_of(mount: &Path) -> Result<Space, String> {
    let told = statvfs(mount).map_err(|error| error.desc().to_owned())?;
    let block_bytes = told.fragment_size();
    let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
    Ok(Space {
        size_bytes: bytes(told.blocks()),
        free_bytes: bytes(told.blocks_available()),
        inodes: told.files(),
        inodes_free: told.files_available(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_mount_that_is_there_answers() {
        let spaces = Spaces::default();
        let here = PathBuf::from("/");
        let gone = PathBuf::from("/nowhere/at/all");
        let answers = spaces.ask(&[here.clone(), gone.clone()], Duration::from_secs(20));
        assert!(
            matches!(answers[&here], Answer::Space(space) if space.size_bytes >= space.free_bytes),
            "{answers:?}"
        );
        assert!(matches!(answers[&gone], Answer::Failed(_)), "{answers:?}");
    }

    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static OPEN: Mutex<bool> = Mutex::new(false);

    /// Hangs at one mount until somebody opens it.
    fn hanging(mount: &Path) -> Result<Space, String> {
        if mount == Path::new("/dead") {
            ASKED.fetch_add(1, Ordering::SeqCst);
            while !*OPEN.lock().unwrap() {
                std::thread::yield_now();
            }
        }
        Err("none".to_owned())
    }

    #[test]
    fn a_mount_that_hangs_is_asked_once_and_holds_up_nobody() {
        let spaces = Spaces::default();
        let dead = PathBuf::from("/dead");
        let alive = PathBuf::from("/alive");
        let mounts = [dead.clone(), alive.clone()];
        for _ in 0..3 {
            // The one that lives answers whenever it gets a processor; the other never.
            while spaces.ask_by(
                std::slice::from_ref(&alive),
                Duration::from_millis(50),
                hanging,
            )[&alive]
                == Answer::Stuck
            {}
            let answers = spaces.ask_by(&mounts, Duration::from_millis(50), hanging);
            assert_eq!(answers[&dead], Answer::Stuck);
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 1, "one thread for one mount");
        *OPEN.lock().unwrap() = true;
        let deadline = Instant::now() + Duration::from_secs(20);
        while spaces.waiting().contains(&dead) {
            assert!(
                Instant::now() < deadline,
                "it answered, and is still waited for"
            );
            std::thread::yield_now();
        }
        let answers = spaces.ask_by(&mounts, Duration::from_secs(20), hanging);
        assert_eq!(answers[&dead], Answer::Failed("none".to_owned()));
    }
}
