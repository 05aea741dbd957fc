//! The jobs that a manifest names under `after`, found by name when it is put and kept by id: a job
//! that gets another name is still waited for.

use std::collections::{BTreeMap, VecDeque};

use jobs::Manifest;
use protocol::JobId;
use rusqlite::Connection;

use crate::apply::Stop;
use crate::outcome::Refusal;
use crate::tables::job::{Predecessor, find_job_named, name_of, predecessors_in_force};

/// Finds them all, or refuses what could never come true: a job that is not there, and a circle.
/// `job_id` is the job that is put, where it is known already.
pub(crate) fn find_predecessors(
    conn: &Connection,
    manifest: &Manifest,
    job_id: Option<JobId>,
) -> Result<Vec<Predecessor>, Stop> {
    let mut found = Vec::new();
    for after in &manifest.after {
        let job = find_job_named(conn, &after.job)?
            .filter(|job| !job.deleted)
            .ok_or_else(|| Refusal::NoSuchPredecessor {
                job: after.job.to_string(),
            })?;
        found.push(Predecessor {
            job: job.job_id,
            which: after.which,
        });
    }
    if let Some(job_id) = job_id
        && let Some(circle) = find_circle(conn, job_id, &found)?
    {
        let mut names = Vec::new();
        for job in circle {
            names.push(name_of(conn, job)?.to_string());
        }
        // As it will be called.
        for name in [0, names.len() - 1] {
            names[name] = manifest.name.to_string();
        }
        return Err(Refusal::Circle { circle: names }.into());
    }
    Ok(found)
}

/// The shortest way from the job over what it comes after back to itself. Walks only jobs that it
/// comes after, at whatever distance.
fn find_circle(
    conn: &Connection,
    job_id: JobId,
    after: &[Predecessor],
) -> rusqlite::Result<Option<Vec<JobId>>> {
    let mut reached_from: BTreeMap<JobId, JobId> = BTreeMap::new();
    let mut to_visit: VecDeque<JobId> = VecDeque::new();
    let mut reach = |from: JobId, after: &[Predecessor], to_visit: &mut VecDeque<JobId>| {
        for predecessor in after {
            reached_from.entry(predecessor.job).or_insert_with(|| {
                to_visit.push_back(predecessor.job);
                from
            });
        }
    };
    reach(job_id, after, &mut to_visit);
    while let Some(job) = to_visit.pop_front() {
        if job == job_id {
            break;
        }
        reach(job, &predecessors_in_force(conn, job)?, &mut to_visit);
    }
    if !reached_from.contains_key(&job_id) {
        return Ok(None);
    }
    let mut way = vec![job_id];
    let mut at = job_id;
    while let Some(&from) = reached_from.get(&at) {
        way.push(from);
        at = from;
        if at == job_id {
            break;
        }
    }
    way.reverse();
    Ok(Some(way))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DeleteJob, PutJob, Settlement};
    use crate::outcome::Done;
    use crate::testing::{Bed, put};
    use protocol::WallMs;

    fn after(names: &[&str]) -> String {
        let entries = names
            .iter()
            .map(|name| format!("{{ job: {name}, match: same_date }}"));
        format!("after: [{}]", entries.collect::<Vec<_>>().join(", "))
    }

    /// The same job with another manifest.
    fn again(bed: &Bed, job_id: JobId, name: &str, yaml: &str) -> PutJob {
        let job = &bed.set.jobs[&job_id];
        PutJob {
            settle: Some(Settlement {
                version: job.version,
                from: job.fired_through,
                decisions: Vec::new(),
            }),
            ..put(name, yaml)
        }
    }

    #[test]
    fn a_job_that_is_not_there_is_not_waited_for() {
        let mut bed = Bed::new();
        let job = "t/import".to_owned();
        let missing = Refusal::NoSuchPredecessor { job };
        assert_eq!(bed.refused(put("t/a", &after(&["t/import"]))), missing);
        let import = bed.job_named("t/import", "");
        let a = bed.job_named("t/a", &after(&["t/import"]));
        bed.ok(DeleteJob {
            job_id: import,
            cut_over: WallMs(0),
            settle: Settlement {
                version: 1,
                from: WallMs(0),
                decisions: Vec::new(),
            },
            by: "ada".to_owned(),
        });
        assert_eq!(bed.refused(put("t/b", &after(&["t/import"]))), missing);
        // What is in force stays so.
        let same = again(&bed, a, "t/a", &after(&["t/import"]));
        assert!(matches!(bed.ok(same), Done::JobPut { version: 1, .. }));
        let (run, _) = bed.fire(a, 1);
        assert_eq!(
            bed.reason(run),
            "after: t/import is deleted and has no run for this fire"
        );
    }

    #[test]
    fn a_circle_is_named() {
        let mut bed = Bed::new();
        let a = bed.job_named("t/a", "");
        bed.job_named("t/b", &after(&["t/a"]));
        bed.job_named("t/c", &after(&["t/a", "t/b"]));
        bed.job_named("t/d", "");
        let circle = again(&bed, a, "t/a", &after(&["t/d", "t/c"]));
        let refusal = bed.refused(circle);
        assert_eq!(
            refusal.to_string(),
            "it would wait for itself: t/a comes after t/c comes after t/a"
        );
        bed.ok(again(&bed, a, "t/a", &after(&["t/d"])));
    }

    #[test]
    fn a_job_that_gets_another_name_is_still_waited_for() {
        let mut bed = Bed::new();
        let import = bed.job_named("t/import", "");
        let a = bed.job_named("t/a", &after(&["t/import"]));
        bed.ok(again(&bed, import, "t/load", "renamed_from: t/import"));
        let (run, _) = bed.fire(a, 1);
        assert_eq!(
            bed.reason(run),
            "after: t/load has no run for this fire yet"
        );
        let circle = again(&bed, import, "t/load", &after(&["t/a"]));
        assert_eq!(
            bed.refused(circle).to_string(),
            "it would wait for itself: t/load comes after t/a comes after t/load"
        );
    }
}
