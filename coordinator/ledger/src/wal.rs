//! Files in WAL mode whose checkpoints are made by somebody else than the writer.
//!
//! SQLite by itself lets the commit that fills the log carry its pages home, and that commit then
//! takes tens of milliseconds. Here a [`Checkpointer`] does it from its own connection and thread.
//! It also says how far the file itself is known to hold everything: what a commit without a sync
//! has written may be lost to a power cut, up to the last checkpoint that was completed.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

/// How long a writer waits for a checkpoint that is about to begin the write-ahead log anew, which
/// takes as long as the disk takes for one sync and the pages since the checkpoint before.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Opens or creates a file whose write-ahead log is carried home by a [`Checkpointer`] only.
pub(crate) fn open_wal(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(BUSY_LIMIT)?;
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;")?;
    Ok(conn)
}

/// How much a checkpoint may ask of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Nobody waits; what is written meanwhile stays for the next one.
    Passing,
    /// Writers wait for the end of it, and then begin the write-ahead log anew, so that its file
    /// grows no further. Readers that look at an older state keep it from doing so.
    Restarting,
}

/// What a checkpoint came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Everything that had been committed when it began is in the file itself, and synced.
    pub complete: bool,
    /// How much of the write-ahead log's file is in use: pages of 4 KiB.
    pub pages_in_log: u64,
}

/// Carries the write-ahead log of one file home.
pub struct Checkpointer {
    conn: Connection,
}

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("opening {path} for checkpoints")]
    Open {
        path: String,
        source: rusqlite::Error,
    },
    #[error("carrying a write-ahead log home")]
    Checkpoint { source: rusqlite::Error },
    #[error("reading what a checkpoint covers")]
    Read { source: rusqlite::Error },
}

impl Checkpointer {
    /// For a file that its writer has made.
    pub fn open(path: &Path) -> Result<Checkpointer, CheckpointError> {
        let open = || {
            let conn = open_wal(path)?;
            // A checkpoint never waits for a reader; it comes again.
            conn.busy_timeout(Duration::ZERO)?;
            // Syncs the log before, and the file after its pages have been carried there.
            conn.execute_batch("PRAGMA synchronous = NORMAL;")?;
            Ok(conn)
        };
        open()
            .map(|conn| Checkpointer { conn })
            .map_err(|source| CheckpointError::Open {
                path: path.display().to_string(),
                source,
            })
    }

    /// Carries home what it can. A reader that looks at an older state holds back what came after.
    pub fn run(&self, thoroughness: Thoroughness) -> Result<Checkpoint, CheckpointError> {
        let mode = match thoroughness {
            Thoroughness::Passing => "PASSIVE",
            Thoroughness::Restarting => "RESTART",
        };
        self.conn
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                let (in_log, at_home): (i64, i64) = (row.get(1)?, row.get(2)?);
                Ok(Checkpoint {
                    complete: in_log == at_home,
                    pages_in_log: in_log.cast_unsigned(),
                })
            })
            .map_err(|source| CheckpointError::Checkpoint { source })
    }

    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }
}
