//! What a member finds when it starts, and whether it may take part with it.
//!
//! Log and ledger are two files, and a person, a restore or a broken disk can bring any two of them
//! together. Three mistakes would cost what a group exists for: to vote again with a log that has
//! forgotten its vote, to apply a log to a ledger that it does not belong to, and to begin a
//! second group. Each is refused here, before a vote or an entry is written.

use std::collections::BTreeMap;

use ledger::Store;
use ledger::log::{LogError, LogFile, Position};
use ledger::replica::Entry;

use super::form::{self, FormError};
use super::types::{Member, Members, StoreId, StoreIdError};
use super::{GroupError, GroupOptions};

/// How a node that has never been a member becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// As the only voter of a new group, with the ledger it has.
    Alone,
    /// By being added to a group; until then it waits, with nothing of its own.
    Join,
}

/// Files that must not take part as they are.
#[derive(Debug, thiserror::Error)]
pub enum FoundingError {
    #[error("reading the members of the group from the ledger")]
    Members(#[source] FormError),
    #[error("reading the store's id from the log")]
    Store(#[source] StoreIdError),
    #[error(
        "the log of node {node} is not the one with which it became a member (it is of the store {found}, the group knows {known}): a node that has lost its log has forgotten for whom it voted. Remove node {node} from the group, clear its data directory, and add it under a new number"
    )]
    AnotherStore {
        node: u64,
        found: StoreId,
        known: StoreId,
    },
    #[error(
        "the ledger follows a log, and the log beside it is new: the log was lost, and with it what the ledger had not yet synced. Restore a backup, or remove this node from its group and add it under a new number"
    )]
    LogLost,
    #[error(
        "the log begins after entry {purged}, and the ledger beside it has nothing before: the ledger was lost. Restore a backup, or remove this node from its group and add it under a new number"
    )]
    LedgerLost { purged: u64 },
    #[error(
        "the log begins behind a ledger of {begun} commands, and the ledger beside it holds {commands}: the ledger was lost or exchanged. Restore a backup, or remove this node from its group and add it under a new number"
    )]
    AnotherLedger { begun: i64, commands: i64 },
    #[error(
        "this node is to join a group, and its ledger already holds {commands} commands of its own: give it an empty data directory"
    )]
    NotEmpty { commands: i64 },
}

/// What a member has to do with.
pub(super) struct Founded {
    pub(super) store: StoreId,
    /// This node is the only voter.
    pub(super) alone: bool,
}

/// Where the group's own log begins: the ledger of its first voter as it was.
fn beginning(node: u64) -> Position {
    Position {
        index: 0,
        term: 0,
        node,
    }
}

pub(super) fn settle(
    options: &GroupOptions,
    log: &mut LogFile,
    store: &mut Store,
    snapshot: Option<Position>,
) -> Result<Founded, GroupError> {
    let node = options.node;
    let head = log.head()?;
    let own: StoreId = head.store.parse().map_err(FoundingError::Store)?;
    let applied = store.applied()?;
    let new_log = head.last.is_none() && head.vote.is_none();
    let members = match &applied.members {
        Some((_, bytes)) => form::read_members(bytes).map_err(FoundingError::Members)?,
        None => Members::default(),
    };
    if let Some(member) = members.get_node(&node)
        && member.store != own
    {
        return Err(FoundingError::AnotherStore {
            node,
            found: own,
            known: member.store,
        }
        .into());
    }
    let mut alone = members.voter_ids().eq([node]);
    match (applied.position, new_log, head.purged) {
        (Some(_), true, _) => return Err(FoundingError::LogLost.into()),
        (Some(_), false, _) => {}
        (None, true, _) if options.begin == Begin::Alone => {
            begin_log(log, node, store.last_applied()?)?;
            begin_ledger(store, options, own)?;
            alone = true;
        }
        // A snapshot will be put in the ledger's place, also of what was there before the log.
        (None, false, Some(_)) if snapshot.is_some() => {}
        // The power went before the beginning was synced in the ledger too. Nothing has been purged
        // since, so that everything after it is still in the log; what was there before is not.
        (None, false, Some(purged)) if purged == beginning(node) => {
            let (begun, commands) = (head.begun_after.unwrap_or(0), store.last_applied()?);
            if begun != commands {
                return Err(FoundingError::AnotherLedger { begun, commands }.into());
            }
            begin_ledger(store, options, own)?;
            alone = true;
        }
        (None, false, Some(purged)) => {
            let purged = purged.index;
            return Err(FoundingError::LedgerLost { purged }.into());
        }
        (None, true, _) | (None, false, None) => {
            let commands = store.last_applied()?;
            if commands > 0 {
                return Err(FoundingError::NotEmpty { commands }.into());
            }
        }
    }
    Ok(Founded { store: own, alone })
}

fn begin_log(log: &mut LogFile, node: u64, commands: i64) -> Result<(), LogError> {
    let mut write = log.begin()?;
    write.begun_after(commands)?;
    write.purge(beginning(node), 1)?;
    write.commit()
}

fn begin_ledger(store: &mut Store, options: &GroupOptions, own: StoreId) -> Result<(), GroupError> {
    let member = Member {
        store: own,
        facts: options.own.clone(),
    };
    let nodes = BTreeMap::from([(options.node, member)]);
    let members =
        Members::new(vec![[options.node].into()], nodes).expect("the only voter is the only node");
    store.apply(Entry {
        at: beginning(options.node),
        batch: &[],
        members: Some(&form::write_members(&members)),
    })?;
    Ok(())
}
