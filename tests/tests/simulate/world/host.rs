//! One executor's machine: its clocks, its power, and the shell around its supervisor.
//!
//! The supervisor is the parent of the processes. When it dies they live on as orphans, until the
//! next one sweeps them away, as far as they can be killed.

use std::collections::VecDeque;

use agent_core::Supervisor;
use agent_core::supervisor::{Action, Identity, MainUsage, Signal, SpawnError, Tree};
use protocol::attempt::Exit;
use protocol::lease::KILL_GRACE;
use protocol::message::Incarnation;
use protocol::supervisor::{Event as Word, Request, SpawnFault};
use protocol::{AgentName, BootMs, HostFacts, HostNow, Label, Now, Rule, Token};

use super::agent::AgentShell;
use super::clock::Clock;
use super::network::Link;
use super::{Event, World};

#[derive(Debug)]
pub struct Host {
    pub identity: AgentName,
    pub clock: Clock,
    pub up: bool,
    /// It is off for good.
    pub scrapped: bool,
    boots: u32,
    /// The whole machine stands still: nothing on it runs, its clocks go on.
    pub stalled: bool,
    pub slots: u32,
    pub labels: Vec<Label>,
    pub agent: Option<AgentShell>,
    pub supervisor: Option<SupervisorShell>,
    /// The way to each of the coordinators' machines.
    pub links: Vec<Link>,
    pub disk_full: bool,
    /// What it is; nobody has found that out of every host.
    pub facts: Option<HostFacts>,
    /// What its agent tells with every beat.
    pub fares: HostNow,
    /// Looks at how it fares, counted over its agents.
    pub looks: u64,
    /// What its last attach listed.
    pub last_held: Vec<Token>,
    /// Last true time at which no supervisor ran here.
    pub unsupervised_at: i64,
    /// Events of processes that came due while the machine stood still.
    pub(super) deferred: Vec<Event>,
}

#[derive(Debug)]
pub struct SupervisorShell {
    pub generation: u64,
    core: Supervisor,
    pub stopped: bool,
    /// Socket of the agent that is connected.
    socket: Option<u64>,
    inbox: VecDeque<Input>,
    exits: VecDeque<(Token, Exit)>,
    tick_at: i64,
}

#[derive(Debug)]
enum Input {
    Connected(u64),
    Request(u64, Request),
    Closed(u64),
}

impl Host {
    pub fn new(identity: AgentName, slots: u32, machines: usize, now: i64) -> Host {
        Host {
            identity,
            clock: Clock::right(now),
            up: true,
            scrapped: false,
            boots: 1,
            stalled: false,
            slots,
            labels: Vec::new(),
            agent: None,
            supervisor: None,
            links: vec![Link::default(); machines],
            disk_full: false,
            facts: None,
            fares: HostNow::default(),
            looks: 0,
            last_held: Vec::new(),
            unsupervised_at: now,
            deferred: Vec::new(),
        }
    }

    fn boot_id(&self, host: usize) -> String {
        format!("boot-{host}-{}", self.boots)
    }

    pub fn set_delay(&mut self, delay_ms: (i64, i64)) {
        for link in &mut self.links {
            link.delay_ms = delay_ms;
        }
    }

    /// Nothing runs here but what jobs ask for, and no array is being rebuilt.
    pub fn calm(&mut self) {
        self.fares.load = None;
        if let Some(health) = &mut self.fares.health {
            health.rebuilding = false;
        }
    }

    pub fn is_supervised(&self) -> bool {
        !self.stalled && self.supervisor.as_ref().is_some_and(|s| !s.stopped)
    }
}

impl World {
    pub fn host_now(&self, host: usize) -> Now {
        self.hosts[host].clock.read(self.now)
    }

