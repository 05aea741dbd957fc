//! How a member begins: what it is told, what may keep it from taking part, and the threads and
//! tasks that work for it from then on.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use ledger::log::{LogError, LogFile};
use ledger::wal::CheckpointError;
use ledger::{Store, StoreError};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::network::{NetSnapshot, RaftNetworkFactory};
use openraft::{Config, Raft, ServerState, SnapshotPolicy};
use protocol::Rules;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use transport::Role;

use super::checkpoints::Checkpoints;
use super::founding::{self, Begin, FoundingError};
use super::log_store::{LogStore, LogWriter};
use super::network::{Network, NetworkError, PeersAt};
use super::retention::{self, Limits};
use super::snapshots::{KeepError, SnapshotFile, Snapshots};
use super::state::{LedgerKeeper, State, Whole};
use super::types::{Facts, StoreId, Types};
use super::{Group, Leadership, reserve, reserve::Room, witness};
use crate::exit::{self, LEDGER_FAILED};

/// Entries sent to another member in one message; each may hold thousands of commands.
const ENTRIES_A_MESSAGE: u64 = 16;

/// Entries by which a member may be behind before it is sent a snapshot instead.
const ENTRIES_BEHIND_MAX: u64 = 100_000;

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

/// Those who work on the files, each apart from the others.
pub(super) struct Workers {
    pub(super) log: LogWriter,
    pub(super) ledger: LedgerKeeper,
    pub(super) checkpoints: Checkpoints,
    /// Whose other end is dropped when there is nothing more to carry home.
    pub(super) stop: mpsc::Receiver<()>,
}

impl Workers {
    /// Gives each a thread of its own.
    pub(super) fn start(self) -> Result<Vec<JoinHandle<()>>, GroupError> {
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
        let serving = network.serve(
            &group.raft,
            &group.snapshots,
            group.leadership.clone(),
            group.room.clone(),
        );
        group.tasks.extend(serving);
        group.network = Some(network);
        Ok(group)
    }

    /// Takes part by a network that is made once it is known which store this is, with any limits
    /// and any way to have the files worked on.
    pub(super) async fn start_with<N>(
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
        let writing = log_store.writing();
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
        let kept = snapshots.clone();
        let retaining = retention::retain(raft.clone(), log_bytes, kept, checkpointed, limits);
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
            writing,
            state: thread,
            tasks,
            checkpointing,
            threads,
        })
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

pub(super) fn spawn(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, GroupError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| GroupError::Thread { name, source })
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
