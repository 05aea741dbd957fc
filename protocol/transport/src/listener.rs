//! The side that is dialed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::{ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, TokioRuntime};
use ring::hmac;
use socket2::{Domain, Protocol, Socket, Type};

use crate::connection::Connection;
use crate::handshake::{self, CLOSED, HandshakeError};
use crate::identity::{Identity, PeerName, Role, Wanted};
use crate::settings::{self, End, SOCKET_BUFFER_BYTES};
use crate::tls::{self, TlsError};

/// A UDP socket where peers of certain roles are let in.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    address: SocketAddr,
    identity: Identity,
    admitted: Wanted,
}

/// A socket that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "{name} cannot listen: agents dial coordinators, and coordinators and witnesses dial each other, so give this process the certificate of one of those"
    )]
    NotControl { name: PeerName },
    #[error("preparing TLS for {address}")]
    Tls {
        address: SocketAddr,
        source: TlsError,
    },
    #[error("listening on UDP {address}")]
    Socket {
        address: SocketAddr,
        source: io::Error,
    },
}

impl Listener {
    /// Binds the socket and begins to answer. Needs a tokio runtime around it (panics without).
    ///
    /// Peers of the identity's own cluster who are among the `admitted` are let in; everybody else
    /// is refused during the handshake.
    pub fn bind(
        address: SocketAddr,
        identity: &Identity,
        admitted: impl Into<Wanted>,
    ) -> Result<Listener, ListenError> {
        if identity.name().role == Role::Agent {
            return Err(ListenError::NotControl {
                name: identity.name().clone(),
            });
        }
        Listener::bind_as_is(address, identity, admitted.into())
    }

    /// Binds with any certificate, a wrong one included.
    pub(crate) fn bind_as_is(
        address: SocketAddr,
        identity: &Identity,
        admitted: Wanted,
    ) -> Result<Listener, ListenError> {
        let crypto =
            tls::server(identity).map_err(|source| ListenError::Tls { address, source })?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config
            .transport_config(settings::transport(End::Listener, admitted))
            .max_incoming(settings::INCOMING_MAX)
            .incoming_buffer_size(settings::INCOMING_BYTES)
            .incoming_buffer_size_total(settings::INCOMING_BYTES_TOTAL);

        let socket = |source| ListenError::Socket { address, source };
        let endpoint = Endpoint::new(
            endpoint_config(identity),
            Some(config),
            bind_socket(address).map_err(socket)?,
            Arc::new(TokioRuntime),
        )
        .map_err(socket)?;
        Ok(Listener {
            address: endpoint.local_addr().map_err(socket)?,
            endpoint,
            identity: identity.clone(),
            admitted,
        })
    }

    /// The next peer that begins a handshake; `None` after [`shutdown`](Listener::shutdown).
    ///
    /// Await its [`handshake`](Incoming::handshake) in a task of its own, so that a slow peer
    /// keeps nobody waiting. Cancel-safe.
    pub async fn accept(&self) -> Option<Incoming> {
        Some(Incoming {
            incoming: self.endpoint.accept().await?,
            identity: self.identity.clone(),
            admitted: self.admitted,
        })
    }

    /// The address bound, with the port the kernel chose where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection with this reason, takes no more, and waits until the peers have
    /// been told (a fraction of a second; nobody is waited for who does not answer).
    pub async fn shutdown(&self, reason: &str) {
        self.endpoint.close(CLOSED, reason.as_bytes());
        self.endpoint.wait_idle().await;
    }
}

/// A handshake that has begun. Dropping it refuses the peer.
#[derive(Debug)]
pub struct Incoming {
    incoming: quinn::Incoming,
    identity: Identity,
    admitted: Wanted,
}

impl Incoming {
    pub fn remote_address(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// Completes the handshake: both certificates checked, the peer welcomed. Takes at most
    /// [`HANDSHAKE_LIMIT`](settings::HANDSHAKE_LIMIT). Who is not admitted is told why.
    pub async fn handshake(self) -> Result<(PeerName, Connection), HandshakeError> {
        let peer = self.remote_address();
        handshake::within_limit(peer, async {
            let quic = self
                .incoming
                .await
                .map_err(|error| HandshakeError::from_quic(peer, error))?;
            let admitted = handshake::admit(&quic, self.admitted, &self.identity.name().cluster)
                .map_err(|error| handshake::refuse(&quic, error))?;
            let mut welcome = quic
                .open_uni()
                .await
                .map_err(|error| HandshakeError::from_quic(peer, error))?;
            welcome
                .finish()
                .expect("a stream just opened is not closed yet");
            let name = admitted.name.clone();
            Ok((name, Connection::new(quic, None, &self.identity, admitted)))
        })
        .await
    }
}

fn bind_socket(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        // `[::]` then serves IPv4 as well, on any distribution.
        socket.set_only_v6(false)?;
    }
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    // Linux counts its own bookkeeping in and reports twice what it grants.
    let (receive, send) = (
        socket.recv_buffer_size()? / 2,
        socket.send_buffer_size()? / 2,
    );
    if receive.min(send) < SOCKET_BUFFER_BYTES {
        tracing::info!(
            asked_bytes = SOCKET_BUFFER_BYTES,
            receive_bytes = receive,
            send_bytes = send,
            "socket buffers are smaller than asked; raise net.core.rmem_max and net.core.wmem_max so that many agents can reconnect at once"
        );
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A listener that restarts knows nothing of its connections. With a reset key that outlives it,
/// it can still tell a peer so in a way the peer can trust; the peer then dials again at its next
/// keep-alive instead of waiting for the idle time-out. The key is derived from the private key,
/// which stays the same over a restart and is known to nobody else.
fn endpoint_config(identity: &Identity) -> EndpointConfig {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, identity.key().secret_der());
    let derived = hmac::sign(&secret, b"matins: stateless reset");
    let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(
        hmac::HMAC_SHA256,
        derived.as_ref(),
    )));
    config
        .cid_generator(|| Box::new(RandomConnectionIds))
        .min_reset_interval(settings::RESET_INTERVAL);
    config
}

/// Plain random ids. The default ones are stamped by a key of the process, and packets with
/// another process's stamp are dropped unanswered, resets included.
struct RandomConnectionIds;

impl ConnectionIdGenerator for RandomConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 8];
        getrandom::fill(&mut id).expect("the kernel gives random bytes once it has booted");
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}
