//! A core with a ledger behind it, and time and quorum in the test's hands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use coordinator_core::clock::Thresholds;
use coordinator_core::{
    Config, ConnId, Core, Effect, ProposalId, Request, RequestError, RequestId,
};
use jobs::Manifest;
use ledger::command::{Command, Fire, Proposal, RegisterHost, RerunScope};
use ledger::{Done, RunState, ShardState, Store};
use profiles::classes::Classes;
use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit};
use protocol::host::{ProfileDigest, Value};
use protocol::message::{
    AgentMessage, Attach, CoordinatorBody, Heartbeat, Incarnation, Nonce, Receipt,
};
use protocol::{
    AgentId, AgentName, BootMs, DurationMs, Epoch, HostFacts, JobId, JobName, Lifetime, Now, Rules,
    RunId, SessionId, Token, WallMs,
};

/// Steps of time in which a shell must tick.
const TICK: i64 = 100;

#[allow(clippy::struct_excessive_bools)] // switches that have nothing to do with each other
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) core: Core,
    pub(crate) now: Now,
    /// Whether rounds are answered at once.
    pub(crate) quorum: bool,
    /// Whether what the core proposes is committed at once.
    pub(crate) commits: bool,
    /// Rounds that wait for an answer.
    pub(crate) rounds: Vec<u64>,
    pub(crate) deposed: bool,
    /// Fires are answered as done, and nothing is: a ledger that forgets them.
    pub(crate) forgets_fires: bool,
    /// The core was shown another working set than the ledger's, or another leads: the two are
    /// not compared.
    pub(crate) differs: bool,
    waiting: VecDeque<(ProposalId, Proposal)>,
    /// Every command that was committed, oldest first.
    pub(crate) log: Vec<Command>,
    said: Vec<(ConnId, CoordinatorBody)>,
    /// The nonces that were given, each with the invitation to attach.
    pub(crate) invitations: BTreeMap<ConnId, Nonce>,
    pub(crate) closed: Vec<ConnId>,
    /// Nodes to which the lead was to be given.
    pub(crate) handed: Vec<u64>,
    replies: Vec<(RequestId, Result<Done, RequestError>)>,
    ids: u64,
}

/// One connection of an agent that is attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) conn: ConnId,
    pub(crate) session: SessionId,
}

impl Bench {
    /// A core that has led over an empty ledger for a second: past the time that a new leader
    /// gives to everybody.
    pub(crate) fn new() -> Bench {
        let mut bench = Bench::beginning();
        bench.commits = true;
        bench.settle();
        bench.pass(1_000);
        bench
    }

    /// A core whose reign has not been committed yet.
    pub(crate) fn beginning() -> Bench {
        Bench::beginning_with(|_| {})
    }

    /// The same, of a coordinator that is otherwise than alone.
    pub(crate) fn beginning_with(change: impl FnOnce(&mut Config)) -> Bench {
        let store = Store::open_in_memory(Rules::all()).unwrap();
        let mut config = config(store.last_applied().unwrap());
        change(&mut config);
        let core = Core::new(config, store.working_set().unwrap(), BEGIN, Rules::all());
        let now = BEGIN;
        Bench {
            store,
            core,
            now,
            quorum: true,
            commits: false,
            rounds: Vec::new(),
            deposed: false,
            forgets_fires: false,
            differs: false,
            waiting: VecDeque::new(),
            log: Vec::new(),
            said: Vec::new(),
            invitations: BTreeMap::new(),
            closed: Vec::new(),
            handed: Vec::new(),
            replies: Vec::new(),
            ids: 0,
        }
    }

    /// Another process begins to lead over the same ledger; this core knows nothing of it.
    pub(crate) fn usurp(&mut self) {
        let mut other = begin(&self.store, self.now);
        let (_, proposal) = other.poll_proposal().unwrap();
        self.store.propose(&[proposal]).unwrap();
        self.differs = true;
    }

