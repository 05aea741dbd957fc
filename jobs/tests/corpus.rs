//! The rows of the corpus, dialect by dialect: what real engines agreed on, and what was decided
//! where they did not.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test says what it skips, and fails by panic

use std::path::PathBuf;

use jobs::{Dialect, Schedule, ScheduleSpec};
use protocol::WallMs;
use serde_json::Value;

/// The rows of a corpus file, or none, with a line that says so, where the corpus is absent.
#[allow(clippy::disallowed_methods)] // a test may be told where the corpus lies
fn rows(file: &str) -> Vec<Value> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus");
    let root =
        std::env::var_os("MATINS_CORPUS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = root.join("cron").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no corpus at {}", path.display());
        return Vec::new();
    };
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .collect();
    for dialect in ["vixie", "quartz", "k8s"] {
        let count = rows.iter().filter(|row| row["dialect"] == dialect).count();
        assert!(count > 15, "{file} has only {count} rows of {dialect}");
    }
    rows
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap()
}

fn parse(row: &Value) -> Result<Schedule, jobs::ScheduleError> {
    let dialect = match text(row, "dialect") {
        "k8s" => Dialect::Kubernetes,
        name => name.parse().unwrap(),
    };
    Schedule::parse(&ScheduleSpec {
        cron: text(row, "expr").to_owned(),
        timezone: text(row, "tz").to_owned(),
        dialect,
    })
}

/// What is wrong with our reading of a row, if anything: `expected` are its fires, or `None`
/// where it is to be refused.
fn judge(row: &Value, expected: Option<&Value>) -> Option<String> {
    let here = ["id", "dialect", "expr", "tz"].map(|field| text(row, field));
    let schedule = match (parse(row), expected) {
        (Ok(schedule), Some(_)) => schedule,
        (Ok(_), None) => return Some(format!("{here:?}: accepted")),
        (Err(error), Some(_)) => return Some(format!("{here:?}: refused: {error}")),
        (Err(_), None) => return None,
    };
    let expected: Vec<&str> = expected?
        .as_array()
        .unwrap()
        .iter()
        .map(|at| at.as_str().unwrap())
        .collect();
    let after = WallMs::parse_rfc3339(text(row, "after")).unwrap();
    // Where the engines found no more, there must be no more.
    let count = expected.len() + usize::from(row["exhausted"] == true);
    let instants: Vec<_> = schedule
        .instants(after, after, WallMs(i64::MAX))
        .take(count)
        .collect();
    let fires: Vec<String> = instants
        .iter()
        .map(|instant| instant.at.to_rfc3339())
        .collect();
    if fires != expected {
        return Some(format!("{here:?}: {fires:?}, not {expected:?}"));
    }
    let from_the_end = instants.last().map_or(Vec::new(), |last| {
        schedule.newest(after, after, last.at, usize::MAX)
    });
    (from_the_end != instants).then(|| format!("{here:?}: from the end {from_the_end:?}"))
}

fn nothing_is_wrong(judged: impl Iterator<Item = Option<String>>) {
    let wrong: Vec<String> = judged.flatten().collect();
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Rows marked `strict_only` are errors that a superset may accept. Of those we accept one:
/// `@every`, which every dialect has here. All others are refused.
const ACCEPTED_BEYOND: [&str; 1] = ["@every 1h30m"];

#[test]
fn oracle() {
    nothing_is_wrong(rows("oracle.jsonl").iter().map(|row| {
        let accepted_beyond =
            row["strict_only"] == true && ACCEPTED_BEYOND.contains(&text(row, "expr"));
        if accepted_beyond {
            return parse(row).err().map(|error| error.to_string());
        }
        judge(row, row.get("expect"))
    }));
}

/// Where the engines disagree: the decision is the row's `recommended`, else in its question.
#[test]
fn policy() {
    nothing_is_wrong(rows("policy.jsonl").iter().map(|row| {
        let answer = |engine: &str| Some(&row["answers"][engine]);
        let place = (
            text(row, "dialect"),
            text(row, "category"),
            text(row, "expr"),
        );
        let decided = match place {
            _ if row.get("recommended").is_some() => row.get("recommended"),
            // A local day that does not exist: as Debian, nothing is caught up.
            ("vixie", "dst_dateline", _) => answer("debian"),
            // Saturday and Sunday, as cronie reads it.
            ("vixie", "err", "* * * * sat-sun") => answer("cronie"),
            // Spring's way to write every day.
            ("quartz", "qerr", "0 0 12 * * *") => answer("croner_q"),
            // Macros are in every dialect.
            ("quartz", "qerr", expr) if expr.starts_with('@') => answer("croner_q"),
            ("k8s", "k8s", expr) if expr.starts_with("@every ") => answer("robfig"),
            // Nothing skipped and nothing doubled, in every dialect.
            ("k8s", category, _) if category.starts_with("k8s_dst") => answer("debian"),
            // `5#3`, `@reboot`, `0~30`, a step that no field can hold; what Quartz lets pass against
            // its own documentation; `TZ=`, and a macro in capitals.
            ("vixie", "err", _) | ("quartz", "qerr", _) | ("k8s", "k8s", _) => None,
            other => panic!("{}: no decision for {other:?}", text(row, "id")),
        };
        judge(row, decided)
    }));
}
