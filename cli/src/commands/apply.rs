//! `matins apply`: jobs from manifests.
//!
//! Everything is read and judged here before anything is sent, so that a directory with one
//! mistake in it changes nothing. The coordinator judges each manifest again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jobs::{Manifest, Problem, parse_manifests};
use protocol::api::{DeleteJobRequest, Job, PutJobAnswer, PutJobRequest};
use protocol::{JobName, WallMs};
use serde_json::json;

use crate::args::Apply;
use crate::client::Client;
use crate::commands::asking_user;
use crate::failure::{Failure, Status, Told};
use crate::output::{Format, print, print_json, talk};
use crate::text::{LINE_WIDTH, Table, count, printable, wrap};

/// What became of the manifests that were sent.
pub(crate) struct Applied {
    pub(crate) answers: Vec<PutJobAnswer>,
    pub(crate) deleted: Vec<JobName>,
    /// Of jobs that were refused; the others stand.
    pub(crate) refused: Vec<Told>,
}

pub(crate) fn apply(options: &Apply) -> Result<(), Failure> {
    let manifests = read_all(&options.files)?;
    let client = options.asking.target.find()?;
    let (mut applied, end) = put_all(&client, &manifests);
    let end = end.and_then(|()| {
        if options.prune && applied.refused.is_empty() {
            prune(&client, &manifests, &mut applied.deleted)?;
        }
        Ok(())
    });
    // What was done is said even where the rest failed.
    match options.asking.output {
        Format::Json => print_json(&applied.to_json())?,
        Format::Table if applied.is_empty() => {}
        Format::Table => print(&applied.to_table().render())?,
    }
    for refusal in &applied.refused {
        talk(&refusal.to_string());
    }
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

/// Every manifest of these files and directories, or everything that is wrong with them.
/// Problems are said as they would be by a compiler; the failure only counts them.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Manifest>, Failure> {
    let files = list_files(paths)?;
    let mut manifests = Vec::new();
    let mut problems = Vec::new();
    let mut seen: BTreeMap<JobName, String> = BTreeMap::new();
    for file in &files {
        let name = file.display().to_string();
        match read_file(file).and_then(|text| parse_manifests(&name, &text)) {
            Ok(found) => {
                for manifest in found {
                    let first = seen.entry(manifest.name.clone()).or_insert(name.clone());
                    if *first != name {
                        problems.push(of_file(
                            &name,
                            format!("{} is in {first} too", manifest.name),
                            "keep one of the two",
                        ));
                    }
                    manifests.push(manifest);
                }
            }
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() {
        return Ok(manifests);
    }
    for problem in &problems {
        talk(&show_problem(problem));
    }
    Err(Failure::bad_input(
        format!("reading {}", count(files.len() as u64, "manifest file")),
        format!(
            "{} found, so nothing was applied",
            count(problems.len() as u64, "problem")
        ),
        "correct them and apply again",
    ))
}

/// Sends every manifest. Stops early only where nobody answers any more.
pub(crate) fn put_all(client: &Client, manifests: &[Manifest]) -> (Applied, Result<(), Failure>) {
    let mut applied = Applied {
        answers: Vec::new(),
        deleted: Vec::new(),
        refused: Vec::new(),
    };
    for manifest in manifests {
        let request = PutJobRequest {
            // JSON is YAML, and one file may hold several manifests: each is sent in its
            // canonical form.
            manifest: manifest.to_json(),
            by: asking_user(),
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

/// Deletes the jobs of the manifests' namespaces that have no manifest.
fn prune(
    client: &Client,
    manifests: &[Manifest],
    deleted: &mut Vec<JobName>,
) -> Result<(), Failure> {
    let namespaces: BTreeSet<&str> = manifests.iter().map(|m| m.name.namespace()).collect();
    let kept: BTreeSet<&JobName> = manifests.iter().map(|m| &m.name).collect();
    let known: Vec<Job> = client.get("/api/v1/jobs", &[])?;
    for job in known.into_iter().map(|job| job.job) {
        if namespaces.contains(job.namespace()) && !kept.contains(&job) {
            let request = DeleteJobRequest { by: asking_user() };
            client.delete(&path_of(&job), &request)?;
            deleted.push(job);
        }
    }
    Ok(())
}

fn path_of(job: &JobName) -> String {
    format!("/api/v1/jobs/{}/{}", job.namespace(), job.name())
}

/// The files meant: those named, and of directories the `*.yaml` and `*.yml` in them, sorted.
fn list_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = |error: io::Error| {
            Failure::bad_input(
                format!("reading manifests from {}", path.display()),
                error.to_string(),
                "name a file, or a directory of *.yaml and *.yml files, that you may read",
            )
        };
        if !fs::metadata(path).map_err(unreadable)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            let is_yaml = file.extension().is_some_and(|e| e == "yaml" || e == "yml");
            if is_yaml && !file.is_dir() {
                found.push(file);
            }
        }
        if found.is_empty() {
            return Err(Failure::bad_input(
                format!("reading manifests from {}", path.display()),
                "the directory has no *.yaml and no *.yml file (those of directories below it \
                 are not read)",
                "name the directory that holds the manifests",
            ));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

fn read_file(file: &Path) -> Result<String, Vec<Problem>> {
    fs::read_to_string(file).map_err(|error| {
        vec![of_file(
            &file.display().to_string(),
            error.to_string(),
            "see that it is a text file in UTF-8 that you may read",
        )]
    })
}

fn of_file(file: &str, what: String, remedy: &str) -> Problem {
    Problem {
        file: file.to_owned(),
        line: 0,
        column: 0,
        field: String::new(),
        what,
        remedy: remedy.to_owned(),
    }
}

/// The place on the first line, as editors read it, and the words indented below.
fn show_problem(problem: &Problem) -> String {
    let place = match problem.line {
        0 => String::new(),
        line => format!(":{line}:{}", problem.column),
    };
    let mut text = format!("{}{place}: {}", problem.file, problem.field);
    text.truncate(text.trim_end().len());
    for part in [&problem.what, &problem.remedy] {
        for line in wrap(&printable(part), LINE_WIDTH - 4) {
            text.push_str("\n    ");
            text.push_str(&line);
        }
    }
    text
}

impl Applied {
    fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.deleted.is_empty()
    }

    fn to_table(&self) -> Table {
        let mut table = Table::new(&["~JOB", "RESULT", "VERSION", "NEXT FIRE"]);
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
        table
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_where_an_editor_finds_it() {
        let problem = Problem {
            file: "jobs/a.yaml".to_owned(),
            line: 3,
            column: 12,
            field: "schedule.cron".to_owned(),
            what: "61 is not a minute".to_owned(),
            remedy: "write 0 to 59".to_owned(),
        };
        assert_eq!(
            show_problem(&problem),
            "jobs/a.yaml:3:12: schedule.cron\n    61 is not a minute\n    write 0 to 59"
        );
        let whole = of_file("b.yaml", "no such file".to_owned(), "name another");
        assert_eq!(
            show_problem(&whole),
            "b.yaml:\n    no such file\n    name another"
        );
    }
}
