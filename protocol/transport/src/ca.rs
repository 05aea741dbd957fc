//! The cluster's own certificate authority: one directory with `ca.pem` and `ca.key`.
//!
//! An authority is bound to one cluster. Its certificate carries `<cluster>.matins` and may sign
//! only names below that, so an authority that somebody trusts by mistake in another cluster
//! still speaks for its own alone. The key belongs on a machine that runs nothing else; peers get
//! `ca.pem` only.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::certificate::BACKDATED;
use protocol::{AgentName, ClusterId, DurationMs, WallMs};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, PublicKeyData, SubjectPublicKeyInfo,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::files;
use crate::https::Fingerprint;
use crate::identity::{
    self, CA_FILE, CERTIFICATE_FILE, CertificateNameError, Identity, IdentityError, KEY_FILE,
    PeerName, Role,
};

/// The authority's key, beside [`CA_FILE`] in the authority's directory.
pub const CA_KEY_FILE: &str = "ca.key";

/// The key of an identity for which a certificate has been asked and not been given yet.
const PENDING_KEY_FILE: &str = "key.pending.pem";

/// Usual lifetime of an authority: ten years.
pub const CA_LIFETIME: DurationMs = DurationMs::from_secs(10 * 365 * 86_400);

/// Usual lifetime of a peer's certificate that a person issues where the authority is, and that nobody
/// may renew: one year.
pub const CERTIFICATE_LIFETIME: DurationMs = DurationMs::from_secs(365 * 86_400);

/// Usual lifetime of one that is given over the network and renewed over it: thirty days.
pub const RENEWED_LIFETIME: DurationMs = DurationMs::from_secs(30 * 86_400);

/// Longest lifetime that is accepted: a hundred years.
const LIFETIME_MAX: DurationMs = DurationMs::from_secs(100 * 365 * 86_400);

/// When a certificate is issued and for how long it is good.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    pub now: WallMs,
    pub lifetime: DurationMs,
}

/// Whom a certificate is for.
#[derive(Clone, Debug)]
pub struct Subject {
    role: Role,
    name: AgentName,
    node: Option<u64>,
}

impl Subject {
    /// A coordinator is node 1, as where there is but one.
    pub fn new(role: Role, name: &AgentName) -> Subject {
        Subject {
            role,
            name: name.clone(),
            node: (role == Role::Coordinator).then_some(1),
        }
    }

    /// Who is known by this name already.
    pub fn of(known: &PeerName) -> Subject {
        Subject::new(known.role, &known.name)
    }

    /// A control machine under its number in the group, where it has one. That is given to no other
    /// machine, and to this one no more when its data directory is lost.
    #[must_use]
    pub fn node(self, node: impl Into<Option<u64>>) -> Subject {
        let given = node.into().filter(|_| self.role.is_control());
        Subject {
            node: given.or(self.node),
            ..self
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

/// Makes a new authority in `directory`: `ca.pem` and `ca.key` (mode 0600).
///
/// An existing one is never overwritten, since every certificate it signed would stop working.
pub fn create(directory: &Path, cluster: &ClusterId, validity: Validity) -> Result<(), CaError> {
    let certificate_path = directory.join(CA_FILE);
    let key_path = directory.join(CA_KEY_FILE);
    for path in [&certificate_path, &key_path] {
        match path.try_exists() {
            Ok(false) => {}
            Ok(true) => return Err(CaError::Exists { path: path.clone() }),
            Err(source) => return Err(CaError::read(path)(source)),
        }
    }

    let key = KeyPair::generate().map_err(CaError::Sign)?;
    let mut params = validity.params(vec![identity::cluster_dns_name(cluster)])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName(identity::cluster_dns_name(cluster))],
        excluded_subtrees: Vec::new(),
    });
    // Part of the key's digest makes the authority's name its own: one made anew for the same
    // cluster is then an unknown authority, and not a known one with a wrong signature.
    let digest = params
        .key_identifier(&key)
        .iter()
        .take(8)
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    params.distinguished_name = distinguished_name(cluster, &format!("Matins authority {digest}"));
    let certificate = params.self_signed(&key).map_err(CaError::Sign)?;

