//! Which process belongs to which attempt.
//!
//! The supervisor is the subreaper of all it starts: whatever an attempt starts, however often
//! it forks and however it hides, has the supervisor above it. A process whose parent ends
//! becomes the supervisor's own child in the same instant. So when the main process of an attempt
//! has been reaped, everything of the attempt that lives hangs below some child of the supervisor
//! that is not another attempt's main process. If there is no such child, the tree is empty:
//! one small file tells, and this is the ordinary case.
//!
//! If there is one, it is given to an attempt by its session, then by the token in its
//! environment. One that has shed both (a new session and an emptied environment) cannot be told
//! apart and counts for every attempt that is ending and had begun when it was started: an
//! attempt may only be called ended when nothing of it can be alive, and a process that hides
//! from its supervisor is killed rather than left to run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use protocol::Token;

use super::processes::{
    Process, has_environment, read_own_children, read_process, read_processes, signal,
    with_descendants,
};

/// Rounds of one signal: each finds what was forked while the last was under way.
const ROUNDS_MAX: usize = 8;

pub(super) struct Trees {
    proc: PathBuf,
    /// `MATINS_SUPERVISOR=<directory>`, in the environment of everything we start.
    mark: String,
    mains: BTreeMap<Token, Main>,
}

struct Main {
    pid: i32,
    started: u64,
    alive: bool,
}

impl Trees {
    pub(super) fn new(proc: PathBuf, mark: String) -> Trees {
        Trees {
            proc,
            mark,
            mains: BTreeMap::new(),
        }
    }

    /// A main process was spawned and has not been reaped yet.
    pub(super) fn insert(&mut self, token: Token, pid: i32) {
        let started = read_process(&self.proc, pid).map_or(0, |p| p.started);
        let alive = true;
        self.mains.insert(
            token,
            Main {
                pid,
                started,
                alive,
            },
        );
    }

    /// A child was reaped: the attempt whose main process it was, if it was one.
    pub(super) fn reaped(&mut self, pid: i32) -> Option<Token> {
        let (&token, main) = self
            .mains
            .iter_mut()
            .find(|(_, main)| main.alive && main.pid == pid)?;
        main.alive = false;
        Some(token)
    }

    /// The attempt has ended.
    pub(super) fn remove(&mut self, token: Token) {
        self.mains.remove(&token);
    }

    /// How many processes of this attempt's tree are alive.
    pub(super) fn count(&self, token: Token) -> io::Result<u32> {
        let (roots, members) = self.members(token)?;
        Ok(roots.len().max(members.len()) as u32)
    }

    /// Signals everything alive of this attempt's tree. One process that cannot be signalled
    /// spares none of the others; the first such failure is returned.
    pub(super) fn signal(&self, token: Token, sent: Signal) -> io::Result<()> {
        let mut done = BTreeSet::new();
        let mut result = Ok(());
        for _ in 0..ROUNDS_MAX {
            let (_, members) = self.members(token)?;
            let fresh: Vec<Process> = members
                .into_iter()
                .filter(|p| done.insert((p.pid, p.started)))
                .collect();
            if fresh.is_empty() {
                break;
            }
            for process in fresh {
                result = result.and(signal(&self.proc, &process, sent));
            }
        }
        result
    }

    /// The children of ours at the top of this attempt's tree, and everything alive in it.
    fn members(&self, token: Token) -> io::Result<(BTreeSet<i32>, Vec<Process>)> {
        let Some(main) = self.mains.get(&token) else {
            return Ok((BTreeSet::new(), Vec::new()));
        };
        let children = read_own_children(&self.proc)?;
        let is_main = |pid: i32| self.mains.values().any(|m| m.alive && m.pid == pid);
        let mut roots: BTreeSet<i32> = BTreeSet::new();
        if main.alive {
            roots.insert(main.pid);
        }
        for &child in children.iter().filter(|&&child| !is_main(child)) {
            if self.belongs(child, token, main) {
                roots.insert(child);
            }
        }
        if roots.is_empty() {
            return Ok((roots, Vec::new()));
        }
        let processes = read_processes(&self.proc)?;
        let members = with_descendants(&processes, &roots)
            .into_iter()
            .filter_map(|pid| processes.get(&pid).copied())
            .filter(|p| !p.dead)
            .collect();
        Ok((roots, members))
    }

    /// Whether this child of ours, which is no main process, may be of this attempt.
    fn belongs(&self, child: i32, token: Token, main: &Main) -> bool {
        let Some(process) = read_process(&self.proc, child) else {
            // It is there, for nobody else reaps it; what it is cannot be known.
            return !main.alive;
        };
        // A session's number is not given out again while anybody is in it.
        if let Some((&owner, _)) = self.mains.iter().find(|(_, m)| m.pid == process.session) {
            return owner == token;
        }
        if has_environment(&self.proc, child, &[&self.mark]) {
            let owner = self.mains.keys().find(|owner| {
                let mark = token_mark(**owner);
                has_environment(&self.proc, child, &[&mark])
            });
            if let Some(&owner) = owner {
                return owner == token;
            }
        }
        !main.alive && process.started >= main.started
    }
}

/// How a process shows which attempt it is of.
pub(super) fn token_mark(token: Token) -> String {
    format!("MATINS_TOKEN={}", token.0)
}
