//! The side that dials.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use quinn::Endpoint;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::handshake::{self, HandshakeError};
use crate::identity::{Identity, PeerName, Wanted};
use crate::settings::{self, End};
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
        let config = quinn::ClientConfig::new(Arc::new(tls::client(identity)?));
        Ok(Dialer {
            identity: identity.clone(),
            config,
        })
    }

    /// Connects to a peer of those `wanted` in the identity's own cluster. `Ok` means that
    /// both sides have agreed. Takes at most [`HANDSHAKE_LIMIT`](settings::HANDSHAKE_LIMIT), and
    /// [`ANSWER_LIMIT`](settings::ANSWER_LIMIT) where nobody answers.
    ///
    /// Needs a tokio runtime around it. Each connection has a socket and so a port of its own: a
    /// reconnect does not inherit a stale entry of some firewall, or a broken one of several
    /// paths.
    pub async fn connect(
        &self,
        address: SocketAddr,
        wanted: impl Into<Wanted>,
    ) -> Result<(PeerName, Connection), ConnectError> {
        let wanted = wanted.into();
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint =
            Endpoint::client(any).map_err(|source| ConnectError::Socket { address, source })?;
        let cluster = &self.identity.name().cluster;
        let mut config = self.config.clone();
        config.transport_config(settings::transport(End::Dialer, wanted));
        let mut connecting = endpoint
            .connect_with(config, address, &wanted.dns_name(cluster))
            .map_err(|source| ConnectError::Dial { address, source })?;

        let (peer, quic) = handshake::within_limit(address, async {
            // An error here is told better by the handshake itself.
            let limit = settings::answer_limit(wanted);
            match timeout(limit, connecting.handshake_data()).await {
                Ok(_) => {}
                Err(_) => return Err(HandshakeError::no_answer(address, limit)),
            }
            let quic = connecting
                .await
                .map_err(|error| HandshakeError::from_quic(address, error))?;
            let peer = handshake::admit(&quic, wanted, cluster)
                .map_err(|error| handshake::refuse(&quic, error))?;
            quic.accept_uni()
                .await
                .map_err(|error| HandshakeError::from_quic(address, error))?;
            Ok((peer, quic))
        })
        .await?;
        let name = peer.name.clone();
        let connection = Connection::new(quic, Some(endpoint), &self.identity, peer);
        Ok((name, connection))
    }
}
