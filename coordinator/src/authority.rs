//! The cluster's authority, where its key lies beside the coordinator's own identity.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use protocol::{ClusterId, DurationMs};
use tokio::task::JoinError;
use transport::Identity;
use transport::ca::{CA_KEY_FILE, CaError, Issued, SigningRequest, Subject, Validity};
use transport::https::Fingerprint;

use crate::clock::read_now;

/// By it this coordinator lets hosts and control machines in, and renews what they have.
#[derive(Clone, Debug)]
pub struct Authority {
    directory: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) fingerprint: Fingerprint,
    /// How long what it signs is good.
    life: DurationMs,
}

/// A key that is there and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("looking at the authority's key {path}")]
    Look { path: PathBuf, source: io::Error },
    #[error(
        "{path} can be read by others (mode {mode:03o}), who could then be anybody to this cluster; chmod 600 {path}"
    )]
    Exposed { path: PathBuf, mode: u32 },
}

/// A certificate that was not signed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error("the signing broke down")]
    Died(#[from] JoinError),
}

impl Authority {
    /// `None` where the key is kept elsewhere.
    pub(crate) fn beside(
        directory: &Path,
        identity: &Identity,
        life: DurationMs,
    ) -> Result<Option<Authority>, AuthorityError> {
        let path = directory.join(CA_KEY_FILE);
        let mode = match fs::metadata(&path) {
            Ok(file) => file.permissions().mode() & 0o777,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(AuthorityError::Look { path, source }),
        };
        if mode & 0o077 != 0 {
            return Err(AuthorityError::Exposed { path, mode });
        }
        Ok(Some(Authority {
            directory: directory.to_owned(),
            cluster: identity.name().cluster.clone(),
            fingerprint: Fingerprint::of_identity(identity),
            life,
        }))
    }

    /// From now on, for as long as certificates are given.
    pub(crate) fn validity(&self) -> Validity {
        Validity {
            now: read_now().wall,
            lifetime: self.life,
        }
    }

    /// Reads the key anew each time, so that it is in memory only while it is used.
    pub(crate) async fn sign(
        &self,
        request: SigningRequest,
        subject: Subject,
        validity: Validity,
    ) -> Result<Issued, SignError> {
        let directory = self.directory.clone();
        let signed =
            tokio::task::spawn_blocking(move || request.sign(&directory, &subject, validity));
        Ok(signed.await??)
    }
}
