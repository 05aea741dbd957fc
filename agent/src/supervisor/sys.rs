//! The calls into the kernel that Rust cannot check. Everything unsafe in this crate is here.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use agent_core::supervisor::Usage;
use nix::libc;
use nix::sys::signal::Signal;
use protocol::DurationMs;
use protocol::attempt::Exit;

/// A child that has ended and is no longer in the process table.
pub(super) struct Reaped {
    pub(super) pid: i32,
    pub(super) exit: Exit,
    pub(super) usage: Usage,
}

/// Reaps one ended child, if there is one.
pub(super) fn reap() -> io::Result<Option<Reaped>> {
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is a valid value of that plain C struct.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live, writable values of the types wait4 asks for.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut used) };
        if pid == 0 {
            return Ok(None);
        }
        if pid < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ECHILD) => return Ok(None),
                Some(libc::EINTR) => continue,
                _ => return Err(error),
            }
        }
        let exit = if libc::WIFSIGNALED(status) {
            Exit::Signal(libc::WTERMSIG(status))
        } else {
            Exit::Code(libc::WEXITSTATUS(status))
        };
        let milliseconds = |t: libc::timeval| t.tv_sec * 1000 + t.tv_usec / 1000;
        let usage = Usage {
            cpu: DurationMs(milliseconds(used.ru_utime) + milliseconds(used.ru_stime)),
            // The kernel counts in KiB.
            memory_bytes_peak: u64::try_from(used.ru_maxrss).unwrap_or(0) * 1024,
        };
        return Ok(Some(Reaped { pid, exit, usage }));
    }
}

/// A handle that goes on meaning this process after its number has been given to another.
pub(super) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub(super) fn pidfd_signal(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    // SAFETY: a null siginfo is what the call documents for "as kill(2) would".
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal as libc::c_int,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Undoes an inherited "ignore" of SIGCHLD, under which the kernel would reap our children
/// behind our back and their ends would be lost.
pub(super) fn hear_of_children() {
    // SAFETY: setting a disposition to the default installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Marks a descriptor that whoever started us left open, so that no job inherits it.
pub(super) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes an integer; a number that is no descriptor is answered with EBADF.
    let result = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes the child a session of its own with default signals, which dies with the supervisor.
pub(super) fn isolate(command: &mut Command) {
    let supervisor = std::process::id().cast_signed();
    let prepare = move || {
        // SAFETY: all of these are plain system calls and async-signal-safe.
        unsafe {
            // What the supervisor does not watch must not run: a main process dies with it at
            // once, and the next supervisor sweeps what that left behind.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() != supervisor {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            // SIGKILL and SIGSTOP cannot be set, which changes nothing: they are at default.
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            if libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing, takes no lock and makes only async-signal-safe
    // calls, as code between fork and exec must.
    unsafe { command.pre_exec(prepare) };
}
