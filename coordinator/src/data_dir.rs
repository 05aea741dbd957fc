//! The coordinator's directory: who may use it, and what lies in it.
//!
//! | file | what |
//! |---|---|
//! | `lock` | locked while a coordinator runs on the directory; names its process |
//! | `ledger.db` | the ledger |
//! | `log.db` | the replicated log, which the ledger follows |
//! | `snapshots/` | a copy of the ledger, for members that are far behind |
//! | `reserve` | room on the disk, given up when it is full |
//! | `api-token` | the secret that every request to the API must carry |
//! | `api.json` | where the API listens, the token, and the authority to trust over TLS, here or elsewhere; there while it listens |

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

use crate::consensus::{Begin, GroupOptions};
use crate::files::{self, open_private};
use crate::token::{ApiToken, TokenError};

pub(crate) const LOCK_FILE: &str = "lock";
/// The ledger, in the data directory of a coordinator.
pub const LEDGER_FILE: &str = "ledger.db";
pub(crate) const TOKEN_FILE: &str = "api-token";
const API_FILE: &str = "api.json";

/// A directory that this process has to itself.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Released by the kernel when the process ends, however it ends.
    _lock: Flock<File>,
}

/// A directory that a coordinator cannot run on.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("making the data directory {path}")]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "{path} can be written by others (mode {mode:03o}), who could then put another ledger in its place; chmod 700 {path}"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "another coordinator{} runs on {path}; stop it first, or give this one a directory of its own",
        of_process(.pid.as_deref())
    )]
    InUse { path: PathBuf, pid: Option<String> },
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("reading the API's token from {path}")]
    Token { path: PathBuf, source: TokenError },
    #[error("{path} can be read by others (mode {mode:03o}); chmod 600 {path}")]
    TokenExposed { path: PathBuf, mode: u32 },
    #[error("drawing a token for the API")]
    Random(#[source] getrandom::Error),
}

#[derive(Serialize)]
struct ApiFile<'a> {
    url: &'a str,
    token: &'a str,
    ca: &'a Path,
}

impl DataDir {
    /// Makes the directory where it is missing and takes it for this process alone.
    pub(crate) fn open(path: &Path) -> Result<DataDir, DataDirError> {
        let create = |source| DataDirError::Create {
            path: path.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(create)?;
        let mode = mode_of(path)?;
        if mode & 0o022 != 0 {
            return Err(DataDirError::Exposed {
                path: path.to_owned(),
                mode,
            });
        }
        let lock = take_lock(path)?;
        let dir = DataDir {
            path: path.to_owned(),
            _lock: lock,
        };
        // Of a coordinator that was killed: nobody listens there.
        dir.unpublish()?;
        Ok(dir)
    }

    /// The files of a member of a group, there and private: SQLite gives the files beside them the
    /// same mode. An empty file is an empty database.
    pub(crate) fn group(&self, node: u64, begin: Begin) -> Result<GroupOptions, DataDirError> {
        let options = GroupOptions::in_directory(&self.path, node, begin);
        for path in [&options.ledger, &options.log] {
            open_private(path).map_err(|source| DataDirError::Write {
                path: path.clone(),
                source,
            })?;
        }
        Ok(options)
    }

    /// The API's token, drawn when it is first asked for.
    pub(crate) fn token(&self) -> Result<ApiToken, DataDirError> {
        let path = self.path.join(TOKEN_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = ApiToken::draw().map_err(DataDirError::Random)?;
                replace(&path, format!("{}\n", token.reveal()).as_bytes())?;
                return Ok(token);
            }
            Err(source) => return Err(DataDirError::Read { path, source }),
        };
        let mode = mode_of(&path)?;
        if mode & 0o077 != 0 {
            return Err(DataDirError::TokenExposed { path, mode });
        }
        text.trim_end()
            .parse()
            .map_err(|source| DataDirError::Token { path, source })
    }

    /// Tells programs on this machine where the API is and how to be let in.
    /// `ca` is the file of the authority that a client over TLS is to trust.
    pub(crate) fn publish(
        &self,
        url: &str,
        token: &ApiToken,
        ca: &Path,
    ) -> Result<(), DataDirError> {
        let file = ApiFile {
            url,
            ca,
            token: token.reveal(),
        };
        let mut content =
            serde_json::to_vec(&file).expect("strings and a path that was text are always JSON");
        content.push(b'\n');
        replace(&self.path.join(API_FILE), &content)
    }

