//! The vixie rows of the corpus: what real engines agreed on, and what was decided where they
//! did not.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test says what it skips, and fails by panic

use std::path::PathBuf;

use jobs::{Schedule, ScheduleSpec};
use protocol::WallMs;
use serde_json::Value;

/// The rows of a corpus file, or none, with a line that says so, where the corpus is absent.
#[allow(clippy::disallowed_methods)] // a test may be told where the corpus lies
fn vixie_rows(file: &str) -> Vec<Value> {
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
        .filter(|row| row["dialect"] == "vixie")
        .collect();
    assert!(rows.len() > 20, "{file} has only {} vixie rows", rows.len());
    rows
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap()
}

fn parse(row: &Value) -> Result<Schedule, jobs::ScheduleError> {
    Schedule::parse(&ScheduleSpec {
        cron: text(row, "expr").to_owned(),
        timezone: text(row, "tz").to_owned(),
    })
}

/// As many fires after the row's `after` as it expects.
fn fires(schedule: &Schedule, row: &Value, count: usize) -> Vec<String> {
    let after = WallMs::parse_rfc3339(text(row, "after")).unwrap();
    schedule
        .instants(after, after, WallMs(i64::MAX))
        .take(count)
        .map(|instant| instant.at.to_rfc3339())
        .collect()
}

fn expected(answer: &Value) -> Vec<String> {
    answer
        .as_array()
        .unwrap()
        .iter()
        .map(|at| at.as_str().unwrap().to_owned())
        .collect()
}

/// Rows marked `strict_only` are errors that a superset may accept. Of those we accept one:
/// `@every`. All others are refused.
const ACCEPTED_BEYOND_VIXIE: [&str; 1] = ["@every 1h30m"];

#[test]
fn oracle() {
    let mut wrong = Vec::new();
    for row in vixie_rows("oracle.jsonl") {
        let (id, expr) = (text(&row, "id"), text(&row, "expr"));
        match (parse(&row), row.get("expect")) {
            (Ok(schedule), Some(answer)) => {
                let expected = expected(answer);
                let fires = fires(&schedule, &row, expected.len());
                if fires != expected {
                    wrong.push(format!(
                        "{id} {expr} {}: {fires:?}, not {expected:?}",
                        row["tz"]
                    ));
                }
            }
            (Err(error), Some(_)) => wrong.push(format!("{id} {expr}: refused: {error}")),
            (Ok(_), None) => {
                if row["strict_only"] != true || !ACCEPTED_BEYOND_VIXIE.contains(&expr) {
                    wrong.push(format!("{id} {expr}: accepted"));
                }
            }
            (Err(_), None) => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Where the engines disagree: the decision is the row's `recommended`, else in its question.
#[test]
fn policy() {
    let mut wrong = Vec::new();
    for row in vixie_rows("policy.jsonl") {
        let (id, expr) = (text(&row, "id"), text(&row, "expr"));
        let answer = match (row.get("recommended"), text(&row, "category"), expr) {
            (Some(recommended), _, _) => Some(recommended),
            // A local day that does not exist: as Debian, nothing is caught up.
            (None, "dst_dateline", _) => Some(&row["answers"]["debian"]),
            // Saturday and Sunday, as cronie reads it.
            (None, "err", "* * * * sat-sun") => Some(&row["answers"]["cronie"]),
            // `5#3`, `@reboot`, `0~30`, and a step that no field can hold.
            (None, "err", _) => None,
            other => panic!("{id}: no decision for {other:?}"),
        };
        match (parse(&row), answer) {
            (Ok(schedule), Some(answer)) => {
                let expected = expected(answer);
                let fires = fires(&schedule, &row, expected.len());
                if fires != expected {
                    wrong.push(format!(
                        "{id} {expr} {}: {fires:?}, not {expected:?}",
                        row["tz"]
                    ));
                }
            }
            (Err(error), Some(_)) => wrong.push(format!("{id} {expr}: refused: {error}")),
            (Ok(_), None) => wrong.push(format!("{id} {expr}: accepted")),
            (Err(_), None) => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
