//! Commands for a state: mostly such as fit it, often such as nearly do, sometimes absurd ones.

use std::collections::BTreeSet;

use ledger::command::{
    Admit, AlertKind, AttachAgent, BecomeActive, CancelRun, ChangeGroup, ClearAlert, Confirm,
    ControlMachine, CordonAgent, CreateJoinToken, CreateToken, Decision, DeleteJob, DeleteResource,
    EndSession, Enrol, Expire, Finish, Fire, GapReason, Grant, GroupChange, ManualRun, MarkStarted,
    NoteBackup, NoteHealth, On, Over, PauseJob, PutJob, PutResource, Quarantine, RaiseAlert, Redo,
    RegisterHost, ReleaseGrants, Remind, RenewAgent, Rerun, RerunScope, Restore, ResumeJob,
    RevokeAgent, RevokeJoinToken, RevokeToken, SettleAlerts, Settlement, SkipWaiting,
    UncordonAgent, Unplaceable, Verdict,
};
use ledger::{Command, Cordon, Proposal, RunState, ShardState, WorkingSet};
use proptest::prelude::*;
use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit, Trigger};
use protocol::host::{Difference, ProfileDigest, Turn, Value};
use protocol::message::Incarnation;
use protocol::{
    AgentId, AlertId, ApiRole, BootMs, DurationMs, Epoch, Health, HostFacts, JobId, JoinTokenId,
    Reach, Role, RunId, SessionId, Token, WallMs,
};

use crate::{MINUTE, manifest};

/// Where a command takes its choices from; read in order, over and over.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    bytes: Vec<u8>,
    next: usize,
}

pub(crate) fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u8>(), 24).prop_map(|bytes| Choices { bytes, next: 0 })
}

impl Choices {
    fn byte(&mut self) -> u8 {
        let byte = self.bytes[self.next % self.bytes.len()];
        self.next += 1;
        byte
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// One of `known`, or now and then, and where there is none, a number out of nowhere.
    fn id(&mut self, known: impl IntoIterator<Item = i64>) -> i64 {
        let known: Vec<i64> = known.into_iter().collect();
        if known.is_empty() || self.one_in(16) {
            self.pick(&[0, -1, 1, 7, i64::MAX, i64::MIN])
        } else {
            self.pick(&known)
        }
    }

    fn time(&mut self, near: WallMs) -> WallMs {
        if self.one_in(16) {
            return WallMs(self.pick(&[i64::MIN, -1, 0, i64::MAX]));
        }
        let minutes = self.below(9) as i64 - 2;
        WallMs(near.0.saturating_add(minutes * MINUTE))
    }

    fn text(&mut self) -> String {
        self.pick(&[
            "",
            "why not",
            "ä\u{0}'\"; DROP TABLE runs; --",
            "\u{10ffff}",
        ])
        .repeat(if self.one_in(32) { 3000 } else { 1 })
    }
}

/// What is known outside the working set: tokens that were ever granted, runs that ever were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    pub(crate) tokens: Vec<Token>,
    pub(crate) runs: BTreeSet<RunId>,
}

/// The next proposal for a ledger in this state.
pub(crate) fn proposal(choices: &mut Choices, set: &WorkingSet, past: &Past) -> Proposal {
    let epoch = match choices.below(8) {
        0 => Some(Epoch(choices.id([]))),
        1..4 => set.epoch,
        _ => None,
    };
    Proposal {
        epoch,
        at: choices.time(WallMs(100 * MINUTE)),
        source: choices.one_in(4).then(|| choices.text().into()),
        command: command(choices, set, past),
    }
}

