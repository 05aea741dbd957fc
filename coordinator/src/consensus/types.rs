//! What openraft is told about Matins, and nothing it decides by itself.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ledger::log::Position;
use ledger::{Outcome, Proposal};
use openraft::impls::leader_id_adv::LeaderId;
use openraft::{EntryPayload, LogId, Membership, StoredMembership};
use serde::{Deserialize, Serialize};
use transport::Role;

use super::snapshots::SnapshotFile;
#[cfg(test)]
use super::tests::simulate::Runtime;
#[cfg(not(test))]
use openraft_rt_tokio::TokioRuntime as Runtime;

openraft::declare_raft_types!(
    pub(super) Types:
        D = Batch,
        R = Answer,
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

pub(super) type Leader = LeaderId<u64, u64>;
pub(super) type EntryId = LogId<Leader>;
pub(super) type Payload = EntryPayload<Batch, u64, Member>;
pub(super) type LogEntry = openraft::Entry<Leader, Payload>;
pub(super) type VoteCast = openraft::Vote<Leader>;
pub(super) type SnapshotOf = openraft::Snapshot<Leader, u64, Member, SnapshotFile>;
pub(super) type Members = Membership<u64, Member>;
pub(super) type MembersAt = StoredMembership<Leader, u64, Member>;

/// What one entry of the log carries: commands that are applied in one transaction. Shared, because
/// an entry is at the same time on its way to the disk, to the ledger and to the other members; and
/// with its bytes, which are the same on all of these ways and need not be made for each.
#[derive(Clone, PartialEq)]
pub(super) struct Batch {
    pub(super) proposals: Arc<[Proposal]>,
    /// As [`super::form`] writes them.
    pub(super) written: Arc<[u8]>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Batch").field(&self.proposals).finish()
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.proposals.len())
    }
}

/// What became of a batch, one outcome for each command.
#[derive(Debug)]
pub(super) struct Answer(pub(super) Vec<Outcome>);

/// Which data directory a member keeps: drawn with its log, never again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreId(u128);

impl StoreId {
    pub(super) fn draw() -> Result<StoreId, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(StoreId(u128::from_be_bytes(bytes)))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id of a store: that is 32 hexadecimal digits")]
pub struct StoreIdError(String);

impl FromStr for StoreId {
    type Err = StoreIdError;

    fn from_str(text: &str) -> Result<StoreId, StoreIdError> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if digits => Ok(StoreId(id)),
            _ => Err(StoreIdError(text.to_owned())),
        }
    }
}

/// A member of the group, as every member knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// A node whose disk was wiped has another one, and must not vote under the old name: it has
    /// forgotten for whom it voted.
    pub store: StoreId,
    pub facts: Facts,
}

/// What a node says of itself. The leader keeps it true in the membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// As in its certificate; a group of one that never spoke to anybody has none.
    pub name: String,
    /// Coordinator or witness.
    pub role: Role,
    /// Where the other members reach it: `host:port`.
    pub peers: String,
    /// Where agents do; empty for a witness.
    pub agents: String,
    /// The address of its API, as people and programs write it; empty for a witness.
    pub api: String,
    /// Digest of the token of its own that lets whoever runs it in at the others too; empty for a
    /// witness.
    pub token: String,
    /// The newest commands that its program knows, by [`ledger::COMMANDS_VERSION`].
    pub speaks: u32,
}

impl Default for Facts {
    /// What is known of a member of whom nothing was written down: it was alone.
    fn default() -> Facts {
        Facts {
            name: String::new(),
            role: Role::Coordinator,
            peers: String::new(),
            agents: String::new(),
            api: String::new(),
            token: String::new(),
            speaks: 1,
        }
    }
}

pub(super) fn position(id: &EntryId) -> Position {
    Position {
        index: id.index,
        term: id.leader_id.term,
        node: id.leader_id.node_id,
    }
}

pub(super) fn entry_id(position: Position) -> EntryId {
    let leader = LeaderId {
        term: position.term,
        node_id: position.node,
    };
    LogId::new(leader, position.index)
}
