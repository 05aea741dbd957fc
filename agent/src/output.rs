//! What attempts have written: the tail that travels with a receipt, and the whole on a bulk
//! stream when a person asks.
//!
//! Files are read on threads of their own. A disk that hangs must cost a tail, not a heartbeat.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::agent::output_file;
use protocol::attempt::OUTPUT_TAIL_BYTES_MAX;
use protocol::message::{BulkAnswer, BulkRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;
use transport::{BulkReceiver, BulkSender, ReceiveError, SendError};

/// A receipt waits no longer than this for its tail.
const TAIL_MAX: Duration = Duration::from_secs(5);

/// Threads that reading tails may hold at once, also when the disk lets none of them go.
const TAILS_AT_ONCE: usize = 4;

/// A coordinator that opens a bulk stream says at once what it wants.
const REQUEST_MAX: Duration = Duration::from_secs(10);

const READ_BYTES: usize = 64 * 1024;

/// Reads tails of output files, a few at a time.
#[derive(Clone)]
pub(crate) struct Tails {
    threads: Arc<Semaphore>,
}

impl Tails {
    pub(crate) fn new() -> Tails {
        Tails {
            threads: Arc::new(Semaphore::new(TAILS_AT_ONCE)),
        }
    }

    /// The last of this file, or in its place why it could not be read.
    pub(crate) async fn read(&self, path: PathBuf) -> String {
        let shown = path.display().to_string();
        let read = async {
            // The permit goes with the thread: one that hangs goes on holding it.
            let permit = Arc::clone(&self.threads).acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                read_tail(path)
            })
            .await
        };
        let why = match tokio::time::timeout(TAIL_MAX, read).await {
            Ok(Ok(Ok(tail))) => return tail,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the disk did not answer within {TAIL_MAX:?}"),
        };
        tracing::warn!(path = %shown, why, "the tail of an output file cannot be read");
        format!("[the output {shown} could not be read: {why}]")
    }
}

fn read_tail(path: PathBuf) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let kept = OUTPUT_TAIL_BYTES_MAX as u64;
    file.seek(SeekFrom::Start(length.saturating_sub(kept)))?;
    let mut tail = Vec::new();
    // A process that escaped may still be writing.
    file.take(kept).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

/// Why a bulk stream came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("the stream brought no request within {REQUEST_MAX:?}")]
    NoRequest,
    #[error("receiving the request")]
    Receive(#[from] ReceiveError),
    #[error("sending the answer")]
    Send(#[from] SendError),
    #[error("sending the output")]
    Output(#[from] io::Error),
}

/// Answers one bulk stream that the coordinator opened.
pub(crate) async fn serve(
    mut sender: BulkSender,
    mut receiver: BulkReceiver,
    output_directory: &str,
) -> Result<(), ServeError> {
    let request = tokio::time::timeout(REQUEST_MAX, receiver.receive())
        .await
        .map_err(|_| ServeError::NoRequest)??
        .ok_or(ServeError::NoRequest)?;
    let BulkRequest::Output { token } = request;
    let opened = async {
        let file = tokio::fs::File::open(output_file(output_directory, token)).await?;
        let bytes = file.metadata().await?.len();
        Ok::<_, io::Error>((file, bytes))
    };
    let (file, bytes) = match opened.await {
        Ok(opened) => opened,
        Err(error) => {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "this host has no output of that attempt".to_owned(),
                _ => format!("the output cannot be read: {error}"),
            };
            sender.send(&BulkAnswer::NotFound { reason }).await?;
            return Ok(sender.finish().await?);
        }
    };
    sender.send(&BulkAnswer::Found { bytes }).await?;
    // The file may grow while it is sent; what was promised is what is sent.
    let mut file = BufReader::with_capacity(READ_BYTES, file.take(bytes));
    tokio::io::copy_buf(&mut file, &mut sender).await?;
    sender.flush().await?;
    Ok(sender.finish().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tail_is_the_last_of_a_file_and_always_text() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("out");
        let tails = Tails::new();
        for (content, expected) in [
            (b"short".to_vec(), "short".to_owned()),
            (Vec::new(), String::new()),
            (
                [vec![b'x'; 10_000], b"the end".to_vec()].concat(),
                "x".repeat(OUTPUT_TAIL_BYTES_MAX - 7) + "the end",
            ),
            (b"a\xffb".to_vec(), "a\u{fffd}b".to_owned()),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(tails.read(path.clone()).await, expected);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(tails.read(path).await.contains("No such file"));
    }
}
