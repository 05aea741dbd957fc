//! Who leads: the coordinators' machines, elections, and planned changes of leader.
//!
//! The group's log is modelled by the one ledger that all follow, and its elections by their outcome. What is
//! true of real ones holds: a leader that is cut off, or stands still, does not know that it was replaced,
//! and finds out a while after it is back; until then it says and decides what it likes. Whoever is
//! elected makes a core of what the ledger holds, and commits the beginning of its reign like
//! everything else.
//!
//! One machine is a group of one: its process leads whenever it is there. Beside a pair there is a witness, of
//! which nothing is modelled but its clock.

use std::sync::Arc;

use coordinator_core::clock::Thresholds;
use coordinator_core::clock::members::{MemberClock, Reading};
use coordinator_core::clock::service::{Keeping, ServiceWord};
use coordinator_core::{Config, ConnId, Core};
use profiles::classes::Classes;
use protocol::message::{Incarnation, Nonce};
use protocol::{DurationMs, Role, Rule};

use super::clock::Clock;
use super::coordinator::{CERTIFICATE, Coordinator, Input};
use super::{Event, World};
use crate::invariants;

/// From where the leader was last heard to where another one leads.
const ELECTION_MS: (i64, i64) = (600, 1_300);

/// How long a transfer that was agreed on takes.
const TRANSFER_MS: (i64, i64) = (2, 20);

/// Until a leader that was replaced hears of it, as far as anybody can tell it.
const FOUND_OUT_MS: (i64, i64) = (1, 60);

/// How often the members of a group ask each other for the time.
const READ_CLOCKS_MS: i64 = 1_000;

/// How often a time service is asked.
const ASK_TIME_MS: i64 = 1_000;

/// A clock that was set by more than this is not steady for so long.
const SET_MS: i64 = 100;
const STEADY_AFTER_MS: i64 = 60_000;

/// A control machine.
#[derive(Debug)]
pub struct Control {
    pub name: String,
    pub clock: Clock,
    /// When it was last set.
    set: Option<i64>,
    /// How often it was started again.
    boots: u32,
    /// How far ahead of true time the server is that its time service follows, where it has one.
    server: Option<i64>,
    /// There is no room for log and ledger.
    disk_full: bool,
}

impl Control {
    pub fn new(place: usize, now: i64) -> Control {
        Control {
            name: format!("control-{place}"),
            clock: Clock::right(now),
            set: None,
            boots: 0,
            server: None,
            disk_full: false,
        }
    }

    pub fn witness(now: i64) -> Control {
        Control {
            name: "witness".to_owned(),
            ..Control::new(0, now)
        }
    }

    /// Sets its clock, as a person or a hasty NTP client does.
    pub fn set_clock(&mut self, now: i64, by: i64) {
        self.clock.step(now, by);
        if by.abs() > SET_MS {
            self.set = Some(now);
        }
    }

    /// What its time service says of its clock; it only looks, and corrects nothing.
    fn time_service(&self, now: i64) -> Option<ServiceWord> {
        const UNSURE_US: i64 = 2_000;
        let ahead_us = (self.clock.wall_error(now) - self.server?) * 1_000;
        Some(ServiceWord {
            keeping: Keeping::Synchronised,
            ahead_us: Some(ahead_us),
            bound_us: Some(ahead_us.abs() + UNSURE_US),
            reason: "it follows a server".to_owned(),
        })
    }

    pub fn is_steady(&self, now: i64) -> bool {
        self.set.is_none_or(|set| now - set > STEADY_AFTER_MS)
    }
}

impl World {
    /// A second machine for a coordinator, whose process stands by. To be called before there are
    /// agents: they are given both.
    pub fn add_standby(&mut self) {
        self.controls
            .push(Control::new(self.controls.len(), self.now));
        self.start_coordinator(self.controls.len() - 1);
        self.after(READ_CLOCKS_MS, Event::ReadClocks);
    }

    /// The time services of all control machines follow a server from now on, which is so far ahead of
    /// true time.
    pub fn follow_server(&mut self, ahead: i64) {
        let first = self.controls.iter().all(|machine| machine.server.is_none());
        for machine in &mut self.controls {
            machine.server = Some(ahead);
        }
        if first {
            self.after(ASK_TIME_MS, Event::AskTime);
        }
    }

    pub(super) fn ask_time(&mut self) {
        let now = self.now;
        for id in self.coordinators.keys().copied().collect::<Vec<_>>() {
            let machine = &self.controls[self.coordinators[&id].machine];
            if let Some(word) = machine.time_service(now) {
                self.feed(id, Input::TimeService(word));
            }
        }
        self.after(ASK_TIME_MS, Event::AskTime);
    }

