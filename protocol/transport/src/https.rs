//! TLS below the HTTP API, both ends of it.
//!
//! The coordinator shows the certificate that agents know it by, and its authority's behind it. A
//! client trusts that one authority and no other, and asks for the name that every coordinator of
//! the cluster answers to, whatever address it has dialed: a certificate needs no name of a host, and
//! the public authorities have no say. A client that has no `ca.pem` yet, because it wants to be let
//! into the cluster, knows the authority by its [`Fingerprint`].
//!
//! No client shows a certificate here; tokens say who asks.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use protocol::ClusterId;
use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    ServerConfig, SignatureScheme, StreamOwned,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor, server::TlsStream};

use crate::identity::{self, CertificateNameError, Identity, IdentityError, Role};
use crate::tls::{self, TlsError};

const ALPN: &[u8] = b"http/1.1";

/// The coordinator's end.
#[derive(Clone)]
pub struct HttpsServer {
    config: Arc<ServerConfig>,
}

impl HttpsServer {
    pub fn new(identity: &Identity) -> Result<HttpsServer, TlsError> {
        let mut config = ServerConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ShownWithAuthorities(identity.clone())));
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(HttpsServer {
            config: Arc::new(config),
        })
    }

    /// A connection whose handshake begins when something is first read.
    pub fn wrap(&self, stream: TcpStream) -> HttpStream {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        HttpStream::Https(Box::new(Secured::Handshake(acceptor.accept(stream))))
    }
}

/// The certificate that an identity has at the moment of a handshake, and its authorities behind it.
#[derive(Debug)]
struct ShownWithAuthorities(Identity);

impl ResolvesServerCert for ShownWithAuthorities {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.shown();
        let behind = self.0.authorities().iter();
        let chain = shown.cert.iter().chain(behind).cloned().collect();
        Some(Arc::new(CertifiedKey::new(chain, Arc::clone(&shown.key))))
    }
}

/// A connection of the API, in the clear or not.
pub enum HttpStream {
    Http(TcpStream),
    Https(Box<Secured>),
}

/// The state of a connection that is not in the clear.
pub enum Secured {
    Handshake(Accept<TcpStream>),
    Open(TlsStream<TcpStream>),
    Failed,
}

