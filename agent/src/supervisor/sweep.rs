//! What an earlier supervisor left behind, found and killed before the first word to an agent.
//!
//! A leftover is known by `MATINS_SUPERVISOR=<this directory>` in its environment; what shares a
//! session with one, or hangs below one, goes with it. Several supervisors may share a machine,
//! each with a directory of its own.

use std::collections::BTreeSet;
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
    let own = std::process::id().cast_signed();
    let processes = read_processes(proc)?;
    let marked: BTreeSet<i32> = processes
        .values()
        .filter(|p| p.pid != own && !p.dead && has_environment(proc, p.pid, &[mark]))
        .map(|p| p.pid)
        .collect();
    let sessions: BTreeSet<i32> = marked.iter().map(|pid| processes[pid].session).collect();
    let with_sessions = processes
        .values()
        .filter(|p| marked.contains(&p.pid) || sessions.contains(&p.session))
        .map(|p| p.pid)
        .collect();
    Ok(with_descendants(&processes, &with_sessions)
        .into_iter()
        .filter(|&pid| pid != own)
        .map(|pid| processes[&pid])
        .filter(|p| !p.dead)
        .collect())
}