fn command(c: &mut Choices, set: &WorkingSet, past: &Past) -> Command {
    match c.below(34) {
        33 if c.one_in(4) => restore(c),
        33 if c.one_in(4) => Command::NoteBackup(NoteBackup {
            node: c.text(),
            every: DurationMs(i64::MAX),
            file: c.text(),
            bytes: u64::MAX,
            problem: c.one_in(2).then(|| c.text()),
        }),
        33 if c.one_in(2) => Command::ReleaseGrants(ReleaseGrants {}),
        33 => Command::ChangeGroup(change_group(c)),
        32 => about_tokens(c),
        0 => Command::BecomeActive(BecomeActive {
            node: c.text(),
            incarnation: Incarnation(u64::MAX),
            boot_id: c.text(),
            boot: BootMs(i64::MAX),
            tzdata: c.text(),
            looked_at: c.one_in(2).then_some(7),
        }),
        1..4 => Command::PutJob(Box::new(put_job(c, set))),
        4 if c.one_in(2) => pause_or_resume(c, set),
        4 => {
            let job_id = job(c, set);
            Command::DeleteJob(DeleteJob {
                job_id,
                cut_over: through(c, set, job_id),
                settle: settlement(c, set, job_id),
                by: c.text(),
            })
        }
        5..9 => Command::Fire(fire(c, set)),
        9 => Command::Admit(Admit {
            run_id: open_run(c, set, RunState::Waiting),
        }),
        10 if c.one_in(2) => Command::Remind(Remind {
            run_id: open_run(c, set, RunState::NeedsConfirmation),
        }),
        10 => Command::SkipWaiting(SkipWaiting {
            run_id: run(c, set, past),
        }),
        11 => {
            let (run_id, shard) = shard(c, set, past);
            let report = c.text();
            Command::Unplaceable(Unplaceable {
                run_id,
                shard,
                report,
            })
        }
        12..18 => {
            let (run_id, shard) = shard(c, set, past);
            let session = session(c, set);
            Command::Grant(Grant {
                run_id,
                shard,
                session,
                uses: if !set.resources.is_empty() && c.one_in(3) {
                    vec![("db".parse().unwrap(), 2)]
                } else {
                    Vec::new()
                },
            })
        }
        18 => {
            let (agent_id, token) = lease(c, set, past);
            let at = c.time(WallMs(0));
            Command::MarkStarted(MarkStarted {
                agent_id,
                token,
                at,
            })
        }
        19..22 => Command::Finish(finish(c, set, past)),
        22 => {
            let (run_id, shard) = shard(c, set, past);
            let (_, token) = lease(c, set, past);
            let reason = c.text();
            Command::Expire(Expire {
                run_id,
                shard,
                token,
                reason,
            })
        }
        23 | 24 => Command::AttachAgent(attach(c, set, past)),
        25 => Command::EndSession(EndSession {
            session: session(c, set),
        }),
        26 => odd_jobs(c, set, past),
        27 => {
            let job_id = job(c, set);
            Command::ManualRun(ManualRun {
                job_id,
                version: set.jobs.get(&job_id).map_or(1, |job| job.version),
                instant: c.one_in(2).then(|| through(c, set, job_id)),
                nominal: vec![c.text()],
                start_deadline: Some(DurationMs(c.id([]))),
                params: [(c.text(), c.text())].into(),
                by: c.text(),
                reason: c.text(),
            })
        }
        28 => {
            let (run_id, shard) = shard(c, set, past);
            let scope = c.pick(&[
                RerunScope::Run,
                RerunScope::Failed,
                RerunScope::Shard(shard),
            ]);
            let (by, reason) = (c.text(), c.text());
            if c.one_in(3) {
                let force = c.one_in(2);
                return Command::Redo(Redo {
                    run_id,
                    by,
                    reason,
                    force,
                });
            }
            Command::Rerun(Rerun {
                run_id,
                scope,
                by,
                reason,
            })
        }
        29 => Command::CancelRun(CancelRun {
            run_id: run(c, set, past),
            by: c.text(),
            reason: c.text(),
        }),
        _ => {
            let (run_id, shard) = shard(c, set, past);
            Command::Confirm(Confirm {
                run_id,
                shard: c.pick(&[None, Some(shard)]),
                verdict: c.pick(&[Verdict::Succeeded, Verdict::Retry, Verdict::Failed]),
                by: c.text(),
                reason: c.text(),
            })
        }
    }
}

