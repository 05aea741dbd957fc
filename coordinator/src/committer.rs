//! The thread that owns the ledger.
//!
//! Group commit: while one batch is being written, everything that comes up waits, and becomes the
//! next batch. A slow disk thus makes batches larger, not the queue longer.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use coordinator_core::ProposalId;
use ledger::{Outcome, Proposal, Store};

use crate::clock::read_now;
use crate::engine::{Engine, Input};
use crate::exit::{self, LEDGER_FAILED};
use crate::metrics::Metrics;

/// Most commands in one batch.
pub(crate) const BATCH_MAX: usize = 4096;

/// A command and what became of it.
pub(crate) struct Committed {
    pub(crate) id: ProposalId,
    pub(crate) proposal: Proposal,
    pub(crate) outcome: Outcome,
}

/// Hands batches to the thread.
pub(crate) struct Committer {
    batches: mpsc::Sender<Vec<(ProposalId, Proposal)>>,
}

impl Committer {
    /// Begins to write a batch; it comes back as [`Input::Committed`].
    pub(crate) fn commit(&self, batch: Vec<(ProposalId, Proposal)>) {
        // The other end lives until this one is dropped, unless its thread panicked: and then the
        // process is on its way out.
        let _ = self.batches.send(batch);
    }
}

/// The work of the thread: ends when the [`Committer`] is dropped.
pub(crate) fn prepare(
    store: Store,
    engine: Engine,
    metrics: Arc<Metrics>,
) -> (Committer, impl FnOnce() + Send) {
    let (batches, arriving) = mpsc::channel();
    (Committer { batches }, move || {
        write(store, &arriving, &engine, &metrics);
    })
}

fn write(
    mut store: Store,
    arriving: &mpsc::Receiver<Vec<(ProposalId, Proposal)>>,
    engine: &Engine,
    metrics: &Metrics,
) {
    while let Ok(batch) = arriving.recv() {
        let (ids, proposals): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        metrics.note_batch_begun(read_now().boot);
        let begun = Instant::now();
        match store.propose(&proposals) {
            Ok(outcomes) => {
                metrics.note_batch_written(proposals.len(), begun.elapsed());
                assert_eq!(ids.len(), outcomes.len(), "one outcome for each command");
                let committed = ids
                    .into_iter()
                    .zip(proposals)
                    .zip(outcomes)
                    .map(|((id, proposal), outcome)| Committed {
                        id,
                        proposal,
                        outcome,
                    })
                    .collect();
                engine.send(Input::Committed(committed));
            }
            // Nobody knows what is on the disk now, and a second fsync would claim success
            // without having written what the first one lost. Only a new start reads the truth.
            Err(error) => exit::now(LEDGER_FAILED, "writing the ledger failed", Some(&error)),
        }
    }
}
