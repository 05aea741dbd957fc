//! What a put or a deletion would do, as the tables stand. Nothing is changed by asking, and
//! nothing is promised: the command is judged when it is applied.

use jobs::Manifest;
use protocol::JobName;
use rusqlite::Connection;

use crate::apply::Stop;
use crate::codes::FIRST_FINAL_RUN_STATE;
use crate::command::PutCase;
use crate::outcome::{PutKind, Refusal};
use crate::predecessors::find_predecessors;
use crate::rows::JobRow;
use crate::tables::job::{find_job_named, manifest_of};
use crate::tables::resource::check_uses;

/// A job and what of it has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub job: JobRow,
    /// Of its newest version, canonical JSON.
    pub manifest: String,
    /// Runs that are not final.
    pub open_runs: u64,
    /// Shards leased to agents now; while there is one, the job cannot be deleted.
    pub leases: u64,
}

/// What a put would come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutPreview {
    pub kind: PutKind,
    /// The job that would go on; `None` where a new one would be created. A deleted one, where it
    /// would be revived.
    pub standing: Option<Standing>,
}

impl PutPreview {
    pub(crate) fn read(
        conn: &Connection,
        manifest: &Manifest,
    ) -> rusqlite::Result<Result<PutPreview, Refusal>> {
        match Self::judge(conn, manifest) {
            Ok(preview) => Ok(Ok(preview)),
            Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn judge(conn: &Connection, manifest: &Manifest) -> Result<PutPreview, Stop> {
        let find = |name: &JobName| Ok(find_job_named(conn, name)?);
        let (kind, job) = match PutCase::judge(manifest, true, find)? {
            PutCase::Create => (PutKind::Created, None),
            PutCase::Change(job) => (PutKind::Changed, Some(job)),
            PutCase::Rename(job) => (PutKind::Renamed, Some(job)),
            PutCase::Revive(job) => (PutKind::Revived, Some(job)),
        };
        let job_id = job.as_ref().map(|job| job.job_id);
        let standing = job.map(|job| Standing::of(conn, job)).transpose()?;
        let is_in_force = |standing: &Standing| standing.manifest == manifest.to_json();
        let kind = match kind {
            PutKind::Changed if standing.as_ref().is_some_and(is_in_force) => PutKind::Unchanged,
            kind => kind,
        };
        if kind != PutKind::Unchanged {
            check_uses(conn, manifest)?;
            find_predecessors(conn, manifest, job_id)?;
        }
        Ok(PutPreview { kind, standing })
    }
}

impl Standing {
    /// Of a job in force, under its present name or one that it had before.
    pub(crate) fn read(conn: &Connection, name: &JobName) -> rusqlite::Result<Option<Standing>> {
        find_job_named(conn, name)?
            .filter(|job| !job.deleted)
            .map(|job| Standing::of(conn, job))
            .transpose()
    }

    fn of(conn: &Connection, job: JobRow) -> rusqlite::Result<Standing> {
        let manifest = manifest_of(conn, job.job_id, job.version)?;
        let (open_runs, leases) = conn
            .prepare_cached(&format!(
                "SELECT count(*), coalesce(sum(leased), 0) FROM runs INDEXED BY runs_open
                 WHERE job_id = ?1 AND state < {FIRST_FINAL_RUN_STATE}"
            ))?
            .query_row([job.job_id.0], |row| {
                Ok((row.get::<_, u32>(0)?.into(), row.get::<_, u32>(1)?.into()))
            })?;
        Ok(Standing {
            job,
            manifest,
            open_runs,
            leases,
        })
    }
}
