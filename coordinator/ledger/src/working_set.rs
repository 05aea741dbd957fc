//! What the scheduler keeps in memory: everything that is still open, and nothing that is not.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use protocol::{AgentId, Epoch, JobId, ResourceName, RunId};
use rusqlite::Connection;

use crate::codes::{Coded, FIRST_FINAL_RUN_STATE};
use crate::meta::Meta;
use crate::outcome::Change;
use crate::rows::{
    AgentRow, BackupRow, JobRow, ResourceRow, RunRow, RunState, ShardRow, ShardState, VersionRow,
};
use crate::tables::agent::list_agents;
use crate::tables::job::{JOB_COLUMNS, VERSION_COLUMNS, read_job, read_version};
use crate::tables::record::read_backup;
use crate::tables::resource::list_resources;
use crate::tables::run::{RUN_COLUMNS, read_run};
use crate::tables::shard::{SHARD_COLUMNS, read_shard};

/// Loaded by [`crate::Store::working_set`], then kept up by [`WorkingSet::absorb`]. Both ways
/// must give equal sets at every position of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// The reign in force; `None` before the first `BecomeActive`.
    pub epoch: Option<Epoch>,
    /// The ledger was restored from a backup, and nothing is granted yet.
    pub held: bool,
    /// Of the backups made by schedule; `None` before the first.
    pub backup: Option<BackupRow>,
    /// Jobs that are not deleted.
    pub jobs: BTreeMap<JobId, JobRow>,
    /// Versions in force, and versions of the runs below. Whoever has read them may take them out:
    /// which of them nobody needs any more is known without them.
    pub versions: BTreeMap<(JobId, u32), VersionRow>,
    /// Runs that are not final.
    pub runs: BTreeMap<RunId, RunRow>,
    /// All shards of those runs.
    pub shards: BTreeMap<(RunId, u32), ShardRow>,
    pub agents: BTreeMap<AgentId, AgentRow>,
    pub resources: BTreeMap<ResourceName, ResourceRow>,
    tally: Tally,
    /// How many open runs each version has, where it has any.
    runs_of_version: BTreeMap<(JobId, u32), u32>,
}

/// How many of what is open are in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By code.
    runs: [u64; FIRST_FINAL_RUN_STATE as usize],
    pending: u64,
    leased: u64,
}

impl WorkingSet {
    /// Takes over one changed row. Answers with the version that nobody needs any more for it, if
    /// there is one.
    pub fn absorb(&mut self, change: &Change) -> Option<(JobId, u32)> {
        match change {
            Change::Job(job) => return self.absorb_job(job),
            Change::Run(run) if run.state.is_final() => return self.drop_run(run),
            Change::Epoch(epoch) => self.epoch = Some(*epoch),
            Change::Held(held) => self.held = *held,
            Change::Backup(backup) => self.backup = Some(backup.clone()),
            Change::Version(version) => {
                self.versions
                    .insert((version.job_id, version.version), version.clone());
            }
            Change::Run(run) => self.put_run(run.clone()),
            Change::Shard(shard) => {
                if self.runs.contains_key(&shard.run_id) {
                    self.put_shard(shard.clone());
                }
            }
            Change::Agent(agent) => {
                self.agents.insert(agent.agent_id, agent.clone());
            }
            Change::Resource(resource) => {
                self.resources
                    .insert(resource.name.clone(), resource.clone());
            }
            Change::NoResource(name) => {
                self.resources.remove(name);
            }
        }
        None
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn put_run(&mut self, run: RunRow) {
        self.tally.count_run(run.state, Count::In);
        let version = (run.job_id, run.version);
        *self.runs_of_version.entry(version).or_default() += 1;
        if let Some(before) = self.runs.insert(run.run_id, run) {
            self.count_out(&before);
        }
    }

    fn count_out(&mut self, run: &RunRow) {
        self.tally.count_run(run.state, Count::Out);
        let version = (run.job_id, run.version);
        if let Entry::Occupied(mut runs) = self.runs_of_version.entry(version) {
            *runs.get_mut() -= 1;
            if *runs.get() == 0 {
                runs.remove();
            }
        }
    }

    fn put_shard(&mut self, shard: ShardRow) {
        self.tally.count_shard(shard.state, Count::In);
        if let Some(before) = self.shards.insert((shard.run_id, shard.shard), shard) {
            self.tally.count_shard(before.state, Count::Out);
        }
    }

    pub fn shards_of(&self, run_id: RunId) -> impl Iterator<Item = &ShardRow> {
        self.shards
            .range((run_id, 0)..=(run_id, u32::MAX))
            .map(|(_, shard)| shard)
    }

    fn absorb_job(&mut self, job: &JobRow) -> Option<(JobId, u32)> {
        let before = if job.deleted {
            self.jobs.remove(&job.job_id)
        } else {
            self.jobs.insert(job.job_id, job.clone())
        };
        before.and_then(|before| self.prune_version(before.job_id, before.version))
    }

    fn drop_run(&mut self, run: &RunRow) -> Option<(JobId, u32)> {
        if let Some(before) = self.runs.remove(&run.run_id) {
            self.count_out(&before);
        }
        let shards: Vec<_> = self
            .shards_of(run.run_id)
            .map(|s| (s.run_id, s.shard))
            .collect();
        for key in shards {
            if let Some(before) = self.shards.remove(&key) {
                self.tally.count_shard(before.state, Count::Out);
            }
        }
        self.prune_version(run.job_id, run.version)
    }

    /// Forgets a version that is neither in force nor of an open run.
    fn prune_version(&mut self, job_id: JobId, version: u32) -> Option<(JobId, u32)> {
        let key = (job_id, version);
        let job = self.jobs.get(&job_id);
        let in_force = job.is_some_and(|job| job.version == version);
        if in_force || self.runs_of_version.contains_key(&key) {
            return None;
        }
        self.versions.remove(&key);
        Some(key)
    }

    /// How many versions are in force or of an open run.
    pub fn versions_needed(&self) -> usize {
        let of_runs = self.runs_of_version.keys();
        let in_force = |&(job_id, version): &(JobId, u32)| {
            let job = self.jobs.get(&job_id);
            job.is_some_and(|job| job.version == version)
        };
        self.jobs.len() + of_runs.filter(|key| !in_force(key)).count()
    }
}

#[derive(Clone, Copy)]
enum Count {
    In,
    Out,
}

impl Tally {
    /// Runs in a state that is not final.
    pub fn runs_in(&self, state: RunState) -> u64 {
        let slot = usize::try_from(state.code()).ok();
        slot.and_then(|slot| self.runs.get(slot).copied())
            .unwrap_or(0)
    }

