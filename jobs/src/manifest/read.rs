//! From trees to manifests: what the fields of a manifest come to, and how they go together.

use std::collections::BTreeSet;

use protocol::attempt::Limits;

use super::command::command;
use super::form::MANIFEST;
use super::needs::{class, labels, processors, units};
use super::params::params;
use super::placeholder::Argument;
use super::policy::{Begins, Needs};
use super::problem::{Place, Problems};
use super::section::{Reported, Section};
use super::source::{self, Document};
use super::values::{duration, durations, integer, job_name, size, text, truth, user, word};
use super::yaml::{self, Key, Node, Style, Value};
use super::{Manifest, Params, policy};
use crate::schedule::{Dialect, Schedule, ScheduleSpec};

/// Reads one file. The manifests are complete only where no problem was found.
pub(super) fn file(bytes: &[u8], problems: &mut Problems) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    let Some(text) = source::text(bytes, problems) else {
        return manifests;
    };
    let mut has_content = false;
    for document in source::documents(text, problems) {
        has_content |= read(document, &mut manifests, problems);
    }
    if !has_content {
        problems.push_if_none(
            Place { line: 1, column: 1 },
            "there is no manifest in this file",
            "write one, beginning with `name: namespace/name`, or delete the file",
        );
    }
    manifests
}

/// Reads one document. Whether there is something in it.
fn read(document: Document, manifests: &mut Vec<Manifest>, problems: &mut Problems) -> bool {
    let Some(node) = yaml::parse(document, problems) else {
        return false;
    };
    for (at, entries) in jobs(&node, problems) {
        let Some(manifest) = manifest(at, entries, problems) else {
            continue;
        };
        if manifests.iter().any(|other| other.name == manifest.name) {
            problems.push(
                at,
                "name",
                format!(
                    "`{}` is the name of an earlier manifest of this file",
                    manifest.name
                ),
                "give each job a name of its own",
            );
        }
        manifests.push(manifest);
    }
    true
}

/// The mappings in a document that are jobs: one, or those between which a `---` was forgotten.
fn jobs<'a>(node: &'a Node, problems: &mut Problems) -> Vec<(Place, &'a [(Key, Node)])> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        Value::Refused => return Vec::new(),
        Value::List(_) => {
            problems.push(
                node.at,
                "",
                "the document is a list, and a manifest is a mapping of fields",
                "write each job as a document of its own, its fields at the top, with a line `---` between two jobs",
            );
            return Vec::new();
        }
        Value::Scalar { .. } => {
            problems.push(
                node.at,
                "",
                "the document is a single text, and a manifest is a mapping of fields",
                "write fields, beginning with `name: namespace/name`",
            );
            return Vec::new();
        }
    };
    let mut jobs = Vec::new();
    let (mut at, mut begin) = (node.at, 0);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (i, (key, _)) in entries.iter().enumerate() {
        let Some(name) = key.name.as_deref() else {
            continue;
        };
        if seen.contains(name) && goes_on_repeating(&entries[i..], &seen) {
            jobs.push((at, &entries[begin..i]));
            (at, begin) = (key.at, i);
            seen.clear();
            problems.push(
                at,
                "",
                "another job begins here, for the fields begin again",
                "write a line `---` before it",
            );
        }
        seen.insert(name);
    }
    jobs.push((at, &entries[begin..]));
    jobs
}

/// Whether a field that is there twice is not the only one: at least three of those that follow
/// have been there before. No more are looked at than a manifest has.
fn goes_on_repeating(entries: &[(Key, Node)], seen: &BTreeSet<&str>) -> bool {
    const REPEATED_MIN: usize = 3;
    let names = entries
        .iter()
        .take(MANIFEST.fields.len())
        .filter_map(|(key, _)| key.name.as_deref());
    let repeated: BTreeSet<&str> = names.filter(|name| seen.contains(name)).collect();
    repeated.len() >= REPEATED_MIN
}