    /// The machine whose process leads, or was the last to.
    pub fn front_clock(&mut self) -> &mut Clock {
        &mut self.controls[self.front_machine].clock
    }

    pub fn is_pair(&self) -> bool {
        self.controls.len() > 1
    }

    /// The process that runs on this machine, whether it leads or not.
    pub fn process_on(&self, machine: usize) -> Option<u64> {
        let mut all = self.coordinators.iter();
        all.find(|(_, process)| process.machine == machine)
            .map(|(&id, _)| id)
    }

    /// Starts a process on this machine, which stands by.
    pub fn start_coordinator(&mut self, machine: usize) -> u64 {
        let id = self.fresh_id();
        self.note(|_| format!("coordinator {id} starts on machine {machine}"));
        self.coordinators.insert(id, Coordinator::new(machine));
        id
    }

    /// There is a process on every machine again, and somebody will lead.
    pub fn bring_back(&mut self, machine: usize) {
        if self.process_on(machine).is_none() {
            self.start_coordinator(machine);
        }
        if self.is_pair() {
            self.call_election();
        } else if !self.can_lead_on() {
            self.lead(machine);
        }
    }

    /// The process on this machine begins a reign. Whoever led before is not told.
    pub fn lead(&mut self, machine: usize) -> u64 {
        let id = match self.process_on(machine) {
            Some(id) => id,
            None => self.start_coordinator(machine),
        };
        // It may have led before, and have lost the lead unawares.
        self.stand_by(id);
        let set = self.store.working_set().expect("the ledger can be read");
        invariants::indexes::on_load(self, &set);
        let node = self.controls[machine].name.clone();
        let last_clock = self.store.last_clock(&node);
        let looked_at = self.store.last_applied();
        let config = Config {
            boot_id: format!("boot-{machine}-{}", self.controls[machine].boots),
            looked_at: looked_at.expect("the ledger can be read"),
            last_clock: last_clock.expect("the ledger can be read"),
            node,
            incarnation: Incarnation(self.fresh_id()),
            clock: Thresholds::default(),
            classes: Arc::new(Classes::built_in()),
            members: self.coordinators[&id].clocks.clone(),
            time_service: self.controls[machine].time_service(self.now),
            yielded: self.coordinators[&id].yielded,
        };
        let (now, reign) = (self.leader_now(id), self.fresh_id());
        let core = Core::new(config, set, now, self.rules);
        self.note(|_| format!("coordinator {id} on machine {machine} is to lead"));
        self.front = id;
        self.front_machine = machine;
        let Some(coordinator) = self.coordinators.get_mut(&id) else {
            return id;
        };
        coordinator.begin_reign(core, reign, now);
        let open = self.connections.iter();
        let open = open.filter(|(_, c)| c.leader == id && c.leader_open);
        let open: Vec<_> = open
            .map(|(&conn, c)| (ConnId(conn), self.hosts[c.host].identity.clone()))
            .collect();
        for (conn, name) in open {
            let nonce = Nonce(self.rng.next());
            if let Some(core) = self.core_of(id) {
                core.handle_connected(conn, name, CERTIFICATE, nonce, now);
            }
        }
        self.drain_leader(id);
        id
    }

    /// Every member reads the clocks of those it reaches; what it has read of the others it keeps.
    pub(super) fn read_clocks(&mut self) {
        for id in self.coordinators.keys().copied().collect::<Vec<_>>() {
            if !self.coordinators[&id].hears_members() {
                continue;
            }
            let clocks = self.clocks_of_others(id);
            if let Some(coordinator) = self.coordinators.get_mut(&id) {
                coordinator.clocks = clocks;
            }
            self.feed(id, Input::Clocks);
        }
        invariants::p6_clocks::look(self);
        self.after(READ_CLOCKS_MS, Event::ReadClocks);
    }

    fn clocks_of_others(&mut self, id: u64) -> Vec<MemberClock> {
        let now = self.now;
        let own = self.coordinators[&id].machine;
        let read = self.controls[own].clock.read(now);
        let mut clocks = Vec::new();
        for place in (0..=self.controls.len()).filter(|&place| place != own) {
            let (machine, role) = match self.controls.get(place) {
                Some(machine) => (machine, Role::Coordinator),
                None => (&self.witness, Role::Witness),
            };
            let node = place as u64 + 1;
            let answers = role == Role::Witness
                || self.process_on(place).is_some_and(|other| {
                    let other = &self.coordinators[&other];
                    other.hears_members()
                });
            let (ahead, steady) = (
                machine.clock.read(now).wall - read.wall,
                machine.is_steady(now),
            );
            let before = self.coordinators[&id].clocks.iter();
            let before = before
                .filter(|clock| clock.node == node)
                .find_map(|clock| clock.reading);
            let reading = if answers {
                let unsure = self.rng.between(1, 12);
                let error = self.rng.between(-unsure, unsure);
                let ahead = ahead + DurationMs(error);
                Some(Reading::new(ahead, DurationMs(unsure), steady, read))
            } else {
                before
            };
            clocks.push(MemberClock {
                node,
                role,
                reading,
            });
        }
        clocks
    }

