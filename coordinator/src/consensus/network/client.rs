//! Asking another member, for openraft.
//!
//! A request without entries is a heartbeat, or says how far the group has committed: it goes where
//! votes go, on the control stream. The first one with entries opens a log stream, on which this and
//! all that follow it are sent without waiting for the answers in between, as far as the bounds
//! below allow. A peer that reads slowly holds up its own stream and nothing else: the entries wait
//! in the log, and not here.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use openraft::OptionalSend;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
    StreamAppendResult, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep_until};
use transport::{BulkReceiver, BulkSender, ReceiveError, SendError, StreamError, encode_frame};

use super::super::snapshots::SnapshotFile;
use super::super::types::{Member, SnapshotOf, Types, VoteCast};
use super::Network;
use super::link::{AskError, Line, Link};
use super::table::Table;
use super::transfer::{self, SendSnapshotError};
use super::wire::{self, Answer, Appended, Ask, Ballot, Opening};

/// Messages on their way that have no answer yet, and the bytes of their entries. One more is sent
/// where there is none on its way, however large it is.
const MESSAGES_UNDER_WAY_MAX: usize = 32;
const BYTES_UNDER_WAY_MAX: usize = 4 << 20;

/// Bytes of the entries of one message, where it has more than one entry.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How long nothing may be taken or answered while something is under way. A disk may stand still for
/// seconds, and a line may need as many for what is under way: sending it again would make neither
/// faster. A member that is gone is noticed by its connection.
const STILL_LIMIT: Duration = Duration::from_secs(60);

/// Between two tries where the other side cannot be reached, and how long one waits for it: looking
/// costs nothing, and what it misses is to be sent as soon as it is there.
const AGAIN: Duration = Duration::from_millis(50);

type AppendResults<'s> = stream::BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>;

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, member: &Member) -> Client {
        self.learn(target, member);
        Client {
            node: target,
            link: self.link(target),
            table: Arc::clone(&self.table),
        }
    }
}

/// One member, as openraft speaks to it.
pub(in super::super) struct Client {
    node: u64,
    link: Link,
    table: Arc<Table>,
}

#[derive(Debug, thiserror::Error)]
#[error("the node is not connected")]
struct NotConnected;

#[derive(Debug, thiserror::Error)]
#[error("the node has forgotten what it acknowledged")]
struct Forgetful;

