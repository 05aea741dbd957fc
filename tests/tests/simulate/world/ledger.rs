//! The ledger in the world: applied batch by batch, known to every process that follows the log,
//! made anew from the log, and damaged.

use coordinator_core::ProposalId;
use ledger::{Command, Done, Outcome, Proposal, Store};
use protocol::JobId;

use super::World;
use super::coordinator::Input;
use super::truth::brief_commit;
use crate::invariants;

/// A proposal that the core did not make.
pub(super) const NOBODYS: ProposalId = ProposalId(u64::MAX);

impl World {
    pub(super) fn apply_batch(
        &mut self,
        batch: &[(ProposalId, Proposal)],
    ) -> Vec<(ProposalId, Outcome)> {
        let outcomes = self.apply_unlogged(batch);
        let kept = batch.iter().filter(|(_, p)| !self.is_forgotten(p));
        let kept: Vec<Proposal> = kept.map(|(_, proposal)| proposal.clone()).collect();
        self.log.extend(kept);
        outcomes
    }

    /// What the ledger says it has done, and has not.
    fn is_forgotten(&self, proposal: &Proposal) -> bool {
        matches!(&proposal.command, Command::Fire(fire) if Some(fire.job_id) == self.forgets_fires_of)
    }

    pub(super) fn apply_unlogged(
        &mut self,
        batch: &[(ProposalId, Proposal)],
    ) -> Vec<(ProposalId, Outcome)> {
        let (forgotten, kept): (Vec<_>, Vec<_>) =
            batch.iter().partition(|(_, p)| self.is_forgotten(p));
        let proposals: Vec<Proposal> = kept.iter().map(|(_, p)| p.clone()).collect();
        if self.in_writing {
            self.check_commands(&proposals);
        }
        let outcomes = self
            .store
            .propose(&proposals)
            .expect("the ledger takes any batch");
        for (proposal, outcome) in proposals.iter().zip(&outcomes) {
            self.note(|_| brief_commit(proposal, outcome));
            invariants::on_commit(self, proposal, outcome);
        }
        let ids = kept.iter().map(|(id, _)| *id);
        let mut answers: Vec<(ProposalId, Outcome)> = ids.zip(outcomes).collect();
        answers.extend(forgotten.into_iter().map(|&(id, _)| {
            let outcome = Outcome {
                result: Ok(Done::Fired { runs: Vec::new() }),
                changes: Vec::new(),
            };
            (id, outcome)
        }));
        answers
    }

    fn check_commands(&mut self, proposals: &[Proposal]) {
        let wrong = proposals.iter().find(|proposal| {
            let text = serde_json::to_string(proposal).unwrap_or_default();
            serde_json::from_str::<Proposal>(&text).ok().as_ref() != Some(*proposal)
        });
        let wrong = wrong.map(|proposal| format!("{proposal:?}"));
        self.require(
            wrong.is_none(),
            "P3",
            "what is written is what is read",
            || wrong.unwrap_or_default(),
        );
    }

    /// A command reaches the ledger that no core hears of: one that was sent twice.
    pub fn apply_again(&mut self, proposal: Proposal) {
        let outcomes = self.apply_batch(&[(NOBODYS, proposal)]);
        self.publish(u64::MAX, &outcomes);
    }

    /// Every process learns what another's commands have changed; one that is cut off, later. Who has no room
    /// for them ends.
    pub(super) fn publish(&mut self, proposer: u64, outcomes: &[(ProposalId, Outcome)]) {
        let others: Vec<u64> = self
            .coordinators
            .keys()
            .copied()
            .filter(|&generation| generation != proposer)
            .collect();
        for other in others {
            let outcomes = outcomes
                .iter()
                .map(|(_, outcome)| (NOBODYS, outcome.clone()));
            let outcomes: Vec<_> = outcomes.collect();
            let has_room = self.has_room(other);
            match self.coordinators.get_mut(&other) {
                Some(leader) if !leader.has_quorum => leader.missed.push(outcomes),
                Some(_) if !has_room => self.crash_leader(other, false),
                _ => self.feed(other, Input::Outcomes(outcomes)),
            }
        }
    }

    /// Back to what had reached the disk: the word of the rest was given too early.
    pub(super) fn roll_back(&mut self) {
        self.store = self.replayed();
        self.truth.set = self.store.working_set().expect("the ledger can be read");
    }

    /// A ledger made anew from every command that was ever committed.
    pub fn replayed(&self) -> Store {
        self.replay_into(Store::open_in_memory(self.rules).expect("a ledger in memory"))
    }

    fn replay_into(&self, mut store: Store) -> Store {
        for batch in self.log.chunks(64) {
            store.propose(batch).expect("the ledger takes any batch");
        }
        store
    }

    /// Writes rubbish over the manifest that a job has in force, as damage on a disk would.
    /// From then on the ledger lies in a file.
    pub fn damage_manifest(&mut self, job_id: JobId) {
        self.damage(&format!(
            "UPDATE versions SET manifest = '{{' WHERE job_id = {}",
            job_id.0
        ));
    }

    /// Rows of the job's runs cannot be changed any more.
    pub fn damage_runs(&mut self, job_id: JobId) {
        self.damage(&format!(
            "CREATE TRIGGER damage BEFORE UPDATE ON runs WHEN NEW.job_id = {} AND OLD.state = 1
             BEGIN SELECT RAISE(ABORT, 'the row is damaged'); END",
            job_id.0
        ));
    }

    fn damage(&mut self, damage: &str) {
        let directory = tempfile::tempdir().expect("a directory for the ledger");
        let path = directory.path().join("ledger.db");
        drop(self.replay_into(Store::open(&path, self.rules).expect("a ledger in a file")));
        let database = rusqlite::Connection::open(&path).expect("the ledger's file");
        database.execute_batch(damage).expect("it can be damaged");
        drop(database);
        self.store = Store::open(&path, self.rules).expect("the damaged ledger");
        self.truth.set = self.store.working_set().expect("the damaged ledger");
        self.directory = Some(directory);
    }
}
