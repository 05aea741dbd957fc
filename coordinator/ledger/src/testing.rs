//! A ledger in memory for the tests beside the commands.

use std::collections::BTreeMap;

use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit, Trigger};
use protocol::message::Incarnation;
use protocol::{AgentId, DurationMs, Epoch, JobId, Rule, Rules, RunId, SessionId, Token, WallMs};

use crate::command::{
    Admit, AttachAgent, BecomeActive, CancelRun, ChangeGroup, ClearAlert, Command, Confirm,
    CordonAgent, CreateJoinToken, CreateToken, Decision, DeleteJob, DeleteResource, EndSession,
    Enrol, Expire, Finish, Fire, Grant, ManualRun, MarkStarted, NoteBackup, NoteHealth, PauseJob,
    PutJob, PutResource, Quarantine, RaiseAlert, Redo, RegisterHost, ReleaseGrants, Remind,
    RenewAgent, Rerun, Restore, ResumeJob, RevokeAgent, RevokeJoinToken, RevokeToken, SettleAlerts,
    SkipWaiting, UncordonAgent, Unplaceable,
};
use crate::rows::{RunRow, RunState, ShardRow};
use crate::{Done, Outcome, Proposal, PutKind, Refusal, Store, WorkingSet};

pub(crate) const MINUTE: i64 = 60_000;

