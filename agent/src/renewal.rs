//! The certificate of this host is renewed before it ends, and what rests on it replaced.
//!
//! At two thirds of its life the agent asks the coordinator that it is attached to for the next one, of
//! the same key. A connection goes on with the certificates that it was made with, and would end
//! with them; so it is replaced in time by one that rests on the new ones, this host's or the
//! coordinator's. The new one is there before the old one goes: the core attaches on it, and nothing
//! that runs is interrupted.

use std::time::Duration;

use protocol::message::{AgentRequest, RenewAnswer};
use protocol::{Lifetime, WallMs};
use tokio::sync::mpsc;
use tokio::time::timeout;
use transport::{Connection, Identity, IdentityError, ReceiveError, SendError, StreamError};

use crate::chain::chain;
use crate::run::Input;

/// How long a coordinator may take to answer: it asks its ledger first.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
enum RenewalError {
    #[error("opening a stream")]
    Stream(#[from] StreamError),
    #[error("asking the coordinator")]
    Send(#[from] SendError),
    #[error("hearing its answer")]
    Receive(#[from] ReceiveError),
    #[error("the coordinator refuses: {0}")]
    Refused(String),
    #[error("the coordinator has not answered")]
    Silent,
    #[error("taking the new certificate")]
    Take(#[from] IdentityError),
    #[error("a thread for it broke down")]
    Thread(#[from] tokio::task::JoinError),
}

/// When this host's certificate is to be renewed.
pub(crate) struct Renewal {
    identity: Identity,
    under_way: bool,
    /// After one that failed.
    not_before: WallMs,
    /// Why the last one failed; the same again is not news.
    told: String,
}

impl Renewal {
    pub(crate) fn new(identity: Identity) -> Renewal {
        Renewal {
            identity,
            under_way: false,
            not_before: WallMs(0),
            told: String::new(),
        }
    }

    pub(crate) fn is_due(&self, now: WallMs) -> bool {
        let due = self.identity.lifetime().renews_from().max(self.not_before);
        !self.under_way && now >= due
    }

    /// Asks on this connection; what becomes of it comes as [`Input::Renewed`].
    pub(crate) fn begin(&mut self, connection: Connection, inputs: mpsc::Sender<Input>) {
        self.under_way = true;
        let identity = self.identity.clone();
        tokio::spawn(async move {
            let renewed = match timeout(ANSWER_MAX, renew(identity, connection)).await {
                Ok(renewed) => renewed,
                Err(_) => Err(RenewalError::Silent),
            };
            let renewed = renewed.map_err(|error| chain(&error));
            // Nobody listens any more when the agent is stopping.
            let _ = inputs.send(Input::Renewed(renewed)).await;
        });
    }

    pub(crate) fn note(&mut self, renewed: Result<Lifetime, String>, now: WallMs) {
        self.under_way = false;
        let lifetime = self.identity.lifetime();
        match renewed {
            Ok(Lifetime { until, .. }) => {
                self.told.clear();
                tracing::info!(%until, "this host's certificate is renewed");
            }
            Err(why) => {
                self.not_before = now + lifetime.renews_again_after();
                if why != self.told {
                    tracing::warn!(
                        until = %lifetime.until,
                        why,
                        "this host's certificate is not renewed; it is tried again"
                    );
                    self.told = why;
                }
            }
        }
    }
}

async fn renew(identity: Identity, connection: Connection) -> Result<Lifetime, RenewalError> {
    let (mut sender, mut receiver) = connection.open_bulk().await?;
    sender.send(&AgentRequest::Renew).await?;
    let certificate = match receiver.receive().await? {
        Some(RenewAnswer::Renewed { certificate }) => certificate,
        Some(RenewAnswer::Refused { reason }) => return Err(RenewalError::Refused(reason)),
        None => return Err(RenewalError::Silent),
    };
    // A slow disk must not hold up deadlines.
    let taken = tokio::task::spawn_blocking(move || identity.take_renewed(&certificate));
    Ok(taken.await??)
}

/// When a connection that begins now is to be replaced: before one of the certificates that it rests on
/// ends, and not at once where nobody has got a new one yet.
pub(crate) fn replace_at(connection: &Connection, now: WallMs) -> WallMs {
    let lifetime = connection.lifetime();
    // Where there is no randomness the hosts of a fleet come a little closer together.
    let share = getrandom::u32().map_or(u8::MAX, |random| random.to_le_bytes()[0]);
    let soonest = now + lifetime.renews_again_after();
    lifetime.replaced_at(share).max(soonest)
}