    /// Starts the supervisor, which first looks for leftovers of the one before.
    pub fn start_supervisor(&mut self, host: usize) {
        if !self.hosts[host].up || self.hosts[host].supervisor.is_some() {
            return;
        }
        let swept = self.sweep(host);
        let generation = self.fresh_id();
        self.note(|_| format!("host {host}: supervisor {generation} starts, swept: {swept}"));
        let identity = Identity {
            incarnation: Incarnation(generation),
            boot_id: self.hosts[host].boot_id(host),
            swept,
        };
        self.hosts[host].unsupervised_at = self.now;
        self.hosts[host].supervisor = Some(SupervisorShell {
            generation,
            core: Supervisor::new(identity, self.rules),
            stopped: false,
            socket: None,
            inbox: VecDeque::new(),
            exits: VecDeque::new(),
            tick_at: i64::MAX,
        });
        let agent = self.hosts[host].agent.as_ref().map(|a| a.generation);
        if let Some(agent) = agent {
            self.after(5, Event::AgentDialsSupervisor(host, agent));
        }
    }

    /// Kills what an earlier supervisor left; whether nothing is alive any more.
    fn sweep(&mut self, host: usize) -> bool {
        if !self.rules.on(Rule::SweepBeforeAnswer) {
            return true;
        }
        for pid in self.alive_on(host) {
            self.signal_process(pid, Signal::Kill);
        }
        self.alive_on(host).is_empty()
    }

    pub fn kill_supervisor(&mut self, host: usize) {
        if self.hosts[host].supervisor.take().is_none() {
            return;
        }
        self.note(|_| format!("host {host}: supervisor killed"));
        self.hosts[host].unsupervised_at = self.now;
        self.supervisor_gone(host);
    }

    /// SIGTERM: everything is interrupted, and it exits when nothing is alive.
    pub fn ask_supervisor_to_stop(&mut self, host: usize) {
        self.note(|_| format!("host {host}: supervisor asked to stop"));
        let now = self.host_now(host);
        if let Some(supervisor) = self.hosts[host].supervisor.as_mut()
            && !supervisor.stopped
        {
            supervisor.core.handle_stop(now);
            self.drain_supervisor(host);
        }
    }

    pub fn stop_supervisor(&mut self, host: usize) {
        self.note(|_| format!("host {host}: supervisor stopped"));
        if let Some(supervisor) = self.hosts[host].supervisor.as_mut() {
            supervisor.stopped = true;
        }
    }

    pub fn resume_supervisor(&mut self, host: usize) {
        self.note(|_| format!("host {host}: supervisor goes on"));
        self.hosts[host].unsupervised_at = self.now;
        if let Some(supervisor) = self.hosts[host].supervisor.as_mut() {
            supervisor.stopped = false;
            supervisor.tick_at = self.now;
        }
        // Its mail before its timers: the worst order.
        self.read_supervisor_inbox(host);
        self.tick_supervisor(host);
    }

    /// The whole machine stands still, as under IO that never comes back.
    pub fn stall_host(&mut self, host: usize) {
        self.note(|_| format!("host {host}: stands still"));
        self.hosts[host].stalled = true;
    }

    pub fn resume_host(&mut self, host: usize) {
        if !self.hosts[host].stalled {
            return;
        }
        self.note(|_| format!("host {host}: goes on"));
        self.hosts[host].stalled = false;
        self.hosts[host].unsupervised_at = self.now;
        // Processes first, then mail, then timers.
        for event in std::mem::take(&mut self.hosts[host].deferred) {
            self.handle(event);
        }
        if self.hosts[host].agent.as_ref().is_some_and(|a| !a.stopped) {
            self.read_agent_inbox(host);
        }
        if self.hosts[host]
            .supervisor
            .as_ref()
            .is_some_and(|s| !s.stopped)
        {
            self.resume_supervisor(host);
        }
        if self.hosts[host].agent.as_ref().is_some_and(|a| !a.stopped) {
            self.resume_agent(host);
        }
    }

    pub fn cut_power(&mut self, host: usize) {
        if !self.hosts[host].up {
            return;
        }
        self.note(|_| format!("host {host}: power cut"));
        for pid in self.alive_on(host) {
            self.vanish(pid);
        }
        self.kill_agent(host);
        self.kill_supervisor(host);
        let machine = &mut self.hosts[host];
        machine.up = false;
        machine.stalled = false;
        machine.deferred.clear();
    }

    pub fn scrap_host(&mut self, host: usize) {
        self.note(|_| format!("host {host}: is scrapped"));
        self.cut_power(host);
        self.hosts[host].scrapped = true;
    }

