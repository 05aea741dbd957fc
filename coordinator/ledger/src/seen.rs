//! What the newest runs of a job have used, for who learns from it.
//!
//! Asked for and not kept: a table of profiles would have to be written in the transaction that ends an
//! attempt, which is the one that everything waits for, while a profile is looked at a few times a day.
//! What it costs to ask does not grow with the history. Runs are found by the key that makes them
//! unique, their shards and attempts by theirs, and of both there are only so many.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jobs::Manifest;
use protocol::attempt::{AttemptOutcome, Limit, Usage};
use protocol::{AgentId, DurationMs, HostFacts, JobName, RunId, Token, WallMs};
use rusqlite::{OptionalExtension, Row, params};

use crate::answers::Answers;
use crate::codes::{Coded, coded, json};
use crate::rows::{JobRow, Namespace, RunState};
use crate::tables::attempt::{USAGE_COLUMNS, read_usage};
use crate::tables::job::{find_job_named, manifest_of};

/// Runs that are looked at: the oldest of them would weigh a thousandth of the newest.
pub const SEEN_RUNS_MAX: u32 = 100;

/// Rows of runs that are looked at for those: a job that fires every minute and takes an hour has sixty
/// that were skipped for each that ran.
const ROWS_LOOKED_AT_MAX: u32 = 2_000;

/// Attempts that are looked at; of a job with thousands of shards these are fewer runs.
pub const SEEN_ATTEMPTS_MAX: usize = 20_000;

/// The newest runs of the version of a job that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    pub job: JobName,
    pub version: u32,
    pub manifest: Manifest,
    /// In the order in which they ended.
    pub runs: Vec<RunSeen>,
    /// What every host that they ran on says of itself today.
    pub hosts: BTreeMap<AgentId, HostFacts>,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSeen {
    pub run_id: RunId,
    pub succeeded: bool,
    pub ended_at: WallMs,
    pub attempts: Vec<AttemptSeen>,
}

/// An attempt that began and whose host told how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSeen {
    pub agent_id: AgentId,
    pub shard: u32,
    pub outcome: AttemptOutcome,
    pub started_at: WallMs,
    pub ended_at: WallMs,
    pub cpu: DurationMs,
    pub memory_bytes_peak: u64,
    pub out_of_memory: bool,
    /// Whether its host enforced the limit, where the manifest sets one.
    pub memory_was_limited: bool,
    pub usage: Option<Usage>,
}

