use std::sync::Arc;

use jobs::Manifest;
use protocol::{Rule, WallMs};
use serde::{Deserialize, Serialize};

use super::Decision;
use crate::apply::{Context, Stop, clip, malformed};
use crate::decisions::{SHARDS_MAX, Stretch, compare};
use crate::outcome::{Done, PutKind, Refusal};
use crate::rows::{JobRow, VersionRow};
use crate::tables::record::Audit;

/// Creates a job, or puts a new version of it in force from `cut_over` on.
///
/// Every instant that the old version names up to `cut_over` is settled by the same command: a
/// new version cannot drop what the old one owed, nor fire it a second time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutJob {
    pub manifest: Manifest,
    /// Last instant of the old version's interval (inclusive); the new one begins after it.
    pub cut_over: WallMs,
    /// What the proposer decided about the old version's owed instants; `None` where it knew no
    /// job of this name (or of `renamed_from`) in force.
    pub settle: Option<Settlement>,
    pub by: String,
}

/// Decisions about the instants of `version` in (`from`, the command's cut-over].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    pub version: u32,
    pub from: WallMs,
    pub decisions: Vec<Decision>,
}

/// What a put means for the names that are known.
enum Case {
    Create,
    /// The job, as it stands in the ledger, goes on with this manifest.
    Change(JobRow),
    Rename(JobRow),
    Revive(JobRow),
}

impl PutJob {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if self.manifest.shards == 0 || self.manifest.shards > SHARDS_MAX {
            return Err(malformed(format!(
                "{} shards: a job has 1 to {SHARDS_MAX}",
                self.manifest.shards
            )));
        }
        let (job, kind) = match self.case(context)? {
            Case::Create => (self.create(context)?, PutKind::Created),
            Case::Revive(job) => (self.revive(context, job)?, PutKind::Revived),
            Case::Rename(job) => (self.succeed(context, job)?, PutKind::Renamed),
            Case::Change(job) => {
                if self.is_in_force(context, &job)? {
                    return Ok(done(&job, PutKind::Unchanged));
                }
                (self.succeed(context, job)?, PutKind::Changed)
            }
        };
        context.audit(Audit {
            by: clip(&self.by),
            action: "put job",
            job_id: job.job_id,
            run_id: None,
            reason: None,
        })?;
        Ok(done(&job, kind))
    }

    fn case(&self, context: &Context<'_>) -> Result<Case, Stop> {
        let name = &self.manifest.name;
        let known = context.job_named(name)?;
        let from = match &self.manifest.renamed_from {
            Some(old) if old != name => context.job_named(old)?,
            _ => None,
        };
        let remembers = context.rules.on(Rule::Tombstones);
        let revive = |job| {
            if remembers {
                Case::Revive(job)
            } else {
                Case::Create
            }
        };
        match (known, from) {
            (Some(job), Some(from)) if job.job_id != from.job_id => Err(Refusal::NameTaken {
                name: name.to_string(),
                job_id: job.job_id,
            }
            .into()),
            (Some(job), _) if job.deleted => Ok(revive(job)),
            (Some(job), _) if job.name == *name => Ok(Case::Change(job)),
            // The name is one that this job has had before: it may go back to it, when the
            // manifest says that it comes from the present one.
            (Some(job), Some(_)) if self.manifest.renamed_from.as_ref() == Some(&job.name) => {
                Ok(Case::Rename(job))
            }
            (Some(job), _) => Err(name_retired(name.as_str(), &job)),
            (None, Some(from)) if self.manifest.renamed_from.as_ref() != Some(&from.name) => {
                let old = self.manifest.renamed_from.as_ref();
                Err(name_retired(old.map_or("", |old| old.as_str()), &from))
            }
            (None, Some(from)) if from.deleted => Ok(revive(from)),
            (None, Some(from)) => Ok(Case::Rename(from)),
            (None, None) => Ok(Case::Create),
        }
    }

    fn is_in_force(&self, context: &Context<'_>, job: &JobRow) -> Result<bool, Stop> {
        let manifest = self.manifest.to_json();
        let in_force = context.version(job.job_id, job.version)?;
        Ok(in_force.is_some_and(|version| *version.manifest == *manifest))
    }

    fn create(&self, context: &mut Context<'_>) -> Result<JobRow, Stop> {
        let job = JobRow {
            job_id: context.meta.mint_job(),
            name: self.manifest.name.clone(),
            version: 1,
            fired_through: self.cut_over,
            deleted: false,
        };
        context.insert_job(&job)?;
        context.name_job(&job.name, job.job_id)?;
        self.write_version(context, &job)?;
        Ok(job)
    }

    /// The watermark goes on from where it stood, so nothing of before fires a second time.
    fn revive(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        job.fired_through = job.fired_through.max(self.cut_over);
        job.deleted = false;
        self.put_in_force(context, job)
    }

    /// The version in force ends, with everything settled that it owed, and this one begins.
    fn succeed(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        let through = self.cut_over.max(job.fired_through);
        if context.rules.on(Rule::PutSettlesOwedInstants) {
            Settlement::write(self.settle.as_ref(), context, &job, through)?;
        }
        context.end_version(job.job_id, job.version, through)?;
        job.fired_through = through;
        self.put_in_force(context, job)
    }

    fn put_in_force(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        job.version = job
            .version
            .checked_add(1)
            .ok_or_else(|| malformed("a version beyond the last"))?;
        job.name = self.manifest.name.clone();
        context.update_job(&job)?;
        context.name_job(&job.name, job.job_id)?;
        self.write_version(context, &job)?;
        Ok(job)
    }

    fn write_version(&self, context: &mut Context<'_>, job: &JobRow) -> Result<(), Stop> {
        let version = VersionRow {
            job_id: job.job_id,
            version: job.version,
            starts: job.fired_through,
            manifest: Arc::from(self.manifest.to_json()),
        };
        context.insert_version(&version, &self.manifest, clip(&self.by))
    }
}

impl Settlement {
    /// Compares a settlement with the job it is about and writes its decisions through `through`.
    /// Without one the proposer knew no such job in force, and that has changed.
    pub(super) fn write(
        settle: Option<&Settlement>,
        context: &mut Context<'_>,
        job: &JobRow,
        through: WallMs,
    ) -> Result<(), Stop> {
        let unknown = Settlement {
            version: 0,
            from: WallMs(0),
            decisions: Vec::new(),
        };
        let settle = settle.unwrap_or(&unknown);
        compare(context, job, settle.version, settle.from)?;
        let stretch = Stretch {
            job_id: job.job_id,
            version: job.version,
            from: settle.from,
            through,
        };
        context.write_decisions(stretch, &settle.decisions)?;
        Ok(())
    }
}

fn done(job: &JobRow, kind: PutKind) -> Done {
    Done::JobPut {
        job_id: job.job_id,
        version: job.version,
        kind,
    }
}

fn name_retired(name: &str, job: &JobRow) -> Stop {
    Refusal::NameRetired {
        name: name.to_owned(),
        now: job.name.to_string(),
    }
    .into()
}