/// Begins at minute 0 and stays there unless a test moves it.
pub(crate) struct Bed {
    pub(crate) store: Store,
    /// Kept up by changes alone, and compared with the tables after every command.
    pub(crate) set: WorkingSet,
    pub(crate) at: WallMs,
    pub(crate) epoch: Option<Epoch>,
    /// Where the next commands are asked from.
    pub(crate) source: Option<Box<str>>,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        Bed::with(Rules::all())
    }

    pub(crate) fn without(rule: Rule) -> Bed {
        Bed::with(Rules::without(rule))
    }

    fn with(rules: Rules) -> Bed {
        Bed {
            store: Store::open_in_memory(rules).unwrap(),
            set: WorkingSet::default(),
            at: WallMs(0),
            epoch: None,
            source: None,
        }
    }

    pub(crate) fn outcome(&mut self, command: impl Into<Command>) -> Outcome {
        let proposal = Proposal {
            epoch: self.epoch,
            at: self.at,
            source: self.source.clone(),
            command: command.into(),
        };
        let before = self.store.dump().unwrap();
        let outcome = self.store.propose(&[proposal]).unwrap().remove(0);
        for change in &outcome.changes {
            self.set.absorb(change);
        }
        assert_eq!(self.set, self.store.working_set().unwrap());
        if outcome.result.is_err() {
            assert!(outcome.changes.is_empty());
            let unmoved = |dump: &str| {
                let lines = dump.lines().filter(|line| !line.contains("last_applied"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(unmoved(&before), unmoved(&self.store.dump().unwrap()));
        }
        outcome
    }

    pub(crate) fn ok(&mut self, command: impl Into<Command>) -> Done {
        self.outcome(command).result.unwrap()
    }

    pub(crate) fn refused(&mut self, command: impl Into<Command>) -> Refusal {
        self.outcome(command).result.unwrap_err()
    }

    /// A job whose watermark stands at minute 0.
    pub(crate) fn job(&mut self, yaml: &str) -> JobId {
        self.job_named("team/job", yaml)
    }

    pub(crate) fn job_named(&mut self, name: &str, yaml: &str) -> JobId {
        match self.ok(put(name, yaml)) {
            Done::JobPut {
                job_id,
                kind: PutKind::Created,
                ..
            } => job_id,
            other => panic!("{other:?}"),
        }
    }

    /// Fires the job at `minute`, settling everything before.
    pub(crate) fn fire(&mut self, job_id: JobId, minute: i64) -> (RunId, RunState) {
        let job = &self.set.jobs[&job_id];
        let fire = fire(
            job_id,
            job.version,
            job.fired_through,
            minute * MINUTE,
            [minute],
        );
        match self.ok(fire) {
            Done::Fired { runs } => *runs.last().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn attach(&mut self, attach: AttachAgent) -> (AgentId, SessionId) {
        match self.ok(attach) {
            Done::Attached {
                agent_id, session, ..
            } => (agent_id, session),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn grant(&mut self, run_id: RunId, shard: u32, session: SessionId) -> Token {
        let grant = Grant {
            run_id,
            shard,
            session,
            uses: Vec::new(),
        };
        match self.ok(grant) {
            Done::Granted { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }

    /// Runs every shard of a run to success.
    pub(crate) fn carry_out(&mut self, run_id: RunId, agent: (AgentId, SessionId)) {
        for shard in 0..self.set.runs[&run_id].shards {
            let token = self.grant(run_id, shard, agent.1);
            self.ok(finish(agent.0, token, end(AttemptOutcome::Succeeded)));
        }
    }

    pub(crate) fn run(&self, run_id: RunId) -> &RunRow {
        &self.set.runs[&run_id]
    }

    pub(crate) fn shard(&self, run_id: RunId, shard: u32) -> &ShardRow {
        &self.set.shards[&(run_id, shard)]
    }

    /// What a view shows: rows of `column|column|...`.
    pub(crate) fn view(&self, query: &str) -> Vec<String> {
        self.store.query_text(query)
    }

    /// Why a run is in its state, as people read it.
    pub(crate) fn reason(&self, run_id: RunId) -> String {
        let query = format!("SELECT reason FROM run_view WHERE run = '{run_id}'");
        self.view(&query).concat()
    }

    /// A run's state, final ones included.
    pub(crate) fn state(&self, run_id: RunId) -> String {
        self.view(&format!(
            "SELECT state FROM run_view WHERE run = '{run_id}'"
        ))
        .concat()
    }
}

/// A job that begins at minute 0.
pub(crate) fn put(name: &str, yaml: &str) -> PutJob {
    PutJob {
        shards: None,
        manifest: manifest(name, yaml),
        cut_over: WallMs(0),
        settle: None,
        expected: None,
        by: "ada".to_owned(),
    }
}

/// `yaml` adds to or replaces the fields of a job with one shard, two retries and `forbid`.
pub(crate) fn manifest(name: &str, yaml: &str) -> jobs::Manifest {
    let defaults = [
        ("name", format!("name: {name}")),
        ("purpose", "purpose: a test".to_owned()),
        ("owner", "owner: ada".to_owned()),
        (
            "repeatable",
            "repeatable: { safe: true, how: replaces }".to_owned(),
        ),
        (
            "schedule",
            "schedule: { cron: \"* * * * *\", timezone: UTC }".to_owned(),
        ),
        (
            "misfire",
            "misfire: { policy: run_now, after: 60s }".to_owned(),
        ),
        ("overlap", "overlap: forbid".to_owned()),
        ("expected_duration", "expected_duration: 1m".to_owned()),
        ("timeout", "timeout: 1m".to_owned()),
        (
            "retry",
            "retry: { at_most: 2, backoff: [1s, 5s] }".to_owned(),
        ),
        ("run", "run: { exec: [\"/bin/true\"] }".to_owned()),
    ];
    let mut text = String::new();
    for (key, line) in defaults {
        if !yaml.lines().any(|own| own.starts_with(&format!("{key}:"))) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text.push_str(yaml);
    jobs::parse_manifests("test.yaml", &text).unwrap().remove(0)
}

/// Settles (`from`, `through`] of a job with runs at these minutes.
pub(crate) fn fire(
    job_id: JobId,
    version: u32,
    from: WallMs,
    through: i64,
    minutes: impl IntoIterator<Item = i64>,
) -> Fire {
    Fire {
        job_id,
        version,
        from,
        through: WallMs(through),
        decisions: minutes.into_iter().map(run_at).collect(),
    }
}

pub(crate) fn run_at(minute: i64) -> Decision {
    Decision::Run {
        fire_time: WallMs(minute * MINUTE),
        nominal: vec![format!("1970-01-01T00:{minute:02}:00")],
        trigger: Trigger::Scheduled,
        start_deadline: Some(DurationMs(MINUTE)),
    }
}

/// One that is caught up with, without a deadline.
pub(crate) fn late_at(minute: i64) -> Decision {
    Decision::Run {
        fire_time: WallMs(minute * MINUTE),
        nominal: Vec::new(),
        trigger: Trigger::CatchUp,
        start_deadline: None,
    }
}

/// A run by hand, of no instant.
pub(crate) fn manual(job_id: JobId) -> ManualRun {
    ManualRun {
        job_id,
        version: 1,
        instant: None,
        nominal: Vec::new(),
        start_deadline: Some(DurationMs(MINUTE)),
        params: BTreeMap::new(),
        by: "ada".to_owned(),
        reason: "now".to_owned(),
    }
}

pub(crate) fn attach(name: &str) -> AttachAgent {
    AttachAgent {
        name: name.parse().unwrap(),
        boot_id: "boot-1".to_owned(),
        agent: Incarnation(1),
        supervisor: Incarnation(u64::MAX),
        swept: true,
        slots: 4,
        labels: Vec::new(),
        holds: Vec::new(),
    }
}

pub(crate) fn end(outcome: AttemptOutcome) -> AttemptEnd {
    AttemptEnd {
        outcome,
        exit: match outcome {
            AttemptOutcome::Succeeded => Some(Exit::Code(0)),
            AttemptOutcome::Failed => Some(Exit::Code(1)),
            _ => None,
        },
        started_at: match outcome {
            AttemptOutcome::Refused | AttemptOutcome::NeverStarted => None,
            _ => Some(WallMs(1)),
        },
        ended_at: WallMs(2),
        cpu: DurationMs(5),
        memory_bytes_peak: 4096,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: None,
        tail: String::new(),
    }
}

pub(crate) fn finish(agent_id: AgentId, token: Token, end: AttemptEnd) -> Finish {
    Finish {
        agent_id,
        token,
        end,
    }
}

macro_rules! into_command {
    ($($name:ident),+ $(,)?) => {
        $(impl From<$name> for Command {
            fn from(command: $name) -> Command {
                Command::$name(command)
            }
        })+
    };
}

into_command!(
    Admit,
    AttachAgent,
    BecomeActive,
    CancelRun,
    ClearAlert,
    Confirm,
    CordonAgent,
    CreateJoinToken,
    CreateToken,
    DeleteJob,
    DeleteResource,
    EndSession,
    Enrol,
    Expire,
    Finish,
    Fire,
    Grant,
    ManualRun,
    MarkStarted,
    PauseJob,
    PutResource,
    Quarantine,
    RaiseAlert,
    Redo,
    Remind,
    Rerun,
    ResumeJob,
    RenewAgent,
    RevokeAgent,
    RevokeJoinToken,
    ChangeGroup,
    RevokeToken,
    SettleAlerts,
    SkipWaiting,
    UncordonAgent,
    Unplaceable,
    ReleaseGrants,
    Restore,
    NoteBackup,
    NoteHealth,
);

impl From<RegisterHost> for Command {
    fn from(command: RegisterHost) -> Command {
        Command::RegisterHost(Box::new(command))
    }
}

impl From<PutJob> for Command {
    fn from(command: PutJob) -> Command {
        Command::PutJob(Box::new(command))
    }
}
