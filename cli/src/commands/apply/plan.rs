//! `matins apply --dry-run`: what would become of it, and nothing else.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use chrono_tz::Tz;
use jobs::Manifest;
use jobs::manifest::{FieldChange, manifest_changes};
use protocol::api::{JobPlan, JobWarning, PlanRequest};
use protocol::{JobName, WallMs};
use serde_json::{Value, json};

use super::unmentioned;
use crate::args::Apply;
use crate::client::Client;
use crate::clock::rfc3339_in;
use crate::commands::path_of;
use crate::failure::{Failure, Status, Told};
use crate::output::talk;
use crate::progress::Progress;
use crate::text::{LINE_WIDTH, count, printable, wrap, wrap_prose};

/// Next fires that are shown of a new version.
const FIRES_SHOWN: usize = 3;

/// What would become of one job.
enum Outlook {
    Put {
        plan: JobPlan,
        changes: Vec<FieldChange>,
        next_fires: Vec<NextFire>,
    },
    Deleted(JobPlan),
    Refused {
        job: JobName,
        told: Told,
    },
}

struct NextFire {
    at: WallMs,
    /// RFC 3339, as the clock of the job's zone shows it.
    local: String,
    /// What a change of that clock does to it.
    note: String,
}

/// Asks what a put of these manifests would do, and with `--prune` what would be deleted.
pub(super) fn plan(
    options: &Apply,
    client: &Client,
    manifests: &[Manifest],
) -> Result<(), Failure> {
    let mut outlooks = Vec::new();
    let mut progress = Progress::new();
    for (i, manifest) in manifests.iter().enumerate() {
        progress.show(&format!("{i} of {} planned", manifests.len()));
        outlooks.push(of_put(client, manifest)?);
    }
    drop(progress);
    let refused = |outlooks: &[Outlook]| {
        let refused = |outlook: &&Outlook| matches!(outlook, Outlook::Refused { .. });
        outlooks.iter().filter(refused).count()
    };
    if options.prune && refused(&outlooks) == 0 {
        let renamed = old_names(&outlooks);
        for job in unmentioned(client, manifests)? {
            if !renamed.contains(&job.job) {
                outlooks.push(of_deletion(client, job.job)?);
            }
        }
    }
    let all: Value = outlooks.iter().map(Outlook::to_json).collect();
    options.asking.output.print(&all, |_| {
        let texts: Vec<String> = outlooks.iter().map(Outlook::to_text).collect();
        texts.concat()
    })?;
    match refused(&outlooks) {
        0 => {
            talk("nothing was changed: apply without --dry-run to do it");
            Ok(())
        }
        refused => Err(Failure::failed(
            format!("planning for {}", count(manifests.len() as u64, "job")),
            format!("{refused} would be refused as said above"),
            if options.prune {
                "correct what would be refused; with it, nothing would be pruned"
            } else {
                "correct what would be refused"
            },
        )),
    }
}

fn of_put(client: &Client, manifest: &Manifest) -> Result<Outlook, Failure> {
    let canonical = manifest.to_json();
    let asked = ask(client, &manifest.name, Some(canonical.clone()))?;
    let plan = match asked {
        Ok(plan) => plan,
        Err(refused) => return Ok(refused),
    };
    let after = serde_json::from_str(&canonical).expect("what is sent is JSON");
    let changes = match &plan.before {
        Some(before) => manifest_changes(&before.manifest, &after),
        None => Vec::new(),
    };
    let is_new = plan.result != "unchanged";
    let schedule = manifest.schedule();
    let next_fires = schedule
        .instants(plan.cut_over, plan.cut_over, WallMs(i64::MAX))
        .take(if is_new { FIRES_SHOWN } else { 0 })
        .map(|fire| NextFire {
            at: fire.at,
            local: rfc3339_in(fire.at, schedule.timezone().parse().unwrap_or(Tz::UTC)),
            note: schedule
                .face(&fire)
                .note
                .map_or_else(String::new, |note| format!("  {note}")),
        })
        .collect();
    Ok(Outlook::Put {
        plan,
        changes,
        next_fires,
    })
}

fn of_deletion(client: &Client, job: JobName) -> Result<Outlook, Failure> {
    let plan = match ask(client, &job, None)? {
        Ok(plan) => plan,
        Err(refused) => return Ok(refused),
    };
    if plan.leases == 0 {
        return Ok(Outlook::Deleted(plan));
    }
    let told = Told {
        status: Status::Failed,
        what: format!("deleting job {job}"),
        why: format!("{} of it run now", count(plan.leases, "shard")),
        remedy: "cancel its runs, or wait for their end".to_owned(),
    };
    Ok(Outlook::Refused { job, told })
}

/// The plan, or why there would be none. Fails where nobody answers.
fn ask(
    client: &Client,
    job: &JobName,
    manifest: Option<String>,
) -> Result<Result<JobPlan, Outlook>, Failure> {
    let path = format!("{}/plan", path_of(job));
    match client.ask(&path, &PlanRequest { manifest }) {
        Ok(plan) => Ok(Ok(plan)),
        Err(Failure::Told(told)) if told.status != Status::Unreachable => {
            let job = job.clone();
            Ok(Err(Outlook::Refused { job, told }))
        }
        Err(failure) => Err(failure),
    }
}