    /// Somebody else settles a second of a job's schedule; this core knows nothing of it.
    pub(crate) fn move_watermark(&mut self, job_id: JobId) {
        let set = self.store.working_set().unwrap();
        let job = &set.jobs[&job_id];
        let fire = Fire {
            job_id,
            version: job.version,
            from: job.fired_through,
            through: job.fired_through + DurationMs::from_secs(1),
            decisions: Vec::new(),
        };
        let proposal = Proposal {
            epoch: None,
            at: self.now.wall,
            source: None,
            command: Command::Fire(fire),
        };
        self.store.propose(&[proposal]).unwrap();
        self.differs = true;
    }

    /// The process dies, and the next one leads at once. Its connections are gone.
    pub(crate) fn succeed(&mut self) {
        self.succeed_over(|_| {});
    }

    /// As [`Bench::succeed`], where something happened to what it finds.
    pub(crate) fn succeed_over(&mut self, change: impl FnOnce(&mut ledger::WorkingSet)) {
        let found = self.store.working_set().unwrap();
        let mut set = found.clone();
        change(&mut set);
        self.differs = set != found;
        let config = config(self.store.last_applied().unwrap());
        self.core = Core::new(config, set, self.now, Rules::all());
        self.waiting.clear();
        self.rounds.clear();
        self.said.clear();
        self.invitations.clear();
        self.settle();
    }

    /// Time passes without a moment's inattention.
    pub(crate) fn pass(&mut self, ms: i64) {
        let until = self.now.boot.0 + ms;
        while self.now.boot.0 < until {
            self.stand_still((until - self.now.boot.0).min(TICK));
        }
    }

    /// Time passes in one leap, after which the timers run.
    pub(crate) fn stand_still(&mut self, ms: i64) {
        self.now.boot = self.now.boot + DurationMs(ms);
        self.now.wall = self.now.wall + DurationMs(ms);
        self.core.handle_tick(self.now);
        self.settle();
    }

