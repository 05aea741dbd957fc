//! Jobs, their versions, and the names that lead to them.
//!
//! What `apply` needs of a manifest (shards, overlap, what it waits for, retries, whether a second run
//! is harmless) stands in columns of the version, written by the command that put it. So applying never reads
//! a manifest, and a manifest that cannot be read any more stops nothing here.

use std::sync::Arc;

use jobs::{Manifest, Overlap, Previous, Serial, Which};
use protocol::{DurationMs, JobId, JobName, WallMs};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{Coded, coded, coded_option, damaged, json, named, named_option};
use crate::outcome::Refusal;
use crate::rows::{JobRow, VersionRow};
use crate::tables::resource::write_units;

/// What a version's manifest says to `apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) shards: u32,
    pub(crate) overlap: Overlap,
    pub(crate) serial: Serial,
    pub(crate) previous: Option<Previous>,
    pub(crate) after: Vec<Predecessor>,
    /// How many catch-up runs may be open at once.
    pub(crate) catch_up_concurrency: u32,
    /// A second run is harmless.
    pub(crate) safe: bool,
    pub(crate) retry_at_most: u32,
    pub(crate) backoff: Vec<DurationMs>,
    /// Of one attempt.
    pub(crate) timeout: DurationMs,
}

/// A job that another one comes after. By its id, which a new name does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub(crate) job: JobId,
    pub(crate) which: Which,
}

pub(crate) const JOB_COLUMNS: &str = "job_id, name, version, fired_through, deleted, first_name, paused_at, \
     in_doubt";

/// Reads [`JOB_COLUMNS`].
pub(crate) fn read_job(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    Ok(JobRow {
        job_id: JobId(row.get(0)?),
        name: named(row, 1)?,
        version: row.get(2)?,
        fired_through: WallMs(row.get(3)?),
        deleted: row.get(4)?,
        first_name: named_option(row, 5)?,
        paused_at: row.get::<_, Option<i64>>(6)?.map(WallMs),
        in_doubt: row.get(7)?,
    })
}

pub(crate) const VERSION_COLUMNS: &str = "v.job_id, v.version, v.starts, v.manifest";

/// Reads [`VERSION_COLUMNS`].
pub(crate) fn read_version(row: &Row<'_>) -> rusqlite::Result<VersionRow> {
    Ok(VersionRow {
        job_id: JobId(row.get(0)?),
        version: row.get(1)?,
        starts: WallMs(row.get(2)?),
        manifest: Arc::from(row.get_ref(3)?.as_str()?),
    })
}

/// The job that a name leads to, be it its own, a retired one, or that of a tombstone.
pub(crate) fn find_job_named(
    conn: &Connection,
    name: &JobName,
) -> rusqlite::Result<Option<JobRow>> {
    conn.prepare_cached(&format!(
        "SELECT {JOB_COLUMNS} FROM jobs
         WHERE job_id = (SELECT job_id FROM names WHERE name = ?1)"
    ))?
    .query_row([name.as_str()], read_job)
    .optional()
}

/// The name of a job, deleted ones included.
pub(crate) fn name_of(conn: &Connection, job_id: JobId) -> rusqlite::Result<JobName> {
    conn.prepare_cached("SELECT name FROM jobs WHERE job_id = ?1")?
        .query_row([job_id.0], |row| named(row, 0))
}

/// The stored text of a version's manifest.
pub(crate) fn manifest_of(
    conn: &Connection,
    job_id: JobId,
    version: u32,
) -> rusqlite::Result<String> {
    conn.prepare_cached("SELECT manifest FROM versions WHERE job_id = ?1 AND version = ?2")?
        .query_row(params![job_id.0, version], |row| row.get(0))
}

/// How many shards the runs of a version have.
pub(crate) fn shards_of(conn: &Connection, job_id: JobId, version: u32) -> rusqlite::Result<u32> {
    conn.prepare_cached("SELECT shards FROM versions WHERE job_id = ?1 AND version = ?2")?
        .query_row(params![job_id.0, version], |row| row.get(0))
}

