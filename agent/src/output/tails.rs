//! The tail of an output that travels with a receipt.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::reader::read_tail;

/// A receipt waits no longer than this for its tail.
const TAIL_MAX: Duration = Duration::from_secs(5);

/// Threads that reading tails may hold at once, also when the disk lets none of them go.
const TAILS_AT_ONCE: usize = 4;

/// Reads tails of outputs, a few at a time.
#[derive(Clone)]
pub(crate) struct Tails {
    threads: Arc<Semaphore>,
}

impl Tails {
    pub(crate) fn new() -> Tails {
        Tails {
            threads: Arc::new(Semaphore::new(TAILS_AT_ONCE)),
        }
    }

    /// The last of this output, or in its place why it could not be read.
    pub(crate) async fn read(&self, directory: PathBuf) -> String {
        let shown = directory.display().to_string();
        let read = async {
            // The permit goes with the thread: one that hangs goes on holding it.
            let permit = Arc::clone(&self.threads).acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                read_tail(&directory)
            })
            .await
        };
        let why = match tokio::time::timeout(TAIL_MAX, read).await {
            Ok(Ok(Ok(tail))) => return tail,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the disk did not answer within {TAIL_MAX:?}"),
        };
        tracing::warn!(path = %shown, why, "the tail of an output cannot be read");
        format!("[the output {shown} could not be read: {why}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_read_is_said_in_its_place() {
        let home = tempfile::tempdir().unwrap();
        let tail = Tails::new().read(home.path().join("none")).await;
        assert!(tail.contains("No such file"), "{tail}");
    }
}