    /// Takes up what the core has decided, commits it if it may, until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        loop {
            while let Some(effect) = self.core.poll_effect() {
                self.take(effect);
            }
            while let Some(proposal) = self.core.poll_proposal() {
                self.waiting.push_back(proposal);
            }
            let rounds = if self.quorum {
                std::mem::take(&mut self.rounds)
            } else {
                Vec::new()
            };
            for round in &rounds {
                self.core.handle_quorum(*round, self.now);
            }
            if self.commits && !self.waiting.is_empty() {
                self.commit();
            } else if rounds.is_empty() {
                return;
            }
        }
    }

    /// Commits what waits as one batch, and tells the core.
    pub(crate) fn commit(&mut self) {
        self.commit_first(self.waiting.len());
    }

    /// The same with the first `count` of it; the rest goes on waiting.
    pub(crate) fn commit_first(&mut self, count: usize) {
        let (ids, batch): (Vec<_>, Vec<_>) = self.waiting.drain(..count).unzip();
        let mut outcomes = self.store.propose(&batch).unwrap();
        if self.forgets_fires {
            for (proposal, outcome) in batch.iter().zip(&mut outcomes) {
                if let Command::Fire(_) = proposal.command {
                    let done = Done::Fired { runs: Vec::new() };
                    (outcome.result, outcome.changes) = (Ok(done), Vec::new());
                }
            }
        }
        self.log
            .extend(batch.into_iter().map(|proposal| proposal.command));
        self.core
            .handle_outcomes(ids.into_iter().zip(outcomes).collect(), self.now);
        self.core.check_indexes(self.now).unwrap();
        if !self.differs {
            let mut stored = self.store.working_set().unwrap();
            let versions = std::mem::take(&mut stored.versions);
            assert_eq!(*self.core.working_set(), stored);
            self.core.check_versions(&versions).unwrap();
        }
        while let Some(effect) = self.core.poll_effect() {
            self.take(effect);
        }
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Send { conn, message } => match message.body {
                CoordinatorBody::NonceGiven { nonce } => {
                    let before = self.invitations.insert(conn, nonce);
                    assert_eq!(before, None, "one invitation for a connection in a reign");
                }
                body => self.said.push((conn, body)),
            },
            Effect::Close { conn, .. } => self.closed.push(conn),
            Effect::Reply { request, answer } => self.replies.push((request, answer)),
            Effect::ConfirmQuorum { round } => self.rounds.push(round),
            Effect::HandOver { to } => self.handed.push(to),
            Effect::StepDown => self.deposed = true,
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    // -- agents --------------------------------------------------------------------------------

    /// A new connection, whose nonce is its number.
    pub(crate) fn connect(&mut self, name: &str) -> ConnId {
        self.connect_with(name, LONG)
    }

    /// The same with another certificate.
    pub(crate) fn connect_with(&mut self, name: &str, certificate: Lifetime) -> ConnId {
        let conn = ConnId(self.fresh_id());
        let (name, nonce) = (agent_name(name), Nonce(conn.0));
        self.core
            .handle_connected(conn, name, certificate, nonce, self.now);
        conn
    }

    /// A certificate for so many days, of which so many are left.
    pub(crate) fn certificate(&self, days: i64, left: i64) -> Lifetime {
        let days_ms = |days| DurationMs(days * 86_400_000);
        let until = self.now.wall + days_ms(left);
        Lifetime {
            from: until - days_ms(days),
            until,
        }
    }

    pub(crate) fn disconnect(&mut self, conn: ConnId) {
        self.core.handle_disconnected(conn, self.now);
        self.settle();
    }

    pub(crate) fn says(&mut self, conn: ConnId, message: AgentMessage) {
        self.core.handle_message(conn, message, self.now);
        self.settle();
    }

    /// A host with four slots that holds nothing attaches.
    pub(crate) fn attach(&mut self, name: &str) -> Host {
        self.attach_as(name, attach(&[]))
    }

    pub(crate) fn attach_as(&mut self, name: &str, attach: Attach) -> Host {
        let conn = self.connect(name);
        self.attaches(conn, attach);
        self.attached(conn)
            .unwrap_or_else(|| panic!("{name} is not attached"))
    }

    /// Follows the invitation on a connection.
    pub(crate) fn attaches(&mut self, conn: ConnId, mut attach: Attach) {
        self.settle();
        let invitation = self.invitations.get(&conn);
        attach.nonce = *invitation.expect("an agent attaches where it was invited");
        attach.epoch = self.core.epoch().expect("only a leader invites");
        self.says(conn, AgentMessage::Attach(attach));
    }

    /// The host on this connection, if it was told that it is attached.
    pub(crate) fn attached(&mut self, conn: ConnId) -> Option<Host> {
        let said = self
            .said
            .iter()
            .position(|(to, body)| *to == conn && matches!(body, CoordinatorBody::Attached { .. }));
        match self.said.remove(said?) {
            (_, CoordinatorBody::Attached { session, .. }) => Some(Host { conn, session }),
            other => panic!("{other:?}"),
        }
    }

    /// Time passes while the host beats and lists these.
    pub(crate) fn keep(&mut self, host: Host, listed: &[Token], ms: i64) {
        for beat in 1..=ms / 5_000 {
            self.beat(host, beat.unsigned_abs(), listed);
            self.pass(5_000);
        }
    }

    pub(crate) fn beat(&mut self, host: Host, beat: u64, attempts: &[Token]) {
        let wall = self.now.wall;
        let (session, attempts) = (host.session, attempts.to_vec());
        let heartbeat = Heartbeat {
            round_trip: None,
            host: None,
            session,
            beat,
            wall,
            attempts,
        };
        self.says(host.conn, AgentMessage::Heartbeat(heartbeat));
    }

    /// Says on one connection whether its process was given the nonce of another one.
    pub(crate) fn answer_nonce(&mut self, conn: ConnId, about: ConnId, mine: bool) {
        let nonce = self.invitations[&about];
        self.says(conn, AgentMessage::NonceAnswer { nonce, mine });
    }

    pub(crate) fn finish(&mut self, host: Host, token: Token, outcome: AttemptOutcome) {
        let end = end(outcome, self.now.wall);
        self.says(host.conn, AgentMessage::Receipt(Receipt { token, end }));
    }

    /// What was said on a connection since this was last asked.
    pub(crate) fn heard(&mut self, conn: ConnId) -> Vec<CoordinatorBody> {
        let (mine, others) = std::mem::take(&mut self.said)
            .into_iter()
            .partition(|(to, _)| *to == conn);
        self.said = others;
        let mine: Vec<(ConnId, CoordinatorBody)> = mine;
        mine.into_iter().map(|(_, body)| body).collect()
    }

    /// The leases that the host was told to start since this was last asked, and the beats that
    /// they rest on.
    pub(crate) fn starts(&mut self, host: Host) -> Vec<(Token, u64)> {
        self.heard(host.conn)
            .into_iter()
            .filter_map(|body| match body {
                CoordinatorBody::Start {
                    token, rests_on, ..
                } => Some((token, rests_on)),
                _ => None,
            })
            .collect()
    }

    /// The one lease that the host was told to start.
    pub(crate) fn start(&mut self, host: Host) -> Token {
        match self.starts(host)[..] {
            [(token, _)] => token,
            ref other => panic!("{other:?}"),
        }
    }

    /// Beats that were acknowledged, with the leases that live.
    pub(crate) fn acks(&mut self, host: Host) -> Vec<(u64, Vec<Token>)> {
        self.heard(host.conn)
            .into_iter()
            .filter_map(|body| match body {
                CoordinatorBody::HeartbeatAck { beat, live, .. } => Some((beat, live)),
                _ => None,
            })
            .collect()
    }

    // -- people --------------------------------------------------------------------------------

    pub(crate) fn ask(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.fresh_id());
        self.core.handle_request(id, request, self.now);
        self.settle();
        id
    }

    /// The one answer to a request, if there is one yet.
    pub(crate) fn answer(&mut self, id: RequestId) -> Option<Result<Done, RequestError>> {
        let (mine, others) = std::mem::take(&mut self.replies)
            .into_iter()
            .partition(|(to, _)| *to == id);
        self.replies = others;
        let mut mine: Vec<(RequestId, Result<Done, RequestError>)> = mine;
        assert!(mine.len() <= 1, "{mine:?}");
        mine.pop().map(|(_, answer)| answer)
    }

    pub(crate) fn asked(&mut self, request: Request) -> Result<Done, RequestError> {
        let id = self.ask(request);
        self.answer(id).expect("an answer")
    }

    /// A job of one shard that never fires by itself; `yaml` adds to it or changes it.
    pub(crate) fn job(&mut self, name: &str, yaml: &str) {
        let manifest = Arc::new(manifest(name, yaml));
        let by = "ada".to_owned();
        self.asked(Request::PutJob {
            manifest,
            expected: None,
            by,
        })
        .unwrap();
    }

    /// A host tells what it is.
    pub(crate) fn registers(&mut self, name: &str, facts: &[(&'static str, Value)]) {
        let mut told = HostFacts::default();
        for (fact, value) in facts {
            told.know(fact, value.clone());
        }
        let name = agent_name(name);
        let agents = self.core.working_set().agents.values();
        let mut before = agents.filter(|agent| agent.name == name);
        let before = before.find_map(|agent| agent.profile);
        let register = RegisterHost {
            against: before.map_or(0, |profile| profile.generation),
            digest: ProfileDigest([self.fresh_id() as u8; 16]),
            name,
            facts: told,
            report: "{}".to_owned(),
            differences: Vec::new(),
        };
        self.asked(Request::RegisterHost(Box::new(register)))
            .unwrap();
    }

    /// A run at a person's wish.
    pub(crate) fn run(&mut self, job: &str) -> RunId {
        match self.asked(run_now(job)) {
            Ok(Done::RunStarted { run_id, .. }) => run_id,
            other => panic!("{other:?}"),
        }
    }

    // -- what is true --------------------------------------------------------------------------

    /// A run that is open.
    pub(crate) fn state(&self, run: RunId) -> RunState {
        self.core.working_set().runs[&run].state
    }

    /// Any run, with everything that happened to it.
    pub(crate) fn detail(&self, run: RunId) -> protocol::api::RunDetail {
        self.store.run(run).unwrap().unwrap()
    }

    /// Who holds a shard.
    pub(crate) fn holder(&self, run: RunId, shard: u32) -> Option<(AgentId, Token)> {
        match self.core.working_set().shards.get(&(run, shard))?.state {
            ShardState::Leased(lease) => Some((lease.agent_id, lease.token)),
            _ => None,
        }
    }

    /// Commands that were committed of which `wanted` makes something.
    pub(crate) fn logged<T>(&self, wanted: impl Fn(&Command) -> Option<T>) -> Vec<T> {
        self.log.iter().filter_map(wanted).collect()
    }
}

fn config(looked_at: i64) -> Config {
    Config {
        looked_at,
        node: "c1".to_owned(),
        incarnation: Incarnation(1),
        boot_id: "boot".to_owned(),
        last_clock: None,
        clock: Thresholds::default(),
        classes: Arc::new(Classes::built_in()),
        members: Vec::new(),
        time_service: None,
        yielded: None,
    }
}

/// When a bench begins.
pub(crate) const BEGIN: Now = Now {
    wall: WallMs(1_800_000_000_000),
    boot: BootMs(1_000_000),
};

/// A certificate that does not end while a test lasts.
pub(crate) const LONG: Lifetime = Lifetime {
    from: WallMs(0),
    until: WallMs(9_000_000_000_000),
};

fn begin(store: &Store, now: Now) -> Core {
    let config = config(store.last_applied().unwrap());
    Core::new(config, store.working_set().unwrap(), now, Rules::all())
}

pub(crate) fn agent_name(name: &str) -> AgentName {
    name.parse().unwrap()
}

pub(crate) fn job_name(name: &str) -> JobName {
    name.parse().unwrap()
}

/// The attach of a host whose supervisor holds these attempts; [`Bench::attaches`] puts the
/// invitation in.
pub(crate) fn attach(holds: &[Token]) -> Attach {
    Attach {
        epoch: Epoch(0),
        nonce: Nonce(0),
        boot_id: "boot-1".to_owned(),
        agent_incarnation: Incarnation(1),
        supervisor_incarnation: Incarnation(2),
        swept: true,
        slots: 4,
        labels: Vec::new(),
        wall: WallMs(0),
        attempts: holds.to_vec(),
    }
}

fn end(outcome: AttemptOutcome, at: WallMs) -> AttemptEnd {
    AttemptEnd {
        outcome,
        exit: (outcome == AttemptOutcome::Failed).then_some(Exit::Code(1)),
        started_at: Some(at),
        ended_at: at,
        cpu: DurationMs::ZERO,
        memory_bytes_peak: 0,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: None,
        tail: String::new(),
    }
}

pub(crate) fn run_now(job: &str) -> Request {
    Request::Run {
        job: job_name(job),
        instant: None,
        params: std::collections::BTreeMap::new(),
        by: "ada".to_owned(),
        reason: "to see".to_owned(),
    }
}

/// Carries the whole run out again.
pub(crate) fn rerun(run_id: RunId) -> Request {
    Request::Rerun {
        run_id,
        scope: RerunScope::Run,
        by: "ada".to_owned(),
        reason: "again".to_owned(),
    }
}

pub(crate) fn cancel(run_id: RunId) -> Request {
    Request::Cancel {
        run_id,
        by: "ada".to_owned(),
        reason: "wrong day".to_owned(),
    }
}

/// `yaml` adds to or replaces the fields of a job that fires every leap day and is taken over
/// after a minute.
pub(crate) fn manifest(name: &str, yaml: &str) -> Manifest {
    let mut text = format!("name: {name}\n");
    for line in [
        "purpose: a test",
        "owner: ada",
        "repeatable: { safe: true, how: it does nothing }",
        "schedule: { cron: \"0 0 29 2 *\", timezone: Etc/UTC }",
        "misfire: { policy: run_now, after: 60s }",
        "overlap: queue",
        "expected_duration: 1m",
        "timeout: 1m",
        "retry: { at_most: 2, backoff: [1s] }",
        "run: { exec: [\"/bin/true\"] }",
    ] {
        let (key, _) = line.split_once(':').unwrap();
        if !yaml.lines().any(|own| own.starts_with(&format!("{key}:"))) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.push_str(yaml);
    jobs::parse_manifests("test.yaml", &text).unwrap().remove(0)
}
