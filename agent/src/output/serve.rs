//! Output on a bulk stream, for as long as somebody reads it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agent_core::agent::output_directory;
use protocol::Token;
use protocol::message::{BulkAnswer, BulkRequest};
use protocol::output::Wanted;
use tokio::io::AsyncWriteExt;
use transport::{BulkReceiver, BulkSender, ReceiveError, SendError};

use super::reader::{Progress, Reader};
use super::removed;

/// A coordinator that opens a bulk stream says at once what it wants.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Read and sent at one go.
const PIECE_BYTES: usize = 64 * 1024;

/// A follower looks for more this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Why a bulk stream came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("the stream brought no request within {REQUEST_MAX:?}")]
    NoRequest,
    #[error("receiving the request")]
    Receive(#[from] ReceiveError),
    #[error("sending the answer")]
    Send(#[from] SendError),
    #[error("reading or sending the output")]
    Output(#[from] io::Error),
}

/// Answers one bulk stream that the coordinator opened. A reader who goes is no error.
pub(crate) async fn serve(
    mut sender: BulkSender,
    mut receiver: BulkReceiver,
    of_all: &str,
) -> Result<(), ServeError> {
    let request = tokio::time::timeout(REQUEST_MAX, receiver.receive())
        .await
        .map_err(|_| ServeError::NoRequest)??
        .ok_or(ServeError::NoRequest)?;
    let BulkRequest::Output(wanted) = request;
    let directory = PathBuf::from(output_directory(of_all, wanted.token));
    let opened = blocking(move || Reader::open(directory, &wanted)).await;
    let reader = match opened {
        Ok(reader) => reader,
        Err(error) => {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => why_not_there(of_all, wanted.token).await,
                _ => format!("the output cannot be read: {error}"),
            };
            sender.send(&BulkAnswer::NotFound { reason }).await?;
            return Ok(sender.finish().await?);
        }
    };
    sender.send(&BulkAnswer::Found).await?;
    tokio::select! {
        sent = send(&mut sender, reader, wanted) => sent?,
        () = leaves(receiver) => return Ok(()),
    }
    Ok(sender.finish().await?)
}

async fn send(
    sender: &mut BulkSender,
    mut reader: Reader,
    wanted: Wanted,
) -> Result<(), ServeError> {
    let mut piece = Vec::new();
    loop {
        let progress;
        (reader, piece, progress) = blocking(move || {
            let progress = reader.read(&mut piece, PIECE_BYTES)?;
            Ok((reader, piece, progress))
        })
        .await?;
        sender.write_all(&piece).await?;
        piece.clear();
        match progress {
            Progress::More => {}
            Progress::Waiting if wanted.follow => {
                sender.flush().await?;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Progress::Waiting | Progress::Over => {
                sender.flush().await?;
                return Ok(());
            }
        }
    }
}

async fn why_not_there(of_all: &str, token: Token) -> String {
    let directory = PathBuf::from(of_all);
    let known = blocking(move || removed::why(&directory, token.0)).await;
    match known {
        Ok(Some(why)) => format!("the output of that attempt was {why}"),
        Ok(None) => "this host has no output of that attempt".to_owned(),
        Err(error) => format!(
            "this host has no output of that attempt, and cannot read which it has removed: {error}"
        ),
    }
}

/// Until the other side has dropped its half.
async fn leaves(mut receiver: BulkReceiver) {
    // Nothing more is to come on it, so whatever comes is its end.
    while let Ok(Some(_)) = receiver.receive::<BulkRequest>().await {}
}

/// A disk that hangs holds a thread, and not the agent.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}
