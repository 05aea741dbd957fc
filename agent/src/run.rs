//! `matins agent`: the shell around [`agent_core::Agent`].
//!
//! One task owns the core and is the only one that speaks to it. Everything that can wait (the
//! network, the supervisor's socket, the disk) waits in a task of its own and sends what it got
//! as an [`Input`]; what the core decides goes out through queues that never block. So a slow
//! disk or a stalled network cannot keep a deadline from being looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::Agent;
use agent_core::agent::{
    Action, Config, ConnectionId, CoordinatorId, DisconnectReason, DiskFull, Occasion, Registered,
};
use nix::fcntl::Flock;
use protocol::attempt::AttemptOutcome;
use protocol::host::{HostNow, ProfileDigest};
use protocol::message::{
    AgentMessage, CoordinatorBody, CoordinatorMessage, Incarnation, LABELS_MAX, SLOTS_MAX,
};
use protocol::supervisor::{Event, Request, Table};
use protocol::{DurationMs, Label, Lifetime, Rules, SessionId, Token, WallMs};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use transport::{Connection, Dialer, Identity, IdentityError, Role, TlsError};

use crate::backoff::Backoff;
use crate::clock;
use crate::data_directory::DataDirectory;
use crate::lock::{self, Refused, of_process};
use crate::looks::{self, Looking, WrittenProfile};
use crate::noop::Noop;
use crate::output::Tails;
use crate::output::keeping::{self, Bounds};
use crate::policy::{self, PolicyError};
use crate::pretended;
use crate::renewal::{self, Renewal};
use crate::{coordinator_link, host, registration, supervisor, supervisor_link};

/// Programs without a path are looked for here.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Inputs that may wait for the core; their senders wait beyond it.
const INPUTS_MAX: usize = 1024;

/// Inputs handled in one go, before signals and timers are looked at again.
const INPUTS_TAKEN_MAX: usize = 64;

const SLEEP_LONGEST: Duration = Duration::from_secs(1);

const REDIAL_SHORTEST: Duration = Duration::from_millis(100);
/// The first wait is at most three times this.
const REDIAL_FIRST: Duration = Duration::from_millis(400);
const REDIAL_LONGEST: Duration = Duration::from_secs(2);

/// How long a stopping agent hands in receipts, at the longest, and what counts as nothing more
/// coming.
const LAST_RECEIPTS_MAX: Duration = Duration::from_secs(1);
const LAST_RECEIPTS_QUIET: Duration = Duration::from_millis(50);

/// How long a stopping agent takes leave of its coordinators.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// What an agent is told when it is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of `ca.pem`, `cert.pem` and `key.pem`; the certificate states the agent's name.
    pub identity_directory: PathBuf,
    /// `host:port` of each coordinator's listener for agents, at least one. The agent keeps a
    /// connection to all of them and works for whichever leads.
    pub coordinators: Vec<String>,
    /// Directory of the supervisor that runs this agent's attempts.
    pub supervisor_directory: PathBuf,
    /// The agent's own directory, made if absent. Nothing in it is precious.
    pub data_directory: PathBuf,
    /// Attempts that may live at once, 1 to [`SLOTS_MAX`].
    pub slots: u32,
    /// What this host says of itself, for `needs.labels` of jobs; at most [`LABELS_MAX`].
    pub labels: Vec<Label>,
    /// Of one attempt's output at most so much is kept: the first and the last.
    pub output_bytes_max: u64,
    /// Output of ended attempts is kept so long.
    pub output_age: DurationMs,
    /// The newest so many of each job are kept beyond that.
    pub output_of_each_job: u32,
    /// All output on this host takes at most so much; `None`: 5 GiB, or a tenth of the disk if
    /// that is less.
    pub output_bytes_total: Option<u64>,
    /// What may be started on this host; `None`: what [`POLICY_FILE`](crate::POLICY_FILE) says, where
    /// there is such a file.
    pub policy: Option<PathBuf>,
    /// How the host is looked at; `None`: not at all. Only an agent that pretends its work registers
    /// something then, which is pretended too.
    pub looking: Option<Looking>,
    /// What becomes of what the coordinator has started.
    pub work: Work,
}

/// What an agent does with its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Its supervisor runs it.
    Run,
    /// Nothing is run and every attempt succeeds, after so long, for benchmarks of what is around a
    /// process.
    Pretend { takes: DurationMs },
}

