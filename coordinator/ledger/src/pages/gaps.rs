//! The gaps of a job by page, newest first.

use protocol::{JobName, api};

use super::{EXAMINED_MAX, Page, Walk};
use crate::answers::{Answers, read_gap};
use crate::tables::job::find_job_named;

impl Answers<'_> {
    /// `None` where no job of this name ever was.
    pub(crate) fn gaps_of(
        &self,
        name: &JobName,
        before: Option<i64>,
        limit: u32,
    ) -> rusqlite::Result<Option<Page<api::Gap, i64>>> {
        let Some(job) = find_job_named(self.conn, name)? else {
            return Ok(None);
        };
        let walk = Walk {
            sql: "SELECT after, through, count, reason, gap_id FROM gaps
                  WHERE job_id = ? AND gap_id < ? ORDER BY gap_id DESC"
                .to_owned(),
            values: vec![job.job_id.0.into(), before.unwrap_or(i64::MAX).into()],
            limit,
            examined_max: EXAMINED_MAX,
        };
        let page = walk.go(self.conn, |row| Ok((row.get(4)?, Some(read_gap(row)?))))?;
        Ok(Some(page))
    }
}
