//! Keeps what attempts write, in a process of its own.
//!
//! Whatever reads a job's output can stall it: a pipe that nobody empties is full after 64 KiB, and
//! one whose reader is gone ends its writer. So who reads decides what a job depends on. Not the
//! agent: it is stopped, killed and upgraded while jobs run. Not the supervisor: it writes to a
//! disk, and a disk that hangs must not hold a deadline. So the supervisor forks a child that does
//! nothing else. It gives the writing ends of two pipes to the attempt and the reading ends to the
//! child, and goes on holding a copy of the reading ends: while it does, no job is ended for want
//! of a reader, and a child that dies is replaced by one that gets them all again. What the dead
//! one had read and not yet written is lost, and the file says so.
//!
//! The supervisor never waits for this child. A child that does not answer (its disk hangs) takes
//! no new attempts: they are refused as a host's fault, and run elsewhere. What runs goes on until
//! its pipe is full, and is killed at its deadline like anything else.

mod burst;
mod files;
mod keeper;
mod process;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::poll::PollFlags;
use nix::sys::socket::MsgFlags;
use nix::unistd::pipe2;
use protocol::supervisor::Launch;
use protocol::{BootMs, DurationMs, Token};

use super::sys;
use words::{Order, PACKET_BYTES_MAX, Word};

/// A log writer that has not taken an output after this long hangs.
const ANSWER_MAX: DurationMs = DurationMs(2_000);

/// After the death of a log writer the next is started this much later.
const RESTART_PAUSE: DurationMs = DurationMs(100);

/// Why an attempt's output cannot be kept, and the attempt not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("the log writer has not answered for {0}: does the disk with the output hang?")]
    Silent(DurationMs),
    #[error("no output can be written on this host: {0}")]
    Unwritable(String),
    #[error("making pipes for the output")]
    Pipes(#[source] io::Error),
}

/// What an attempt writes to.
pub(super) struct Ends {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The supervisor's side of the log writer.
pub(super) struct LogWriter {
    pid: i32,
    child: Option<Child>,
    restart_at: Option<BootMs>,
    outputs: BTreeMap<Token, Output>,
    unsent: VecDeque<Unsent>,
    /// Why nothing can be written just now.
    trouble: Option<String>,
    packet: Vec<u8>,
}

struct Child {
    pid: i32,
    socket: OwnedFd,
}

struct Output {
    directory: String,
    about: String,
    bytes_max: u64,
    /// Reading ends of standard output and standard error.
    pipes: [OwnedFd; 2],
    /// When the log writer was asked to keep it; `None` once it has answered.
    asked_at: Option<BootMs>,
    /// An earlier log writer was asked to keep it.
    resumed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsent {
    Open(Token),
    Close(Token),
}

impl LogWriter {
    /// Forks the log writer. Of a process of one thread only.
    pub(super) fn start() -> io::Result<LogWriter> {
        let child = Child::fork()?;
        Ok(LogWriter {
            pid: child.pid,
            child: Some(child),
            restart_at: None,
            outputs: BTreeMap::new(),
            unsent: VecDeque::new(),
            trouble: None,
            packet: vec![0; PACKET_BYTES_MAX],
        })
    }

    /// The process that was started last, dead or alive.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether this is the log writer that runs, as far as is known.
    pub(super) fn is(&self, pid: i32) -> bool {
        self.child.is_some() && self.pid == pid
    }

    /// What to wait for.
    pub(super) fn wanted(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let child = self.child.as_ref()?;
        let mut wanted = PollFlags::POLLIN;
        wanted.set(PollFlags::POLLOUT, !self.unsent.is_empty());
        Some((child.socket.as_fd(), wanted))
    }

    pub(super) fn poll_timeout(&self) -> Option<BootMs> {
        self.restart_at
    }

    /// Makes the pipes of an attempt and gives them into keeping.
    pub(super) fn open(&mut self, launch: &Launch, now: BootMs) -> Result<Ends, OpenError> {
        let asked = self.outputs.values().filter_map(|output| output.asked_at);
        if let Some(silent) = asked.min().map(|asked| now - asked)
            && silent > ANSWER_MAX
        {
            return Err(OpenError::Silent(silent));
        }
        if let Some(trouble) = &self.trouble {
            return Err(OpenError::Unwritable(trouble.clone()));
        }
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|errno| OpenError::Pipes(errno.into()));
        let (read_stdout, stdout) = pipe()?;
        let (read_stderr, stderr) = pipe()?;
        let output = Output {
            directory: launch.output.clone(),
            about: about(launch),
            bytes_max: launch.output_bytes_max,
            pipes: [read_stdout, read_stderr],
            asked_at: Some(now),
            resumed: false,
        };
        self.outputs.insert(launch.token, output);
        self.unsent.push_back(Unsent::Open(launch.token));
        self.flush();
        Ok(Ends { stdout, stderr })
    }

    /// The attempt is over: what still comes of it is nobody's.
    pub(super) fn close(&mut self, token: Token) {
        if self.outputs.remove(&token).is_none() {
            return;
        }
        let unsent = self.unsent.len();
        self.unsent.retain(|&unsent| unsent != Unsent::Open(token));
        if self.unsent.len() == unsent {
            self.unsent.push_back(Unsent::Close(token));
            self.flush();
        }
    }

