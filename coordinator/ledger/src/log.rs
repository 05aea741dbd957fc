//! The file of the replicated log: votes and entries, in order, durable before they count.
//!
//! A replicated log needs one promise from its disk: what it says it has written is there after a
//! power cut, everything up to it as well, and nothing of what was taken back. An append-only file of
//! one's own keeps that promise only with checksums, a torn tail, rotation and much care; SQLite in
//! WAL mode with `synchronous = FULL` has all of it, and one transaction for many writes is as fast.
//! So the log is a SQLite file, apart from the ledger because the two reach the disk differently:
//! here every commit is synced, there the log stands behind what a power cut takes.
//!
//! Nothing here knows who writes or why. Entries are bytes with a [`Position`]; that they have no
//! holes is checked at every write and again at every read.
//!
//! **The store's id lives here**, beside the vote: whoever lost this file has forgotten for whom it
//! voted, and must not come back under the old id.

use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};

use crate::wal::open_wal;

/// Raised with every change of the tables; a log of another format is not opened.
const FORMAT: i64 = 2;

const TABLES: &str = "
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    store TEXT NOT NULL,
    begun_after INTEGER,
    vote_term INTEGER,
    vote_node INTEGER,
    vote_granted INTEGER,
    purged_index INTEGER,
    purged_term INTEGER,
    purged_node INTEGER,
    committed_index INTEGER,
    committed_term INTEGER,
    committed_node INTEGER
) STRICT;

CREATE TABLE entries (
    idx INTEGER PRIMARY KEY,
    term INTEGER NOT NULL,
    node INTEGER NOT NULL,
    payload BLOB NOT NULL
) STRICT;
";

/// Place of an entry in the replicated log: its index, and the leader that put it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub index: u64,
    pub term: u64,
    pub node: u64,
}

/// For whom this store has voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    pub term: u64,
    pub node: u64,
    /// A quorum has voted the same.
    pub granted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub at: Position,
    pub bytes: Vec<u8>,
}

/// What of the log is not entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// Minted with the file; see the module.
    pub store: String,
    /// How many commands the ledger held when its log began here; `None` where it began elsewhere.
    pub begun_after: Option<i64>,
    pub vote: Option<Vote>,
    /// The last entry that was removed from the front.
    pub purged: Option<Position>,
    /// The last entry known to be committed when something was last written.
    pub committed: Option<Position>,
    /// The last entry, or else the last one purged.
    pub last: Option<Position>,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("opening the log {path}")]
    Open {
        path: String,
        source: rusqlite::Error,
    },
    #[error(
        "the log {path} has format {found}, and this program knows format {known}: run the version of matins that wrote it"
    )]
    Format {
        path: String,
        found: i64,
        known: i64,
    },
    #[error(
        "the log {path} is damaged, and with it what this node has voted: remove it from its group, clear its data directory, and add it under a new number; where it is alone, restore a backup"
    )]
    Spoilt {
        path: String,
        source: rusqlite::Error,
    },
    #[error("writing the log")]
    Write { source: rusqlite::Error },
    #[error("reading the log")]
    Read { source: rusqlite::Error },
    #[error("the entry {got} cannot follow the entry {last}: the log would have a hole")]
    Hole { last: u64, got: u64 },
    #[error(
        "the log has no entry {missing} although it has later ones: the file is damaged, and a node with a damaged log must be removed and added again as a new one"
    )]
    Damaged { missing: u64 },
}

fn write_error(source: rusqlite::Error) -> LogError {
    LogError::Write { source }
}

fn read_error(source: rusqlite::Error) -> LogError {
    LogError::Read { source }
}

/// The log, for its one writer.
pub struct LogFile {
    conn: Connection,
}

impl LogFile {
    /// Opens the log at `path`, or makes an empty one that bears `new_store` as its id.
    pub fn open(path: &Path, new_store: &str) -> Result<LogFile, LogError> {
        let named = path.display().to_string();
        let opened = open_wal(path).and_then(|mut conn| {
            // A vote or an entry counts as soon as it is reported.
            conn.execute_batch("PRAGMA synchronous = FULL;")?;
            let found = prepare(&mut conn, new_store)?;
            Ok((conn, found))
        });
        let (conn, found) = opened.map_err(|source| {
            let path = named.clone();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    LogError::Spoilt { path, source }
                }
                _ => LogError::Open { path, source },
            }
        })?;
        if found != FORMAT {
            return Err(LogError::Format {
                path: named,
                found,
                known: FORMAT,
            });
        }
        Ok(LogFile { conn })
    }

    pub fn head(&self) -> Result<LogHead, LogError> {
        read_head(&self.conn).map_err(read_error)
    }

    /// Begins to write: everything up to [`LogWrite::commit`] is one transaction and one sync.
    pub fn begin(&mut self) -> Result<LogWrite<'_>, LogError> {
        let last = self.head()?.last;
        let transaction = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(write_error)?;
        Ok(LogWrite {
            transaction,
            last: last.map(|last| last.index),
        })
    }
}