/// Why an agent could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("loading the agent's identity")]
    Identity(#[from] IdentityError),
    #[error("using the agent's identity")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("the certificate in `{directory}` is for a {role}: an agent needs one for an agent")]
    WrongRole { directory: PathBuf, role: Role },
    #[error("an agent has 1 to {SLOTS_MAX} slots, not {slots}")]
    Slots { slots: u32 },
    #[error("an agent has at most {LABELS_MAX} labels, not {labels}")]
    Labels { labels: usize },
    #[error("an agent works for at least one coordinator, and none was given")]
    NoCoordinator,
    #[error(
        "another agent{} runs on `{directory}`: stop it first; one for another host needs a directory and a certificate of its own",
        of_process(*pid)
    )]
    AlreadyRunning {
        directory: PathBuf,
        pid: Option<i32>,
    },
    #[error(
        "the supervisor in `{directory}` has an agent already{}: stop that one first, or give this one a supervisor of its own",
        of_process(*pid)
    )]
    SupervisorTaken {
        directory: PathBuf,
        pid: Option<i32>,
    },
    #[error("making the directory `{path}`")]
    Directory { path: PathBuf, source: io::Error },
    #[error("the path `{path}` is not UTF-8: choose another directory")]
    PathNotText { path: PathBuf },
    #[error("asking the kernel for {what}")]
    Kernel {
        what: &'static str,
        source: io::Error,
    },
}

/// What the tasks hand to the one that owns the core.
pub(crate) enum Input {
    SupervisorUp {
        table: Table,
        requests: mpsc::Sender<Request>,
    },
    SupervisorDown,
    Supervisor(Event),
    Connected {
        id: ConnectionId,
        outgoing: mpsc::Sender<AgentMessage>,
        connection: Connection,
    },
    Message {
        id: ConnectionId,
        message: CoordinatorMessage,
    },
    /// A dial failed, or a connection ended.
    Disconnected {
        id: ConnectionId,
        why: String,
    },
    Tail {
        token: Token,
        tail: String,
    },
    /// How the host fares: what of it was looked at.
    Host(HostNow),
    /// What the host was found to be, where that is to be told.
    Profile {
        profile: WrittenProfile,
        occasion: Occasion,
    },
    /// What became of the profile of this digest on this connection.
    Registered {
        id: ConnectionId,
        digest: ProfileDigest,
        end: Registered,
    },
    /// The disk with the output is full, or is so no longer.
    Disk(Option<DiskFull>),
    /// What became of a certificate that was to be renewed.
    Renewed(Result<Lifetime, String>),
}

/// Runs an agent until SIGTERM or SIGINT, and leaves its attempts to the supervisor. Needs a
/// tokio runtime with its IO and time drivers around it; a current-thread one does.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut shell = Shell::start(options)?;
    supervisor::protect_from_attempts();
    shell.run().await
}

struct Shell {
    _directory: DataDirectory,
    _supervisor: Flock<File>,
    core: Agent,
    inputs: mpsc::Receiver<Input>,
    sender: mpsc::Sender<Input>,
    runner: Runner,
    /// By [`CoordinatorId`].
    posts: Vec<Post>,
    connections: BTreeMap<ConnectionId, Open>,
    last_connection: u64,
    session: Option<SessionId>,
    tails: Tails,
    renewal: Renewal,
    /// How the host fares, as far as it was looked at.
    host: HostNow,
    /// What the host was last found to be, where that is told.
    profile: Option<WrittenProfile>,
    /// How many attempts live: nobody measures beside them.
    living: watch::Sender<usize>,
}

/// Who carries out what the core asks of a supervisor.
enum Runner {
    /// The line to it, while there is one.
    Supervisor(Option<mpsc::Sender<Request>>),
    Noop(Noop),
}

struct Open {
    coordinator: CoordinatorId,
    since: Instant,
    outgoing: mpsc::Sender<AgentMessage>,
    connection: Connection,
    /// When another connection is to take its place.
    replace_at: WallMs,
}

/// One coordinator, and when and how to dial it again.
struct Post {
    line: Arc<coordinator_link::Line>,
    backoff: Backoff,
    /// The connection being dialled.
    under_way: Option<ConnectionId>,
    /// The core's wish for the next dial.
    pause: Duration,
    /// Last failure that was logged; the same one again is not news.
    told: String,
}

impl Post {
    fn new(line: coordinator_link::Line) -> Post {
        Post {
            line: Arc::new(line),
            backoff: redial_backoff(),
            under_way: None,
            pause: Duration::ZERO,
            told: String::new(),
        }
    }

