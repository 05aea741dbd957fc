//! Jobs in force by page, in the order of their names.

use protocol::{JobName, NamespaceName, Reach, api};

use super::{Conditions, EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::rows::JobRow;
use crate::tables::job::{JOB_COLUMNS, read_job};

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub namespace: Option<NamespaceName>,
    /// Of these only.
    pub within: Reach,
    /// Only those that are paused, or only those that are not.
    pub paused: Option<bool>,
    /// Where the page before this one ended.
    pub after: Option<JobName>,
    /// At most [`ROWS_MAX`](super::ROWS_MAX).
    pub limit: u32,
}

impl Answers<'_> {
    pub(crate) fn jobs(&self, filter: &JobFilter) -> rusqlite::Result<Page<api::Job, JobName>> {
        let found = filter.walk().go(self.conn, |row| {
            let job: JobRow = read_job(row)?;
            let wanted = filter.paused.is_none_or(|paused| paused == job.is_paused());
            Ok((job.name.clone(), wanted.then_some(job)))
        })?;
        let mut rows = Vec::with_capacity(found.rows.len());
        for job in &found.rows {
            rows.push(self.describe(job)?.0);
        }
        let next = found.next;
        Ok(Page { rows, next })
    }
}

impl JobFilter {
    /// Along the key of all names that jobs ever had; of each job, its present one counts.
    fn walk(&self) -> Walk {
        let mut key = Conditions::default();
        if let Some(namespace) = &self.namespace {
            key.of_namespace("n.name", namespace.as_str());
        }
        key.within("n.name", &self.within);
        if let Some(after) = &self.after {
            key.and("n.name > ?", [after.as_str().to_owned().into()]);
        }
        let columns: Vec<String> = JOB_COLUMNS
            .split(", ")
            .map(|column| format!("j.{}", column.trim()))
            .collect();
        Walk {
            sql: format!(
                "SELECT {} FROM names n CROSS JOIN jobs j ON j.job_id = n.job_id AND j.name = n.name
                 WHERE NOT j.deleted AND {} ORDER BY n.name",
                columns.join(", "),
                key.sql()
            ),
            values: key.values,
            limit: self.limit,
            examined_max: EXAMINED_MAX,
        }
    }
}