/// Writes on their way. Dropped without a commit, none of them was made.
pub struct LogWrite<'a> {
    transaction: rusqlite::Transaction<'a>,
    last: Option<u64>,
}

impl LogWrite<'_> {
    pub fn vote(&mut self, vote: Vote) -> Result<(), LogError> {
        self.head(
            "UPDATE head SET vote_term = ?1, vote_node = ?2, vote_granted = ?3",
            params![
                vote.term.cast_signed(),
                vote.node.cast_signed(),
                vote.granted
            ],
        )
    }

    /// Notes that the log begins here, behind a ledger that holds so many commands already.
    pub fn begun_after(&mut self, commands: i64) -> Result<(), LogError> {
        self.head("UPDATE head SET begun_after = ?1", [commands])
    }

    pub fn append(&mut self, at: Position, bytes: &[u8]) -> Result<(), LogError> {
        if let Some(last) = self.last
            && at.index != last + 1
        {
            return Err(LogError::Hole {
                last,
                got: at.index,
            });
        }
        self.transaction
            .prepare_cached("INSERT INTO entries VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut insert| {
                insert.execute(params![
                    at.index.cast_signed(),
                    at.term.cast_signed(),
                    at.node.cast_signed(),
                    bytes
                ])
            })
            .map_err(write_error)?;
        self.last = Some(at.index);
        Ok(())
    }

    /// Takes back every entry after `index`; `None` takes back all.
    pub fn truncate_after(&mut self, index: Option<u64>) -> Result<(), LogError> {
        let from = index.map_or(0, |index| index + 1);
        self.transaction
            .execute("DELETE FROM entries WHERE idx >= ?1", [from.cast_signed()])
            .map_err(write_error)?;
        self.last = read_head(&self.transaction)
            .map_err(read_error)?
            .last
            .map(|last| last.index);
        Ok(())
    }

    /// Removes entries up to and with `through` from the front; the log may end before it. At most
    /// `entries_max` of them, since a large one takes its time: answers whether that was all.
    pub fn purge(&mut self, through: Position, entries_max: u32) -> Result<bool, LogError> {
        let far = self
            .transaction
            .prepare_cached(
                "SELECT idx, term, node FROM entries WHERE idx < ?1 ORDER BY idx LIMIT 1 OFFSET ?2",
            )
            .and_then(|mut far| {
                far.query_row(
                    params![through.index.cast_signed(), entries_max.saturating_sub(1)],
                    |row| position(row, 0),
                )
                .optional()
            })
            .map_err(read_error)?
            .flatten();
        let step = far.unwrap_or(through);
        self.transaction
            .prepare_cached("DELETE FROM entries WHERE idx <= ?1")
            .and_then(|mut delete| delete.execute([step.index.cast_signed()]))
            .map_err(write_error)?;
        self.head(
            "UPDATE head SET purged_index = ?1, purged_term = ?2, purged_node = ?3",
            position_params(&step),
        )?;
        self.last = self.last.max(Some(step.index));
        Ok(far.is_none())
    }

    /// The index at which the log ends with what was written so far.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Notes how far entries are known to be committed.
    pub fn committed(&mut self, through: Position) -> Result<(), LogError> {
        self.head(
            "UPDATE head SET committed_index = ?1, committed_term = ?2, committed_node = ?3",
            position_params(&through),
        )
    }

    /// On return everything is on the disk. An error is fatal: nobody knows what is.
    pub fn commit(self) -> Result<(), LogError> {
        self.transaction.commit().map_err(write_error)
    }

    fn head(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), LogError> {
        self.transaction
            .prepare_cached(sql)
            .and_then(|mut update| update.execute(values))
            .map(|_| ())
            .map_err(write_error)
    }
}

/// Reads the log while its writer writes.
pub struct LogReader {
    conn: Connection,
}

