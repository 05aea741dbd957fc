//! Answering other members.
//!
//! A connection is served for as long as it lives, and what is asked on it is openraft's to judge:
//! it knows terms and votes, and takes nothing from somebody whose time is over. What is bounded
//! here is what one connection may hold up or fill.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use openraft::Raft;
use openraft::raft::AppendEntriesRequest;
use protocol::message::RenewAnswer;
use tokio::io::AsyncReadExt;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use transport::{
    BulkReceiver, BulkSender, Connection, ControlReceiver, ControlSender, HandshakeError, Incoming,
    Listener, PeerName, ReceiveError, SendError, StreamError,
};

use super::super::snapshots::Snapshots;
use super::super::state::State;
use super::super::types::Types;
use super::hello::{Met, Refusal};
use super::link::HELLO_LIMIT;
use super::table::Table;
use super::transfer;
use super::wire::{
    self, Answer, Answered, Append, Appended, Ask, Asked, Greeting, Knows, Opening, WireError,
};
use crate::authority::Authority;
use crate::exit::causes;
use crate::renewal::{self, NotSigned};

/// Connections that are served or shaking hands. Each member has one, and leaves one behind when it
/// is restarted.
const CONNECTIONS_MAX: usize = 64;

/// Questions of one connection that are being answered.
const ASKED_MAX: usize = 64;

/// Streams of one connection that are being served.
const STREAMS_MAX: usize = 8;

/// Longest time for the entries of a message that was announced.
const ENTRIES_LIMIT: Duration = Duration::from_secs(60);

type Node = Raft<Types, State>;

/// What is needed to answer.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) table: Arc<Table>,
    pub(super) raft: Node,
    pub(super) snapshots: Snapshots,
    /// One snapshot at a time.
    pub(super) arriving: Arc<Semaphore>,
    /// Where this machine has the key.
    pub(super) authority: Option<Authority>,
}

/// Serves whoever may be served, until it is dropped.
pub(super) async fn listen(listener: Arc<Listener>, answers: Answers) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut serving = JoinSet::new();
    while let Some(incoming) = listener.accept().await {
        while serving.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let who = incoming.remote_address().ip().to_string();
            turn_away(&answers.table, who, "too many connections at once");
            continue;
        };
        let answers = answers.clone();
        serving.spawn(async move {
            serve(incoming, answers).await;
            drop(place);
        });
    }
}

fn turn_away(table: &Table, who: String, why: &str) {
    if table.turned_away(who.clone(), why) {
        tracing::warn!(
            who,
            why,
            "a machine that would speak to this member was turned away"
        );
    }
}

