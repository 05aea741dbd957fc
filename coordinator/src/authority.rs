//! The cluster's authority, where its key lies beside the coordinator's own identity.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use protocol::ClusterId;
use transport::Identity;
use transport::ca::CA_KEY_FILE;
use transport::https::Fingerprint;

/// By it this coordinator lets hosts in.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    pub(crate) directory: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) fingerprint: Fingerprint,
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

impl Authority {
    /// `None` where the key is kept elsewhere.
    pub(crate) fn beside(
        directory: &Path,
        identity: &Identity,
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
        }))
    }
}
