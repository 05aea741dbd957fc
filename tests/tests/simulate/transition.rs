//! Everything that can happen to a world, as one enum.

mod draw;
mod recovery;

pub use draw::{
    any_facts, any_instant, any_job, draw, draw_for_coordinator, draw_for_host, draw_for_run,
};
pub use recovery::Recovery;

use ledger::Cordon;
use ledger::command::{RerunScope, Verdict};
use protocol::host::HostLoad;
use protocol::{Health, HostFacts, RunId, WallMs};

use crate::world::people::{self, Job};
use crate::world::{Event, World};

/// One thing that happens. Whatever lasts ends by a [`Recovery`] that is put on its way at once.
// One at a time is made; a box around the largest would cost more readers than bytes.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Transition {
    /// `keep`: whether a batch on its way had reached the disk.
    CrashCoordinator {
        keep: bool,
        down_ms: i64,
    },
    RebootCoordinator {
        keep: bool,
        down_ms: i64,
    },
    /// The one that does not lead dies.
    CrashStandby {
        down_ms: i64,
    },
    /// The other one leads, and the old leader does not hear of it for a while.
    Replace {
        both_ms: i64,
        /// By how much the old one's clock is ahead meanwhile.
        error_ms: i64,
    },
    HandOver,
    StallCoordinator {
        ms: i64,
    },
    SlowDisk {
        commit_ms: i64,
        ms: i64,
    },
    WithholdQuorum {
        ms: i64,
    },
    StepClock {
        by_ms: i64,
        back_after_ms: Option<i64>,
    },
    /// That of the coordinator that does not lead, or of the witness.
    StepOtherClock {
        witness: bool,
        by_ms: i64,
        back_after_ms: i64,
    },
    KillAgent {
        host: usize,
        down_ms: i64,
    },
    TermAgent {
        host: usize,
        down_ms: i64,
    },
    KillSupervisor {
        host: usize,
        down_ms: i64,
    },
    TermSupervisor {
        host: usize,
    },
    KillBoth {
        host: usize,
        down_ms: i64,
    },
    StopAgent {
        host: usize,
        ms: i64,
    },
    StopSupervisor {
        host: usize,
        ms: i64,
    },
    StallHost {
        host: usize,
        ms: i64,
    },
    CutPower {
        host: usize,
        down_ms: i64,
    },
    FillDisk {
        host: usize,
        ms: i64,
    },
    CutNetwork {
        host: usize,
        /// From this coordinator's machine; from all where none is named.
        machine: Option<usize>,
        up: bool,
        down: bool,
        ms: i64,
    },
    CutAll {
        ms: i64,
    },
    SlowNetwork {
        host: usize,
        longest_ms: i64,
        ms: i64,
    },
    BreakConnections {
        host: usize,
    },
    ChangePath {
        host: usize,
    },
    /// A machine made from a copy of this host's disk, for a while.
    CloneHost {
        host: usize,
        ms: i64,
    },
    /// A person revokes this host, and puts another in its place.
    RevokeHost {
        host: usize,
    },
    /// An operator takes this host out of service.
    Cordon {
        host: usize,
        cordon: Cordon,
    },
    Uncordon {
        host: usize,
    },
    /// Its agent finds that this host fares so.
    LookAt {
        host: usize,
        health: Health,
        rebuilding: bool,
    },
    /// Its agent finds that this host is so busy.
    Load {
        host: usize,
        load: HostLoad,
    },
    /// Parts of this host have come, gone or changed.
    Refit {
        host: usize,
        facts: HostFacts,
    },
    /// How much there is of what shards share.
    SetResource {
        capacity: u32,
    },
    Put {
        job: Job,
    },
    Delete {
        job: String,
    },
    Pause {
        job: String,
    },
    Resume {
        job: String,
    },
    Run {
        job: String,
        instant: Option<WallMs>,
        /// Name and value of a parameter, which the job may know or not.
        given: Option<(&'static str, &'static str)>,
    },
    Rerun {
        run_id: RunId,
        scope: RerunScope,
    },
    Redo {
        run_id: RunId,
        force: bool,
    },
    Cancel {
        run_id: RunId,
    },
    Confirm {
        run_id: RunId,
        verdict: Verdict,
    },
    Wait,
}

