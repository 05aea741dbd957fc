//! A snapshot on its way from one member to another.
//!
//! It is a file that nobody changes, sent as it is on a stream that gives way to all others. What
//! arrives is written under a name of its own and looked at as a whole before anything else hears of
//! it: one that was cut off half way, or is not what was announced, has changed nothing here, and is
//! sent again.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use transport::{BulkReceiver, Connection, ReceiveError, SendError, StreamError};

use super::super::form::FormError;
use super::super::on_disk;
use super::super::state::snapshot_of;
use super::super::types::{SnapshotOf, VoteCast};
use super::serve::Answers;
use super::wire::{self, Announced, Answer, Opening};
use crate::exit::causes;
use crate::files;

/// Bytes read and sent in one go.
const CHUNK_BYTES: usize = 256 * 1024;

/// How long nothing of it may move.
const STALL_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(super) enum SendSnapshotError {
    #[error("the snapshot {path} cannot be read")]
    File { path: PathBuf, source: io::Error },
    #[error("the snapshot is of nothing")]
    Empty,
    #[error("opening a stream for a snapshot")]
    Open(#[from] StreamError),
    #[error("announcing a snapshot")]
    Announce(#[from] SendError),
    #[error("sending a snapshot")]
    Write(#[source] io::Error),
    #[error("nothing of a snapshot was taken for {} s", STALL_LIMIT.as_secs())]
    Stalled,
    #[error("hearing what became of a snapshot")]
    Hear(#[from] ReceiveError),
    #[error("the other side did not take the snapshot: {what}")]
    NotTaken { what: String },
}

/// Sends a snapshot and waits until it is in its place; answers the other side's vote.
pub(super) async fn send_snapshot(
    connection: &Connection,
    vote: &VoteCast,
    snapshot: &SnapshotOf,
) -> Result<VoteCast, SendSnapshotError> {
    let path = snapshot.snapshot.path();
    let unread = |source| SendSnapshotError::File {
        path: path.to_owned(),
        source,
    };
    let last = snapshot.meta.last_log_id.as_ref();
    let last = last.ok_or(SendSnapshotError::Empty)?;
    let mut file = File::open(path).await.map_err(unread)?;
    let bytes = file.metadata().await.map_err(unread)?.len();
    let (mut sender, mut receiver) = connection.open_background().await?;
    let announced = Announced::write(vote, last, bytes);
    sender.send(&Opening::Snapshot(announced)).await?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk).await.map_err(unread)?;
        if read == 0 {
            break;
        }
        match timeout(STALL_LIMIT, sender.write_all(&chunk[..read])).await {
            Ok(Ok(())) => {}
            // It says why before it takes no more.
            Ok(Err(error)) => match receiver.receive().await {
                Ok(Some(Answer::Failed { what })) => {
                    return Err(SendSnapshotError::NotTaken { what });
                }
                _ => return Err(SendSnapshotError::Write(error)),
            },
            Err(_) => return Err(SendSnapshotError::Stalled),
        }
    }
    sender.shutdown().await.map_err(SendSnapshotError::Write)?;
    // As long as its disk takes; a connection that is lost ends it.
    match receiver.receive().await? {
        Some(Answer::Installed { vote }) => Ok(wire::vote(vote)),
        Some(Answer::Failed { what }) => Err(SendSnapshotError::NotTaken { what }),
        _ => Err(SendSnapshotError::NotTaken {
            what: "it gave no answer".to_owned(),
        }),
    }
}

#[derive(Debug, thiserror::Error)]
enum TakeSnapshotError {
    #[error("another snapshot is arriving")]
    Busy,
    #[error("writing the snapshot that arrives to {path}")]
    File { path: PathBuf, source: io::Error },
    #[error("receiving a snapshot")]
    Read(#[source] io::Error),
    #[error("nothing of a snapshot came for {} s", STALL_LIMIT.as_secs())]
    Stalled,
    #[error("{arrived} bytes of a snapshot came, and {announced} were announced")]
    CutOff { arrived: u64, announced: u64 },
    #[error("looking at a snapshot that has arrived")]
    Look(#[source] io::Error),
    #[error("a snapshot has arrived that does not end where it was announced to")]
    Another,
    #[error("reading the members from a snapshot")]
    Members(#[from] FormError),
    #[error("the group does not take it: {what}")]
    Refused { what: String },
}

/// Receives a snapshot and has it installed.
pub(super) async fn take_snapshot(
    from: u64,
    announced: Announced,
    receiver: BulkReceiver,
    answers: &Answers,
) -> Answer {
    match take(announced, receiver, answers).await {
        Ok(vote) => {
            tracing::info!(node = from, "a snapshot of a member has been installed");
            let vote = wire::cast(&vote);
            Answer::Installed { vote }
        }
        Err(error) => {
            let what = causes(&error);
            tracing::warn!(
                node = from,
                error = what,
                "a snapshot of a member is not taken"
            );
            Answer::Failed { what }
        }
    }
}

async fn take(
    announced: Announced,
    receiver: BulkReceiver,
    answers: &Answers,
) -> Result<VoteCast, TakeSnapshotError> {
    let Ok(_alone) = answers.arriving.try_acquire() else {
        return Err(TakeSnapshotError::Busy);
    };
    let file = answers.snapshots.fresh();
    receive(receiver, file.path(), announced.bytes).await?;
    // All of it, before the group is told: what it does not find whole ends this process.
    let verified = on_disk(move || file.verify().cloned().map(|applied| (applied, file))).await;
    let (applied, file) = verified.map_err(TakeSnapshotError::Look)?;
    if applied.position != Some(announced.end()) {
        return Err(TakeSnapshotError::Another);
    }
    let snapshot = snapshot_of(applied, file)?;
    let vote = wire::vote(announced.vote);
    let installed = answers.raft.install_full_snapshot(vote, snapshot).await;
    let installed = installed.map_err(|error| TakeSnapshotError::Refused {
        what: error.to_string(),
    })?;
    Ok(installed.vote)
}

async fn receive(
    mut receiver: BulkReceiver,
    path: &Path,
    announced: u64,
) -> Result<(), TakeSnapshotError> {
    let unwritten = |source| TakeSnapshotError::File {
        path: path.to_owned(),
        source,
    };
    let file = files::create_private(path).map_err(unwritten)?;
    let mut file = File::from_std(file);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut arrived = 0;
    loop {
        let read = match timeout(STALL_LIMIT, receiver.read(&mut chunk)).await {
            Ok(read) => read.map_err(TakeSnapshotError::Read)?,
            Err(_) => return Err(TakeSnapshotError::Stalled),
        };
        if read == 0 {
            break;
        }
        arrived += read as u64;
        if arrived > announced {
            break;
        }
        file.write_all(&chunk[..read]).await.map_err(unwritten)?;
    }
    file.flush().await.map_err(unwritten)?;
    if arrived != announced {
        return Err(TakeSnapshotError::CutOff { arrived, announced });
    }
    Ok(())
}
