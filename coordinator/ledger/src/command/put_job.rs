use std::sync::Arc;

use jobs::{Begins, Manifest};
use protocol::{JobName, Rule, WallMs};
use serde::{Deserialize, Serialize};

use super::{AlertKind, Decision};
use crate::apply::{Context, Stop, clip, malformed};
use crate::decisions::{SHARDS_MAX, Stretch, compare};
use crate::outcome::{Done, PutKind, Refusal};
use crate::predecessors::find_predecessors;
use crate::rows::{JobRow, VersionRow};
use crate::tables::record::{Audit, On};
use crate::tables::resource::check_uses;

/// Creates a job, or puts a new version of it in force from `cut_over` on.
///
/// Every instant that the old version names up to `cut_over` is settled by the same command: a
/// new version cannot drop what the old one owed, nor fire it a second time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutJob {
    pub manifest: Manifest,
    /// What the proposer has computed where the manifest leaves the number of shards to be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// Last instant of the old version's interval (inclusive); the new one begins after it.
    pub cut_over: WallMs,
    /// What the proposer decided about the old version's owed instants; `None` where it knew no
    /// job of this name (or of `renamed_from`) in force.
    pub settle: Option<Settlement>,
    /// The version that its author has seen in force, 0 for none: where another is by now, what
    /// somebody else has put meanwhile must not be lost.
    pub expected: Option<u32>,
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
pub(crate) enum PutCase {
    Create,
    /// The job, as it stands in the ledger, goes on with this manifest.
    Change(JobRow),
    Rename(JobRow),
    Revive(JobRow),
}

impl PutJob {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let case = self.case(context)?;
        if let PutCase::Change(job) = &case
            && self.is_in_force(context, job)?
        {
            return Ok(done(job, PutKind::Unchanged));
        }
        self.compare_version(&case)?;
        check_uses(context.conn, &self.manifest)?;
        let (job, kind) = match case {
            PutCase::Create => (self.create(context)?, PutKind::Created),
            PutCase::Revive(job) => (self.revive(context, job)?, PutKind::Revived),
            PutCase::Rename(job) => (self.succeed(context, job)?, PutKind::Renamed),
            PutCase::Change(job) => (self.succeed(context, job)?, PutKind::Changed),
        };
        for kind in [AlertKind::UnreadableJob, AlertKind::FireRefused] {
            context.settle_alert(kind, On::Job(job.job_id))?;
        }
        context.audit(Audit {
            by: clip(&self.by),
            action: "put job",
            on: On::Job(job.job_id),
            reason: None,
        })?;
        Ok(done(&job, kind))
    }

    /// How many shards its runs have: frozen in this version.
    fn shards(&self) -> Result<u32, Stop> {
        match (self.manifest.shards.fixed(), self.shards) {
            (Some(shards @ 1..=SHARDS_MAX), None) | (None, Some(shards @ 1..=SHARDS_MAX)) => {
                Ok(shards)
            }
            (fixed, computed) => Err(malformed(format!(
                "{fixed:?} shards written and {computed:?} computed: one of them, 1 to {SHARDS_MAX}"
            ))),
        }
    }

    fn case(&self, context: &Context<'_>) -> Result<PutCase, Stop> {
        let remembers = context.rules.on(Rule::Tombstones);
        PutCase::judge(&self.manifest, remembers, |name| context.job_named(name))
    }

    fn is_in_force(&self, context: &Context<'_>, job: &JobRow) -> Result<bool, Stop> {
        let manifest = self.manifest.to_json();
        let in_force = context.version(job.job_id, job.version)?;
        Ok(in_force.is_some_and(|version| *version.manifest == *manifest))
    }

    fn compare_version(&self, case: &PutCase) -> Result<(), Stop> {
        let version = match case {
            PutCase::Create | PutCase::Revive(_) => 0,
            PutCase::Change(job) | PutCase::Rename(job) => job.version,
        };
        Err(match self.expected {
            None => return Ok(()),
            Some(expected) if expected == version => return Ok(()),
            Some(expected) if version == 0 => Refusal::NotInForce { expected },
            Some(expected) => Refusal::VersionMoved { expected, version },
        }
        .into())
    }

    fn create(&self, context: &mut Context<'_>) -> Result<JobRow, Stop> {
        let job = JobRow {
            job_id: context.meta.mint_job(),
            name: self.manifest.name.clone(),
            version: 1,
            fired_through: self.cut_over,
            deleted: false,
            first_name: None,
            paused_at: None,
            in_doubt: false,
        };
        context.insert_job(&job)?;
        context.name_job(&job.name, job.job_id)?;
        self.write_version(context, &job)?;
        self.begin_paused(context, job)
    }

    /// A job that its manifest brings in is to be looked at before it fires.
    fn begin_paused(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        if self.manifest.begins == Begins::Paused {
            let why = "its manifest says `begins: paused`";
            context.write_pause(&mut job, Some((clip(&self.by), why)))?;
        }
        Ok(job)
    }

    /// The watermark goes on from where it stood, so nothing of before fires a second time.
    fn revive(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        job.fired_through = job.fired_through.max(self.cut_over);
        job.deleted = false;
        let job = self.put_in_force(context, job)?;
        self.begin_paused(context, job)
    }

    /// The version in force ends, with everything settled that it owed, and this one begins.
    fn succeed(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        let through = self.cut_over.max(job.fired_through);
        if context.rules.on(Rule::PutSettlesOwedInstants) {
            Settlement::write(self.settle.as_ref(), context, &job, through)?;
        }
        context.end_version(job.job_id, job.version, through)?;
        job.fired_through = through;
        job.in_doubt = false;
        self.put_in_force(context, job)
    }

    fn put_in_force(&self, context: &mut Context<'_>, mut job: JobRow) -> Result<JobRow, Stop> {
        job.version = job
            .version
            .checked_add(1)
            .ok_or_else(|| malformed("a version beyond the last"))?;
        if job.name != self.manifest.name {
            let before = std::mem::replace(&mut job.name, self.manifest.name.clone());
            job.first_name.get_or_insert(before);
        }
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
        let shards = self.shards()?;
        let after = find_predecessors(context.conn, &self.manifest, Some(job.job_id))?;
        context.insert_version(&version, &self.manifest, (shards, after), clip(&self.by))
    }
}

