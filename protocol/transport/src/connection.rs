//! A connection between two peers that have checked each other, and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;

use protocol::Lifetime;
use quinn::{ConnectionError, Endpoint, RecvStream, SendStream, Side};
use rustls::pki_types::CertificateDer;

use crate::ca::{CaError, SigningRequest};
use crate::excerpt::excerpt;
use crate::expiry::{Certificates, Watch};
use crate::handshake::CLOSED;
use crate::identity::{Bearer, Identity};
use crate::settings::{BACKGROUND_PRIORITY, BULK_PRIORITY, CONTROL_PRIORITY};
use crate::stream::{BulkReceiver, BulkSender, ControlReceiver, ControlSender};

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    #[error("closed by this side")]
    Here,
    /// The peer's words; empty where its process dropped the connection without any.
    #[error("closed by the peer: {reason}")]
    ByPeer { reason: String },
    /// Nothing was heard for [`IDLE_TIMEOUT`](crate::settings::IDLE_TIMEOUT).
    #[error("nothing was heard from the peer")]
    Silence,
    /// The peer's process is a new one that does not know the connection.
    #[error("the peer restarted")]
    PeerRestarted,
    /// One side found the other breaking the rules of QUIC or TLS.
    #[error("the connection broke: {detail}")]
    Broken { detail: String },
}

impl From<ConnectionError> for CloseReason {
    fn from(error: ConnectionError) -> CloseReason {
        match error {
            ConnectionError::LocallyClosed => CloseReason::Here,
            ConnectionError::ApplicationClosed(close) => CloseReason::ByPeer {
                reason: excerpt(&close.reason),
            },
            ConnectionError::TimedOut => CloseReason::Silence,
            ConnectionError::Reset => CloseReason::PeerRestarted,
            other => CloseReason::Broken {
                detail: excerpt(other.to_string().as_bytes()),
            },
        }
    }
}

/// A stream that could not be opened or accepted.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("the connection is over")]
    Lost(#[from] CloseReason),
    /// The connection is unusable after this; close it.
    #[error("the control stream is the first of a connection, and one only")]
    OutOfTurn,
}

/// A connection to a peer whose name is known.
///
/// Handles are cheap to clone. When the last handle and the last stream are dropped the
/// connection is closed without a reason; [`close`](Connection::close) gives one.
///
/// The dialer opens the control stream before anything else and the listener accepts it before
/// anything else: it is the dialer's first stream, and known by that. A stream is noticed by the
/// other side when something is sent on it.
#[derive(Clone, Debug)]
pub struct Connection {
    quic: quinn::Connection,
    /// The dialer's socket, which is this connection's alone.
    socket: Option<Endpoint>,
    peer_lifetime: Lifetime,
    lifetime: Lifetime,
    peer_node: Option<u64>,
    _watch: Arc<Watch>,
}

impl Connection {
    /// A dialer gives it the socket, an accepted one shares the listener's.
    pub(crate) fn new(
        quic: quinn::Connection,
        socket: Option<Endpoint>,
        own: &Identity,
        peer: Bearer,
    ) -> Connection {
        let certificates = Certificates {
            own: (own.name().clone(), own.lifetime()),
            peer: (peer.name, peer.lifetime),
        };
        Connection {
            lifetime: certificates.first_to_end().1,
            _watch: Arc::new(Watch::begin(quic.clone(), certificates)),
            quic,
            socket,
            peer_lifetime: peer.lifetime,
            peer_node: peer.node,
        }
    }

    /// When the peer's certificate is good. The connection ends with it, or with this side's own.
    pub fn peer_lifetime(&self) -> Lifetime {
        self.peer_lifetime
    }

    /// When the one of both certificates is good that ends first, and the connection with it. Neither
    /// counts anew when it is renewed: for that another connection is made.
    pub fn lifetime(&self) -> Lifetime {
        self.lifetime
    }

