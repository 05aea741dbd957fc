//! The world: true time, the machines in it, and everything that is on its way.
//!
//! One queue of events in order of true time drives all. The cores under test see only their own
//! machine's clocks and what reaches them; the world alone knows which processes are alive.

pub mod agent;
pub mod clock;
pub mod coordinator;
pub mod group;
pub mod host;
mod ledger;
pub mod network;
pub mod people;
pub mod process;
pub mod registration;
pub mod restore;
pub mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ::ledger::{Command, Done, Proposal, Store};
use agent_core::agent::Registered;
use coordinator_core::{RequestError, RequestId};
use protocol::attempt::Exit;
use protocol::message::{AgentMessage, CoordinatorBody, CoordinatorMessage};
use protocol::supervisor::Event as Word;
use protocol::{AgentName, BootMs, JobId, Rules, Token, WallMs};
use tempfile::TempDir;

use crate::invariants;
use crate::rng::Rng;
use crate::transition::Recovery;
use clock::BEGIN;
use coordinator::Coordinator;
use group::Control;
use host::Host;
use network::{Connection, Direction, Frame};
use process::{Behaviour, FireKey, Plan, Process, Results};
use registration::Registration;
use truth::Truth;

/// A promise that was broken, and how it showed.
#[derive(Clone, Debug)]
pub struct Violation {
    /// `P1` to `P7`.
    pub promise: &'static str,
    pub invariant: &'static str,
    pub at: i64,
    pub data: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.at - BEGIN) as f64 / 1000.0;
        write!(
            f,
            "{} broken ({}) at {seconds:.3} s: {}",
            self.promise, self.invariant, self.data
        )
    }
}

/// Whether everything still holds.
pub type Held = Result<(), Violation>;

/// Everything that is on its way.
#[derive(Debug)]
pub enum Event {
    Election,
    Deposed(u64),
    Transfer(u64),
    ReadClocks,
    AskTime,
    LeaderTick(u64),
    BatchIsDurable(u64, u64),
    Quorum(u64, u64, u64),
    StallLasts(u64, u64),
    ReadersCatchUp(u64),
    Deliver(u64, Direction),
    Lost(u64, Direction),
    CutLasts(usize, usize, u64),
    Dial(usize, u64, usize),
    DialTimeout(usize, u64),
    AgentTimer(usize),
    AgentStallLasts(usize, u64),
    AgentDialsSupervisor(usize, u64),
    StartSupervisor(usize),
    SupervisorTimer(usize),
    SupervisorInbox(usize),
    SupervisorSays(usize, u64, Box<Word>),
    SupervisorGone(usize, u64),
    Exits(u64),
    Dies(u64, Exit),
    Writes(u64),
    ProfileArrives(Registration),
    ProfileAnswered(Registration, Registered),
    Recover(Recovery),
}

pub struct World {
    pub rules: Rules,
    pub rng: Rng,
    /// True time.
    pub now: i64,
    events: BTreeMap<(i64, u64), Event>,
    ids: u64,

    /// The coordinators' machines: one, or two.
    pub controls: Vec<Control>,
    pub witness: Control,
    pub store: Store,
    /// Holds the ledger's file, where it has one.
    directory: Option<TempDir>,
    /// Fires of this job are answered as done, and nothing of them is written.
    pub forgets_fires_of: Option<JobId>,
    /// Every command that was ever committed.
    pub log: Vec<Proposal>,
    pub coordinators: BTreeMap<u64, Coordinator>,
    /// The coordinator process that leads in the eyes of the group, or was the last to; and its machine.
    pub front: u64,
    pub front_machine: usize,
    election_called: bool,
    pub commit_ms: (i64, i64),
    pub tick_late_ms: i64,
    pub answers: BTreeMap<RequestId, Result<Done, RequestError>>,
    /// Requests that a coordinator process has taken and not yet answered.
    pub unanswered: BTreeMap<RequestId, u64>,
    /// Requests that are profiles of hosts.
    registrations: BTreeMap<RequestId, Registration>,
    pub quorum_withheld_at: i64,
    /// Highest wall time that the leader has read which is in front, or known to the log.
    pub wall_reached: WallMs,
    /// Proposals that match are kept back until [`World::release_withheld`].
    pub withhold: Option<fn(&Command) -> bool>,

