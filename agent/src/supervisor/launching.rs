//! From a launch to a process, and what is to be cleared away after it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use protocol::supervisor::{Launch, SpawnFault};

use super::sys;
use super::trees::token_mark;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error("making the working directory `{path}`")]
    Directory { path: PathBuf, source: io::Error },
    #[error("opening the output file `{path}`")]
    Output { path: PathBuf, source: io::Error },
    #[error("starting `{program}`")]
    Spawn { program: String, source: io::Error },
    #[error("the argument list is empty")]
    NoProgram,
}

impl LaunchError {
    /// Whether another host, or this one later, may carry out the same launch.
    pub(super) fn fault(&self) -> SpawnFault {
        match self {
            // Both are in directories of Matins' own; no job chose them.
            LaunchError::Directory { .. } | LaunchError::Output { .. } => SpawnFault::Host,
            LaunchError::Spawn { source, .. } if is_for_want(source) => SpawnFault::Host,
            LaunchError::Spawn { .. } | LaunchError::NoProgram => SpawnFault::Launch,
        }
    }
}

/// Whether the machine lacked something, rather than the program.
fn is_for_want(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(
            Errno::EAGAIN
                | Errno::ENOMEM
                | Errno::EMFILE
                | Errno::ENFILE
                | Errno::EIO
                // The program is being written just now: a deployment is under way.
                | Errno::ETXTBSY
        )
    )
}

/// Starts the main process of an attempt and answers with its pid.
///
/// It gets the launch's arguments, environment and nothing else: no descriptor beyond the three
/// standard ones, no input, default signals, a session and a working directory of its own.
pub(super) fn spawn(launch: &Launch, directory: &Path, mark: &str) -> Result<i32, LaunchError> {
    let (program, arguments) = launch.exec.split_first().ok_or(LaunchError::NoProgram)?;
    make_fresh(directory).map_err(|source| LaunchError::Directory {
        path: directory.to_owned(),
        source,
    })?;
    let output = |source| LaunchError::Output {
        path: PathBuf::from(&launch.output),
        source,
    };
    let stdout = open_output(Path::new(&launch.output)).map_err(output)?;
    let stderr = stdout.try_clone().map_err(output)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    // By these two a later look or a later supervisor knows whose process it sees.
    for entry in [mark, &token_mark(launch.token)] {
        if let Some((name, value)) = entry.split_once('=') {
            command.env(name, value);
        }
    }
    sys::isolate(&mut command);
    let child = command.spawn().map_err(|source| LaunchError::Spawn {
        program: program.clone(),
        source,
    })?;
    // Dropping the handle neither kills nor reaps; the supervisor reaps every child itself.
    Ok(child.id().cast_signed())
}

/// Its directory is the agent's, which makes it when it starts; it may have been deleted since.
fn open_output(path: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .open(path)
    };
    match (open(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .mode(0o750)
                .recursive(true)
                .create(parent)?;
            open()
        }
        (opened, _) => opened,
    }
}

fn make_fresh(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    match builder.create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(directory)?;
            builder.create(directory)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            builder.recursive(true).create(directory)
        }
        done => done,
    }
}

/// Working directories of ended attempts. A job may leave a million files behind, and removing
/// them must not keep a deadline waiting: they are set aside at once and removed a few at a time.
pub(super) struct Trash {
    directory: PathBuf,
    waiting: Vec<PathBuf>,
    serial: u64,
}

/// Files removed between two looks at the clock.
const REMOVED_AT_ONCE: usize = 64;