/// A connection that ended before or in its first words.
#[derive(Debug, thiserror::Error)]
enum WelcomeError {
    #[error("the first words")]
    Stream(#[from] StreamError),
    #[error("saying hello")]
    Say(#[from] SendError),
    #[error("hearing its hello")]
    Hear(#[from] ReceiveError),
    #[error("it said no hello")]
    Silent,
    #[error(transparent)]
    Refusing(#[from] Refusal),
}

async fn serve(incoming: Incoming, answers: Answers) {
    let address = incoming.remote_address();
    let (name, connection) = match incoming.handshake().await {
        Ok(met) => met,
        // It gave up, or somebody else's packets came here.
        Err(error @ (HandshakeError::Lost { .. } | HandshakeError::NoAnswer { .. })) => {
            tracing::debug!(%address, error = causes(&error), "a handshake broke off");
            return;
        }
        Err(error) => {
            turn_away(&answers.table, address.ip().to_string(), &causes(&error));
            return;
        }
    };
    let welcomed = timeout(HELLO_LIMIT, welcome(&name, &connection, &answers.table));
    match welcomed.await.unwrap_or(Err(WelcomeError::Silent)) {
        Ok((met, knows, streams)) => {
            answers.table.met(&met, connection.peer_lifetime());
            tracing::debug!(node = met.node, %address, "a member has connected");
            let (sender, receiver) = streams;
            let over = tokio::select! {
                () = answer_all(met.node, sender, receiver, &answers) => "it is not served any more",
                () = take_streams(met.node, &name, &connection, &answers) => "it is not served any more",
                // It dials again, and is told so in the first words, as one program to another.
                () = answers.table.removed(met.node, knows == Knows::You) => "it was removed from the group",
                _ = connection.closed() => "it is closed",
            };
            connection.close(over);
        }
        Err(error) => {
            let why = causes(&error);
            turn_away(&answers.table, name.to_string(), &why);
            connection.close(&why);
        }
    }
}

/// Who it is, and what it was told that it is here.
async fn welcome(
    name: &transport::PeerName,
    connection: &Connection,
    table: &Table,
) -> Result<(Met, Knows, (ControlSender, ControlReceiver)), WelcomeError> {
    let (mut sender, mut receiver) = connection.accept_control().await?;
    let said = receiver.receive().await?.ok_or(WelcomeError::Silent)?;
    match table.judge(name, connection.peer_node(), None, &said) {
        Ok(met) => {
            let own = table.hello(Some(met.node));
            let knows = own.knows_you;
            sender.send(&Greeting::Welcome(own)).await?;
            Ok((met, knows, (sender, receiver)))
        }
        Err(refusal) => {
            let why = refusal.to_string();
            sender.send(&Greeting::Refused { why }).await?;
            // Until it has arrived, or the other side is gone.
            sender.finish().await?;
            Err(refusal.into())
        }
    }
}

/// Answers what is asked on the control stream, until it ends.
async fn answer_all(
    node: u64,
    mut sender: ControlSender,
    mut receiver: ControlReceiver,
    answers: &Answers,
) {
    let mut answering = JoinSet::new();
    loop {
        tokio::select! {
            asked = receiver.receive(), if answering.len() < ASKED_MAX => {
                let Ok(Some(Asked { id, ask })) = asked else {
                    return;
                };
                answers.table.heard(node);
                let answers = answers.clone();
                answering.spawn(async move {
                    let answer = answer(ask, &answers).await;
                    Answered { id, answer }
                });
            }
            Some(Ok(answered)) = answering.join_next() => {
                if sender.send(&answered).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn answer(ask: Ask, answers: &Answers) -> Answer {
    let raft = &answers.raft;
    let answered = match ask {
        Ask::Beat(append) => match append.read(&[]) {
            Ok(request) => beat(raft, request).await,
            Err(error) => Err(causes(&error)),
        },
        Ask::Vote(ballot) => match raft.vote(ballot.read()).await {
            Ok(response) => Ok(wire::write_vote_response(&response)),
            Err(error) => Err(error.to_string()),
        },
        Ask::PreVote(ballot) => match raft.pre_vote(ballot.read()).await {
            Ok(response) => Ok(wire::write_vote_response(&response)),
            Err(error) => Err(error.to_string()),
        },
        Ask::TakeLead { from, to, last } => {
            let request = wire::read_transfer(from, to, last);
            match raft.handle_transfer_leader(request).await {
                Ok(response) => Ok(wire::write_transfer_response(&response)),
                Err(error) => Err(error.to_string()),
            }
        }
        Ask::Clock => Ok(Answer::Clock(Box::new(answers.table.clock()))),
    };
    answered.unwrap_or_else(|what| Answer::Failed { what })
}

async fn beat(raft: &Node, request: AppendEntriesRequest<Types>) -> Result<Answer, String> {
    let prev = request.prev_log_id;
    let response = raft.append_entries(request).await;
    let response = response.map_err(|error| error.to_string())?;
    let result = response.into_stream_result(prev, prev);
    Ok(Answer::Appended(Appended::write(&result)))
}

/// Takes what comes on streams of its own, until the connection ends.
async fn take_streams(node: u64, name: &PeerName, connection: &Connection, answers: &Answers) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept_bulk(), if serving.len() < STREAMS_MAX => {
                let Ok((sender, receiver)) = accepted else {
                    return;
                };
                let answers = answers.clone();
                let asker = (name.clone(), connection.clone());
                serving.spawn(async move {
                    let taken = take_stream(node, &asker, sender, receiver, &answers);
                    if let Err(error) = taken.await {
                        tracing::debug!(node, error = causes(&error), "a stream of a member ended");
                    }
                });
            }
            Some(_) = serving.join_next() => {}
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error("hearing what is on a stream")]
    Hear(#[from] ReceiveError),
    #[error("answering on a stream")]
    Say(#[from] SendError),
}

async fn take_stream(
    node: u64,
    (name, connection): &(PeerName, Connection),
    mut sender: BulkSender,
    mut receiver: BulkReceiver,
    answers: &Answers,
) -> Result<(), TakeError> {
    match receiver.receive().await? {
        Some(Opening::Log) => take_log(node, sender, receiver, answers).await?,
        Some(Opening::Snapshot(snapshot)) => {
            let answer = transfer::take_snapshot(node, snapshot, receiver, answers).await;
            sender.send(&answer).await?;
            sender.finish().await?;
        }
        Some(Opening::Renew) => {
            sender
                .send(&renewed(node, name, connection, answers).await)
                .await?;
            sender.finish().await?;
        }
        None => {}
    }
    Ok(())
}

async fn renewed(
    node: u64,
    name: &PeerName,
    connection: &Connection,
    answers: &Answers,
) -> RenewAnswer {
    let signed = match answers.table.member(node) {
        Some(_) => renewal::for_member(answers.authority.as_ref(), name, connection).await,
        None => Err(NotSigned::NoMember { node }),
    };
    renewal::answer(signed)
}

/// Has openraft take entries as they come. It answers in order, and each when it is on the disk.
async fn take_log(
    node: u64,
    mut sender: BulkSender,
    receiver: BulkReceiver,
    answers: &Answers,
) -> Result<(), TakeError> {
    let (failed, failure) = oneshot::channel();
    let requests = read_requests(receiver, failed);
    let mut results = Box::pin(answers.raft.stream_append(requests));
    while let Some(result) = results.next().await {
        answers.table.heard(node);
        if let Ok(Ok(_)) = &result {
            answers.table.log_passes(node);
        }
        let answer = match &result {
            Ok(result) => Answer::Appended(Appended::write(result)),
            Err(error) => Answer::Failed {
                what: error.to_string(),
            },
        };
        sender.send(&answer).await?;
        if !matches!(result, Ok(Ok(_))) {
            // The other side begins anew.
            return Ok(sender.finish().await?);
        }
    }
    if let Ok(what) = failure.await {
        let why = format!("what it sends of the log cannot be used here: {what}");
        if answers.table.log_trouble(node, &why) {
            tracing::warn!(node, why, "entries of the log are not taken");
        }
        sender.send(&Answer::Failed { what }).await?;
    }
    Ok(sender.finish().await?)
}

#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("hearing of entries")]
    Hear(#[from] ReceiveError),
    #[error("receiving entries")]
    Read(#[from] std::io::Error),
    #[error("entries were announced and did not come within {} s", ENTRIES_LIMIT.as_secs())]
    Slow,
    #[error("a message cannot be used")]
    Wire(#[from] WireError),
}

impl RequestError {
    /// The other side has given the stream up, or is gone: what it sent is not at fault.
    fn is_end(&self) -> bool {
        matches!(
            self,
            RequestError::Hear(ReceiveError::Abandoned | ReceiveError::Lost(_))
                | RequestError::Read(_)
        )
    }
}

fn read_requests(
    receiver: BulkReceiver,
    failed: oneshot::Sender<String>,
) -> impl Stream<Item = AppendEntriesRequest<Types>> + Send + 'static {
    stream::unfold(Some((receiver, failed)), |state| async move {
        let (mut receiver, failed) = state?;
        match read_request(&mut receiver).await {
            Ok(Some(request)) => Some((request, Some((receiver, failed)))),
            Ok(None) => None,
            Err(error) if error.is_end() => None,
            Err(error) => {
                // Nobody hears of it where the stream was given up.
                let _ = failed.send(causes(&error));
                None
            }
        }
    })
}

async fn read_request(
    receiver: &mut BulkReceiver,
) -> Result<Option<AppendEntriesRequest<Types>>, RequestError> {
    let Some(append) = receiver.receive::<Append>().await? else {
        return Ok(None);
    };
    let mut bytes = vec![0; append.bytes()?];
    match timeout(ENTRIES_LIMIT, receiver.read_exact(&mut bytes)).await {
        Ok(read) => read?,
        Err(_) => return Err(RequestError::Slow),
    };
    Ok(Some(append.read(&bytes)?))
}