    pub(super) fn core_of(&mut self, id: u64) -> Option<&mut Core> {
        self.coordinators.get_mut(&id)?.core.as_mut()
    }

    /// The process leads no more, and stands by: nothing of its reign is left but its connections.
    pub fn stand_by(&mut self, id: u64) {
        let Some(coordinator) = self.coordinators.get_mut(&id) else {
            return;
        };
        if coordinator.core.take().is_none() {
            return;
        }
        let waiting = coordinator.end_reign();
        self.note(|_| format!("coordinator {id} leads no more, and stands by"));
        self.unanswered.retain(|_, by| *by != id);
        for input in waiting {
            self.feed(id, input);
        }
        if id == self.front {
            self.call_election();
        }
    }

    /// Whether the one in front can go on leading.
    fn can_lead_on(&self) -> bool {
        let front = self.coordinators.get(&self.front);
        front.is_some_and(|c| c.core.is_some() && c.reaches_voters())
    }

    /// The voters hear nothing of a leader: after a while they elect one.
    pub fn call_election(&mut self) {
        if !self.is_pair() {
            if !self.can_lead_on() && self.process_on(0).is_some() {
                self.after(1_000, Event::Election);
            }
            return;
        }
        if !std::mem::replace(&mut self.election_called, true) {
            let (shortest, longest) = ELECTION_MS;
            let after = self.rng.between(shortest, longest);
            self.after(after, Event::Election);
        }
    }

    /// Whoever is to lead is named by hand: [`World::elect`].
    pub fn call_off_election(&mut self) {
        self.election_called = false;
        self.events
            .retain(|_, event| !matches!(event, Event::Election));
    }

    pub(super) fn hold_election(&mut self) {
        self.election_called = false;
        if self.can_lead_on() {
            return;
        }
        match self.candidate() {
            Some(machine) => self.elect(machine),
            // Nobody can: until somebody is back.
            None if self.coordinators.is_empty() => {}
            None => self.call_election(),
        }
    }

    /// A machine that may lead: rather another one than that in front.
    fn candidate(&self) -> Option<usize> {
        let may = |&machine: &usize| {
            let process = self.process_on(machine);
            process.is_some_and(|id| self.coordinators[&id].reaches_voters())
        };
        let others = (0..self.controls.len()).filter(|&machine| machine != self.front_machine);
        others.chain([self.front_machine]).find(may)
    }

    /// This machine's process leads from now on. One that led and can be told hears of it soon.
    pub fn elect(&mut self, machine: usize) {
        let old = self.front;
        self.settle_batch_of(old);
        self.lead(machine);
        self.tell_deposed(old);
    }

    /// What a leader that is cut off had on its way may have reached the other voters before.
    fn settle_batch_of(&mut self, old: u64) {
        let kept = self.rng.one_in(2) && self.rules.on(Rule::GrantBeforeWord);
        let coordinator = self.coordinators.get_mut(&old);
        if let Some(coordinator) = coordinator.filter(|c| kept && !c.has_quorum) {
            let batch = std::mem::take(&mut coordinator.batch);
            let outcomes = self.apply_batch(&batch);
            self.publish(old, &outcomes);
        }
    }

    /// Somebody else leads: who does not know it will, as soon as it can be told.
    pub(super) fn tell_deposed(&mut self, id: u64) {
        let can_be_told = self.coordinators.get(&id);
        let can_be_told = can_be_told.is_some_and(|c| c.core.is_some() && c.reaches_voters());
        if self.is_pair() && id != self.front && can_be_told {
            let (shortest, longest) = FOUND_OUT_MS;
            let after = self.rng.between(shortest, longest);
            self.after(after, Event::Deposed(id));
        }
    }

    pub(super) fn deposed(&mut self, id: u64) {
        let can_be_told = self.coordinators.get(&id);
        if id != self.front && can_be_told.is_some_and(|c| c.reaches_voters() && !c.unaware) {
            self.stand_by(id);
        }
    }

    pub fn other_machine(&self) -> usize {
        self.controls.len() - 1 - self.front_machine
    }

