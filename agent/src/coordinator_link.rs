//! Connections to a coordinator: dialled, spoken on, and the bulk streams it opens on them.

use std::io;
use std::time::Duration;

use agent_core::agent::ConnectionId;
use protocol::message::{AgentMessage, Hello, PROTOCOL_VERSION};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use transport::{
    ConnectError, Connection, ControlReceiver, ControlSender, Dialer, PeerName, ReceiveError, Role,
    SendError, StreamError,
};

use crate::chain::chain;
use crate::output;
use crate::run::Input;

/// Messages that may wait for a network that does not take them. The core gives a silent
/// coordinator up long before; this only bounds the memory.
pub(crate) const OUTGOING_MAX: usize = 8192;

/// Messages that leave in one write, where so many wait.
const SENT_AT_ONCE: usize = 64;

/// Where and as whom to dial.
pub(crate) struct Line {
    pub(crate) dialer: Dialer,
    /// `host:port`.
    pub(crate) coordinator: String,
    pub(crate) output_directory: String,
    pub(crate) inputs: mpsc::Sender<Input>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("looking up `{coordinator}`")]
    Lookup {
        coordinator: String,
        source: io::Error,
    },
    #[error("`{coordinator}` has no address")]
    NoAddress { coordinator: String },
    #[error("connecting to the coordinator")]
    Connect(#[from] ConnectError),
    #[error("opening a stream")]
    Stream(#[from] StreamError),
    #[error("receiving from the coordinator")]
    Receive(#[from] ReceiveError),
    #[error("sending to the coordinator")]
    Send(#[from] SendError),
    #[error("the coordinator ended the conversation")]
    Finished,
    #[error("the agent closed the connection")]
    Closed,
}

/// Waits, dials once, and if that goes well carries the conversation until it ends. Whatever
/// happens, [`Input::Disconnected`] is the last that is heard of this connection.
pub(crate) async fn run(line: std::sync::Arc<Line>, id: ConnectionId, pause: Duration) {
    tokio::time::sleep(pause).await;
    let error = match dial(&line).await {
        Ok((peer, connection)) => {
            tracing::info!(coordinator = %peer, connection = id.0, "connected");
            let error = converse(&line, id, &connection).await;
            connection.close(&chain(&error));
            error
        }
        Err(error) => error,
    };
    let why = chain(&error);
    // Nobody listens any more when the agent is stopping.
    let _ = line.inputs.send(Input::Disconnected { id, why }).await;
}

/// Every address is tried in turn.
async fn dial(line: &Line) -> Result<(PeerName, Connection), LinkError> {
    let coordinator = &line.coordinator;
    let addresses = tokio::net::lookup_host(coordinator)
        .await
        .map_err(|source| LinkError::Lookup {
            coordinator: coordinator.clone(),
            source,
        })?;
    let mut error = LinkError::NoAddress {
        coordinator: coordinator.clone(),
    };
    for address in addresses {
        match line.dialer.connect(address, Role::Coordinator).await {
            Ok(connected) => return Ok(connected),
            Err(failed) => error = failed.into(),
        }
    }
    Err(error)
}

async fn converse(line: &Line, id: ConnectionId, connection: &Connection) -> LinkError {
    let (mut sender, receiver) = match connection.open_control().await {
        Ok(streams) => streams,
        Err(error) => return error.into(),
    };
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
    };
    if let Err(error) = sender.send(&hello).await {
        return error.into();
    }
    let (outgoing, waiting) = mpsc::channel(OUTGOING_MAX);
    let connected = Input::Connected {
        id,
        outgoing,
        connection: connection.clone(),
    };
    if line.inputs.send(connected).await.is_err() {
        return LinkError::Closed;
    }
    tokio::select! {
        error = listen(line, id, receiver) => error,
        error = speak(sender, waiting) => error,
        error = serve(line, connection) => error,
    }
}

async fn listen(line: &Line, id: ConnectionId, mut receiver: ControlReceiver) -> LinkError {
    loop {
        let message = match receiver.receive().await {
            Ok(Some(message)) => message,
            Ok(None) => return LinkError::Finished,
            Err(error) => return error.into(),
        };
        if line
            .inputs
            .send(Input::Message { id, message })
            .await
            .is_err()
        {
            return LinkError::Closed;
        }
    }
}

async fn speak(mut sender: ControlSender, mut waiting: mpsc::Receiver<AgentMessage>) -> LinkError {
    let mut messages = Vec::new();
    while waiting.recv_many(&mut messages, SENT_AT_ONCE).await > 0 {
        if let Err(error) = sender.send_all(&messages).await {
            return error.into();
        }
        messages.clear();
    }
    LinkError::Closed
}

/// Answers the bulk streams that the coordinator opens; transport bounds how many.
async fn serve(line: &Line, connection: &Connection) -> LinkError {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            stream = connection.accept_bulk() => match stream {
                Ok((sender, receiver)) => {
                    let directory = line.output_directory.clone();
                    serving.spawn(async move { output::serve(sender, receiver, &directory).await });
                }
                Err(error) => return error.into(),
            },
            Some(served) = serving.join_next() => match served {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = chain(&error), "an output could not be sent");
                }
                Err(error) => tracing::error!(%error, "sending an output broke down"),
            },
        }
    }
}