    /// A connection that lasted is over: what was wrong before it was made is over too. One that ends
    /// at once is only another failure.
    fn note_end(&mut self, lasted: Duration) {
        if lasted >= REDIAL_LONGEST {
            self.backoff.reset();
        }
    }
}

impl Shell {
    fn start(options: Options) -> Result<Shell, Error> {
        let Options {
            identity_directory,
            mut coordinators,
            supervisor_directory,
            data_directory,
            slots,
            mut labels,
            output_bytes_max,
            output_age,
            output_of_each_job,
            output_bytes_total,
            policy,
            looking,
            work,
        } = options;
        if !(1..=SLOTS_MAX).contains(&slots) {
            return Err(Error::Slots { slots });
        }
        labels.sort();
        labels.dedup();
        if labels.len() > LABELS_MAX {
            let labels = labels.len();
            return Err(Error::Labels { labels });
        }
        coordinators.sort();
        coordinators.dedup();
        if coordinators.is_empty() {
            return Err(Error::NoCoordinator);
        }
        let identity = Identity::load(&identity_directory)?;
        let name = identity.name();
        if name.role != Role::Agent {
            return Err(Error::WrongRole {
                directory: identity_directory,
                role: name.role,
            });
        }
        let policy = policy::read(policy.as_deref())?;
        let dialer = Dialer::new(&identity)?;
        let directory = DataDirectory::take(&data_directory)?;
        let supervisor = take_supervisor(&supervisor_directory)?;
        let output_directory = directory.output()?;
        let incarnation = getrandom::u64().map_err(|error| Error::Kernel {
            what: "a random number",
            source: io::Error::other(error),
        })?;
        tracing::info!(agent = %name.name, slots, ?coordinators, "the agent starts");

        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let runner = match work {
            Work::Run => {
                let socket = supervisor::socket_path(&supervisor_directory);
                tokio::spawn(supervisor_link::run(socket, sender.clone()));
                Runner::Supervisor(None)
            }
            Work::Pretend { takes } => {
                tokio::spawn(pretended::run(name.name.to_string(), sender.clone()));
                let noop = Noop::new(Incarnation(incarnation), takes, &data_directory);
                Runner::Noop(noop.map_err(|source| Error::Directory {
                    path: data_directory.clone(),
                    source,
                })?)
            }
        };
        let bounds = Bounds {
            age: output_age,
            of_each_job: output_of_each_job,
            total_bytes: output_bytes_total,
        };
        let kept = PathBuf::from(&output_directory);
        tokio::spawn(keeping::run(kept, bounds, sender.clone()));
        let living = watch::Sender::new(0);
        if let Some(looking) = looking {
            let root = looking.root.clone();
            host::watch(root, sender.clone()).map_err(|source| Error::Kernel {
                what: "a thread that looks at the host",
                source,
            })?;
            let living = living.subscribe();
            tokio::spawn(looks::run(looking, data_directory, sender.clone(), living));
        }
        let posts = coordinators.into_iter().map(|coordinator| {
            Post::new(coordinator_link::Line {
                dialer: dialer.clone(),
                coordinator,
                output_directory: output_directory.clone(),
                inputs: sender.clone(),
            })
        });
        let posts = posts.collect();
        let config = Config {
            incarnation: Incarnation(incarnation),
            slots,
            labels,
            output_directory: output_directory.clone(),
            output_bytes_max,
            path: PATH.to_owned(),
            policy,
        };
        Ok(Shell {
            _directory: directory,
            _supervisor: supervisor,
            core: Agent::new(config, Rules::all()),
            inputs,
            sender: sender.clone(),
            runner,
            posts,
            connections: BTreeMap::new(),
            last_connection: 0,
            session: None,
            tails: Tails::new(),
            renewal: Renewal::new(identity),
            host: HostNow::default(),
            profile: None,
            living,
        })
    }

