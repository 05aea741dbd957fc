//! Who a process is: a certificate, its key, and the authorities it trusts.
//!
//! A certificate of Matins states two DNS names. `<name>.<role>.<cluster>.matins` is the peer's own
//! name, read by the other side after the handshake. `<role>.<cluster>.matins` is what a dialer asks
//! for when any peer of that role will do, so that the ordinary check of a server's name already
//! refuses another cluster and another role. The names exist in no DNS.
//!
//! A control machine (coordinator or witness) is also a *node* of its group, by a number that no other
//! machine is ever given. Its certificate states it as `node-<n>.<cluster>.matins`, beside
//! `control.<cluster>.matins`, the name by which another control machine dials it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use protocol::{AgentName, ClusterId, DurationMs, Lifetime, WallMs};
pub use protocol::{Role, RoleError};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use crate::files;
use crate::tls;

/// Files of an identity's directory.
pub const CA_FILE: &str = "ca.pem";
pub const CERTIFICATE_FILE: &str = "cert.pem";
pub const KEY_FILE: &str = "key.pem";

/// Last label of every name in a certificate.
const TOP: &str = "matins";

/// Whom a listener lets in, and whom a dialer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Only(Role),
    /// Coordinators and witnesses: the members of the control group.
    Control,
}

impl Wanted {
    pub(crate) fn admits(self, role: Role) -> bool {
        match self {
            Wanted::Only(only) => role == only,
            Wanted::Control => role.is_control(),
        }
    }

    /// The name that each of them answers to.
    pub(crate) fn dns_name(self, cluster: &ClusterId) -> String {
        match self {
            Wanted::Only(role) => role_dns_name(role, cluster),
            Wanted::Control => control_dns_name(cluster),
        }
    }
}

impl From<Role> for Wanted {
    fn from(role: Role) -> Wanted {
        Wanted::Only(role)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wanted::Only(Role::Agent) => "agents",
            Wanted::Only(Role::Coordinator) => "coordinators",
            Wanted::Only(Role::Witness) => "witnesses",
            Wanted::Control => "coordinators and witnesses",
        })
    }
}

/// A peer as its certificate names it. Displays as `<name>.<role>.<cluster>.matins`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerName {
    pub cluster: ClusterId,
    pub role: Role,
    pub name: AgentName,
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeerName {
            cluster,
            role,
            name,
        } = self;
        write!(f, "{name}.{role}.{cluster}.{TOP}")
    }
}

/// Text that is not the name of a peer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a peer's name: expected `<name>.<agent, coordinator or witness>.<cluster>.matins`"
)]
pub struct PeerNameError(String);

impl FromStr for PeerName {
    type Err = PeerNameError;

    fn from_str(text: &str) -> Result<PeerName, PeerNameError> {
        let refused = || PeerNameError(text.to_owned());
        let labels: Vec<&str> = text.split('.').collect();
        let [name, role, cluster, TOP] = labels[..] else {
            return Err(refused());
        };
        Ok(PeerName {
            cluster: cluster.parse().map_err(|_| refused())?,
            role: role.parse().map_err(|_| refused())?,
            name: name.parse().map_err(|_| refused())?,
        })
    }
}

/// The name that any peer of a role answers to.
pub(crate) fn role_dns_name(role: Role, cluster: &ClusterId) -> String {
    format!("{role}.{cluster}.{TOP}")
}

/// The name that any control machine answers to.
pub(crate) fn control_dns_name(cluster: &ClusterId) -> String {
    format!("control.{cluster}.{TOP}")
}

/// The name of one node of the control group.
pub(crate) fn node_dns_name(node: u64, cluster: &ClusterId) -> String {
    format!("node-{node}.{cluster}.{TOP}")
}

/// The name that a cluster's authority carries, and below which it may sign.
pub(crate) fn cluster_dns_name(cluster: &ClusterId) -> String {
    format!("{cluster}.{TOP}")
}

/// The cluster of an authority's certificate.
pub(crate) fn read_cluster(
    authority: &CertificateDer<'_>,
) -> Result<ClusterId, CertificateNameError> {
    one_name(authority, "<cluster>.matins", |name| {
        name.strip_suffix(TOP)?.strip_suffix('.')?.parse().ok()
    })
}