    files::create_directory(directory).map_err(CaError::write(directory))?;
    for (path, content, mode) in [
        (key_path, key.serialize_pem(), files::PRIVATE),
        (certificate_path, certificate.pem(), files::PUBLIC),
    ] {
        files::create(&path, content.as_bytes(), mode).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => CaError::Exists { path: path.clone() },
            _ => CaError::write(&path)(source),
        })?;
    }
    Ok(())
}

/// The cluster of the authority in a directory.
pub fn cluster_of(ca_directory: &Path) -> Result<ClusterId, CaError> {
    let path = ca_directory.join(CA_FILE);
    let pem = fs::read(&path).map_err(CaError::read(&path))?;
    let authorities = identity::parse_certificates(&path, &pem).map_err(CaError::Authority)?;
    cluster_in(&path, &authorities)
}

fn cluster_in(path: &Path, authorities: &[CertificateDer<'_>]) -> Result<ClusterId, CaError> {
    identity::read_cluster(&authorities[0]).map_err(|source| CaError::Cluster {
        path: path.to_owned(),
        source,
    })
}

/// Issues a certificate with a new key into `out`: `key.pem` (mode 0600), `ca.pem`, `cert.pem`.
///
/// Files that are there are replaced, each in one step: this is also how a certificate is renewed.
/// A crash between two of them leaves a pair that [`crate::Identity::load`] refuses; issue again.
/// Where `ca.pem` holds several authorities (while one takes over from another) the first signs,
/// and all are handed on.
pub fn issue(
    ca_directory: &Path,
    subject: &Subject,
    out: &Path,
    validity: Validity,
) -> Result<PeerName, CaError> {
    let key = KeyPair::generate().map_err(CaError::Sign)?;
    let (peer, issued) = sign(ca_directory, subject, &key, validity)?;
    put(out, key.serialize_pem(), issued)?;
    Ok(peer)
}

/// A certificate with the authorities that stand behind it, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub certificate: String,
    pub authorities: String,
}

/// A key that never leaves its machine, and the request for a certificate of it.
pub struct Enrolment {
    key: KeyPair,
}

impl Enrolment {
    fn draw() -> Result<Enrolment, CaError> {
        let key = KeyPair::generate().map_err(CaError::Sign)?;
        Ok(Enrolment { key })
    }

    /// Goes on with the key of a directory, or draws one and keeps it there: who does not hear the
    /// answer to a request asks again with the same key, and so does one whose certificate has ended.
    pub fn kept_in(directory: &Path) -> Result<Enrolment, CaError> {
        for file in [PENDING_KEY_FILE, KEY_FILE] {
            let path = directory.join(file);
            match fs::read_to_string(&path) {
                Ok(pem) => {
                    let key =
                        KeyPair::from_pem(&pem).map_err(|source| CaError::Key { path, source })?;
                    return Ok(Enrolment { key });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(CaError::read(&path)(error)),
            }
        }
        let drawn = Enrolment::draw()?;
        files::create_directory(directory).map_err(CaError::write(directory))?;
        let (path, pem) = (directory.join(PENDING_KEY_FILE), drawn.key.serialize_pem());
        files::replace(&path, pem.as_bytes(), files::PRIVATE).map_err(CaError::write(&path))?;
        Ok(drawn)
    }

    /// What an authority signs, in PEM. It proves that whoever sends it has the key, and names
    /// nobody: who that is, the authority knows otherwise.
    pub fn request(&self) -> Result<String, CaError> {
        let request = CertificateParams::default().serialize_request(&self.key);
        request
            .and_then(|request| request.pem())
            .map_err(CaError::Sign)
    }

    /// Makes the directory an identity.
    pub fn complete(self, directory: &Path, issued: Issued) -> Result<(), CaError> {
        put(directory, self.key.serialize_pem(), issued)?;
        let pending = directory.join(PENDING_KEY_FILE);
        match fs::remove_file(&pending) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CaError::write(&pending)(error))
            }
            _ => Ok(()),
        }
    }
}