    async fn run(&mut self) -> Result<(), Error> {
        let hear = |kind| {
            signal(kind).map_err(|source| Error::Kernel {
                what: "its signals",
                source,
            })
        };
        let mut terminate = hear(SignalKind::terminate())?;
        let mut interrupt = hear(SignalKind::interrupt())?;
        if let Runner::Noop(noop) = &self.runner {
            let table = noop.table();
            self.core.handle_supervisor_up(table, clock::now());
        }
        // The first dials do not wait.
        for coordinator in self.coordinators() {
            self.dial(coordinator, Duration::ZERO);
        }
        loop {
            let idle = self.idle();
            tokio::select! {
                biased;
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = tokio::time::sleep(idle) => self.core.handle_tick(clock::now()),
                Some(input) = self.inputs.recv() => self.take(input),
            }
            self.obey();
            self.count_living();
            self.note_session();
            self.redial();
            self.keep_certificates_good();
        }
        tracing::info!("the agent stops; its attempts stay with the supervisor");
        self.core.handle_stop(clock::now());
        let last = self.hand_in_last_receipts();
        if tokio::time::timeout(LAST_RECEIPTS_MAX, last).await.is_err() {
            tracing::info!("receipts are not acknowledged; the supervisor keeps them");
        }
        let open = std::mem::take(&mut self.connections).into_values();
        let farewells = open.map(|open| async move {
            open.connection.shutdown("the agent was told to stop").await;
        });
        let farewells = farewells.collect::<JoinSet<()>>().join_all();
        if tokio::time::timeout(FAREWELL_MAX, farewells).await.is_err() {
            tracing::debug!("a coordinator was not told");
        }
        if let Runner::Noop(noop) = &mut self.runner {
            noop.finish();
        }
        Ok(())
    }

    fn count_living(&self) {
        let living = self.core.attempts().count();
        self.living
            .send_if_modified(|told| std::mem::replace(told, living) != living);
    }

