//! `matins supervisor`: the parent of every attempt's processes.
//!
//! A small process of one thread, without a network and without an async runtime, because its
//! one duty must not depend on anything: to kill at the deadline what it started, whether or not
//! an agent is there. [`agent_core::Supervisor`] decides; this shell waits for signals, the timer
//! and the socket, and hands what happened to the core in an order that matters:
//!
//! 1. ended children first, so that an exit that came before a kill is told as the job's own;
//! 2. then a new connection, which drops the old one with whatever it still held unread: what a
//!    dead agent had written can never be obeyed after the table that did not list it;
//! 3. then the requests of the agent that is there.
//!
//! Nothing that may wait is done on its one thread: processes prepare themselves ([`launching`]),
//! others look at what may hang ([`environments`]), clear away ([`removal`]) and keep what attempts
//! write ([`log_writer`]). What the thread
//! does itself are calls that the kernel answers at once.
//!
//! In its directory, which others may pass through and not read, are the lock that keeps a second
//! supervisor out, the socket, and a working directory for each attempt. Before it answers anybody
//! it kills what an earlier supervisor left behind. Nothing else is kept: what it knew dies with
//! it, and its processes too.

mod brand;
mod cgroups;
mod environments;
mod launching;
mod log_writer;
mod place;
mod processes;
mod protection;
mod removal;
mod shell;
mod socket;
mod spares;
mod sweep;
mod sys;
mod trees;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agent_core::Supervisor;
use agent_core::supervisor::Identity;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use protocol::Rules;
use protocol::message::Incarnation;

use crate::clock::{self, BootTimer};
use crate::lock::of_process;
use cgroups::Cgroups;
use environments::Sightings;
use launching::Launcher;
use log_writer::LogWriter;
use place::Place;
pub(crate) use protection::{protect_from_attempts, yield_to_attempts, yield_to_everybody};
use removal::Removal;
use shell::{LOOK_AROUND, Shell};
pub(crate) use socket::LINE_BYTES_MAX;
use trees::Trees;

/// What a supervisor is told when it is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its own directory: made if absent, one supervisor at a time.
    pub directory: PathBuf,
}

/// The socket of the supervisor of this directory.
pub fn socket_path(directory: &Path) -> PathBuf {
    directory.join("socket")
}

/// The agent of a supervisor holds the file of this name in its directory locked: there is one at a
/// time.
pub(crate) const AGENT_LOCK: &str = "agent";

/// Why a supervisor could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("preparing the supervisor's directory `{path}`")]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "another supervisor{} is running in `{directory}`: stop it first, or give this one a directory of its own",
        of_process(*pid)
    )]
    AlreadyRunning {
        directory: PathBuf,
        pid: Option<i32>,
    },
    #[error(
        "the socket's path `{path}` is longer than {longest} bytes: choose a directory with a shorter path"
    )]
    SocketPath { path: PathBuf, longest: usize },
    #[error("listening on `{path}`")]
    Listen { path: PathBuf, source: io::Error },
    #[error("asking the kernel for {what}")]
    Kernel {
        what: &'static str,
        source: io::Error,
    },
    #[error("looking for what an earlier supervisor left behind")]
    Sweep { source: io::Error },
}

fn kernel(what: &'static str) -> impl Fn(nix::Error) -> Error {
    move |error| Error::Kernel {
        what,
        source: error.into(),
    }
}

/// Runs a supervisor until SIGTERM or SIGINT, then interrupts what runs and returns when nothing
/// of it is alive.
///
/// Takes over the process: blocks signals, reaps every child, becomes a subreaper. To be called
/// on the main thread of a process that has started no other.
pub fn run(options: Options) -> Result<(), Error> {
    let place = Place::take(&options.directory)?;
    let inherited = protection::protect();
    let directory = place.directory().to_owned();
    let signals = take_over_process()?;
    let proc = PathBuf::from("/proc");
    let mark = format!("MATINS_SUPERVISOR={}", directory.display());
    let mut cgroups = Cgroups::prepare(&proc, &directory);
    let swept = sweep_leftovers(&mut cgroups, &proc, &mark)?;
    let removal = clear_work(&directory)?;
    let identity = identity(swept)?;
    let log_writer = LogWriter::start().map_err(|source| Error::Kernel {
        what: "a process for the output of attempts",
        source,
    })?;
    let mut trees = Trees::new(proc.clone(), Sightings::new(&proc, &mark));
    trees.insert_own(log_writer.pid());
    tracing::info!(
        directory = %directory.display(),
        incarnation = identity.incarnation.0,
        swept,
        "the supervisor is ready"
    );
    let timer = BootTimer::new().map_err(kernel("a timer"))?;
    let launcher =
        Launcher::new(mark, host_name()?, inherited).map_err(|source| Error::Kernel {
            what: "/dev/null",
            source,
        })?;
    let door = place.open_door()?;
    let mut shell = Shell {
        core: Supervisor::new(identity, Rules::all()),
        trees,
        log_writer,
        cgroups,
        launcher,
        removal,
        place,
        door,
        look_around: Some(clock::now().boot + LOOK_AROUND),
        memory_look: None,
        signals,
        timer,
        accept_after: None,
        line: None,
        done: false,
    };
    shell.run()
}

fn sweep_leftovers(cgroups: &mut Cgroups, proc: &Path, mark: &str) -> Result<bool, Error> {
    let mut sweep = || {
        let held = cgroups.sweep()?;
        Ok(sweep::sweep(proc, mark)? && held)
    };
    sweep().map_err(|source| Error::Sweep { source })
}

fn host_name() -> Result<String, Error> {
    let name = nix::sys::utsname::uname().map_err(kernel("the name of this host"))?;
    Ok(name.nodename().to_string_lossy().into_owned())
}

fn take_over_process() -> Result<SignalFd, Error> {
    for entry in fs::read_dir("/proc/self/fd").map_err(|source| Error::Kernel {
        what: "the open descriptors",
        source,
    })? {
        let fd = entry
            .ok()
            .and_then(|e| e.file_name().to_str()?.parse::<i32>().ok());
        if let Some(fd) = fd.filter(|fd| *fd > 2)
            && let Err(error) = sys::close_on_exec(fd)
        {
            // The directory's own descriptor is among them, and closed by now.
            tracing::debug!(fd, %error, "a descriptor is gone");
        }
    }
    nix::sys::prctl::set_child_subreaper(true).map_err(kernel("the orphans of our children"))?;
    sys::hear_of_children();
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT] {
        mask.add(signal);
    }
    mask.thread_block().map_err(kernel("its signals"))?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(kernel("its signals"))
}

/// Working directories are made as they are needed; those of before go.
fn clear_work(directory: &Path) -> Result<Removal, Error> {
    let path = |name| directory.join(name);
    Removal::new(path("trash"), path("spare"), &path("work")).map_err(|source| Error::Directory {
        path: directory.to_owned(),
        source,
    })
}

fn identity(swept: bool) -> Result<Identity, Error> {
    let boot_id =
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|source| Error::Kernel {
            what: "the boot id",
            source,
        })?;
    // Two containers on one kernel share its boot id, and neither can sweep what the other runs.
    let pids = fs::read_link("/proc/self/ns/pid").map_err(|source| Error::Kernel {
        what: "its space of process ids",
        source,
    })?;
    let incarnation = getrandom::u64().map_err(|error| Error::Kernel {
        what: "a random number",
        source: io::Error::other(error),
    })?;
    Ok(Identity {
        incarnation: Incarnation(incarnation),
        boot_id: format!("{}/{}", boot_id.trim(), pids.display()),
        swept,
    })
}
