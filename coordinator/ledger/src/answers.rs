//! What people ask of the ledger, answered in the words of the API.
//!
//! Every query here finds its rows by a key or the index over fires, reads the open runs, or is
//! cut off by its limit: none grows with the history. What is listed page by page is in
//! [`pages`](crate::pages).

use std::collections::BTreeMap;

use jobs::Manifest;
use protocol::attempt::Exit;
use protocol::{AgentId, AlertId, DurationMs, JobName, RunId, Token, WallMs, api};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::admission::read_waiting_words;
use crate::codes::{Coded, coded, coded_option, named};
use crate::command::{AlertKind, GapReason};
use crate::pages::ROWS_MAX;
use crate::rows::{Blocker, JobRow, Namespace, RunRow, Wait};
use crate::tables::attempt::{USAGE_COLUMNS, read_usage};
use crate::tables::job::{find_job_named, manifest_of, name_of, shards_of};
use crate::tables::run::{RUN_COLUMNS, Run, find_run, read_run};
use crate::tables::shard::{Shard, list_shards};

/// Runs that a job is shown with.
const RECENT_RUNS: u32 = 20;

/// The queries, over the writer's connection or a reader's.
pub(crate) struct Answers<'a> {
    pub(crate) conn: &'a Connection,
}

impl Answers<'_> {
    /// A job in force.
    pub(crate) fn job(&self, name: &JobName) -> rusqlite::Result<Option<api::JobDetail>> {
        let Some(row) = find_job_named(self.conn, name)?.filter(|row| !row.deleted) else {
            return Ok(None);
        };
        let (job, manifest) = self.describe(&row)?;
        Ok(Some(api::JobDetail {
            job,
            manifest: show_manifest(manifest),
            shards: shards_of(self.conn, row.job_id, row.version)?,
            runs: self.recent_runs(&row, RECENT_RUNS)?,
            gaps: self.gaps(&row)?,
        }))
    }

    pub(crate) fn job_of_run(&self, run_id: RunId) -> rusqlite::Result<Option<JobName>> {
        self.conn
            .prepare_cached("SELECT j.name FROM runs JOIN jobs j USING (job_id) WHERE run_id = ?1")?
            .query_row([run_id.0], |row| named(row, 0))
            .optional()
    }

    pub(crate) fn job_of_alert(&self, alert: AlertId) -> rusqlite::Result<Option<JobName>> {
        self.conn
            .prepare_cached(
                "SELECT j.name FROM alerts JOIN jobs j USING (job_id) WHERE alert_id = ?1",
            )?
            .query_row([alert.0], |row| named(row, 0))
            .optional()
    }

    pub(crate) fn run(&self, run_id: RunId) -> rusqlite::Result<Option<api::RunDetail>> {
        let Some(run) = find_run(self.conn, run_id)? else {
            return Ok(None);
        };
        let shards = list_shards(self.conn, run_id)?;
        Ok(Some(api::RunDetail {
            run: self.show_run(&run)?,
            executions: self.executions(run_id)?,
            shard_list: shards
                .iter()
                .map(|shard| self.show_shard(shard))
                .collect::<Result<_, _>>()?,
        }))
    }

    /// The run of an instant, or else the manual run of exactly that time.
    pub(crate) fn find_run(
        &self,
        name: &JobName,
        fire_time: WallMs,
    ) -> rusqlite::Result<Option<RunId>> {
        match find_job_named(self.conn, name)? {
            Some(job) => self.run_at(&job, fire_time),
            None => Ok(None),
        }
    }

    pub(crate) fn run_at(
        &self,
        job: &JobRow,
        fire_time: WallMs,
    ) -> rusqlite::Result<Option<RunId>> {
        self.conn
            .prepare_cached(
                "SELECT run_id FROM runs WHERE job_id = ?1 AND fire_time = ?2
                    AND namespace IN (?3, ?4)
                 ORDER BY namespace LIMIT 1",
            )?
            .query_row(
                params![
                    job.job_id.0,
                    fire_time.0,
                    Namespace::Scheduled.code(),
                    Namespace::Manual.code()
                ],
                |row| Ok(RunId(row.get(0)?)),
            )
            .optional()
    }

    /// What an agent holds, by token.
    pub(crate) fn leases_of(&self, agent_id: AgentId) -> rusqlite::Result<Vec<api::AgentLease>> {
        self.conn
            .prepare_cached(
                "SELECT s.token, s.run_id, j.name, s.shard, t.granted_at, v.safe, s.cancelling
                 FROM shards s INDEXED BY shards_leased
                 JOIN runs r USING (run_id) JOIN jobs j USING (job_id)
                 JOIN versions v ON v.job_id = r.job_id AND v.version = r.version
                 JOIN attempts t ON t.token = s.token
                 WHERE s.agent_id = ?1 ORDER BY s.token",
            )?
            .query_map([agent_id.0], |row| {
                Ok(api::AgentLease {
                    token: Token(row.get(0)?),
                    run: RunId(row.get(1)?),
                    job: named(row, 2)?,
                    shard: row.get(3)?,
                    granted_at: WallMs(row.get(4)?),
                    safe: row.get(5)?,
                    cancelling: row.get(6)?,
                })
            })?
            .collect()
    }

    pub(crate) fn open_alerts_by_kind(&self) -> rusqlite::Result<BTreeMap<&'static str, u64>> {
        let mut counts: BTreeMap<&str, u64> =
            AlertKind::ALL.iter().map(|kind| (kind.word(), 0)).collect();
        let mut statement = self.conn.prepare_cached(
            "SELECT kind, count(*) FROM alerts WHERE cleared_at IS NULL GROUP BY kind",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let kind: AlertKind = coded(row, 0)?;
            counts.insert(kind.word(), row.get::<_, i64>(1)?.cast_unsigned());
        }
        Ok(counts)
    }

    /// A job as lists show it, and the text of its manifest.
    pub(crate) fn describe(&self, row: &JobRow) -> rusqlite::Result<(api::Job, String)> {
        let text = manifest_of(self.conn, row.job_id, row.version)?;
        let mut job = api::Job {
            job: row.name.clone(),
            id: row.job_id,
            version: row.version,
            schedule: String::new(),
            timezone: String::new(),
            owner: String::new(),
            purpose: String::new(),
            fired_through: row.fired_through,
            next_fire: None,
            last_run: self.recent_runs(row, 1)?.pop(),
            paused: self.pause(row)?,
            problem: None,
        };
        match Manifest::from_json(&text) {
            Ok(manifest) => {
                let spec = manifest.schedule().spec();
                job.schedule.clone_from(&spec.cron);
                job.timezone.clone_from(&spec.timezone);
                job.owner = manifest.owner;
                job.purpose = manifest.purpose;
            }
            Err(error) => job.problem = Some(format!("its manifest cannot be read: {error}")),
        }
        Ok((job, text))
    }

    pub(crate) fn pause(&self, row: &JobRow) -> rusqlite::Result<Option<api::Paused>> {
        let Some(at) = row.paused_at else {
            return Ok(None);
        };
        self.conn
            .prepare_cached("SELECT paused_by, paused_reason FROM jobs WHERE job_id = ?1")?
            .query_row([row.job_id.0], |row| {
                Ok(api::Paused {
                    at,
                    by: row.get(0)?,
                    reason: row.get(1)?,
                })
            })
            .optional()
    }

    /// The runs of a job's newest fires and manual runs, newest first.
    fn recent_runs(&self, job: &JobRow, limit: u32) -> rusqlite::Result<Vec<api::Run>> {
        let mut runs: Vec<Run> = Vec::new();
        for namespace in Namespace::ALL {
            let found = self
                .conn
                .prepare_cached(&format!(
                    "SELECT {RUN_COLUMNS} FROM runs WHERE job_id = ?1 AND namespace = ?2
                     ORDER BY fire_time DESC LIMIT ?3"
                ))?
                .query_map(params![job.job_id.0, namespace.code(), limit], read_run)?
                .collect::<Result<Vec<_>, _>>()?;
            runs.extend(found);
        }
        runs.sort_by_key(|run| std::cmp::Reverse((run.row.fire_time, run.row.run_id)));
        runs.truncate(limit as usize);
        runs.iter()
            .map(|run| self.show(run, job.name.clone()))
            .collect()
    }

    fn gaps(&self, job: &JobRow) -> rusqlite::Result<Vec<api::Gap>> {
        self.conn
            .prepare_cached(
                "SELECT after, through, count, reason FROM gaps WHERE job_id = ?1
                 ORDER BY gap_id DESC LIMIT ?2",
            )?
            .query_map(params![job.job_id.0, ROWS_MAX], read_gap)?
            .collect()
    }

    pub(crate) fn show_run(&self, run: &Run) -> rusqlite::Result<api::Run> {
        let name = name_of(self.conn, run.row.job_id)?;
        self.show(run, name)
    }

    fn show(&self, run: &Run, job: JobName) -> rusqlite::Result<api::Run> {
        let mut shown = show(run, job);
        if let Some(wait) = run.row.waits {
            shown.waits_for = Some(self.waits_of(&run.row, &shown.job, wait)?);
            if shown.reason.is_none() {
                shown.reason = read_waiting_words(self.conn, run.row.run_id)?;
            }
        }
        Ok(shown)
    }

    fn waits_of(&self, row: &RunRow, job: &JobName, wait: Wait) -> rusqlite::Result<api::RunWaits> {
        let kind = match wait.on {
            Blocker::Overlap { .. } => api::RunWaitKind::Overlap,
            Blocker::Replaced { .. } => api::RunWaitKind::Replaced,
            Blocker::Previous { .. } => api::RunWaitKind::Previous,
            Blocker::After { .. } => api::RunWaitKind::After,
            Blocker::Turn { .. } => api::RunWaitKind::CatchUpTurn,
        };
        let job = match wait.on {
            Blocker::After { job, .. } => name_of(self.conn, job)?,
            _ => job.clone(),
        };
        let run = wait.on.run();
        let other = run.map(|run| find_run(self.conn, run)).transpose()?;
        Ok(api::RunWaits {
            kind,
            job,
            run,
            state: other.flatten().map(|other| other.row.state),
            since: wait.since,
            until: row.waits_until(),
        })
    }

    fn executions(&self, run_id: RunId) -> rusqlite::Result<Vec<api::Execution>> {
        self.conn
            .prepare_cached(
                "SELECT execution, execution_id, trigger, asked_by, reason, admitted_at
                 FROM executions WHERE run_id = ?1 ORDER BY execution",
            )?
            .query_map([run_id.0], |row| {
                Ok(api::Execution {
                    execution: row.get(0)?,
                    id: protocol::ExecutionId(row.get(1)?),
                    trigger: coded(row, 2)?,
                    by: row.get(3)?,
                    reason: row.get(4)?,
                    admitted_at: WallMs(row.get(5)?),
                })
            })?
            .collect()
    }

    fn show_shard(&self, shard: &Shard) -> rusqlite::Result<api::Shard> {
        let mut attempts = Vec::new();
        let mut next = shard.token;
        while let Some(token) = next {
            let (attempt, earlier) = self.attempt(token)?;
            attempts.push(attempt);
            // Tokens rise, so the list ends; a damaged one must not hold a reader for ever.
            next = earlier.filter(|earlier| *earlier < token);
        }
        attempts.reverse();
        Ok(api::Shard {
            shard: shard.row.shard,
            state: shard.row.state.as_str().to_owned(),
            reason: shard.row.reason.clone(),
            waits_for: None,
            retries_used: shard.row.retries_used,
            attempts,
        })
    }

    fn attempt(&self, token: Token) -> rusqlite::Result<(api::Attempt, Option<Token>)> {
        self.conn
            .prepare_cached(&format!(
                "SELECT t.token, t.execution, t.attempt, a.name, t.granted_at, t.started_at,
                    t.ended_at, t.outcome, t.exit_code, t.exit_signal, t.cpu_ms,
                    t.memory_bytes_peak, t.reason, t.tail, t.stale_outcome, t.earlier,
                    t.out_of_memory, t.not_enforced, {USAGE_COLUMNS}
                 FROM attempts t JOIN agents a USING (agent_id) WHERE t.token = ?1"
            ))?
            .query_row([token.0], read_attempt)
    }
}

