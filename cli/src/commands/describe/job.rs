use protocol::WallMs;
use protocol::api::JobDetail;
use serde_json::Value;

use super::Facts;
use crate::amounts::rough;
use crate::clock::in_zone_unless_utc;
use crate::commands::{shards_done, took};
use crate::output::Room;
use crate::text::Table;

/// A job for people.
pub(super) fn show(detail: &JobDetail, now: WallMs, room: Room) -> String {
    let job = &detail.job;
    let mut facts = Facts::under(&format!(
        "{}  ({}, version {})",
        job.job, job.id, job.version
    ));
    facts.add_some("problem", job.problem.as_deref());
    if let Some(paused) = &job.paused {
        facts.add_state(
            "paused",
            &format!("since {} by {}: {}", paused.at, paused.by, paused.reason),
        );
    }
    facts.add("purpose", &job.purpose);
    facts.add("owner", &job.owner);
    facts.add(
        "schedule",
        &format!("{}  in {}{}", job.schedule, job.timezone, dialect(detail)),
    );
    facts.add("next fire", &next_fire(detail, now));
    facts.add(
        "settled",
        &format!("every fire time up to {}", job.fired_through),
    );
    for (label, text) in policies(&detail.manifest, detail.shards) {
        facts.add(label, &text);
    }
    let mut text = facts.text;
    if !detail.runs.is_empty() {
        let mut runs = Table::new(&["RUN", "FIRE TIME", "=STATE", "DONE", "TOOK", "~WHY"]);
        for run in &detail.runs {
            runs.row(vec![
                run.run.to_string(),
                run.fire_time.to_rfc3339(),
                run.state.to_string(),
                shards_done(run),
                took(run),
                run.reason.clone().unwrap_or_default(),
            ]);
        }
        text.push('\n');
        text.push_str(&runs.render_in(room));
    }
    if !detail.gaps.is_empty() {
        let mut gaps = Table::new(&["GAP AFTER", "THROUGH", "COUNT", "~WHY"]);
        for gap in &detail.gaps {
            gaps.row(vec![
                gap.from.to_rfc3339(),
                gap.through.to_rfc3339(),
                gap.count.to_string(),
                gap.reason.clone(),
            ]);
        }
        text.push('\n');
        text.push_str(&gaps.render_in(room));
    }
    text
}

fn next_fire(detail: &JobDetail, now: WallMs) -> String {
    let Some(next) = detail.job.next_fire else {
        let paused = detail.job.paused.as_ref();
        let none = paused.map_or("unknown", |_| "none while it is paused");
        return none.to_owned();
    };
    let until = if next > now {
        format!(", in {}", rough(next - now))
    } else {
        String::new()
    };
    let zone = detail.job.timezone.parse().ok();
    let local = zone
        .and_then(|zone| in_zone_unless_utc(next, zone))
        .map_or_else(String::new, |local| format!(" ({local})"));
    format!("{next}{until}{local}")
}

/// The dialect that the schedule is to be read in, where it is not the usual one.
fn dialect(detail: &JobDetail) -> String {
    match detail.manifest["schedule"]["dialect"].as_str() {
        Some(dialect) => format!(" ({dialect})"),
        None => String::new(),
    }
}