    pub hosts: Vec<Host>,
    pub connections: BTreeMap<u64, Connection>,
    /// Frames that match are kept back until [`World::release_held`].
    pub hold: Option<fn(&Frame) -> bool>,
    held: Vec<(u64, Direction, Frame)>,
    /// When beats of a live session that list this lease reached the coordinator's machine: the
    /// last one, and the one before.
    pub heard: BTreeMap<Token, (i64, i64)>,
    /// Deadlines as each supervisor was told them, latched.
    pub deadlines: BTreeMap<(usize, Token), BootMs>,

    pub processes: BTreeMap<u64, Process>,
    pub processes_of_fire: BTreeMap<FireKey, Vec<u64>>,
    pub alive: BTreeSet<u64>,
    pub plan: Plan,
    pub results: Results,
    /// Identities that two machines bear.
    pub cloned: BTreeSet<AgentName>,

    /// Everything that is sent or committed goes through its written form, as it does outside of
    /// a simulation. Costs time.
    pub in_writing: bool,

    pub truth: Truth,
    pub violation: Option<Violation>,
    journal: Option<Vec<String>>,
    pub events_handled: u64,
    /// Length of the log, and when it was last looked at.
    pub log_looked_at: (usize, i64),
}

impl World {
    pub fn new(seed: u64, rules: Rules, with_journal: bool) -> World {
        World {
            rules,
            rng: Rng::new(seed),
            now: BEGIN,
            events: BTreeMap::new(),
            ids: 0,
            controls: vec![Control::new(0, BEGIN)],
            witness: Control::witness(BEGIN),
            store: Store::open_in_memory(rules).expect("a ledger in memory"),
            directory: None,
            forgets_fires_of: None,
            log: Vec::new(),
            coordinators: BTreeMap::new(),
            front: 0,
            front_machine: 0,
            election_called: false,
            commit_ms: (1, 8),
            tick_late_ms: 0,
            answers: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            registrations: BTreeMap::new(),
            quorum_withheld_at: 0,
            wall_reached: WallMs(0),
            withhold: None,
            hosts: Vec::new(),
            connections: BTreeMap::new(),
            hold: None,
            held: Vec::new(),
            heard: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            processes: BTreeMap::new(),
            processes_of_fire: BTreeMap::new(),
            alive: BTreeSet::new(),
            plan: Plan::Script(vec![Behaviour::succeeds_after(5_000)]),
            results: Results::default(),
            cloned: BTreeSet::new(),
            in_writing: false,
            truth: Truth::default(),
            violation: None,
            journal: with_journal.then(Vec::new),
            events_handled: 0,
            log_looked_at: (0, BEGIN),
        }
    }

    /// Another time to begin at, for an empty world.
    pub fn begin_at(&mut self, now: i64) {
        self.now = now;
        self.controls = vec![Control::new(0, now)];
        self.witness = Control::witness(now);
    }

    pub fn add_host(&mut self, slots: u32) -> usize {
        let host = self.hosts.len();
        let name = format!("host-{host}").parse().expect("a good name");
        self.add_host_named(name, slots)
    }

    pub fn add_labelled_host(&mut self, slots: u32, labels: &[&str]) -> usize {
        let name = format!("host-{}", self.hosts.len());
        self.add_host_like(name.parse().expect("a good name"), slots, labels)
    }

    pub fn add_host_named(&mut self, name: AgentName, slots: u32) -> usize {
        self.add_host_like(name, slots, &[])
    }

    fn add_host_like(&mut self, name: AgentName, slots: u32, labels: &[&str]) -> usize {
        let host = self.hosts.len();
        if self.hosts.iter().any(|other| other.identity == name) {
            self.cloned.insert(name.clone());
        }
        let machines = self.controls.len();
        self.hosts.push(Host::new(name, slots, machines, self.now));
        let labels = labels.iter().map(|label| label.parse());
        self.hosts[host].labels = labels.collect::<Result<_, _>>().expect("good labels");
        self.start_supervisor(host);
        self.start_agent(host);
        host
    }