impl World {
    pub fn happen(&mut self, transition: Transition) {
        self.note(|_| format!("*** {transition:?}"));
        match transition {
            Transition::CrashCoordinator { keep, down_ms } => {
                let machine = self.front_machine;
                self.crash_leader(self.front, keep);
                self.later(down_ms, Recovery::StartCoordinator(machine));
            }
            Transition::CrashStandby { down_ms } => {
                let machine = self.other_machine();
                let process = self.process_on(machine);
                if let Some(process) = process.filter(|&process| process != self.front) {
                    self.crash_leader(process, false);
                    self.later(down_ms, Recovery::StartCoordinator(machine));
                }
            }
            Transition::RebootCoordinator { keep, down_ms } => {
                let machine = self.front_machine;
                self.reboot_control(machine, keep);
                self.later(down_ms, Recovery::StartCoordinator(machine));
            }
            Transition::Replace { both_ms, error_ms } => {
                let old = self.front;
                if self.replace() {
                    self.later(both_ms, Recovery::Tell(old));
                    let machine = self.coordinators[&old].machine;
                    let now = self.now;
                    self.controls[machine].set_clock(now, error_ms);
                    self.later(both_ms, Recovery::SetClockRight);
                }
            }
            Transition::HandOver => self.hand_over(),
            Transition::StallCoordinator { ms } => {
                self.stop_leader(self.front);
                self.later(ms, Recovery::ResumeLeader(self.front));
            }
            Transition::SlowDisk { commit_ms, ms } => {
                self.commit_ms = (commit_ms / 2, commit_ms);
                self.later(ms, Recovery::FastDisk);
            }
            Transition::WithholdQuorum { ms } => {
                self.set_quorum(self.front, false);
                self.later(ms, Recovery::Quorum(self.front));
            }
            Transition::StepClock {
                by_ms,
                back_after_ms,
            } => {
                self.step_clock(by_ms);
                if let Some(after) = back_after_ms {
                    self.later(after, Recovery::SetClockRight);
                }
            }
            Transition::StepOtherClock {
                witness,
                by_ms,
                back_after_ms,
            } => {
                if self.is_pair() {
                    self.step_other_clock(witness, by_ms);
                    self.later(back_after_ms, Recovery::SetClockRight);
                }
            }
            Transition::CutAll { ms } => {
                for host in 0..self.hosts.len() {
                    self.cut(host, true, true);
                    self.later(ms, Recovery::Heal(host));
                }
            }
            Transition::Put { .. }
            | Transition::Delete { .. }
            | Transition::Pause { .. }
            | Transition::Resume { .. }
            | Transition::Run { .. }
            | Transition::Rerun { .. }
            | Transition::Redo { .. }
            | Transition::Cancel { .. }
            | Transition::Confirm { .. } => self.somebody_asks(transition),
            Transition::Wait => {}
            other => self.befall_host(other),
        }
    }

