//! What is alive, from /proc, and signals that cannot hit a stranger.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::libc;
use nix::sys::signal::Signal;

use super::sys;

/// One process as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// Clock ticks after boot. With `pid` it names a process for ever.
    pub(super) started: u64,
    /// Every thread of it has ended; only its entry waits to be reaped.
    pub(super) dead: bool,
}

/// Reads one process; `None` if it is gone.
pub(super) fn read_process(proc: &Path, pid: i32) -> Option<Process> {
    let stat = std::fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&stat))
}

/// Reads every process. Processes that begin or end meanwhile may be missing.
pub(super) fn read_processes(proc: &Path) -> io::Result<BTreeMap<i32, Process>> {
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir(proc)? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some(process) = pid.and_then(|pid| read_process(proc, pid)) {
            processes.insert(process.pid, process);
        }
    }
    Ok(processes)
}

/// The name in parentheses is the process's own choice and may hold anything, so the fields are
/// counted from the last closing one.
fn parse_stat(stat: &str) -> Option<Process> {
    let pid = stat.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..]
        .split_ascii_whitespace()
        .collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let state = field(3)?;
    let threads: u32 = field(20)?.parse().ok()?;
    Some(Process {
        pid,
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
        // A main thread that has ended shows as a zombie while other threads of it run on.
        dead: matches!(state, "Z" | "X" | "x") && threads <= 1,
    })
}

/// The children of this process, ended but not yet reaped ones included. Exact, as long as this
/// process alone reaps them and does not do so meanwhile: the kernel's list only grows at its end.
pub(super) fn read_own_children(proc: &Path) -> io::Result<BTreeSet<i32>> {
    let mut children = BTreeSet::new();
    let tasks = proc.join("self/task");
    let mut lists = Vec::new();
    if tasks.metadata()?.nlink() == LINKS_OF_ONE_THREAD {
        lists.push(proc.join("thread-self/children"));
    } else {
        for task in std::fs::read_dir(tasks)? {
            lists.push(task?.path().join("children"));
        }
    }
    for list in lists {
        match std::fs::read_to_string(list) {
            Ok(list) => children.extend(list.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            // A kernel built without that file: whose parent we are is asked of everybody.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let own = std::process::id().cast_signed();
                let everybody = read_processes(proc)?;
                return Ok(everybody
                    .values()
                    .filter(|p| p.parent == own)
                    .map(|p| p.pid)
                    .collect());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// A directory of threads counts each as one more link.
const LINKS_OF_ONE_THREAD: u64 = 3;

/// `roots` and everything below them.
pub(super) fn with_descendants(
    processes: &BTreeMap<i32, Process>,
    roots: &BTreeSet<i32>,
) -> BTreeSet<i32> {
    let mut below: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes.values() {
        below.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = roots.clone();
    let mut open: Vec<i32> = roots.iter().copied().collect();
    while let Some(pid) = open.pop() {
        for &child in below.get(&pid).into_iter().flatten() {
            if found.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

/// `roots` and everything below them. What is forked or orphaned meanwhile may be missing.
pub(super) fn read_tree(proc: &Path, roots: &BTreeSet<i32>) -> io::Result<Vec<Process>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<i32> = roots.iter().copied().collect();
    while let Some(pid) = open.pop() {
        if !found.insert(pid) {
            continue;
        }
        match read_children(proc, pid) {
            Ok(children) => open.extend(children),
            // A kernel built without that file: the parents of all others are asked.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let everybody = read_processes(proc)?;
                let tree = with_descendants(&everybody, roots).into_iter();
                return Ok(tree
                    .filter_map(|pid| everybody.get(&pid).copied())
                    .collect());
            }
            Err(error) => return Err(error),
        }
    }
    let found = found.into_iter();
    Ok(found.filter_map(|pid| read_process(proc, pid)).collect())
}

/// The children of one process; none if it is gone. `Unsupported` where the kernel lists none.
fn read_children(proc: &Path, pid: i32) -> io::Result<BTreeSet<i32>> {
    let mut children = BTreeSet::new();
    let Ok(tasks) = std::fs::read_dir(proc.join(pid.to_string()).join("task")) else {
        return Ok(children);
    };
    for task in tasks.filter_map(Result::ok) {
        match std::fs::read_to_string(task.path().join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            Err(_) if !task.path().join("stat").exists() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            // It has ended since.
            Err(_) => {}
        }
    }
    Ok(children)
}

/// Signals exactly this process. One that has ended meanwhile is no error.
pub(super) fn signal(proc: &Path, process: &Process, signal: Signal) -> io::Result<()> {
    let gone = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
    let same = || read_process(proc, process.pid).is_some_and(|p| p.started == process.started);
    let result = match sys::pidfd_open(process.pid) {
        // Looked at again with the handle in hand: what the handle holds is what was looked at.
        Ok(handle) if same() => sys::pidfd_signal(&handle, signal),
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            // Before Linux 5.3 there is a gap of microseconds between look and signal.
            if same() {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), signal)
                    .map_err(io::Error::from)
            } else {
                Ok(())
            }
        }
        Err(error) => Err(error),
    };
    match result {
        Err(error) if !gone(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let rest = "0 0 0 0 0 0 0 0 0 0 0 20 0";
        for (line, expected) in [
            (
                format!("12 (sh) S 7 12 11 {rest} 1 0 5555 0"),
                Some((12, 7, 11, 5555, false)),
            ),
            (
                format!("12 (a) R 1 (b) Z 7 12 11 {rest} 1 0 5555 0"),
                Some((12, 7, 11, 5555, true)),
            ),
            (
                format!("12 (main thread gone) Z 7 12 11 {rest} 4 0 5555 0"),
                Some((12, 7, 11, 5555, false)),
            ),
            ("12 (sh) S 7".to_owned(), None),
            (String::new(), None),
        ] {
            let got = parse_stat(&line).map(|p| (p.pid, p.parent, p.session, p.started, p.dead));
            assert_eq!(got, expected, "{line}");
        }
    }

    /// As the supervisor is. A forked child has one thread, whatever forks it.
    #[test]
    fn a_process_of_one_thread_finds_its_children_the_ended_ones_too() {
        let find = || {
            let ended = sys::fork(|| 0);
            let children = read_own_children(Path::new("/proc"));
            let (Ok(ended), Ok(children)) = (ended, children) else {
                return 1;
            };
            i32::from(children != BTreeSet::from([ended])) * 2
        };
        let pid = nix::unistd::Pid::from_raw(sys::fork(find).unwrap());
        let status = nix::sys::wait::waitpid(pid, None).unwrap();
        assert_eq!(status, nix::sys::wait::WaitStatus::Exited(pid, 0));
    }

    #[test]
    fn this_process_finds_itself() {
        let proc = Path::new("/proc");
        let own = std::process::id().cast_signed();
        let everybody = read_processes(proc).unwrap();
        let me = everybody[&own];
        assert_eq!(Some(me), read_process(proc, own));
        assert!(!me.dead);
        let tree = with_descendants(&everybody, &BTreeSet::from([me.parent]));
        assert!(tree.contains(&own) && tree.contains(&me.parent));
        let below = read_tree(proc, &BTreeSet::from([me.parent])).unwrap();
        assert!(below.contains(&me));
    }
}
