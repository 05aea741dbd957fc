//! The door for agents: handshakes, and one reader and one writer for each connection.
//!
//! Nothing an agent does may hold up another or the scheduler. Handshakes run beside each other up
//! to a number; a connection may have a few messages waiting for the core, then its reader
//! waits; what is sent to it goes into a queue that cuts it off when it overflows. Whatever cannot be
//! read closes its own connection, with a warning, and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coordinator_core::ConnId;
use protocol::AgentName;
use protocol::message::{AgentMessage, AgentRequest, Hello, Nonce, PROTOCOL_VERSION};
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use transport::settings::HANDSHAKE_LIMIT;
use transport::{
    BulkSender, Connection, ControlReceiver, ControlSender, Incoming, Listener, ReceiveError,
    SendError,
};

use crate::authority::Authority;
use crate::engine::{Engine, Input};
use crate::exit::causes;
use crate::registration::Registry;
use crate::renewal;
use crate::roster::{Outgoing, Roster};

/// Peers that are not known yet, at a time. The others wait in the listener's own bounded queue.
const HANDSHAKES_MAX: usize = 512;

/// Messages of one connection that may wait for the core.
const INCOMING_MAX: usize = 64;

/// Messages that one connection may bring in a window of time; its reader waits for the next. Ten times
/// what a host can mean that starts and ends processes as fast as a kernel can: one that says more
/// is broken, and must not take the scheduler and the disk from all others.
const MESSAGES_MAX: u32 = 2_000;
const WINDOW: Duration = Duration::from_millis(100);

/// On one connection no more often is anything asked: each time the ledger is.
const ANSWER_PAUSE: Duration = Duration::from_secs(1);

/// Messages that leave in one write, where so many wait.
const SENT_AT_ONCE: usize = 64;

/// How long an agent may take to say hello on its connection. Then it waits to be invited, for as
/// long as this coordinator does not lead.
const FIRST_WORD_LIMIT: Duration = HANDSHAKE_LIMIT;

/// How long what is sent at once may take to leave; the peer's machine answers meanwhile, or the
/// connection would be lost, but its agent does not read.
const SEND_LIMIT: Duration = Duration::from_secs(30);

/// How long the last words of a connection may take to be received.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(2);

/// What every connection needs.
#[derive(Clone)]
struct Hall {
    engine: Engine,
    roster: Arc<Roster>,
    /// Renews what hosts have, where this machine has its key.
    authority: Option<Arc<Authority>>,
    registry: Registry,
}

