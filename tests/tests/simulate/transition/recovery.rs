//! How what lasts ends: one thing after the other, or all at once.

use crate::world::World;

/// The end of something that lasts.
#[derive(Clone, Debug)]
pub enum Recovery {
    StartCoordinator(usize),
    Tell(u64),
    ResumeLeader(u64),
    FastDisk,
    Quorum(u64),
    SetClockRight,
    StartAgent(usize),
    StartSupervisor(usize),
    ResumeAgent(usize),
    ResumeSupervisor(usize),
    ResumeHost(usize),
    Boot(usize),
    FreeDisk(usize),
    Heal(usize),
    FastNetwork(usize),
    ScrapHost(usize),
}

impl World {
    pub fn recover(&mut self, recovery: Recovery) {
        match recovery {
            Recovery::StartCoordinator(machine) => self.bring_back(machine),
            Recovery::Tell(old) => self.tell(old),
            Recovery::ResumeLeader(leader) => self.resume_leader(leader),
            Recovery::FastDisk => self.commit_ms = (1, 8),
            Recovery::Quorum(leader) => self.set_quorum(leader, true),
            Recovery::SetClockRight => self.set_clock_right(),
            Recovery::StartAgent(host) => self.start_agent(host),
            Recovery::StartSupervisor(host) => self.start_supervisor(host),
            Recovery::ResumeAgent(host) => self.resume_agent(host),
            Recovery::ResumeSupervisor(host) => self.resume_supervisor(host),
            Recovery::ResumeHost(host) => self.resume_host(host),
            Recovery::Boot(host) => self.boot(host),
            Recovery::FreeDisk(host) => self.hosts[host].disk_full = false,
            Recovery::Heal(host) => self.heal(host),
            Recovery::FastNetwork(host) => self.hosts[host].set_delay((1, 4)),
            Recovery::ScrapHost(host) => self.scrap_host(host),
        }
    }

    /// Whoever sets a coordinator's clock back sets it to the right time.
    pub fn set_clock_right(&mut self) {
        let now = self.now;
        let all = self.controls.iter_mut().chain([&mut self.witness]);
        let mut set = Vec::new();
        for machine in all {
            let error = machine.clock.wall_error(now);
            if error.abs() > 500 {
                machine.set_clock(now, -error);
                set.push((machine.name.clone(), -error));
            }
        }
        for (name, by) in set {
            self.note(|_| format!("the clock of {name} is set right, by {by} ms"));
        }
    }

    /// Everything is whole again, at once.
    pub fn heal_everything(&mut self) {
        self.note(|_| "*** everything is healed".to_owned());
        self.commit_ms = (1, 8);
        self.set_clock_right();
        for leader in self.coordinators.keys().copied().collect::<Vec<_>>() {
            self.resume_if_stopped(leader);
            self.set_quorum(leader, true);
            self.tell(leader);
        }
        for machine in 0..self.controls.len() {
            self.free_disk_of_control(machine);
        }
        if !self.cloned.is_empty() {
            // A name that was borne by two is used no more.
            self.add_host(4);
        }
        for host in 0..self.hosts.len() {
            self.heal(host);
            self.hosts[host].disk_full = false;
            self.hosts[host].clock.set_right(self.now);
            self.hosts[host].set_delay((1, 4));
            self.hosts[host].calm();
            self.boot(host);
            self.resume_host(host);
            if self.hosts[host].agent.as_ref().is_some_and(|a| a.stopped) {
                self.resume_agent(host);
            }
            if self.hosts[host]
                .supervisor
                .as_ref()
                .is_some_and(|s| s.stopped)
            {
                self.resume_supervisor(host);
            }
            self.start_supervisor(host);
            self.start_agent(host);
            self.tell_how_it_fares(host);
        }
    }

    fn resume_if_stopped(&mut self, leader: u64) {
        if self
            .coordinators
            .get(&leader)
            .is_some_and(|leader| leader.stopped)
        {
            self.resume_leader(leader);
        }
    }
}