/// A run in this state, where there is one.
fn open_run(c: &mut Choices, set: &WorkingSet, state: RunState) -> RunId {
    let runs = set.runs.values().filter(|run| run.state == state);
    RunId(c.id(runs.map(|run| run.run_id.0)))
}

fn pause_or_resume(c: &mut Choices, set: &WorkingSet) -> Command {
    let job_id = job(c, set);
    if c.one_in(2) {
        let (by, reason) = (c.text(), c.text());
        return Command::PauseJob(PauseJob { job_id, by, reason });
    }
    Command::ResumeJob(ResumeJob {
        job_id,
        cut_over: through(c, set, job_id),
        settle: settlement(c, set, job_id),
        by: c.text(),
    })
}

fn about_tokens(c: &mut Choices) -> Command {
    let name = c.pick(&["ci", "ops"]).parse().unwrap();
    let (by, reason) = (c.text(), c.text());
    let digest = |c: &mut Choices| c.pick(&["0", "1", "1", "x"]).repeat(64);
    let role = |c: &mut Choices| c.pick(&[Role::Agent, Role::Agent, Role::Witness]);
    match c.pick(&[0, 1, 1, 2, 2, 3, 4, 4, 4, 4, 4, 5]) {
        0 => Command::CreateToken(CreateToken {
            name,
            secret: digest(c),
            role: c.pick(ApiRole::ALL),
            reach: Reach::ALL,
            expires_at: c.one_in(2).then(|| c.time(WallMs(0))),
            by,
        }),
        1 => Command::RevokeToken(RevokeToken { name, by, reason }),
        2 => Command::CreateJoinToken(CreateJoinToken {
            secret: digest(c),
            role: role(c),
            name_prefix: c.pick(&["h", ""]).to_owned(),
            uses: c.pick(&[0, 1, 3]),
            expires_at: c.time(WallMs(500 * MINUTE)),
            by,
        }),
        3 => {
            let id = JoinTokenId(c.pick(&[1, 2]));
            Command::RevokeJoinToken(RevokeJoinToken { id, by, reason })
        }
        4 => Command::Enrol(Enrol {
            secret: digest(c),
            role: role(c),
            name: c.pick(&["new-1", "h-2"]).parse().unwrap(),
            key: digest(c),
            above: c.pick(&[1, 7, u64::MAX]),
            good_until: c.time(WallMs(900 * MINUTE)),
        }),
        _ => Command::RenewAgent(RenewAgent {
            name: c.pick(&["h1", "new-1"]).parse().unwrap(),
            key: digest(c),
            good_until: c.time(WallMs(900 * MINUTE)),
        }),
    }
}

fn change_group(c: &mut Choices) -> ChangeGroup {
    let node = c.pick(&[1, 2, 2, 3, 0, i64::MAX.cast_unsigned(), u64::MAX]);
    let machine = ControlMachine {
        node,
        name: c.text(),
        store: c.pick(&["aa", "aa", "bb", ""]).to_owned(),
    };
    ChangeGroup {
        change: match c.below(5) {
            0 | 1 => GroupChange::Add(machine),
            2 => GroupChange::Remove(machine),
            3 => GroupChange::HandOver { to: Some(node) },
            _ => GroupChange::HandOver { to: None },
        },
        by: c.text(),
    }
}

