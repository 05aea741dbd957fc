//! Which process belongs to which attempt.
//!
//! The supervisor is the subreaper of all it starts: whatever an attempt starts, however often
//! it forks and however it hides, has the supervisor above it. A process whose parent ends
//! becomes the supervisor's own child in the same instant. So when the main process of an attempt
//! has been reaped, everything of the attempt that lives hangs below some child of the supervisor
//! that is not another attempt's main process. If there is no such child and nothing in the
//! attempt's cgroups, the tree is empty: this is the ordinary case and costs two or three small
//! files. Either alone would nearly do. A machine may have no cgroups for us, and root can
//! move a process out of one; and what a child of ours is of, only its cgroup says for certain.
//!
//! A child in nobody's cgroup is given to an attempt by its session, then by the token in its
//! environment. One that has shed all three cannot be told apart and counts for every attempt
//! that is ending and had begun when it was started: an attempt may only be called ended when
//! nothing of it can be alive, and a process that hides from its supervisor is killed rather
//! than left to run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use protocol::{BootMs, Token};

use super::cgroups::Cgroups;
use super::environments::{Mark, Sightings};
use super::processes::{Process, read_own_children, read_process, read_tree, signal};

/// Rounds of one signal: each finds what was forked while the last was under way.
const ROUNDS_MAX: usize = 8;

/// The kernel tells starts of processes in these, whatever its own clock ticks.
const TICK_MS: i64 = 10;

pub(super) struct Trees {
    proc: PathBuf,
    mains: BTreeMap<Token, Main>,
    /// Whose main process has, or had, this pid, which is also the number of its session.
    by_pid: BTreeMap<i32, Token>,
    /// Processes that the supervisor has forked for itself.
    own: BTreeSet<i32>,
    pub(super) sightings: Sightings,
}

struct Main {
    pid: i32,
    /// At the earliest, in ticks after boot.
    started: u64,
    alive: bool,
}

/// An attempt's tree at this moment.
#[derive(Default)]
struct Tree {
    /// Children of ours at its top.
    roots: BTreeSet<i32>,
    members: Vec<Process>,
    /// There may be more, and it is not known yet.
    undecided: bool,
}

impl Trees {
    pub(super) fn new(proc: PathBuf, sightings: Sightings) -> Trees {
        Trees {
            proc,
            mains: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            own: BTreeSet::new(),
            sightings,
        }
    }

    /// A process was forked, after `forked_at`, that is to be this attempt's main one.
    pub(super) fn insert(&mut self, token: Token, pid: i32, forked_at: BootMs) {
        let started = u64::try_from(forked_at.0 / TICK_MS).unwrap_or(0);
        let alive = true;
        self.by_pid.insert(pid, token);
        self.mains.insert(
            token,
            Main {
                pid,
                started,
                alive,
            },
        );
    }

    /// A child of ours that is no attempt's.
    pub(super) fn insert_own(&mut self, pid: i32) {
        self.own.insert(pid);
    }

    /// A child was reaped: the attempt whose main process it was, if it was one.
    pub(super) fn reaped(&mut self, pid: i32) -> Option<Token> {
        self.own.remove(&pid);
        self.sightings.forget(pid);
        let token = *self.by_pid.get(&pid)?;
        let main = self.mains.get_mut(&token).filter(|main| main.alive)?;
        main.alive = false;
        Some(token)
    }

    /// The attempt has ended.
    pub(super) fn remove(&mut self, token: Token) {
        if let Some(main) = self.mains.remove(&token)
            && self.by_pid.get(&main.pid) == Some(&token)
        {
            self.by_pid.remove(&main.pid);
        }
    }

    /// How many processes of this attempt's tree are alive; `None` while that is not known.
    pub(super) fn count(&mut self, token: Token, cgroups: &Cgroups) -> io::Result<Option<u32>> {
        let tree = self.look(token, cgroups)?;
        let alive = tree.roots.len().max(tree.members.len()) as u32;
        Ok((alive > 0 || !tree.undecided).then_some(alive))
    }

    /// The pids of what is alive, for a person.
    pub(super) fn pids(&mut self, token: Token, cgroups: &Cgroups) -> Vec<i32> {
        let tree = self.look(token, cgroups).unwrap_or_default();
        tree.members.iter().map(|process| process.pid).collect()
    }

    /// Signals everything alive of this attempt's tree. One process that cannot be signalled
    /// spares none of the others; the first such failure is returned.
    pub(super) fn signal(
        &mut self,
        token: Token,
        sent: Signal,
        cgroups: &Cgroups,
    ) -> io::Result<()> {
        let mut result = Ok(());
        if sent == Signal::SIGKILL {
            result = cgroups.kill(token);
        }
        let mut done = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let tree = self.look(token, cgroups)?;
            let members = tree.members.into_iter();
            let fresh: Vec<Process> = members
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

    fn look(&mut self, token: Token, cgroups: &Cgroups) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let Some(main) = self.mains.get(&token) else {
            return Ok(tree);
        };
        if main.alive {
            tree.roots.insert(main.pid);
        }
        for child in read_own_children(&self.proc)? {
            if self.own.contains(&child) || self.is_main(child) {
                continue;
            }
            match self.belongs(child, token, cgroups) {
                Some(true) => {
                    tree.roots.insert(child);
                }
                Some(false) => {}
                None => tree.undecided = true,
            }
        }
        let held = cgroups.alive(token);
        tree.undecided |= held.undecided;
        tree.members = held.processes;
        if !tree.roots.is_empty() {
            for process in read_tree(&self.proc, &tree.roots)? {
                if !process.dead && !tree.members.contains(&process) {
                    tree.members.push(process);
                }
            }
        }
        Ok(tree)
    }

    fn is_main(&self, child: i32) -> bool {
        let token = self.by_pid.get(&child);
        let main = token.and_then(|token| self.mains.get(token));
        main.is_some_and(|main| main.alive)
    }

    /// Whether this child of ours, which is no main process, may be of this attempt.
    fn belongs(&mut self, child: i32, token: Token, cgroups: &Cgroups) -> Option<bool> {
        if let Some(owner) = cgroups.owner(child) {
            return Some(owner == token);
        }
        let main = self.mains.get(&token)?;
        let Some(process) = read_process(&self.proc, child) else {
            // It is there, for nobody else reaps it; what it is cannot be known.
            return Some(!main.alive);
        };
        // A session's number is not given out again while anybody is in it.
        if let Some(&owner) = self.by_pid.get(&process.session) {
            return Some(owner == token);
        }
        match self.sightings.of(process)? {
            Mark::Ours(Some(owner)) if self.mains.contains_key(&owner) => Some(owner == token),
            _ => Some(!main.alive && process.started >= main.started),
        }
    }
}

/// How a process shows which attempt it is of.
pub(super) fn token_mark(token: Token) -> String {
    format!("MATINS_TOKEN={}", token.0)
}
