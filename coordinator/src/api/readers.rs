//! Reading the ledger without the scheduler: a few read-only connections, used by turns off the
//! runtime's threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ledger::{Reader, ReaderError};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::ApiError;
use crate::exit::causes;

/// Reads at a time.
const READERS_MAX: usize = 4;

/// How long a read may wait for its turn.
const TURN_LIMIT: Duration = Duration::from_secs(5);

/// Read-only connections to one ledger. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readers {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Readers {
        let inner = Inner {
            path,
            turns: Arc::new(Semaphore::new(READERS_MAX)),
            idle: Mutex::new(Vec::new()),
        };
        Readers {
            inner: Arc::new(inner),
        }
    }

    /// Readers of the same ledger with turns of their own, for what must not wait until others have
    /// read.
    pub(crate) fn apart(&self) -> Readers {
        Readers::new(self.inner.path.clone())
    }

    /// Reads on a thread where waiting for the disk holds up nobody. The reader itself gives a
    /// query up that takes too long.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        what: &str,
        query: impl FnOnce(&Reader) -> Result<T, ReaderError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turns = Arc::clone(&self.inner.turns);
        let Ok(turn) = timeout(TURN_LIMIT, turns.acquire_owned()).await else {
            let why = format!(
                "{READERS_MAX} other reads have kept this one waiting for {} s",
                TURN_LIMIT.as_secs()
            );
            return Err(ApiError::unavailable(what, why, "ask again in a moment"));
        };
        let inner = Arc::clone(&self.inner);
        let read = tokio::task::spawn_blocking(move || {
            let _turn = turn.expect("nobody closes this semaphore");
            let reader = inner.take()?;
            let answer = query(&reader);
            inner.give_back(reader);
            answer
        });
        match read.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(what, &error)),
            Err(error) => Err(ApiError::internal(what, error.to_string())),
        }
    }
}

impl Readers {
    /// How large the ledger's files are now, by what they are.
    pub(crate) fn file_bytes(&self) -> Vec<(&'static str, u64)> {
        let path = &self.inner.path;
        let beside = |ending: &str| {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        let files = [("database", path.clone()), ("log", beside("-wal"))];
        let size = |path: PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        files.map(|(what, path)| (what, size(path))).into()
    }

    /// The directory that the ledger is in.
    pub(crate) fn directory(&self) -> &Path {
        self.inner.path.parent().unwrap_or(&self.inner.path)
    }
}

impl Inner {
    fn take(&self) -> Result<Reader, ReaderError> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        idle.map_or_else(|| Reader::open(&self.path), Ok)
    }

    fn give_back(&self, reader: Reader) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(reader);
    }
}

fn failed(what: &str, error: &ReaderError) -> ApiError {
    let why = causes(error);
    if matches!(error, ReaderError::TooLong { .. }) {
        return ApiError::unavailable(what, why, "ask for less, or again in a moment");
    }
    tracing::error!(what, why, "reading the ledger failed");
    ApiError::internal(what, why)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ledger::Store;
    use protocol::Rules;

    use super::*;

    #[tokio::test]
    async fn who_reads_apart_does_not_wait_for_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let _store = Store::open(&path, Rules::all()).unwrap();
        let readers = Readers::new(path);
        let (mut go_on, mut busy) = (Vec::new(), Vec::new());
        for _ in 0..READERS_MAX {
            let (sender, waits) = mpsc::channel::<()>();
            let readers = readers.clone();
            busy.push(tokio::spawn(async move {
                let query = move |_: &Reader| {
                    // The other end is dropped to say so.
                    let _ = waits.recv();
                    Ok(())
                };
                readers.read("holding a place", query).await.unwrap();
            }));
            go_on.push(sender);
        }
        while readers.inner.turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let apart = readers.apart();
        let read = apart.read("looking", Reader::open_alerts_by_kind);
        assert!(read.await.unwrap().values().all(|count| *count == 0));
        assert_eq!(readers.inner.turns.available_permits(), 0);
        drop(go_on);
        for busy in busy {
            busy.await.unwrap();
        }
    }
}