pub(super) fn manifest(
    at: Place,
    entries: &[(Key, Node)],
    problems: &mut Problems,
) -> Option<Manifest> {
    let top = Section::manifest(at, entries, problems);
    // Everything is read before anything is missed, so that all problems come at once.
    let name = top.read("name", problems, job_name);
    let renamed_from = top.read_if_there("renamed_from", problems, job_name);
    if let (Some(name), Ok(Some(old)), Some(cell)) =
        (&name, &renamed_from, top.find("renamed_from"))
        && name == old
    {
        cell.refuse(
            "is the job's own name",
            "write the name it had before, or leave the field out",
            problems,
        );
    }
    let purpose = top.read("purpose", problems, text);
    let owner = top.read("owner", problems, text);
    let repeatable = repeatable(&top, problems);
    let schedule = schedule(&top, problems);
    let misfire = policy::misfire(&top, problems);
    let catch_up = policy::catch_up(&top, misfire, problems);
    let overlap = policy::overlap(&top, problems);
    let after = policy::after(&top, problems);
    let expected_duration = top.read("expected_duration", problems, duration);
    let timeout = top.read("timeout", problems, duration);
    let start_deadline = top.read_if_there("start_deadline", problems, duration);
    let shards = policy::shards(&top, problems);
    let retry = top.inner("retry", problems).map(|section| {
        let at_most = section.read("at_most", problems, integer);
        let backoff = section.read("backoff", problems, durations);
        (at_most, backoff)
    });
    let takeover_after = top.read("takeover_after", problems, duration);
    let needs = needs(&top, problems);
    let priority = top.read("priority", problems, integer);
    let limits = limits(&top, problems);
    let params = top.read_if_there("params", problems, params);
    let begins = top.read("begins", problems, word).map(|word| match word {
        "paused" => Begins::Paused,
        _ => Begins::Active,
    });
    let run = run(&top, params.as_ref(), problems);
    let (safe, how) = repeatable?;
    let (retry_at_most, backoff) = retry?;
    let (exec, user) = run?;
    let (overlap, serial, previous) = overlap?;
    Some(Manifest {
        name: name?,
        renamed_from: renamed_from.ok()?,
        purpose: purpose?,
        owner: owner?,
        safe,
        how,
        schedule: schedule?,
        misfire: misfire?,
        catch_up: catch_up?,
        overlap,
        serial,
        previous,
        after: after?,
        expected_duration: expected_duration?,
        timeout: timeout?,
        start_deadline: start_deadline.ok()?,
        shards: shards?,
        retry_at_most: retry_at_most?,
        backoff: backoff?,
        takeover_after: takeover_after?,
        needs: needs?,
        // The form lets nothing larger through.
        priority: priority.and_then(|priority| u8::try_from(priority).ok())?,
        limits: limits?,
        params: params.ok()?.unwrap_or_default(),
        begins: begins?,
        user,
        exec,
    })
}

fn repeatable(top: &Section, problems: &mut Problems) -> Option<(bool, Option<String>)> {
    let section = top.inner("repeatable", problems)?;
    let safe = section.read("safe", problems, truth);
    let how = section.read_if_there("how", problems, text);
    if (safe, &how) == (Some(true), &Ok(None)) {
        section.miss_with(
            "how",
            "write why a second run does no harm, for example `how: \"full recompute, replaces the day\"`",
            problems,
        );
        return None;
    }
    Some((safe?, how.ok()?))
}

fn schedule(top: &Section, problems: &mut Problems) -> Option<Schedule> {
    let section = top.inner("schedule", problems)?;
    let cron = section.read("cron", problems, text);
    let timezone = section.read("timezone", problems, text);
    let dialect: Option<Dialect> = section
        .read("dialect", problems, word)
        .and_then(|word| word.parse().ok());
    // Where one part is missing, the others are judged beside a harmless one.
    let complete = cron.is_some() && timezone.is_some() && dialect.is_some();
    let cron = cron.filter(|_| dialect.is_some());
    let spec = ScheduleSpec {
        cron: cron.unwrap_or_else(|| "@daily".to_owned()),
        timezone: timezone.unwrap_or_else(|| "Etc/UTC".to_owned()),
        dialect: dialect.unwrap_or_default(),
    };
    let errors = match Schedule::parse_whole(&spec) {
        Ok(schedule) => return complete.then_some(schedule),
        Err(errors) => errors,
    };
    for error in errors {
        let field = match error.field {
            "timezone" => "timezone",
            _ => "cron",
        };
        let part = match error.field {
            "timezone" | "cron" => String::new(),
            part => format!("{part} "),
        };
        let what = format!("{part}`{}` {}", error.text, error.reason);
        if let Some(cell) = section.find(field) {
            let remedy = error.remedies(|name, value| format!("{name}: {value}"));
            cell.refuse(what, remedy, problems);
        }
    }
    None
}

