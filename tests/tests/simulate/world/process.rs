//! The processes: what is true, whatever the rows say. And the results they write.
//!
//! A process knows who it is from its environment alone, as a real one does. It writes to a table
//! in the job's own database all its life, through the guard that DESIGN 6.11 describes: a
//! token or fence that has been overtaken is refused there.

use std::collections::BTreeMap;

use agent_core::supervisor::Signal;
use ledger::Namespace;
use protocol::attempt::Exit;
use protocol::supervisor::Launch;
use protocol::{JobId, Rule, RunId, Token, WallMs};

use super::people::EVERYBODY;
use super::{Event, World};
use crate::invariants;

/// One shard of one fire, across runs and executions.
pub type FireKey = (JobId, Namespace, WallMs, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub run_ms: i64,
    pub exit: Exit,
    /// How long it takes to die of SIGTERM; `None`: it ignores it.
    pub dies_of_term_ms: Option<i64>,
    /// How long a child outlives it.
    pub child_ms: Option<i64>,
    /// How long after SIGKILL it is still there, in uninterruptible IO.
    pub stuck_ms: i64,
    /// Memory is used up: the kernel kills a child of it, and it ends as it says for lack of it.
    pub out_of_memory: bool,
}

impl Behaviour {
    pub const fn succeeds_after(run_ms: i64) -> Behaviour {
        Behaviour {
            run_ms,
            exit: Exit::Code(0),
            dies_of_term_ms: Some(50),
            child_ms: None,
            stuck_ms: 0,
            out_of_memory: false,
        }
    }
}

/// How the processes that start from now on behave.
#[derive(Clone, Debug)]
pub enum Plan {
    /// These in turn, then the last for ever.
    Script(Vec<Behaviour>),
    /// Drawn from the seed.
    Any,
}

#[derive(Debug)]
pub struct Process {
    pub host: usize,
    pub token: Token,
    /// The supervisor that started it.
    pub parent: u64,
    pub run_id: RunId,
    pub shard: u32,
    pub key: FireKey,
    pub fence: Option<i64>,
    /// Where in the log its lease was granted and its execution admitted.
    pub granted: u64,
    pub admitted: u64,
    /// How often a person had asked for the run again when its lease was granted.
    pub asked: u32,
    behaviour: Behaviour,
    main: bool,
    child: bool,
    pub stuck: bool,
    pub signalled: bool,
    /// How the main process ended, if it ended by itself.
    pub own_end: Option<Exit>,
    pub ended_at: Option<i64>,
}

impl Process {
    pub fn is_alive(&self) -> bool {
        self.main || self.child
    }

    /// The kernel has killed something of it because memory was used up.
    pub fn ran_out_of_memory(&self) -> bool {
        self.behaviour.out_of_memory && !self.main
    }

    /// It failed by itself, and said so: what it did is known.
    pub fn failed_knowingly(&self) -> bool {
        let said = matches!(self.own_end, Some(Exit::Code(code)) if code != 0);
        said && !self.ran_out_of_memory()
    }
}

/// The table in the job's database, with what the guard remembers.
#[derive(Debug, Default)]
pub struct Results {
    token_high: BTreeMap<FireKey, Token>,
    fence_high: BTreeMap<JobId, i64>,
    /// Highest grant and admission, as places in the log, whose writes were let through.
    pub granted_high: BTreeMap<FireKey, u64>,
    pub admitted_high: BTreeMap<JobId, u64>,
    pub written: u64,
    pub refused: u64,
}

const WRITE_EVERY_MS: i64 = 2_000;

