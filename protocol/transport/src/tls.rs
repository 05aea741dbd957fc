//! TLS 1.3 with certificates on both sides, by the ring provider, given explicitly: nothing is
//! installed for the whole process.

use std::sync::Arc;

use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use rustls::SignatureScheme;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, VerifierBuilderError,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;

use crate::identity::Identity;

/// What this crate speaks above QUIC; another version of the framing gets another name.
pub(crate) const ALPN: &[u8] = b"matins/1";

/// An identity that TLS cannot be set up with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("setting up TLS with this identity")]
    Config(#[from] rustls::Error),
    #[error("setting up the check of clients' certificates")]
    ClientCheck(#[from] VerifierBuilderError),
    #[error("setting up QUIC's first packets")]
    InitialSuite(#[from] NoInitialCipherSuite),
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Shows the certificate that an identity has at the moment of a handshake.
#[derive(Debug)]
struct Shown(Identity);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.shown())
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.shown())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Demands a certificate from every client.
pub(crate) fn server(identity: &Identity) -> Result<QuicServerConfig, TlsError> {
    let clients =
        WebPkiClientVerifier::builder_with_provider(identity.roots(), provider()).build()?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(Shown(identity.clone())));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session would not show its certificate again.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(QuicServerConfig::try_from(config)?)
}

/// Checks the server's certificate against the name it is dialed by, and shows its own.
pub(crate) fn client(identity: &Identity) -> Result<QuicClientConfig, TlsError> {
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(identity.roots())
        .with_client_cert_resolver(Arc::new(Shown(identity.clone())));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(QuicClientConfig::try_from(config)?)
}
