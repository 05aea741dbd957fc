//! What people did, by page, newest first.

use protocol::{AgentName, JobName, Reach, RunId, WallMs, api};
use rusqlite::Row;

use super::{Conditions, EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::codes::named_option;

/// Which entries of the audit to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// About this job or its runs, under its present name or one that it had before.
    pub job: Option<JobName>,
    pub run: Option<RunId>,
    pub agent: Option<AgentName>,
    /// Who did it.
    pub by: Option<String>,
    /// About these jobs only, and their runs.
    pub within: Reach,
    /// Where the page before this one ended.
    pub before: Option<i64>,
    /// At most [`ROWS_MAX`](super::ROWS_MAX).
    pub limit: u32,
}

impl Answers<'_> {
    pub(crate) fn audit(
        &self,
        filter: &AuditFilter,
    ) -> rusqlite::Result<Page<api::AuditEntry, i64>> {
        let mut wanted = Conditions::default();
        if let Some(name) = &filter.job {
            wanted.of_job(self.conn, "u.job_id", name)?;
        }
        if let Some(run) = filter.run {
            wanted.and("u.run_id IS ?", [run.0.into()]);
        }
        if let Some(agent) = &filter.agent {
            wanted.and("a.name IS ?", [agent.as_str().to_owned().into()]);
        }
        if let Some(by) = &filter.by {
            wanted.and("u.by = ?", [by.clone().into()]);
        }
        wanted.within("ifnull(j.name, '')", &filter.within);
        let mut values = wanted.values.clone();
        values.push(filter.before.unwrap_or(i64::MAX).into());
        let walk = Walk {
            sql: format!(
                "SELECT u.audit_id, u.at, u.by, u.action, j.name, u.run_id, a.name, u.reason, u.source,
                    {}
                 FROM audit u LEFT JOIN jobs j USING (job_id) LEFT JOIN agents a USING (agent_id)
                 WHERE u.audit_id < ? ORDER BY u.audit_id DESC",
                wanted.sql()
            ),
            values,
            limit: filter.limit,
            examined_max: EXAMINED_MAX,
        };
        walk.go(self.conn, |row| {
            let wanted: bool = row.get(9)?;
            let entry = wanted.then(|| read_entry(row)).transpose()?;
            Ok((row.get(0)?, entry))
        })
    }
}

fn read_entry(row: &Row<'_>) -> rusqlite::Result<api::AuditEntry> {
    Ok(api::AuditEntry {
        at: WallMs(row.get(1)?),
        by: row.get(2)?,
        action: row.get(3)?,
        job: named_option(row, 4)?,
        run: row.get::<_, Option<i64>>(5)?.map(RunId),
        agent: named_option(row, 6)?,
        reason: row.get(7)?,
        from: row.get(8)?,
    })
}
