//! The agent's own directory, and that one agent has it to itself.
//!
//! Two agents under one certificate look like a host and its clone to the coordinator, which lets
//! neither go on under that name again. Nearly always the second was started by mistake beside the
//! first, on its directory: it is told so here, before it says anything to anybody.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use crate::lock::{self, Refused};
use crate::run::Error;

/// Held while the agent runs. Released by the kernel when the process ends, however it ends.
pub(crate) struct DataDirectory {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DataDirectory {
    /// Makes the directory where it is missing and takes it for this process alone.
    pub(crate) fn take(path: &Path) -> Result<DataDirectory, Error> {
        match lock::take_in(path, 0o750, "lock") {
            Ok(lock) => Ok(DataDirectory {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(Refused::Held { pid }) => Err(Error::AlreadyRunning {
                directory: path.to_owned(),
                pid,
            }),
            Err(Refused::Failed(source)) => Err(Error::Directory {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Where output of attempts is kept, made if absent, by its one true name. As text: it travels
    /// in launches.
    pub(crate) fn output(&self) -> Result<String, Error> {
        let path = self.path.join("output");
        let make = || {
            DirBuilder::new()
                .mode(0o750)
                .recursive(true)
                .create(&path)?;
            std::fs::canonicalize(&path)
        };
        match make() {
            Ok(real) => real
                .into_os_string()
                .into_string()
                .map_err(|path| Error::PathNotText { path: path.into() }),
            Err(source) => Err(Error::Directory { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_agent_is_refused_by_name_and_let_in_afterwards() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agent");
        let first = DataDirectory::take(&path).unwrap();
        let refused = DataDirectory::take(&path).err().unwrap().to_string();
        let pid = std::process::id();
        assert!(
            refused.contains(&format!("another agent (process {pid})")),
            "{refused}"
        );
        assert!(first.output().unwrap().ends_with("agent/output"));
        drop(first);
        DataDirectory::take(&path).unwrap();
    }

    #[test]
    fn a_directory_that_was_deleted_meanwhile_keeps_nobody_out() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agent");
        let _first = DataDirectory::take(&path).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        DataDirectory::take(&path).unwrap();
    }
}
