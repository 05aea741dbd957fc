//! Certificates are renewed before they end: those of hosts as they ask, this machine's own by itself.
//!
//! A machine with the authority's key signs for itself; one without it, a witness for instance, asks the
//! other members, and any that has the key may answer: who is spoken to is a member, and one that was
//! removed is not spoken to. A host asks on the connection that it is attached on. Its renewal is a
//! command, so that a host that was revoked is refused by the ledger itself, and the leader alone
//! can answer.
//!
//! The key of a certificate stays: renewing replaces one file, and what proves that the asker has the
//! key is the handshake of the connection it asks on.

use std::sync::Weak;
use std::time::Duration;

use coordinator_core::Request;
use ledger::Done;
use ledger::command::RenewAgent;
use protocol::message::RenewAnswer;
use protocol::{AgentName, Lifetime, Role, WallMs};
use tokio::time::sleep;
use transport::ca::{CaError, SigningRequest, Subject};
use transport::{Connection, Identity, IdentityError, PeerName};

use crate::authority::{Authority, SignError};
use crate::clock::read_now;
use crate::consensus::{Group, NotRenewed};
use crate::engine::{AskError, Engine, Input};
use crate::exit::causes;

/// The wall clock may be stepped at any time: it is looked at again before long.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// However short the lives of certificates are, nobody is asked more often.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

/// Why this machine has no new certificate.
#[derive(Debug, thiserror::Error)]
enum RenewalError {
    #[error("reading its own certificate")]
    Own(#[from] CaError),
    #[error("signing it")]
    Sign(#[from] SignError),
    #[error("the group is stopped")]
    Stopped,
    #[error(transparent)]
    Others(#[from] NotRenewed),
    #[error("taking the new one")]
    Take(#[from] IdentityError),
}

/// Renews this machine's own certificate whenever it is due, for as long as the group lives. With an
/// engine, a person who was told of its end is told that it is over.
pub(crate) async fn keep(
    identity: Identity,
    authority: Option<Authority>,
    group: Weak<Group>,
    engine: Option<Engine>,
) {
    let mut told = String::new();
    loop {
        until(identity.lifetime().renews_from()).await;
        let pause = match renew(&identity, authority.as_ref(), &group).await {
            Ok(lifetime) => {
                told.clear();
                tracing::info!(until = %lifetime.until, "this machine's certificate is renewed");
                if let Some(engine) = &engine {
                    engine.send(Input::OwnCertificate(lifetime));
                }
                // It is due again at once where the clock of who signed it is far behind.
                Duration::ZERO
            }
            Err(RenewalError::Stopped) => return,
            Err(error) => {
                let why = causes(&error);
                let Lifetime { until, .. } = identity.lifetime();
                if why != told {
                    tracing::warn!(%until, why, "this machine's certificate is not renewed; it is tried again");
                    told = why;
                }
                let again = identity.lifetime().renews_again_after();
                Duration::from_millis(again.0.unsigned_abs())
            }
        };
        sleep(pause.max(SHORTEST_PAUSE)).await;
    }
}

async fn until(due: WallMs) {
    loop {
        let left = due - read_now().wall;
        match u64::try_from(left.0) {
            Ok(left) if left > 0 => sleep(Duration::from_millis(left).min(LOOK_AGAIN)).await,
            _ => return,
        }
    }
}

async fn renew(
    identity: &Identity,
    authority: Option<&Authority>,
    group: &Weak<Group>,
) -> Result<Lifetime, RenewalError> {
    let certificate = if let Some(authority) = authority {
        let request = SigningRequest::of_own(identity)?;
        let subject = Subject::of(identity.name()).node(identity.node());
        let validity = authority.validity();
        let issued = authority.sign(request, subject, validity).await?;
        issued.certificate
    } else {
        let group = group.upgrade().ok_or(RenewalError::Stopped)?;
        group.ask_for_certificate().await?
    };
    Ok(identity.take_renewed(&certificate)?)
}

/// Why another one's certificate is not renewed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSigned {
    #[error("node {node} is no member of this group")]
    NoMember { node: u64 },
    #[error("this coordinator does not have the key of the cluster's authority")]
    NoAuthority,
    #[error("reading the certificate that was shown")]
    Shown(#[from] CaError),
    #[error(transparent)]
    Refused(#[from] AskError),
    #[error("the ledger answered something else")]
    Other,
    #[error("signing it")]
    Sign(#[from] SignError),
}

/// What whoever has asked for a certificate is told.
pub(crate) fn answer(signed: Result<String, NotSigned>) -> RenewAnswer {
    match signed {
        Ok(certificate) => RenewAnswer::Renewed { certificate },
        Err(error) => RenewAnswer::Refused {
            reason: causes(&error),
        },
    }
}

/// A certificate for another member, of the key that it has shown.
pub(crate) async fn for_member(
    authority: Option<&Authority>,
    name: &PeerName,
    connection: &Connection,
) -> Result<String, NotSigned> {
    let authority = authority.ok_or(NotSigned::NoAuthority)?;
    let request = connection.renewal_of_peer()?;
    let subject = Subject::of(name).node(connection.peer_node());
    let validity = authority.validity();
    let issued = authority.sign(request, subject, validity).await?;
    tracing::info!(
        name = %name,
        until = %(validity.now + validity.lifetime),
        "a member's certificate is renewed"
    );
    Ok(issued.certificate)
}

/// A certificate for a host, of the key that it has shown.
pub(crate) async fn for_agent(
    authority: Option<&Authority>,
    engine: &Engine,
    name: &AgentName,
    connection: &Connection,
) -> Result<String, NotSigned> {
    let authority = authority.ok_or(NotSigned::NoAuthority)?;
    let request = connection.renewal_of_peer()?;
    let validity = authority.validity();
    let renew = Request::RenewAgent(RenewAgent {
        name: name.clone(),
        key: request.key_digest(),
        good_until: validity.now + validity.lifetime,
    });
    match engine.request(renew).await? {
        Done::Renewed => {}
        _ => return Err(NotSigned::Other),
    }
    let subject = Subject::new(Role::Agent, name);
    Ok(authority
        .sign(request, subject, validity)
        .await?
        .certificate)
}