impl World {
    pub(super) fn spawn(&mut self, host: usize, launch: &Launch) {
        let pid = self.fresh_id();
        let parent = self.hosts[host]
            .supervisor
            .as_ref()
            .map_or(0, |s| s.generation);
        let variable = |name: &str| {
            let found = launch.env.iter().find(|(known, _)| known == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let token = Token(
            variable("MATINS_TOKEN")
                .parse()
                .expect("every attempt has a token"),
        );
        let (run, shard) = variable("MATINS_IDEMPOTENCY_KEY")
            .split_once('/')
            .expect("run and shard");
        let run_id: RunId = run.parse().expect("a run's id");
        let shard: u32 = shard.parse().expect("a shard");
        let fence = variable("MATINS_FENCE").parse().ok();
        self.check_params(run_id, launch);
        let behaviour = self.next_behaviour();
        let facts = self.truth.facts_of(run_id);
        let grant = self.truth.grants.get(&token).copied();
        let process = Process {
            host,
            token,
            parent,
            run_id,
            shard,
            key: self.fire_of(run_id, shard),
            fence,
            granted: self.truth.granted_at(token),
            admitted: grant.map_or(0, |grant| grant.admitted),
            asked: grant.map_or(facts.asked, |grant| grant.asked),
            behaviour,
            main: true,
            child: false,
            stuck: false,
            signalled: false,
            own_end: None,
            ended_at: None,
        };
        self.note(|_| {
            format!("host {host}: process {pid} of {run_id}/{shard} starts under {token}")
        });
        let of_fire = self.processes_of_fire.entry(process.key);
        of_fire.or_default().push(pid);
        self.processes.insert(pid, process);
        self.alive.insert(pid);
        invariants::on_start(self, pid);
        self.after(behaviour.run_ms.max(1), Event::Exits(pid));
        self.write(pid);
    }

    fn fire_of(&self, run_id: RunId, shard: u32) -> FireKey {
        let facts = self.truth.facts_of(run_id);
        (facts.job_id, facts.namespace, facts.fire_time, shard)
    }

    /// What a person gave a run reaches its processes, and nobody else's.
    fn check_params(&mut self, run_id: RunId, launch: &Launch) {
        let run = self.truth.set.runs.get(&run_id);
        let Some(run) = run else {
            return;
        };
        let given = run.params.get("who").map_or(EVERYBODY, String::as_str);
        let told = launch.exec.last().map_or("", String::as_str);
        let (given, told) = (given.to_owned(), told.to_owned());
        self.require(given == told, "P1", "a run has its parameters", || {
            format!("{run_id} was given {given}, and its process {told}")
        });
    }

    fn next_behaviour(&mut self) -> Behaviour {
        match &mut self.plan {
            Plan::Script(script) if script.len() > 1 => script.remove(0),
            Plan::Script(script) => script
                .first()
                .copied()
                .unwrap_or(Behaviour::succeeds_after(1_000)),
            Plan::Any => self.any_behaviour(),
        }
    }

    fn any_behaviour(&mut self) -> Behaviour {
        let rng = &mut self.rng;
        let exit = match rng.between(0, 99) {
            0..=79 => Exit::Code(0),
            80..=93 => Exit::Code(3),
            _ => Exit::Signal(11),
        };
        Behaviour {
            run_ms: rng.span(20, 180_000),
            exit,
            dies_of_term_ms: (!rng.one_in(4)).then(|| rng.between(1, 3_000)),
            child_ms: rng.one_in(12).then(|| rng.between(100, 20_000)),
            stuck_ms: if rng.one_in(25) {
                rng.between(100, 5_000)
            } else {
                0
            },
            out_of_memory: exit == Exit::Code(3) && rng.one_in(5),
        }
    }

    pub fn alive_on(&self, host: usize) -> Vec<u64> {
        self.alive
            .iter()
            .copied()
            .filter(|pid| self.processes[pid].host == host)
            .collect()
    }

    pub(super) fn alive_of(&self, host: usize, token: Token) -> Vec<u64> {
        let mut pids = self.alive_on(host);
        pids.retain(|pid| self.processes[pid].token == token);
        pids
    }

    pub(super) fn tree_of(&self, host: usize, token: Token) -> u32 {
        self.alive_of(host, token)
            .iter()
            .map(|pid| u32::from(self.processes[pid].main) + u32::from(self.processes[pid].child))
            .sum()
    }

    pub(super) fn ran_out_of_memory(&self, host: usize, token: Token) -> bool {
        let Some(grant) = self.truth.grants.get(&token) else {
            return false;
        };
        let of_fire = self
            .processes_of_fire
            .get(&self.fire_of(grant.run_id, grant.shard));
        let processes = of_fire
            .into_iter()
            .flatten()
            .map(|pid| &self.processes[pid]);
        processes
            .filter(|process| process.host == host && process.token == token)
            .any(Process::ran_out_of_memory)
    }

    pub(super) fn signal_process(&mut self, pid: u64, signal: Signal) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.signalled = true;
        let behaviour = process.behaviour;
        match signal {
            Signal::Term => {
                if let Some(after) = behaviour.dies_of_term_ms {
                    self.after(after.max(1), Event::Dies(pid, Exit::Signal(15)));
                }
            }
            Signal::Kill if behaviour.stuck_ms > 0 => {
                if !process.stuck {
                    process.stuck = true;
                    self.after(behaviour.stuck_ms, Event::Dies(pid, Exit::Signal(9)));
                }
            }
            Signal::Kill => self.die(pid, Exit::Signal(9)),
        }
    }

    /// The whole tree is gone.
    pub(super) fn die(&mut self, pid: u64, exit: Exit) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if !process.is_alive() {
            return;
        }
        let had_main = process.main;
        process.main = false;
        process.child = false;
        process.ended_at = Some(now);
        let (host, parent, token) = (process.host, process.parent, process.token);
        self.alive.remove(&pid);
        self.note(|_| format!("host {host}: process {pid} of {token} dies ({exit:?})"));
        if had_main {
            self.main_exited(host, parent, token, exit);
        }
    }

