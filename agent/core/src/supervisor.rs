//! The supervisor's decisions: when a process tree must die, and when it is dead.
//!
//! The supervisor outlives agents. What it was last told stands: "this token may live until D".
//! At D it kills by itself, whoever is or is not connected, so a killed, stopped or upgraded
//! agent cannot leave a process running past its lease.
//!
//! How it is killed is a [`ladder`]. The first cause stands, and it is told only if it came before
//! the main process had ended by itself: a job that was done when the cancel arrived has
//! succeeded.
//!
//! An attempt has *ended* when its main process has exited and its tree is verified empty. What
//! the main process left behind is killed, counted, and changes nothing about how the attempt is
//! said to have ended. The end is told when what the dead tree has written is kept as well, or
//! after [`OUTPUT_WAIT`]: a descriptor that a stranger was given must not hold a run open.
//!
//! Between the launch and the first instruction of the program the process is the supervisor's own
//! work: it looks up users, makes directories, opens files, and any of these may hang. It is
//! killed like any other when its time is over, and what cannot be killed is never called dead.

mod attempt;
mod ladder;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use protocol::attempt::{Counted, Exit, Limit, Usage};
use protocol::message::Incarnation;
use protocol::supervisor::{End, Event, Held, KillCause, Launch, Request, SpawnFault, Table};
use protocol::{BootMs, DurationMs, Now, Rule, Rules, Token, WallMs};

use attempt::{Attempt, Output, Phase};
use ladder::{Ladder, PAUSE_FIRST, longer};

/// How long an end waits for the word that the output of a dead tree is written down.
pub const OUTPUT_WAIT: DurationMs = DurationMs(2_000);

/// Who this supervisor is, as its table says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Drawn at random by the shell for this process.
    pub incarnation: Incarnation,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The shell looked for leftovers of an earlier supervisor, and none is alive.
    pub swept: bool,
}

/// What the shell is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the process and report with [`Supervisor::handle_spawned`], which may take its time.
    Spawn(Launch),
    /// Send this signal to everything alive of the attempt's tree, or to the process that is
    /// about to become its first.
    Signal { token: Token, signal: Signal },
    /// SIGKILL has been repeated for more than a second and something is alive still. Said once;
    /// killing goes on.
    TellUnkillable { token: Token },
    /// Count what is alive of the attempt's tree and report with [`Supervisor::handle_tree`].
    LookAtTree { token: Token },
    /// The tree is empty: remove the attempt's working directory, and wait for its output no
    /// longer.
    Clear { token: Token },
    /// To the connected agent.
    Send(Event),
    /// Nothing is alive any more and a stop was asked for.
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Term,
    Kill,
}

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnError {
    pub fault: SpawnFault,
    /// In words, for a person.
    pub why: String,
}

/// What a main process and the children it waited for have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MainUsage {
    pub cpu: DurationMs,
    /// Largest resident set of a single process.
    pub memory_bytes_peak: u64,
    /// From and to disks.
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// What a look at an attempt's tree has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Processes that are alive, the main one included.
    pub alive: u32,
    /// Used by everything that was ever in the tree, where the kernel counts that.
    pub cpu: Option<DurationMs>,
    /// Most that the tree has held at once, where the kernel counts that.
    pub memory_bytes_peak: Option<u64>,
    /// The kernel killed something of the tree because memory was used up.
    pub out_of_memory: bool,
    /// Most that it was seen to hold by looks now and then, where the kernel keeps no peak.
    pub memory_bytes_seen: Option<u64>,
    /// What else the kernel counts of the whole tree.
    pub counted: Usage,
}

/// See the module's text.
#[derive(Debug)]
pub struct Supervisor {
    identity: Identity,
    rules: Rules,
    attempts: BTreeMap<Token, Attempt>,
    /// How many of `attempts` have not ended.
    alive: usize,
    connected: bool,
    stopping: bool,
    actions: VecDeque<Action>,
}