/// Whom a certificate is for, and when it is good.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    pub(crate) name: PeerName,
    /// Of a control machine, where it states one.
    pub(crate) node: Option<u64>,
    pub(crate) lifetime: Lifetime,
}

/// What a certificate says of its bearer. Its signatures and dates are checked elsewhere.
pub(crate) fn read_bearer(
    certificate: &CertificateDer<'_>,
) -> Result<Bearer, CertificateNameError> {
    let name = read_peer_name(certificate)?;
    Ok(Bearer {
        node: read_node(certificate, &name.cluster)?,
        lifetime: read_lifetime(certificate)?,
        name,
    })
}

/// The peer's own name in its certificate.
fn read_peer_name(certificate: &CertificateDer<'_>) -> Result<PeerName, CertificateNameError> {
    one_name(certificate, "<name>.<role>.<cluster>.matins", |name| {
        name.parse().ok()
    })
}

/// The number of a control machine in its cluster, where its certificate states one.
fn read_node(
    certificate: &CertificateDer<'_>,
    cluster: &ClusterId,
) -> Result<Option<u64>, CertificateNameError> {
    let below = format!(".{}", cluster_dns_name(cluster));
    let node = |name: &str| -> Option<u64> {
        let label = name.strip_suffix(&below)?.strip_prefix("node-")?;
        label.parse().ok()
    };
    let certificate =
        EndEntityCert::try_from(certificate).map_err(CertificateNameError::Unreadable)?;
    let present: Vec<&str> = certificate.valid_dns_names().collect();
    let mut nodes = present.iter().filter_map(|name| node(name));
    match (nodes.next(), nodes.next()) {
        (node, None) => Ok(node),
        (_, Some(_)) => Err(CertificateNameError::NotOne {
            expected: "node-<n>.<cluster>.matins",
            present: present.join(", "),
        }),
    }
}

/// When a certificate is good.
fn read_lifetime(certificate: &CertificateDer<'_>) -> Result<Lifetime, CertificateNameError> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|error| CertificateNameError::Dates {
            detail: error.to_string(),
        })?;
    let wall = |time: ASN1Time| WallMs(time.timestamp().saturating_mul(1000));
    Ok(Lifetime {
        from: wall(parsed.validity.not_before),
        // The last second is good to its end.
        until: wall(parsed.validity.not_after) + DurationMs::from_secs(1),
    })
}

fn one_name<T>(
    certificate: &CertificateDer<'_>,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, CertificateNameError> {
    let certificate =
        EndEntityCert::try_from(certificate).map_err(CertificateNameError::Unreadable)?;
    let present: Vec<&str> = certificate.valid_dns_names().collect();
    let mut parsed: Vec<T> = present.iter().filter_map(|name| parse(name)).collect();
    match (parsed.pop(), parsed.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(CertificateNameError::NotOne {
            expected,
            present: present.join(", "),
        }),
    }
}

/// A certificate whose subject alternative names do not say who it is.
#[derive(Debug, thiserror::Error)]
pub enum CertificateNameError {
    #[error("the certificate cannot be read")]
    Unreadable(#[source] webpki::Error),
    #[error("the certificate's dates cannot be read: {detail}")]
    Dates { detail: String },
    #[error(
        "the certificate does not state exactly one name of the form {expected}; its names: [{present}]"
    )]
    NotOne {
        expected: &'static str,
        present: String,
    },
}

/// A certificate chain, its key and the authorities it trusts, read from a directory.
///
/// Clones share it: when it is [renewed](Identity::take_renewed), every handshake from then on shows the
/// new certificate, whoever does it and with whatever was made of the identity before.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

struct Inner {
    directory: PathBuf,
    name: PeerName,
    node: Option<u64>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
    authorities: Vec<CertificateDer<'static>>,
    certificate: RwLock<Certificate>,
}

/// What changes when an identity is renewed.
#[derive(Clone)]
struct Certificate {
    /// The chain, and the key as it signs.
    shown: Arc<CertifiedKey>,
    lifetime: Lifetime,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.inner.name)
    }
}