    pub(crate) fn unpublish(&self) -> Result<(), DataDirError> {
        let path = self.path.join(API_FILE);
        files::remove(&path).map_err(|source| DataDirError::Write { path, source })
    }
}

fn take_lock(directory: &Path) -> Result<Flock<File>, DataDirError> {
    let path = directory.join(LOCK_FILE);
    let write = |source| DataDirError::Write {
        path: path.clone(),
        source,
    };
    let file = open_private(&path).map_err(write)?;
    let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut pid = String::new();
            // Without the name of the process the refusal stands all the same.
            let known = file.read_to_string(&mut pid).is_ok();
            let pid = Some(pid.trim().to_owned()).filter(|pid| known && !pid.is_empty());
            return Err(DataDirError::InUse {
                path: directory.to_owned(),
                pid,
            });
        }
        Err((_, errno)) => return Err(write(errno.into())),
    };
    lock.set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| writeln!(lock, "{}", std::process::id()))
        .map_err(write)?;
    Ok(lock)
}

/// Puts a private file in its place, whole or not at all.
fn replace(path: &Path, content: &[u8]) -> Result<(), DataDirError> {
    let write = |source| DataDirError::Write {
        path: path.to_owned(),
        source,
    };
    let temporary = path.with_extension("new");
    // What an interrupted start left; its mode is not to be trusted.
    files::remove(&temporary).map_err(write)?;
    let mut file = files::create_private(&temporary).map_err(write)?;
    file.write_all(content)
        .and_then(|()| files::put_in_place(&file, &temporary, path))
        .map_err(write)
}

fn mode_of(path: &Path) -> Result<u32, DataDirError> {
    let metadata = fs::metadata(path).map_err(|source| DataDirError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(metadata.permissions().mode() & 0o777)
}

fn of_process(pid: Option<&str>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        mode_of(path).unwrap()
    }

    #[test]
    fn the_directory_and_what_is_secret_in_it_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep/er");
        let dir = DataDir::open(&path).unwrap();
        let token = dir.token().unwrap();
        dir.publish("http://127.0.0.1:1", &token, Path::new("/ca.pem"))
            .unwrap();
        assert_eq!(mode(&path), 0o700);
        for file in [LOCK_FILE, TOKEN_FILE, API_FILE] {
            assert_eq!(mode(&path.join(file)), 0o600, "{file}");
        }
        let written = fs::read_to_string(path.join(API_FILE)).unwrap();
        let expected = format!(
            "{{\"url\":\"http://127.0.0.1:1\",\"token\":\"{}\",\"ca\":\"/ca.pem\"}}\n",
            token.reveal()
        );
        assert_eq!(written, expected);
        dir.unpublish().unwrap();
        assert!(!path.join(API_FILE).exists());
    }

    #[test]
    fn the_token_is_drawn_once() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let first = DataDir::open(&path).unwrap().token().unwrap();
        let second = DataDir::open(&path).unwrap().token().unwrap();
        assert_eq!(first.reveal(), second.reveal());
        let other = DataDir::open(&parent.path().join("other")).unwrap();
        assert_ne!(first.reveal(), other.token().unwrap().reveal());
    }

    #[test]
    fn a_second_coordinator_is_refused_and_told_whose_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let first = DataDir::open(&path).unwrap();
        let error = DataDir::open(&path).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(
            error.contains(&format!("another coordinator (process {pid}) runs on")),
            "{error}"
        );
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn what_others_could_change_or_read_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = DataDir::open(&path).unwrap_err();
        assert!(matches!(error, DataDirError::Exposed { mode: 0o777, .. }));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let dir = DataDir::open(&path).unwrap();
        dir.token().unwrap();
        let token = path.join(TOKEN_FILE);
        fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
        let error = dir.token().unwrap_err();
        assert!(matches!(error, DataDirError::TokenExposed { .. }));

        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&token, "short\n").unwrap();
        assert!(matches!(
            dir.token().unwrap_err(),
            DataDirError::Token { .. }
        ));
    }

    #[test]
    fn where_a_killed_coordinator_listened_is_forgotten() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        drop(DataDir::open(&path).unwrap());
        fs::write(path.join(API_FILE), "{}").unwrap();
        let _dir = DataDir::open(&path).unwrap();
        assert!(!path.join(API_FILE).exists());
    }
}
