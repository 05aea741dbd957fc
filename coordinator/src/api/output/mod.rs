//! The output of an attempt, fetched from the host that has it while somebody reads it.
//!
//! Nothing is kept here: the bytes pass through a queue of a few pieces. Both ends are waited for
//! only so long, since a reader who stops would hold one of the agent's few bulk streams; where an
//! output is followed, silence of the job is no reason to stop.

mod form;
mod open;

use std::io;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body::Frame;
use protocol::api::{Attempt, IdOrNull, OutputLine, Rfc3339OrNull, RunDetail};
use protocol::message::{BulkAnswer, BulkRequest};
use protocol::output::{Stream, Wanted};
use protocol::{RunId, Token, WallMs};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::timeout;
use transport::{BulkReceiver, BulkSender, Connection};

use super::Api;
use super::asker::Asker;
use super::describe::{Answer, Draft};
use super::error::ApiError;
use super::input::{Params, ShardPath};
use super::listener::{Patient, Peer};
use super::runs::detail;
use crate::exit::causes;
use form::{Form, Former, Source, Span};
pub(crate) use open::OpenOutputs;
use open::{OPEN_MAX, OpenOutput};

/// How long the agent may take to answer that it has the output.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long the agent may take for the next piece, and the client to take it.
const PIECE_LIMIT: Duration = Duration::from_secs(20);

const PIECE_BYTES: usize = 16 * 1024;
const PIECES_WAITING: usize = 4;

/// Query of `GET /api/v1/runs/{id}/shards/{shard}/log`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    /// Default: the newest attempt.
    #[serde(default, with = "IdOrNull::<Token>")]
    token: Option<Token>,
    /// `stdout` or `stderr`; default: both, in the order they came in.
    #[serde(default)]
    #[schemars(schema_with = "stream_words")]
    stream: Option<String>,
    /// Only what was written from this instant on.
    #[serde(default, with = "Rfc3339OrNull")]
    since: Option<WallMs>,
    /// Only the last so many lines.
    tail: Option<u64>,
    /// Go on until the output has ended.
    #[serde(default)]
    follow: bool,
    #[serde(default)]
    format: Form,
    /// Leave out so many bytes, as the attempt wrote them, of what is asked for otherwise.
    #[serde(default)]
    offset: u64,
    /// At most so many bytes, as the attempt wrote them.
    limit: Option<NonZeroU64>,
}

/// An output, as it comes.
pub(super) struct OutputAnswer(Response);

impl IntoResponse for OutputAnswer {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answer for OutputAnswer {
    fn describe(draft: &mut Draft) {
        for form in Form::ALL {
            let says = match form {
                Form::Raw => "What the attempt wrote, byte for byte.",
                Form::Text => {
                    "A line for each record: time, job, fire time, shard, stream, content."
                }
                Form::Json => "A JSON object for each record, one a line: OutputLine.",
            };
            let schema = json!({ "type": "string", "description": says });
            draft.answers(form.media_type(), schema);
        }
        draft.names::<OutputLine>();
    }
}

/// `GET /api/v1/runs/{id}/shards/{shard}/log`: what the attempt wrote.
pub(super) async fn log(
    State(api): State<Api>,
    asker: Asker,
    ConnectInfo(peer): ConnectInfo<Peer>,
    ShardPath(run, shard): ShardPath,
    Params(query): Params<LogQuery>,
) -> Result<OutputAnswer, ApiError> {
    let what = format!("fetching the output of shard {shard} of {run}");
    let (token, since) = (query.token, query.since);
    let stream = query.stream.as_deref();
    let stream = stream.map(|name| stream_of(&what, name)).transpose()?;
    let detail = detail(&api, &asker, &what, run).await?;
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
    let Some(place) = api.outputs.open(&attempt.agent) else {
        return Err(ApiError::unavailable(
            what,
            format!("{OPEN_MAX} outputs of {} are being read", attempt.agent),
            "end one of them (`matins logs --follow` holds one for each shard), or ask again later",
        ));
    };
    let wanted = Wanted {
        token: attempt.token,
        stream,
        since,
        tail: query.tail,
        follow: query.follow,
    };
    let opened = timeout(ANSWER_LIMIT, open(&connection, wanted)).await;
    let (answer, stream) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(why)) => return Err(unreachable(&what, attempt, &why)),
        Err(_) => {
            let why = format!("no answer within {} s", ANSWER_LIMIT.as_secs());
            return Err(unreachable(&what, attempt, &why));
        }
    };
    match answer {
        BulkAnswer::Found => {
            let source = Source {
                job: detail.run.job.clone(),
                fire_time: detail.run.fire_time,
                shard,
                attempt: attempt.attempt,
                token: attempt.token,
            };
            let span = Span {
                offset: query.offset,
                limit: query.limit.map(NonZeroU64::get),
            };
            let passage = Passage {
                stream,
                follow: query.follow,
                former: Former::new(query.format, span, source),
                place,
                _patient: query.follow.then(|| peer.patience.begin()),
            };
            Ok(OutputAnswer(respond(attempt.token, query.format, passage)))
        }
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

fn stream_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [Stream::Stdout.as_str(), Stream::Stderr.as_str()] })
}

