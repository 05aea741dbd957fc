//! The replicated log under the ledger: the only module that names openraft.
//!
//! A [`Group`] is this node's part in it. A batch of commands becomes one entry of the log; when a
//! quorum has it on disk, every member applies it to its ledger, and whoever proposed it gets the
//! outcomes. With one voter the quorum is this node, and everything else is the same.
//!
//! ```text
//!  propose ─▶ openraft ─▶ log thread: log.db, synced ─▶ committed ─▶ ledger thread: ledger.db ─▶ outcomes
//!                            ▲                                          ▲
//!                            └──────────── checkpoint thread ───────────┘
//! ```
//!
//! Disk: `log_store` and `state` are the two halves of openraft's contract over the files of
//! [`ledger::log`] and [`ledger::replica`]; `form` is what stands in them; `checkpoints`,
//! `snapshots` and `retention` keep them bounded. `witness` is what a member without business does
//! for the others.
//!
//! **A group begins with one voter** that already stands somewhere: its ledger as it is becomes
//! entry 0, which is purged from the beginning. So a ledger with years of history and an empty one
//! begin in the same way, and whoever joins later is given a snapshot, never a log that begins after
//! the state it would be applied to.
//!
//! **What is said of leadership here is not "I may act".** A leader that is cut off does not know it
//! yet; only a quorum confirmed after the moment in question, and the epoch that the ledger hands
//! out, are safe to act on.
//!
//! `network` is how the members speak to each other.

mod checkpoints;
mod fail;
mod form;
mod founding;
mod log_store;
mod network;
mod reserve;
mod retention;
mod snapshots;
mod state;
#[cfg(test)]
mod tests;
mod types;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use futures_util::future;
use ledger::log::{LogError, LogFile, Position};
use ledger::wal::CheckpointError;
use ledger::{Outcome, Proposal, Refusal, Store, StoreError};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::network::{NetSnapshot, RaftNetworkFactory};
use openraft::{ChangeMembers, Config, Raft, ReadPolicy, ServerState, SnapshotPolicy};
use protocol::Rules;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use transport::Role;

use crate::exit::{self, LEDGER_FAILED};

use checkpoints::Checkpoints;
use log_store::{LogStore, LogWriter};
use network::Network;
use retention::{Limits, Plan, Retention, Standing};
use snapshots::{SnapshotFile, Snapshots};
use state::{LedgerKeeper, State, StateThread, Whole};
use types::{Batch, Leader, Types};

pub use form::FormError;
pub use founding::{Begin, FoundingError};
pub use network::{Candidate, MeetError, NetworkError, Peer, PeerClock, PeersAt, Stranger};
pub use reserve::Room;
pub use snapshots::KeepError;
pub use types::{Facts, Member, StoreId, StoreIdError};

/// Entries sent to another member in one message; each may hold thousands of commands.
const ENTRIES_A_MESSAGE: u64 = 16;

/// Bytes of one entry, but for a single command that has more.
const ENTRY_BYTES_MAX: usize = 2 << 20;

/// Entries by which a member may be behind before it is sent a snapshot instead.
const ENTRIES_BEHIND_MAX: u64 = 100_000;

/// How long the files may take to be closed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How fast a lost leader is noticed. The same on all members: each grants the leader its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
}

impl Timers {
    /// For a quiet network and quick disks.
    pub fn fast() -> Timers {
        Timers {
            heartbeat: Duration::from_millis(50),
            election_min: Duration::from_millis(150),
            election_max: Duration::from_millis(300),
        }
    }
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(600),
        }
    }
}

/// Everything a member must be told.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// This node's number in the group; never given to another, or to this one with another disk.
    pub node: u64,
    pub ledger: PathBuf,
    pub log: PathBuf,
    /// A directory of its own.
    pub snapshots: PathBuf,
    /// A file that holds room on the disk.
    pub reserve: PathBuf,
    pub begin: Begin,
    pub timers: Timers,
    /// What this node says of itself.
    pub own: Facts,
    /// Where it speaks to the others; without, it can only be alone.
    pub peers: Option<PeersAt>,
}

