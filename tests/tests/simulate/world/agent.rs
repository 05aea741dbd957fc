//! The shell around an agent: it dials, reads its mail in order, and reads the clock first.

use std::collections::{BTreeMap, VecDeque};

use agent_core::Agent;
use agent_core::agent::{Action, Config, ConnectionId, CoordinatorId, Policy, Registered};
use protocol::DurationMs;
use protocol::message::{CoordinatorMessage, Incarnation};
use protocol::supervisor::Event as Word;

use super::network::{Direction, Frame, IDLE_TIMEOUT_MS};
use super::registration::Registration;
use super::{Event, World};
use crate::invariants;

#[derive(Debug)]
pub struct AgentShell {
    pub generation: u64,
    pub core: Agent,
    pub stopped: bool,
    inbox: VecDeque<Input>,
    tick_at: i64,
    /// Its end of the supervisor's socket.
    socket: Option<u64>,
    /// By the coordinators' machines.
    pub(super) posts: Vec<Post>,
    /// To which machine each connection leads that was dialled and is not lost.
    pub(super) lines: BTreeMap<u64, usize>,
}

/// One coordinator as an agent's shell sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Post {
    /// The connection that is being made.
    pub(super) dialing: Option<u64>,
    /// It waits before it dials again. One wait at a time.
    waits_to_dial: bool,
}

#[derive(Debug)]
enum Input {
    Connected(u64),
    Message(u64, CoordinatorMessage),
    Disconnected(u64),
    Word(u64, Box<Word>),
    SupervisorGone(u64),
    Registered(Registration, Registered),
}

impl World {
    pub fn start_agent(&mut self, host: usize) {
        if !self.hosts[host].up || self.hosts[host].agent.is_some() {
            return;
        }
        let generation = self.fresh_id();
        self.note(|_| format!("host {host}: agent {generation} starts"));
        let config = Config {
            incarnation: Incarnation(generation),
            slots: self.hosts[host].slots,
            labels: self.hosts[host].labels.clone(),
            output_directory: "/var/lib/matins/output".to_owned(),
            output_bytes_max: 64 << 20,
            path: "/usr/bin:/bin".to_owned(),
            policy: Policy::default(),
        };
        self.hosts[host].agent = Some(AgentShell {
            generation,
            core: Agent::new(config, self.rules),
            stopped: false,
            inbox: VecDeque::new(),
            tick_at: i64::MAX,
            socket: None,
            posts: vec![Post::default(); self.controls.len()],
            lines: BTreeMap::new(),
        });
        self.find_profile(host);
        self.after(2, Event::AgentDialsSupervisor(host, generation));
        for machine in 0..self.controls.len() {
            self.dial_later(host, machine, 0);
        }
    }

