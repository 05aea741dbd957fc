//! The side that dials.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use quinn::Endpoint;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::expiry::Certificates;
use crate::handshake::{self, HandshakeError};
use crate::identity::{self, Identity, PeerName, Role};
use crate::settings::{self, ANSWER_LIMIT, End};
use crate::tls::{self, TlsError};

/// Makes connections under one identity.
#[derive(Clone, Debug)]
pub struct Dialer {
    identity: Identity,
    config: quinn::ClientConfig,
}

/// A connection that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("opening a UDP socket to dial {address}")]
    Socket {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("dialing {address}")]
    Dial {
        address: SocketAddr,
        source: quinn::ConnectError,
    },
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

impl Dialer {
    pub fn new(identity: &Identity) -> Result<Dialer, TlsError> {
        let mut config = quinn::ClientConfig::new(Arc::new(tls::client(identity)?));
        config.transport_config(settings::transport(End::Dialer));
        Ok(Dialer {
            identity: identity.clone(),
            config,
        })
    }

    /// Connects to a peer of the role `expected` in the identity's own cluster. `Ok` means that
    /// both sides have agreed. Takes at most [`HANDSHAKE_LIMIT`](settings::HANDSHAKE_LIMIT), and
    /// [`ANSWER_LIMIT`] where nobody answers.
    ///
    /// Needs a tokio runtime around it. Each connection has a socket and so a port of its own: a
    /// reconnect does not inherit a stale entry of some firewall, or a broken one of several
    /// paths.
    pub async fn connect(
        &self,
        address: SocketAddr,
        expected: Role,
    ) -> Result<(PeerName, Connection), ConnectError> {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint =
            Endpoint::client(any).map_err(|source| ConnectError::Socket { address, source })?;
        let cluster = &self.identity.name().cluster;
        let mut connecting = endpoint
            .connect_with(
                self.config.clone(),
                address,
                &identity::role_dns_name(expected, cluster),
            )
            .map_err(|source| ConnectError::Dial { address, source })?;

        let ((name, lifetime), quic) = handshake::within_limit(address, async {
            // An error here is told better by the handshake itself.
            match timeout(ANSWER_LIMIT, connecting.handshake_data()).await {
                Ok(_) => {}
                Err(_) => return Err(HandshakeError::no_answer(address, ANSWER_LIMIT)),
            }
            let quic = connecting
                .await
                .map_err(|error| HandshakeError::from_quic(address, error))?;
            let name = handshake::admit(&quic, expected, cluster)
                .map_err(|error| handshake::refuse(&quic, error))?;
            quic.accept_uni()
                .await
                .map_err(|error| HandshakeError::from_quic(address, error))?;
            Ok((name, quic))
        })
        .await?;
        let certificates = Certificates {
            own: (self.identity.name().clone(), self.identity.lifetime()),
            peer: (name.clone(), lifetime),
        };
        Ok((name, Connection::dialed(quic, endpoint, certificates)))
    }
}
