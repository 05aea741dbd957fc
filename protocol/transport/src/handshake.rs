//! Who refused whom, and why, in words that help the person who reads them.
//!
//! TLS tells its reason by an alert number and a line of text. The number decides the
//! [`CertificateProblem`]; the text is shown beside it, since it holds the names and dates.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use protocol::ClusterId;
use quinn::{ConnectionError, TransportErrorCode, VarInt};
use rustls::AlertDescription;
use rustls::pki_types::CertificateDer;

use crate::connection::CloseReason;
use crate::excerpt::excerpt;
use crate::identity::{Bearer, CertificateNameError, PeerName, Wanted, read_bearer};
use crate::settings::{HANDSHAKE_LIMIT, IDLE_TIMEOUT};

/// Application error codes on a closed connection.
pub(crate) const CLOSED: VarInt = VarInt::from_u32(0);
pub(crate) const REFUSED: VarInt = VarInt::from_u32(1);
pub(crate) const EXPIRED: VarInt = VarInt::from_u32(2);

/// What a certificate was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    UnknownAuthority,
    OutOfDate,
    Missing,
    WrongName,
    WrongUse,
    /// Anything else; the detail says what.
    Unusable,
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CertificateProblem::UnknownAuthority => {
                "is not signed by an authority that the refusing side has in its ca.pem: another cluster, or an authority made anew?"
            }
            CertificateProblem::OutOfDate => {
                "is expired or not valid yet: let it in again (`matins agent enrol` or `matins cluster join` with a join token, or `matins ca issue`) and restart its process, or look at the clocks of both machines"
            }
            CertificateProblem::Missing => "was not shown",
            CertificateProblem::WrongName => "is for another cluster or another role",
            CertificateProblem::WrongUse => "was issued for another role",
            CertificateProblem::Unusable => "cannot be used",
        })
    }
}

/// A connection that did not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// This side refused the other's certificate.
    #[error("refusing {peer}: its certificate {problem} ({detail})")]
    PeerCertificate {
        peer: SocketAddr,
        problem: CertificateProblem,
        detail: String,
    },
    /// The other side refused this side's certificate.
    #[error("refused by {peer}: this side's certificate {problem} ({detail})")]
    OwnCertificate {
        peer: SocketAddr,
        problem: CertificateProblem,
        detail: String,
    },
    /// The other side's certificate is good, but does not say who it is.
    #[error("refusing {peer}")]
    PeerName {
        peer: SocketAddr,
        source: CertificateNameError,
    },
    /// The other side is somebody else than wanted here.
    #[error(
        "refusing {peer}: it is {presented}, and only {wanted} of cluster {expected_cluster} are wanted here"
    )]
    WrongPeer {
        peer: SocketAddr,
        presented: PeerName,
        wanted: Wanted,
        expected_cluster: ClusterId,
    },
    /// The other side took the certificate and then refused the peer; the text is its own.
    #[error("refused by {peer}: {reason}")]
    RefusedByPeer { peer: SocketAddr, reason: String },
    #[error(
        "no answer from {peer} within {} s: is a coordinator running there, and does the network let UDP through?",
        .limit.as_secs()
    )]
    NoAnswer { peer: SocketAddr, limit: Duration },
    #[error("{peer} does not speak this version of Matins' protocol ({detail})")]
    OtherProtocol { peer: SocketAddr, detail: String },
    #[error("the handshake with {peer} broke off")]
    Lost {
        peer: SocketAddr,
        source: CloseReason,
    },
}

impl HandshakeError {
    pub(crate) fn no_answer(peer: SocketAddr, limit: Duration) -> HandshakeError {
        HandshakeError::NoAnswer { peer, limit }
    }