impl GroupOptions {
    /// The files of a member, by their names in its data directory.
    pub fn in_directory(directory: &Path, node: u64, begin: Begin) -> GroupOptions {
        GroupOptions {
            node,
            ledger: directory.join(crate::LEDGER_FILE),
            log: directory.join("log.db"),
            snapshots: directory.join("snapshots"),
            reserve: directory.join("reserve"),
            begin,
            timers: Timers::default(),
            own: Facts {
                speaks: ledger::COMMANDS_VERSION,
                ..Facts::default()
            },
            peers: None,
        }
    }
}

/// Why a member did not start.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("drawing an id for the store")]
    Random(#[source] getrandom::Error),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Ledger(#[from] StoreError),
    #[error(transparent)]
    Founding(#[from] FoundingError),
    #[error(transparent)]
    Snapshots(#[from] KeepError),
    #[error(transparent)]
    Checkpoints(#[from] CheckpointError),
    #[error(transparent)]
    Network(#[from] Box<NetworkError>),
    #[error("the timers of the group do not fit together: {what}")]
    Timers { what: String },
    #[error("starting the thread `{name}`")]
    Thread {
        name: &'static str,
        source: io::Error,
    },
    #[error("starting consensus: {what}")]
    Start { what: String },
}

fn start_error(error: impl fmt::Display) -> GroupError {
    GroupError::Start {
        what: error.to_string(),
    }
}

/// Why a batch has no outcomes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nothing of it was or will be done.
    #[error("this node does not lead{}", of_leader(*.leader))]
    NotLeading { leader: Option<u64> },
    /// It may have been done, or be done yet, under another leader.
    #[error("this node lost the lead before it knew what became of the batch")]
    Unknown,
    /// As `Unknown`; and this node will say no more.
    #[error("this node has stopped")]
    Stopped,
}

fn propose_error(error: &ClientWriteError<Types>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(to) => ProposeError::NotLeading {
            leader: to.leader_id,
        },
        _ => ProposeError::Unknown,
    }
}

fn of_leader(leader: Option<u64>) -> String {
    leader.map_or_else(String::new, |leader| format!("; node {leader} does"))
}

/// Who leads, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// This node does. No licence to act: see the module.
    pub leads: bool,
    pub leader: Option<u64>,
    pub term: u64,
}

/// No quorum has answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no quorum has confirmed that this node leads")]
pub struct NotConfirmed;

/// A change of the group that was not made.
#[derive(Debug, thiserror::Error)]
#[error("changing the group: {what}")]
pub struct ChangeError {
    what: String,
}

fn change_error(error: impl fmt::Display) -> ChangeError {
    ChangeError {
        what: error.to_string(),
    }
}

/// This node's part in the group.
pub struct Group {
    raft: Raft<Types, State>,
    node: u64,
    timers: Timers,
    store: StoreId,
    snapshots: Snapshots,
    /// None where a test models the network.
    network: Option<Network>,
    leadership: watch::Receiver<Leadership>,
    room: watch::Receiver<Room>,
    state: StateThread,
    tasks: Vec<AbortHandle>,
    /// Dropped to end the checkpoints.
    checkpointing: mpsc::Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// Those who work on the files, each apart from the others.
struct Workers {
    log: LogWriter,
    ledger: LedgerKeeper,
    checkpoints: Checkpoints,
    /// Whose other end is dropped when there is nothing more to carry home.
    stop: mpsc::Receiver<()>,
}

impl Workers {
    /// Gives each a thread of its own.
    fn start(self) -> Result<Vec<JoinHandle<()>>, GroupError> {
        let Workers {
            log,
            ledger,
            checkpoints,
            stop,
        } = self;
        Ok(vec![
            spawn("log", move || log.run())?,
            spawn("ledger", move || ledger.run())?,
            spawn("checkpoints", move || checkpoints.run(&stop))?,
        ])
    }
}

impl Group {
    /// Opens the files and takes part. Needs a tokio runtime with time around it, here and as long
    /// as it lives. An error of a file later on ends the process.
    pub async fn start(options: GroupOptions) -> Result<Group, GroupError> {
        let network = Network::bind(options.node, options.own.clone(), options.peers.as_ref())
            .map_err(Box::new)?;
        let known = network.clone();
        let network_of = move |store| {
            known.set_store(store);
            known
        };
        let mut group =
            Group::start_with(options, network_of, Limits::default(), Workers::start).await?;
        let serving = network.serve(&group.raft, &group.snapshots, group.leadership.clone());
        group.tasks.extend(serving);
        group.network = Some(network);
        Ok(group)
    }

    /// Takes part by a network that is made once it is known which store this is, with any limits
    /// and any way to have the files worked on.
    async fn start_with<N>(
        options: GroupOptions,
        network: impl FnOnce(StoreId) -> N,
        limits: Limits,
        start: impl FnOnce(Workers) -> Result<Vec<JoinHandle<()>>, GroupError>,
    ) -> Result<Group, GroupError>
    where
        N: RaftNetworkFactory<Types>,
        N::Network: NetSnapshot<Types, SnapshotData = SnapshotFile>,
    {
        let witness = options.own.role == Role::Witness;
        let config = config(options.timers, witness)?;
        reserve::keep(&options.reserve);
        let new_store = StoreId::draw().map_err(GroupError::Random)?;
        let mut log = LogFile::open(&options.log, &new_store.to_string())?;
        let mut store = Store::open_replica(&options.ledger, Rules::all())?;
        let snapshots = Snapshots::open(&options.snapshots, &options.ledger)?;
        snapshots.verify_ahead_of(store.applied()?.position)?;
        let founded = founding::settle(&options, &mut log, &mut store, snapshots.reached())?;

        let whole = Whole::default();
        let (checkpoints, checkpointed) =
            Checkpoints::open(&options.ledger, &options.log, Arc::clone(&whole))?;
        let (log_store, log) = LogStore::open(log, &options.log)?;
        let (state, ledger) = State::new(store, snapshots.clone(), whole, log_store.synced());
        let (checkpointing, stop) = mpsc::channel();
        let threads = start(Workers {
            log,
            ledger,
            checkpoints,
            stop,
        })?;
        let thread = state.thread();
        let log_bytes = log_store.clone();
        let network = network(founded.store);
        let raft = Raft::new(options.node, config, network, log_store, state)
            .await
            .map_err(start_error)?;
        if founded.alone {
            // Nobody else could lead, so there is nobody to wait for.
            let elected = raft.trigger().elect(false).await;
            elected.map_err(start_error)?;
        }
        let (leadership, following) = follow_leadership(&raft);
        let retention = Retention::new(limits);
        let kept = snapshots.clone();
        let retaining = retain(raft.clone(), log_bytes, kept, checkpointed, retention);
        let (say_room, room) = watch::channel(Room::default());
        let mut tasks = vec![
            following,
            tokio::spawn(retaining).abort_handle(),
            tokio::spawn(reserve::watch(options.reserve, say_room)).abort_handle(),
            tokio::spawn(end_with(raft.clone())).abort_handle(),
        ];
        if witness {
            let watching = witness::watch(raft.clone(), options.timers);
            tasks.push(tokio::spawn(watching).abort_handle());
        }
        Ok(Group {
            raft,
            node: options.node,
            timers: options.timers,
            store: founded.store,
            snapshots,
            network: None,
            leadership,
            room,
            state: thread,
            tasks,
            checkpointing,
            threads,
        })
    }

    pub fn node(&self) -> u64 {
        self.node
    }

    /// The id of this node's store, by which it is a member.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// Puts a batch into the log and waits for what becomes of it: an outcome for each command, in
    /// order. Batches are applied in the order in which they are proposed, each as one transaction;
    /// what is too large for one entry becomes several. A command that a member does not know is
    /// refused, and not proposed.
    pub async fn propose(&self, batch: Arc<[Proposal]>) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_what_all_know(None, batch).await
    }

    /// As [`Group::propose`], but only while this node leads in this term: who lost the lead and has
    /// it again decided from a state that others have changed.
    pub async fn propose_in(
        &self,
        term: u64,
        batch: Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_what_all_know(Some(term), batch).await
    }

    async fn propose_what_all_know(
        &self,
        term: Option<u64>,
        batch: Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let speaks = self.speaks();
        let known = |proposal: &Proposal| proposal.command.version() <= speaks;
        if batch.iter().all(known) {
            return self.write(term, batch).await;
        }
        let heard: Arc<[Proposal]> = batch.iter().filter(|it| known(it)).cloned().collect();
        let written = if heard.is_empty() {
            Vec::new()
        } else {
            self.write(term, heard).await?
        };
        let mut written = written.into_iter();
        let outcomes = batch.iter().filter_map(|proposal| {
            if known(proposal) {
                return written.next();
            }
            let needs = proposal.command.version();
            Some(Outcome {
                result: Err(Refusal::NotKnownToAll { needs, speaks }),
                changes: Vec::new(),
            })
        });
        Ok(outcomes.collect())
    }

    async fn write(
        &self,
        term: Option<u64>,
        proposals: Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let batches = form::cut(proposals, ENTRY_BYTES_MAX);
        // In the order in which they are polled first, and all of them at once.
        let written = batches.into_iter().map(|it| self.write_entry(term, it));
        let written = future::join_all(written).await;
        let refused = |it: &Result<_, _>| matches!(it, Err(ProposeError::NotLeading { .. }));
        let of_nothing = written.iter().all(refused);
        let mut outcomes = Vec::new();
        for written in written {
            outcomes.extend(written.map_err(|error| match error {
                // Not of this part, but of the one before it.
                ProposeError::NotLeading { .. } if !of_nothing => ProposeError::Unknown,
                error => error,
            })?);
        }
        Ok(outcomes)
    }

    async fn write_entry(
        &self,
        term: Option<u64>,
        batch: Batch,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let (responder, answered) = ProgressResponder::complete_only();
        let mut written = self.raft.write(batch).responder(responder);
        if let Some(term) = term {
            let node_id = self.node;
            written = written.with_leader(Leader { term, node_id });
        }
        if written.await.is_err() {
            return Err(ProposeError::Stopped);
        }
        match answered.await {
            Ok(Ok(written)) => Ok(written.data.0),
            Ok(Err(error)) => Err(propose_error(&error)),
            Err(_) => Err(ProposeError::Stopped),
        }
    }

    /// Who leads; changes are seen in order, and some may be passed over.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// How much room there is on the disk; nobody has looked before the first change.
    pub fn room(&self) -> watch::Receiver<Room> {
        self.room.clone()
    }

    /// Has a quorum confirm that this node leads, in a round that begins after this call; answers in
    /// which term. On return everything that was committed by then is applied here.
    ///
    /// `ReadIndex` takes nothing that was heard before: of what a quorum has answered it counts only
    /// answers to what was sent after the call.
    pub async fn confirm(&self, limit: Duration) -> Result<u64, NotConfirmed> {
        let round = self.raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match timeout(limit, round).await {
            Ok(Ok(confirmed)) => Ok(confirmed.committed_leader_id().term),
            Ok(Err(_)) | Err(_) => Err(NotConfirmed),
        }
    }

    /// Begins to hand the lead to another voter, that has everything. Whoever calls has stopped
    /// acting before, and looks at [`Group::leadership`] for what becomes of it.
    pub async fn transfer(&self, to: u64) -> Result<(), ChangeError> {
        let transfer = self.raft.trigger().transfer_leader(to).await;
        transfer.map_err(change_error)
    }

    /// The members, and which of them vote.
    pub fn members(&self) -> (BTreeMap<u64, Member>, BTreeSet<u64>) {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let members = &metrics.membership_config;
        let nodes = members
            .nodes()
            .map(|(node, member)| (*node, member.clone()));
        (nodes.collect(), members.voter_ids().collect())
    }

    /// The other members as this node knows them: whether it reaches them, what they say of
    /// themselves, how their clocks stand, and on the leader how far their logs have come.
    pub fn peers(&self) -> BTreeMap<u64, Peer> {
        let mut peers = self
            .network
            .as_ref()
            .map(Network::peers)
            .unwrap_or_default();
        let metrics = self.raft.metrics();
        if let Some(replication) = &metrics.borrow_watched().replication {
            for (node, peer) in &mut peers {
                let matched = replication.get(node).copied().flatten();
                peer.matched = matched.map(|at| at.index);
            }
        }
        peers
    }

    /// Machines that are no members and would speak to this one, and why they were turned away.
    pub fn strangers(&self) -> Vec<Stranger> {
        let network = self.network.as_ref();
        network.map(Network::strangers).unwrap_or_default()
    }

    /// The newest commands that every member knows, by [`ledger::COMMANDS_VERSION`]; a newer one is
    /// not proposed.
    pub fn speaks(&self) -> u32 {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.nodes();
        let spoken = members.map(|(_, member)| member.facts.speaks);
        // Whoever is no member yet proposes nothing.
        spoken.min().unwrap_or(ledger::COMMANDS_VERSION)
    }

    /// Asks the machine at an address (`host:port`) who it is, so that it may be added.
    pub async fn meet(&self, address: &str) -> Result<Candidate, MeetError> {
        match &self.network {
            Some(network) => network.meet(address, self.speaks()).await,
            None => Err(MeetError::no_network(address)),
        }
    }

    /// By how many entries a member is behind this node, which leads; `None` where this node does
    /// not, or has not heard of the member yet.
    pub fn behind(&self, node: u64) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = (*metrics.replication.as_ref()?.get(&node)?)?;
        Some(metrics.last_log_index?.saturating_sub(matched.index))
    }

    /// How fast a lost leader is noticed.
    pub fn timers(&self) -> Timers {
        self.timers
    }

    /// Lets a node follow without a vote, and waits until it has caught up.
    pub async fn add(&self, node: u64, member: Member) -> Result<(), ChangeError> {
        let added = self.raft.add_learner(node, member, true).await;
        added.map(|_| ()).map_err(change_error)
    }

    /// Changes who votes. Whoever no longer does is no member any more.
    pub async fn set_voters(&self, voters: BTreeSet<u64>) -> Result<(), ChangeError> {
        let changed = self.raft.change_membership(voters, false).await;
        changed.map(|_| ()).map_err(change_error)
    }

    /// Takes a member out that has no vote.
    pub async fn forget(&self, node: u64) -> Result<(), ChangeError> {
        let without = ChangeMembers::RemoveNodes(BTreeSet::from([node]));
        let changed = self.raft.change_membership(without, false).await;
        changed.map(|_| ()).map_err(change_error)
    }

    /// Has the ledger looked at between two batches, by the thread that owns it. Keep it short: the
    /// next batch waits.
    pub async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> io::Result<T> {
        self.state.look(question).await
    }

    /// Makes a snapshot of the ledger as it is now, or a little later.
    pub async fn snapshot(&self) -> Result<(), ChangeError> {
        let triggered = self.raft.trigger().snapshot().await;
        triggered.map_err(change_error)
    }

    /// Takes part no longer, and closes the files.
    pub async fn stop(self) -> io::Result<()> {
        let Group {
            raft,
            state,
            network,
            tasks,
            checkpointing,
            threads,
            ..
        } = self;
        for task in tasks {
            task.abort();
        }
        if let Some(network) = network {
            network.close().await;
        }
        raft.shutdown().await.map_err(io::Error::other)?;
        drop((raft, state, checkpointing));
        let joined = tokio::task::spawn_blocking(|| {
            // A panic has been told on its thread's way out.
            threads.into_iter().all(|thread| thread.join().is_ok())
        });
        match timeout(STOP_LIMIT, joined).await {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err(io::Error::other("a thread of the group has panicked")),
            Err(_) => Err(io::Error::other(
                "the files of the group are not closed in time",
            )),
        }
    }
}

