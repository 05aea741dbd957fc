//! Connections between agents and coordinators: ordered streams that wait, break and time out.
//!
//! A cut stops everything in its direction. What was sent waits until the cut is healed, and is
//! lost if the connection times out first (ten seconds without a word, as QUIC is configured).
//! What one connection carries in one direction never overtakes itself, unless a test holds
//! frames back by hand.

use std::collections::VecDeque;

use protocol::message::{AgentMessage, CoordinatorMessage, FRAME_BYTES_MAX};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Event, World};

/// A connection without a word for this long is dead.
pub const IDLE_TIMEOUT_MS: i64 = 10_000;

/// How long a dial may take.
const DIAL_TIMEOUT_MS: i64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From agent to coordinator.
    Up,
    Down,
}

#[expect(clippy::large_enum_variant, reason = "few are on their way at once")]
#[derive(Clone, Debug)]
pub enum Frame {
    Hello,
    Accepted,
    FromAgent(AgentMessage),
    FromCoordinator(CoordinatorMessage),
    Close,
}

/// The path between one host and one coordinator's machine.
#[derive(Clone, Debug)]
pub struct Link {
    pub up_cut: bool,
    pub down_cut: bool,
    /// Shortest and longest time that a frame is on its way.
    pub delay_ms: (i64, i64),
    /// Counts cuts, so that a time-out knows whether the cut it is about still lasts.
    cuts: u64,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            up_cut: false,
            down_cut: false,
            delay_ms: (1, 4),
            cuts: 0,
        }
    }
}

impl Link {
    fn is_cut(&self, direction: Direction) -> bool {
        match direction {
            Direction::Up => self.up_cut,
            Direction::Down => self.down_cut,
        }
    }
}

#[derive(Debug)]
pub struct Connection {
    pub host: usize,
    pub agent: u64,
    /// The coordinator's machine, and the process there.
    pub machine: usize,
    pub leader: u64,
    pub agent_open: bool,
    pub leader_open: bool,
    /// Both ends are told of nothing any more that is still on its way.
    broken: bool,
    up: Lane,
    down: Lane,
}

#[derive(Debug, Default)]
struct Lane {
    frames: VecDeque<(i64, Frame)>,
    last_arrival: i64,
}

impl Connection {
    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

impl World {
    /// The agent of this host begins to dial whatever process there is on this machine.
    pub(super) fn dial(&mut self, host: usize, machine: usize) {
        const NOBODY: u64 = 0;
        let Some(agent) = self.hosts[host].agent.as_ref() else {
            return;
        };
        let agent = agent.generation;
        let leader = self.process_on(machine).unwrap_or(NOBODY);
        let id = self.fresh_id();
        self.connections.insert(
            id,
            Connection {
                host,
                agent,
                machine,
                leader,
                agent_open: false,
                leader_open: false,
                broken: false,
                up: Lane::default(),
                down: Lane::default(),
            },
        );
        if let Some(agent) = self.hosts[host].agent.as_mut() {
            agent.posts[machine].dialing = Some(id);
            agent.lines.insert(id, machine);
        }
        self.send(id, Direction::Up, Frame::Hello);
        self.after(DIAL_TIMEOUT_MS, Event::DialTimeout(host, id));
    }

    pub(super) fn dial_timed_out(&mut self, host: usize, id: u64) {
        let Some(agent) = self.hosts[host].agent.as_mut() else {
            return;
        };
        let mut posts = agent.posts.iter_mut().enumerate();
        if let Some((machine, post)) = posts.find(|(_, post)| post.dialing == Some(id)) {
            post.dialing = None;
            agent.lines.remove(&id);
            self.break_connection(id);
            self.dial_later(host, machine, 0);
        }
    }

    pub(super) fn send(&mut self, id: u64, direction: Direction, frame: Frame) {
        if self.in_writing {
            self.check_writing(&frame);
        }
        if let Some(hold) = self.hold
            && hold(&frame)
        {
            self.held.push((id, direction, frame));
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.broken {
            return;
        }
        let link = &self.hosts[connection.host].links[connection.machine];
        let (shortest, longest) = link.delay_ms;
        let arrival = self.now + self.rng.between(shortest, longest);
        let lane = connection.lane(direction);
        let arrival = arrival.max(lane.last_arrival);
        lane.last_arrival = arrival;
        lane.frames.push_back((arrival, frame));
        self.at(arrival, Event::Deliver(id, direction));
    }

    /// What is written is what is read, and fits its frame.
    fn check_writing(&mut self, frame: &Frame) {
        fn differs<T: Serialize + DeserializeOwned + PartialEq>(message: &T) -> Option<String> {
            let text = serde_json::to_string(message).ok()?;
            let same = serde_json::from_str::<T>(&text).is_ok_and(|read| read == *message);
            (!same || text.len() > FRAME_BYTES_MAX).then_some(text)
        }
        let wrong = match frame {
            Frame::FromAgent(message) => differs(message),
            Frame::FromCoordinator(message) => differs(message),
            Frame::Hello | Frame::Accepted | Frame::Close => None,
        };
        self.require(
            wrong.is_none(),
            "P3",
            "what is written is what is read",
            || wrong.unwrap_or_default(),
        );
    }

    /// Hands over what [`World::hold`] kept back, whatever has overtaken it.
    pub fn release_held(&mut self) {
        self.hold = None;
        for (id, direction, frame) in std::mem::take(&mut self.held) {
            self.arrive(id, direction, frame);
        }
    }

    pub(super) fn deliver(&mut self, id: u64, direction: Direction) {
        let now = self.now;
        loop {
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            let link = &self.hosts[connection.host].links[connection.machine];
            if link.is_cut(direction) {
                return;
            }
            let lane = connection.lane(direction);
            match lane.frames.front() {
                Some(&(arrival, _)) if arrival <= now => {}
                _ => return,
            }
            if let Some((_, frame)) = lane.frames.pop_front() {
                self.arrive(id, direction, frame);
            }
        }
    }

    fn arrive(&mut self, id: u64, direction: Direction, frame: Frame) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        match direction {
            Direction::Up => self.hand_to_leader(id, connection.leader, connection.host, frame),
            Direction::Down => self.hand_to_agent(id, connection.host, connection.agent, frame),
        }
    }