impl LogReader {
    /// Opens a log that its writer has made.
    pub fn open(path: &Path) -> Result<LogReader, LogError> {
        let conn = open_wal(path).and_then(|conn| {
            conn.execute_batch("PRAGMA query_only = ON;")?;
            Ok(conn)
        });
        conn.map(|conn| LogReader { conn })
            .map_err(|source| LogError::Open {
                path: path.display().to_string(),
                source,
            })
    }

    /// What the file takes up, without what it would use again.
    pub fn bytes(&self) -> Result<u64, LogError> {
        let sql = "SELECT (page_count - freelist_count) * page_size
                   FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        let bytes: i64 = self
            .conn
            .query_row(sql, [], |row| row.get(0))
            .map_err(read_error)?;
        Ok(bytes.cast_unsigned())
    }

    /// The entries of `range` that the log has, from one moment, in order and without holes. Ends
    /// early, but not before the first, when `bytes_max` bytes are reached.
    pub fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogEntry>, LogError> {
        let read = || -> rusqlite::Result<Vec<LogEntry>> {
            let mut statement = self.conn.prepare_cached(
                "SELECT idx, term, node, payload FROM entries
                 WHERE idx >= ?1 AND idx < ?2 ORDER BY idx",
            )?;
            let end = range.end.min(i64::MAX.cast_unsigned());
            let mut rows = statement.query([range.start.cast_signed(), end.cast_signed()])?;
            let mut entries = Vec::new();
            let mut bytes = 0;
            while bytes < bytes_max
                && let Some(row) = rows.next()?
            {
                let entry = LogEntry {
                    at: position(row, 0)?.expect("no column of an entry is NULL"),
                    bytes: row.get(3)?,
                };
                bytes += entry.bytes.len();
                entries.push(entry);
            }
            Ok(entries)
        };
        let entries = read().map_err(read_error)?;
        for pair in entries.windows(2) {
            if pair[1].at.index != pair[0].at.index + 1 {
                return Err(LogError::Damaged {
                    missing: pair[0].at.index + 1,
                });
            }
        }
        Ok(entries)
    }
}

/// Makes the tables of an empty file; answers the format.
fn prepare(conn: &mut Connection, new_store: &str) -> rusqlite::Result<i64> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.execute(
            "INSERT INTO head (id, format, store) VALUES (1, ?1, ?2)",
            params![FORMAT, new_store],
        )?;
    }
    let format = transaction.query_row("SELECT format FROM head", [], |row| row.get(0))?;
    transaction.commit()?;
    Ok(format)
}

fn read_head(conn: &Connection) -> rusqlite::Result<LogHead> {
    let mut head = conn
        .prepare_cached(
            "SELECT store, vote_term, vote_node, vote_granted, purged_index, purged_term,
                purged_node, committed_index, committed_term, committed_node, begun_after
             FROM head",
        )?
        .query_row([], |row| {
            let term: Option<i64> = row.get(1)?;
            let vote = match term {
                Some(term) => Some(Vote {
                    term: term.cast_unsigned(),
                    node: row.get::<_, i64>(2)?.cast_unsigned(),
                    granted: row.get(3)?,
                }),
                None => None,
            };
            Ok(LogHead {
                store: row.get(0)?,
                begun_after: row.get(10)?,
                vote,
                purged: position(row, 4)?,
                committed: position(row, 7)?,
                last: None,
            })
        })?;
    let last = conn
        .prepare_cached("SELECT idx, term, node FROM entries ORDER BY idx DESC LIMIT 1")?
        .query_row([], |row| position(row, 0))
        .optional()?
        .flatten();
    head.last = last.or(head.purged);
    Ok(head)
}

/// A position in three columns; `None` where they are NULL.
pub(crate) fn position(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Position>> {
    let Some(index) = row.get::<_, Option<i64>>(first)? else {
        return Ok(None);
    };
    Ok(Some(Position {
        index: index.cast_unsigned(),
        term: row.get::<_, i64>(first + 1)?.cast_unsigned(),
        node: row.get::<_, i64>(first + 2)?.cast_unsigned(),
    }))
}

pub(crate) fn position_params(position: &Position) -> [i64; 3] {
    [position.index, position.term, position.node].map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_is_synced_and_none_carries_pages_home() {
        let directory = tempfile::tempdir().unwrap();
        let log = LogFile::open(&directory.path().join("log.db"), "5eed").unwrap();
        for (pragma, expected) in [("synchronous", 2), ("wal_autocheckpoint", 0)] {
            let found: i64 = log
                .conn
                .query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
                .unwrap();
            assert_eq!(found, expected, "{pragma}");
        }
    }
}