impl Secured {
    /// The connection once its handshake is done.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut TlsStream<TcpStream>>> {
        if let Secured::Handshake(accept) = self {
            *self = match ready!(Pin::new(accept).poll(cx)) {
                Ok(stream) => Secured::Open(stream),
                Err(error) => {
                    *self = Secured::Failed;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match self {
            Secured::Open(stream) => Ok(stream),
            Secured::Handshake(_) | Secured::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            HttpStream::Http(stream) => Pin::new(stream).poll_read(cx, buffer),
            HttpStream::Https(secured) => {
                let stream = ready!(secured.poll_open(cx))?;
                Pin::new(stream).poll_read(cx, buffer)
            }
        }
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            HttpStream::Http(stream) => Pin::new(stream).poll_write(cx, bytes),
            HttpStream::Https(secured) => {
                let stream = ready!(secured.poll_open(cx))?;
                Pin::new(stream).poll_write(cx, bytes)
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            HttpStream::Http(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            HttpStream::Https(secured) => {
                let stream = ready!(secured.poll_open(cx))?;
                Pin::new(stream).poll_write_vectored(cx, pieces)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            HttpStream::Http(stream) => Pin::new(stream).poll_flush(cx),
            HttpStream::Https(secured) => {
                let stream = ready!(secured.poll_open(cx))?;
                Pin::new(stream).poll_flush(cx)
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            HttpStream::Http(stream) => Pin::new(stream).poll_shutdown(cx),
            HttpStream::Https(secured) => match &mut **secured {
                Secured::Open(stream) => Pin::new(stream).poll_shutdown(cx),
                // Nothing was said yet, so there is nothing to end.
                Secured::Handshake(_) | Secured::Failed => Poll::Ready(Ok(())),
            },
        }
    }
}

/// An authority's certificate, or a key, as one line: its SHA-256, 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// Text that is no fingerprint.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not the fingerprint of an authority: it has 64 hexadecimal digits")]
pub struct FingerprintError(String);

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Fingerprint {
        let sum = digest(&SHA256, bytes);
        Fingerprint(sum.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }

    /// Of the authority that signs for an identity.
    pub fn of_identity(identity: &Identity) -> Fingerprint {
        Fingerprint::of(&identity.authorities()[0])
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let refused = || FingerprintError(text.to_owned());
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(refused());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| refused())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refused())?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// A client's end, for coordinators of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct HttpsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Why no client could be made, or none was served.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    #[error("reading the cluster's authority")]
    Authority(#[from] IdentityError),
    #[error("reading the cluster of the authority")]
    Cluster(#[from] CertificateNameError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(
        "{0}: is it a coordinator of this cluster, is the cluster's ca.pem the one that is in force, and are the clocks right?"
    )]
    Certificate(String),
    #[error(
        "the other side shows no authority of the fingerprint {0}: another cluster is at that address, or its authority was made anew, and then so must the join token be"
    )]
    NoSuchAuthority(Fingerprint),
    #[error("speaking TLS")]
    Io(#[source] io::Error),
}

impl HttpsClient {
    /// Trusts the authorities of a `ca.pem`.
    pub fn trusting(ca: &Path) -> Result<HttpsClient, HttpsError> {
        let authorities = identity::read_certificates(ca)?;
        let cluster = identity::read_cluster(&authorities[0])?;
        let roots = identity::roots_of(ca, &authorities)?;
        let config = ClientConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::Config)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(HttpsClient::new(config, &cluster))
    }

    /// Trusts the authority of this fingerprint, which the other side shows.
    pub fn pinned(
        cluster: &ClusterId,
        fingerprint: Fingerprint,
    ) -> Result<HttpsClient, HttpsError> {
        let provider = tls::provider();
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::Config)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ByFingerprint {
                fingerprint,
                provider,
            }))
            .with_no_client_auth();
        Ok(HttpsClient::new(config, cluster))
    }

    fn new(mut config: ClientConfig, cluster: &ClusterId) -> HttpsClient {
        config.alpn_protocols = vec![ALPN.to_vec()];
        let name = identity::role_dns_name(Role::Coordinator, cluster);
        HttpsClient {
            config: Arc::new(config),
            name: ServerName::try_from(name).expect("a role and a cluster are DNS labels"),
        }
    }

    /// Speaks TLS over a socket until both sides are sure of it.
    pub fn connect<S: Read + Write>(&self, mut socket: S) -> Result<HttpsSession<S>, HttpsError> {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(TlsError::Config)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(refusal)?;
        }
        Ok(HttpsSession(StreamOwned::new(connection, socket)))
    }
}

fn refusal(error: io::Error) -> HttpsError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other))) => {
            match other.0.downcast_ref::<NoSuchAuthority>() {
                Some(NoSuchAuthority(pin)) => HttpsError::NoSuchAuthority(*pin),
                None => HttpsError::Certificate(error.to_string()),
            }
        }
        Some(rustls::Error::InvalidCertificate(_)) => HttpsError::Certificate(error.to_string()),
        _ => HttpsError::Io(error),
    }
}

/// A connection to a coordinator of the cluster.
pub struct HttpsSession<S: Read + Write>(StreamOwned<ClientConnection, S>);

impl<S: Read + Write> HttpsSession<S> {
    pub fn socket(&mut self) -> &mut S {
        &mut self.0.sock
    }
}

impl<S: Read + Write> Read for HttpsSession<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Read + Write> Write for HttpsSession<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Takes the shown authority of this fingerprint for the only one there is.
#[derive(Debug)]
struct ByFingerprint {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug, thiserror::Error)]
#[error("it shows no authority of the fingerprint {0}")]
struct NoSuchAuthority(Fingerprint);

impl ServerCertVerifier for ByFingerprint {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        behind: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = behind
            .iter()
            .find(|shown| Fingerprint::of(shown) == self.fingerprint)
        else {
            let why = rustls::OtherError(Arc::new(NoSuchAuthority(self.fingerprint)));
            return Err(CertificateError::Other(why).into());
        };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let provider = Arc::clone(&self.provider);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?
            .verify_server_cert(certificate, behind, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}
