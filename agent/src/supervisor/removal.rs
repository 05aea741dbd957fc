//! Working directories of ended attempts are removed by a process that has time.
//!
//! A job may leave a million files behind, a path deeper than the kernel takes, directories that
//! forbid their own removal, a mounted file system. None of it may keep a deadline waiting, so a
//! child with the lowest priority does it, one at a time, for as many directories as wait.
//!
//! It never descends. A directory that is not empty is moved up, out of the one that is being
//! removed, under a name of its own in the heap, and has its turn later: depth costs nothing, and
//! neither does memory. The kernel refuses to move what something is mounted on, and so nothing
//! of another file system is ever touched.
//!
//! A directory that an attempt has left as it was made is not removed but put aside for the next
//! one of the same user (see [`spares`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::{geteuid, pipe2};
use protocol::Token;

use super::spares::{self, SPARES_MAX};
use super::sys;

/// Said of what cannot be removed, by one child.
const WARNINGS_MAX: usize = 5;

const LOWEST_PRIORITY: i32 = 19;

pub(super) struct Removal {
    /// Holds what is to be removed and nothing else.
    heap: PathBuf,
    /// Holds what was put aside.
    aside: PathBuf,
    waiting: Vec<Waiting>,
    worker: Option<Sent>,
    /// What was put aside, and who it is for.
    spares: BTreeMap<User, Vec<PathBuf>>,
    attempts: BTreeMap<Token, Attempt>,
    /// Nothing more is to be put aside.
    is_ending: bool,
}

/// Of an attempt, by name; `None` is the supervisor's own.
type User = Option<String>;

struct Attempt {
    user: User,
    /// Put aside, and given to it. It has left it where it was if it had no use for it.
    lent: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    path: PathBuf,
    /// It was an attempt's of this user and may serve another.
    whose: Option<User>,
}

/// A child at work.
struct Sent {
    pid: i32,
    /// It says here what it has put aside, a [`Spare`] a line.
    told: File,
    heard: Vec<u8>,
}

/// Name of a directory that was put aside, and who it is for.
type Spare = (String, User);