fn unreachable(error: &(impl std::error::Error + 'static)) -> Unreachable<Types> {
    Unreachable::new(error)
}

impl Client {
    /// Waits a moment where there is no connection: openraft would ask again at once.
    async fn line(&self) -> Result<Arc<Line>, Unreachable<Types>> {
        let line = self.link.line(AGAIN).await;
        line.ok_or_else(|| unreachable(&NotConnected))
    }

    /// Whether it says that it lacks an entry that it has acknowledged: somebody has put an older copy in
    /// the place of its files. Of that openraft must not hear, which takes it for impossible.
    fn has_forgotten(&self, entry: u64, term: u64) -> bool {
        let node = self.node;
        let acknowledged = self.table.acknowledged(node, term);
        if entry == 0 || entry > acknowledged {
            return false;
        }
        let why = format!(
            "it lacks entry {entry} of the log and has acknowledged all through {acknowledged}: its data \
             directory was exchanged for an older copy, and what it voted with it. Stop it, remove node \
             {node}, and add the machine with an empty data directory under a new number"
        );
        if self.table.log_trouble(node, &why) {
            tracing::error!(node, why, "a member has forgotten what it acknowledged");
        }
        true
    }

    /// It is connected, and cannot use what it is sent of the log.
    fn is_refused(&self, what: &str) {
        let node = self.node;
        let why = format!("it cannot use what it is sent of the log: {what}");
        if self.table.log_trouble(node, &why) {
            tracing::warn!(node, why, "a member takes no entries of the log");
        }
    }

    async fn ask<T>(
        &self,
        ask: Ask,
        option: &RPCOption,
        read: impl FnOnce(Answer) -> Result<T, Answer>,
    ) -> Result<T, RPCError<Types>> {
        let answered = self.line().await?.ask(ask, option.hard_ttl()).await;
        let read = answered.and_then(|answer| read(answer).map_err(|_| AskError::Other));
        read.map_err(|error| RPCError::Unreachable(unreachable(&error)))
    }
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let mut answers = self.stream_append(stream::iter([rpc]), option).await?;
        match answers.next().await {
            Some(answer) => Ok(answer?.into()),
            None => Err(RPCError::Unreachable(unreachable(&NotConnected))),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> openraft::base::BoxFuture<'s, Result<AppendResults<'s>, RPCError<Types>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            let session = Session {
                line: self.line().await?,
                input: Some(input),
                term: 0,
                beat_limit: option.hard_ttl(),
                log: None,
            };
            let client = &*self;
            let answers = stream::unfold(Some(session), move |session| async move {
                let mut session = session?;
                match session.next().await {
                    // What comes after an answer that is no progress is for openraft to say.
                    Ok(Some(answer @ Ok(last))) => {
                        let through = last.map_or(0, |last| last.index);
                        client
                            .table
                            .acknowledges(client.node, session.term, through);
                        if session.log.is_some() {
                            client.table.log_passes(client.node);
                        }
                        Some((Ok(answer), Some(session)))
                    }
                    Ok(Some(Err(StreamAppendError::Conflict(at))))
                        if client.has_forgotten(at.index, session.term) =>
                    {
                        let error = RPCError::Unreachable(unreachable(&Forgetful));
                        Some((Err(error), None))
                    }
                    Ok(Some(answer @ Err(_))) => Some((Ok(answer), None)),
                    Ok(None) => None,
                    Err(error) => {
                        if session.log.is_some()
                            && let SessionError::Ask(AskError::Failed { what }) = &error
                        {
                            client.is_refused(what);
                        }
                        let error = RPCError::Unreachable(unreachable(&error));
                        Some((Err(error), None))
                    }
                }
            });
            let answers: AppendResults<'s> = Box::pin(answers);
            Ok(answers)
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let ask = Ask::Vote(Ballot::write(&rpc));
        self.ask(ask, &option, wire::read_vote_response).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let ask = Ask::PreVote(Ballot::write(&rpc));
        self.ask(ask, &option, wire::read_vote_response).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteCast,
        snapshot: SnapshotOf,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let line = self.line().await?;
        let sent = transfer::send_snapshot(&line.connection, &vote, &snapshot);
        let sent: Result<VoteCast, SendSnapshotError> = tokio::select! {
            closed = cancel => return Err(closed.into()),
            sent = sent => sent,
        };
        match sent {
            Ok(vote) => Ok(SnapshotResponse::new(vote)),
            Err(error) => {
                let error_text = crate::exit::causes(&error);
                tracing::warn!(error = error_text, "a snapshot was not delivered");
                Err(StreamingError::Unreachable(unreachable(&error)))
            }
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let ask = wire::write_transfer(&request);
        self.ask(ask, &option, wire::read_transfer_response).await
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(AGAIN)))
    }
}

