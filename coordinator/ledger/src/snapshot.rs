//! Copies of a whole ledger, made while it is written to.
//!
//! The copy is SQLite's online backup **with a read transaction pinned on the source**. Without it a
//! backup begins anew with every commit and under load never ends; with it the copy is of one
//! moment, whatever is written meanwhile, and which moment is known before it begins.
//!
//! A copy is no snapshot before its file has been synced and given its name; whoever calls does
//! that. The other way, the pages of a snapshot go into the ledger as one transaction, so that one
//! that is cut off half way has changed nothing.

use std::io;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::ffi::{SQLITE_BUSY, SQLITE_CORRUPT};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::replica::{self, Applied, is_replica, read_applied, read_format};
use crate::schema::SCHEMA_VERSION;

/// Pages copied in one go: 4 MiB.
const PAGES_A_STEP: i32 = 1024;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("opening the ledger {path} to copy it")]
    OpenLedger {
        path: String,
        source: rusqlite::Error,
    },
    #[error("copying the ledger to {path}")]
    Copy {
        path: String,
        source: rusqlite::Error,
    },
    #[error("the snapshot {path} cannot be read: it is cut off or damaged")]
    Damaged {
        path: String,
        source: rusqlite::Error,
    },
    #[error("reading the snapshot {path}")]
    Unreadable {
        path: String,
        source: rusqlite::Error,
    },
    #[error("finding out how long the snapshot {path} is")]
    Length { path: String, source: io::Error },
    #[error(
        "the snapshot {path} has schema version {found}, and this program knows version {known}: bring this node to the version of matins that wrote it"
    )]
    Schema {
        path: String,
        found: i64,
        known: i64,
    },
    #[error("the snapshot {path} is of no replicated ledger")]
    NoReplica { path: String },
    #[error("putting the snapshot {path} in the ledger's place")]
    Install {
        path: String,
        source: rusqlite::Error,
    },
}

/// Copies the ledger to a new file; answers up to where it goes. The file is not synced.
pub fn copy(ledger: &Path, to: &Path) -> Result<Applied, SnapshotError> {
    let open = |source| SnapshotError::OpenLedger {
        path: ledger.display().to_string(),
        source,
    };
    let from = Connection::open_with_flags(
        ledger,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(open)?;
    from.execute_batch("BEGIN").map_err(open)?;
    // The first read takes the moment that the transaction then keeps.
    let applied = read_applied(&from).map_err(open)?;
    let copied = Connection::open(to).and_then(|mut to| {
        // Synced by the caller as a whole, and without a name until then.
        to.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        run(&from, &mut to)
    });
    copied.map_err(|source| SnapshotError::Copy {
        path: to.display().to_string(),
        source,
    })?;
    Ok(applied)
}

/// Up to where a snapshot goes; refuses what is none, or not of this version.
pub fn examine(path: &Path) -> Result<Applied, SnapshotError> {
    open_examined(path).map(|(_, applied)| applied)
}

/// As [`examine`], and reads all of it: what is damaged must not take the place of what is not.
pub fn verify(path: &Path) -> Result<Applied, SnapshotError> {
    let unread = |source| read_error(path, source);
    let (conn, applied) = open_examined(path)?;
    let found: String = conn
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(unread)?;
    if found == "ok" {
        Ok(applied)
    } else {
        Err(unread(failure(SQLITE_CORRUPT, Some(found))))
    }
}

fn open_examined(path: &Path) -> Result<(Connection, Applied), SnapshotError> {
    let named = path.display().to_string();
    let unread = |source| read_error(path, source);
    let conn = open_snapshot(path).map_err(unread)?;
    let found = conn
        .query_row("SELECT schema_version FROM meta", [], |row| row.get(0))
        .map_err(unread)?;
    if found != SCHEMA_VERSION {
        return Err(SnapshotError::Schema {
            path: named,
            found,
            known: SCHEMA_VERSION,
        });
    }
    if !is_replica(&conn).map_err(unread)? {
        return Err(SnapshotError::NoReplica { path: named });
    }
    let found = read_format(&conn).map_err(unread)?;
    if found != replica::FORMAT {
        return Err(SnapshotError::Schema {
            path: named,
            found,
            known: replica::FORMAT,
        });
    }
    // SQLite takes what is missing of a file's last page for zeros.
    let whole: i64 = conn
        .query_row(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
            [],
            |row| row.get(0),
        )
        .map_err(unread)?;
    let length = std::fs::metadata(path).map_err(|source| SnapshotError::Length {
        path: named.clone(),
        source,
    })?;
    if length.len() < whole.cast_unsigned() {
        return Err(unread(failure(SQLITE_CORRUPT, None)));
    }
    let applied = read_applied(&conn).map_err(unread)?;
    Ok((conn, applied))
}

/// A disk that does not answer says nothing about what is on it.
fn read_error(path: &Path, source: rusqlite::Error) -> SnapshotError {
    let path = path.display().to_string();
    match source.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            SnapshotError::Unreadable { path, source }
        }
        _ => SnapshotError::Damaged { path, source },
    }
}

/// Puts the pages of a snapshot in the place of all pages of `ledger`, synced.
pub(crate) fn replace(ledger: &mut Connection, from: &Path) -> Result<(), SnapshotError> {
    let mut install = || {
        let from = open_snapshot(from)?;
        ledger.flush_prepared_statement_cache();
        ledger.execute_batch("PRAGMA synchronous = FULL;")?;
        run(&from, ledger)?;
        ledger.execute_batch("PRAGMA synchronous = NORMAL;")
    };
    install().map_err(|source| SnapshotError::Install {
        path: from.display().to_string(),
        source,
    })
}

/// A snapshot never changes, so nothing is put beside it to read it.
pub(crate) fn open_snapshot(path: &Path) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?immutable=1", escape(path));
    Connection::open_with_flags(
        uri,
        OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI,
    )
}

/// A path as part of a URI of SQLite, in which three characters mean something else.
fn escape(path: &Path) -> String {
    path.display()
        .to_string()
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
}

/// What SQLite would say.
fn failure(code: i32, what: Option<String>) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), what)
}

fn run(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    let backup = Backup::new(from, to)?;
    loop {
        match backup.step(PAGES_A_STEP)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => {
                let held = "somebody else holds the file".to_owned();
                return Err(failure(SQLITE_BUSY, Some(held)));
            }
        }
    }
}