impl Removal {
    /// Takes up what earlier ones left in `heap`, and each of `old` as a whole. `aside` is for what
    /// may be used again.
    pub(super) fn new(heap: PathBuf, aside: PathBuf, old: &Path) -> io::Result<Removal> {
        let mut removal = Removal {
            heap,
            aside,
            waiting: Vec::new(),
            worker: None,
            spares: BTreeMap::new(),
            attempts: BTreeMap::new(),
            is_ending: false,
        };
        removal.make_heap()?;
        let left: BTreeSet<PathBuf> = fs::read_dir(&removal.heap)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        let mut free = (0..)
            .map(|n| removal.heap.join(format!("old-{n}")))
            .filter(|path| !left.contains(path));
        let mut moved = Vec::new();
        for old in [old, &removal.aside] {
            let path = free.next().expect("more names than directories");
            match fs::rename(old, &path) {
                Ok(()) => moved.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        drop(free);
        for path in left.into_iter().chain(moved) {
            removal.take(path);
        }
        Ok(removal)
    }

    /// Makes the heap where it is missing.
    pub(super) fn make_heap(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(&self.heap)
    }

    fn take(&mut self, path: PathBuf) {
        self.waiting.push(Waiting { path, whose: None });
    }

    /// An attempt of this user begins. A directory that need not be made, if there is one: the
    /// attempt is to look whether it is still fit to be used.
    pub(super) fn lend(&mut self, token: Token, user: Option<&str>) -> Option<PathBuf> {
        let user = user.map(str::to_owned);
        let lent = self.spares.get_mut(&user).and_then(Vec::pop);
        let found = lent.clone();
        self.attempts.insert(token, Attempt { user, lent });
        found
    }

    /// The working directory of this attempt is to go. One that is not there is no error.
    pub(super) fn take_from(&mut self, token: Token, path: PathBuf) {
        let attempt = self.attempts.remove(&token);
        let whose = attempt.map(|attempt| {
            if let Some(lent) = attempt.lent {
                self.take(lent);
            }
            attempt.user
        });
        self.waiting.push(Waiting { path, whose });
    }

    /// Everything goes, and nothing is put aside any more.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        for path in std::mem::take(&mut self.spares).into_values().flatten() {
            self.take(path);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.worker.is_none() && self.waiting.is_empty()
    }

    /// Starts a child for what waits, if none is at work; its pid.
    pub(super) fn work(&mut self) -> Option<i32> {
        self.hear();
        if self.worker.is_some() || self.waiting.is_empty() {
            return None;
        }
        match self.send() {
            Ok(sent) => {
                let pid = sent.pid;
                self.worker = Some(sent);
                Some(pid)
            }
            Err(error) => {
                tracing::error!(%error, "working directories cannot be removed now");
                None
            }
        }
    }

    fn send(&mut self) -> io::Result<Sent> {
        let (told, teller) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let supervisor = std::process::id().cast_signed();
        let kept: usize = self.spares.values().map(Vec::len).sum();
        let room = if self.is_ending {
            0
        } else {
            SPARES_MAX.saturating_sub(kept)
        };
        let (heap, aside, waiting) = (&self.heap, &self.aside, &self.waiting);
        let remove = || {
            if sys::die_with(supervisor).is_err() {
                return 1;
            }
            sys::close_all_above_standard_but(teller.as_fd());
            let mut teller = File::from(teller);
            let mut room = room;
            let rest = waiting.iter().filter(|waiting| {
                let (Some(user), true) = (&waiting.whose, room > 0) else {
                    return true;
                };
                // Each look counts, so that there are few.
                room -= 1;
                let Some(name) = spares::put_aside(&waiting.path, aside) else {
                    return true;
                };
                // So few fit into the pipe at once. One that is not heard of goes with the next
                // supervisor.
                let line = serde_json::to_string(&(name, user)).expect("a spare is plain data");
                if let Err(error) = writeln!(teller, "{line}") {
                    tracing::debug!(%error, "a directory was put aside for nobody");
                }
                false
            });
            // All this at full priority: to move a directory locks what attempts that start need too,
            // and who waits for a processor meanwhile keeps them waiting.
            let rest: Vec<&Path> = rest.map(|waiting| waiting.path.as_path()).collect();
            sys::yield_disk();
            if let Err(error) = sys::set_niceness(LOWEST_PRIORITY) {
                tracing::debug!(%error, "removing at full priority");
            }
            Worker::new(heap).remove_all(&rest);
            0
        };
        let pid = sys::fork(remove)?;
        self.waiting = Vec::new();
        Ok(Sent {
            pid,
            told: told.into(),
            heard: Vec::new(),
        })
    }

    /// Takes what the worker says that it has put aside.
    fn hear(&mut self) {
        let Some(sent) = &mut self.worker else {
            return;
        };
        match sent.told.read_to_end(&mut sent.heard) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                tracing::error!(%error, "it is not heard what was put aside");
            }
            // To the pipe's end, or as far as there is something to read now.
            _ => {}
        }
        let whole = sent.heard.iter().rposition(|&byte| byte == b'\n');
        let lines: Vec<u8> = sent.heard.drain(..whole.map_or(0, |at| at + 1)).collect();
        for line in lines.split(|&byte| byte == b'\n') {
            let Ok((name, user)) = serde_json::from_slice::<Spare>(line) else {
                continue;
            };
            let spare = self.aside.join(name);
            if self.is_ending {
                self.take(spare);
            } else {
                self.spares.entry(user).or_default().push(spare);
            }
        }
    }

    /// A child was reaped that may have been the worker.
    pub(super) fn reaped(&mut self, pid: i32) {
        if self.worker.as_ref().is_some_and(|sent| sent.pid == pid) {
            self.hear();
            self.worker = None;
        }
    }
}

struct Worker<'a> {
    heap: &'a Path,
    /// Directories moved up: those from `next` to `last` wait.
    next: u64,
    last: u64,
    /// Other workers, earlier ones, have left names behind that begin otherwise.
    prefix: String,
    warned: usize,
}