fn odd_jobs(c: &mut Choices, set: &WorkingSet, past: &Past) -> Command {
    if c.one_in(2) {
        let name = c.pick(&["h1", "h2", "h3", "h8"]).parse().unwrap();
        let (by, reason) = (c.text(), c.text());
        let cordon = c.pick(&[Cordon::Cordoned, Cordon::Draining, Cordon::DrainingNow]);
        let skipped = usize::from(c.byte()) % set.resources.len().max(1);
        let known = set.resources.keys().nth(skipped).cloned();
        return match c.byte() % 14 {
            11 | 12 => Command::RegisterHost(Box::new(register(c, set))),
            5 | 6 => Command::PutResource(PutResource {
                name: c.pick(&["db", "spare"]).parse().unwrap(),
                capacity: c.pick(&[2, 3, 5, 0]),
                by,
            }),
            7..=10 => Command::DeleteResource(DeleteResource {
                name: known.unwrap_or_else(|| "db".parse().unwrap()),
                by,
            }),
            0 => Command::Quarantine(Quarantine { name, reason }),
            1 => Command::RevokeAgent(RevokeAgent { name, by, reason }),
            2 => Command::NoteHealth(NoteHealth {
                name,
                health: c.pick(&Health::ALL),
                act: c.one_in(2),
                reason,
            }),
            3 => Command::UncordonAgent(UncordonAgent {
                name,
                by,
                health: c.one_in(2).then(|| c.pick(&Health::ALL)),
            }),
            _ => Command::CordonAgent(CordonAgent {
                name,
                cordon,
                by,
                reason,
            }),
        };
    }
    let kind = c.pick(&[
        AlertKind::FlappingLeader,
        AlertKind::OverlapSkipped,
        AlertKind::CommandRefused,
        AlertKind::HostChanged,
    ]);
    let on = on(c, set, past);
    match c.below(6) {
        0 => Command::ClearAlert(ClearAlert {
            alert_id: AlertId(c.id(1..5)),
            by: c.text(),
            reason: c.text(),
        }),
        1 => Command::SettleAlerts(SettleAlerts {
            kind,
            over: Over::These(vec![on]),
        }),
        2 => Command::SettleAlerts(SettleAlerts {
            kind,
            over: Over::AllBut(vec![on]),
        }),
        _ => Command::RaiseAlert(RaiseAlert {
            kind,
            on,
            text: c.text(),
        }),
    }
}

/// Mostly of a host that is there, and against the profile that it has.
fn register(c: &mut Choices, set: &WorkingSet) -> RegisterHost {
    let known = set.agents.values().nth(c.below(3));
    let generation = known.and_then(|agent| agent.profile.map(|profile| profile.generation));
    let mut facts = HostFacts::default();
    facts.know("cpu.cores", Value::Number(c.pick(&[4, i64::MIN])));
    facts.know("host.kernel", Value::Text(c.text()));
    let turn = c.pick(&[Turn::Vanished, Turn::Worse, Turn::Better, Turn::Came]);
    let difference = Difference {
        turn,
        about: c.pick(&["drive a", "drive b"]).to_owned(),
        before: c.one_in(2).then(|| c.text()),
        after: None,
    };
    RegisterHost {
        name: known.map_or_else(|| "h9".parse().unwrap(), |agent| agent.name.clone()),
        against: c.pick(&[
            generation.unwrap_or(0),
            generation.unwrap_or(0),
            7,
            u32::MAX,
        ]),
        digest: ProfileDigest([c.byte(); 16]),
        facts,
        report: c.text(),
        differences: vec![difference; c.pick(&[0, 1, 1, 40, 65])],
    }
}

fn on(c: &mut Choices, set: &WorkingSet, past: &Past) -> On {
    match c.below(4) {
        0 => On::All,
        1 => On::Job(job(c, set)),
        2 => On::Run(job(c, set), run(c, set, past)),
        _ => On::Agent(AgentId(c.id([1, 2]))),
    }
}

