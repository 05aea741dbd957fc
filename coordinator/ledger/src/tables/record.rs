//! What is only ever added: gaps, and the audit of what people did. And what is known of the last
//! backup.

use protocol::{AgentId, DurationMs, JobId, RunId, WallMs};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::codes::Coded;
use crate::command::GapReason;
use crate::rows::BackupRow;

/// `count` instants of `version` in (`after`, `through`] that have no row each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewGap {
    pub(crate) job_id: JobId,
    pub(crate) version: u32,
    pub(crate) after: WallMs,
    pub(crate) through: WallMs,
    pub(crate) count: i64,
    pub(crate) reason: GapReason,
}

/// What something was done to, or said of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// Nothing in particular: the coordinator itself.
    All,
    Job(JobId),
    Run(JobId, RunId),
    Agent(AgentId),
}

impl On {
    /// Ids of job, run and agent, as rows name them.
    pub(crate) const fn ids(self) -> (Option<i64>, Option<i64>, Option<i64>) {
        match self {
            On::All => (None, None, None),
            On::Job(job_id) => (Some(job_id.0), None, None),
            On::Run(job_id, run_id) => (Some(job_id.0), Some(run_id.0), None),
            On::Agent(agent_id) => (None, None, Some(agent_id.0)),
        }
    }
}

/// One entry of the audit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Audit<'a> {
    pub(crate) by: &'a str,
    pub(crate) action: &'static str,
    pub(crate) on: On,
    pub(crate) reason: Option<&'a str>,
}

/// What is known of backups made by schedule.
pub(crate) fn read_backup(conn: &Connection) -> rusqlite::Result<Option<BackupRow>> {
    conn.prepare_cached("SELECT every_ms, good_at, failed_at FROM backups")?
        .query_row([], |row| {
            Ok(BackupRow {
                every: DurationMs(row.get(0)?),
                good_at: row.get::<_, Option<i64>>(1)?.map(WallMs),
                failed_at: row.get::<_, Option<i64>>(2)?.map(WallMs),
            })
        })
        .optional()
}

impl Context<'_> {
    pub(crate) fn insert_gap(&mut self, gap: NewGap) -> Result<(), Stop> {
        let gap_id = self.meta.mint_gap();
        self.conn
            .prepare_cached("INSERT INTO gaps VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
            .execute(params![
                gap.job_id.0,
                gap_id,
                gap.version,
                gap.after.0,
                gap.through.0,
                gap.count,
                gap.reason.code(),
                self.at.0,
            ])?;
        Ok(())
    }

    pub(crate) fn audit(&mut self, entry: Audit<'_>) -> Result<(), Stop> {
        let audit_id = self.meta.mint_audit();
        let (job_id, run_id, agent_id) = entry.on.ids();
        self.conn
            .prepare_cached("INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
            .execute(params![
                audit_id,
                self.at.0,
                entry.by,
                entry.action,
                job_id,
                run_id,
                agent_id,
                entry.reason,
                self.source,
            ])?;
        Ok(())
    }
}