/// A request for a certificate whose sender has shown to have the key.
#[derive(Debug)]
pub struct SigningRequest {
    key: SubjectPublicKeyInfo,
}

impl SigningRequest {
    pub fn read(pem: &str) -> Result<SigningRequest, CaError> {
        let read = CertificateSigningRequestParams::from_pem(pem).map_err(CaError::Request)?;
        let key = read.public_key.subject_public_key_info();
        Ok(SigningRequest {
            key: SubjectPublicKeyInfo::from_der(&key).map_err(CaError::Request)?,
        })
    }

    /// The next certificate of the key of this one, whose bearer has shown to have it.
    pub(crate) fn again(certificate: &CertificateDer<'_>) -> Result<SigningRequest, CaError> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|_| CaError::Unreadable)?;
        let key = parsed.tbs_certificate.subject_pki.raw;
        Ok(SigningRequest {
            key: SubjectPublicKeyInfo::from_der(key).map_err(CaError::Request)?,
        })
    }

    /// The next certificate of this process's own key.
    pub fn of_own(identity: &Identity) -> Result<SigningRequest, CaError> {
        SigningRequest::again(&identity.chain()[0])
    }

    /// SHA-256 of the key, 64 hexadecimal digits.
    pub fn key_digest(&self) -> String {
        Fingerprint::of(self.key.der_bytes()).to_string()
    }

    /// Issues a certificate of this key.
    pub fn sign(
        &self,
        ca_directory: &Path,
        subject: &Subject,
        validity: Validity,
    ) -> Result<Issued, CaError> {
        let (_, issued) = sign(ca_directory, subject, &self.key, validity)?;
        Ok(issued)
    }
}

fn sign(
    ca_directory: &Path,
    subject: &Subject,
    key: &impl PublicKeyData,
    validity: Validity,
) -> Result<(PeerName, Issued), CaError> {
    let ca_path = ca_directory.join(CA_FILE);
    let ca_key_path = ca_directory.join(CA_KEY_FILE);
    let ca_pem = fs::read_to_string(&ca_path).map_err(CaError::read(&ca_path))?;
    let ca_key_pem = fs::read_to_string(&ca_key_path).map_err(CaError::read(&ca_key_path))?;

    let authorities =
        identity::parse_certificates(&ca_path, ca_pem.as_bytes()).map_err(CaError::Authority)?;
    let roots = identity::roots_of(&ca_path, &authorities).map_err(CaError::Authority)?;
    let cluster = cluster_in(&ca_path, &authorities)?;
    let ca_key = KeyPair::from_pem(&ca_key_pem).map_err(|source| CaError::Key {
        path: ca_key_path.clone(),
        source,
    })?;
    let issuer = Issuer::from_ca_cert_der(&authorities[0], ca_key).map_err(CaError::Sign)?;

    let peer = PeerName {
        cluster,
        role: subject.role,
        name: subject.name.clone(),
    };
    let certificate = peer_params(&peer, subject.node, validity)?
        .signed_by(key, &issuer)
        .map_err(CaError::Sign)?;
    identity::verify_chain(
        std::slice::from_ref(certificate.der()),
        &roots,
        validity.unix_time(),
    )
    .map_err(|source| CaError::Mismatch {
        certificate: ca_path,
        key: ca_key_path,
        source,
    })?;

    let issued = Issued {
        certificate: certificate.pem(),
        authorities: ca_pem,
    };
    Ok((peer, issued))
}

