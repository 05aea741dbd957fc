//! The account of an import: a table for people, `report.json` for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::account::{Account, Count, Entry, Kind};
use super::draft::Draft;
use super::plan::{Existing, Planned, Step, left_over};
use crate::text::{LINE_WIDTH, Table, count, wrap_prose};

/// `report.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// `crontab`, `k8s`, `xxl` or `quartz`.
    imported_from: &'static str,
    jobs: usize,
    not_carried_over: usize,
    bad: usize,
    files: Vec<FileReport>,
    manifests: Vec<ManifestReport>,
    /// Files that an earlier import of these sources wrote, and of which they have nothing now.
    left_over: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FileReport {
    file: String,
    lines: Count,
    notes: Vec<String>,
    entries: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct ManifestReport {
    job: String,
    /// Below the directory of the report.
    path: String,
    what: Step,
    file: String,
    line: u32,
    schedule: String,
    timezone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// It was switched off in the source.
    was_off: bool,
    decide: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        imported_from: &'static str,
        accounts: &[Account],
        planned: &[Planned],
        existing: &Existing,
    ) -> Report {
        let drafts: Vec<(&Account, &Draft)> = accounts
            .iter()
            .flat_map(|account| account.drafts.iter().map(move |draft| (account, draft)))
            .collect();
        let manifests: Vec<ManifestReport> = drafts
            .iter()
            .zip(planned)
            .map(|((account, draft), file)| ManifestReport {
                job: draft.name.clone(),
                path: file.path.clone(),
                what: file.step,
                file: account.file.clone(),
                line: draft.line,
                schedule: draft.cron.clone(),
                timezone: draft.timezone.value.clone(),
                user: draft.user.clone(),
                was_off: draft.was_off,
                decide: draft.decide.clone(),
            })
            .collect();
        let sources: Vec<String> = accounts
            .iter()
            .map(|account| format!("{imported_from} {}", account.file))
            .collect();
        let of_kind = |kind| {
            let entries = accounts.iter().flat_map(|account| &account.entries);
            entries.filter(|entry| entry.kind == kind).count()
        };
        let written: Vec<&Draft> = drafts.iter().map(|(_, draft)| *draft).collect();
        Report {
            imported_from,
            jobs: manifests.len(),
            not_carried_over: of_kind(Kind::NotCarriedOver),
            bad: of_kind(Kind::Bad),
            files: accounts
                .iter()
                .map(|account| FileReport {
                    file: account.file.clone(),
                    lines: account.count(),
                    notes: account.notes.clone(),
                    entries: account.entries.clone(),
                })
                .collect(),
            manifests,
            left_over: left_over(&written, existing, &sources),
        }
    }

    pub(crate) fn manifests(&self) -> usize {
        self.manifests.len()
    }

    pub(crate) fn left_over(&self) -> &[String] {
        &self.left_over
    }

    /// `2 new, 1 unchanged`.
    pub(crate) fn steps(&self) -> String {
        let mut steps: BTreeMap<Step, u32> = BTreeMap::new();
        for manifest in &self.manifests {
            *steps.entry(manifest.what).or_default() += 1;
        }
        let words: Vec<String> = steps
            .iter()
            .map(|(step, n)| {
                let word = match step {
                    Step::New => "new",
                    Step::Updated => "updated",
                    Step::Unchanged => "unchanged",
                    Step::Kept => "with your changes, kept",
                    Step::Edited | Step::Foreign => "not written",
                };
                format!("{n} {word}")
            })
            .collect();
        words.join(", ")
    }
}

/// The account for people, at 80 columns: everything but what is neither job nor trouble.
pub(crate) fn show(accounts: &[Account]) -> String {
    let mut text = String::new();
    for account in accounts {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&show_account(account));
    }
    text
}

fn show_account(account: &Account) -> String {
    let mut text = format!("{}\n", show_count(account));
    for note in &account.notes {
        for (i, line) in wrap_prose(note, LINE_WIDTH - 4).iter().enumerate() {
            text.push_str(if i == 0 { "  ! " } else { "    " });
            text.push_str(line);
            text.push('\n');
        }
    }
    let drafts: BTreeMap<&str, &Draft> = account
        .drafts
        .iter()
        .map(|draft| (draft.name.as_str(), draft))
        .collect();
    let mut table = Table::new(&["LINE", "WHAT", "~JOB OR REASON"]);
    for entry in &account.entries {
        let what = match entry.kind {
            Kind::Blank | Kind::Comment | Kind::Frame => continue,
            Kind::Environment => "setting",
            Kind::NotCarriedOver => "not carried over",
            Kind::Job => "job",
            Kind::Bad => "BAD",
        };
        let place = match entry.through {
            through if through > entry.line => format!("{}-{through}", entry.line),
            _ => entry.line.to_string(),
        };
        table.row(vec![place, what.to_owned(), told(&drafts, entry)]);
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.render());
    }
    text
}

fn told(drafts: &BTreeMap<&str, &Draft>, entry: &Entry) -> String {
    if let Some(job) = &entry.job {
        let draft = drafts.get(job.as_str());
        let mut told = job.clone();
        for decide in draft.iter().flat_map(|draft| &draft.decide) {
            told.push_str("\n! ");
            told.push_str(decide);
        }
        return told;
    }
    let mut told = super::account::cut(entry.text.trim(), 100).replace('\t', " ");
    for part in [&entry.why, &entry.remedy] {
        if !part.is_empty() {
            if !told.is_empty() {
                told.push('\n');
            }
            told.push_str(part);
        }
    }
    told
}

/// `sysstat: 9 lines: 2 of jobs, 1 of settings, 3 of comments, 3 blank`.
fn show_count(account: &Account) -> String {
    let lines = account.count();
    let parts: Vec<String> = [
        (lines.job, "of jobs"),
        (lines.bad, "bad"),
        (lines.not_carried_over, "not carried over"),
        (lines.environment, "of settings"),
        (lines.frame, "of structure"),
        (lines.comment, "of comments"),
        (lines.blank, "blank"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{n} {what}"))
    .collect();
    let text = format!(
        "{}: {}, {}: {}",
        account.file,
        count(account.drafts.len() as u64, "job"),
        count(u64::from(lines.total), "line"),
        parts.join(", ")
    );
    wrap_prose(&text, LINE_WIDTH - 2).join("\n  ")
}
