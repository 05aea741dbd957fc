//! Everything that can happen to a world, as one enum, and how it is drawn.

use ledger::RunState;
use ledger::command::Verdict;
use protocol::{RunId, WallMs};

use crate::world::people::{self, Job, Misfire};
use crate::world::{Event, World};

/// One thing that happens. Whatever lasts ends by a [`Recovery`] that is put on its way at once.
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
    /// The coordinator is started again while the old process lives on for a while.
    RestartBesideOld {
        both_ms: i64,
    },
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
    Put {
        job: Job,
    },
    Delete {
        job: String,
    },
    Run {
        job: String,
        instant: Option<WallMs>,
    },
    Rerun {
        run_id: RunId,
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

/// The end of something that lasts.
#[derive(Clone, Debug)]
pub enum Recovery {
    StartLeader,
    EndOldLeader(u64),
    ResumeLeader(u64),
    FastDisk,
    Quorum(u64),
    StepBack(i64),
    StartAgent(usize),
    StartSupervisor(usize),
    ResumeAgent(usize),
    ResumeSupervisor(usize),
    ResumeHost(usize),
    Boot(usize),
    FreeDisk(usize),
    Heal(usize),
    FastNetwork(usize),
}

impl World {
    pub fn happen(&mut self, transition: Transition) {
        self.note(|_| format!("*** {transition:?}"));
        match transition {
            Transition::CrashCoordinator { keep, down_ms } => {
                self.crash_leader(self.front, keep);
                self.later(down_ms, Recovery::StartLeader);
            }
            Transition::RebootCoordinator { keep, down_ms } => {
                self.reboot_coordinator(keep);
                self.later(down_ms, Recovery::StartLeader);
            }
            Transition::RestartBesideOld { both_ms } => {
                let old = self.front;
                if self.leaders.contains_key(&old) {
                    self.start_leader();
                    self.later(both_ms, Recovery::EndOldLeader(old));
                }
            }
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
                    self.later(after, Recovery::StepBack(by_ms));
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
            | Transition::Run { .. }
            | Transition::Rerun { .. }
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
            Transition::CutNetwork { host, up, down, ms } => {
                self.cut(host, up, down);
                self.later(ms, Recovery::Heal(host));
            }
            Transition::SlowNetwork {
                host,
                longest_ms,
                ms,
            } => {
                self.hosts[host].link.delay_ms = (1, longest_ms);
                self.later(ms, Recovery::FastNetwork(host));
            }
            Transition::BreakConnections { host } => {
                for id in self.connections_of(host).collect::<Vec<_>>() {
                    self.break_connection(id);
                }
            }
            Transition::ChangePath { host } => self.change_path(host),
            other => unreachable!("{other:?} befalls no host"),
        }
    }

    fn somebody_asks(&mut self, transition: Transition) {
        let request = match transition {
            Transition::Put { job } => people::put(&job),
            Transition::Delete { job } => people::delete(&job),
            Transition::Run { job, instant } => people::run(&job, instant),
            Transition::Rerun { run_id } => people::rerun(run_id),
            Transition::Cancel { run_id } => people::cancel(run_id),
            Transition::Confirm { run_id, verdict } => people::confirm(run_id, verdict),
            other => unreachable!("{other:?} is nothing to ask for"),
        };
        self.request(request);
    }

    pub fn step_clock(&mut self, by_ms: i64) {
        self.note(|_| format!("coordinator's clock is set by {by_ms} ms"));
        self.coordinator_clock.step(self.now, by_ms);
    }

    fn later(&mut self, ms: i64, recovery: Recovery) {
        self.after(ms, Event::Recover(recovery));
    }

    pub fn recover(&mut self, recovery: Recovery) {
        match recovery {
            Recovery::StartLeader => {
                if !self.leaders.contains_key(&self.front) {
                    self.start_leader();
                }
            }
            Recovery::EndOldLeader(old) => self.crash_leader(old, false),
            Recovery::ResumeLeader(leader) => self.resume_leader(leader),
            Recovery::FastDisk => self.commit_ms = (1, 8),
            Recovery::Quorum(leader) => self.set_quorum(leader, true),
            Recovery::StepBack(by) => self.step_clock(-by),
            Recovery::StartAgent(host) => self.start_agent(host),
            Recovery::StartSupervisor(host) => self.start_supervisor(host),
            Recovery::ResumeAgent(host) => self.resume_agent(host),
            Recovery::ResumeSupervisor(host) => self.resume_supervisor(host),
            Recovery::ResumeHost(host) => self.resume_host(host),
            Recovery::Boot(host) => self.boot(host),
            Recovery::FreeDisk(host) => self.hosts[host].disk_full = false,
            Recovery::Heal(host) => self.heal(host),
            Recovery::FastNetwork(host) => self.hosts[host].link.delay_ms = (1, 4),
        }
    }

    /// Everything is whole again, at once.
    pub fn heal_everything(&mut self) {
        self.note(|_| "*** everything is healed".to_owned());
        self.commit_ms = (1, 8);
        let error = self.coordinator_clock.wall_error(self.now);
        if error.abs() > 500 {
            self.step_clock(-error);
        }
        for leader in self.leaders.keys().copied().collect::<Vec<_>>() {
            if leader == self.front {
                self.resume_if_stopped(leader);
                self.set_quorum(leader, true);
            } else {
                self.crash_leader(leader, false);
            }
        }
        self.recover(Recovery::StartLeader);
        for host in 0..self.hosts.len() {
            self.heal(host);
            self.hosts[host].disk_full = false;
            self.hosts[host].link.delay_ms = (1, 4);
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
        }
    }

    fn resume_if_stopped(&mut self, leader: u64) {
        if self
            .leaders
            .get(&leader)
            .is_some_and(|leader| leader.stopped)
        {
            self.resume_leader(leader);
        }
    }
}

/// Draws what happens next.
pub fn draw(world: &mut World) -> Transition {
    match world.rng.between(0, 99) {
        0..=17 => Transition::Wait,
        18..=35 => draw_for_coordinator(world),
        36..=76 => draw_for_host(world),
        77..=86 => draw_for_job(world),
        _ => draw_for_run(world),
    }
}

fn draw_for_coordinator(world: &mut World) -> Transition {
    let rng = &mut world.rng;
    match rng.between(0, 10) {
        10 => Transition::RebootCoordinator {
            keep: rng.one_in(2),
            down_ms: rng.span(5_000, 1_200_000),
        },
        0..=2 => Transition::CrashCoordinator {
            keep: rng.one_in(2),
            down_ms: rng.span(50, 180_000),
        },
        3 => Transition::RestartBesideOld {
            both_ms: rng.span(100, 90_000),
        },
        4 => Transition::StallCoordinator {
            ms: rng.span(300, 90_000),
        },
        5 => Transition::SlowDisk {
            commit_ms: rng.span(50, 15_000),
            ms: rng.span(1_000, 60_000),
        },
        6 => Transition::WithholdQuorum {
            ms: rng.span(100, 90_000),
        },
        7 => Transition::StepClock {
            by_ms: rng.pick(&[-300, 300, 900, -900]),
            back_after_ms: None,
        },
        _ => Transition::StepClock {
            by_ms: {
                let by = rng.span(2_001, 3 * 3_600_000);
                if rng.one_in(2) { by } else { -by }
            },
            back_after_ms: (!rng.one_in(4)).then(|| rng.span(500, 50_000)),
        },
    }
}

fn draw_for_host(world: &mut World) -> Transition {
    let host = world.rng.index(world.hosts.len());
    let rng = &mut world.rng;
    match rng.between(0, 17) {
        0 => Transition::KillAgent {
            host,
            down_ms: rng.span(100, 60_000),
        },
        1 => Transition::TermAgent {
            host,
            down_ms: rng.span(100, 60_000),
        },
        2 => Transition::KillSupervisor {
            host,
            down_ms: rng.span(200, 5_000),
        },
        3 => Transition::TermSupervisor { host },
        4 => Transition::KillBoth {
            host,
            down_ms: rng.span(200, 10_000),
        },
        5 => Transition::StopAgent {
            host,
            ms: rng.span(100, 180_000),
        },
        6 => Transition::StopSupervisor {
            host,
            ms: rng.span(100, 120_000),
        },
        7 | 8 => Transition::StallHost {
            host,
            ms: rng.span(100, 180_000),
        },
        9 => Transition::CutPower {
            host,
            down_ms: rng.span(1_000, 1_200_000),
        },
        10 => Transition::FillDisk {
            host,
            ms: rng.span(1_000, 30_000),
        },
        11 | 12 => {
            let (up, down) = rng.pick(&[(true, true), (true, false), (false, true)]);
            Transition::CutNetwork {
                host,
                up,
                down,
                ms: rng.span(200, 1_200_000),
            }
        }
        13 => Transition::CutAll {
            ms: rng.span(200, 60_000),
        },
        14 => Transition::SlowNetwork {
            host,
            longest_ms: rng.span(20, 8_000),
            ms: rng.span(1_000, 60_000),
        },
        15 | 16 => Transition::BreakConnections { host },
        _ => Transition::ChangePath { host },
    }
}

fn draw_for_job(world: &mut World) -> Transition {
    let names: Vec<String> = world
        .truth
        .set
        .jobs
        .values()
        .map(|job| job.name.to_string())
        .collect();
    let Some(name) = (!names.is_empty()).then(|| names[world.rng.index(names.len())].clone())
    else {
        return Transition::Put {
            job: any_job(world),
        };
    };
    match world.rng.between(0, 9) {
        0..=3 => {
            let mut job = any_job(world);
            job.name = name;
            Transition::Put { job }
        }
        4 => {
            let mut job = any_job(world);
            job.renamed_from = (job.name != name).then_some(name);
            Transition::Put { job }
        }
        5 => Transition::Delete { job: name },
        6 if names.len() < 5 => Transition::Put {
            job: any_job(world),
        },
        _ => Transition::Run {
            instant: any_instant(world, &name),
            job: name,
        },
    }
}

fn draw_for_run(world: &mut World) -> Transition {
    let waits: Vec<RunId> = world
        .truth
        .set
        .runs
        .values()
        .filter(|run| run.state == RunState::NeedsConfirmation)
        .map(|run| run.run_id)
        .collect();
    if !waits.is_empty() && !world.rng.one_in(3) {
        let run_id = waits[world.rng.index(waits.len())];
        let verdict = world
            .rng
            .pick(&[Verdict::Retry, Verdict::Succeeded, Verdict::Failed]);
        return Transition::Confirm { run_id, verdict };
    }
    let known = world.truth.runs.len();
    if known == 0 {
        return Transition::Wait;
    }
    // Mostly a run that is still open, sometimes any.
    let open: Vec<RunId> = world.truth.set.runs.keys().copied().collect();
    let run_id = if open.is_empty() || world.rng.one_in(3) {
        RunId(world.rng.between(1, known as i64))
    } else {
        open[world.rng.index(open.len())]
    };
    if world.rng.one_in(2) {
        Transition::Cancel { run_id }
    } else {
        Transition::Rerun { run_id }
    }
}

/// An instant that may be past, future, settled or not, or none.
fn any_instant(world: &mut World, job: &str) -> Option<WallMs> {
    if world.rng.one_in(2) {
        return None;
    }
    let minute = world.coordinator_now().wall.0 / 60_000;
    let wall = WallMs((minute + world.rng.between(-20, 3)) * 60_000);
    let _ = job;
    Some(wall)
}

/// A job of the kind that finds faults: often due, several shards, short and long leases.
pub fn any_job(world: &mut World) -> Job {
    let rng = &mut world.rng;
    let letters = ["a", "b", "c", "d", "e", "f", "g"];
    let name = format!("sim/{}", letters[rng.index(letters.len())]);
    let cron = match rng.between(0, 7) {
        0..=2 => "* * * * *".to_owned(),
        3 => "*/2 * * * *".to_owned(),
        4 => format!("{},{} * * * *", rng.between(0, 29), rng.between(30, 59)),
        5 => format!("@every {}s", rng.between(5, 40)),
        6 => format!("@every {}s", rng.between(41, 400)),
        _ => "*/5 * * * *".to_owned(),
    };
    Job {
        name,
        renamed_from: None,
        cron,
        timezone: rng.pick(&["Etc/UTC", "Asia/Shanghai"]).to_owned(),
        safe: !rng.one_in(3),
        shards: rng.pick(&[1, 1, 2, 3, 5]),
        overlap: rng.pick(&["forbid", "queue"]),
        misfire: match rng.between(0, 2) {
            0 => Misfire::RunNow,
            1 => Misfire::Skip,
            _ => Misfire::Within(rng.between(60, 1_200) as u32),
        },
        late_after_s: rng.pick(&[1, 15, 60]),
        retries: rng.between(0, 3) as u32,
        backoff_s: vec![rng.between(1, 5) as u32, rng.between(5, 40) as u32],
        timeout_s: rng.pick(&[20, 60, 300]),
        takeover_s: rng.pick(&[15, 15, 60, 60, 600]),
        start_deadline_s: rng.one_in(4).then(|| rng.between(5, 600) as u32),
        purpose: format!("drawn {}", rng.between(0, 3)),
    }
}
