//! The thread that carries the write-ahead logs of both files home, so that no commit has to.
//!
//! What it says of the ledger is what the log may be purged by: up to there the file itself holds
//! everything, whatever a power cut takes.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ledger::log::Position;
use ledger::wal::{CheckpointError, Checkpointer, Thoroughness};
use tokio::sync::watch;

use super::state::Whole;
use crate::exit::{self, LEDGER_FAILED};

/// Between two rounds.
const EVERY: Duration = Duration::from_secs(2);

/// A write-ahead log of this many pages (64 MiB) is begun anew, for which writers wait a moment.
const PAGES_MAX: u64 = 16_384;

pub(super) struct Checkpoints {
    ledger: Checkpointer,
    log: Checkpointer,
    whole: Whole,
    reached: watch::Sender<Option<Position>>,
}

impl Checkpoints {
    pub(super) fn open(
        ledger: &Path,
        log: &Path,
        whole: Whole,
    ) -> Result<(Checkpoints, watch::Receiver<Option<Position>>), CheckpointError> {
        let (reached, watched) = watch::channel(None);
        let checkpoints = Checkpoints {
            ledger: Checkpointer::open(ledger)?,
            log: Checkpointer::open(log)?,
            whole,
            reached,
        };
        Ok((checkpoints, watched))
    }

    /// Goes on until the other end of `stop` is dropped.
    pub(super) fn run(self, stop: &mpsc::Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(EVERY) {
            self.round();
        }
    }

    pub(super) fn round(&self) {
        if let Err(error) = self.try_round() {
            exit::now(LEDGER_FAILED, "a checkpoint failed", Some(&error));
        }
    }

    fn try_round(&self) -> Result<(), CheckpointError> {
        let log = self.log.run(Thoroughness::Passing)?;
        if log.pages_in_log > PAGES_MAX {
            self.log.run(Thoroughness::Restarting)?;
        }
        let _whole = self.whole.lock().expect("nobody panics while holding it");
        let (ledger, mut reached) = self.ledger.run_on_replica(Thoroughness::Passing)?;
        if ledger.pages_in_log > PAGES_MAX {
            let (_, further) = self.ledger.run_on_replica(Thoroughness::Restarting)?;
            reached = further.or(reached);
        }
        super::fail::point("ledger carried home");
        if reached.is_some() {
            self.reached.send_replace(reached);
        }
        Ok(())
    }
}