impl Identity {
    /// Reads `ca.pem` (one or more authorities), `cert.pem` and `key.pem`, and checks that they
    /// belong together. Dates are not checked here: the clock of a machine that has just started
    /// may be wrong, and each handshake checks them with the clock of that moment.
    pub fn load(directory: &Path) -> Result<Identity, IdentityError> {
        let ca_path = directory.join(CA_FILE);
        let certificate_path = directory.join(CERTIFICATE_FILE);
        let key_path = directory.join(KEY_FILE);

        let authorities = read_certificates(&ca_path)?;
        let roots = roots_of(&ca_path, &authorities)?;
        let chain = read_certificates(&certificate_path)?;
        let key = read_key(&key_path)?;

        let bearer = read_bearer(&chain[0]).map_err(|source| IdentityError::Name {
            path: certificate_path.clone(),
            source,
        })?;
        let shown = CertifiedKey::from_der(chain.clone(), key.clone_key(), &tls::provider())
            .map_err(|source| IdentityError::KeyMismatch {
                certificate: certificate_path.clone(),
                key: key_path,
                source,
            })?;
        match verify_chain(&chain, &roots, UnixTime::now()) {
            Ok(())
            | Err(webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. }) => {}
            Err(source) => {
                return Err(IdentityError::NotSigned {
                    certificate: certificate_path,
                    ca: ca_path,
                    source,
                });
            }
        }
        Ok(Identity {
            inner: Arc::new(Inner {
                directory: directory.to_owned(),
                name: bearer.name,
                node: bearer.node,
                key,
                roots: Arc::new(roots),
                authorities,
                certificate: RwLock::new(Certificate {
                    shown: Arc::new(shown),
                    lifetime: bearer.lifetime,
                }),
            }),
        })
    }

    /// Goes on with a new certificate, in PEM: `cert.pem` is replaced in one step, and from then on it is
    /// what this process shows.
    ///
    /// It must be of the same bearer and the same key, of an authority that is trusted here, and good for
    /// longer than the one before. The key stays, so that one file is all that changes: at no moment is
    /// there a pair on the disk that does not fit.
    pub fn take_renewed(&self, pem: &str) -> Result<Lifetime, IdentityError> {
        let inner = &self.inner;
        let path = inner.directory.join(CERTIFICATE_FILE);
        let chain = parse_certificates(&path, pem.as_bytes())?;
        let refused = |source: Unfit| IdentityError::NotRenewed {
            certificate: path.clone(),
            source,
        };
        let bearer = read_bearer(&chain[0]).map_err(|source| IdentityError::Name {
            path: path.clone(),
            source,
        })?;
        if (&bearer.name, bearer.node) != (&inner.name, inner.node) {
            return Err(refused(Unfit::Bearer {
                name: bearer.name,
                node: bearer.node,
            }));
        }
        let shown = CertifiedKey::from_der(chain, inner.key.clone_key(), &tls::provider())
            .map_err(|source| refused(Unfit::Key(source)))?;
        verify_chain(&shown.cert, &inner.roots, UnixTime::now())
            .map_err(|source| refused(Unfit::Chain(source)))?;
        let (until, present) = (bearer.lifetime.until, self.lifetime().until);
        if until <= present {
            return Err(refused(Unfit::NoLater { until, present }));
        }
        files::replace(&path, pem.as_bytes(), files::PUBLIC)
            .map_err(|source| IdentityError::Write { path, source })?;
        *inner
            .certificate
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Certificate {
            shown: Arc::new(shown),
            lifetime: bearer.lifetime,
        };
        Ok(bearer.lifetime)
    }

    /// The name in the certificate.
    pub fn name(&self) -> &PeerName {
        &self.inner.name
    }

    /// The number of this machine in its control group, where the certificate states one.
    pub fn node(&self) -> Option<u64> {
        self.inner.node
    }

    /// When the certificate is good that is shown now.
    pub fn lifetime(&self) -> Lifetime {
        self.certificate().lifetime
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.shown().cert.clone()
    }

    /// The certificate that is shown now, with its key.
    pub(crate) fn shown(&self) -> Arc<CertifiedKey> {
        self.certificate().shown
    }

    fn certificate(&self) -> Certificate {
        // It is replaced as a whole, whoever panicked.
        let certificate = self.inner.certificate.read();
        certificate.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn key(&self) -> &PrivateKeyDer<'static> {
        &self.inner.key
    }

    /// The certificates of `ca.pem`; the first is of the authority that signs.
    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.inner.authorities
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.inner.roots)
    }
}