/// Puts the files of an identity in their places.
fn put(out: &Path, key: String, issued: Issued) -> Result<(), CaError> {
    files::create_directory(out).map_err(CaError::write(out))?;
    for (file, content, mode) in [
        (KEY_FILE, key, files::PRIVATE),
        (CA_FILE, issued.authorities, files::PUBLIC),
        (CERTIFICATE_FILE, issued.certificate, files::PUBLIC),
    ] {
        let path = out.join(file);
        files::replace(&path, content.as_bytes(), mode).map_err(CaError::write(&path))?;
    }
    Ok(())
}

fn peer_params(
    peer: &PeerName,
    node: Option<u64>,
    validity: Validity,
) -> Result<CertificateParams, CaError> {
    let mut names = vec![
        peer.to_string(),
        identity::role_dns_name(peer.role, &peer.cluster),
    ];
    if let Some(node) = node {
        names.push(identity::control_dns_name(&peer.cluster));
        names.push(identity::node_dns_name(node, &peer.cluster));
    }
    let mut params = validity.params(names)?;
    params.distinguished_name = distinguished_name(&peer.cluster, peer.name.as_str());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match peer.role {
        Role::Agent => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Role::Coordinator | Role::Witness => vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ],
    };
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// For people only; peers read the alternative names. Each part stays within X.520's 64 characters.
fn distinguished_name(cluster: &ClusterId, common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, cluster.as_str());
    name.push(DnType::CommonName, common_name);
    name
}

impl Validity {
    fn params(self, dns_names: Vec<String>) -> Result<CertificateParams, CaError> {
        let year_9000 = WallMs(221_845_392_000_000);
        if self.lifetime <= DurationMs::ZERO || self.lifetime > LIFETIME_MAX {
            return Err(CaError::Lifetime {
                lifetime: self.lifetime,
            });
        }
        if self.now < WallMs(0) + BACKDATED || self.now > year_9000 {
            return Err(CaError::Clock { now: self.now });
        }
        let at = |t: WallMs| {
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs((t.0 / 1000).unsigned_abs())
        };
        let mut params = CertificateParams::new(dns_names).map_err(CaError::Sign)?;
        params.not_before = at(self.now - BACKDATED);
        params.not_after = at(self.now + self.lifetime);
        Ok(params)
    }

    fn unix_time(self) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_millis(self.now.0.unsigned_abs()))
    }
}

/// What went wrong while making an authority or a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error(
        "{path} exists and is not overwritten: certificates of the old authority would stop working; remove the old authority by hand if that is meant"
    )]
    Exists { path: PathBuf },
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("reading the authority")]
    Authority(#[source] IdentityError),
    #[error("reading the cluster from {path}")]
    Cluster {
        path: PathBuf,
        source: CertificateNameError,
    },
    #[error("reading the key {path}")]
    Key { path: PathBuf, source: rcgen::Error },
    #[error("reading a request for a certificate")]
    Request(#[source] rcgen::Error),
    #[error("a certificate that is to be renewed cannot be read")]
    Unreadable,
    #[error("signing a certificate")]
    Sign(#[source] rcgen::Error),
    #[error("{key} did not sign for {certificate}; are both from the same authority?")]
    Mismatch {
        certificate: PathBuf,
        key: PathBuf,
        source: webpki::Error,
    },
    #[error(
        "a lifetime of {lifetime} is not accepted; give one up to {}",
        LIFETIME_MAX
    )]
    Lifetime { lifetime: DurationMs },
    #[error("this machine's clock says {now}; set it before issuing certificates")]
    Clock { now: WallMs },
}

impl CaError {
    fn read(path: &Path) -> impl Fn(io::Error) -> CaError + '_ {
        move |source| CaError::Read {
            path: path.to_owned(),
            source,
        }
    }

    fn write(path: &Path) -> impl Fn(io::Error) -> CaError + '_ {
        move |source| CaError::Write {
            path: path.to_owned(),
            source,
        }
    }
}