    /// Open runs by state.
    pub fn runs(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let open = RunState::ALL.into_iter().filter(|state| !state.is_final());
        open.map(|state| (state.as_str(), self.runs_in(state)))
    }

    /// Shards of open runs that run or are to run, by state.
    pub fn shards(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [("pending", self.pending), ("leased", self.leased)].into_iter()
    }

    pub fn leased(&self) -> u64 {
        self.leased
    }

    fn count_run(&mut self, state: RunState, count: Count) {
        let slot = usize::try_from(state.code()).ok();
        if let Some(slot) = slot.and_then(|slot| self.runs.get_mut(slot)) {
            count.change(slot);
        }
    }

    fn count_shard(&mut self, state: ShardState, count: Count) {
        match state {
            ShardState::Pending { .. } => count.change(&mut self.pending),
            ShardState::Leased(_) => count.change(&mut self.leased),
            ShardState::Succeeded | ShardState::NeedsConfirmation | ShardState::Cancelled => {}
        }
    }
}

impl Count {
    fn change(self, slot: &mut u64) {
        *slot = match self {
            Count::In => slot.saturating_add(1),
            Count::Out => slot.saturating_sub(1),
        };
    }
}

/// Reads the whole set from the tables, in one read transaction.
pub(crate) fn load(conn: &Connection) -> rusqlite::Result<WorkingSet> {
    let read = conn.unchecked_transaction()?;
    let meta = Meta::load(&read)?;
    let mut set = WorkingSet {
        epoch: meta.epoch,
        held: meta.held,
        backup: read_backup(&read)?,
        ..WorkingSet::default()
    };
    // Collected, not inserted one by one: a tree that grows at its end keeps its nodes half empty.
    set.jobs = read
        .prepare(&format!("SELECT {JOB_COLUMNS} FROM jobs WHERE NOT deleted"))?
        .query_map([], read_job)?
        .map(|job| job.map(|job| (job.job_id, job)))
        .collect::<rusqlite::Result<_>>()?;
    read.prepare(&format!("SELECT {RUN_COLUMNS} FROM runs WHERE state < 4"))?
        .query_map([], read_run)?
        .try_for_each(|run| {
            run.map(|run| {
                set.put_run(run.row);
            })
        })?;
    read.prepare(&format!(
        "SELECT {SHARD_COLUMNS} FROM runs r CROSS JOIN shards s ON s.run_id = r.run_id
         WHERE r.state < 4"
    ))?
    .query_map([], read_shard)?
    .try_for_each(|shard| {
        shard.map(|shard| {
            set.put_shard(shard.row);
        })
    })?;
    let keyed = |version: rusqlite::Result<VersionRow>| {
        version.map(|version| ((version.job_id, version.version), version))
    };
    // Two questions, for a union would sort all manifests to find those that are there twice.
    set.versions = read
        .prepare(&format!(
            "SELECT {VERSION_COLUMNS} FROM jobs j JOIN versions v USING (job_id, version)
             WHERE NOT j.deleted"
        ))?
        .query_map([], read_version)?
        .map(keyed)
        .collect::<rusqlite::Result<_>>()?;
    read.prepare(&format!(
        "SELECT {VERSION_COLUMNS}
         FROM (SELECT DISTINCT job_id, version FROM runs WHERE state < 4) r
         JOIN versions v USING (job_id, version)"
    ))?
    .query_map([], read_version)?
    .map(keyed)
    .try_for_each(|version| {
        version.map(|(key, version)| {
            set.versions.insert(key, version);
        })
    })?;
    for agent in list_agents(&read)? {
        set.agents.insert(agent.row.agent_id, agent.row);
    }
    for resource in list_resources(&read)? {
        set.resources.insert(resource.name.clone(), resource);
    }
    read.commit()?;
    Ok(set)
}
