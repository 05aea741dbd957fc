//! `matins apply`: jobs from manifests.
//!
//! Everything is read and judged here before anything is sent, so that a directory with one
//! mistake in it changes nothing. The coordinator judges each manifest again.

mod files;
mod order;
mod plan;

use std::collections::BTreeSet;

use jobs::Manifest;
use protocol::api::{DeleteJobRequest, Job, JobWarning, PutJobAnswer, PutJobRequest};
use protocol::{JobId, JobName, WallMs};
use serde_json::json;

use crate::args::Apply;
use crate::client::Client;
use crate::clock::now;
use crate::commands::next::striking;
use crate::commands::{asking_user, path_of};
use crate::failure::{Failure, Status, Told};
use crate::output::{Room, talk};
use crate::progress::Progress;
use crate::text::{LINE_WIDTH, Table, count, printable, wrap_prose};
pub(crate) use files::read_all;
pub(crate) use order::in_order;

/// What became of the manifests that were sent.
pub(crate) struct Applied {
    pub(crate) answers: Vec<PutJobAnswer>,
    pub(crate) deleted: Vec<JobName>,
    /// Of jobs that were refused; the others stand.
    pub(crate) refused: Vec<Told>,
}

pub(crate) fn apply(options: &Apply) -> Result<(), Failure> {
    let manifests = in_order(read_all(&options.files, "applied")?)?;
    let client = options.asking.target.find()?;
    for manifest in &manifests {
        for warning in striking(manifest.schedule(), now()) {
            warn(&manifest.name, "schedule.cron", &warning.to_string());
        }
    }
    if options.dry_run {
        return plan::plan(options, &client, &manifests);
    }
    // What is put from here on by somebody else is not what this one was asked to delete.
    let stood_before = if options.prune {
        unmentioned(&client, &manifests)?
    } else {
        Vec::new()
    };
    let (mut applied, end) = put_all(&client, &manifests);
    let end = end.and_then(|()| {
        if options.prune && applied.refused.is_empty() {
            prune(&client, &manifests, &stood_before, &mut applied)?;
        }
        Ok(())
    });
    // What was done is said even where the rest failed.
    options
        .asking
        .output
        .print(&applied.to_json(), |room| applied.to_text(room))?;
    for refusal in &applied.refused {
        talk(&refusal.to_string());
    }
    applied.warn();
    end?;
    if applied.refused.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(
        format!("applying {}", count(manifests.len() as u64, "job")),
        format!(
            "{} refused as said above, {} applied",
            applied.refused.len(),
            applied.answers.len()
        ),
        if options.prune {
            "correct what was refused and apply again; nothing was pruned"
        } else {
            "correct what was refused and apply again"
        },
    ))
}

/// Sends every manifest. Stops early only where nobody answers any more.
pub(crate) fn put_all(client: &Client, manifests: &[Manifest]) -> (Applied, Result<(), Failure>) {
    let mut applied = Applied {
        answers: Vec::new(),
        deleted: Vec::new(),
        refused: Vec::new(),
    };
    let mut progress = Progress::new();
    for (i, manifest) in manifests.iter().enumerate() {
        progress.show(&format!("{i} of {} applied", manifests.len()));
        let request = PutJobRequest {
            // JSON is YAML, and one file may hold several manifests: each is sent in its
            // canonical form.
            manifest: manifest.to_json(),
            by: Some(asking_user()),
        };
        match client.put(&path_of(&manifest.name), &request) {
            Ok(answer) => applied.answers.push(answer),
            Err(Failure::Told(told)) if told.status != Status::Unreachable => {
                applied.refused.push(told);
            }
            Err(failure) => return (applied, Err(failure)),
        }
    }
    (applied, Ok(()))
}

/// Deletes those of the jobs that stood before which still have no manifest: one that was renamed
/// meanwhile has, under its new name.
fn prune(
    client: &Client,
    manifests: &[Manifest],
    stood_before: &[Job],
    applied: &mut Applied,
) -> Result<(), Failure> {
    let stood_before: BTreeSet<JobId> = stood_before.iter().map(|job| job.id).collect();
    for job in unmentioned(client, manifests)? {
        if !stood_before.contains(&job.id) {
            continue;
        }
        let request = DeleteJobRequest {
            by: Some(asking_user()),
        };
        match client.delete(&path_of(&job.job), &request) {
            Ok(()) => applied.deleted.push(job.job),
            Err(Failure::Told(told)) if told.status != Status::Unreachable => {
                applied.refused.push(told);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The jobs in force in the manifests' namespaces that have no manifest.
fn unmentioned(client: &Client, manifests: &[Manifest]) -> Result<Vec<Job>, Failure> {
    let namespaces: BTreeSet<&str> = manifests.iter().map(|m| m.name.namespace()).collect();
    let kept: BTreeSet<&JobName> = manifests.iter().map(|m| &m.name).collect();
    let mut known: Vec<Job> = client.list_all("/api/v1/jobs", &[])?;
    known.retain(|job| namespaces.contains(job.job.namespace()) && !kept.contains(&job.job));
    Ok(known)
}

/// What there is to be said against a job that is taken all the same.
fn warn(job: &JobName, field: &str, says: &str) {
    const INDENT: &str = "    ";
    let text = format!("warning: {job}: {field}: {says}");
    let lines = wrap_prose(&printable(&text), LINE_WIDTH - INDENT.len());
    talk(&lines.join(&format!("\n{INDENT}")));
}

impl Applied {
    pub(crate) fn warn(&self) {
        for answer in &self.answers {
            for JobWarning { field, says, .. } in &answer.warnings {
                warn(&answer.job, field, says);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.deleted.is_empty()
    }

    fn to_text(&self, room: Room) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["~JOB", "=RESULT", "VERSION", "NEXT FIRE"]);
        for answer in &self.answers {
            table.row(vec![
                answer.job.to_string(),
                answer.result.clone(),
                answer.version.to_string(),
                answer
                    .next_fire
                    .map_or_else(String::new, WallMs::to_rfc3339),
            ]);
        }
        for job in &self.deleted {
            table.row(vec![
                job.to_string(),
                "deleted".to_owned(),
                String::new(),
                String::new(),
            ]);
        }
        table.render_in(room)
    }

    fn to_json(&self) -> serde_json::Value {
        let deleted = self
            .deleted
            .iter()
            .map(|job| json!({"job": job, "result": "deleted"}));
        self.answers
            .iter()
            .map(|answer| json!(answer))
            .chain(deleted)
            .collect()
    }
}
