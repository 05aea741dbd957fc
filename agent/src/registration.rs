//! The host's profile on its way to the coordinator.

use std::time::Duration;

use agent_core::agent::Registered;
use protocol::message::{AgentRequest, RegisterAnswer};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use transport::{Connection, ReceiveError, SendError, StreamError};

use crate::chain::chain;
use crate::looks::WrittenProfile;

/// How long a coordinator may take to answer: other hosts may be before this one, and it asks its ledger.
const ANSWER_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, thiserror::Error)]
enum RegistrationError {
    #[error("opening a stream")]
    Stream(#[from] StreamError),
    #[error("announcing the profile")]
    Announce(#[from] SendError),
    #[error("sending the profile")]
    Send(#[from] std::io::Error),
    #[error("hearing the answer")]
    Receive(#[from] ReceiveError),
    #[error("the coordinator has not answered")]
    Silent,
}

/// Sends a profile on a stream of its own, and says what became of it.
pub(crate) async fn register(connection: Connection, profile: WrittenProfile) -> Registered {
    let sent = match timeout(ANSWER_MAX, send(&connection, &profile)).await {
        Ok(sent) => sent,
        Err(_) => Err(RegistrationError::Silent),
    };
    match sent {
        Ok(RegisterAnswer::Registered { generation }) => {
            tracing::info!(generation, "this host is registered");
            Registered::Taken
        }
        Ok(RegisterAnswer::Refused { reason }) => {
            tracing::warn!(reason, "the coordinator refuses this host's profile");
            Registered::Refused
        }
        Ok(RegisterAnswer::Later { reason }) => {
            tracing::info!(reason, "this host is not registered yet; it is tried again");
            Registered::Failed
        }
        Err(error) => {
            let why = chain(&error);
            tracing::info!(why, "this host is not registered yet; it is tried again");
            Registered::Failed
        }
    }
}

async fn send(
    connection: &Connection,
    profile: &WrittenProfile,
) -> Result<RegisterAnswer, RegistrationError> {
    let (mut sender, mut receiver) = connection.open_bulk().await?;
    let bytes = u32::try_from(profile.bytes.len()).unwrap_or(u32::MAX);
    let digest = profile.digest;
    sender
        .send(&AgentRequest::Register { digest, bytes })
        .await?;
    sender.write_all(&profile.bytes).await?;
    sender.shutdown().await?;
    receiver.receive().await?.ok_or(RegistrationError::Silent)
}