/// Why a connection is not served any longer.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("opening the control stream")]
    NoControl(#[source] transport::StreamError),
    #[error("it said nothing for {} s", FIRST_WORD_LIMIT.as_secs())]
    Speechless,
    #[error(
        "the agent speaks protocol {0}, this coordinator {PROTOCOL_VERSION}; run the same release on both"
    )]
    OtherProtocol(u32),
    #[error("receiving a message")]
    Receive(#[source] ReceiveError),
    #[error("sending a message")]
    Send(#[source] SendError),
    #[error("it did not read a message for {} s", SEND_LIMIT.as_secs())]
    Unread,
    #[error("it opened a stream that nobody asked for")]
    Uninvited,
    #[error("drawing a nonce")]
    Random(#[source] getrandom::Error),
    #[error(transparent)]
    TooMany(#[from] crate::roster::TooMany),
    #[error("{0}")]
    Asked(String),
    #[error("the agent ended it")]
    Finished,
}

/// Lets agents in until the listener is shut down.
pub(crate) async fn welcome(
    listener: Arc<Listener>,
    engine: Engine,
    roster: Arc<Roster>,
    authority: Option<Arc<Authority>>,
    registry: Registry,
) {
    let hall = Hall {
        engine,
        roster,
        authority,
        registry,
    };
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let room = Arc::clone(&handshakes)
            .acquire_owned()
            .await
            .expect("nobody closes this semaphore");
        let Some(incoming) = listener.accept().await else {
            return;
        };
        let hall = hall.clone();
        tokio::spawn(async move {
            let greeted = greet(incoming).await;
            drop(room);
            if let Some((name, connection, control)) = greeted {
                hall.serve(name, connection, control).await;
            }
        });
    }
}

type Control = (ControlSender, ControlReceiver);

/// Everything up to where it is known who speaks.
async fn greet(incoming: Incoming) -> Option<(AgentName, Connection, Control)> {
    let peer = incoming.remote_address();
    let (name, connection) = match incoming.handshake().await {
        Ok(known) => known,
        Err(error) => {
            tracing::warn!(%peer, error = causes(&error), "a peer was not let in");
            return None;
        }
    };
    match timeout(FIRST_WORD_LIMIT, hear_hello(&connection)).await {
        Ok(Ok(control)) => Some((name.name, connection, control)),
        Ok(Err(end)) => warn_and_close(&name.name, &connection, &end),
        Err(_) => warn_and_close(&name.name, &connection, &End::Speechless),
    }
}

async fn hear_hello(connection: &Connection) -> Result<Control, End> {
    let control = connection.accept_control().await;
    let (sender, mut receiver) = control.map_err(End::NoControl)?;
    match receiver.receive::<Hello>().await {
        Ok(Some(hello)) if hello.protocol_version == PROTOCOL_VERSION => Ok((sender, receiver)),
        Ok(Some(hello)) => Err(End::OtherProtocol(hello.protocol_version)),
        Ok(None) => Err(End::Finished),
        Err(error) => Err(End::Receive(error)),
    }
}

fn warn_and_close<T>(name: &AgentName, connection: &Connection, end: &End) -> Option<T> {
    tell(name, connection, end);
    connection.close(&causes(end));
    None
}

impl Hall {
    async fn serve(&self, name: AgentName, connection: Connection, control: Control) {
        let (sender, mut receiver) = control;
        let (conn, queue) = match self.roster.admit(&name, &connection) {
            Ok(admitted) => admitted,
            Err(error) => {
                warn_and_close::<()>(&name, &connection, &error.into());
                return;
            }
        };
        let mut writer = tokio::spawn(write(sender, queue));
        let end = tokio::select! {
            end = self.read(conn, &name, &connection, &mut receiver) => end,
            end = self.answer(&name, &connection) => end,
            end = &mut writer => written(end),
        };
        writer.abort();
        tell(&name, &connection, &end);
        connection.close(&causes(&end));
        self.roster.remove(conn);
        self.engine.send(Input::Disconnected { conn });
    }

    /// Hands what the agent says to the core, until it cannot be understood.
    async fn read(
        &self,
        conn: ConnId,
        name: &AgentName,
        connection: &Connection,
        receiver: &mut ControlReceiver,
    ) -> End {
        let nonce = match getrandom::u64() {
            Ok(drawn) => Nonce(drawn),
            Err(error) => return End::Random(error),
        };
        self.engine.send(Input::Connected {
            conn,
            name: name.clone(),
            certificate: connection.peer_lifetime(),
            nonce,
        });
        let room = Arc::new(Semaphore::new(INCOMING_MAX));
        let mut pace = Pace::default();
        let mut told = false;
        loop {
            if let Some(wait) = pace.step(Instant::now()) {
                if !std::mem::replace(&mut told, true) {
                    let agent = name.as_str();
                    tracing::warn!(
                        agent,
                        "an agent says more than a host can mean; it is slowed down"
                    );
                }
                tokio::time::sleep(wait).await;
            }
            let received = receiver.receive::<AgentMessage>().await;
            let message = match received {
                Ok(Some(message)) => message,
                Ok(None) => return End::Finished,
                Err(error) => return End::Receive(error),
            };
            let room = Arc::clone(&room)
                .acquire_owned()
                .await
                .expect("nobody closes this semaphore");
            self.engine.send(Input::Message {
                conn,
                message,
                room,
            });
        }
    }
}

impl Hall {
    /// Answers what an agent asks on a stream of its own, one after the other. Whatever is bulky this
    /// side asks for; an agent that wants something else is not one of ours.
    async fn answer(&self, name: &AgentName, connection: &Connection) -> End {
        loop {
            let (sender, mut receiver) = match connection.accept_bulk().await {
                Ok(stream) => stream,
                Err(error) => return End::NoControl(error),
            };
            let asked = timeout(FIRST_WORD_LIMIT, receiver.receive()).await;
            let Ok(Ok(Some(request))) = asked else {
                return End::Uninvited;
            };
            let said = match request {
                AgentRequest::Renew => {
                    let authority = self.authority.as_deref();
                    let signed = renewal::for_agent(authority, &self.engine, name, connection);
                    say(sender, &renewal::answer(signed.await)).await
                }
                AgentRequest::Register { digest, bytes } => {
                    let taken = self.registry.take(name, digest, bytes, receiver).await;
                    say(sender, &taken).await
                }
            };
            if let Err(end) = said {
                return end;
            }
            sleep(ANSWER_PAUSE).await;
        }
    }
}

/// The one answer on a stream.
async fn say(mut sender: BulkSender, answer: &impl Serialize) -> Result<(), End> {
    let sent = timeout(SEND_LIMIT, async {
        sender.send(answer).await?;
        sender.finish().await
    });
    match sent.await {
        // Who has waited long enough for the answer asks again on another stream.
        Ok(Ok(()) | Err(SendError::Stopped)) => Ok(()),
        Ok(Err(error)) => Err(End::Send(error)),
        Err(_) => Err(End::Unread),
    }
}

/// Counts the messages of one connection.
#[derive(Debug, Default)]
struct Pace {
    window: Option<Instant>,
    count: u32,
}

impl Pace {
    /// One more; how long it must wait first, where it is too many.
    fn step(&mut self, now: Instant) -> Option<Duration> {
        let since = self.window.map(|window| now.duration_since(window));
        if since.is_none_or(|since| since >= WINDOW) {
            self.window = Some(now);
            self.count = 0;
        }
        self.count += 1;
        if self.count <= MESSAGES_MAX {
            return None;
        }
        let next = self.window.map_or(now, |window| window + WINDOW);
        self.window = Some(next);
        self.count = 1;
        Some(next.duration_since(now))
    }
}

/// Sends what is in the queue; says why it stopped.
async fn write(mut sender: ControlSender, mut queue: mpsc::Receiver<Outgoing>) -> End {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, SENT_AT_ONCE).await > 0 {
        let mut messages = Vec::with_capacity(waiting.len());
        let mut farewell = None;
        for outgoing in waiting.drain(..) {
            match outgoing {
                Outgoing::Message(message) => messages.push(message),
                // Nothing follows it.
                Outgoing::Close { reason } => farewell = farewell.or(Some(reason)),
            }
        }
        match timeout(SEND_LIMIT, sender.send_all(&messages)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return End::Send(error),
            Err(_) => return End::Unread,
        }
        if let Some(reason) = farewell {
            return match timeout(LAST_WORDS_LIMIT, sender.finish()).await {
                // It was asked to end, and whether it heard the last words changes nothing.
                Ok(_) | Err(_) => End::Asked(reason),
            };
        }
    }
    End::Finished
}

fn written(end: Result<End, tokio::task::JoinError>) -> End {
    end.unwrap_or_else(|error| End::Asked(format!("its writer ended: {error}")))
}

/// What is ordinary is told as such, and what an agent should not do as a warning.
fn tell(name: &AgentName, connection: &Connection, end: &End) {
    let peer = connection.remote_address();
    let agent = name.as_str();
    let reason = causes(end);
    match end {
        End::Finished
        | End::Asked(_)
        | End::NoControl(transport::StreamError::Lost(_))
        | End::Receive(ReceiveError::Lost(_) | ReceiveError::Abandoned)
        | End::Send(SendError::Lost(_) | SendError::Stopped) => {
            tracing::info!(agent, %peer, reason, "an agent's connection ended");
        }
        _ => {
            tracing::warn!(agent, %peer, reason, "an agent's connection is closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_too_much_waits_for_the_next_window_and_nobody_else_does() {
        let begun = Instant::now();
        let mut pace = Pace::default();
        for _ in 0..MESSAGES_MAX {
            assert_eq!(pace.step(begun), None);
        }
        let later = begun + WINDOW / 4;
        assert_eq!(pace.step(later), Some(WINDOW * 3 / 4));
        // It has waited, and its window has begun.
        let next = begun + WINDOW;
        for _ in 1..MESSAGES_MAX {
            assert_eq!(pace.step(next), None);
        }
        assert!(pace.step(next).is_some());
        assert_eq!(pace.step(next + WINDOW * 2), None);
    }
}