    pub(crate) fn from_quic(peer: SocketAddr, error: ConnectionError) -> HandshakeError {
        match error {
            ConnectionError::TimedOut => HandshakeError::no_answer(peer, IDLE_TIMEOUT),
            ConnectionError::TransportError(ref ours) => match alert(ours.code).map(judge) {
                Some(Judgement::Certificate(problem)) => HandshakeError::PeerCertificate {
                    peer,
                    problem,
                    detail: excerpt(ours.reason.as_bytes()),
                },
                Some(Judgement::OtherProtocol) => HandshakeError::OtherProtocol {
                    peer,
                    detail: excerpt(ours.reason.as_bytes()),
                },
                Some(Judgement::Other) | None => HandshakeError::lost(peer, error),
            },
            ConnectionError::ConnectionClosed(ref theirs) => {
                match alert(theirs.error_code).map(judge) {
                    Some(Judgement::Certificate(problem)) => HandshakeError::OwnCertificate {
                        peer,
                        problem,
                        detail: excerpt(&theirs.reason),
                    },
                    Some(Judgement::OtherProtocol) => HandshakeError::OtherProtocol {
                        peer,
                        detail: excerpt(&theirs.reason),
                    },
                    Some(Judgement::Other) | None => HandshakeError::lost(peer, error),
                }
            }
            ConnectionError::ApplicationClosed(ref close) if close.error_code == REFUSED => {
                HandshakeError::RefusedByPeer {
                    peer,
                    reason: excerpt(&close.reason),
                }
            }
            ConnectionError::VersionMismatch => HandshakeError::OtherProtocol {
                peer,
                detail: error.to_string(),
            },
            _ => HandshakeError::lost(peer, error),
        }
    }

    fn lost(peer: SocketAddr, error: ConnectionError) -> HandshakeError {
        HandshakeError::Lost {
            peer,
            source: error.into(),
        }
    }
}

/// The TLS alert in a QUIC error, if there is one: error codes 0x100 to 0x1ff carry it.
fn alert(code: TransportErrorCode) -> Option<AlertDescription> {
    let code = u64::from(code);
    (code >> 8 == 1).then(|| AlertDescription::from((code & 0xff) as u8))
}

enum Judgement {
    Certificate(CertificateProblem),
    OtherProtocol,
    Other,
}

fn judge(alert: AlertDescription) -> Judgement {
    use CertificateProblem::{Missing, OutOfDate, UnknownAuthority, Unusable, WrongName, WrongUse};
    Judgement::Certificate(match alert {
        AlertDescription::UnknownCA => UnknownAuthority,
        AlertDescription::CertificateExpired => OutOfDate,
        AlertDescription::CertificateRequired => Missing,
        AlertDescription::BadCertificate => WrongName,
        AlertDescription::UnsupportedCertificate => WrongUse,
        AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => Unusable,
        AlertDescription::NoApplicationProtocol | AlertDescription::ProtocolVersion => {
            return Judgement::OtherProtocol;
        }
        _ => return Judgement::Other,
    })
}

/// Who the other side is, if it is one of those wanted here.
pub(crate) fn admit(
    connection: &quinn::Connection,
    wanted: Wanted,
    cluster: &ClusterId,
) -> Result<Bearer, HandshakeError> {
    let peer = connection.remote_address();
    let chain = connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    let Some(certificate) = chain.as_ref().and_then(|chain| chain.first()) else {
        return Err(HandshakeError::PeerCertificate {
            peer,
            problem: CertificateProblem::Missing,
            detail: "the handshake ended without one".to_owned(),
        });
    };
    let bearer =
        read_bearer(certificate).map_err(|source| HandshakeError::PeerName { peer, source })?;
    if !wanted.admits(bearer.name.role) || bearer.name.cluster != *cluster {
        return Err(HandshakeError::WrongPeer {
            peer,
            presented: bearer.name,
            wanted,
            expected_cluster: cluster.clone(),
        });
    }
    Ok(bearer)
}

/// Tells the other side why it is not admitted, in words for it, and passes the error on.
pub(crate) fn refuse(connection: &quinn::Connection, error: HandshakeError) -> HandshakeError {
    let reason = match &error {
        HandshakeError::WrongPeer {
            presented,
            wanted,
            expected_cluster,
            ..
        } => format!(
            "you are {presented}, and only {wanted} of cluster {expected_cluster} are wanted here"
        ),
        HandshakeError::PeerName { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    connection.close(REFUSED, reason.as_bytes());
    error
}

/// Bounds a handshake, whatever the other side does.
pub(crate) async fn within_limit<T>(
    peer: SocketAddr,
    handshake: impl Future<Output = Result<T, HandshakeError>>,
) -> Result<T, HandshakeError> {
    match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
        Ok(result) => result,
        Err(_) => Err(HandshakeError::no_answer(peer, HANDSHAKE_LIMIT)),
    }
}
