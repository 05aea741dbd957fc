//! Who has the lead, and what that is worth.
//!
//! **What is said of leadership here is not "I may act".** A leader that is cut off does not know it
//! yet; only a quorum confirmed after the moment in question, and the epoch that the ledger hands
//! out, are safe to act on. So there are two words for it: [`Group::leadership`], which costs nothing
//! and may be over by now, and [`Group::confirm`], which asks.

use std::time::Duration;

use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver as _;
use tokio::sync::watch;
use tokio::time::timeout;

use super::changes::{ChangeError, change_error};
use super::{Group, types};

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

impl Group {
    /// Who leads; changes are seen in order, and some may be passed over.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
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

    /// By how many entries a member is behind this node, which leads; `None` where this node does
    /// not, or has not heard of the member yet.
    pub fn behind(&self, node: u64) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = (*metrics.replication.as_ref()?.get(&node)?)?;
        Some(metrics.last_log_index?.saturating_sub(matched.index))
    }
}