    pub fn boot(&mut self, host: usize) {
        if self.hosts[host].up || self.hosts[host].scrapped {
            return;
        }
        self.note(|_| format!("host {host}: boots"));
        let now = self.now;
        let machine = &mut self.hosts[host];
        machine.up = true;
        machine.boots += 1;
        machine.clock = Clock::right(now);
        machine.unsupervised_at = now;
        self.start_supervisor(host);
        self.start_agent(host);
    }

    // -- the local socket -------------------------------------------------------------------

    pub(super) fn connect_to_supervisor(&mut self, host: usize, socket: u64) {
        self.put_in_supervisor_inbox(host, Input::Connected(socket));
    }

    pub(super) fn request_of_supervisor(&mut self, host: usize, socket: u64, request: Request) {
        self.put_in_supervisor_inbox(host, Input::Request(socket, request));
    }

    pub(super) fn close_supervisor_socket(&mut self, host: usize, socket: u64) {
        self.put_in_supervisor_inbox(host, Input::Closed(socket));
    }

    fn put_in_supervisor_inbox(&mut self, host: usize, input: Input) {
        if let Some(supervisor) = self.hosts[host].supervisor.as_mut() {
            supervisor.inbox.push_back(input);
            self.after(1, Event::SupervisorInbox(host));
        }
    }

    pub(super) fn read_supervisor_inbox(&mut self, host: usize) {
        if !self.hosts[host].is_supervised() {
            return;
        }
        self.reap(host);
        self.perhaps_accept_first(host);
        while let Some(supervisor) = self.hosts[host].supervisor.as_mut()
            && let Some(input) = supervisor.inbox.pop_front()
        {
            self.supervisor_input(host, input);
            self.drain_supervisor(host);
        }
    }

    /// A new connection may be accepted before the old one is read; then the old is dropped
    /// with all that is in it.
    fn perhaps_accept_first(&mut self, host: usize) {
        if !self.rng.one_in(2) {
            return;
        }
        let Some(supervisor) = self.hosts[host].supervisor.as_mut() else {
            return;
        };
        let newest = supervisor
            .inbox
            .iter()
            .filter_map(|input| match input {
                Input::Connected(socket) => Some(*socket),
                _ => None,
            })
            .next_back();
        if let Some(newest) = newest {
            supervisor.inbox.retain(|input| {
                matches!(input, Input::Connected(socket) | Input::Request(socket, _) | Input::Closed(socket) if *socket == newest)
            });
        }
    }

    fn supervisor_input(&mut self, host: usize, input: Input) {
        let now = self.host_now(host);
        if let Input::Request(socket, request) = &input
            && self.hosts[host]
                .supervisor
                .as_ref()
                .is_some_and(|s| s.socket == Some(*socket))
        {
            self.note_request(host, request, now.boot);
        }
        let Some(supervisor) = self.hosts[host].supervisor.as_mut() else {
            return;
        };
        match input {
            Input::Connected(socket) => {
                supervisor.socket = Some(socket);
                supervisor.core.handle_connected(now);
            }
            Input::Request(socket, request) if supervisor.socket == Some(socket) => {
                supervisor.core.handle_request(request, now);
            }
            Input::Closed(socket) if supervisor.socket == Some(socket) => {
                supervisor.socket = None;
                supervisor.core.handle_disconnected(now);
            }
            Input::Request(..) | Input::Closed(_) => {}
        }
    }

    /// Main processes that have exited are handed in before anything else.
    fn reap(&mut self, host: usize) {
        let now = self.host_now(host);
        while let Some(supervisor) = self.hosts[host].supervisor.as_mut()
            && let Some((token, exit)) = supervisor.exits.pop_front()
        {
            supervisor
                .core
                .handle_main_exited(token, exit, MainUsage::default(), now);
            self.drain_supervisor(host);
        }
    }

    pub(super) fn main_exited(&mut self, host: usize, parent: u64, token: Token, exit: Exit) {
        let Some(supervisor) = self.hosts[host].supervisor.as_mut() else {
            return;
        };
        // An orphan's end is told to nobody.
        if supervisor.generation == parent {
            supervisor.exits.push_back((token, exit));
            self.after(1, Event::SupervisorInbox(host));
        }
    }