impl Supervisor {
    pub fn new(identity: Identity, rules: Rules) -> Supervisor {
        Supervisor {
            identity,
            rules,
            attempts: BTreeMap::new(),
            alive: 0,
            connected: false,
            stopping: false,
            actions: VecDeque::new(),
        }
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Supervisor::handle_tick`] is wanted next.
    pub fn poll_timeout(&self) -> Option<BootMs> {
        let enforced = self.rules.on(Rule::SupervisorEnforcesDeadline);
        self.attempts
            .values()
            .filter_map(|attempt| attempt.next_step(enforced))
            .min()
    }

    /// Attempts that have not ended.
    pub fn alive(&self) -> usize {
        self.alive
    }

    /// An agent has connected and said hello. The shell has dropped any earlier connection
    /// unread.
    pub fn handle_connected(&mut self, now: Now) {
        self.enforce(now);
        self.connected = true;
        // Words for the agent before are in the table.
        self.actions.retain(|a| !matches!(a, Action::Send(_)));
        let table = self.table();
        self.send(Event::Table(table));
    }

    /// The agent is gone. That is no command: every deadline stands.
    pub fn handle_disconnected(&mut self, now: Now) {
        self.enforce(now);
        self.connected = false;
        self.actions.retain(|a| !matches!(a, Action::Send(_)));
    }

    pub fn handle_request(&mut self, request: Request, now: Now) {
        self.enforce(now);
        match request {
            Request::Hello => {
                let table = self.table();
                self.send(Event::Table(table));
            }
            Request::Ping => self.send(Event::Pong),
            Request::Launch(launch) => self.handle_launch(launch, now),
            Request::Extend { token, deadline } => {
                if let Some(attempt) = self.attempts.get_mut(&token)
                    && attempt.ladder.is_none()
                {
                    attempt.deadline = attempt.deadline.max(deadline);
                }
            }
            Request::Kill { token, cause } => self.kill(token, cause, now.boot),
            Request::Forget { token } => {
                if matches!(
                    self.attempts.get(&token),
                    Some(Attempt {
                        phase: Phase::Ended(_),
                        ..
                    })
                ) {
                    self.attempts.remove(&token);
                }
            }
        }
    }

    fn handle_launch(&mut self, launch: Launch, now: Now) {
        let token = launch.token;
        if self.attempts.contains_key(&token) {
            return;
        }
        let refusal = if self.stopping {
            Some((
                Some(KillCause::SupervisorStopped),
                "the supervisor is stopping".to_owned(),
            ))
        } else if launch.deadline <= now.boot && self.rules.on(Rule::SupervisorEnforcesDeadline) {
            let late = now.boot - launch.deadline;
            Some((
                Some(KillCause::LeaseLost),
                format!("the deadline had passed {late} before the launch was read"),
            ))
        } else if launch.exec.is_empty() {
            Some((None, "the argument list is empty".to_owned()))
        } else {
            None
        };
        self.attempts.insert(
            token,
            Attempt {
                deadline: launch.deadline,
                takeover: launch.takeover,
                timeout: launch.timeout,
                output_directory: launch.output.clone(),
                not_enforced: Vec::new(),
                phase: Phase::Spawning,
                ladder: None,
                output: Output::Open,
            },
        );
        self.alive += 1;
        match refusal {
            Some((cause, why)) => {
                let fault = SpawnFault::Launch;
                self.end_unstarted(token, cause, SpawnError { fault, why }, now.wall);
            }
            None => self.actions.push_back(Action::Spawn(launch)),
        }
    }

    /// The program of this token runs, with the limits that are not enforced; or nothing of it
    /// is alive and this is why.
    pub fn handle_spawned(
        &mut self,
        token: Token,
        result: Result<Vec<Limit>, SpawnError>,
        now: Now,
    ) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        if !matches!(attempt.phase, Phase::Spawning) {
            return;
        }
        match result {
            Ok(not_enforced) => {
                attempt.not_enforced = not_enforced;
                attempt.phase = Phase::Running {
                    started_at: now.wall,
                    timeout_at: now.boot + attempt.timeout,
                };
                self.send(Event::Launched {
                    token,
                    at: now.wall,
                });
            }
            Err(error) => {
                let cause = attempt.ladder.as_ref().and_then(Ladder::cause);
                self.end_unstarted(token, cause, error, now.wall);
            }
        }
    }

    /// The main process of this token was reaped. The shell hands this in before anything else
    /// that happened meanwhile: an exit that came before a kill is the job's own.
    pub fn handle_main_exited(&mut self, token: Token, exit: Exit, usage: MainUsage, now: Now) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        let Phase::Running { started_at, .. } = attempt.phase else {
            return;
        };
        attempt.phase = Phase::Draining {
            started_at,
            exit,
            usage,
            ended_at: now.wall,
            leftovers: 0,
            look_at: now.boot + PAUSE_FIRST,
            pause: PAUSE_FIRST,
        };
        self.actions.push_back(Action::LookAtTree { token });
    }

    pub fn handle_tree(&mut self, token: Token, tree: Tree, now: Now) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        let Phase::Draining {
            started_at,
            exit,
            usage,
            ended_at,
            leftovers,
            look_at,
            pause,
        } = &mut attempt.phase
        else {
            return;
        };
        let cause = attempt.ladder.as_ref().and_then(Ladder::cause);
        if tree.alive == 0 {
            let seen = tree.memory_bytes_seen.unwrap_or(0);
            let memory_bytes_peak = tree
                .memory_bytes_peak
                .unwrap_or(usage.memory_bytes_peak.max(seen));
            let end = End {
                killed: cause,
                exit: Some(*exit),
                spawn_error: None,
                spawn_fault: SpawnFault::default(),
                started_at: Some(*started_at),
                ended_at: *ended_at,
                cpu: tree.cpu.unwrap_or(usage.cpu),
                memory_bytes_peak,
                out_of_memory: tree.out_of_memory,
                usage: Some(Box::new(complete(tree, *usage))),
                not_enforced: attempt.not_enforced.clone(),
                leftovers: *leftovers,
            };
            if attempt.output == Output::Drained {
                return self.end(token, end);
            }
            attempt.phase = Phase::Closing {
                end,
                until: now.boot + OUTPUT_WAIT,
            };
            return;
        }
        if cause.is_none() {
            *leftovers = (*leftovers).max(tree.alive);
        }
        *look_at = now.boot + *pause;
        if attempt.ladder.is_none() {
            attempt.ladder = Some(Ladder::of_leftovers(now.boot));
        }
        self.step(token, now.boot);
    }

    /// Nobody can write to this attempt's output any more, and all that came is written down.
    pub fn handle_output_drained(&mut self, token: Token) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        attempt.output = Output::Drained;
        if let Phase::Closing { end, .. } = &attempt.phase {
            let end = end.clone();
            self.end(token, end);
        }
    }

    /// Interrupt everything, start nothing more, and exit when nothing is alive.
    pub fn handle_stop(&mut self, now: Now) {
        self.enforce(now);
        self.stopping = true;
        let tokens: Vec<Token> = self.attempts.keys().copied().collect();
        for token in tokens {
            self.kill(token, KillCause::SupervisorStopped, now.boot);
        }
        self.exit_when_empty();
    }

    pub fn handle_tick(&mut self, now: Now) {
        self.step_all(now.boot);
    }

    /// The latch of rule 6.5 holds here too: a passed deadline is acted upon before a request
    /// could move it. What the machine tells moves none and enforces none, for another attempt's
    /// exit may be the next thing that it tells; the shell's tick comes after all of it.
    fn enforce(&mut self, now: Now) {
        if self.rules.on(Rule::DeadlineLatch) {
            self.step_all(now.boot);
        }
    }

    fn step_all(&mut self, now: BootMs) {
        let enforced = self.rules.on(Rule::SupervisorEnforcesDeadline);
        let due: Vec<Token> = self
            .attempts
            .iter()
            .filter(|(_, a)| a.next_step(enforced).is_some_and(|at| at <= now))
            .map(|(&token, _)| token)
            .collect();
        for token in due {
            self.step(token, now);
        }
    }

    /// Takes whatever step of this attempt is due: its deadline, its time-out, the next rung of
    /// its ladder, the next look at its tree.
    fn step(&mut self, token: Token, now: BootMs) {
        let enforced = self.rules.on(Rule::SupervisorEnforcesDeadline);
        let Some(attempt) = self.attempts.get(&token) else {
            return;
        };
        if attempt.ladder.is_none() {
            if enforced && attempt.deadline <= now {
                self.kill(token, KillCause::LeaseLost, now);
            } else if attempt.timeout_at().is_some_and(|at| at <= now) {
                self.kill(token, KillCause::TimedOut, now);
            }
        }
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        if let Some(ladder) = &mut attempt.ladder
            && !matches!(attempt.phase, Phase::Closing { .. } | Phase::Ended(_))
            && let Some(rung) = ladder.climb(now)
        {
            self.actions.push_back(Action::Signal {
                token,
                signal: Signal::Kill,
            });
            if rung.tell_unkillable {
                self.actions.push_back(Action::TellUnkillable { token });
            }
        }
        if let Phase::Draining { look_at, pause, .. } = &mut attempt.phase
            && *look_at <= now
        {
            // Grows with every look, also with those that fail and so bring no answer.
            *pause = longer(*pause);
            *look_at = now + *pause;
            self.actions.push_back(Action::LookAtTree { token });
        }
        if let Phase::Closing { end, until } = &attempt.phase
            && *until <= now
        {
            let end = end.clone();
            self.end(token, end);
        }
    }

    /// Begins the ladder of a living attempt, unless it has begun.
    fn kill(&mut self, token: Token, cause: KillCause, now: BootMs) {
        let enforced = self.rules.on(Rule::SupervisorEnforcesDeadline);
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        if attempt.ladder.is_some()
            || !matches!(attempt.phase, Phase::Spawning | Phase::Running { .. })
        {
            return;
        }
        // Nothing of the attempt may be alive when deadline and grace are over, so a cause that
        // is noticed late gets less grace.
        let counted_from = if enforced {
            now.min(attempt.deadline)
        } else {
            now
        };
        let (ladder, is_asked) = Ladder::begin(cause, counted_from, now);
        if is_asked {
            self.actions.push_back(Action::Signal {
                token,
                signal: Signal::Term,
            });
        }
        attempt.ladder = Some(ladder);
        self.step(token, now);
    }

    fn end_unstarted(
        &mut self,
        token: Token,
        killed: Option<KillCause>,
        error: SpawnError,
        ended_at: WallMs,
    ) {
        let end = End {
            killed,
            exit: None,
            spawn_error: Some(error.why),
            spawn_fault: error.fault,
            started_at: None,
            ended_at,
            cpu: DurationMs::ZERO,
            memory_bytes_peak: 0,
            out_of_memory: false,
            usage: None,
            not_enforced: Vec::new(),
            leftovers: 0,
        };
        self.end(token, end);
    }

    /// Nothing of the attempt is alive. It is held until the agent says that the ledger knows.
    fn end(&mut self, token: Token, end: End) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        attempt.phase = Phase::Ended(end.clone());
        self.alive -= 1;
        self.actions.push_back(Action::Clear { token });
        self.send(Event::Ended { token, end });
        self.exit_when_empty();
    }

    fn exit_when_empty(&mut self) {
        if self.stopping && self.alive == 0 {
            self.actions.push_back(Action::Exit);
        }
    }

    fn send(&mut self, event: Event) {
        if self.connected {
            self.actions.push_back(Action::Send(event));
        }
    }

    fn table(&self) -> Table {
        let held = |(&token, attempt): (&Token, &Attempt)| {
            let (started_at, end) = match &attempt.phase {
                Phase::Spawning => (None, None),
                Phase::Running { started_at, .. } | Phase::Draining { started_at, .. } => {
                    (Some(*started_at), None)
                }
                Phase::Closing { end, .. } => (end.started_at, None),
                Phase::Ended(end) => (end.started_at, Some(end.clone())),
            };
            Held {
                token,
                deadline: attempt.deadline,
                takeover: attempt.takeover,
                started_at,
                output: attempt.output_directory.clone(),
                end,
            }
        };
        Table {
            incarnation: self.identity.incarnation,
            boot_id: self.identity.boot_id.clone(),
            swept: self.identity.swept,
            attempts: self.attempts.iter().map(held).collect(),
        }
    }
}

/// What the kernel has counted of the whole tree, and what is known of the main process and the
/// children it waited for where it has not.
fn complete(tree: Tree, main: MainUsage) -> Usage {
    let mut partial = tree.counted.partial;
    let mut note = |is_partial: bool, counted: Counted| {
        if is_partial && !partial.contains(&counted) {
            partial.push(counted);
        }
    };
    note(tree.cpu.is_none(), Counted::Cpu);
    note(tree.memory_bytes_peak.is_none(), Counted::Memory);
    note(tree.counted.read_bytes.is_none(), Counted::Io);
    partial.sort_unstable();
    Usage {
        read_bytes: tree.counted.read_bytes.max(Some(main.read_bytes)),
        write_bytes: tree.counted.write_bytes.max(Some(main.write_bytes)),
        partial,
        ..tree.counted
    }
}