impl Trash {
    /// `directory` must not exist, or hold only what may be removed.
    pub(super) fn new(directory: PathBuf) -> io::Result<Trash> {
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&directory)?;
        let waiting = fs::read_dir(&directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        Ok(Trash {
            directory,
            waiting,
            serial: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a directory out of the way. One that is not there is no error.
    pub(super) fn take(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
        let aside = loop {
            self.serial += 1;
            let aside = self.directory.join(self.serial.to_string());
            if !self.waiting.contains(&aside) {
                break aside;
            }
        };
        fs::rename(path, &aside)?;
        self.waiting.push(aside);
        Ok(())
    }

    /// Removes a few files. What cannot be removed is left for the next supervisor to try.
    pub(super) fn remove_some(&mut self) {
        let Some(path) = self.waiting.last() else {
            return;
        };
        let mut budget = REMOVED_AT_ONCE;
        match remove_within(path, &mut budget) {
            Ok(false) => {}
            Ok(true) => {
                self.waiting.pop();
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a working directory cannot be removed");
                self.waiting.pop();
            }
        }
    }
}

/// Whether all is gone; `false` when the budget was used up first.
fn remove_within(path: &Path, budget: &mut usize) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        if *budget == 0 {
            return Ok(false);
        }
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if !remove_within(&entry.path(), budget)? {
                return Ok(false);
            }
        } else {
            fs::remove_file(entry.path())?;
            *budget -= 1;
        }
    }
    fs::remove_dir(path)?;
    *budget = budget.saturating_sub(1);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_the_launch_asks_for() {
        use SpawnFault::{Host, Launch};
        let spawn = |errno| LaunchError::Spawn {
            program: "/bin/true".to_owned(),
            source: io::Error::from_raw_os_error(errno),
        };
        let path = PathBuf::from("/data/1.log");
        let source = || io::Error::from_raw_os_error(libc::ENOSPC);
        for (error, expected) in [
            (spawn(libc::ENOENT), Launch),
            (spawn(libc::EACCES), Launch),
            (spawn(libc::ENOEXEC), Launch),
            (spawn(libc::E2BIG), Launch),
            (spawn(libc::EAGAIN), Host),
            (spawn(libc::ENOMEM), Host),
            (spawn(libc::EMFILE), Host),
            (spawn(libc::ETXTBSY), Host),
            (
                LaunchError::Spawn {
                    program: "a\0b".to_owned(),
                    source: io::Error::other("a NUL in an argument"),
                },
                Launch,
            ),
            (LaunchError::NoProgram, Launch),
            (
                LaunchError::Directory {
                    path: path.clone(),
                    source: source(),
                },
                Host,
            ),
            (
                LaunchError::Output {
                    path,
                    source: source(),
                },
                Host,
            ),
        ] {
            assert_eq!(error.fault(), expected, "{error:?}");
        }
    }

    #[test]
    fn trash_goes_a_few_files_at_a_time_and_follows_no_link() {
        let home = tempfile::tempdir().unwrap();
        let kept = home.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        let work = home.path().join("work");
        fs::create_dir_all(work.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&kept, work.join("a/link")).unwrap();
        for n in 0..REMOVED_AT_ONCE {
            fs::write(work.join(format!("a/b/{n}")), "x").unwrap();
        }
        let mut trash = Trash::new(home.path().join("trash")).unwrap();
        trash.take(&work).unwrap();
        trash.take(&home.path().join("never-made")).unwrap();
        assert!(!work.exists());
        trash.remove_some();
        assert!(
            !trash.is_empty(),
            "one step removes no more than its budget"
        );
        trash.remove_some();
        assert!(trash.is_empty());
        assert_eq!(fs::read_dir(home.path().join("trash")).unwrap().count(), 0);
        assert!(kept.join("file").exists());
    }

    #[test]
    fn an_empty_directory_needs_no_trash_and_an_old_one_is_taken_up() {
        let home = tempfile::tempdir().unwrap();
        let empty = home.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let heap = home.path().join("trash");
        fs::create_dir_all(heap.join("1/x")).unwrap();
        let mut trash = Trash::new(heap.clone()).unwrap();
        trash.take(&empty).unwrap();
        assert!(!empty.exists() && !trash.is_empty());
        trash.remove_some();
        assert!(trash.is_empty() && !heap.join("1").exists());
    }

    #[test]
    fn a_working_directory_is_fresh() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("work/7");
        make_fresh(&directory).unwrap();
        fs::write(directory.join("old"), "x").unwrap();
        make_fresh(&directory).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
}