impl Worker<'_> {
    fn new(heap: &Path) -> Worker<'_> {
        Worker {
            heap,
            next: 1,
            last: 0,
            prefix: format!("{}-", std::process::id()),
            warned: 0,
        }
    }

    fn remove_all(mut self, paths: &[&Path]) {
        for path in paths {
            self.remove(path);
        }
        while self.next <= self.last {
            let path = self.aside(self.next);
            self.next += 1;
            self.remove(&path);
        }
    }

    fn aside(&self, number: u64) -> PathBuf {
        self.heap.join(format!("{}{number}", self.prefix))
    }

    /// Its parent directory must be one that no job can write to.
    fn remove(&mut self, path: &Path) {
        match fs::remove_dir(path) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => {}
        }
        // What lies in the heap is out of reach of whoever goes on writing to it by its path, and
        // is no mount point.
        let moved;
        let path = if path.parent() == Some(self.heap) {
            path
        } else {
            moved = self.aside(self.last + 1);
            match fs::rename(path, &moved) {
                Ok(()) => self.last += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.warn(path, &error),
            }
            return;
        };
        match self.empty(path).and_then(|()| fs::remove_dir(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.warn(path, &error),
            _ => {}
        }
    }

    fn empty(&mut self, path: &Path) -> io::Result<()> {
        if !fs::symlink_metadata(path)?.is_dir() {
            return fs::remove_file(path).and(Err(io::ErrorKind::NotFound.into()));
        }
        let directory = open_directory(path)?;
        // By the descriptor, which goes on meaning this directory: a process of the job's user
        // may be exchanging names in it at this moment, links to the host's own files among them.
        let base = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        for entry in fs::read_dir(&base)? {
            let entry = entry?;
            let inner = base.join(entry.file_name());
            let removed = if entry.file_type()?.is_dir() {
                fs::remove_dir(&inner).or_else(|_| self.move_up(&inner))
            } else {
                fs::remove_file(&inner)
            };
            if let Err(error) = removed {
                self.warn(&path.join(entry.file_name()), &error);
            }
        }
        Ok(())
    }

    fn move_up(&mut self, inner: &Path) -> io::Result<()> {
        let aside = self.aside(self.last + 1);
        let moved = fs::rename(inner, &aside).or_else(|error| {
            if geteuid().is_root() {
                return Err(error);
            }
            // Who has no privilege needs the right to write to what is moved: its `..` changes.
            fs::set_permissions(inner, Permissions::from_mode(0o700))?;
            fs::rename(inner, &aside)
        });
        if moved.is_ok() {
            self.last += 1;
        }
        moved
    }

    fn warn(&mut self, path: &Path, error: &io::Error) {
        self.warned += 1;
        if self.warned <= WARNINGS_MAX {
            tracing::warn!(
                path = %path.display(),
                %error,
                "left by an attempt, and cannot be removed: see what holds it"
            );
        }
    }
}