    pub fn kill_agent(&mut self, host: usize) {
        let Some(agent) = self.hosts[host].agent.take() else {
            return;
        };
        self.note(|_| format!("host {host}: agent killed"));
        if let Some(socket) = agent.socket {
            self.close_supervisor_socket(host, socket);
        }
        let orphaned: Vec<u64> = self.connections_of(host).collect();
        for id in orphaned {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.agent_open = false;
            }
            self.end_vanished(id, Direction::Up, IDLE_TIMEOUT_MS);
        }
    }

    /// SIGTERM: it says goodbye and leaves the attempts to the supervisor.
    pub fn ask_agent_to_stop(&mut self, host: usize) {
        let open: Vec<u64> = self.connections_of(host).collect();
        for id in open {
            self.close_from_agent(id);
        }
        self.kill_agent(host);
    }

    pub fn stop_agent(&mut self, host: usize) {
        self.note(|_| format!("host {host}: agent stopped"));
        if let Some(agent) = self.hosts[host].agent.as_mut() {
            agent.stopped = true;
        }
        for id in self.connections_of(host).collect::<Vec<_>>() {
            self.after(IDLE_TIMEOUT_MS, Event::AgentStallLasts(host, id));
        }
    }

    /// The coordinator hears nothing from an agent that stands still.
    pub(super) fn agent_stall_lasts(&mut self, host: usize, id: u64) {
        let stands =
            self.hosts[host].stalled || self.hosts[host].agent.as_ref().is_some_and(|a| a.stopped);
        if stands {
            self.time_out(id, Direction::Up);
        }
    }

    /// Goes on: what lay in the socket is read before the timers run, which is the worst order.
    pub fn resume_agent(&mut self, host: usize) {
        self.note(|_| format!("host {host}: agent goes on"));
        if let Some(agent) = self.hosts[host].agent.as_mut() {
            agent.stopped = false;
        }
        self.read_agent_inbox(host);
        self.tick_agent(host);
    }

    // -- dialing ------------------------------------------------------------------------------

    pub(super) fn dial_later(&mut self, host: usize, machine: usize, pause_ms: i64) {
        let Some(agent) = self.hosts[host].agent.as_mut() else {
            return;
        };
        if std::mem::replace(&mut agent.posts[machine].waits_to_dial, true) {
            return;
        }
        let generation = agent.generation;
        let after = pause_ms + self.rng.between(20, 1_000);
        self.after(after, Event::Dial(host, generation, machine));
    }

    pub(super) fn dial_if_needed(&mut self, host: usize, generation: u64, machine: usize) {
        let stalled = self.hosts[host].stalled;
        let agent = self.hosts[host].agent.as_mut();
        let Some(agent) = agent.filter(|agent| agent.generation == generation) else {
            return;
        };
        let has_line = agent.core.has_line_to(CoordinatorId(machine));
        let post = &mut agent.posts[machine];
        post.waits_to_dial = false;
        if stalled || agent.stopped {
            self.dial_later(host, machine, 0);
        } else if !has_line && post.dialing.is_none() {
            self.dial(host, machine);
        }
    }

    /// The path to the leader has changed: a second connection is made while the first still
    /// stands. An agent makes one at a time.
    pub fn change_path(&mut self, host: usize) {
        let machine = self.front_machine;
        let agent = self.hosts[host].agent.as_ref();
        if agent.is_some_and(|agent| {
            agent.core.has_line_to(CoordinatorId(machine)) && agent.posts[machine].dialing.is_none()
        }) {
            self.note(|_| format!("host {host}: dials anew on another path"));
            self.dial(host, machine);
        }
    }

    // -- inputs ---------------------------------------------------------------------------------

    pub(super) fn hand_to_agent(&mut self, id: u64, host: usize, generation: u64, frame: Frame) {
        let Some(agent) = self.hosts[host].agent.as_mut() else {
            return;
        };
        if agent.generation != generation {
            return;
        }
        let input = match frame {
            Frame::Accepted => {
                for post in &mut agent.posts {
                    post.dialing = post.dialing.filter(|&dialing| dialing != id);
                }
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.agent_open = true;
                }
                Input::Connected(id)
            }
            Frame::FromCoordinator(message) => {
                self.note(|_| super::brief_down(host, &message));
                Input::Message(id, message)
            }
            Frame::Close => Input::Disconnected(id),
            Frame::Hello | Frame::FromAgent(_) => return,
        };
        self.feed_agent(host, input);
    }

    pub(super) fn supervisor_says(&mut self, host: usize, socket: u64, word: Box<Word>) {
        self.feed_agent(host, Input::Word(socket, word));
    }

    /// The socket ends after what was written into it.
    pub(super) fn supervisor_gone(&mut self, host: usize) {
        if let Some(socket) = self.hosts[host].agent.as_ref().and_then(|a| a.socket) {
            self.after(2, Event::SupervisorGone(host, socket));
        }
    }

    pub(super) fn supervisor_hung_up(&mut self, host: usize, socket: u64) {
        self.feed_agent(host, Input::SupervisorGone(socket));
    }

    pub(super) fn agent_dials_supervisor(&mut self, host: usize, generation: u64) {
        let socket = self.fresh_id();
        let machine = &mut self.hosts[host];
        let has_supervisor = machine.supervisor.is_some();
        let Some(agent) = machine
            .agent
            .as_mut()
            .filter(|a| a.generation == generation)
        else {
            return;
        };
        if agent.socket.is_some() {
            return;
        }
        if agent.stopped || machine.stalled || !has_supervisor {
            self.after(200, Event::AgentDialsSupervisor(host, generation));
            return;
        }
        agent.socket = Some(socket);
        self.connect_to_supervisor(host, socket);
    }

    pub(super) fn profile_answered(&mut self, registration: Registration, end: Registered) {
        self.feed_agent(registration.host, Input::Registered(registration, end));
    }

    fn feed_agent(&mut self, host: usize, input: Input) {
        let stalled = self.hosts[host].stalled;
        let Some(agent) = self.hosts[host].agent.as_mut() else {
            return;
        };
        agent.inbox.push_back(input);
        if !agent.stopped && !stalled {
            self.read_agent_inbox(host);
        }
    }

    pub(super) fn read_agent_inbox(&mut self, host: usize) {
        while let Some(agent) = self.hosts[host].agent.as_mut()
            && let Some(input) = agent.inbox.pop_front()
        {
            self.agent_input(host, input);
            self.drain_agent(host);
        }
    }

    fn agent_input(&mut self, host: usize, input: Input) {
        let now = self.host_now(host);
        let Some(agent) = self.hosts[host].agent.as_mut() else {
            return;
        };
        match input {
            Input::Connected(id) => {
                if let Some(&machine) = agent.lines.get(&id) {
                    let (id, coordinator) = (ConnectionId(id), CoordinatorId(machine));
                    agent.core.handle_connected(id, coordinator, now);
                }
            }
            Input::Message(id, message) => {
                agent.core.handle_message(ConnectionId(id), message, now);
            }
            Input::Disconnected(id) => {
                agent.core.handle_disconnected(ConnectionId(id), now);
                self.agent_lost(host, id, DurationMs::ZERO);
            }
            Input::Registered(registration, end) if registration.agent == agent.generation => {
                let id = ConnectionId(registration.connection);
                agent
                    .core
                    .handle_registered(id, registration.digest, end, now);
            }
            Input::Word(socket, word) if agent.socket == Some(socket) => match *word {
                Word::Table(table) => agent.core.handle_supervisor_up(table, now),
                word => agent.core.handle_supervisor(word, now),
            },
            Input::SupervisorGone(socket) if agent.socket == Some(socket) => {
                agent.socket = None;
                agent.core.handle_supervisor_down(now);
                let generation = agent.generation;
                self.after(200, Event::AgentDialsSupervisor(host, generation));
            }
            Input::Word(..) | Input::SupervisorGone(_) | Input::Registered(..) => {}
        }
    }

    fn agent_lost(&mut self, host: usize, id: u64, pause: DurationMs) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.agent_open = false;
        }
        let Some(agent) = self.hosts[host].agent.as_mut() else {
            return;
        };
        if let Some(machine) = agent.lines.remove(&id)
            && !agent.core.has_line_to(CoordinatorId(machine))
        {
            self.dial_later(host, machine, pause.0);
        }
    }

    pub(super) fn agent_timer(&mut self, host: usize) {
        let (now, stalled) = (self.now, self.hosts[host].stalled);
        if let Some(agent) = self.hosts[host].agent.as_ref()
            && !agent.stopped
            && !stalled
            && now >= agent.tick_at
        {
            self.tick_agent(host);
        }
    }

    fn tick_agent(&mut self, host: usize) {
        let now = self.host_now(host);
        if let Some(agent) = self.hosts[host].agent.as_mut() {
            agent.tick_at = i64::MAX;
            agent.core.handle_tick(now);
            self.drain_agent(host);
        }
    }

    pub(super) fn drain_agent(&mut self, host: usize) {
        while let Some(agent) = self.hosts[host].agent.as_mut()
            && let Some(action) = agent.core.poll_action()
        {
            self.agent_acts(host, action);
        }
        let true_now = self.now;
        let machine = &mut self.hosts[host];
        let clock = machine.clock;
        if let Some(agent) = machine.agent.as_mut()
            && let Some(wanted) = agent.core.poll_timeout()
        {
            let at = clock.true_time_of(wanted, true_now).max(true_now + 1);
            if at < agent.tick_at {
                agent.tick_at = at;
                self.at(at, Event::AgentTimer(host));
            }
        }
    }

    fn agent_acts(&mut self, host: usize, action: Action) {
        let now = self.host_now(host);
        match action {
            Action::Send {
                connection,
                message,
            } => {
                self.note_sent(host, connection.0, &message);
                self.send(connection.0, Direction::Up, Frame::FromAgent(message));
            }
            Action::Disconnect { connection, reason } => {
                self.note(|_| {
                    format!(
                        "host {host}: agent closes connection {}: {reason}",
                        connection.0
                    )
                });
                self.close_from_agent(connection.0);
                self.agent_lost(host, connection.0, reason.pause());
            }
            Action::Supervise(request) => {
                invariants::leases::on_request(self, host, &request);
                let socket = self.hosts[host].agent.as_ref().and_then(|a| a.socket);
                if let Some(socket) = socket {
                    self.request_of_supervisor(host, socket, request);
                }
            }
            Action::ReadTail { token, .. } => {
                if let Some(agent) = self.hosts[host].agent.as_mut() {
                    agent.core.handle_tail(token, "last words".to_owned(), now);
                }
            }
            Action::Register { connection, digest } => {
                self.send_profile(host, connection.0, digest);
            }
        }
    }
}