/// What the manifest says beside the schedule, in its own words.
fn policies(manifest: &Value, shards: u32) -> Vec<(&'static str, String)> {
    let text = |pointer: &str| manifest.pointer(pointer).map(plain);
    let mut lines = Vec::new();
    let mut add = |label, text: Option<String>| lines.extend(text.map(|text| (label, text)));
    let how = text("/repeatable/how");
    add(
        "repeatable",
        text("/repeatable/safe").map(|safe| match (safe.as_str(), how) {
            ("true", how) => format!("yes: {}", how.unwrap_or_default()),
            (_, Some(how)) => format!("no: {how}"),
            (_, None) => "no".to_owned(),
        }),
    );
    add(
        "misfire",
        text("/misfire/policy").map(|policy| {
            let within = text("/misfire/within").map_or_else(String::new, |w| format!(" {w}"));
            let after = text("/misfire/after").unwrap_or_default();
            format!("{policy}{within}, where later than {after}")
        }),
    );
    add("overlap", text("/overlap"));
    add(
        "previous",
        text("/previous").map(|end| format!("its own fire before must have {end}")),
    );
    add("after", manifest.pointer("/after").map(after));
    add(
        "duration",
        text("/expected_duration").map(|expected| {
            let timeout = text("/timeout").unwrap_or_default();
            format!("{expected} expected; an attempt is ended after {timeout}")
        }),
    );
    add(
        "start by",
        text("/start_deadline").map(|d| format!("{d} after it is due")),
    );
    let computed = text("/shards/of").zip(text("/shards/target"));
    add(
        "shards",
        Some(computed.map_or_else(
            || shards.to_string(),
            |(of, target)| format!("{shards}, computed of {of} in pieces of {target}"),
        )),
    );
    add("needs", manifest.pointer("/needs").map(needs));
    add(
        "retries",
        text("/retry/at_most").map(|at_most| {
            let backoff = text("/retry/backoff").unwrap_or_default();
            format!("{at_most} per shard, after {backoff}")
        }),
    );
    add(
        "takeover",
        text("/takeover_after").map(|t| format!("{t} after a host fell silent")),
    );
    add("command", manifest.pointer("/run/exec").map(command));
    lines
}

/// The jobs that are waited for, and which of their runs.
fn after(after: &Value) -> String {
    let others = after.as_array().into_iter().flatten().map(|other| {
        let which = match &other["latest_within"] {
            Value::String(within) => format!("latest_within {within}"),
            _ => plain(&other["match"]),
        };
        format!("{} ({which})", plain(&other["job"]))
    });
    others.collect::<Vec<_>>().join(", ")
}

/// What a shard takes: `db 2, lock 1, on hosts with gpu, ssd`.
fn needs(needs: &Value) -> String {
    let uses = needs["uses"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = uses.map(|(name, n)| format!("{name} {n}")).collect();
    if needs["labels"].is_array() {
        parts.push(format!("on hosts with {}", plain(&needs["labels"])));
    }
    parts.join(", ")
}

/// An argument list with its quotes: where one argument ends is not to be guessed.
fn command(exec: &Value) -> String {
    let arguments = exec.as_array().into_iter().flatten();
    let quoted: Vec<String> = arguments.map(ToString::to_string).collect();
    quoted.join(" ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_waits_for_and_takes_is_told() {
        let manifest = serde_json::json!({
            "previous": "succeeded",
            "after": [
                { "job": "x/pre", "match": "same_fire" },
                { "job": "x/load", "latest_within": "2h" },
            ],
            "shards": { "of": "1h30m", "target": "3m" },
            "needs": { "labels": ["gpu", "zone=a"], "uses": { "db": 2, "lock": 1 } },
        });
        assert_eq!(
            policies(&manifest, 30),
            [
                (
                    "previous",
                    "its own fire before must have succeeded".to_owned()
                ),
                (
                    "after",
                    "x/pre (same_fire), x/load (latest_within 2h)".to_owned()
                ),
                ("shards", "30, computed of 1h30m in pieces of 3m".to_owned()),
                (
                    "needs",
                    "db 2, lock 1, on hosts with gpu, zone=a".to_owned()
                ),
            ]
        );
        let labels = serde_json::json!({ "needs": { "labels": ["gpu"] } });
        assert_eq!(
            policies(&labels, 1),
            [
                ("shards", "1".to_owned()),
                ("needs", "on hosts with gpu".to_owned())
            ]
        );
    }

    #[test]
    fn a_job_is_told_in_its_own_words_at_80_columns() {
        let detail: JobDetail = serde_json::from_str(include_str!("sample_job.json")).unwrap();
        let now = WallMs::parse_rfc3339("2026-11-29T15:25:48Z").unwrap();
        let text = show(&detail, now, Room::Columns80);
        assert_eq!(text, include_str!("sample_job.txt"));
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }
}
