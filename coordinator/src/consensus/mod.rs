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
//! `start` is how a member begins, and `propose` what becomes of a batch.
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
mod propose;
mod reserve;
mod retention;
mod snapshots;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod types;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use ledger::Store;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, Raft, ReadPolicy};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use network::Network;
use snapshots::Snapshots;
use state::{State, StateThread};
use types::Types;

pub use form::FormError;
pub use founding::{Begin, FoundingError};
pub use network::{
    Candidate, MeetError, NetworkError, NotRenewed, Peer, PeerClock, PeersAt, Stranger,
};
pub use propose::ProposeError;
pub use reserve::Room;
pub use snapshots::KeepError;
pub use start::{GroupError, GroupOptions, Timers};
pub use types::{Facts, Member, StoreId, StoreIdError};

/// Between two tries of a change while another is under way.
const CHANGE_AGAIN: Duration = Duration::from_millis(50);

/// How long a machine may take to catch up while whoever adds it waits.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(20);

/// How long the files may take to be closed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Who leads, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// This node does. No licence to act: see the module.
    pub leads: bool,
    pub leader: Option<u64>,
    pub term: u64,
}

/// How far this node has come, in indexes of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last that a quorum has, as whoever leads said last.
    pub committed: u64,
    pub applied: u64,
}

impl Progress {
    pub fn behind(self) -> u64 {
        self.committed.saturating_sub(self.applied)
    }
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

impl Group {
    pub fn node(&self) -> u64 {
        self.node
    }

    /// The id of this node's store, by which it is a member.
    pub fn store(&self) -> StoreId {
        self.store
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

    /// The next certificate of this machine's key, from a member that has the authority's.
    pub async fn ask_for_certificate(&self) -> Result<String, NotRenewed> {
        match &self.network {
            Some(network) => network.ask_for_certificate().await,
            None => Err(NotRenewed::Nobody),
        }
    }

    /// The other members as this node knows them: whether it reaches them, what they say of
    /// themselves, and how their clocks stand.
    pub fn peers(&self) -> BTreeMap<u64, Peer> {
        let network = self.network.as_ref();
        network.map(Network::peers).unwrap_or_default()
    }

    /// Machines that are no members and would speak to this one, and why they were turned away.
    pub fn strangers(&self) -> Vec<Stranger> {
        let network = self.network.as_ref();
        network.map(Network::strangers).unwrap_or_default()
    }

    /// Whether this node was a member and is none any more: by the log, as far as it was sent that, or
    /// by the word of another member. For a moment it may seem so of one that has just been added.
    pub fn is_removed(&self) -> bool {
        self.network.as_ref().is_some_and(Network::is_removed)
    }

    /// Where the others are told to reach this node; empty where nobody has said it.
    pub fn reached_at(&self) -> &str {
        let network = self.network.as_ref();
        network.map_or("", |network| &network.facts().peers)
    }

    /// How many entries are known to be committed, and how many of them this node has applied.
    pub fn progress(&self) -> Progress {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let index = |at: &Option<types::EntryId>| at.as_ref().map_or(0, |at| at.index);
        Progress {
            committed: index(&metrics.cluster_committed),
            applied: index(&metrics.last_applied),
        }
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

    /// Lets a node follow without a vote, and waits until it has caught up; answers whether it has in
    /// time.
    pub async fn add(&self, node: u64, member: Member) -> Result<bool, ChangeError> {
        let adding = when_free(|| self.raft.add_learner(node, member.clone(), true));
        match timeout(CATCH_UP_LIMIT, adding).await {
            Ok(added) => added.map(|_| true).map_err(change_error),
            Err(_) => Ok(false),
        }
    }

    /// Changes who votes. Whoever no longer does is no member any more.
    pub async fn set_voters(&self, voters: BTreeSet<u64>) -> Result<(), ChangeError> {
        let changed = when_free(|| self.raft.change_membership(voters.clone(), false)).await;
        changed.map(|_| ()).map_err(change_error)
    }

    /// Takes a member out that has no vote.
    pub async fn forget(&self, node: u64) -> Result<(), ChangeError> {
        let without = ChangeMembers::RemoveNodes(BTreeSet::from([node]));
        let changed = when_free(|| self.raft.change_membership(without.clone(), false)).await;
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

/// Makes a change of the membership once no other is under way: the leader itself writes down what
/// members say of themselves, and a change has two halves. Waits for as long as that takes.
async fn when_free<T, F>(
    change: impl Fn() -> F,
) -> Result<T, RaftError<Types, ClientWriteError<Types>>>
where
    F: Future<Output = Result<T, RaftError<Types, ClientWriteError<Types>>>>,
{
    loop {
        match change().await {
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
                ChangeMembershipError::InProgress(_),
            ))) => sleep(CHANGE_AGAIN).await,
            changed => return changed,
        }
    }
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
