//! Putting commands into the log.

use std::sync::Arc;

use futures_util::future;
use ledger::{Outcome, Proposal, Refusal};
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;

use super::types::{Batch, Leader, Types};
use super::{Group, form};

/// Bytes of one entry, but for a single command that has more.
const ENTRY_BYTES_MAX: usize = 2 << 20;

/// Why a batch has no outcomes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nothing of it was or will be done.
    #[error("this node does not lead{}", of_leader(*.leader))]
    NotLeading { leader: Option<u64> },
    /// It may have been done, or be done yet, under another leader.
    #[error("this node lost the lead before it knew what became of the batch")]
    Unknown,
    /// As `Unknown`; and this node will say no more.
    #[error("this node has stopped")]
    Stopped,
}

fn propose_error(error: &ClientWriteError<Types>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(to) => ProposeError::NotLeading {
            leader: to.leader_id,
        },
        _ => ProposeError::Unknown,
    }
}

fn of_leader(leader: Option<u64>) -> String {
    leader.map_or_else(String::new, |leader| format!("; node {leader} does"))
}

impl Group {
    /// Puts a batch into the log and waits for what becomes of it: an outcome for each command, in
    /// order. Batches are applied in the order in which they are proposed, each as one transaction;
    /// what is too large for one entry becomes several. A command that a member does not know is
    /// refused, and not proposed.
    pub async fn propose(&self, batch: Arc<[Proposal]>) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_what_all_know(None, batch).await
    }

    /// As [`Group::propose`], but only while this node leads in this term: who lost the lead and has
    /// it again decided from a state that others have changed.
    pub async fn propose_in(
        &self,
        term: u64,
        batch: Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_what_all_know(Some(term), batch).await
    }

    async fn propose_what_all_know(
        &self,
        term: Option<u64>,
        batch: Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let speaks = self.speaks();
        let known = |proposal: &Proposal| proposal.command.version() <= speaks;
        if batch.iter().all(known) {
            return self.write(term, batch).await;
        }
        let heard: Arc<[Proposal]> = batch.iter().filter(|it| known(it)).cloned().collect();
        let written = if heard.is_empty() {
            Vec::new()
        } else {
            self.write(term, heard).await?
        };
        let mut written = written.into_iter();
        let outcomes = batch.iter().filter_map(|proposal| {
            if known(proposal) {
                return written.next();
            }
            let needs = proposal.command.version();
            Some(Outcome {
                result: Err(Refusal::NotKnownToAll { needs, speaks }),
                changes: Vec::new(),
            })
        });
        Ok(outcomes.collect())
    }

    async fn write(
        &self,
        term: Option<u64>,
        proposals: Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let batches = form::cut(proposals, ENTRY_BYTES_MAX);
        // In the order in which they are polled first, and all of them at once.
        let written = batches.into_iter().map(|it| self.write_entry(term, it));
        let written = future::join_all(written).await;
        let refused = |it: &Result<_, _>| matches!(it, Err(ProposeError::NotLeading { .. }));
        let of_nothing = written.iter().all(refused);
        let mut outcomes = Vec::new();
        for written in written {
            outcomes.extend(written.map_err(|error| match error {
                // Not of this part, but of the one before it.
                ProposeError::NotLeading { .. } if !of_nothing => ProposeError::Unknown,
                error => error,
            })?);
        }
        Ok(outcomes)
    }

    async fn write_entry(
        &self,
        term: Option<u64>,
        batch: Batch,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let (responder, answered) = ProgressResponder::complete_only();
        let mut written = self.raft.write(batch).responder(responder);
        if let Some(term) = term {
            let node_id = self.node;
            written = written.with_leader(Leader { term, node_id });
        }
        if written.await.is_err() {
            return Err(ProposeError::Stopped);
        }
        match answered.await {
            Ok(Ok(written)) => Ok(written.data.0),
            Ok(Err(error)) => Err(propose_error(&error)),
            Err(_) => Err(ProposeError::Stopped),
        }
    }
}
