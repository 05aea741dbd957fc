//! What an earlier supervisor left behind, found and killed before the first word to an agent.
//!
//! A leftover is known by `MATINS_SUPERVISOR=<this directory>` in its environment; what shares a
//! session with one, or hangs below one, goes with it. Several supervisors may share a machine,
//! each with a directory of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use protocol::{BootMs, DurationMs};

use super::environments::{Mark, Reader};
use super::processes::{Process, read_processes, signal, with_descendants};
use crate::clock;

/// Longest a sweep may take. A leftover in uninterruptible IO cannot be killed; the supervisor
/// then says that it did not verify it dead, and the coordinator waits for expiry.
const SWEEP_MAX: DurationMs = DurationMs(5_000);
const PAUSE: Duration = Duration::from_millis(10);

/// A process that takes longer to be looked at hangs.
const ANSWER_MAX_MS: u16 = 500;
/// After so many of these the host has other worries than to wait for a sweep.
const HUNG_MAX: u32 = 4;

/// Kills every leftover; says whether the machine was then seen without one.
///
/// One look can miss a process that is being forked while /proc is read, so two in a row must
/// find none.
pub(super) fn sweep(proc: &Path, mark: &str) -> io::Result<bool> {
    let until: BootMs = clock::now().boot + SWEEP_MAX;
    let mut clean_looks = 0;
    let mut known = BTreeSet::new();
    loop {
        let (leftovers, all) = find(proc, mark)?;
        if leftovers.is_empty() {
            if !all {
                return Ok(false);
            }
            clean_looks += 1;
            if clean_looks == 2 {
                return Ok(true);
            }
            continue;
        }
        clean_looks = 0;
        for process in &leftovers {
            if known.insert((process.pid, process.started)) {
                tracing::warn!(
                    pid = process.pid,
                    "killing a leftover of an earlier supervisor"
                );
            }
            if let Err(error) = signal(proc, process, Signal::SIGKILL) {
                tracing::error!(pid = process.pid, %error, "a leftover cannot be killed");
            }
        }
        if clock::now().boot >= until {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Leftovers, and whether every process could be looked at.
fn find(proc: &Path, mark: &str) -> io::Result<(Vec<Process>, bool)> {
    let processes = read_processes(proc)?;
    let own = std::process::id().cast_signed();
    let names: Vec<(i32, u64)> = processes
        .values()
        .filter(|p| !p.dead && p.pid != own)
        .map(|p| (p.pid, p.started))
        .collect();
    let (marked, all) = read_marked(proc, mark, names)?;
    Ok((leftovers(&processes, &marked, own), all))
}

/// Which of these have the mark in their environment, and whether all could be asked.
fn read_marked(
    proc: &Path,
    mark: &str,
    mut names: Vec<(i32, u64)>,
) -> io::Result<(BTreeSet<i32>, bool)> {
    let mut marked = BTreeSet::new();
    let mut hung = 0;
    while !names.is_empty() {
        let mut reader = Reader::start(proc, mark, names)?;
        let mut heard = 0;
        let ended = loop {
            let mut polled = [PollFd::new(reader.fd(), PollFlags::POLLIN)];
            let ready = poll(&mut polled, ANSWER_MAX_MS)?;
            if ready == 0 {
                break false;
            }
            let ended = reader.read();
            heard = reader.answers.len().max(heard);
            if ended {
                break true;
            }
        };
        marked.extend(
            reader
                .answers
                .iter()
                .filter(|(_, found)| *found != Mark::Foreign)
                .map(|((pid, _), _)| *pid),
        );
        reader.stop();
        waitpid(Pid::from_raw(reader.pid), None)?;
        names = reader.asked.split_off(heard.min(reader.asked.len()));
        if !ended && !names.is_empty() {
            // The one it hangs at.
            let (pid, _) = names.remove(0);
            tracing::warn!(pid, "it cannot be seen whose this process is: it hangs");
            hung += 1;
            if hung == HUNG_MAX {
                break;
            }
        } else if ended {
            break;
        }
    }
    Ok((marked, hung == 0))
}

/// The marked, what shares a session with one, and everything below these.
///
/// A session counts only if it can be an attempt's own: its leader is gone, or is a leftover too.
/// Otherwise a person who ran something by hand with the mark in its environment would lose the
/// shell it was run from. This process, what it descends from and its session are never touched.
fn leftovers(processes: &BTreeMap<i32, Process>, marked: &BTreeSet<i32>, own: i32) -> Vec<Process> {
    let mut spared = BTreeSet::new();
    let mut next = processes.get(&own);
    while let Some(process) = next {
        if !spared.insert(process.pid) {
            break;
        }
        next = processes.get(&process.parent);
    }
    let own_session = processes.get(&own).map(|p| p.session);
    let below = with_descendants(processes, marked);
    let is_attempts = |session: i32| {
        Some(session) != own_session
            && processes
                .get(&session)
                .is_none_or(|leader| leader.dead || below.contains(&leader.pid))
    };
    let sessions: BTreeSet<i32> = marked
        .iter()
        .filter_map(|pid| processes.get(pid))
        .map(|p| p.session)
        .filter(|&session| is_attempts(session))
        .collect();
    let roots = processes
        .values()
        .filter(|p| marked.contains(&p.pid) || sessions.contains(&p.session))
        .map(|p| p.pid)
        .collect();
    with_descendants(processes, &roots)
        .into_iter()
        .filter(|pid| !spared.contains(pid))
        .filter_map(|pid| processes.get(&pid).copied())
        .filter(|p| !p.dead)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, parent, session, dead.
    type Row = (i32, i32, i32, bool);

    fn found(rows: &[Row], marked: &[i32], own: i32) -> Vec<i32> {
        let processes = rows
            .iter()
            .map(|&(pid, parent, session, dead)| {
                let started = 1;
                let process = Process {
                    pid,
                    parent,
                    session,
                    started,
                    dead,
                };
                (pid, process)
            })
            .collect();
        let marked = marked.iter().copied().collect();
        leftovers(&processes, &marked, own)
            .iter()
            .map(|p| p.pid)
            .collect()
    }

    #[test]
    fn leftovers_and_those_who_only_look_like_it() {
        let init: Row = (1, 0, 1, false);
        let supervisor: Row = (50, 40, 40, false);
        let shell: Row = (40, 1, 40, false);
        for (what, rows, marked, expected) in [
            (
                "an orphan and its child",
                &[(90, 1, 80, false), (91, 90, 80, false)][..],
                &[90][..],
                &[90, 91][..],
            ),
            (
                "one without the mark, in the session of one with it",
                &[(80, 1, 80, false), (90, 1, 80, false)],
                &[80],
                &[80, 90],
            ),
            (
                "the same, its leader gone",
                &[(85, 1, 80, false), (90, 1, 80, false)],
                &[85],
                &[85, 90],
            ),
            (
                "run by hand from somebody's shell",
                &[(60, 1, 60, false), (61, 60, 60, false), (62, 60, 60, false)],
                &[61],
                &[61],
            ),
            (
                "a shell and a session that are the supervisor's own",
                &[(41, 40, 40, false)],
                &[40, 41],
                &[41],
            ),
            ("what has ended", &[(90, 1, 80, true)], &[], &[]),
        ] {
            let rows = [&[init, shell, supervisor], rows].concat();
            assert_eq!(found(&rows, marked, 50), expected, "{what}");
        }
    }
}