    /// The other one leads, and the old leader does not hear of it until [`World::tell`]. Whether it
    /// came to that.
    pub fn replace(&mut self) -> bool {
        let old = self.front;
        let other = self.candidate();
        let Some(machine) = other.filter(|&machine| machine != self.front_machine) else {
            return false;
        };
        let Some(coordinator) = self.coordinators.get_mut(&old) else {
            return false;
        };
        coordinator.unaware = coordinator.core.is_some();
        self.elect(machine);
        true
    }

    /// It is told at last that it was replaced.
    pub fn tell(&mut self, id: u64) {
        if let Some(coordinator) = self.coordinators.get_mut(&id) {
            coordinator.unaware = false;
            self.tell_deposed(id);
        }
    }

    /// A leader's core wants this node to lead.
    pub(super) fn yield_to(&mut self, id: u64, to: u64) {
        let now = self.leader_now(id);
        if let Some(coordinator) = self.coordinators.get_mut(&id) {
            coordinator.yielded = Some(now.boot);
        }
        self.note(|_| format!("coordinator {id} has a wrong clock: node {to} is to lead"));
        if id == self.front {
            self.hand_over();
        }
    }

    /// A planned change of leader: nothing more is begun, what is on its way is waited for, and then the other
    /// one leads.
    pub fn hand_over(&mut self) {
        let (front, machine) = (self.front, self.front_machine);
        if !self.can_lead_on() || self.candidate() == Some(machine) {
            return;
        }
        if let Some(coordinator) = self.coordinators.get_mut(&front) {
            coordinator.hands_over = true;
        }
        self.note(|_| format!("coordinator {front} hands over"));
        self.perhaps_transfer(front);
    }

    /// Nothing is on its way any more.
    pub(super) fn perhaps_transfer(&mut self, id: u64) {
        let coordinator = self.coordinators.get(&id);
        if coordinator.is_some_and(|c| c.hands_over && c.batch.is_empty()) {
            let (shortest, longest) = TRANSFER_MS;
            let after = self.rng.between(shortest, longest);
            self.after(after, Event::Transfer(id));
        }
    }

    pub(super) fn transfer(&mut self, id: u64) {
        let candidate = self.candidate();
        let Some(coordinator) = self.coordinators.get_mut(&id) else {
            return;
        };
        if !coordinator.hands_over || coordinator.stopped {
            return;
        }
        coordinator.hands_over = false;
        match candidate.filter(|&machine| id == self.front && machine != self.front_machine) {
            Some(machine) => {
                self.stand_by(id);
                self.lead(machine);
            }
            None => {
                // It goes on with the same core, and with what has come in meanwhile.
                for input in coordinator.take_inbox() {
                    self.feed(id, input);
                }
            }
        }
    }

    /// The machine is switched off and on again: its boot clock begins anew.
    pub fn reboot_control(&mut self, machine: usize, keep: bool) {
        if let Some(process) = self.process_on(machine) {
            self.crash_leader(process, keep);
        }
        let now = self.now;
        let control = &mut self.controls[machine];
        let error = control.clock.wall_error(now);
        control.clock = Clock::right(now);
        control.clock.step(now, error);
        // Whoever has just begun has seen no step.
        control.set = None;
        control.boots += 1;
    }

    /// Nothing can be written on this machine any more: what has to, ends.
    pub fn fill_disk_of_control(&mut self, machine: usize) {
        self.note(|_| format!("the disk of machine {machine} is full"));
        self.controls[machine].disk_full = true;
    }

    /// There is room again, and somebody starts what has ended.
    pub fn free_disk_of_control(&mut self, machine: usize) {
        if std::mem::take(&mut self.controls[machine].disk_full) {
            self.note(|_| format!("machine {machine} has room again"));
        }
        self.bring_back(machine);
    }

    pub(super) fn has_room(&self, id: u64) -> bool {
        let machine = self.coordinators.get(&id).map(|c| c.machine);
        machine.is_none_or(|machine| !self.controls[machine].disk_full)
    }

    /// A hypervisor holds the machine: nothing on it runs, and no clock of it moves.
    pub fn pause_control(&mut self, machine: usize) {
        const STANDS_STILL_PPM: i64 = -1_000_000;
        if let Some(process) = self.process_on(machine) {
            self.stop_leader(process);
        }
        let (now, clock) = (self.now, &mut self.controls[machine].clock);
        clock.set_rates(now, STANDS_STILL_PPM, STANDS_STILL_PPM);
    }

    pub fn unpause_control(&mut self, machine: usize) {
        let (now, clock) = (self.now, &mut self.controls[machine].clock);
        clock.set_rates(now, 0, 0);
        if let Some(process) = self.process_on(machine) {
            self.resume_leader(process);
        }
    }
}