fn put_job(c: &mut Choices, set: &WorkingSet) -> PutJob {
    const NAMES: [&str; 4] = ["t/a", "t/b", "t/c", "t/d"];
    let name = c.pick(&NAMES);
    let overlap = c.pick(&["forbid", "queue"]);
    let mut manifest = manifest(name, 1 + c.below(3) as u32, overlap, c.one_in(2));
    if c.one_in(4) {
        manifest.renamed_from = Some(c.pick(&NAMES).parse().unwrap());
    }
    if c.one_in(16) {
        manifest.shards = jobs::Shards::Fixed(c.pick(&[0, u32::MAX]));
    }
    if !set.resources.is_empty() && c.one_in(3) {
        manifest.needs.uses.insert("db".parse().unwrap(), 2);
    }
    let known = |name: &str| set.jobs.values().find(|job| job.name.as_str() == name);
    let before = manifest
        .renamed_from
        .as_ref()
        .and_then(|old| known(old.as_str()));
    let job_id = known(name).or(before).map(|job| job.job_id);
    PutJob {
        shards: c.pick(&[None, None, None, None, None, None, Some(0), Some(3)]),
        manifest,
        cut_over: job_id.map_or(WallMs(0), |job_id| through(c, set, job_id)),
        settle: job_id.map(|job_id| settlement(c, set, job_id)),
        expected: c.pick(&[None, None, None, Some(0), Some(1), Some(2)]),
        by: c.text(),
    }
}

fn settlement(c: &mut Choices, set: &WorkingSet, job_id: JobId) -> Settlement {
    let fire = fire_of(c, set, job_id);
    Settlement {
        version: fire.version,
        from: fire.from,
        decisions: fire.decisions,
    }
}

fn restore(c: &mut Choices) -> Command {
    let clock = c.time(WallMs(1_800_000_000_000));
    Command::Restore(Restore {
        clock,
        taken_at: c.time(clock),
        by: c.text(),
        reason: c.text(),
    })
}

fn fire(c: &mut Choices, set: &WorkingSet) -> Fire {
    let job_id = job(c, set);
    fire_of(c, set, job_id)
}

fn fire_of(c: &mut Choices, set: &WorkingSet, job_id: JobId) -> Fire {
    let job = set.jobs.get(&job_id);
    let version = job.map_or(1, |job| job.version);
    let from = job.map_or(WallMs(0), |job| job.fired_through);
    let mut last = from;
    let in_doubt = job.is_some_and(|job| job.in_doubt) && !c.one_in(8);
    let decisions = (0..c.below(4))
        .map(|_| {
            if in_doubt {
                let after = last;
                last = WallMs(last.0.saturating_add(MINUTE));
                return unknown(after, last);
            }
            let (decision, end) = decision(c, last);
            last = end;
            decision
        })
        .collect();
    Fire {
        job_id,
        version: if c.one_in(16) { u32::MAX } else { version },
        from: if c.one_in(16) { c.time(from) } else { from },
        through: if c.one_in(16) { c.time(from) } else { last },
        decisions,
    }
}

fn unknown(from: WallMs, through: WallMs) -> Decision {
    Decision::Gap {
        from,
        through,
        count: 1,
        reason: GapReason::Unknown,
    }
}

fn decision(c: &mut Choices, last: WallMs) -> (Decision, WallMs) {
    let step = if c.one_in(16) { 0 } else { MINUTE };
    let time = WallMs(last.0.saturating_add(step));
    let decision = match c.below(4) {
        0 => Decision::Missed {
            fire_time: time,
            nominal: Vec::new(),
            reason: c.text(),
        },
        1 => Decision::Gap {
            from: last,
            through: time,
            count: c.pick(&[1, 1, 1, 0, 60_000, u64::MAX]),
            reason: c.pick(&[
                GapReason::GivenUpAfterOutage,
                GapReason::UnreadableManifest,
                GapReason::Paused,
                GapReason::Unknown,
            ]),
        },
        _ => Decision::Run {
            fire_time: time,
            nominal: vec![c.text()],
            trigger: Trigger::CatchUp,
            start_deadline: Some(DurationMs(c.id([]))),
        },
    };
    (decision, time)
}

fn through(c: &mut Choices, set: &WorkingSet, job_id: JobId) -> WallMs {
    let job = set.jobs.get(&job_id);
    c.time(job.map_or(WallMs(0), |job| job.fired_through))
}

