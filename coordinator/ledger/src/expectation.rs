//! What is known of one instant of a job.

use protocol::{JobName, WallMs, api};
use rusqlite::{OptionalExtension, params};

use crate::answers::{Answers, read_gap, show_manifest};
use crate::rows::JobRow;
use crate::tables::job::find_job_named;

impl Answers<'_> {
    /// Of a job under any name that it ever had, deleted or not.
    pub(crate) fn expectation(
        &self,
        name: &JobName,
        at: WallMs,
    ) -> rusqlite::Result<Option<api::Expectation>> {
        let Some(row) = find_job_named(self.conn, name)? else {
            return Ok(None);
        };
        Ok(Some(api::Expectation {
            at,
            fired_through: row.fired_through,
            deleted: row.deleted,
            paused: self.pause(&row)?,
            version: self.version_at(&row, at)?,
            run: self.run_at(&row, at)?,
            gap: self.gap_at(&row, at)?,
            job: row.name,
        }))
    }

    /// The version that decides an instant.
    fn version_at(
        &self,
        job: &JobRow,
        at: WallMs,
    ) -> rusqlite::Result<Option<api::VersionInForce>> {
        self.conn
            .prepare_cached(
                "SELECT version, starts, ends, put_at, put_by, manifest FROM versions
                 WHERE job_id = ?1 AND starts < ?2 AND (ends IS NULL OR ends >= ?2)
                 ORDER BY version DESC LIMIT 1",
            )?
            .query_row(params![job.job_id.0, at.0], |row| {
                Ok(api::VersionInForce {
                    version: row.get(0)?,
                    starts: WallMs(row.get(1)?),
                    ends: row.get::<_, Option<i64>>(2)?.map(WallMs),
                    put_at: WallMs(row.get(3)?),
                    put_by: row.get(4)?,
                    manifest: show_manifest(row.get(5)?),
                })
            })
            .optional()
    }

    fn gap_at(&self, job: &JobRow, at: WallMs) -> rusqlite::Result<Option<api::Gap>> {
        self.conn
            .prepare_cached(
                "SELECT after, through, count, reason FROM gaps
                 WHERE job_id = ?1 AND after < ?2 AND through >= ?2
                 ORDER BY gap_id DESC LIMIT 1",
            )?
            .query_row(params![job.job_id.0, at.0], read_gap)
            .optional()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, MINUTE};

    #[test]
    fn an_instant_has_its_version_and_its_run() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let (run, _) = bed.fire(job, 1);
        let answers = bed.store.answers();
        let name = &bed.set.jobs[&job].name;
        let ask = |minute| answers.expectation(name, WallMs(minute * MINUTE)).unwrap();
        let fired = ask(1).unwrap();
        assert_eq!(fired.run, Some(run));
        assert_eq!(fired.version.map(|v| (v.version, v.ends)), Some((1, None)));
        assert_eq!(fired.gap, None);
        let later = ask(2).unwrap();
        assert_eq!((later.run, later.fired_through), (None, WallMs(MINUTE)));
        assert_eq!(ask(0).unwrap().version, None, "it decides what is after it");
        let nobody = "no/body".parse().unwrap();
        assert_eq!(answers.expectation(&nobody, WallMs(0)).unwrap(), None);
    }
}
