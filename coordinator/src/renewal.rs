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
use tokio::sync::watch;
use tokio::time::sleep;
use transport::ca::{CaError, SigningRequest, Subject};
use transport::{Connection, Identity, IdentityError, PeerName};

use crate::authority::{Authority, SignError};
use crate::clock::read_now;
use crate::consensus::{Group, NotRenewed};
use crate::engine::{AskError, Engine};
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

/// This machine's own certificate, for whoever tells people of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnCertificate {
    pub(crate) lifetime: Lifetime,
    /// Why it is not renewed, when that was tried last.
    pub(crate) trouble: Option<String>,
}

impl OwnCertificate {
    /// Before anything was tried.
    pub(crate) fn of(identity: &Identity) -> OwnCertificate {
        OwnCertificate {
            lifetime: identity.lifetime(),
            trouble: None,
        }
    }
}

/// Renews this machine's own certificate whenever it is due, for as long as the group lives, and says
/// what becomes of it.
pub(crate) async fn keep(
    identity: Identity,
    authority: Option<Authority>,
    group: Weak<Group>,
    say: watch::Sender<OwnCertificate>,
) {
    loop {
        until(identity.lifetime().renews_from()).await;
        let trouble = match renew(&identity, authority.as_ref(), &group).await {
            Ok(lifetime) => {
                tracing::info!(until = %lifetime.until, "this machine's certificate is renewed");
                None
            }
            Err(RenewalError::Stopped) => return,
            Err(error) => Some(causes(&error)),
        };
        let lifetime = identity.lifetime();
        let pause = match &trouble {
            Some(why) => {
                if say.borrow().trouble.as_ref() != Some(why) {
                    tracing::warn!(
                        until = %lifetime.until,
                        why,
                        "this machine's certificate is not renewed; it is tried again"
                    );
                }
                Duration::from_millis(lifetime.renews_again_after().0.unsigned_abs())
            }
            // It is due again at once where the clock of who signed it is far behind.
            None => Duration::ZERO,
        };
        say.send_replace(OwnCertificate { lifetime, trouble });
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use protocol::DurationMs;
    use transport::ca::{self, CA_LIFETIME, Validity};

    use super::*;
    use crate::consensus::{Begin, GroupOptions};

    const DAY: DurationMs = DurationMs(86_400_000);

    /// A certificate of thirty days that was given 25 days ago, in a directory of its own beside the
    /// authority's.
    fn identity(directory: &Path) -> Identity {
        let began = read_now().wall - DurationMs(25 * DAY.0);
        let validity = |lifetime| Validity {
            now: began,
            lifetime,
        };
        let (ca, own) = (directory.join("ca"), directory.join("own"));
        ca::create(&ca, &"lab".parse().unwrap(), validity(CA_LIFETIME)).unwrap();
        let subject = Subject::new(Role::Witness, &"w".parse().unwrap()).node(3);
        ca::issue(&ca, &subject, &own, validity(DurationMs(30 * DAY.0))).unwrap();
        Identity::load(&own).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn that_it_is_not_renewed_is_said_until_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let options = GroupOptions::in_directory(&data, 3, Begin::Alone);
        let group = Arc::new(Group::start(options).await.unwrap());
        let identity = identity(directory.path());
        let before = identity.lifetime();
        let (say, mut said) = watch::channel(OwnCertificate::of(&identity));

        // Nobody is there to sign it.
        let of_group = Arc::downgrade(&group);
        let keeping = keep(identity.clone(), None, of_group.clone(), say.clone());
        let keeping = tokio::spawn(keeping);
        let told = said.wait_for(|own| own.trouble.is_some()).await.unwrap();
        assert_eq!(told.lifetime, before);
        drop(told);
        keeping.abort();

        let ca = directory.path().join("ca");
        let authority = Authority::beside(&ca, &identity, DurationMs(30 * DAY.0)).unwrap();
        let keeping = tokio::spawn(keep(identity, authority, of_group, say));
        let told = said.wait_for(|own| own.trouble.is_none()).await.unwrap();
        assert!(told.lifetime.until > before.until);
        drop(told);
        keeping.abort();
        let _ = keeping.await;
        let group = Arc::into_inner(group).expect("nobody else holds it for long");
        group.stop().await.unwrap();
    }
}
