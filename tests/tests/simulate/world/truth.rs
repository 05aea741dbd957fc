//! What the log has said so far, kept by the world for itself: a mirror of the working set, and
//! of every run and lease that ever was.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::{Manifest, Overlap};
use ledger::{Bar, Change, Command, Namespace, Outcome, Proposal, RunState, Wait, WorkingSet};
use protocol::{AgentId, AgentName, JobId, JobName, RunId, Token, WallMs};

use super::World;

#[derive(Debug, Default)]
pub struct Truth {
    /// Commands that have been applied.
    pub index: u64,
    /// True time at which the last of them was.
    pub applied_at: i64,
    pub set: WorkingSet,
    pub runs: BTreeMap<RunId, Facts>,
    pub by_fire: BTreeMap<(JobId, Namespace, WallMs), RunId>,
    pub by_name: BTreeMap<(JobName, Namespace, WallMs), RunId>,
    /// Runs that are final, and how.
    pub ended: BTreeMap<RunId, RunState>,
    pub grants: BTreeMap<Token, Grant>,
    pub newest_grant: BTreeMap<(RunId, u32), Token>,
    pub highest_position: i64,
    /// What every version that ever was in force says.
    pub manifests: BTreeMap<(JobId, u32), Arc<Manifest>>,
    /// Since when each waiting run waits for what its row says: as the row has it, and in true time,
    /// as far as a leader of now can know of it.
    pub waits_since: BTreeMap<RunId, (WallMs, i64)>,
    /// Leases whose expiry any core has ever proposed.
    pub expiry_proposed: std::collections::BTreeSet<Token>,
    /// Where the log stood when the newest grant of a shard was decided.
    pub grant_decided: BTreeMap<(RunId, u32), u64>,
    /// Where in the log what a host is was told last.
    pub facts_told: BTreeMap<AgentId, u64>,
    /// Hosts that operators, or their health, have taken out of service.
    pub cordoned: std::collections::BTreeSet<AgentName>,
}

/// What is known of a run for ever.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub job_id: JobId,
    pub namespace: Namespace,
    pub fire_time: WallMs,
    /// True time at which it was written.
    pub fired_at: i64,
    pub version: u32,
    pub fence: Option<i64>,
    /// Place in the log at which its newest execution left `waiting`.
    pub admitted: u64,
    /// How often a person has asked for it again.
    pub asked: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub index: u64,
    /// True time.
    pub at: i64,
    pub run_id: RunId,
    pub shard: u32,
    pub agent_id: AgentId,
    pub execution: u32,
    /// How often a person had asked for the run again, and where in the log its execution had
    /// been admitted, when this was granted.
    pub asked: u32,
    pub admitted: u64,
    /// True time at which its lease ended by expiry or by an attach.
    pub taken_at: Option<i64>,
    pub receipt_seen: bool,
    /// A restore has broken off the history that it was granted in.
    pub broken_off: bool,
}

impl Truth {
    pub fn facts_of(&self, run_id: RunId) -> Facts {
        self.runs.get(&run_id).copied().unwrap_or(Facts {
            job_id: JobId(0),
            namespace: Namespace::Manual,
            fire_time: WallMs(0),
            fired_at: 0,
            version: 0,
            fence: None,
            admitted: 0,
            asked: 0,
        })
    }

    /// What the version says that a run began under.
    pub fn manifest_of(&self, run_id: RunId) -> Option<&Arc<Manifest>> {
        let facts = self.facts_of(run_id);
        self.manifests.get(&(facts.job_id, facts.version))
    }

    /// What the version says that an open run is carried out by.
    pub fn manifest_in_force(&self, run_id: RunId) -> Option<&Arc<Manifest>> {
        let run = self.set.runs.get(&run_id)?;
        self.manifests.get(&(run.job_id, run.version))
    }

    /// Whether the run may be live beside others of its job.
    pub fn may_overlap(&self, run_id: RunId) -> bool {
        let manifest = self.manifest_of(run_id);
        manifest.is_some_and(|manifest| manifest.overlap == Overlap::Allow)
    }

    pub fn is_revoked(&self, agent_id: AgentId) -> bool {
        let agent = self.set.agents.get(&agent_id);
        agent.is_some_and(|agent| agent.barred == Some(Bar::Revoked))
    }