/// As JSON; as plain text where it is damaged.
pub(crate) fn show_manifest(text: String) -> serde_json::Value {
    serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
}

/// A row of after, through, count, reason, and whatever follows.
pub(crate) fn read_gap(row: &Row<'_>) -> rusqlite::Result<api::Gap> {
    Ok(api::Gap {
        from: WallMs(row.get(0)?),
        through: WallMs(row.get(1)?),
        count: row.get::<_, i64>(2)?.cast_unsigned(),
        reason: coded::<GapReason>(row, 3)?.word().to_owned(),
    })
}

fn read_attempt(row: &Row<'_>) -> rusqlite::Result<(api::Attempt, Option<Token>)> {
    let code = row.get::<_, Option<i32>>(8)?.map(Exit::Code);
    let signal = row.get::<_, Option<i32>>(9)?.map(Exit::Signal);
    let attempt = api::Attempt {
        token: Token(row.get(0)?),
        execution: row.get(1)?,
        attempt: row.get(2)?,
        agent: named(row, 3)?,
        granted_at: WallMs(row.get(4)?),
        started_at: row.get::<_, Option<i64>>(5)?.map(WallMs),
        ended_at: row.get::<_, Option<i64>>(6)?.map(WallMs),
        outcome: coded_option(row, 7)?,
        exit: code.or(signal),
        cpu_ms: row.get::<_, Option<i64>>(10)?.map(|cpu| DurationMs(cpu).0),
        memory_bytes_peak: row.get::<_, Option<i64>>(11)?.map(i64::cast_unsigned),
        out_of_memory: row.get(16)?,
        usage: read_usage(row, 18)?,
        limits_not_enforced: row.get(17)?,
        reason: row.get(12)?,
        tail: row.get(13)?,
        stale_outcome: coded_option(row, 14)?,
    };
    Ok((attempt, row.get::<_, Option<i64>>(15)?.map(Token)))
}

fn show(run: &Run, job: JobName) -> api::Run {
    let row = &run.row;
    api::Run {
        run: row.run_id,
        job,
        version: row.version,
        namespace: row.namespace.as_str().to_owned(),
        fire_time: row.fire_time,
        nominal: row.nominal.clone(),
        state: row.state,
        reason: row.reason.clone(),
        waits_for: None,
        execution: row.execution,
        execution_id: row.execution_id,
        trigger: row.trigger,
        params: row.params.clone(),
        shards: row.shards,
        pending: run.tally.pending,
        leased: run.tally.leased,
        succeeded: run.tally.succeeded,
        needs_confirmation: run.tally.needs_confirmation,
        cancelled: run.tally.cancelled,
        admitted_at: row.admitted_at,
        ended_at: run.ended_at,
    }
}