    pub(super) fn supervisor_timer(&mut self, host: usize) {
        let now = self.now;
        if self.hosts[host].is_supervised()
            && self.hosts[host]
                .supervisor
                .as_ref()
                .is_some_and(|s| now >= s.tick_at)
        {
            self.tick_supervisor(host);
        }
    }

    fn tick_supervisor(&mut self, host: usize) {
        self.reap(host);
        let now = self.host_now(host);
        if let Some(supervisor) = self.hosts[host].supervisor.as_mut() {
            supervisor.tick_at = i64::MAX;
            supervisor.core.handle_tick(now);
            self.drain_supervisor(host);
        }
    }

    fn drain_supervisor(&mut self, host: usize) {
        while let Some(supervisor) = self.hosts[host].supervisor.as_mut()
            && let Some(action) = supervisor.core.poll_action()
        {
            self.supervisor_acts(host, action);
        }
        let true_now = self.now;
        let machine = &mut self.hosts[host];
        let clock = machine.clock;
        if let Some(supervisor) = machine.supervisor.as_mut()
            && let Some(wanted) = supervisor.core.poll_timeout()
        {
            let at = clock.true_time_of(wanted, true_now).max(true_now + 1);
            if at < supervisor.tick_at {
                supervisor.tick_at = at;
                self.at(at, Event::SupervisorTimer(host));
            }
        }
    }

    fn supervisor_acts(&mut self, host: usize, action: Action) {
        let now = self.host_now(host);
        match action {
            Action::Spawn(launch) => {
                let token = launch.token;
                let result = if self.hosts[host].disk_full {
                    Err(SpawnError {
                        fault: SpawnFault::Host,
                        why: "no space left on device".to_owned(),
                    })
                } else {
                    self.spawn(host, &launch);
                    Ok(Vec::new())
                };
                if let Some(supervisor) = self.hosts[host].supervisor.as_mut() {
                    supervisor.core.handle_spawned(token, result, now);
                    // Processes here print nothing.
                    supervisor.core.handle_output_drained(token);
                }
            }
            Action::Signal { token, signal } => {
                for pid in self.alive_of(host, token) {
                    self.signal_process(pid, signal);
                }
            }
            Action::LookAtTree { token } => {
                let tree = Tree {
                    alive: self.tree_of(host, token),
                    out_of_memory: self.ran_out_of_memory(host, token),
                    ..Tree::default()
                };
                if let Some(supervisor) = self.hosts[host].supervisor.as_mut() {
                    supervisor.core.handle_tree(token, tree, now);
                }
            }
            Action::Send(word) => self.word_of_supervisor(host, word),
            Action::Clear { .. } | Action::TellUnkillable { .. } => {}
            Action::Exit => {
                self.note(|_| format!("host {host}: supervisor exits"));
                self.hosts[host].supervisor = None;
                self.hosts[host].unsupervised_at = self.now;
                self.supervisor_gone(host);
                self.after(1_000, Event::StartSupervisor(host));
            }
        }
    }

    fn word_of_supervisor(&mut self, host: usize, word: Word) {
        let socket = self.hosts[host].supervisor.as_ref().and_then(|s| s.socket);
        if let Some(socket) = socket {
            self.after(1, Event::SupervisorSays(host, socket, Box::new(word)));
        }
    }

    // -- what the supervisor was told, as the world knows it ----------------------------------

    /// The latch of a deadline, kept apart from the machines under test: a deadline that has
    /// passed is past, whatever is said afterwards.
    fn note_request(&mut self, host: usize, request: &Request, now: BootMs) {
        match request {
            Request::Launch(launch) => {
                self.deadlines.insert((host, launch.token), launch.deadline);
            }
            Request::Extend { token, deadline } => {
                if let Some(latched) = self.deadlines.get_mut(&(host, *token))
                    && now < *latched
                {
                    *latched = (*latched).max(*deadline);
                }
            }
            Request::Kill { token, cause } => {
                self.note(|_| format!("host {host}: {token} to be killed: {cause:?}"));
            }
            Request::Hello | Request::Ping | Request::Forget { .. } => {}
        }
    }

    /// Until when, on its own clock, this host may let the token's processes live, grace included.
    pub fn entitled_until(&self, host: usize, token: Token) -> Option<BootMs> {
        self.deadlines
            .get(&(host, token))
            .map(|&deadline| deadline + KILL_GRACE)
    }
}
