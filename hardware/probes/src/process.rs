//! A tool that is started, heard and ended within bounds, whatever it does: hang, print for ever, leave
//! children behind, or not be there.
//!
//! It runs in a process group of its own, which is killed as a whole when its time is up. One that even
//! that does not end, because the kernel waits for a disk on its behalf, is left to a thread that waits
//! for it, and not started again before it is gone: a thread for each look would fill the host.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// What is kept of the errors that a tool prints.
const STDERR_BYTES_MAX: usize = 4096;
/// How long a process that was killed may take to be gone.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

/// Programs that were killed and are not gone yet.
static HANGING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) output_bytes: usize,
}

/// What a tool printed before it ended by itself.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// None if a signal ended it.
    pub(crate) status: Option<i32>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("{0} cannot be started")]
    Start(String, #[source] std::io::Error),
    #[error("reading what {0} prints")]
    Read(String, #[source] std::io::Error),
    #[error("{program} did not end within {} s and was killed", time.as_secs_f64())]
    Late { program: String, time: Duration },
    #[error("{program} printed more than {bytes} bytes and was killed")]
    Long { program: String, bytes: usize },
    #[error("{0} was killed at an earlier look and is not gone yet: it waits for a device")]
    Hanging(String),
}

impl RunError {
    /// In one line, with what it rests on.
    pub(crate) fn said(&self) -> String {
        use std::error::Error;
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Runs a program to its end.
pub(crate) fn run(program: &Path, args: &[String], limits: Limits) -> Result<Output, RunError> {
    let name = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    if hanging().contains(program) {
        return Err(RunError::Hanging(name));
    }
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| RunError::Start(name.clone(), error))?;
    let heard = hear(&mut child, &name, limits);
    // Whatever it left behind goes with it. The group is named by the child, which nobody has waited for
    // yet ([`has_ended`]): the number is nobody else's.
    let group = Pid::from_raw(child.id().cast_signed());
    // That there is none any more is what is wanted.
    let _ = killpg(group, Signal::SIGKILL);
    let status = ended(child, program);
    let (stdout, stderr) = heard?;
    Ok(Output {
        stdout,
        stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
        status,
    })
}

fn hanging() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads both pipes until they end, the time is up or it is too much.
fn hear(child: &mut Child, name: &str, limits: Limits) -> Result<(Vec<u8>, Vec<u8>), RunError> {
    let failed = |error| RunError::Read(name.to_owned(), error);
    let deadline = Instant::now() + limits.time;
    let mut stdout = Pipe::of(child.stdout.take()).map_err(failed)?;
    let mut stderr = Pipe::of(child.stderr.take()).map_err(failed)?;
    while stdout.is_open() || stderr.is_open() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RunError::Late {
                program: name.to_owned(),
                time: limits.time,
            });
        }
        wait_for(&stdout, &stderr, left).map_err(failed)?;
        stdout.read(limits.output_bytes + 1).map_err(failed)?;
        stderr.read(STDERR_BYTES_MAX).map_err(failed)?;
        if stdout.bytes.len() > limits.output_bytes {
            return Err(RunError::Long {
                program: name.to_owned(),
                bytes: limits.output_bytes,
            });
        }
    }
    // It may close its pipes and go on.
    while Instant::now() < deadline {
        if has_ended(child).map_err(failed)? {
            return Ok((stdout.bytes, stderr.bytes));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(RunError::Late {
        program: name.to_owned(),
        time: limits.time,
    })
}

/// Whether it has ended; it is not waited for yet, so that its number stays its own.
fn has_ended(child: &Child) -> Result<bool, std::io::Error> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let pid = Pid::from_raw(child.id().cast_signed());
    Ok(waitid(Id::Pid(pid), flags)? != WaitStatus::StillAlive)
}