    /// What the peer asks for that wants its certificate renewed: in the handshake it has shown that it
    /// has the key.
    pub fn renewal_of_peer(&self) -> Result<SigningRequest, CaError> {
        let shown = self.quic.peer_identity();
        let chain = shown.and_then(|shown| shown.downcast::<Vec<CertificateDer<'static>>>().ok());
        let certificate = chain.as_ref().and_then(|chain| chain.first());
        SigningRequest::again(certificate.ok_or(CaError::Unreadable)?)
    }

    /// The number of the control machine at the other end, where its certificate states one.
    pub fn peer_node(&self) -> Option<u64> {
        self.peer_node
    }

    /// Opens the control stream. The dialer calls it once, before it opens a bulk stream.
    pub async fn open_control(&self) -> Result<(ControlSender, ControlReceiver), StreamError> {
        let (send, receive) = self.quic.open_bi().await.map_err(CloseReason::from)?;
        if !is_control(&receive) {
            return Err(StreamError::OutOfTurn);
        }
        self.prioritise(&send, CONTROL_PRIORITY)?;
        Ok((ControlSender::new(send), ControlReceiver::new(receive)))
    }

    /// Waits for the peer's control stream. The listener calls it once, before it accepts a bulk
    /// stream. Cancel-safe.
    pub async fn accept_control(&self) -> Result<(ControlSender, ControlReceiver), StreamError> {
        let (send, receive) = self.quic.accept_bi().await.map_err(CloseReason::from)?;
        if !is_control(&receive) {
            return Err(StreamError::OutOfTurn);
        }
        self.prioritise(&send, CONTROL_PRIORITY)?;
        Ok((ControlSender::new(send), ControlReceiver::new(receive)))
    }

    /// Opens a bulk stream; waits while as many of this side's are open as [`crate::settings`]
    /// allows.
    pub async fn open_bulk(&self) -> Result<(BulkSender, BulkReceiver), StreamError> {
        let (send, receive) = self.quic.open_bi().await.map_err(CloseReason::from)?;
        self.bulk(send, receive, BULK_PRIORITY)
    }

    /// As [`open_bulk`](Self::open_bulk), for what gives way to all other streams.
    pub async fn open_background(&self) -> Result<(BulkSender, BulkReceiver), StreamError> {
        let (send, receive) = self.quic.open_bi().await.map_err(CloseReason::from)?;
        self.bulk(send, receive, BACKGROUND_PRIORITY)
    }

    /// Waits for the peer to open a bulk stream. Cancel-safe.
    pub async fn accept_bulk(&self) -> Result<(BulkSender, BulkReceiver), StreamError> {
        let (send, receive) = self.quic.accept_bi().await.map_err(CloseReason::from)?;
        self.bulk(send, receive, BULK_PRIORITY)
    }

    fn bulk(
        &self,
        send: SendStream,
        receive: RecvStream,
        priority: i32,
    ) -> Result<(BulkSender, BulkReceiver), StreamError> {
        if is_control(&receive) {
            return Err(StreamError::OutOfTurn);
        }
        self.prioritise(&send, priority)?;
        Ok((BulkSender::new(send), BulkReceiver::new(receive)))
    }

    fn prioritise(&self, stream: &SendStream, priority: i32) -> Result<(), CloseReason> {
        stream.set_priority(priority).map_err(|closed| {
            // Only the end of the connection closes a stream that nobody has used.
            self.quic.close_reason().map_or_else(
                || CloseReason::Broken {
                    detail: closed.to_string(),
                },
                CloseReason::from,
            )
        })
    }

    /// Ends the connection. What was sent and not yet received may be lost: finish the stream
    /// first where the last words matter. The peer learns the reason if the runtime goes on for a
    /// moment; see [`shutdown`](Connection::shutdown).
    pub fn close(&self, reason: &str) {
        self.quic.close(CLOSED, reason.as_bytes());
    }

    /// [`close`](Connection::close), and for a dialer: waits until the peer has been told (a
    /// fraction of a second, answer or not). For the end of a process. An accepted connection
    /// shares its socket, so there [`Listener::shutdown`](crate::Listener::shutdown) waits.
    pub async fn shutdown(&self, reason: &str) {
        self.close(reason);
        if let Some(socket) = &self.socket {
            socket.wait_idle().await;
        }
    }

    /// Waits for the end of the connection, from whichever side. Cancel-safe; once it is over,
    /// answers at once and always the same.
    pub async fn closed(&self) -> CloseReason {
        self.quic.closed().await.into()
    }

    /// Where the peer's packets come from now; a peer may move during a connection.
    pub fn remote_address(&self) -> SocketAddr {
        self.quic.remote_address()
    }
}

/// The control stream is the first that the dialer opens in both directions.
fn is_control(stream: &RecvStream) -> bool {
    stream.id().index() == 0 && stream.id().initiator() == Side::Client
}