impl PutCase {
    /// `find` tells the job that a name leads to; `remembers`, whether a deleted one is revived.
    pub(crate) fn judge(
        manifest: &Manifest,
        remembers: bool,
        find: impl Fn(&JobName) -> Result<Option<JobRow>, Stop>,
    ) -> Result<PutCase, Stop> {
        let name = &manifest.name;
        let known = find(name)?;
        let from = match &manifest.renamed_from {
            Some(old) if old != name => find(old)?,
            _ => None,
        };
        let revive = |job| {
            if remembers {
                PutCase::Revive(job)
            } else {
                PutCase::Create
            }
        };
        match (known, from) {
            (Some(job), Some(from)) if job.job_id != from.job_id => Err(Refusal::NameTaken {
                name: name.to_string(),
                job_id: job.job_id,
            }
            .into()),
            (Some(job), _) if job.deleted => Ok(revive(job)),
            (Some(job), _) if job.name == *name => Ok(PutCase::Change(job)),
            // The name is one that this job has had before: it may go back to it, when the
            // manifest says that it comes from the present one.
            (Some(job), Some(_)) if manifest.renamed_from.as_ref() == Some(&job.name) => {
                Ok(PutCase::Rename(job))
            }
            (Some(job), _) => Err(name_retired(name.as_str(), &job)),
            (None, Some(from)) if manifest.renamed_from.as_ref() != Some(&from.name) => {
                let old = manifest.renamed_from.as_ref();
                Err(name_retired(old.map_or("", |old| old.as_str()), &from))
            }
            (None, Some(from)) if from.deleted => Ok(revive(from)),
            (None, Some(from)) => Ok(PutCase::Rename(from)),
            (None, None) => Ok(PutCase::Create),
        }
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
        let may = |decision: &Decision| matches!(decision, Decision::Gap { .. });
        if job.in_doubt {
            job.judge_doubt(&settle.decisions)?;
        } else if job.is_paused() && !settle.decisions.iter().all(may) {
            return Err(Refusal::Paused {
                job: job.name.to_string(),
            }
            .into());
        }
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

#[cfg(test)]
mod tests {
    use jobs::Shards;
    use protocol::{JobId, RunId};

    use super::*;
    use crate::command::DeleteJob;
    use crate::rows::RunState;
    use crate::testing::{self, Bed, MINUTE, fire, manifest, run_at};

    fn put(name: &str, yaml: &str, cut_over: i64) -> PutJob {
        PutJob {
            cut_over: WallMs(cut_over * MINUTE),
            ..testing::put(name, yaml)
        }
    }

    fn settled(put: PutJob, version: u32, from: i64, minutes: &[i64]) -> PutJob {
        let settle = Settlement {
            version,
            from: WallMs(from * MINUTE),
            decisions: minutes.iter().copied().map(run_at).collect(),
        };
        PutJob {
            settle: Some(settle),
            ..put
        }
    }

    fn job_put(job_id: i64, version: u32, kind: PutKind) -> Done {
        Done::JobPut {
            job_id: JobId(job_id),
            version,
            kind,
        }
    }

    fn delete(bed: &mut Bed, version: u32, from: i64, cut_over: i64) {
        bed.ok(DeleteJob {
            job_id: JobId(1),
            cut_over: WallMs(cut_over * MINUTE),
            settle: Settlement {
                version,
                from: WallMs(from * MINUTE),
                decisions: Vec::new(),
            },
            by: "ada".to_owned(),
        });
    }

    #[test]
    fn a_new_name_is_a_new_job_from_the_cut_over_on() {
        let mut bed = Bed::new();
        assert_eq!(bed.ok(put("t/a", "", 3)), job_put(1, 1, PutKind::Created));
        assert_eq!(bed.ok(put("t/b", "", 4)), job_put(2, 1, PutKind::Created));
        let job = &bed.set.jobs[&JobId(1)];
        assert_eq!(job.fired_through, WallMs(3 * MINUTE));
        let version = &bed.set.versions[&(JobId(1), 1)];
        assert_eq!(version.starts, WallMs(3 * MINUTE));
        assert_eq!(&*version.manifest, manifest("t/a", "").to_json());
        let from_nowhere = put("t/c", "renamed_from: t/never", 4);
        assert_eq!(bed.ok(from_nowhere), job_put(3, 1, PutKind::Created));
        assert_eq!(
            bed.view("SELECT by, action, name FROM audit_view WHERE audit = 1"),
            ["ada|put job|t/a"]
        );
    }

    #[test]
    fn the_same_manifest_again_changes_nothing() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        let before = bed.view("SELECT count(*) FROM audit");
        // Not even when what it would settle is out of date.
        let again = settled(put("t/a", "", 9), 7, 8, &[9]);
        assert_eq!(bed.ok(again), job_put(1, 1, PutKind::Unchanged));
        assert_eq!(bed.set.jobs[&JobId(1)].fired_through, WallMs(0));
        assert_eq!(bed.view("SELECT count(*) FROM audit"), before);
    }

    #[test]
    fn a_put_may_say_which_version_it_has_seen() {
        let mut bed = Bed::new();
        let expecting = |yaml: &str, expected| PutJob {
            expected: Some(expected),
            ..settled(put("t/a", yaml, 0), 1, 0, &[])
        };
        assert_eq!(
            bed.refused(expecting("", 1)),
            Refusal::NotInForce { expected: 1 }
        );
        bed.ok(expecting("", 0));
        // Sent again because the answer was lost: what it wants is so.
        assert_eq!(bed.ok(expecting("", 0)), job_put(1, 1, PutKind::Unchanged));
        for expected in [0, 2] {
            assert_eq!(
                bed.refused(expecting("shards: 2", expected)),
                Refusal::VersionMoved {
                    expected,
                    version: 1
                }
            );
        }
        assert_eq!(
            bed.ok(expecting("shards: 2", 1)),
            job_put(1, 2, PutKind::Changed)
        );
    }

    #[test]
    fn a_change_settles_what_the_old_version_owed() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        bed.fire(JobId(1), 2);
        let change = || put("t/a", "shards: 2", 5);
        for (version, from) in [(1, 1), (2, 2)] {
            assert_eq!(
                bed.refused(settled(change(), version, from, &[3])),
                Refusal::WatermarkMoved {
                    expected_version: version,
                    expected_through: WallMs(from * MINUTE),
                    version: 1,
                    fired_through: WallMs(2 * MINUTE),
                }
            );
        }
        assert!(matches!(
            bed.refused(change()),
            Refusal::WatermarkMoved { .. }
        ));
        assert!(matches!(
            bed.refused(settled(change(), 1, 2, &[3, 6])),
            Refusal::Malformed { .. }
        ));
        assert_eq!(
            bed.ok(settled(change(), 1, 2, &[4])),
            job_put(1, 2, PutKind::Changed)
        );
        assert_eq!(bed.set.jobs[&JobId(1)].fired_through, WallMs(5 * MINUTE));
        assert_eq!(bed.set.versions[&(JobId(1), 2)].starts, WallMs(5 * MINUTE));
        // Run 1 is live under version 1, which therefore stays known.
        assert!(bed.set.versions.contains_key(&(JobId(1), 1)));
        assert_eq!(
            bed.view("SELECT version, state, fire_time FROM run_view"),
            [
                "1|ready|1970-01-01T00:02:00.000Z",
                "1|skipped|1970-01-01T00:04:00.000Z"
            ]
        );
        assert_eq!(
            bed.view("SELECT version, starts, ends FROM version_view"),
            [
                "1|1970-01-01T00:00:00.000Z|1970-01-01T00:05:00.000Z",
                "2|1970-01-01T00:05:00.000Z|-"
            ]
        );
    }

