//! A ledger with a replicated log behind it.
//!
//! Three things differ from a ledger on its own. Which entry of the log it has reached stands in the
//! same transaction as the entry's effects, so that no entry is ever applied twice or passed over.
//! A commit is not synced: what a power cut takes of it is applied again from the log, and for that
//! the log must be kept as far back as the last completed checkpoint. And the whole content may be
//! replaced by a [snapshot](crate::snapshot) of another replica.
//!
//! The members of the group are kept as bytes: what they mean is the log's matter.

use std::path::Path;

use protocol::Rules;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::command::Proposal;
use crate::log::{Position, position, position_params};
use crate::outcome::Outcome;
use crate::snapshot::{self, SnapshotError};
use crate::store::{Store, StoreError};
use crate::wal::{Checkpoint, CheckpointError, Checkpointer, Thoroughness, open_wal};

/// Raised with every change of the table; a ledger of another format is not opened.
pub(crate) const FORMAT: i64 = 1;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS replica (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    applied_index INTEGER,
    applied_term INTEGER,
    applied_node INTEGER,
    members_index INTEGER,
    members_term INTEGER,
    members_node INTEGER,
    members BLOB
) STRICT;
";

/// How far a replica has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The last entry of the log whose effects the ledger holds.
    pub position: Option<Position>,
    /// The members that the last such entry of their kind named, and where it stands.
    pub members: Option<(Position, Vec<u8>)>,
}

/// An entry of the log, as far as the ledger is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub at: Position,
    pub batch: &'a [Proposal],
    /// The members from here on, where the entry names them.
    pub members: Option<&'a [u8]>,
}

impl Store {
    /// Opens the ledger of a member of a group, or makes one. It is followed by [`Store::apply`]
    /// only; commits are synced by a [`Checkpointer`], which also bounds the write-ahead log.
    pub fn open_replica(path: &Path, rules: Rules) -> Result<Store, StoreError> {
        let named = path.display().to_string();
        let open = |source| StoreError::Open {
            path: named.clone(),
            source,
        };
        let conn = open_wal(path).map_err(open)?;
        conn.execute_batch("PRAGMA synchronous = NORMAL;")
            .map_err(open)?;
        let mut store = Store::prepare(conn, rules, named.clone())?;
        let found = prepare(store.conn_mut()).map_err(open)?;
        if found != FORMAT {
            return Err(StoreError::ReplicaFormat {
                path: named,
                found,
                known: FORMAT,
            });
        }
        Ok(store)
    }

    /// Applies one entry of the log in one transaction. An error is fatal, as in
    /// [`Store::propose`].
    pub fn apply(&mut self, entry: Entry<'_>) -> Result<Vec<Outcome>, StoreError> {
        self.write(entry.batch, Some(entry))
    }

    /// How far this replica has come.
    pub fn applied(&self) -> Result<Applied, StoreError> {
        read_applied(self.conn()).map_err(|source| StoreError::Read { source })
    }

    /// Replaces everything by what a snapshot holds: whole, or after a crash not at all. On return
    /// it is on the disk. Who reads meanwhile sees all of the old or all of the new.
    pub fn install(&mut self, from: &Path) -> Result<Applied, SnapshotError> {
        let applied = snapshot::verify(from)?;
        snapshot::replace(self.conn_mut(), from)?;
        Ok(applied)
    }
}

impl Checkpointer {
    /// As [`Checkpointer::run`], for a ledger: answers as well how far the file itself then holds
    /// the ledger's state, if the checkpoint was complete.
    pub fn run_on_replica(
        &self,
        thoroughness: Thoroughness,
    ) -> Result<(Checkpoint, Option<Position>), CheckpointError> {
        // Read first: whatever was committed by now is among what the checkpoint finds.
        let applied = read_applied(self.conn())
            .map_err(|source| CheckpointError::Read { source })?
            .position;
        let checkpoint = self.run(thoroughness)?;
        Ok((checkpoint, applied.filter(|_| checkpoint.complete)))
    }
}

/// Moves the ledger on to an entry, inside its transaction.
pub(crate) fn advance(conn: &Connection, entry: &Entry<'_>) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE replica SET applied_index = ?1, applied_term = ?2, applied_node = ?3",
    )?
    .execute(position_params(&entry.at))?;
    if let Some(members) = entry.members {
        let [index, term, node] = position_params(&entry.at);
        conn.execute(
            "UPDATE replica SET members_index = ?1, members_term = ?2, members_node = ?3,
                members = ?4",
            params![index, term, node, members],
        )?;
    }
    Ok(())
}

/// The last entry applied; `None` also where no log stands behind the ledger.
pub(crate) fn last_entry(conn: &Connection) -> rusqlite::Result<Option<Position>> {
    conn.prepare_cached("SELECT applied_index, applied_term, applied_node FROM replica")?
        .query_row([], |row| position(row, 0))
        .optional()
        .map(Option::flatten)
}

/// Whether the ledger follows a log.
pub(crate) fn is_replica(conn: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = conn.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'replica'",
        [],
        |row| row.get(0),
    )?;
    Ok(tables > 0)
}

pub(crate) fn read_applied(conn: &Connection) -> rusqlite::Result<Applied> {
    conn.prepare_cached(
        "SELECT applied_index, applied_term, applied_node, members_index, members_term,
            members_node, members FROM replica",
    )?
    .query_row([], |row| {
        let members = match position(row, 3)? {
            Some(at) => Some((at, row.get(6)?)),
            None => None,
        };
        Ok(Applied {
            position: position(row, 0)?,
            members,
        })
    })
}

pub(crate) fn read_format(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT format FROM replica", [], |row| row.get(0))
}

/// Makes the table where it is missing; answers its format.
fn prepare(conn: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLE)?;
    transaction.execute(
        "INSERT INTO replica (id, format) VALUES (1, ?1) ON CONFLICT DO NOTHING",
        [FORMAT],
    )?;
    let format = read_format(&transaction)?;
    transaction.commit()?;
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_left_to_the_log_and_to_checkpoints() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let store = Store::open_replica(&path, Rules::all()).unwrap();
        let normal = 1.to_string();
        assert_eq!(store.query_text("PRAGMA synchronous"), [normal]);
        assert_eq!(store.query_text("PRAGMA wal_autocheckpoint"), ["0"]);
        assert_eq!(store.query_text("PRAGMA journal_mode"), ["wal"]);
    }
}
