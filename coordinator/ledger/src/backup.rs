//! Backups: the whole ledger of one moment, in one file that proves itself.
//!
//! A backup is looked at when nothing else is left, perhaps years later and on another machine. So it
//! is one file, that can be copied and renamed by whatever a site uses; it is tried when it is made, the
//! only time when another could be made instead; and it says itself whether it is whole. The file is
//! a SQLite database, as any tool opens it, with a [`Seal`] behind its last page.
//!
//! Nothing here gives a file its name or syncs it: whoever calls does that.

mod seal;

use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use protocol::{Rules, WallMs};
use rusqlite::Connection;

use crate::Done;
use crate::command::{Command, Proposal, Restore};
use crate::meta::Meta;
use crate::outcome::Refusal;
use crate::schema::SCHEMA_VERSION;
use crate::snapshot::{self, SnapshotError};
use crate::store::{Store, StoreError};
use crate::working_set::load;

pub use seal::Seal;

/// Who makes a backup, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    pub node: String,
    /// Version of this program.
    pub program: String,
    pub at: WallMs,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{path} is no whole backup: it does not end with the seal that Matins puts behind a backup. It is another file, or was cut off on its way"
    )]
    NoSeal { path: PathBuf },
    #[error(
        "{path} is a backup of format {found}, and this program knows format {known}: use the version of matins that made it"
    )]
    Format {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    #[error("{path} is damaged: it is not what was sealed; take another backup")]
    Damaged { path: PathBuf },
    #[error(
        "{path} holds a ledger of schema version {found} (of matins {program}), and this program knows version {known}: use that version of matins"
    )]
    Schema {
        path: PathBuf,
        program: String,
        found: i64,
        known: i64,
    },
    #[error("the ledger in {path} is damaged: {what}")]
    Integrity { path: PathBuf, what: String },
    #[error("reading the ledger in {path}")]
    Ledger {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("restoring: {0}")]
    Refused(Refusal),
}

/// Bytes that a backup of the ledger takes up now, or hardly more.
pub fn estimate(ledger: &Path) -> Result<u64, BackupError> {
    let read = || -> rusqlite::Result<i64> {
        let conn = Connection::open_with_flags(ledger, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.query_row(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
            [],
            |row| row.get(0),
        )
    };
    let bytes = read().map_err(|source| BackupError::Ledger {
        path: ledger.to_owned(),
        source,
    })?;
    Ok(bytes.cast_unsigned())
}

/// Copies the ledger, of which a coordinator may be the writer meanwhile, to the empty file `to`, tries
/// the copy, and seals it; `file` is that file, open.
pub fn make(
    ledger: &Path,
    to: &Path,
    file: &mut (impl Read + Write + Seek),
    maker: &Maker,
) -> Result<Seal, BackupError> {
    snapshot::copy(ledger, to)?;
    let mut seal = try_out(to, maker)?;
    seal::put(file, to, &mut seal)?;
    Ok(seal)
}

/// A file that should be a backup.
#[derive(Debug)]
pub struct Backup<F> {
    file: F,
    path: PathBuf,
}

impl<F: Read + Seek> Backup<F> {
    /// `path` is where the file lies, for messages.
    pub fn new(file: F, path: &Path) -> Backup<F> {
        let path = path.to_owned();
        Backup { file, path }
    }

    /// What it says of itself, without looking whether it is whole.
    pub fn seal(&mut self) -> Result<Seal, BackupError> {
        seal::open(&mut self.file, &self.path).map(|(seal, _)| seal)
    }

    /// Whether it is what it was when it was made; says what it is.
    pub fn check(&mut self) -> Result<Seal, BackupError> {
        seal::copy(&mut self.file, &self.path, &mut io::sink())
    }

    /// Writes the ledger out of it, and proves on the way that it is what was sealed: where it is not,
    /// what was written is no use.
    pub fn unpack(&mut self, to: &mut impl Write) -> Result<Seal, BackupError> {
        let seal = self.seal()?;
        if seal.schema != SCHEMA_VERSION {
            return Err(BackupError::Schema {
                path: self.path.clone(),
                program: seal.program,
                found: seal.schema,
                known: SCHEMA_VERSION,
            });
        }
        seal::copy(&mut self.file, &self.path, to)
    }
}

/// Makes an unpacked ledger one that may go on: it follows no log any more, and its first command is
/// the restore. On return the file holds all of it.
pub fn restore(unpacked: &Path, restore: Restore) -> Result<Done, BackupError> {
    let ledger = |source| BackupError::Ledger {
        path: unpacked.to_owned(),
        source,
    };
    let conn = Connection::open(unpacked).map_err(ledger)?;
    conn.execute_batch("DROP TABLE IF EXISTS replica")
        .map_err(ledger)?;
    drop(conn);
    let mut store = Store::open(unpacked, Rules::all())?;
    let proposal = Proposal {
        epoch: None,
        at: restore.clock,
        source: None,
        command: Command::Restore(restore),
    };
    let outcome = store.propose(&[proposal])?.remove(0);
    // Nothing is left beside the file.
    store
        .conn()
        .execute_batch("PRAGMA journal_mode = DELETE")
        .map_err(ledger)?;
    outcome.result.map_err(BackupError::Refused)
}

/// Reads all that a restore would rest on.
fn try_out(copy: &Path, maker: &Maker) -> Result<Seal, BackupError> {
    let ledger = |source| BackupError::Ledger {
        path: copy.to_owned(),
        source,
    };
    let conn = snapshot::open_snapshot(copy).map_err(ledger)?;
    let found: String = conn
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(ledger)?;
    if found != "ok" {
        return Err(BackupError::Integrity {
            path: copy.to_owned(),
            what: found,
        });
    }
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let schema = count("SELECT schema_version FROM meta").map_err(ledger)?;
    if schema != SCHEMA_VERSION {
        return Err(BackupError::Schema {
            path: copy.to_owned(),
            program: "another version".to_owned(),
            found: schema,
            known: SCHEMA_VERSION,
        });
    }
    let set = load(&conn).map_err(ledger)?;
    let meta = Meta::load(&conn).map_err(ledger)?;
    Ok(Seal {
        format: seal::FORMAT,
        program: maker.program.clone(),
        node: maker.node.clone(),
        taken_at: maker.at,
        schema,
        position: meta.position,
        commands: meta.last_applied,
        jobs: set.jobs.len() as u64,
        runs: count("SELECT count(*) FROM runs")
            .map_err(ledger)?
            .cast_unsigned(),
        open_runs: set.runs.len() as u64,
        bytes: 0,
        sha256: String::new(),
    })
}