/// Names that jobs have until they are renamed, under which they would not be found any more.
fn old_names(outlooks: &[Outlook]) -> BTreeSet<JobName> {
    let old_name = |outlook: &Outlook| match outlook {
        Outlook::Put { plan, .. } if plan.result == "renamed" => {
            plan.before.as_ref().map(|before| before.job.clone())
        }
        _ => None,
    };
    outlooks.iter().filter_map(old_name).collect()
}

impl Outlook {
    fn to_json(&self) -> Value {
        match self {
            Outlook::Put {
                plan,
                changes,
                next_fires,
            } => {
                let changes: Value = changes
                    .iter()
                    .map(|c| json!({"field": c.field, "before": c.before, "after": c.after}))
                    .collect();
                let fires: Value = next_fires
                    .iter()
                    .map(|fire| json!({"at": fire.at.to_rfc3339(), "local": fire.local}))
                    .collect();
                let mut value = of_plan(plan);
                value["version"] = json!(plan.version);
                value["changes"] = changes;
                value["next_fires"] = fires;
                value["warnings"] = json!(plan.warnings);
                value
            }
            Outlook::Deleted(plan) => of_plan(plan),
            Outlook::Refused { job, told } => json!({
                "job": job,
                "result": "refused",
                "why": told.why,
                "remedy": told.remedy,
            }),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Outlook::Put { plan, .. } if plan.result == "unchanged" => {
                let version = plan.version.unwrap_or_default();
                let mut text = format!("{}  unchanged, version {version}\n", plan.job);
                push_warnings(&mut text, plan);
                text
            }
            Outlook::Put {
                plan,
                changes,
                next_fires,
            } => {
                let mut text = format!("{}  {}, {}\n", plan.job, plan.result, versions(plan));
                for change in changes {
                    push_change(&mut text, change);
                }
                let cut_over = if plan.before.is_some() {
                    "the version before decides up to"
                } else {
                    "it is due after"
                };
                push_line(
                    &mut text,
                    "cut-over",
                    &format!("{cut_over} {}, were it now", plan.cut_over),
                );
                for (i, fire) in next_fires.iter().enumerate() {
                    let label = if i == 0 { "next fires" } else { "" };
                    let NextFire { at, local, note } = fire;
                    push_line(&mut text, label, &format!("{at}  {local}{note}"));
                }
                if next_fires.is_empty() {
                    push_line(&mut text, "next fires", "none: its schedule has ended");
                }
                push_warnings(&mut text, plan);
                text
            }
            Outlook::Deleted(plan) => {
                let mut text = format!("{}  deleted\n", plan.job);
                if plan.open_runs > 0 {
                    let runs = count(plan.open_runs, "run");
                    push_line(
                        &mut text,
                        "cancelled",
                        &format!("{runs} of it that have not ended"),
                    );
                }
                text
            }
            Outlook::Refused { job, told } => {
                let mut text = format!("{job}  refused\n");
                push_line(&mut text, "why", &told.why);
                push_line(&mut text, "remedy", &told.remedy);
                text
            }
        }
    }
}

fn of_plan(plan: &JobPlan) -> Value {
    json!({
        "job": plan.job,
        "result": plan.result,
        "version_before": plan.before.as_ref().map(|before| before.version),
        "cut_over": plan.cut_over.to_rfc3339(),
        "open_runs": plan.open_runs,
    })
}

/// `version 1`, or `version 1 -> 2`.
fn versions(plan: &JobPlan) -> String {
    let after = plan.version.unwrap_or_default();
    match &plan.before {
        Some(before) => format!("version {} -> {after}", before.version),
        None => format!("version {after}"),
    }
}

/// `  schedule.cron: "30 23 * * *" -> "45 23 * * *"`, over two lines where it is long.
fn push_change(text: &mut String, change: &FieldChange) {
    let side = |value: &Option<Value>| {
        value.as_ref().map_or_else(
            || "left out".to_owned(),
            |value| printable(&value.to_string()),
        )
    };
    let (before, after) = (side(&change.before), side(&change.after));
    let line = format!("  {}: {before} -> {after}", change.field);
    if line.chars().count() <= LINE_WIDTH {
        text.push_str(&line);
        text.push('\n');
        return;
    }
    let _ = writeln!(text, "  {}:", change.field);
    for (sign, side) in [('-', before), ('+', after)] {
        for (i, part) in wrap(&side, LINE_WIDTH - 6).iter().enumerate() {
            let sign = if i == 0 { sign } else { ' ' };
            let _ = writeln!(text, "    {sign} {part}");
        }
    }
}

fn push_warnings(text: &mut String, plan: &JobPlan) {
    for JobWarning { field, says, .. } in &plan.warnings {
        push_line(text, "warning", &format!("{field}: {says}"));
    }
}

fn push_line(text: &mut String, label: &str, value: &str) {
    const LABEL_WIDTH: usize = 12;
    for (i, part) in wrap_prose(&printable(value), LINE_WIDTH - LABEL_WIDTH - 2)
        .iter()
        .enumerate()
    {
        let label = if i == 0 { label } else { "" };
        let _ = writeln!(text, "  {label:LABEL_WIDTH$}{part}");
    }
}