    /// Whether the coordinator listens to whoever bears this name: not to two, nor to one who was
    /// revoked.
    pub fn is_listened_to(&self, name: &AgentName) -> bool {
        let agent_id = self.truth.agent_named(name);
        let revoked = agent_id.is_some_and(|agent_id| self.truth.is_revoked(agent_id));
        !revoked && !self.cloned.contains(name)
    }

    // -- time ---------------------------------------------------------------------------------

    pub fn run_for(&mut self, ms: i64) -> Held {
        let until = self.now + ms;
        while let Some(&(at, _)) = self.events.keys().next()
            && at <= until
        {
            self.step()?;
        }
        self.now = until;
        self.holds()
    }

    /// Runs until the condition holds, and says if it does not within the bound.
    pub fn run_until(&mut self, what: &str, bound_ms: i64, met: impl Fn(&World) -> bool) -> Held {
        let until = self.now + bound_ms;
        while !met(self) {
            match self.events.keys().next() {
                Some(&(at, _)) if at <= until => self.step()?,
                _ => {
                    let text = format!("{what}: not within {bound_ms} ms");
                    self.require(false, "P4", "things go on", || text);
                    return self.holds();
                }
            }
        }
        self.holds()
    }

    fn step(&mut self) -> Held {
        if let Some(((at, _), event)) = self.events.pop_first() {
            self.now = at;
            self.handle(event);
            self.events_handled += 1;
            invariants::after_event(self);
        }
        self.holds()
    }