/// Files that do not make an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("going on with a new certificate in place of {certificate}")]
    NotRenewed { certificate: PathBuf, source: Unfit },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is open to everybody (mode {mode:03o}); make it private: chmod 600 {path}")]
    KeyExposed { path: PathBuf, mode: u32 },
    #[error("reading PEM from {path}")]
    Pem { path: PathBuf, source: pem::Error },
    #[error("{path} holds no certificate")]
    NoCertificate { path: PathBuf },
    #[error("using the authorities in {path}")]
    Authority {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("reading who {path} is for")]
    Name {
        path: PathBuf,
        source: CertificateNameError,
    },
    #[error("{key} does not belong to {certificate}; issue both again")]
    KeyMismatch {
        certificate: PathBuf,
        key: PathBuf,
        source: rustls::Error,
    },
    #[error(
        "{certificate} is not signed by an authority in {ca}; are both from the same cluster's authority?"
    )]
    NotSigned {
        certificate: PathBuf,
        ca: PathBuf,
        source: webpki::Error,
    },
}

/// Why a certificate is not taken for the next one of an identity.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("it is for {name}{}", node.map_or_else(String::new, |node| format!(" (node {node})")))]
    Bearer { name: PeerName, node: Option<u64> },
    #[error("it is not of the key that is here")]
    Key(#[source] rustls::Error),
    #[error("it is not good by {CA_FILE} at this moment")]
    Chain(#[source] webpki::Error),
    #[error("it ends at {until}, no later than the one that there is ({present})")]
    NoLater { until: WallMs, present: WallMs },
}

fn read_file(path: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|source| IdentityError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Every certificate of a PEM file, at least one.
pub(crate) fn read_certificates(
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    parse_certificates(path, &read_file(path)?)
}

/// The same of what was read from the file.
pub(crate) fn parse_certificates(
    path: &Path,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let certificates = CertificateDer::pem_slice_iter(content)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| IdentityError::Pem {
            path: path.to_owned(),
            source,
        })?;
    if certificates.is_empty() {
        return Err(IdentityError::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(certificates)
}

/// Whom to trust by the authorities of this file.
pub(crate) fn roots_of(
    path: &Path,
    authorities: &[CertificateDer<'static>],
) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority.clone())
            .map_err(|source| IdentityError::Authority {
                path: path.to_owned(),
                source,
            })?;
    }
    Ok(roots)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    let metadata = fs::metadata(path).map_err(|source| IdentityError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(IdentityError::KeyExposed {
            path: path.to_owned(),
            mode,
        });
    }
    PrivateKeyDer::from_pem_slice(&read_file(path)?).map_err(|source| IdentityError::Pem {
        path: path.to_owned(),
        source,
    })
}

/// Whether the chain leads to one of the authorities at `time`. Every role may dial, so every
/// certificate must be good for a client.
pub(crate) fn verify_chain(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    time: UnixTime,
) -> Result<(), webpki::Error> {
    EndEntityCert::try_from(&chain[0])?
        .verify_for_usage(
            tls::provider().signature_verification_algorithms.all,
            &roots.roots,
            &chain[1..],
            time,
            KeyUsage::client_auth(),
            None,
            None,
        )
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_names_display_and_parse_back() {
        let name: PeerName = "host-07.agent.prod.matins".parse().unwrap();
        assert_eq!(
            name,
            PeerName {
                cluster: "prod".parse().unwrap(),
                role: Role::Agent,
                name: "host-07".parse().unwrap(),
            }
        );
        assert_eq!(name.to_string(), "host-07.agent.prod.matins");
    }

    #[test]
    fn what_is_no_peer_name_is_refused() {
        for bad in [
            "",
            "matins",
            "coordinator.prod.matins",
            "a.watchman.prod.matins",
            "a.agent.prod.example",
            "a.agent.prod.matins.",
            "a.b.agent.prod.matins",
            "*.agent.prod.matins",
            "A.agent.prod.matins",
            ".agent.prod.matins",
        ] {
            assert!(bad.parse::<PeerName>().is_err(), "{bad:?}");
        }
    }
}