    fn befall_host(&mut self, transition: Transition) {
        match transition {
            Transition::KillAgent { host, down_ms } => {
                self.kill_agent(host);
                self.later(down_ms, Recovery::StartAgent(host));
            }
            Transition::TermAgent { host, down_ms } => {
                self.ask_agent_to_stop(host);
                self.later(down_ms, Recovery::StartAgent(host));
            }
            Transition::KillSupervisor { host, down_ms } => {
                self.kill_supervisor(host);
                self.later(down_ms, Recovery::StartSupervisor(host));
            }
            Transition::TermSupervisor { host } => self.ask_supervisor_to_stop(host),
            Transition::KillBoth { host, down_ms } => {
                self.kill_agent(host);
                self.kill_supervisor(host);
                self.later(down_ms, Recovery::StartSupervisor(host));
                self.later(down_ms, Recovery::StartAgent(host));
            }
            Transition::StopAgent { host, ms } => {
                self.stop_agent(host);
                self.later(ms, Recovery::ResumeAgent(host));
            }
            Transition::StopSupervisor { host, ms } => {
                self.stop_supervisor(host);
                self.later(ms, Recovery::ResumeSupervisor(host));
            }
            Transition::StallHost { host, ms } => {
                self.stall_host(host);
                self.later(ms, Recovery::ResumeHost(host));
            }
            Transition::CutPower { host, down_ms } => {
                self.cut_power(host);
                self.later(down_ms, Recovery::Boot(host));
            }
            Transition::FillDisk { host, ms } => {
                self.hosts[host].disk_full = true;
                self.later(ms, Recovery::FreeDisk(host));
            }
            Transition::CutNetwork {
                host,
                machine,
                up,
                down,
                ms,
            } => {
                match machine {
                    Some(machine) => self.cut_from(host, machine, up, down),
                    None => self.cut(host, up, down),
                }
                self.later(ms, Recovery::Heal(host));
            }
            Transition::SlowNetwork {
                host,
                longest_ms,
                ms,
            } => {
                self.hosts[host].set_delay((1, longest_ms));
                self.later(ms, Recovery::FastNetwork(host));
            }
            Transition::BreakConnections { host } => {
                for id in self.connections_of(host).collect::<Vec<_>>() {
                    self.break_connection(id);
                }
            }
            Transition::ChangePath { host } => self.change_path(host),
            Transition::CloneHost { host, ms } => {
                let (name, slots) = (self.hosts[host].identity.clone(), self.hosts[host].slots);
                let clone = self.add_host_named(name, slots);
                let facts = self.hosts[host].facts.clone();
                self.hosts[clone].facts = facts;
                self.find_profile(clone);
                self.later(ms, Recovery::ScrapHost(clone));
            }
            Transition::RevokeHost { host } => {
                let (name, slots) = (self.hosts[host].identity.clone(), self.hosts[host].slots);
                self.request(people::revoke(name));
                self.add_host(slots);
            }
            Transition::Cordon { host, cordon } => {
                let name = self.hosts[host].identity.clone();
                self.request(people::cordon(&name, cordon));
            }
            Transition::Uncordon { host } => {
                let name = self.hosts[host].identity.clone();
                self.request(people::uncordon(&name));
            }
            Transition::LookAt {
                host,
                health,
                rebuilding,
            } => self.look_at_host(host, health, rebuilding),
            Transition::Load { host, load } => self.load_host(host, Some(load)),
            Transition::Refit { host, facts } => self.set_facts(host, facts),
            Transition::SetResource { capacity } => {
                self.request(people::put_resource("db", capacity));
            }
            other => unreachable!("{other:?} befalls no host"),
        }
    }

    fn somebody_asks(&mut self, transition: Transition) {
        let request = match transition {
            Transition::Put { job } => people::put(&job),
            Transition::Delete { job } => people::delete(&job),
            Transition::Pause { job } => people::pause(&job),
            Transition::Resume { job } => people::resume(&job),
            Transition::Run {
                job,
                instant,
                given,
            } => people::run_for(&job, instant, given.as_slice()),
            Transition::Rerun { run_id, scope } => people::rerun_of(run_id, scope),
            Transition::Redo { run_id, force } => people::redo(run_id, force),
            Transition::Cancel { run_id } => people::cancel(run_id),
            Transition::Confirm { run_id, verdict } => people::confirm(run_id, verdict),
            other => unreachable!("{other:?} is nothing to ask for"),
        };
        self.request(request);
    }

    pub fn step_clock(&mut self, by_ms: i64) {
        self.note(|_| format!("coordinator's clock is set by {by_ms} ms"));
        let (now, machine) = (self.now, self.front_machine);
        self.controls[machine].set_clock(now, by_ms);
    }

    /// The clock of the one that does not lead is set, or of the witness.
    pub fn step_other_clock(&mut self, witness: bool, by_ms: i64) {
        self.note(|_| format!("another clock is set by {by_ms} ms; the witness's: {witness}"));
        let (now, other) = (self.now, self.other_machine());
        let machine = if witness {
            &mut self.witness
        } else {
            &mut self.controls[other]
        };
        machine.set_clock(now, by_ms);
    }

    fn later(&mut self, ms: i64, recovery: Recovery) {
        self.after(ms, Event::Recover(recovery));
    }
}