    pub fn holds(&self) -> Held {
        match &self.violation {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// Notes the first violation.
    pub fn require(
        &mut self,
        holds: bool,
        promise: &'static str,
        invariant: &'static str,
        data: impl FnOnce() -> String,
    ) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation {
                promise,
                invariant,
                at: self.now,
                data: data(),
            });
        }
    }

    pub fn at(&mut self, at: i64, event: Event) {
        let id = self.fresh_id();
        self.events.insert((at.max(self.now), id), event);
    }

    pub fn after(&mut self, ms: i64, event: Event) {
        self.at(self.now + ms, event);
    }

    pub fn fresh_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    // -- the journal --------------------------------------------------------------------------

    pub fn note(&mut self, line: impl FnOnce(&World) -> String) {
        if self.journal.is_none() {
            return;
        }
        let seconds = (self.now - BEGIN) as f64 / 1000.0;
        let line = format!("{seconds:>10.3}  {}", line(self));
        if let Some(journal) = self.journal.as_mut() {
            journal.push(line);
        }
    }

    /// What happened, oldest first.
    pub fn journal(&self) -> &[String] {
        self.journal.as_deref().unwrap_or_default()
    }

    // -- events -------------------------------------------------------------------------------

    fn handle(&mut self, event: Event) {
        if let Event::Exits(pid) | Event::Dies(pid, _) | Event::Writes(pid) = event
            && let Some(process) = self.processes.get(&pid)
            && self.hosts[process.host].stalled
        {
            let host = process.host;
            self.hosts[host].deferred.push(event);
            return;
        }
        match event {
            Event::Election => self.hold_election(),
            Event::Deposed(leader) => self.deposed(leader),
            Event::Transfer(leader) => self.transfer(leader),
            Event::ReadClocks => self.read_clocks(),
            Event::AskTime => self.ask_time(),
            Event::LeaderTick(leader) => self.tick_leader(leader),
            Event::BatchIsDurable(leader, reign) => self.batch_is_durable(leader, reign),
            Event::Quorum(leader, reign, round) => self.quorum_answers(leader, reign, round),
            Event::StallLasts(leader, connection) => self.stall_lasts(leader, connection),
            Event::ReadersCatchUp(leader) => self.readers_catch_up(leader),
            Event::Deliver(connection, direction) => self.deliver(connection, direction),
            Event::Lost(connection, direction) => self.lost(connection, direction),
            Event::CutLasts(host, machine, cuts) => self.cut_lasts(host, machine, cuts),
            Event::Dial(host, agent, machine) => self.dial_if_needed(host, agent, machine),
            Event::DialTimeout(host, connection) => self.dial_timed_out(host, connection),
            Event::AgentTimer(host) => self.agent_timer(host),
            Event::AgentStallLasts(host, connection) => self.agent_stall_lasts(host, connection),
            Event::AgentDialsSupervisor(host, agent) => self.agent_dials_supervisor(host, agent),
            Event::StartSupervisor(host) => self.start_supervisor(host),
            Event::SupervisorTimer(host) => self.supervisor_timer(host),
            Event::SupervisorInbox(host) => self.read_supervisor_inbox(host),
            Event::SupervisorSays(host, socket, word) => self.supervisor_says(host, socket, word),
            Event::SupervisorGone(host, socket) => self.supervisor_hung_up(host, socket),
            Event::Exits(pid) => self.exits(pid),
            Event::Dies(pid, exit) => self.die(pid, exit),
            Event::Writes(pid) => self.write_again(pid),
            Event::ProfileArrives(registration) => self.profile_arrives(registration),
            Event::ProfileAnswered(registration, end) => self.profile_answered(registration, end),
            Event::Recover(recovery) => self.recover(recovery),
        }
    }

    /// A beat of a live session has reached the coordinator's machine, whether or not anybody
    /// there is awake to read it.
    fn note_arrival(&mut self, host: usize, message: &AgentMessage) {
        let AgentMessage::Heartbeat(beat) = message else {
            return;
        };
        let name = &self.hosts[host].identity;
        let live = self.truth.set.agents.values().any(|agent| {
            agent.name == *name && agent.session == Some(beat.session) && agent.barred.is_none()
        });
        if !live {
            return;
        }
        for &token in &beat.attempts {
            let before = self.heard.get(&token).map_or(self.now, |&(last, _)| last);
            self.heard.insert(token, (self.now, before));
        }
    }

    /// What was heard longer ago than any lease lasts says nothing any more.
    pub fn forget_unheard(&mut self) {
        const LONG_MS: i64 = 2 * 3_600_000;
        let since = self.now - LONG_MS;
        self.heard.retain(|_, (last, _)| *last > since);
    }

    /// A connection ends: a beat that came on it just before cannot be acknowledged any more.
    fn note_end(&mut self, host: usize) {
        const ACKNOWLEDGED_WITHIN_MS: i64 = 50;
        let now = self.now;
        let deadlines = &self.deadlines;
        for (token, (last, before)) in &mut self.heard {
            if now - *last < ACKNOWLEDGED_WITHIN_MS && deadlines.contains_key(&(host, *token)) {
                *last = *before;
            }
        }
    }

    fn note_sent(&mut self, host: usize, connection: u64, message: &AgentMessage) {
        if let AgentMessage::Attach(attach) = message {
            self.hosts[host].last_held.clone_from(&attach.attempts);
            self.note(|_| format!("host {host}: attaches on connection {connection}"));
        }
    }
}

fn brief_up(host: usize, message: &AgentMessage) -> String {
    match message {
        AgentMessage::Attach(attach) => {
            format!("host {host} -> attach holding {:?}", attach.attempts)
        }
        AgentMessage::Heartbeat(beat) => {
            format!(
                "host {host} -> beat {} of {} {:?}",
                beat.beat, beat.session, beat.attempts
            )
        }
        AgentMessage::Started(started) => format!("host {host} -> started {}", started.token),
        AgentMessage::Receipt(receipt) => {
            format!(
                "host {host} -> receipt {} {:?}",
                receipt.token, receipt.end.outcome
            )
        }
        AgentMessage::NonceAnswer { nonce, mine } => {
            format!("host {host} -> {nonce:?} is mine: {mine}")
        }
    }
}

fn brief_down(host: usize, message: &CoordinatorMessage) -> String {
    let words = match &message.body {
        CoordinatorBody::Start {
            token, rests_on, ..
        } => format!("start {token} on beat {rests_on}"),
        other => format!("{other:?}"),
    };
    format!("host {host} <- {} {words}", message.epoch)
}