    /// The machine went, and the process with it; nobody is told.
    pub(super) fn vanish(&mut self, pid: u64) {
        let now = self.now;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.main = false;
            process.child = false;
            process.signalled = true;
            process.ended_at = Some(now);
        }
        self.alive.remove(&pid);
    }

    /// The main process ends by itself.
    pub(super) fn exits(&mut self, pid: u64) {
        let now = self.now;
        if self.processes.get(&pid).is_none_or(|p| !p.main) {
            return;
        }
        self.write(pid);
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.main = false;
        let exit = process.behaviour.exit;
        if !process.signalled {
            process.own_end = Some(exit);
        }
        let (host, parent, token) = (process.host, process.parent, process.token);
        if let Some(child_ms) = process.behaviour.child_ms {
            process.child = true;
            self.after(child_ms, Event::Dies(pid, exit));
        } else {
            process.ended_at = Some(now);
            self.alive.remove(&pid);
        }
        self.note(|_| format!("host {host}: process {pid} of {token} ends ({exit:?})"));
        self.main_exited(host, parent, token, exit);
    }

    pub(super) fn write_again(&mut self, pid: u64) {
        if self.processes.get(&pid).is_some_and(|p| p.main) {
            self.write(pid);
        }
    }

    fn write(&mut self, pid: u64) {
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        let (key, token, fence) = (process.key, process.token, process.fence);
        let results = &mut self.results;
        let token_high = results.token_high.get(&key).copied();
        let fence_high = results.fence_high.get(&key.0).copied();
        let current = token_high.is_none_or(|high| token >= high)
            && fence_high.is_none_or(|high| fence.is_none_or(|fence| fence >= high));
        let accepted = current || !self.rules.on(Rule::FencedWrites);
        if accepted {
            results.written += 1;
            let high = token_high.map_or(token, |high| high.max(token));
            results.token_high.insert(key, high);
            if let Some(fence) = fence {
                let high = fence_high.map_or(fence, |high| high.max(fence));
                results.fence_high.insert(key.0, high);
            }
        } else {
            results.refused += 1;
        }
        invariants::p2_no_twice::on_write(self, pid, accepted);
        self.after(WRITE_EVERY_MS, Event::Writes(pid));
    }

    /// Every process ends by itself before long: what the healing waits for.
    pub fn let_processes_finish(&mut self) {
        self.plan = Plan::Script(vec![Behaviour::succeeds_after(2_000)]);
        for pid in self.alive.clone() {
            self.after(3_000, Event::Exits(pid));
        }
    }
}