    /// Sends what the log writer takes.
    pub(super) fn flush(&mut self) {
        let Some(child) = &self.child else {
            return;
        };
        while let Some(&unsent) = self.unsent.front() {
            let sent = match unsent {
                Unsent::Close(token) => child.send(&Order::Close { token }, &[]),
                Unsent::Open(token) => match self.outputs.get(&token) {
                    Some(output) => output.hand_to(child, token),
                    None => Ok(()),
                },
            };
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // It is dead and about to be reaped, or this was no good order.
                    tracing::warn!(%error, "the log writer takes no orders");
                    return self.kill();
                }
            }
            self.unsent.pop_front();
        }
    }

    /// Takes what the log writer says; answers with outputs that are over and kept.
    pub(super) fn read(&mut self) -> Vec<Token> {
        let mut drained = Vec::new();
        loop {
            let Some(child) = &self.child else {
                return drained;
            };
            match words::receive(child.socket.as_fd(), &mut self.packet) {
                Ok(Some((word, _))) => match word {
                    Word::Opened { token } => {
                        if let Some(output) = self.outputs.get_mut(&token) {
                            output.asked_at = None;
                        }
                    }
                    Word::Drained { token } => {
                        self.outputs.remove(&token);
                        drained.push(token);
                    }
                    Word::Trouble { why } => {
                        if let Some(why) = &why {
                            tracing::error!(why, "output cannot be written: nothing is started");
                        } else {
                            tracing::info!("output can be written again");
                        }
                        self.trouble = why;
                    }
                },
                Ok(None) => return drained,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return drained,
                Err(error) => {
                    tracing::error!(%error, "the log writer cannot be understood");
                    self.kill();
                    return drained;
                }
            }
        }
    }

    /// The log writer was reaped.
    pub(super) fn handle_death(&mut self, now: BootMs) {
        let outputs = self.outputs.len();
        tracing::error!(outputs, "the log writer is dead");
        self.child = None;
        self.restart_at = Some(now + RESTART_PAUSE);
    }

    /// Starts the next log writer when it is time and gives it everything again; the new pid.
    pub(super) fn handle_tick(&mut self, now: BootMs) -> Option<i32> {
        if self.restart_at.is_none_or(|at| at > now) {
            return None;
        }
        self.restart_at = None;
        match Child::fork() {
            Ok(child) => {
                tracing::info!(pid = child.pid, "a new log writer was started");
                self.pid = child.pid;
                self.child = Some(child);
            }
            Err(error) => {
                tracing::error!(%error, "a new log writer cannot be started");
                self.restart_at = Some(now + RESTART_PAUSE);
                return None;
            }
        }
        self.trouble = None;
        self.unsent.clear();
        for (&token, output) in &mut self.outputs {
            output.resumed = true;
            output.asked_at = Some(now);
            self.unsent.push_back(Unsent::Open(token));
        }
        Some(self.pid)
    }

    fn kill(&mut self) {
        if let Some(child) = &self.child
            && let Err(error) = sys::pidfd_open(child.pid)
                .and_then(|handle| sys::pidfd_signal(&handle, nix::sys::signal::Signal::SIGKILL))
        {
            tracing::error!(%error, "the log writer cannot be killed");
        }
    }
}

impl Output {
    fn hand_to(&self, child: &Child, token: Token) -> io::Result<()> {
        let order = Order::Open {
            token,
            directory: self.directory.clone(),
            about: self.about.clone(),
            bytes_max: self.bytes_max,
            resumed: self.resumed,
        };
        let [stdout, stderr] = &self.pipes;
        child.send(&order, &[stdout.as_fd(), stderr.as_fd()])
    }
}

impl Child {
    fn fork() -> io::Result<Child> {
        let (ours, theirs) = words::pair()?;
        let pid = sys::fork(|| run(theirs))?;
        Ok(Child { pid, socket: ours })
    }

    fn send(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        words::send(
            self.socket.as_fd(),
            order,
            descriptors,
            MsgFlags::MSG_DONTWAIT,
        )
    }
}

/// The life of the log writer; answers with its exit status.
fn run(socket: OwnedFd) -> i32 {
    // How it shows in `ps`; and the supervisor's file system may be unmounted without it.
    let named = nix::sys::prctl::set_name(c"matins-logs");
    let moved = nix::unistd::chdir("/");
    if let Err(errno) = named.and(moved) {
        tracing::warn!(%errno, "the log writer could not settle");
    }
    sys::close_all_above_standard_but(socket.as_fd());
    match process::Process::new(socket).and_then(process::Process::run) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!(%error, "the log writer ends");
            1
        }
    }
}

/// What a person finds beside the output who has only the host.
fn about(launch: &Launch) -> String {
    let mut about = String::new();
    for (what, name) in [
        ("job", "MATINS_JOB"),
        ("fire time", "MATINS_FIRE_TIME"),
        ("shard", "MATINS_SHARD"),
        ("shards", "MATINS_SHARDS"),
        ("attempt", "MATINS_ATTEMPT"),
        ("execution", "MATINS_EXECUTION_ID"),
        ("trigger", "MATINS_TRIGGER"),
    ] {
        if let Some((_, value)) = launch.env.iter().find(|(known, _)| known == name) {
            // A vector of bytes and a string take every write.
            let _ = writeln!(about, "{what}: {value}");
        }
    }
    let _ = writeln!(about, "token: {}", launch.token);
    let _ = writeln!(about, "program: {}", launch.exec.first().map_or("", |p| p));
    about
}