impl Answers<'_> {
    /// Of a job in force whose manifest can be read.
    pub(crate) fn seen(&self, name: &JobName) -> rusqlite::Result<Option<JobSeen>> {
        let Some(job) = find_job_named(self.conn, name)?.filter(|job| !job.deleted) else {
            return Ok(None);
        };
        let text = manifest_of(self.conn, job.job_id, job.version)?;
        let Ok(manifest) = Manifest::from_json(&text) else {
            return Ok(None);
        };
        let mut runs = Vec::new();
        let mut left = SEEN_ATTEMPTS_MAX;
        for mut run in self.runs_ended(&job)? {
            let Some(attempts) = self.attempts_seen(run.run_id, left)? else {
                break;
            };
            left -= attempts.len();
            run.attempts = attempts;
            runs.push(run);
        }
        runs.reverse();
        let mut hosts = BTreeMap::new();
        for attempt in runs.iter().flat_map(|run| &run.attempts) {
            if let Entry::Vacant(host) = hosts.entry(attempt.agent_id) {
                host.insert(self.facts_of(attempt.agent_id)?);
            }
        }
        Ok(Some(JobSeen {
            job: job.name,
            version: job.version,
            manifest,
            runs,
            hosts,
        }))
    }

    /// The newest first, without their attempts; of those that were skipped or missed nothing is learned.
    fn runs_ended(&self, job: &JobRow) -> rusqlite::Result<Vec<RunSeen>> {
        let mut runs = Vec::new();
        for namespace in Namespace::ALL {
            let mut statement = self.conn.prepare_cached(
                "SELECT run_id, state, ended_at, version FROM (
                    SELECT run_id, state, ended_at, version, fire_time FROM runs
                    WHERE job_id = ?1 AND namespace = ?2 ORDER BY fire_time DESC LIMIT ?3)
                 WHERE state NOT IN (?4, ?5) ORDER BY fire_time DESC LIMIT ?6",
            )?;
            let mut rows = statement.query(params![
                job.job_id.0,
                namespace.code(),
                ROWS_LOOKED_AT_MAX,
                RunState::Skipped.code(),
                RunState::Missed.code(),
                SEEN_RUNS_MAX,
            ])?;
            while let Some(row) = rows.next()? {
                let state: RunState = coded(row, 1)?;
                let ended_at: Option<i64> = row.get(2)?;
                let of_version = row.get::<_, u32>(3)? == job.version;
                if let Some(ended_at) = ended_at.filter(|_| of_version) {
                    runs.push(RunSeen {
                        run_id: RunId(row.get(0)?),
                        succeeded: state == RunState::Succeeded,
                        ended_at: WallMs(ended_at),
                        attempts: Vec::new(),
                    });
                }
            }
        }
        runs.sort_by_key(|run| std::cmp::Reverse((run.ended_at, run.run_id)));
        runs.truncate(SEEN_RUNS_MAX as usize);
        Ok(runs)
    }

    /// All attempts of a run, or `None` where there are more than so many.
    fn attempts_seen(
        &self,
        run_id: RunId,
        at_most: usize,
    ) -> rusqlite::Result<Option<Vec<AttemptSeen>>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT token FROM shards WHERE run_id = ?1 AND token IS NOT NULL ORDER BY shard",
        )?;
        let mut rows = statement.query([run_id.0])?;
        let mut attempts = Vec::new();
        while let Some(row) = rows.next()? {
            let mut next = Some(Token(row.get(0)?));
            while let Some(token) = next {
                let Some((attempt, earlier)) = self.attempt_seen(token)? else {
                    break;
                };
                if attempts.len() == at_most {
                    return Ok(None);
                }
                attempts.extend(attempt);
                // Tokens rise, so the list ends; a damaged one must not hold a reader for ever.
                next = earlier.filter(|earlier| *earlier < token);
            }
        }
        Ok(Some(attempts))
    }

    /// The attempt, where it began and was told of, and the one before it.
    fn attempt_seen(
        &self,
        token: Token,
    ) -> rusqlite::Result<Option<(Option<AttemptSeen>, Option<Token>)>> {
        self.conn
            .prepare_cached(&format!(
                "SELECT t.earlier, t.receipt, t.agent_id, t.shard, t.outcome, t.started_at,
                    t.ended_at, t.cpu_ms, t.memory_bytes_peak, t.out_of_memory, t.not_enforced,
                    {USAGE_COLUMNS}
                 FROM attempts t WHERE t.token = ?1"
            ))?
            .query_row([token.0], |row| {
                let earlier = row.get::<_, Option<i64>>(0)?.map(Token);
                Ok((read_attempt(row)?, earlier))
            })
            .optional()
    }

    /// None where the host has never said anything.
    fn facts_of(&self, agent_id: AgentId) -> rusqlite::Result<HostFacts> {
        self.conn
            .prepare_cached("SELECT facts FROM host_profiles WHERE agent_id = ?1")?
            .query_row([agent_id.0], |row| json(row, 0))
            .optional()
            .map(Option::unwrap_or_default)
    }
}

fn read_attempt(row: &Row<'_>) -> rusqlite::Result<Option<AttemptSeen>> {
    let started_at: Option<i64> = row.get(5)?;
    let (true, Some(started_at)) = (row.get(1)?, started_at) else {
        return Ok(None);
    };
    let not_enforced: Option<String> = row.get(10)?;
    let memory = Limit::Memory.as_str();
    Ok(Some(AttemptSeen {
        agent_id: AgentId(row.get(2)?),
        shard: row.get(3)?,
        outcome: coded(row, 4)?,
        started_at: WallMs(started_at),
        ended_at: WallMs(row.get(6)?),
        cpu: DurationMs(row.get(7)?),
        memory_bytes_peak: row.get::<_, i64>(8)?.cast_unsigned(),
        out_of_memory: row.get(9)?,
        memory_was_limited: !not_enforced.is_some_and(|n| n.split(", ").any(|n| n == memory)),
        usage: read_usage(row, 11)?,
    }))
}
