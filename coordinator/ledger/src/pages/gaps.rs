//! The gaps of a job by page, newest first.

use protocol::{JobName, WallMs, api};

use super::{EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::codes::{Coded, coded};
use crate::command::GapReason;
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
            sql: "SELECT gap_id, after, through, count, reason FROM gaps
                  WHERE job_id = ? AND gap_id < ? ORDER BY gap_id DESC"
                .to_owned(),
            values: vec![job.job_id.0.into(), before.unwrap_or(i64::MAX).into()],
            limit,
            examined_max: EXAMINED_MAX,
        };
        let page = walk.go(self.conn, |row| {
            let gap = api::Gap {
                from: WallMs(row.get(1)?),
                through: WallMs(row.get(2)?),
                count: row.get::<_, i64>(3)?.cast_unsigned(),
                reason: coded::<GapReason>(row, 4)?.word().to_owned(),
            };
            Ok((row.get(0)?, Some(gap)))
        })?;
        Ok(Some(page))
    }
}