fn limits(top: &Section, problems: &mut Problems) -> Option<Limits> {
    let section = top.inner("limits", problems)?;
    let memory_bytes = section.read_if_there("memory", problems, size);
    let pids = section.read_if_there("pids", problems, integer);
    let cpu_weight = section.read_if_there("cpu_weight", problems, integer);
    let io_weight = section.read_if_there("io_weight", problems, integer);
    // The form lets nothing larger through.
    let weight = |read: Option<u32>| read.and_then(|weight| u16::try_from(weight).ok());
    Some(Limits {
        memory_bytes: memory_bytes.ok()?,
        pids: pids.ok()?,
        cpu_weight: weight(cpu_weight.ok()?),
        io_weight: weight(io_weight.ok()?),
    })
}

fn needs(top: &Section, problems: &mut Problems) -> Option<Needs> {
    let section = top.inner("needs", problems)?;
    let class = section.read_if_there("class", problems, class);
    let labels = section.read_if_there("labels", problems, labels);
    let cpu_milli = section.read_if_there("cpu", problems, processors);
    let memory_bytes = section.read_if_there("memory", problems, size);
    let uses = section.read_if_there("uses", problems, units);
    Some(Needs {
        class: class.ok()?,
        labels: labels.ok()?.unwrap_or_default(),
        cpu_milli: cpu_milli.ok()?,
        memory_bytes: memory_bytes.ok()?,
        uses: uses.ok()?.unwrap_or_default(),
    })
}

fn run(
    top: &Section,
    params: Result<&Option<Params>, &Reported>,
    problems: &mut Problems,
) -> Option<(Vec<Argument>, Option<String>)> {
    const NONE: &Params = &Params::new();
    let section = top.inner("run", problems)?;
    // Where the parameters could not be read, nothing is said of those that are named.
    let params = params.ok().map(|params| params.as_ref().unwrap_or(NONE));
    let exec = section.read("exec", problems, |cell, problems| {
        command(cell, params, problems)
    });
    let user = section.read_if_there("user", problems, user);
    Some((exec?, user.ok()?))
}

/// Reads a stored manifest as a new one is read; it stands at no place.
pub(super) fn stored(json: serde_json::Value, problems: &mut Problems) -> Option<Manifest> {
    let node = node_of_json(json);
    let mut manifests = jobs(&node, problems)
        .into_iter()
        .map(|(at, entries)| manifest(at, entries, problems))
        .collect::<Vec<_>>();
    manifests.pop().flatten()
}

fn node_of_json(json: serde_json::Value) -> Node {
    use serde_json::Value as Json;
    let plain = |text: String| Value::Scalar {
        text,
        style: Style::Plain,
    };
    let value = match json {
        Json::Null => plain("null".to_owned()),
        Json::Bool(truth) => plain(truth.to_string()),
        Json::Number(number) => plain(number.to_string()),
        Json::String(text) => Value::Scalar {
            text,
            style: Style::Quoted,
        },
        Json::Array(items) => Value::List(items.into_iter().map(node_of_json).collect()),
        Json::Object(fields) => Value::Map(
            fields
                .into_iter()
                .map(|(name, value)| {
                    let key = Key {
                        at: Place::default(),
                        name: Some(name),
                    };
                    (key, node_of_json(value))
                })
                .collect(),
        ),
    };
    Node {
        at: Place::default(),
        value,
    }
}