    /// Until every receipt is acknowledged and nothing more comes in.
    async fn hand_in_last_receipts(&mut self) {
        loop {
            self.obey();
            match tokio::time::timeout(LAST_RECEIPTS_QUIET, self.inputs.recv()).await {
                Ok(Some(input)) => self.handle(input),
                Err(_) if !self.core.is_settled() => self.core.handle_tick(clock::now()),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// How long the core may be left alone. Tokio's clock stands still in a suspend, so no sleep
    /// is long: what fell due meanwhile is noticed within a moment of waking.
    fn idle(&self) -> Duration {
        let Some(at) = self.core.poll_timeout() else {
            return SLEEP_LONGEST;
        };
        let left = (at - clock::now().boot).0;
        Duration::from_millis(left.try_into().unwrap_or(0)).min(SLEEP_LONGEST)
    }

    /// Handles an input and those that have come up behind it. What the core decides on each is
    /// carried out before the next: a launch goes to the supervisor that it was meant for, not to
    /// one that the next input brings.
    fn take(&mut self, first: Input) {
        self.handle(first);
        for _ in 1..INPUTS_TAKEN_MAX {
            self.obey();
            let Ok(input) = self.inputs.try_recv() else {
                return;
            };
            self.handle(input);
        }
    }

    fn handle(&mut self, input: Input) {
        let now = clock::now();
        match input {
            Input::SupervisorUp { table, requests } => {
                tracing::info!(
                    supervisor = table.incarnation.0,
                    swept = table.swept,
                    attempts = table.attempts.len(),
                    "the supervisor answers"
                );
                self.runner = Runner::Supervisor(Some(requests));
                self.core.handle_supervisor_up(table, now);
            }
            Input::SupervisorDown => {
                self.runner = Runner::Supervisor(None);
                self.core.handle_supervisor_down(now);
            }
            Input::Supervisor(event) => self.core.handle_supervisor(event, now),
            Input::Connected {
                id,
                outgoing,
                connection,
            } => {
                let Some(coordinator) = self.dialled(id) else {
                    return;
                };
                self.posts[coordinator.0].told.clear();
                let open = Open {
                    coordinator,
                    since: Instant::now(),
                    outgoing,
                    replace_at: renewal::replace_at(&connection, now.wall),
                    connection,
                };
                self.connections.insert(id, open);
                self.core.handle_connected(id, coordinator, now);
            }
            Input::Message { id, message } => {
                if let CoordinatorBody::Start { token, work, .. } = &message.body {
                    tracing::debug!(
                        job = %work.job,
                        fire_time = %work.fire_time,
                        shard = work.shard,
                        %token,
                        "asked to start an attempt"
                    );
                }
                self.core.handle_message(id, message, now);
            }
            Input::Disconnected { id, why } => {
                self.core.handle_disconnected(id, now);
                self.note_disconnected(id, why);
            }
            Input::Tail { token, tail } => self.core.handle_tail(token, tail, now),
            Input::Host(part) => {
                // Clock, health and load are looked at apart.
                let HostNow {
                    clock,
                    health,
                    load,
                } = part;
                self.host = HostNow {
                    clock: clock.or(self.host.clock.take()),
                    health: health.or(self.host.health.take()),
                    load: load.or(self.host.load),
                };
                self.core.handle_host(self.host.clone(), now);
            }
            Input::Profile { profile, occasion } => {
                let digest = profile.digest;
                self.profile = Some(profile);
                self.core.handle_profile(digest, occasion, now);
            }
            Input::Registered { id, digest, end } => {
                self.core.handle_registered(id, digest, end, now);
            }
            Input::Disk(full) => self.core.handle_disk(full, now),
            Input::Renewed(renewed) => self.renewal.note(renewed, now.wall),
        }
    }

    /// Carries out what the core has decided, until it wants nothing more.
    fn obey(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Send {
                    connection,
                    message,
                } => self.send(connection, message),
                Action::Disconnect { connection, reason } => {
                    match reason {
                        DisconnectReason::Superseded => {
                            tracing::info!(connection = connection.0, %reason, "closing a connection");
                        }
                        _ => {
                            tracing::warn!(connection = connection.0, %reason, "closing a connection");
                        }
                    }
                    if let Some(open) = self.forget(connection) {
                        let pause = reason.pause().0.try_into().unwrap_or(0);
                        self.posts[open.coordinator.0].pause = Duration::from_millis(pause);
                        open.connection.close(&reason.to_string());
                    }
                }
                Action::Supervise(request) => self.supervise(request),
                Action::Register { connection, digest } => self.register(connection, digest),
                Action::ReadTail { token, output } => {
                    let (tails, sender) = (self.tails.clone(), self.sender.clone());
                    tokio::spawn(async move {
                        let tail = tails.read(output.into()).await;
                        // Nobody listens any more when the agent is stopping.
                        let _ = sender.send(Input::Tail { token, tail }).await;
                    });
                }
            }
        }
    }

    fn register(&mut self, id: ConnectionId, digest: ProfileDigest) {
        let profile = self.profile.clone();
        let profile = profile.filter(|profile| profile.digest == digest);
        let open = self
            .connections
            .get(&id)
            .map(|open| open.connection.clone());
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let end = match open.zip(profile) {
                Some((connection, profile)) => registration::register(connection, profile).await,
                None => Registered::Failed,
            };
            // Nobody listens any more when the agent is stopping.
            let _ = sender.send(Input::Registered { id, digest, end }).await;
        });
    }

    fn send(&mut self, id: ConnectionId, message: AgentMessage) {
        match &message {
            AgentMessage::Attach(attach) => {
                tracing::info!(attempts = attach.attempts.len(), "attaching");
            }
            AgentMessage::Receipt(receipt) => {
                let (token, end) = (receipt.token, &receipt.end);
                let outcome = end.outcome.as_str();
                let reason = end.reason.as_deref();
                // What goes well is the ledger's to tell of; a busy host would drown in it.
                if end.outcome == AttemptOutcome::Succeeded {
                    tracing::debug!(%token, "sending the receipt of a success");
                } else {
                    tracing::info!(%token, outcome, reason, "sending a receipt");
                }
            }
            _ => {}
        }
        let Some(open) = self.connections.get(&id) else {
            return;
        };
        if open.outgoing.try_send(message).is_err() {
            // Its task is about to say so, or the network has taken nothing for very long.
            tracing::warn!(connection = id.0, "a connection takes no more messages");
            open.connection.close("the agent's messages pile up");
            self.forget(id);
            self.core.handle_disconnected(id, clock::now());
        }
    }

    fn supervise(&mut self, request: Request) {
        if let Request::Kill { token, cause } = &request {
            tracing::warn!(%token, ?cause, "killing an attempt");
        }
        let now = clock::now();
        let requests = match &mut self.runner {
            Runner::Supervisor(requests) => requests,
            Runner::Noop(noop) => {
                let Some(event) = noop.answer(request, now.wall) else {
                    return;
                };
                let takes = noop.takes();
                if takes.is_zero() {
                    self.core.handle_supervisor(event, now);
                } else {
                    let sender = self.sender.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(takes).await;
                        // Nobody listens any more when the agent is stopping.
                        let _ = sender.send(Input::Supervisor(event)).await;
                    });
                }
                return;
            }
        };
        let sent = requests.as_ref().map(|r| r.try_send(request).is_ok());
        if sent != Some(true) {
            // Giving the queue up makes the link's task close the line and dial again; the table
            // it comes back with tells what was and what was not read.
            *requests = None;
            self.core.handle_supervisor_down(now);
        }
    }

    fn note_session(&mut self) {
        let session = self.core.session();
        if session == self.session {
            return;
        }
        self.session = session;
        if let Some(session) = session {
            tracing::info!(%session, "attached");
        }
    }

    fn coordinators(&self) -> impl Iterator<Item = CoordinatorId> + use<> {
        (0..self.posts.len()).map(CoordinatorId)
    }

    /// The coordinator that was being dialled with this connection, and is so no more.
    fn dialled(&mut self, id: ConnectionId) -> Option<CoordinatorId> {
        let mut posts = self.posts.iter_mut().enumerate();
        let (place, post) = posts.find(|(_, post)| post.under_way == Some(id))?;
        post.under_way = None;
        Some(CoordinatorId(place))
    }

    fn forget(&mut self, id: ConnectionId) -> Option<Open> {
        let open = self.connections.remove(&id)?;
        self.posts[open.coordinator.0].note_end(open.since.elapsed());
        Some(open)
    }

    /// A dial has failed, or a connection is over.
    fn note_disconnected(&mut self, id: ConnectionId, why: String) {
        let ended = self.forget(id).map(|open| open.coordinator);
        let Some(coordinator) = ended.or_else(|| self.dialled(id)) else {
            return;
        };
        if ended.is_some() && self.core.has_line_to(coordinator) {
            // Another has taken its place.
            tracing::debug!(connection = id.0, why, "a connection is over");
            return;
        }
        let post = &mut self.posts[coordinator.0];
        if ended.is_some() || why != post.told {
            let coordinator = &post.line.coordinator;
            tracing::warn!(
                coordinator,
                connection = id.0,
                why,
                "no connection to a coordinator"
            );
            post.told = why;
        }
    }

    fn redial(&mut self) {
        for coordinator in self.coordinators() {
            let post = &mut self.posts[coordinator.0];
            if post.under_way.is_some() || self.core.has_line_to(coordinator) {
                continue;
            }
            let random = getrandom::u32().unwrap_or_else(|error| {
                // Then this host's waits are not spread, which is no reason to stay away.
                tracing::warn!(%error, "no random number for the backoff");
                u32::MAX
            });
            let wait = post.backoff.wait(random).max(post.pause);
            self.dial(coordinator, wait);
        }
    }

    /// Renews this host's certificate, and makes connections anew that rest on one that will end.
    fn keep_certificates_good(&mut self) {
        let now = clock::now().wall;
        let attached = self.core.attached_on();
        if self.renewal.is_due(now)
            && let Some(open) = attached.and_then(|id| self.connections.get(&id))
        {
            let connection = open.connection.clone();
            self.renewal.begin(connection, self.sender.clone());
        }
        let mut replaced = BTreeSet::new();
        for open in self.connections.values_mut() {
            let post = &self.posts[open.coordinator.0];
            if now >= open.replace_at && post.under_way.is_none() {
                // It may still rest on the same when it is made anew; nobody dials in a circle.
                open.replace_at = now + open.connection.lifetime().renews_again_after();
                replaced.insert(open.coordinator);
            }
        }
        for coordinator in replaced {
            self.dial(coordinator, Duration::ZERO);
        }
    }

    fn dial(&mut self, coordinator: CoordinatorId, pause: Duration) {
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        let post = &mut self.posts[coordinator.0];
        post.pause = Duration::ZERO;
        post.under_way = Some(id);
        tokio::spawn(coordinator_link::run(Arc::clone(&post.line), id, pause));
    }
}

pub(crate) fn redial_backoff() -> Backoff {
    Backoff::new(REDIAL_SHORTEST, REDIAL_FIRST, REDIAL_LONGEST)
}

/// Two agents on one supervisor would kill each other's attempts, and take from each other the word
/// of how they ended. It may be started after its agent, so its directory may have to be made.
fn take_supervisor(directory: &Path) -> Result<Flock<File>, Error> {
    lock::take_in(directory, 0o711, supervisor::AGENT_LOCK).map_err(|refused| match refused {
        Refused::Held { pid } => Error::SupervisorTaken {
            directory: directory.to_owned(),
            pid,
        },
        Refused::Failed(source) => Error::Directory {
            path: directory.to_owned(),
            source,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_has_one_agent_and_the_second_is_told_which() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("supervisor");
        let first = take_supervisor(&directory).unwrap();
        let refused = take_supervisor(&directory).err().unwrap().to_string();
        let pid = std::process::id();
        assert!(
            refused.contains(&format!("has an agent already (process {pid})")),
            "{refused}"
        );
        drop(first);
        take_supervisor(&directory).unwrap();
    }
}
