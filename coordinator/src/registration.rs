//! A host tells what it was found to be, on a stream of its own.
//!
//! The profile is read whole, compared with the one that the ledger has, and proposed with what differs.
//! All of that is done beside the engine, which only carries the command to the ledger, and by a few
//! hosts at a time: they wait for each other, never people for them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use coordinator_core::{Request, RequestError};
use ledger::command::RegisterHost;
use ledger::{Done, Refusal};
use profiles::changes::differences;
use protocol::host::{FactsError, PROFILE_BYTES_MAX, ProfileDigest};
use protocol::message::RegisterAnswer;
use protocol::{AgentName, HostProfile};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::api::Readers;
use crate::engine::{AskError, Engine};
use crate::exit::causes;

/// Profiles in hand at a time.
const AT_A_TIME: usize = 8;

/// How long a profile may take to arrive: at 100 KiB a second the largest takes ten.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(30);

/// How often a profile is compared anew where another one came first. An agent sends one at a time, so
/// that is another process under its name.
const TRIES: u32 = 3;

/// What all connections register through. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registry {
    engine: Engine,
    readers: Readers,
    turns: Arc<Semaphore>,
}

/// Why a profile was not taken.
#[derive(Debug, thiserror::Error)]
enum NotRegistered {
    #[error("a profile of {bytes} bytes, more than the {PROFILE_BYTES_MAX} that one may have")]
    TooLarge { bytes: u32 },
    #[error("receiving the profile")]
    Receive(#[source] io::Error),
    #[error("it took longer than {} s to arrive", ARRIVAL_LIMIT.as_secs())]
    Slow,
    #[error("{got} bytes came where {announced} were announced")]
    Cut { got: usize, announced: u32 },
    #[error("reading the profile")]
    Read(#[from] serde_json::Error),
    #[error(transparent)]
    Facts(#[from] FactsError),
    #[error("reading what it registered before: {0}")]
    Ledger(String),
    #[error(transparent)]
    Asked(#[from] AskError),
    #[error("the ledger answered something else")]
    Other,
}

impl NotRegistered {
    /// Whether the same profile would be refused again.
    fn is_final(&self) -> bool {
        match self {
            NotRegistered::TooLarge { .. } | NotRegistered::Read(_) | NotRegistered::Facts(_) => {
                true
            }
            NotRegistered::Asked(AskError::Refused(RequestError::Refused(refusal))) => {
                !matches!(refusal, Refusal::ProfileMoved { .. })
            }
            _ => false,
        }
    }
}

impl Registry {
    pub(crate) fn new(engine: Engine, readers: &Readers) -> Registry {
        Registry {
            engine,
            readers: readers.apart(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Takes the profile that follows on a stream.
    pub(crate) async fn take(
        &self,
        name: &AgentName,
        digest: ProfileDigest,
        bytes: u32,
        stream: impl AsyncRead + Unpin,
    ) -> RegisterAnswer {
        let turn = self.turns.acquire().await;
        let _turn = turn.expect("nobody closes this semaphore");
        match self.register(name, digest, bytes, stream).await {
            Ok(generation) => RegisterAnswer::Registered { generation },
            Err(error) => {
                let agent = name.as_str();
                let reason = causes(&error);
                if error.is_final() {
                    tracing::warn!(agent, reason, "a host's profile is refused");
                    RegisterAnswer::Refused { reason }
                } else {
                    tracing::info!(agent, reason, "a host's profile is not taken now");
                    RegisterAnswer::Later { reason }
                }
            }
        }
    }

    async fn register(
        &self,
        name: &AgentName,
        digest: ProfileDigest,
        bytes: u32,
        stream: impl AsyncRead + Unpin,
    ) -> Result<u32, NotRegistered> {
        let written = receive(bytes, stream).await?;
        let profile: HostProfile = serde_json::from_slice(&written)?;
        drop(written);
        profile.facts.check()?;
        let mut tries = TRIES;
        loop {
            let command = self.compare(name, digest, &profile).await?;
            let request = Request::RegisterHost(Box::new(command));
            tries -= 1;
            match self.engine.request(request).await {
                Ok(Done::HostRegistered { generation }) => return Ok(generation),
                Ok(_) => return Err(NotRegistered::Other),
                Err(AskError::Refused(RequestError::Refused(Refusal::ProfileMoved { .. })))
                    if tries > 0 => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is to be proposed of a profile, by the one before.
    async fn compare(
        &self,
        name: &AgentName,
        digest: ProfileDigest,
        profile: &HostProfile,
    ) -> Result<RegisterHost, NotRegistered> {
        let (wanted, profile) = (name.clone(), profile.clone());
        let read = move |reader: &ledger::Reader| {
            let before = reader.host_profile(&wanted)?;
            let differences = before
                .as_ref()
                .map(|before| differences(&before.profile, &profile));
            Ok(RegisterHost {
                name: wanted,
                against: before.map_or(0, |before| before.generation),
                digest,
                report: profile.report.to_string(),
                facts: profile.facts,
                differences: differences.unwrap_or_default(),
            })
        };
        let compared = self.readers.read("comparing a host's profile", read).await;
        compared.map_err(|error| NotRegistered::Ledger(error.why().to_owned()))
    }
}

async fn receive(bytes: u32, stream: impl AsyncRead + Unpin) -> Result<Vec<u8>, NotRegistered> {
    if bytes as usize > PROFILE_BYTES_MAX {
        return Err(NotRegistered::TooLarge { bytes });
    }
    let mut written = Vec::new();
    let mut stream = stream.take(u64::from(bytes));
    timeout(ARRIVAL_LIMIT, stream.read_to_end(&mut written))
        .await
        .map_err(|_| NotRegistered::Slow)?
        .map_err(NotRegistered::Receive)?;
    if written.len() != bytes as usize {
        let got = written.len();
        return Err(NotRegistered::Cut {
            got,
            announced: bytes,
        });
    }
    Ok(written)
}
