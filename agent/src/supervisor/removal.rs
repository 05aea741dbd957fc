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

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::geteuid;

use super::sys;

/// Said of what cannot be removed, by one child.
const WARNINGS_MAX: usize = 5;

const LOWEST_PRIORITY: i32 = 19;

pub(super) struct Removal {
    /// Holds what is to be removed and nothing else.
    heap: PathBuf,
    waiting: Vec<PathBuf>,
    worker: Option<i32>,
}

impl Removal {
    /// Takes up what earlier ones left in `heap`, and `old` as a whole.
    pub(super) fn new(heap: PathBuf, old: &Path) -> io::Result<Removal> {
        let mut removal = Removal {
            heap,
            waiting: Vec::new(),
            worker: None,
        };
        removal.make_heap()?;
        let left: BTreeSet<PathBuf> = fs::read_dir(&removal.heap)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        let free = |aside: &PathBuf| !left.contains(aside);
        let aside = (0..=left.len())
            .map(|n| removal.heap.join(format!("old-{n}")))
            .find(free)
            .expect("one more name than there are directories");
        removal.waiting.extend(left);
        match fs::rename(old, &aside) {
            Ok(()) => removal.waiting.push(aside),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(removal)
    }

    /// Makes the heap where it is missing.
    pub(super) fn make_heap(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(&self.heap)
    }

    /// This directory is to go. One that is not there is no error.
    pub(super) fn take(&mut self, path: PathBuf) {
        self.waiting.push(path);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.worker.is_none() && self.waiting.is_empty()
    }

    /// Starts a child for what waits, if none is at work; its pid.
    pub(super) fn work(&mut self) -> Option<i32> {
        if self.worker.is_some() || self.waiting.is_empty() {
            return None;
        }
        let supervisor = std::process::id().cast_signed();
        let (heap, waiting) = (&self.heap, &self.waiting);
        let remove = || {
            if sys::die_with(supervisor).is_err() {
                return 1;
            }
            sys::close_all_above_standard();
            sys::yield_disk();
            if let Err(error) = sys::set_niceness(LOWEST_PRIORITY) {
                tracing::debug!(%error, "removing at full priority");
            }
            Worker::new(heap).remove_all(waiting);
            0
        };
        match sys::fork(remove) {
            Ok(pid) => {
                self.waiting = Vec::new();
                self.worker = Some(pid);
                Some(pid)
            }
            Err(error) => {
                tracing::error!(%error, "working directories cannot be removed now");
                None
            }
        }
    }

    /// A child was reaped that may have been the worker.
    pub(super) fn reaped(&mut self, pid: i32) {
        if self.worker == Some(pid) {
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

    fn remove_all(mut self, paths: &[PathBuf]) {
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
        if fs::remove_dir(path).is_ok() {
            return;
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

    impl Place {
        fn new() -> Place {
            let home = tempfile::tempdir().unwrap();
            let removal =
                Removal::new(home.path().join("trash"), &home.path().join("work")).unwrap();
            Place { home, removal }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.home.path().join(path)
        }

        /// As the child does, without one.
        fn remove(&mut self) {
            let waiting = std::mem::take(&mut self.removal.waiting);
            Worker::new(&self.removal.heap).remove_all(&waiting);
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
        let removal = Removal::new(heap, &work).unwrap();
        assert!(!work.exists());
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
}
