//! The thread that puts batches into the log, and waits for what becomes of them.
//!
//! Group commit: while one batch is being written, everything that comes up waits, and becomes the
//! next batch. A slow disk thus makes batches larger, not the queue longer.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use coordinator_core::ProposalId;
use ledger::{Command, Outcome, Proposal};

use crate::clock::read_now;
use crate::consensus::ProposeError;
use crate::engine::{Engine, Input, ReignId};
use crate::exit::{self, LEDGER_FAILED};
use crate::member::Proposer;
use crate::metrics::Metrics;

/// Most commands in one batch.
pub(crate) const BATCH_MAX: usize = 4096;

/// A command and what became of it.
pub(crate) struct Committed {
    pub(crate) id: ProposalId,
    pub(crate) outcome: Outcome,
    /// Shared with the log, which keeps it for the other members.
    batch: Arc<[Proposal]>,
    place: usize,
}

impl Committed {
    /// A batch and its outcomes, command by command.
    pub(crate) fn all(
        ids: Vec<ProposalId>,
        batch: &Arc<[Proposal]>,
        outcomes: Vec<Outcome>,
    ) -> Vec<Committed> {
        assert_eq!(batch.len(), outcomes.len(), "one outcome for each command");
        let committed = ids.into_iter().zip(outcomes).enumerate();
        committed
            .map(|(place, (id, outcome))| Committed {
                id,
                outcome,
                batch: Arc::clone(batch),
                place,
            })
            .collect()
    }

    pub(crate) fn command(&self) -> &Command {
        &self.batch[self.place].command
    }
}

/// What a reign proposes.
struct Batch {
    reign: ReignId,
    term: u64,
    proposals: Vec<(ProposalId, Proposal)>,
}

/// Hands batches to the thread.
pub(crate) struct Committer {
    batches: mpsc::Sender<Batch>,
}

impl Committer {
    /// Begins to write a batch of a reign, in whose term alone it may be proposed; it comes back as
    /// [`Input::Committed`] or [`Input::NotCommitted`].
    pub(crate) fn commit(&self, reign: ReignId, term: u64, proposals: Vec<(ProposalId, Proposal)>) {
        // The other end lives until this one is dropped, unless its thread panicked: and then the
        // process is on its way out.
        let _ = self.batches.send(Batch {
            reign,
            term,
            proposals,
        });
    }
}

/// The work of the thread: ends when the [`Committer`] is dropped.
pub(crate) fn prepare(
    log: Proposer,
    engine: Engine,
    metrics: Arc<Metrics>,
) -> (Committer, impl FnOnce() + Send) {
    let (batches, arriving) = mpsc::channel();
    (Committer { batches }, move || {
        write(&log, &arriving, &engine, &metrics);
    })
}

fn write(log: &Proposer, arriving: &mpsc::Receiver<Batch>, engine: &Engine, metrics: &Metrics) {
    while let Ok(batch) = arriving.recv() {
        let reign = batch.reign;
        let (ids, proposals): (Vec<_>, Vec<_>) = batch.proposals.into_iter().unzip();
        let proposals: Arc<[Proposal]> = proposals.into();
        metrics.note_batch_begun(read_now().boot);
        let begun = Instant::now();
        let proposed = log.propose(batch.term, &proposals);
        metrics.note_batch_ended();
        match proposed {
            Ok(outcomes) => {
                metrics.note_batch_written(proposals.len(), begun.elapsed());
                let committed = Committed::all(ids, &proposals, outcomes);
                engine.send(Input::Committed { reign, committed });
            }
            // It stops by itself only where it cannot read what it has written.
            Err(error @ ProposeError::Stopped) => {
                exit::now(LEDGER_FAILED, "consensus has stopped", Some(&error))
            }
            // What became of the batch the next reign reads in the ledger.
            Err(error) => engine.send(Input::NotCommitted { reign, error }),
        }
    }
}