fn config(timers: Timers, witness: bool) -> Result<Arc<Config>, GroupError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: "matins".to_owned(),
        heartbeat_interval: millis(timers.heartbeat),
        election_timeout_min: millis(timers.election_min),
        election_timeout_max: millis(timers.election_max),
        max_payload_entries: ENTRIES_A_MESSAGE,
        replication_lag_threshold: ENTRIES_BEHIND_MAX,
        // What is purged and when a snapshot is made is decided in `retention`.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_pre_vote: Some(true),
        // A witness has a watchdog for that.
        enable_elect: !witness,
        // A leader that comes back at once must be elected again, and begin a reign of its own.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    let config = config.validate().map_err(|error| GroupError::Timers {
        what: error.to_string(),
    })?;
    Ok(Arc::new(config))
}

fn spawn(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, GroupError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| GroupError::Thread { name, source })
}

/// Has files worked on by a thread that may wait.
async fn on_disk<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> io::Result<T>
where
    T: Send + 'static,
    E: Error + Send + Sync + 'static,
{
    #[cfg(test)]
    if tests::simulate::is_virtual() {
        return work().map_err(io::Error::other);
    }
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
        .map_err(io::Error::other)
}

fn follow_leadership(raft: &Raft<Types, State>) -> (watch::Receiver<Leadership>, AbortHandle) {
    let (say, heard) = watch::channel(Leadership::default());
    let mut metrics = raft.server_metrics();
    let follow = async move {
        loop {
            let now = {
                let metrics = metrics.borrow_watched();
                Leadership {
                    leads: metrics.state == ServerState::Leader,
                    leader: metrics.current_leader,
                    term: metrics.vote.leader_id.term,
                }
            };
            say.send_if_modified(|known| std::mem::replace(known, now) != now);
            if metrics.changed().await.is_err() {
                return;
            }
        }
    };
    (heard, tokio::spawn(follow).abort_handle())
}

