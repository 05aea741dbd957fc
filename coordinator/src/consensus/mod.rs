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
//! `start` is how a member begins, `propose` what becomes of a batch, `lead` who has the lead and what
//! that is worth, and `changes` who the members are.
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
//! `network` is how the members speak to each other, and `others` what is known by that.

mod changes;
mod checkpoints;
mod fail;
mod form;
mod founding;
mod lead;
mod log_store;
mod network;
mod others;
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

use std::error::Error;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ledger::Store;
use openraft::Raft;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use changes::change_error;
use network::Network;
use snapshots::Snapshots;
use state::{State, StateThread};
use types::Types;

pub use changes::ChangeError;
pub use form::FormError;
pub use founding::{Begin, FoundingError};
pub use lead::{Leadership, NotConfirmed, Progress};
pub use network::{
    Candidate, Condition, MeetError, NetworkError, NotRenewed, Peer, PeerClock, PeersAt, Stranger,
};
pub use propose::ProposeError;
pub use reserve::Room;
pub use snapshots::KeepError;
pub use start::{GroupError, GroupOptions, Timers};
pub use types::{Facts, Member, StoreId, StoreIdError};

/// How long the files may take to be closed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

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
    /// Since when the log is being written, while it is.
    writing: watch::Receiver<Option<Instant>>,
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

    /// How much room there is on the disk; nobody has looked before the first change.
    pub fn room(&self) -> watch::Receiver<Room> {
        self.room.clone()
    }

    /// For how long the write to the log that is under way has been so. A disk that is well takes
    /// milliseconds; while one hangs nothing is applied here, whatever the others have.
    pub fn log_waits(&self) -> Duration {
        self.writing
            .borrow()
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// How fast a lost leader is noticed.
    pub fn timers(&self) -> Timers {
        self.timers
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
