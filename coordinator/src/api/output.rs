//! The output of an attempt, fetched from the host that has it while somebody reads it.
//!
//! Nothing is kept here: the bytes pass through a queue of a few pieces. Both ends are waited for
//! only so long, since a reader who stops would hold one of the agent's few bulk streams.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use protocol::api::{Attempt, RunDetail};
use protocol::message::{BulkAnswer, BulkRequest};
use protocol::{RunId, Token};
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::timeout;
use transport::{BulkReceiver, BulkSender, Connection};

use super::Api;
use super::error::ApiError;
use super::input::{Params, ShardPath, parse};
use super::runs::detail;
use crate::exit::causes;

/// How long the agent may take to answer that it has the output.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long the agent may take for the next piece, and the client to take it.
const PIECE_LIMIT: Duration = Duration::from_secs(20);

const PIECE_BYTES: usize = 16 * 1024;
const PIECES_WAITING: usize = 4;

/// Query of `GET /api/v1/runs/{id}/shards/{shard}/log`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    /// Default: the newest attempt.
    token: Option<String>,
}

/// `GET /api/v1/runs/{id}/shards/{shard}/log`: what the attempt wrote, byte for byte.
pub(super) async fn log(
    State(api): State<Api>,
    ShardPath(run, shard): ShardPath,
    Params(query): Params<LogQuery>,
) -> Result<Response, ApiError> {
    let what = format!("fetching the output of shard {shard} of {run}");
    let token = query.token.as_deref();
    let token = token.map(|token| parse(&what, token)).transpose()?;
    let detail = detail(&api, &what, run).await?;
    let attempt = attempt_of(&what, &detail, run, shard, token)?;
    let Some(connection) = api.roster.newest_of(&attempt.agent) else {
        return Err(ApiError::unavailable(
            what,
            format!(
                "the output of {} lies on {}, which is not connected",
                attempt.token, attempt.agent
            ),
            "ask again when that host is back; what the ledger keeps of a failure is in the run's \
             own description",
        ));
    };
    let opened = timeout(ANSWER_LIMIT, open(&connection, attempt.token)).await;
    let (answer, stream) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(why)) => return Err(unreachable(&what, attempt, &why)),
        Err(_) => {
            let why = format!("no answer within {} s", ANSWER_LIMIT.as_secs());
            return Err(unreachable(&what, attempt, &why));
        }
    };
    match answer {
        BulkAnswer::Found { bytes } => Ok(respond(attempt.token, bytes, stream)),
        BulkAnswer::NotFound { reason } => Err(ApiError::not_found(
            what,
            format!(
                "{} has no output of {}: {reason}",
                attempt.agent, attempt.token
            ),
            "what the ledger keeps of a failure is in the run's own description",
        )),
    }
}

fn attempt_of<'a>(
    what: &str,
    detail: &'a RunDetail,
    run: RunId,
    shard: u32,
    token: Option<Token>,
) -> Result<&'a Attempt, ApiError> {
    let look = "look at the run for its shards and attempts";
    let mut shards = detail.shard_list.iter();
    let Some(found) = shards.find(|known| known.shard == shard) else {
        let why = format!("{run} has no shard {shard}");
        return Err(ApiError::not_found(what, why, look));
    };
    let attempt = match token {
        None => found.attempts.last(),
        Some(token) => found.attempts.iter().find(|attempt| attempt.token == token),
    };
    attempt.ok_or_else(|| {
        let why = match token {
            None => format!("shard {shard} of {run} has not been given to any host yet"),
            Some(token) => format!("{token} is not an attempt of shard {shard} of {run}"),
        };
        ApiError::not_found(what, why, look)
    })
}

fn unreachable(what: &str, attempt: &Attempt, why: &str) -> ApiError {
    let why = format!("asking {} for it: {why}", attempt.agent);
    ApiError::unavailable(what, why, "ask again in a moment")
}

type Stream = (BulkSender, BulkReceiver);

async fn open(connection: &Connection, token: Token) -> Result<(BulkAnswer, Stream), String> {
    let opened = connection.open_bulk().await;
    let (mut sender, mut receiver) = opened.map_err(|error| causes(&error))?;
    let asked = sender.send(&BulkRequest::Output { token }).await;
    asked.map_err(|error| causes(&error))?;
    match receiver.receive().await {
        Ok(Some(answer)) => Ok((answer, (sender, receiver))),
        Ok(None) => Err("it ended the stream without an answer".to_owned()),
        Err(error) => Err(causes(&error)),
    }
}

fn respond(token: Token, bytes: u64, stream: Stream) -> Response {
    let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
    tokio::spawn(async move {
        if let Err(error) = pass_on(bytes, stream, &pieces).await {
            tracing::info!(%token, error = causes(&error), "fetching an output broke off");
            // The reader must see that this is not all; it may have gone itself.
            let _ = timeout(PIECE_LIMIT, pieces.send(Err(error))).await;
        }
    });
    let body = Output {
        left: bytes,
        pieces: waiting,
    };
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, Body::new(body)).into_response()
}

/// Passes exactly `bytes` on: a file that grows meanwhile is cut there, one that is shorter is an
/// error.
async fn pass_on(
    bytes: u64,
    (_sender, receiver): Stream,
    pieces: &mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let mut limited = receiver.take(bytes);
    while limited.limit() > 0 {
        let mut piece = vec![0; PIECE_BYTES];
        let read = timeout(PIECE_LIMIT, limited.read(&mut piece)).await??;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece.truncate(read);
        let sent = timeout(PIECE_LIMIT, pieces.send(Ok(piece.into()))).await?;
        if sent.is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
    Ok(())
}

/// The body of the answer; its length is known beforehand.
struct Output {
    left: u64,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl http_body::Body for Output {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        Poll::Ready(piece.map(|piece| {
            piece.map(|bytes| {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Frame::data(bytes)
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