#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("opening a stream for the log")]
    Open(#[from] StreamError),
    #[error("announcing entries of the log")]
    Announce(#[from] SendError),
    #[error("sending entries of the log")]
    Write(#[from] io::Error),
    #[error("hearing what became of entries")]
    Hear(#[from] ReceiveError),
    #[error("the other side ended the log's stream")]
    Ended,
    #[error("entries were neither taken nor answered for {} s", STILL_LIMIT.as_secs())]
    Still,
}

/// Requests on their way to one member, and its answers in the same order.
struct Session<S> {
    line: Arc<Line>,
    /// None when there are no more.
    input: Option<S>,
    /// In which the requests are made: all of one session in the same.
    term: u64,
    beat_limit: Duration,
    log: Option<LogStream>,
}

/// A stream that carries entries.
struct LogStream {
    sender: BulkSender,
    receiver: BulkReceiver,
    /// What is being written, and how much of it is.
    writing: Vec<u8>,
    written: usize,
    /// Messages without an answer.
    under_way: VecDeque<UnderWay>,
    bytes: usize,
    /// When anything was last taken or answered.
    moved: Instant,
}

struct UnderWay {
    bytes: usize,
    /// The last message of its request: to the ones before openraft expects no answer.
    last: bool,
}

impl<S> Session<S>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
{
    /// The next answer; `None` where there is nothing more to ask.
    async fn next(&mut self) -> Result<Option<StreamAppendResult<Types>>, SessionError> {
        if self.log.is_none() {
            let Some(request) = next_of(&mut self.input).await else {
                return Ok(None);
            };
            self.term = request.vote.leader_id.term;
            if request.entries.is_empty() {
                return beat(&self.line, &request, self.beat_limit).await.map(Some);
            }
            let mut log = LogStream::open(&self.line).await?;
            log.put(&request)?;
            self.log = Some(log);
        }
        let log = self.log.as_mut().expect("it has just been put there");
        loop {
            if log.under_way.is_empty() && self.input.is_none() {
                return Ok(None);
            }
            let takes_more = log.takes_more() && self.input.is_some();
            let LogStream {
                sender,
                receiver,
                writing,
                written,
                under_way,
                bytes,
                moved,
            } = log;
            let waits = !under_way.is_empty();
            tokio::select! {
                biased;
                heard = receiver.receive(), if waits => {
                    *moved = Instant::now();
                    let answer = heard?.ok_or(SessionError::Ended)?;
                    let answered = under_way.pop_front();
                    *bytes -= answered.as_ref().map_or(0, |it| it.bytes);
                    match answer {
                        Answer::Appended(Appended::Matched { .. })
                            if answered.is_some_and(|it| !it.last) => {}
                        Answer::Appended(appended) => return Ok(Some(appended.read())),
                        Answer::Failed { what } => return Err(AskError::Failed { what }.into()),
                        _ => return Err(AskError::Other.into()),
                    }
                }
                wrote = sender.write(&writing[*written..]), if *written < writing.len() => {
                    *written += wrote?;
                    *moved = Instant::now();
                }
                request = next_of(&mut self.input), if takes_more => {
                    if let Some(request) = request {
                        log.put(&request)?;
                    }
                }
                () = sleep_until(*moved + STILL_LIMIT), if waits => {
                    return Err(SessionError::Still);
                }
            }
        }
    }
}

/// A request without entries.
async fn beat(
    line: &Line,
    request: &AppendEntriesRequest<Types>,
    limit: Duration,
) -> Result<StreamAppendResult<Types>, SessionError> {
    let append = wire::write_beat(request);
    match line.ask(Ask::Beat(append), limit).await? {
        Answer::Appended(appended) => Ok(appended.read()),
        _ => Err(AskError::Other.into()),
    }
}

/// The next request, and none for ever after the last.
async fn next_of<S>(input: &mut Option<S>) -> Option<AppendEntriesRequest<Types>>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Unpin,
{
    let request = input.as_mut()?.next().await;
    if request.is_none() {
        *input = None;
    }
    request
}

impl LogStream {
    async fn open(line: &Line) -> Result<LogStream, SessionError> {
        let (mut sender, receiver) = line.connection.open_bulk().await?;
        sender.send(&Opening::Log).await?;
        Ok(LogStream {
            sender,
            receiver,
            writing: Vec::new(),
            written: 0,
            under_way: VecDeque::new(),
            bytes: 0,
            moved: Instant::now(),
        })
    }

    fn takes_more(&self) -> bool {
        let whole = self.written == self.writing.len();
        let room =
            self.under_way.len() < MESSAGES_UNDER_WAY_MAX && self.bytes < BYTES_UNDER_WAY_MAX;
        whole && (room || self.under_way.is_empty())
    }

    fn put(&mut self, request: &AppendEntriesRequest<Types>) -> Result<(), SendError> {
        self.writing.clear();
        self.written = 0;
        self.moved = Instant::now();
        for (append, entries) in wire::write_appends(request, MESSAGE_BYTES_MAX) {
            let frame = encode_frame(&append)?;
            self.writing.extend_from_slice(&frame);
            self.writing.extend_from_slice(&entries);
            let bytes = frame.len() + entries.len();
            self.bytes += bytes;
            self.under_way.push_back(UnderWay { bytes, last: false });
        }
        if let Some(last) = self.under_way.back_mut() {
            last.last = true;
        }
        Ok(())
    }
}
