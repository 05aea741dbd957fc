//! One reign: a core, and what hangs on it. Dropped whole, so that nothing of it is left.

use std::collections::{BTreeMap, VecDeque};

use coordinator_core::{Asked, Core, ProposalId, RequestId};
use ledger::Proposal;
use protocol::{Now, WallMs};
use tokio::sync::OwnedSemaphorePermit;

use super::{Accession, Answer, AskError, ReignId, Waiting};
use crate::committer::BATCH_MAX;

pub(super) struct Reign {
    pub(super) id: ReignId,
    pub(super) term: u64,
    pub(super) core: Core,
    proposals: VecDeque<(ProposalId, Proposal)>,
    /// Room of messages whose commands do not fit the next batch: who sends faster than the disk
    /// writes waits with them.
    held: Vec<OwnedSemaphorePermit>,
    answers: BTreeMap<RequestId, Waiting>,
    next_request: u64,
    /// When the core first had its epoch.
    pub(super) since: Option<WallMs>,
    /// A quorum round that the core asked for while the lead is being given away.
    pub(super) round_kept: Option<u64>,
}

impl Reign {
    pub(super) fn new(accession: Accession) -> Reign {
        Reign {
            id: accession.reign,
            term: accession.term,
            core: *accession.core,
            proposals: VecDeque::new(),
            held: Vec::new(),
            answers: BTreeMap::new(),
            next_request: 0,
            since: None,
            round_kept: None,
        }
    }

    pub(super) fn request(&mut self, asked: Asked, waiting: Waiting, now: Now) {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.answers.insert(id, waiting);
        self.core.handle_request(id, asked, now);
    }

    pub(super) fn answer(&mut self, request: RequestId, answer: Answer) {
        if let Some(waiting) = self.answers.remove(&request) {
            waiting.tell(answer);
        }
    }

    /// Keeps the room of a message until its commands fit the next batch.
    pub(super) fn hold(&mut self, room: OwnedSemaphorePermit) {
        self.held.push(room);
    }

    /// What is proposed next, if anything is.
    pub(super) fn next_batch(&mut self) -> Option<Vec<(ProposalId, Proposal)>> {
        let size = self.proposals.len().min(BATCH_MAX);
        (size > 0).then(|| self.proposals.drain(..size).collect())
    }

    /// Takes out what the core proposes.
    pub(super) fn gather(&mut self) {
        while let Some(proposal) = self.core.poll_proposal() {
            self.proposals.push_back(proposal);
        }
    }

    /// Lets go of messages that are as good as proposed.
    pub(super) fn release(&mut self) {
        if self.proposals.len() < BATCH_MAX {
            self.held.clear();
        }
    }

    /// Everybody who waits hears that nobody here will know.
    pub(super) fn end(self) {
        for waiting in self.answers.into_values() {
            waiting.tell(Err(AskError::Lost));
        }
    }
}