fn stream_of(what: &str, name: &str) -> Result<Stream, ApiError> {
    [Stream::Stdout, Stream::Stderr]
        .into_iter()
        .find(|stream| stream.as_str() == name)
        .ok_or_else(|| {
            let why = format!("`{name}` is no stream of an attempt");
            ApiError::invalid(
                what,
                why,
                "name `stdout` or `stderr`, or leave it out for both",
            )
        })
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

type BulkStream = (BulkSender, BulkReceiver);

async fn open(connection: &Connection, wanted: Wanted) -> Result<(BulkAnswer, BulkStream), String> {
    let opened = connection.open_bulk().await;
    let (mut sender, mut receiver) = opened.map_err(|error| causes(&error))?;
    let asked = sender.send(&BulkRequest::Output(wanted)).await;
    asked.map_err(|error| causes(&error))?;
    match receiver.receive().await {
        Ok(Some(answer)) => Ok((answer, (sender, receiver))),
        Ok(None) => Err("it ended the stream without an answer".to_owned()),
        Err(error) => Err(causes(&error)),
    }
}

fn respond(token: Token, form: Form, passage: Passage) -> Response {
    let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
    tokio::spawn(async move {
        if let Err(error) = passage.pass_on(&pieces).await {
            tracing::info!(%token, error = causes(&error), "fetching an output broke off");
            // The reader must see that this is not all; it may have gone itself.
            let _ = timeout(PIECE_LIMIT, pieces.send(Err(error))).await;
        }
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(form.media_type()),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, Body::new(Output { pieces: waiting })).into_response()
}

/// An output on its way from its host to whoever reads it.
struct Passage {
    stream: BulkStream,
    follow: bool,
    former: Former,
    place: OpenOutput,
    /// Where it is followed.
    _patient: Option<Patient>,
}

impl Passage {
    async fn pass_on(mut self, pieces: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
        // The other half is held: dropped, it tells the agent that nobody reads any more.
        let (_sender, receiver) = &mut self.stream;
        let mut records = vec![0; PIECE_BYTES];
        let closing = self.place.closing();
        tokio::pin!(closing);
        loop {
            let limit = (!self.follow).then_some(PIECE_LIMIT);
            let read = tokio::select! {
                read = within(limit, receiver.read(&mut records)) => read??,
                () = pieces.closed() => return Ok(()),
                () = &mut closing, if self.follow => {
                    return Err(io::Error::other("the coordinator stops"));
                }
            };
            if read == 0 {
                let whole = self.former.is_between_records();
                return whole
                    .then_some(())
                    .ok_or(io::ErrorKind::UnexpectedEof.into());
            }
            let mut piece = Vec::new();
            let taken = self.former.take(&records[..read], &mut piece);
            taken.ok_or_else(|| io::Error::other("the agent sent what is no record"))?;
            if !piece.is_empty() {
                let sent = timeout(PIECE_LIMIT, pieces.send(Ok(piece.into()))).await?;
                if sent.is_err() {
                    return Ok(());
                }
            }
            if self.former.is_over() {
                return Ok(());
            }
        }
    }
}

async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, tokio::time::error::Elapsed> {
    match limit {
        Some(limit) => timeout(limit, work).await,
        None => Ok(work.await),
    }
}

/// The body of the answer; how long it is shows only when it ends.
struct Output {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl http_body::Body for Output {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.pieces.poll_recv(cx);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
