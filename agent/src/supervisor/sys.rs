//! The calls into the kernel that Rust cannot check. Everything unsafe in this crate is here.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use agent_core::supervisor::MainUsage;
use nix::libc::{self, c_uint};
use nix::sys::signal::{SigSet, Signal};
use protocol::DurationMs;
use protocol::attempt::Exit;

/// A child that has ended and is no longer in the process table.
pub(super) struct Reaped {
    pub(super) pid: i32,
    pub(super) exit: Exit,
    pub(super) usage: MainUsage,
}

/// What getrusage(2) counts IO in.
const BLOCK_BYTES: u64 = 512;

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
        let usage = MainUsage {
            cpu: DurationMs(milliseconds(used.ru_utime) + milliseconds(used.ru_stime)),
            // The kernel counts in KiB.
            memory_bytes_peak: u64::try_from(used.ru_maxrss).unwrap_or(0) * 1024,
            read_bytes: u64::try_from(used.ru_inblock).unwrap_or(0) * BLOCK_BYTES,
            write_bytes: u64::try_from(used.ru_oublock).unwrap_or(0) * BLOCK_BYTES,
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

/// Takes over a descriptor that came with a message, of which nobody else knows.
pub(super) fn adopt(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
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

/// Marks every descriptor beyond the three standard ones, so that the next program gets none.
pub(super) fn close_on_exec_all_above_standard() {
    close_range(3, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
}

/// Closes every descriptor beyond the three standard ones but this one.
pub(super) fn close_all_above_standard_but(kept: BorrowedFd<'_>) {
    let kept = kept.as_raw_fd().cast_unsigned();
    if kept > 3 {
        close_range(3, kept - 1, 0);
    }
    close_range(kept.max(2) + 1, c_uint::MAX, 0);
}

/// Kernels before 5.9 do not have the call; everything that is opened here is closed on exec
/// anyway.
fn close_range(first: c_uint, last: c_uint, flags: c_uint) {
    // SAFETY: the call takes three integers. Only a forked child calls it that returns to nobody
    // who could use a descriptor that is gone.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

/// Runs `child` in a process of its own, which ends with the status it answers; the pid of it.
///
/// To be called while this process has no thread but those that hold no lock, so that the child
/// may allocate and log.
pub(super) fn fork(child: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the child runs on a copy of everything; it leaves by _exit whatever happens in it,
    // so that nothing of its caller runs twice.
    match unsafe { libc::fork() } {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(PANICKED);
            // SAFETY: ends this process and touches nothing.
            unsafe { libc::_exit(status) }
        }
        pid if pid < 0 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Status of a child that met a defect of ours.
const PANICKED: i32 = 101;

/// Lets this process be killed when its parent, which must be this one, ends.
pub(super) fn die_with(parent: i32) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if nix::unistd::getppid().as_raw() != parent {
        return Err(nix::Error::ESRCH);
    }
    Ok(())
}

/// How late timers of this process, and of what it starts from now on, may be.
pub(super) fn set_timer_slack(ns: u64) -> nix::Result<()> {
    nix::sys::prctl::set_timerslack(ns)
}

/// The signals that this process ignores, which a program would inherit.
pub(super) fn ignored_signals() -> Vec<libc::c_int> {
    let is_ignored = |signal: &libc::c_int| {
        // SAFETY: an all-zero sigaction is a valid value of that plain C struct.
        let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: without a new disposition the call only writes the old one, where it is told to.
        let asked = unsafe { libc::sigaction(*signal, std::ptr::null(), &raw mut found) };
        asked == 0 && found.sa_sigaction == libc::SIG_IGN
    };
    (1..=libc::SIGRTMAX()).filter(is_ignored).collect()
}

/// Gives these signals their default disposition and lets all signals through. Those that have a
/// handler lose it when the next program begins.
pub(super) fn default_signals(ignored: &[libc::c_int]) -> nix::Result<()> {
    for &signal in ignored {
        // SAFETY: setting a disposition to the default installs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    SigSet::empty().thread_set_mask()
}

/// Every capability that programs can hand to this process.
pub(super) fn bounding_set() -> Vec<libc::c_int> {
    let mut set = Vec::new();
    for capability in 0.. {
        // SAFETY: this call of prctl takes integers.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } {
            0 => {}
            1 => set.push(capability),
            // The kernel knows no such capability, nor any above it.
            _ => break,
        }
    }
    set
}

/// Takes these capabilities out of what programs can hand to this process and its descendants.
pub(super) fn drop_from_bounding_set(capabilities: &[libc::c_int]) -> io::Result<()> {
    for &capability in capabilities {
        // SAFETY: this call of prctl takes integers.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Gives up whatever capabilities are left, inheritable ones included.
pub(super) fn drop_capabilities() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`: two times 32 capabilities in each of three sets.
    const VERSION: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION, 0];
    let sets = [0_u32; 6];
    // SAFETY: the pointers are to values of the sizes that version 3 of the call reads.
    if unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// One of the resources a process is limited in: soft limit, hard limit.
pub(super) fn limit(resource: Resource) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live, writable value of the type that is asked for.
    if unsafe { libc::getrlimit(resource.number(), &raw mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((limit.rlim_cur, limit.rlim_max))
}

pub(super) fn set_limit(resource: Resource, (soft, hard): (u64, u64)) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the pointer is to a live value of the type that is asked for.
    if unsafe { libc::setrlimit(resource.number(), &raw const limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) enum Resource {
    Files,
    CoreBytes,
}

impl Resource {
    const fn number(self) -> libc::__rlimit_resource_t {
        match self {
            Resource::Files => libc::RLIMIT_NOFILE,
            Resource::CoreBytes => libc::RLIMIT_CORE,
        }
    }
}

/// How this process stands back for others: -20 (least) to 19.
pub(super) fn niceness() -> i32 {
    // SAFETY: the call takes two integers; it cannot fail for the process that makes it.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

pub(super) fn set_niceness(niceness: i32) -> io::Result<()> {
    // SAFETY: the call takes three integers.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Reads and writes of this process wait until nobody else wants the disk.
pub(super) fn yield_disk() {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const IOPRIO_IDLE: libc::c_int = 3 << 13;
    // SAFETY: the call takes three integers. Where the kernel cannot do it nothing is lost.
    unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE) };
}

/// Whether anything is set on this directory that is not on one that was just made: an extended
/// attribute, access lists among them, an inode flag, a project. What a file system does not know
/// is not set.
pub(super) fn has_attributes(directory: BorrowedFd<'_>) -> io::Result<bool> {
    let fd = directory.as_raw_fd();
    let known = |result: i64| match result {
        0.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EOPNOTSUPP)) => {
                Ok(false)
            }
            error => Err(error),
        },
    };
    // SAFETY: with a length of zero nothing is written, and the length of the list is answered.
    let listed = unsafe { libc::flistxattr(fd, std::ptr::null_mut(), 0) };
    if known(listed as i64)? && listed > 0 {
        return Ok(true);
    }
    let mut flags: c_uint = 0;
    // SAFETY: the kernel writes an int to where it is told to.
    let asked = unsafe { libc::ioctl(fd, libc::FS_IOC_GETFLAGS, &raw mut flags) };
    // How a file system stores a directory is none of anybody's doing.
    if known(asked.into())? && flags & !(FLAG_INDEX | FLAG_EXTENTS | FLAG_INLINE) != 0 {
        return Ok(true);
    }
    let mut extended = FsxAttr::default();
    // SAFETY: the kernel writes a value of this type to where it is told to.
    let asked = unsafe { libc::ioctl(fd, FS_IOC_FSGETXATTR, &raw mut extended) };
    Ok(known(asked.into())? && (extended.flags, extended.project) != (0, 0))
}

/// Of `linux/fs.h`, where a file system shows them: a directory with an index, of extents, or in its
/// inode.
const FLAG_INDEX: c_uint = 0x1000;
const FLAG_EXTENTS: c_uint = 0x8_0000;
const FLAG_INLINE: c_uint = 0x1000_0000;

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct FsxAttr {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    project: u32,
    copied_extent_bytes: u32,
    reserved: [u8; 8],
}

/// `_IOR('X', 31, struct fsxattr)`.
const FS_IOC_FSGETXATTR: libc::Ioctl = 0x801c_581f;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    fn check(result: libc::c_int) -> io::Result<()> {
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOTTY) => Err(io::ErrorKind::Unsupported.into()),
            _ => Err(error),
        }
    }

    /// As its owner may.
    pub(in crate::supervisor) fn set_attribute(path: &Path) -> io::Result<()> {
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let name = c"user.matins";
        // SAFETY: the pointers are to live values, and one byte is read of the last.
        check(unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), name.as_ptr().cast(), 1, 0) })
    }

    /// As its owner may.
    pub(in crate::supervisor) fn set_flag(path: &Path) -> io::Result<()> {
        const NO_DUMP: c_uint = 0x40;
        let directory = std::fs::File::open(path)?;
        let fd = directory.as_raw_fd();
        let mut flags: c_uint = 0;
        // SAFETY: the kernel writes an int to where it is told to.
        check(unsafe { libc::ioctl(fd, libc::FS_IOC_GETFLAGS, &raw mut flags) })?;
        flags |= NO_DUMP;
        // SAFETY: the kernel reads an int from where it is told to.
        check(unsafe { libc::ioctl(fd, libc::FS_IOC_SETFLAGS, &raw const flags) })
    }
}
