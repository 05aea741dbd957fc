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
//! A child in nobody's cgroup is given to an attempt by its session, then by the mark that it has
//! inherited (see `brand`), then by the token in its environment. One that has shed all of them cannot
//! be told apart and counts for every attempt
//! that is ending and had begun when it was started: an attempt may only be called ended when
//! nothing of it can be alive, and a process that hides from its supervisor is killed rather
//! than left to run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use protocol::{BootMs, DurationMs, Token};

use super::brand::{self, read_slack_ns};
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

/// Children of ours that are no main processes, and whose they are.
#[derive(Default)]
pub(super) struct Orphans(Vec<(i32, Owner)>);

#[derive(Clone, Copy)]
enum Owner {
    Attempt(Token),
    /// It has shed all that would tell: anybody's who had begun when it was started.
    Nobody {
        started: u64,
    },
    /// Its environment has not been read yet.
    Undecided,
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

    /// Those of which a main process is alive.
    pub(super) fn running(&self) -> impl Iterator<Item = Token> + '_ {
        let alive = self.mains.iter().filter(|(_, main)| main.alive);
        alive.map(|(token, _)| *token)
    }

    /// How long ago its first process was forked.
    pub(super) fn age(&self, token: Token, now: BootMs) -> Option<DurationMs> {
        let started = self.mains.get(&token)?.started;
        let started = i64::try_from(started).ok()?.saturating_mul(TICK_MS);
        Some(now - BootMs(started))
    }

    /// Whose our children are that are no main processes. Read once for all attempts that are
    /// looked at or signalled together: with a thousand children, reading them for each attempt
    /// would take longer than a kill may.
    pub(super) fn orphans(&mut self, cgroups: &Cgroups) -> io::Result<Orphans> {
        let mut orphans = Vec::new();
        for pid in read_own_children(&self.proc)? {
            if !self.own.contains(&pid) && !self.is_main(pid) {
                let owner = self.owner(pid, cgroups);
                orphans.push((pid, owner));
            }
        }
        Ok(Orphans(orphans))
    }

    /// How many processes of this attempt's tree are alive; `None` while that is not known.
    pub(super) fn count(
        &self,
        token: Token,
        orphans: &Orphans,
        cgroups: &Cgroups,
    ) -> io::Result<Option<u32>> {
        let tree = self.look(token, orphans, cgroups)?;
        let alive = tree.roots.len().max(tree.members.len()) as u32;
        Ok((alive > 0 || !tree.undecided).then_some(alive))
    }

    /// The pids of what is alive, for a person.
    pub(super) fn pids(&mut self, token: Token, cgroups: &Cgroups) -> Vec<i32> {
        let tree = self
            .orphans(cgroups)
            .and_then(|orphans| self.look(token, &orphans, cgroups));
        let members = tree.unwrap_or_default().members;
        members.iter().map(|process| process.pid).collect()
    }

    /// Signals everything alive of these attempts' trees. One process that cannot be signalled
    /// spares none of the others; of each attempt the first such failure is returned.
    pub(super) fn signal(
        &mut self,
        sent: &[(Token, Signal)],
        cgroups: &Cgroups,
    ) -> BTreeMap<Token, io::Error> {
        let mut failures = BTreeMap::new();
        // What one write kills is killed in all trees before any of them is looked at.
        for &(token, _) in sent.iter().filter(|(_, s)| *s == Signal::SIGKILL) {
            if let Err(error) = cgroups.kill(token) {
                failures.insert(token, error);
            }
        }
        let mut open = sent.to_vec();
        let mut done = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let orphans = match self.orphans(cgroups) {
                Ok(orphans) => orphans,
                Err(error) => {
                    // Main processes and what hangs below them are found without.
                    tracing::error!(%error, "the supervisor's children cannot be read");
                    Orphans::default()
                }
            };
            open.retain(|&(token, signal)| {
                let was_done = done.len();
                let result = self.signal_once(token, signal, &orphans, cgroups, &mut done);
                if let Err(error) = result {
                    failures.entry(token).or_insert(error);
                }
                done.len() > was_done
            });
            if open.is_empty() {
                break;
            }
        }
        failures
    }

    /// Signals what of this tree is not `done` yet.
    fn signal_once(
        &self,
        token: Token,
        sent: Signal,
        orphans: &Orphans,
        cgroups: &Cgroups,
        done: &mut BTreeSet<(Token, i32, u64)>,
    ) -> io::Result<()> {
        let mut result = Ok(());
        for process in self.look(token, orphans, cgroups)?.members {
            if done.insert((token, process.pid, process.started)) {
                result = result.and(signal(&self.proc, &process, sent));
            }
        }
        result
    }

    fn look(&self, token: Token, orphans: &Orphans, cgroups: &Cgroups) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let Some(main) = self.mains.get(&token) else {
            return Ok(tree);
        };
        if main.alive {
            tree.roots.insert(main.pid);
        }
        for &(pid, owner) in &orphans.0 {
            let belongs = match owner {
                Owner::Attempt(owner) => owner == token,
                Owner::Nobody { started } => !main.alive && started >= main.started,
                Owner::Undecided => {
                    tree.undecided = true;
                    false
                }
            };
            if belongs {
                tree.roots.insert(pid);
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

    /// The one attempt whose mark this process has inherited.
    fn branded(&self, child: i32) -> Option<Token> {
        let slack_ns = read_slack_ns(&self.proc, child)?;
        let mut bearers = self
            .mains
            .keys()
            .filter(|&&token| brand::slack_ns(token) == slack_ns);
        let first = bearers.next().copied();
        first.filter(|_| bearers.next().is_none())
    }

    fn is_main(&self, child: i32) -> bool {
        let token = self.by_pid.get(&child);
        let main = token.and_then(|token| self.mains.get(token));
        main.is_some_and(|main| main.alive)
    }

    fn owner(&mut self, child: i32, cgroups: &Cgroups) -> Owner {
        if let Some(owner) = cgroups.owner(child) {
            return Owner::Attempt(owner);
        }
        let Some(process) = read_process(&self.proc, child) else {
            // It is there, for nobody else reaps it; what it is cannot be known.
            return Owner::Nobody { started: u64::MAX };
        };
        // A session's number is not given out again while anybody is in it.
        if let Some(&owner) = self.by_pid.get(&process.session) {
            return Owner::Attempt(owner);
        }
        if let Some(owner) = self.branded(child) {
            return Owner::Attempt(owner);
        }
        match self.sightings.of(process) {
            None => Owner::Undecided,
            Some(Mark::Ours(Some(owner))) if self.mains.contains_key(&owner) => {
                Owner::Attempt(owner)
            }
            Some(_) => Owner::Nobody {
                started: process.started,
            },
        }
    }
}

/// How a process shows which attempt it is of.
pub(super) fn token_mark(token: Token) -> String {
    format!("MATINS_TOKEN={}", token.0)
}
