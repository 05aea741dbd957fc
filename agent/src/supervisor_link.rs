//! The line to the supervisor: dialled until it answers, and again whenever it breaks.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::supervisor::{Event, Request, Table};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;

use crate::chain::chain;
use crate::run::Input;
use crate::supervisor::LINE_BYTES_MAX;

/// Requests that may wait for a supervisor that does not read; past it the line is given up.
pub(crate) const REQUESTS_MAX: usize = 8192;

/// It is a local process that is restarted within a second, so there is no long waiting.
const PAUSE: Duration = Duration::from_millis(50);

/// Failures in a row, a second's worth, after which a person is told.
const FAILURES_TOLD: u32 = 20;

#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("connecting to the supervisor")]
    Connect(#[source] io::Error),
    #[error("reading from the supervisor")]
    Read(#[source] io::Error),
    #[error("writing to the supervisor")]
    Write(#[source] io::Error),
    #[error("the supervisor closed the connection")]
    Closed,
    #[error("the supervisor sent a line that is too long")]
    TooLong,
    #[error("the supervisor sent a line that is no event")]
    NotAnEvent(#[source] serde_json::Error),
    #[error("the supervisor did not begin with its table")]
    NoTable,
    #[error("the agent gave the line up")]
    GivenUp,
}

/// Runs for as long as anybody listens to `inputs`.
pub(crate) async fn run(socket: PathBuf, inputs: mpsc::Sender<Input>) {
    let mut failures: u32 = 0;
    while !inputs.is_closed() {
        let mut was_up = false;
        let error = match connect(&socket).await {
            Ok((table, reader, stream)) => {
                was_up = true;
                converse(table, reader, stream, &inputs).await
            }
            Err(error) => error,
        };
        if was_up && inputs.send(Input::SupervisorDown).await.is_err() {
            return;
        }
        failures = if was_up {
            0
        } else {
            failures.saturating_add(1)
        };
        // Both may have been started just now; and a failure that lasts is worth one line.
        if was_up || failures == FAILURES_TOLD {
            let error = chain(&error);
            tracing::warn!(error, socket = %socket.display(), "no line to the supervisor");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

type Reader = BufReader<OwnedReadHalf>;

async fn connect(
    socket: &Path,
) -> Result<(Table, Reader, tokio::net::unix::OwnedWriteHalf), LinkError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(LinkError::Connect)?;
    let (reader, mut writer) = stream.into_split();
    write(&mut writer, &Request::Hello).await?;
    let mut reader = BufReader::new(reader);
    match read(&mut reader).await? {
        Event::Table(table) => Ok((table, reader, writer)),
        _ => Err(LinkError::NoTable),
    }
}

async fn converse(
    table: Table,
    mut reader: Reader,
    mut writer: tokio::net::unix::OwnedWriteHalf,
    inputs: &mpsc::Sender<Input>,
) -> LinkError {
    let (requests, mut waiting) = mpsc::channel(REQUESTS_MAX);
    if inputs
        .send(Input::SupervisorUp { table, requests })
        .await
        .is_err()
    {
        return LinkError::GivenUp;
    }
    let listen = async {
        loop {
            let event = match read(&mut reader).await {
                Ok(event) => event,
                Err(error) => return error,
            };
            if inputs.send(Input::Supervisor(event)).await.is_err() {
                return LinkError::GivenUp;
            }
        }
    };
    let speak = async {
        while let Some(request) = waiting.recv().await {
            if let Err(error) = write(&mut writer, &request).await {
                return error;
            }
        }
        LinkError::GivenUp
    };
    // Whichever ends first ends both: half a line is none.
    tokio::select! {
        error = listen => error,
        error = speak => error,
    }
}

async fn read(reader: &mut Reader) -> Result<Event, LinkError> {
    let mut line = Vec::new();
    let count = reader
        .take(LINE_BYTES_MAX as u64)
        .read_until(b'\n', &mut line)
        .await
        .map_err(LinkError::Read)?;
    match line.last() {
        Some(b'\n') => serde_json::from_slice(&line).map_err(LinkError::NotAnEvent),
        _ if count == LINE_BYTES_MAX => Err(LinkError::TooLong),
        _ => Err(LinkError::Closed),
    }
}

async fn write(
    writer: &mut tokio::net::unix::OwnedWriteHalf,
    request: &Request,
) -> Result<(), LinkError> {
    let mut line = serde_json::to_vec(request).expect("requests are plain data");
    line.push(b'\n');
    writer.write_all(&line).await.map_err(LinkError::Write)
}