fn finish(c: &mut Choices, set: &WorkingSet, past: &Past) -> Finish {
    use AttemptOutcome::{Cancelled, Failed, Interrupted, Lost, Succeeded, TimedOut};
    let (agent_id, token) = lease(c, set, past);
    let outcome = c.pick(&[
        Succeeded,
        Succeeded,
        Failed,
        TimedOut,
        Lost,
        Interrupted,
        Cancelled,
    ]);
    Finish {
        agent_id,
        token,
        end: AttemptEnd {
            outcome,
            exit: c.pick(&[None, Some(Exit::Code(i32::MIN)), Some(Exit::Signal(9))]),
            started_at: c.pick(&[None, Some(WallMs(i64::MIN))]),
            ended_at: c.time(WallMs(0)),
            cpu: DurationMs(c.id([])),
            memory_bytes_peak: u64::MAX,
            out_of_memory: false,
            usage: None,
            not_enforced: Vec::new(),
            reason: Some(c.text()),
            tail: c.text(),
        },
    }
}

fn attach(c: &mut Choices, set: &WorkingSet, past: &Past) -> AttachAgent {
    let name = c.pick(&["h1", "h2", "h3"]).parse().unwrap();
    let agent = set.agents.values().find(|agent| agent.name == name);
    let leased = set.shards.values().filter_map(|shard| match shard.state {
        ShardState::Leased(lease) if Some(lease.agent_id) == agent.map(|a| a.agent_id) => {
            Some(lease.token)
        }
        _ => None,
    });
    let mut holds: Vec<Token> = leased.filter(|_| !c.one_in(3)).collect();
    if c.one_in(4) {
        holds.push(lease(c, set, past).1);
    }
    AttachAgent {
        name,
        boot_id: c.pick(&["boot-1", "boot-1", "boot-2"]).to_owned(),
        agent: Incarnation(u64::from(c.byte())),
        supervisor: Incarnation(c.pick(&[1, 1, u64::MAX])),
        swept: c.one_in(2),
        slots: c.pick(&[4, 4, 4, 0, u32::MAX]),
        labels: c.pick(&["ssd", "jdk17"]).parse().into_iter().collect(),
        holds,
    }
}

fn job(c: &mut Choices, set: &WorkingSet) -> JobId {
    JobId(c.id(set.jobs.keys().map(|id| id.0)))
}

fn run(c: &mut Choices, set: &WorkingSet, past: &Past) -> RunId {
    if c.one_in(4) {
        return RunId(c.id(past.runs.iter().map(|id| id.0)));
    }
    RunId(c.id(set.runs.keys().map(|id| id.0)))
}

fn shard(c: &mut Choices, set: &WorkingSet, past: &Past) -> (RunId, u32) {
    let run_id = run(c, set, past);
    let shards = set.runs.get(&run_id).map_or(1, |run| run.shards);
    let shard = c.below(shards.max(1) as usize) as u32;
    (run_id, if c.one_in(16) { u32::MAX } else { shard })
}

fn session(c: &mut Choices, set: &WorkingSet) -> SessionId {
    let live = set.agents.values().filter_map(|agent| agent.session);
    SessionId(c.id(live.map(|session| session.0)))
}

/// A lease with its agent: a live one, or any that ever was.
fn lease(c: &mut Choices, set: &WorkingSet, past: &Past) -> (AgentId, Token) {
    let live: Vec<_> = set
        .shards
        .values()
        .filter_map(|shard| match shard.state {
            ShardState::Leased(lease) => Some((lease.agent_id, lease.token)),
            _ => None,
        })
        .collect();
    if live.is_empty() || c.one_in(4) {
        let agent_id = AgentId(c.id(set.agents.keys().map(|id| id.0)));
        return (
            agent_id,
            Token(c.id(past.tokens.iter().map(|token| token.0))),
        );
    }
    c.pick(&live)
}
