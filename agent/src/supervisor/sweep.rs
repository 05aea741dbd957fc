//! What an earlier supervisor left behind, found and killed before the first word to an agent.
//!
//! A leftover is known by `MATINS_SUPERVISOR=<this directory>` in its environment; what shares a
//! session with one, or hangs below one, goes with it. Several supervisors may share a machine,
//! each with a directory of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use protocol::{BootMs, DurationMs};

use super::processes::{Process, has_environment, read_processes, signal, with_descendants};
use crate::clock;

/// Longest a sweep may take. A leftover in uninterruptible IO cannot be killed; the supervisor
/// then says that it did not verify it dead, and the coordinator waits for expiry.
const SWEEP_MAX: DurationMs = DurationMs(5_000);
const PAUSE: Duration = Duration::from_millis(10);

/// Kills every leftover; says whether the machine was then seen without one.
///
/// One look can miss a process that is being forked while /proc is read, so two in a row must
/// find none.
pub(super) fn sweep(proc: &Path, mark: &str) -> io::Result<bool> {
    let until: BootMs = clock::now().boot + SWEEP_MAX;
    let mut clean_looks = 0;
    let mut known = BTreeSet::new();
    loop {
        let leftovers = find(proc, mark)?;
        if leftovers.is_empty() {
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

fn find(proc: &Path, mark: &str) -> io::Result<Vec<Process>> {
    let processes = read_processes(proc)?;
    let marked = processes
        .values()
        .filter(|p| !p.dead && has_environment(proc, p.pid, &[mark]))
        .map(|p| p.pid)
        .collect();
    let own = std::process::id().cast_signed();
    Ok(leftovers(&processes, &marked, own))
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