/// Ends the process when openraft has ended by itself, which it does not say to who asks nothing of
/// it. Whoever stops the group stops this before.
async fn end_with(raft: Raft<Types, State>) {
    let mut metrics = raft.metrics();
    loop {
        let ended = metrics.borrow_watched().running_state.clone().err();
        if ended.is_some() || metrics.changed().await.is_err() {
            let error = ended.as_ref().map(|error| error as &dyn Error);
            exit::now(LEDGER_FAILED, "consensus has ended by itself", error);
        }
    }
}

/// Keeps the log bounded for as long as the group lives.
async fn retain(
    raft: Raft<Types, State>,
    log: LogStore,
    snapshots: Snapshots,
    checkpointed: watch::Receiver<Option<Position>>,
    mut retention: Retention,
) {
    let mut interval = tokio::time::interval(retention.look_every());
    loop {
        interval.tick().await;
        let (purged, last) = log.ends();
        let bytes = match log.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(
                    error = crate::exit::causes(&error),
                    "the log's size is unknown"
                );
                continue;
            }
        };
        let index = |position: Option<Position>| position.map(|position| position.index);
        let standing = Standing {
            purged: purged.unwrap_or(0),
            last: last.unwrap_or(0),
            bytes,
            checkpointed: index(*checkpointed.borrow()),
            snapshot: index(snapshots.reached()),
        };
        let done = match retention.plan(Instant::now(), standing) {
            Plan::Nothing => Ok(()),
            Plan::MakeSnapshot => raft.trigger().snapshot().await,
            Plan::Purge { through } => raft.trigger().purge_log(through).await,
        };
        if done.is_err() {
            // The group has ended.
            return;
        }
    }
}