/// The jobs that a job in force comes after; none of one that is deleted.
pub(crate) fn predecessors_in_force(
    conn: &Connection,
    job_id: JobId,
) -> rusqlite::Result<Vec<Predecessor>> {
    let after = conn
        .prepare_cached(
            "SELECT v.after FROM jobs j JOIN versions v USING (job_id, version)
             WHERE j.job_id = ?1 AND NOT j.deleted",
        )?
        .query_row([job_id.0], |row| read_after(row, 0))
        .optional()?;
    Ok(after.unwrap_or_default())
}

impl Context<'_> {
    /// A job in force.
    pub(crate) fn job(&self, job_id: JobId) -> Result<JobRow, Stop> {
        self.conn
            .prepare_cached(&format!("SELECT {JOB_COLUMNS} FROM jobs WHERE job_id = ?1"))?
            .query_row([job_id.0], read_job)
            .optional()?
            .filter(|job| !job.deleted)
            .ok_or_else(|| {
                Refusal::NoSuchJob {
                    job: job_id.to_string(),
                }
                .into()
            })
    }

    pub(crate) fn job_named(&self, name: &JobName) -> Result<Option<JobRow>, Stop> {
        Ok(find_job_named(self.conn, name)?)
    }

    pub(crate) fn insert_job(&mut self, job: &JobRow) -> Result<(), Stop> {
        self.write_job(
            "INSERT INTO jobs (job_id, name, version, fired_through, deleted, first_name,
                in_doubt)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            job,
        )
    }

    /// Writes what may change of a job, but for its pause.
    pub(crate) fn update_job(&mut self, job: &JobRow) -> Result<(), Stop> {
        self.write_job(
            "UPDATE jobs SET name = ?2, version = ?3, fired_through = ?4, deleted = ?5,
                first_name = ?6, in_doubt = ?7
             WHERE job_id = ?1",
            job,
        )
    }

    fn write_job(&mut self, statement: &str, job: &JobRow) -> Result<(), Stop> {
        self.conn.prepare_cached(statement)?.execute(params![
            job.job_id.0,
            job.name.as_str(),
            job.version,
            job.fired_through.0,
            job.deleted,
            job.first_name.as_ref().map(JobName::as_str),
            job.in_doubt,
        ])?;
        self.changes.job(job);
        Ok(())
    }

    /// Begins a job's pause, by whom and why, or ends it.
    pub(crate) fn write_pause(
        &mut self,
        job: &mut JobRow,
        pause: Option<(&str, &str)>,
    ) -> Result<(), Stop> {
        let (by, reason) = pause.unzip();
        job.paused_at = pause.map(|_| self.at);
        self.conn
            .prepare_cached(
                "UPDATE jobs SET paused_at = ?2, paused_by = ?3, paused_reason = ?4
                 WHERE job_id = ?1",
            )?
            .execute(params![
                job.job_id.0,
                job.paused_at.map(|at| at.0),
                by,
                reason,
            ])?;
        self.changes.job(job);
        Ok(())
    }

    /// Makes a name lead to a job. Names that led to it before still do.
    pub(crate) fn name_job(&mut self, name: &JobName, job_id: JobId) -> Result<(), Stop> {
        self.conn
            .prepare_cached("REPLACE INTO names VALUES (?1, ?2)")?
            .execute(params![name.as_str(), job_id.0])?;
        Ok(())
    }

    pub(crate) fn version(&self, job_id: JobId, version: u32) -> Result<Option<VersionRow>, Stop> {
        Ok(self
            .conn
            .prepare_cached(&format!(
                "SELECT {VERSION_COLUMNS} FROM versions v WHERE v.job_id = ?1 AND v.version = ?2"
            ))?
            .query_row(params![job_id.0, version], read_version)
            .optional()?)
    }

    pub(crate) fn insert_version(
        &mut self,
        row: &VersionRow,
        manifest: &Manifest,
        (shards, after): (u32, Vec<Predecessor>),
        by: &str,
    ) -> Result<(), Stop> {
        let policy = Policy::of(manifest, shards, after);
        let uses = manifest.needs.uses.iter();
        let uses: Vec<_> = uses.map(|(name, n)| (name.clone(), *n)).collect();
        let backoff: Vec<i64> = policy.backoff.iter().map(|length| length.0).collect();
        self.conn
            .prepare_cached(
                "INSERT INTO versions
                 VALUES (?1, ?2, ?3, NULL, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
                    ?16, ?17)",
            )?
            .execute(params![
                row.job_id.0,
                row.version,
                row.starts.0,
                &*row.manifest,
                policy.shards,
                policy.overlap.code(),
                policy.serial.code(),
                policy.previous.map(Coded::code),
                write_after(&policy.after),
                policy.catch_up_concurrency,
                policy.safe,
                policy.retry_at_most,
                serde_json::to_string(&backoff).expect("a list of integers is always JSON"),
                policy.timeout.0,
                self.at.0,
                by,
                write_units(&uses),
            ])?;
        self.changes.version(row);
        Ok(())
    }

    pub(crate) fn end_version(
        &mut self,
        job_id: JobId,
        version: u32,
        ends: WallMs,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached("UPDATE versions SET ends = ?3 WHERE job_id = ?1 AND version = ?2")?
            .execute(params![job_id.0, version, ends.0])?;
        Ok(())
    }

    /// Puts a version among the changes: a run that is open again brings its version back into
    /// the working set.
    pub(crate) fn show_version(&mut self, job_id: JobId, version: u32) -> Result<(), Stop> {
        if let Some(row) = self.version(job_id, version)? {
            self.changes.version(&row);
        }
        Ok(())
    }

    pub(crate) fn policy(&self, job_id: JobId, version: u32) -> Result<Policy, Stop> {
        self.conn
            .prepare_cached(
                "SELECT shards, overlap, safe, retry_at_most, backoff_ms, timeout_ms, serial, previous,
                    after, catch_up_concurrency
                 FROM versions WHERE job_id = ?1 AND version = ?2",
            )?
            .query_row(params![job_id.0, version], read_policy)
            .optional()?
            .ok_or_else(|| {
                Refusal::Malformed {
                    what: format!("{job_id} has no version {version}"),
                }
                .into()
            })
    }
}