/// A directory of the heap, which its owner may have forbidden to itself.
fn open_directory(path: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)
    };
    let directory = match open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(path, Permissions::from_mode(0o700))?;
            open()?
        }
        opened => opened?,
    };
    directory.set_permissions(Permissions::from_mode(0o700))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        home: tempfile::TempDir,
        removal: Removal,
    }

    fn removal(home: &Path) -> Removal {
        let path = |name| home.join(name);
        Removal::new(path("trash"), path("spare"), &path("work")).unwrap()
    }

    impl Place {
        fn new() -> Place {
            let home = tempfile::tempdir().unwrap();
            let removal = removal(home.path());
            Place { home, removal }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.home.path().join(path)
        }

        /// The working directory of an attempt, as it is made.
        fn make_work(&self, token: i64) -> PathBuf {
            let work = self.path(&format!("work/{token}"));
            let mut builder = DirBuilder::new();
            builder.mode(spares::MODE).create(&work).unwrap();
            work
        }

        /// As the child does, without one.
        fn remove(&mut self) {
            let waiting = std::mem::take(&mut self.removal.waiting);
            let paths: Vec<&Path> = waiting.iter().map(|w| w.path.as_path()).collect();
            Worker::new(&self.removal.heap).remove_all(&paths);
        }

        fn left(&self) -> usize {
            fs::read_dir(&self.removal.heap).unwrap().count()
        }
    }

    #[test]
    fn nothing_a_job_leaves_behind_stays_and_no_link_is_followed() {
        let mut place = Place::new();
        let kept = place.path("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        let work = place.path("work/7");
        fs::create_dir_all(work.join("a/b/c")).unwrap();
        std::os::unix::fs::symlink(&kept, work.join("a/link")).unwrap();
        std::os::unix::fs::symlink("nowhere", work.join("broken")).unwrap();
        fs::write(work.join("a/b/c/file"), "x").unwrap();
        for forbidden in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(work.join(forbidden), Permissions::from_mode(0o0)).unwrap();
        }
        place.removal.take(work.clone());
        place.removal.take(place.path("work/never-made"));
        place.remove();
        assert!(!work.exists());
        assert_eq!(place.left(), 0);
        assert!(kept.join("file").exists());
    }

    #[test]
    fn a_path_longer_than_the_kernel_takes_goes_too() {
        let mut place = Place::new();
        let work = place.path("work/7");
        fs::create_dir_all(&work).unwrap();
        // Made from the inside, as a job would.
        let mut inside = File::open(&work).unwrap();
        for _ in 0..1_200 {
            let next = format!("/proc/self/fd/{}/dddddddd", inside.as_raw_fd());
            fs::create_dir(&next).unwrap();
            inside = File::open(next).unwrap();
        }
        place.removal.take(work.clone());
        place.remove();
        assert!(!work.exists());
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn what_earlier_supervisors_left_is_taken_up() {
        let home = tempfile::tempdir().unwrap();
        let (heap, work) = (home.path().join("trash"), home.path().join("work"));
        fs::create_dir_all(heap.join("old-1/x")).unwrap();
        fs::write(heap.join("file"), "x").unwrap();
        fs::create_dir_all(work.join("3/y")).unwrap();
        fs::create_dir_all(home.path().join("spare/4")).unwrap();
        let removal = removal(home.path());
        assert!(!work.exists() && !home.path().join("spare").exists());
        let mut place = Place { home, removal };
        place.remove();
        assert_eq!(place.left(), 0);
    }

    #[test]
    fn it_is_done_by_a_child_one_at_a_time() {
        let mut place = Place::new();
        let work = place.path("work/7");
        fs::create_dir_all(work.join("a")).unwrap();
        place.removal.take(work.clone());
        let pid = place.removal.work().expect("a child");
        place.removal.take(place.path("work/8"));
        assert_eq!(place.removal.work(), None);
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).unwrap();
        assert!(!work.exists());
        assert!(!place.removal.is_idle());
        place.removal.reaped(pid);
        assert!(place.removal.work().is_some());
    }

    /// As the shell does, until the child has ended.
    fn work_through(place: &mut Place) {
        let pid = place.removal.work().expect("a child");
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).unwrap();
        place.removal.reaped(pid);
    }

    #[test]
    fn what_was_left_as_it_was_made_is_lent_to_the_same_user_once() {
        let mut place = Place::new();
        fs::create_dir(place.path("work")).unwrap();
        for (token, user) in [(1, Some("a")), (2, Some("a")), (3, None)] {
            assert_eq!(place.removal.lend(Token(token), user), None);
            let work = place.make_work(token);
            place.removal.take_from(Token(token), work);
        }
        fs::write(place.path("work/2/file"), "x").unwrap();
        work_through(&mut place);
        assert_eq!(fs::read_dir(place.path("work")).unwrap().count(), 0);
        for (token, user, expected) in [
            (4, Some("b"), None),
            (5, Some("a"), Some("spare/1")),
            (6, Some("a"), None),
            (7, None, Some("spare/3")),
        ] {
            let lent = place.removal.lend(Token(token), user);
            assert_eq!(lent, expected.map(|path| place.path(path)), "{token}");
        }
        // It had no use for it.
        place.removal.take_from(Token(5), place.path("work/5"));
        work_through(&mut place);
        assert!(!place.path("spare/1").exists());
        assert!(place.path("spare/3").exists());
    }

    #[test]
    fn in_the_end_nothing_is_put_aside_and_what_was_goes() {
        let mut place = Place::new();
        fs::create_dir(place.path("work")).unwrap();
        for token in [1, 2] {
            place.removal.lend(Token(token), None);
            place.make_work(token);
        }
        place.removal.take_from(Token(1), place.path("work/1"));
        work_through(&mut place);
        assert!(place.path("spare/1").exists());
        place.removal.end();
        place.removal.take_from(Token(2), place.path("work/2"));
        work_through(&mut place);
        for directory in ["spare", "work"] {
            assert_eq!(fs::read_dir(place.path(directory)).unwrap().count(), 0);
        }
    }
}