    #[test]
    fn a_cut_over_before_the_watermark_is_lifted_to_it() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        bed.fire(JobId(1), 5);
        bed.ok(settled(put("t/a", "shards: 2", 3), 1, 5, &[]));
        assert_eq!(bed.set.versions[&(JobId(1), 2)].starts, WallMs(5 * MINUTE));
        assert_eq!(bed.set.jobs[&JobId(1)].fired_through, WallMs(5 * MINUTE));
    }

    #[test]
    fn without_settling_what_was_owed_is_lost() {
        let mut bed = Bed::without(Rule::PutSettlesOwedInstants);
        bed.ok(put("t/a", "", 0));
        bed.ok(settled(put("t/a", "shards: 2", 5), 1, 0, &[4]));
        assert_eq!(bed.set.jobs[&JobId(1)].fired_through, WallMs(5 * MINUTE));
        assert!(bed.set.runs.is_empty());
    }

    #[test]
    fn a_deleted_name_goes_on_where_it_stood() {
        for (cut_over, through) in [(3, 8), (9, 9)] {
            let mut bed = Bed::new();
            bed.ok(put("t/a", "", 0));
            delete(&mut bed, 1, 0, 8);
            assert!(bed.set.jobs.is_empty() && bed.set.versions.is_empty());
            let revived = put("t/a", "", cut_over);
            assert_eq!(bed.ok(revived), job_put(1, 2, PutKind::Revived));
            assert_eq!(
                bed.set.jobs[&JobId(1)].fired_through,
                WallMs(through * MINUTE)
            );
        }
    }

    #[test]
    fn a_manifest_may_begin_its_job_paused_and_has_no_say_afterwards() {
        let mut bed = Bed::new();
        let paused = |bed: &Bed| bed.set.jobs[&JobId(1)].is_paused();
        bed.ok(put("t/a", "begins: paused", 0));
        assert!(paused(&bed));
        assert_eq!(
            bed.view("SELECT paused_by, paused_reason FROM job_view"),
            ["ada|its manifest says `begins: paused`"]
        );
        bed.ok(settled(put("t/a", "shards: 2", 0), 1, 0, &[]));
        assert!(paused(&bed));
        delete(&mut bed, 2, 0, 8);
        bed.ok(put("t/a", "", 9));
        assert!(!paused(&bed));
        bed.ok(settled(put("t/a", "begins: paused", 9), 3, 9, &[]));
        assert!(!paused(&bed));
        delete(&mut bed, 4, 9, 9);
        bed.ok(put("t/a", "begins: paused", 9));
        assert!(paused(&bed));
    }

    #[test]
    fn without_tombstones_a_deleted_name_begins_anew() {
        let mut bed = Bed::without(Rule::Tombstones);
        bed.ok(put("t/a", "", 0));
        delete(&mut bed, 1, 0, 8);
        assert_eq!(bed.ok(put("t/a", "", 3)), job_put(2, 1, PutKind::Created));
        assert_eq!(bed.set.jobs[&JobId(2)].fired_through, WallMs(3 * MINUTE));
    }

    #[test]
    fn a_renamed_job_keeps_its_id_and_settles_what_it_owed() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        let rename = || put("t/b", "renamed_from: t/a", 5);
        assert!(matches!(
            bed.refused(rename()),
            Refusal::WatermarkMoved { .. }
        ));
        let renamed = settled(rename(), 1, 0, &[4]);
        assert_eq!(bed.ok(renamed), job_put(1, 2, PutKind::Renamed));
        let job = &bed.set.jobs[&JobId(1)];
        assert_eq!(job.name.as_str(), "t/b");
        assert_eq!(job.first_name().as_str(), "t/a");
        assert_eq!(bed.run(RunId(1)).state, RunState::Ready);

        // The same again, and a change with the line still in it.
        assert_eq!(bed.ok(rename()), job_put(1, 2, PutKind::Unchanged));
        let change = settled(put("t/b", "renamed_from: t/a\nshards: 2", 6), 2, 5, &[]);
        assert_eq!(bed.ok(change), job_put(1, 3, PutKind::Changed));

        let retired = Refusal::NameRetired {
            name: "t/a".to_owned(),
            now: "t/b".to_owned(),
        };
        assert_eq!(bed.refused(put("t/a", "", 7)), retired);
        assert_eq!(bed.refused(put("t/c", "renamed_from: t/a", 7)), retired);
        // Back again, when it says so.
        let back = settled(put("t/a", "renamed_from: t/b", 7), 3, 6, &[]);
        assert_eq!(bed.ok(back), job_put(1, 4, PutKind::Renamed));
        assert_eq!(bed.set.jobs[&JobId(1)].first_name().as_str(), "t/a");
        assert!(matches!(
            bed.refused(put("t/b", "", 8)),
            Refusal::NameRetired { .. }
        ));
    }

    #[test]
    fn a_rename_of_a_deleted_job_keeps_its_watermark() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        delete(&mut bed, 1, 0, 8);
        let renamed = put("t/b", "renamed_from: t/a", 3);
        assert_eq!(bed.ok(renamed), job_put(1, 2, PutKind::Revived));
        assert_eq!(bed.set.jobs[&JobId(1)].fired_through, WallMs(8 * MINUTE));
    }

    #[test]
    fn a_name_that_another_job_has_is_taken() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        bed.ok(put("t/b", "", 0));
        assert_eq!(
            bed.refused(put("t/b", "renamed_from: t/a", 1)),
            Refusal::NameTaken {
                name: "t/b".to_owned(),
                job_id: JobId(2)
            }
        );
    }

    #[test]
    fn a_version_needs_a_number_of_shards_that_can_be_written() {
        for shards in [0, 10_001, u32::MAX] {
            let mut bed = Bed::new();
            let mut put = put("t/a", "", 0);
            put.manifest.shards = Shards::Fixed(shards);
            assert!(matches!(bed.refused(put), Refusal::Malformed { .. }));
        }
    }

    #[test]
    fn a_fire_of_the_old_version_is_refused_after_the_change() {
        let mut bed = Bed::new();
        bed.ok(put("t/a", "", 0));
        bed.ok(settled(put("t/a", "shards: 2", 0), 1, 0, &[]));
        let late = fire(JobId(1), 1, WallMs(0), MINUTE, [1]);
        assert!(matches!(bed.refused(late), Refusal::WatermarkMoved { .. }));
    }
}