    /// The agent of this name, if it has ever attached.
    pub fn agent_named(&self, name: &AgentName) -> Option<AgentId> {
        let mut agents = self.set.agents.values();
        agents
            .find(|agent| agent.name == *name)
            .map(|agent| agent.agent_id)
    }

    pub fn granted_at(&self, token: Token) -> u64 {
        self.grants.get(&token).map_or(0, |grant| grant.index)
    }

    /// Whether the token is its shard's lease now.
    pub fn is_current(&self, token: Token) -> bool {
        let Some(grant) = self.grants.get(&token) else {
            return false;
        };
        self.lease_of(grant.run_id, grant.shard) == Some(token)
    }

    /// Whether it is, and nobody has asked for its end.
    pub fn is_wanted(&self, token: Token) -> bool {
        let grant = self.grants.get(&token);
        let shard = grant.and_then(|grant| self.set.shards.get(&(grant.run_id, grant.shard)));
        shard.is_some_and(|shard| match shard.state {
            ledger::ShardState::Leased(lease) => lease.token == token && !lease.cancelling,
            _ => false,
        })
    }

    pub fn lease_of(&self, run_id: RunId, shard: u32) -> Option<Token> {
        match self.set.shards.get(&(run_id, shard))?.state {
            ledger::ShardState::Leased(lease) => Some(lease.token),
            _ => None,
        }
    }

    pub fn absorb(&mut self, change: &Change) {
        match change {
            Change::Run(run) => {
                let index = self.index;
                let fired_at = self.applied_at;
                let facts = self.runs.entry(run.run_id).or_insert(Facts {
                    job_id: run.job_id,
                    namespace: run.namespace,
                    fire_time: run.fire_time,
                    fired_at,
                    version: run.version,
                    fence: None,
                    admitted: index,
                    asked: 0,
                });
                if run.fence.is_some() && facts.fence != run.fence {
                    facts.admitted = index;
                }
                facts.fence = run.fence.or(facts.fence);
                if run.state.is_final() {
                    self.ended.insert(run.run_id, run.state);
                } else {
                    self.ended.remove(&run.run_id);
                }
                self.by_fire
                    .insert((run.job_id, run.namespace, run.fire_time), run.run_id);
                if let Some(job) = self.set.jobs.get(&run.job_id) {
                    let key = (job.name.clone(), run.namespace, run.fire_time);
                    self.by_name.insert(key, run.run_id);
                }
            }
            Change::Version(version) => {
                if let Ok(manifest) = Manifest::from_json(&version.manifest) {
                    let key = (version.job_id, version.version);
                    self.manifests.insert(key, Arc::new(manifest));
                }
            }
            Change::Epoch(_)
            | Change::Held(_)
            | Change::Backup(_)
            | Change::Job(_)
            | Change::Shard(_)
            | Change::Agent(_)
            | Change::Resource(_)
            | Change::NoResource(_) => {}
        }
        self.set.absorb(change);
    }
}

/// One line of the journal for a command and what became of it.
pub fn brief_commit(proposal: &Proposal, outcome: &Outcome) -> String {
    let command = match &proposal.command {
        Command::PutJob(put) => format!("PutJob {}", put.manifest.name),
        Command::Fire(fire) => format!(
            "Fire {} v{} ({}, {}] {} decisions",
            fire.job_id,
            fire.version,
            fire.from,
            fire.through,
            fire.decisions.len()
        ),
        other => format!("{other:?}"),
    };
    match &outcome.result {
        Ok(done) => format!("  ledger: {command} -> {done:?}"),
        Err(refusal) => format!("  ledger: {command} REFUSED {refusal}"),
    }
}

impl World {
    /// Takes over what a command changed.
    pub fn absorb(&mut self, outcome: &Outcome) {
        self.truth.index += 1;
        self.truth.applied_at = self.now;
        for change in &outcome.changes {
            self.truth.absorb(change);
            self.note_wait(change);
        }
    }

    fn note_wait(&mut self, change: &Change) {
        let (now, waits_since) = (self.now, &mut self.truth.waits_since);
        match change {
            Change::Epoch(_) => waits_since.values_mut().for_each(|(_, since)| *since = now),
            Change::Run(run) => match run.waits {
                None => {
                    waits_since.remove(&run.run_id);
                }
                Some(Wait { since, .. }) => {
                    let known = waits_since.get(&run.run_id);
                    if known.is_none_or(|(known, _)| *known != since) {
                        waits_since.insert(run.run_id, (since, now));
                    }
                }
            },
            _ => {}
        }
    }
}