    /// One end closes: the other learns of it when the word arrives.
    pub(super) fn close_from_agent(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.agent_open = false;
            self.send(id, Direction::Up, Frame::Close);
        }
    }

    pub(super) fn close_from_leader(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.leader_open = false;
            self.send(id, Direction::Down, Frame::Close);
        }
    }

    /// The path of one connection is gone: what was on its way is lost, and each end finds out
    /// in its own time.
    pub fn break_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.broken = true;
        connection.up.frames.clear();
        connection.down.frames.clear();
        for direction in [Direction::Up, Direction::Down] {
            let after = self.rng.span(10, IDLE_TIMEOUT_MS);
            self.after(after, Event::Lost(id, direction));
        }
    }

    /// One end vanished without a word: the other hears of it when its connection times out.
    pub(super) fn end_vanished(&mut self, id: u64, from: Direction, within_ms: i64) {
        self.after(within_ms, Event::Lost(id, from));
    }

    /// The end that listens in this direction gives the connection up.
    pub(super) fn lost(&mut self, id: u64, direction: Direction) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let open = match direction {
            Direction::Up => connection.leader_open,
            Direction::Down => connection.agent_open,
        };
        if open {
            self.arrive(id, direction, Frame::Close);
        }
    }

    /// Cuts a host off from all coordinators.
    pub fn cut(&mut self, host: usize, up: bool, down: bool) {
        for machine in 0..self.controls.len() {
            self.cut_from(host, machine, up, down);
        }
    }

    pub fn cut_from(&mut self, host: usize, machine: usize, up: bool, down: bool) {
        self.note(|_| format!("host {host}: cut from machine {machine} (up {up}, down {down})"));
        let link = &mut self.hosts[host].links[machine];
        link.up_cut |= up;
        link.down_cut |= down;
        link.cuts += 1;
        let cuts = link.cuts;
        self.after(IDLE_TIMEOUT_MS, Event::CutLasts(host, machine, cuts));
    }

    pub fn heal(&mut self, host: usize) {
        self.note(|_| format!("host {host}: network whole"));
        for link in &mut self.hosts[host].links {
            link.up_cut = false;
            link.down_cut = false;
            link.cuts += 1;
        }
        let waiting: Vec<u64> = self.connections_of(host).collect();
        for id in waiting {
            self.after(1, Event::Deliver(id, Direction::Up));
            self.after(1, Event::Deliver(id, Direction::Down));
        }
    }

    /// A cut has lasted for as long as a connection may be without a word.
    pub(super) fn cut_lasts(&mut self, host: usize, machine: usize, cuts: u64) {
        let link = &self.hosts[host].links[machine];
        if link.cuts != cuts {
            return;
        }
        let (up, down) = (link.up_cut, link.down_cut);
        let to_machine = |id: &u64| self.connections[id].machine == machine;
        for id in self
            .connections_of(host)
            .filter(to_machine)
            .collect::<Vec<_>>()
        {
            if up {
                self.time_out(id, Direction::Up);
            }
            if down {
                self.time_out(id, Direction::Down);
            }
        }
    }

    /// The end that hears nothing gives up and says so, which the other may hear.
    pub(super) fn time_out(&mut self, id: u64, deaf: Direction) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.lane(deaf).frames.clear();
        self.lost(id, deaf);
        match deaf {
            Direction::Up => self.close_from_leader(id),
            Direction::Down => self.close_from_agent(id),
        }
    }

    pub fn connections_of(&self, host: usize) -> impl Iterator<Item = u64> + '_ {
        self.connections
            .iter()
            .filter(move |(_, c)| c.host == host)
            .map(|(&id, _)| id)
    }

    /// Forgets connections that nobody holds and nothing travels on.
    pub fn forget_dead_connections(&mut self) {
        self.connections.retain(|_, c| {
            let idle = c.up.frames.is_empty() && c.down.frames.is_empty();
            c.agent_open || c.leader_open || !idle
        });
    }
}
