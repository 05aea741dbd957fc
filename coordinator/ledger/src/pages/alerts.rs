//! Alerts by page, those opened last first.
//!
//! By their ids, not by when they were raised last: an alert that is raised again while somebody
//! turns the pages would move to one that has been turned already, and not be seen.

use protocol::{AlertId, JobName, NamespaceName, Reach, RunId, WallMs, api};
use rusqlite::Row;

use super::{Conditions, EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::codes::{Coded, coded, named_option};
use crate::command::AlertKind;

/// Which alerts to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertFilter {
    /// Those that are over too.
    pub cleared: bool,
    pub kind: Option<AlertKind>,
    /// About this job or its runs, under its present name or one that it had before.
    pub job: Option<JobName>,
    /// About jobs whose present names are in this namespace, and their runs.
    pub namespace: Option<NamespaceName>,
    /// About these jobs only, and their runs.
    pub within: Reach,
    /// Where the page before this one ended.
    pub before: Option<AlertId>,
    /// At most [`ROWS_MAX`](super::ROWS_MAX).
    pub limit: u32,
}

impl Answers<'_> {
    pub(crate) fn alerts(
        &self,
        filter: &AlertFilter,
    ) -> rusqlite::Result<Page<api::Alert, AlertId>> {
        let mut wanted = Conditions::default();
        if let Some(kind) = filter.kind {
            wanted.and("l.kind = ?", [kind.code().into()]);
        }
        if let Some(name) = &filter.job {
            wanted.of_job(self.conn, "l.job_id", name)?;
        }
        if let Some(namespace) = &filter.namespace {
            wanted.of_namespace("ifnull(j.name, '')", namespace.as_str());
        }
        wanted.within("ifnull(j.name, '')", &filter.within);
        // Most rows are cleared: those are passed over before anything is read beside them.
        let open = if filter.cleared {
            "TRUE"
        } else {
            "l.cleared_at IS NULL"
        };
        let mut values = wanted.values.clone();
        values.push(filter.before.map_or(i64::MAX, |before| before.0).into());
        let walk = Walk {
            sql: format!(
                "SELECT l.alert_id, l.at, l.kind, j.name, l.run_id, a.name, l.text, l.count,
                    l.last_at, l.cleared_at, l.cleared_by, {}
                 FROM alerts l LEFT JOIN jobs j USING (job_id) LEFT JOIN agents a USING (agent_id)
                 WHERE {open} AND l.alert_id < ? ORDER BY l.alert_id DESC",
                wanted.sql()
            ),
            values,
            limit: filter.limit,
            examined_max: EXAMINED_MAX,
        };
        walk.go(self.conn, |row| {
            let wanted: bool = row.get(11)?;
            let alert = wanted.then(|| read_alert(row)).transpose()?;
            Ok((AlertId(row.get(0)?), alert))
        })
    }
}

fn read_alert(row: &Row<'_>) -> rusqlite::Result<api::Alert> {
    Ok(api::Alert {
        id: AlertId(row.get(0)?),
        at: WallMs(row.get(1)?),
        kind: coded::<AlertKind>(row, 2)?.word().to_owned(),
        job: named_option(row, 3)?,
        run: row.get::<_, Option<i64>>(4)?.map(RunId),
        agent: named_option(row, 5)?,
        text: row.get(6)?,
        count: row.get(7)?,
        last_at: Some(WallMs(row.get(8)?)),
        cleared_at: row.get::<_, Option<i64>>(9)?.map(WallMs),
        cleared_by: row.get(10)?,
    })
}
