//! Who the members are, and how that is changed.
//!
//! The members stand in the log, so a change of them is an entry as any other, and a quorum agrees to
//! it. A machine follows without a vote until it has everything: a group that counted on it before would
//! wait for a machine that has nothing. One change is made at a time, and whoever wants another one
//! waits for it; the leader itself makes some, when a member says something new of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use tokio::time::{sleep, timeout};

use super::Group;
use super::network::{Candidate, MeetError};
use super::types::{Member, Types};

/// Between two tries of a change while another is under way.
const CHANGE_AGAIN: Duration = Duration::from_millis(50);

/// How long a machine may take to catch up while whoever adds it waits.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(20);

/// A change of the group that was not made.
#[derive(Debug, thiserror::Error)]
#[error("changing the group: {what}")]
pub struct ChangeError {
    what: String,
}

pub(super) fn change_error(error: impl fmt::Display) -> ChangeError {
    ChangeError {
        what: error.to_string(),
    }
}

impl Group {
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