fn read_policy(row: &Row<'_>) -> rusqlite::Result<Policy> {
    let backoff: Vec<i64> = json(row, 4)?;
    Ok(Policy {
        shards: row.get(0)?,
        overlap: coded(row, 1)?,
        safe: row.get(2)?,
        retry_at_most: row.get(3)?,
        backoff: backoff.into_iter().map(DurationMs).collect(),
        timeout: DurationMs(row.get(5)?),
        serial: coded(row, 6)?,
        previous: coded_option(row, 7)?,
        after: read_after(row, 8)?,
        catch_up_concurrency: row.get(9)?,
    })
}

/// A list of [job, code, milliseconds].
fn read_after(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Predecessor>> {
    let entries: Vec<(i64, i64, i64)> = json(row, column)?;
    entries
        .into_iter()
        .map(|(job, code, length)| {
            let which = match code {
                0 => Which::SameFire,
                1 => Which::SameDate,
                2 => Which::LatestWithin(DurationMs(length)),
                _ => return Err(damaged(column, Type::Text, "a kind of run that is none")),
            };
            let job = JobId(job);
            Ok(Predecessor { job, which })
        })
        .collect()
}

fn write_after(after: &[Predecessor]) -> String {
    let entry = |predecessor: &Predecessor| {
        let (code, length) = match predecessor.which {
            Which::SameFire => (0, 0),
            Which::SameDate => (1, 0),
            Which::LatestWithin(length) => (2, length.0),
        };
        (predecessor.job.0, code, length)
    };
    let entries: Vec<(i64, i64, i64)> = after.iter().map(entry).collect();
    serde_json::to_string(&entries).expect("a list of integers is always JSON")
}

impl Policy {
    fn of(manifest: &Manifest, shards: u32, after: Vec<Predecessor>) -> Policy {
        Policy {
            shards,
            overlap: manifest.overlap,
            serial: manifest.serial,
            previous: manifest.previous,
            after,
            catch_up_concurrency: manifest.catch_up.concurrency,
            safe: manifest.safe,
            retry_at_most: manifest.retry_at_most,
            backoff: manifest.backoff.clone(),
            timeout: manifest.timeout,
        }
    }

    /// How long to wait before the retry after `used` retries.
    pub(crate) fn backoff_after(&self, used: u32) -> DurationMs {
        let step = self.backoff.get(used as usize).or(self.backoff.last());
        step.copied().unwrap_or(DurationMs::ZERO)
    }
}