fn wait_for<R: AsRawFd + AsFd + Read, S: AsRawFd + AsFd + Read>(
    one: &Pipe<R>,
    other: &Pipe<S>,
    time: Duration,
) -> Result<(), std::io::Error> {
    let fds: [Option<BorrowedFd<'_>>; 2] = [
        one.open.as_ref().map(AsFd::as_fd),
        other.open.as_ref().map(AsFd::as_fd),
    ];
    let mut fds: Vec<PollFd<'_>> = fds
        .into_iter()
        .flatten()
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

struct Pipe<R> {
    open: Option<R>,
    bytes: Vec<u8>,
}

impl<R: AsRawFd + AsFd + Read> Pipe<R> {
    fn of(pipe: Option<R>) -> Result<Self, std::io::Error> {
        if let Some(pipe) = &pipe {
            let fd: RawFd = pipe.as_raw_fd();
            debug_assert!(fd >= 0);
            fcntl(pipe.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self {
            open: pipe,
            bytes: Vec::new(),
        })
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes what is there now. Beyond `keep` bytes it is read and forgotten.
    fn read(&mut self, keep: usize) -> Result<(), std::io::Error> {
        let mut buffer = [0; 16 << 10];
        while let Some(pipe) = &mut self.open {
            match pipe.read(&mut buffer) {
                Ok(0) => self.open = None,
                Ok(read) => {
                    let room = keep.saturating_sub(self.bytes.len());
                    self.bytes.extend(&buffer[..read.min(room)]);
                    if room == 0 {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits for what was ended. Whatever is not gone soon is left to a thread, and remembered.
fn ended(mut child: Child, program: &Path) -> Option<i32> {
    let deadline = Instant::now() + ENDED_WITHIN;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return None,
        }
    }
    let program = program.to_owned();
    hanging().insert(program.clone());
    std::thread::spawn(move || {
        let _ = child.wait();
        hanging().remove(&program);
    });
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        time: Duration::from_secs(20),
        output_bytes: 1 << 20,
    };

    fn shell(script: &str, limits: Limits) -> Result<Output, RunError> {
        run(
            Path::new("/bin/sh"),
            &["-c".to_owned(), script.to_owned()],
            limits,
        )
    }

    #[test]
    fn what_ends_by_itself_is_heard() {
        let output = shell("echo one; echo two >&2; exit 64", LIMITS).unwrap();
        assert_eq!(output.stdout, b"one\n");
        assert_eq!(output.stderr, "two");
        assert_eq!(output.status, Some(64));
    }

    /// A group is killed by the number of who began it, which must be nobody else's then.
    #[test]
    fn whoever_was_heard_to_its_end_has_its_number_still() {
        let mut child = Command::new("/bin/true")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        hear(&mut child, "true", LIMITS).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()));
        assert!(stat.is_ok_and(|stat| stat.contains(") Z ")));
        assert!(child.wait().unwrap().success());
    }

    /// Whatever hangs, its children with it, is gone when the time is up.
    #[test]
    fn what_hangs_is_killed_with_its_group() {
        let limits = Limits {
            time: Duration::from_millis(300),
            ..LIMITS
        };
        let place = tempfile::tempdir().unwrap();
        let pids = place.path().join("pids");
        let script = format!(
            "sleep 1000 & echo $! > {pids}; echo $$ >> {pids}; trap '' TERM; wait; sleep 1000",
            pids = pids.display()
        );
        let error = shell(&script, limits).unwrap_err();
        assert!(matches!(error, RunError::Late { .. }), "{error:?}");
        let pids = std::fs::read_to_string(pids).unwrap();
        let pids: Vec<i32> = pids.lines().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        // The grandchild is init's now and may be waited for a moment later.
        let deadline = Instant::now() + Duration::from_secs(20);
        for pid in pids {
            while runs(pid) {
                assert!(Instant::now() < deadline, "{pid} still runs");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Whether a process is there and no zombie.
    fn runs(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next());
        state.is_some_and(|state| state != "Z" && state != "X")
    }

    #[test]
    fn what_prints_for_ever_is_killed() {
        let error = shell("while :; do echo 0123456789abcdef; done", LIMITS).unwrap_err();
        assert!(
            matches!(error, RunError::Long { bytes, .. } if bytes == 1 << 20),
            "{error:?}"
        );
    }

    #[test]
    fn errors_without_end_do_no_harm() {
        let output = shell("head -c 1000000 /dev/zero >&2; echo well", LIMITS).unwrap();
        assert_eq!(output.stdout, b"well\n");
        assert!(output.stderr.len() <= STDERR_BYTES_MAX);
    }

    #[test]
    fn who_keeps_the_pipe_open_does_not_hold_up_for_ever() {
        let limits = Limits {
            time: Duration::from_millis(300),
            ..LIMITS
        };
        let error = shell("echo one; sleep 1000 & exit 0", limits).unwrap_err();
        assert!(matches!(error, RunError::Late { .. }), "{error:?}");
    }

    #[test]
    fn what_is_not_there_says_so() {
        let error = run(Path::new("/nowhere/storcli"), &[], LIMITS).unwrap_err();
        assert!(
            error.said().starts_with("storcli cannot be started: "),
            "{error:?}"
        );
    }
}
