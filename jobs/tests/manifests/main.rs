//! Manifests as people write them, right and wrong.

#![allow(clippy::unwrap_used)] // a test fails by panic

mod anything;
mod good;
mod stored;
mod typical;
mod wrong;
mod yaml;

use jobs::{Manifest, Problem, parse_manifests};

/// A manifest with the fewest fields, one a line.
const LEAST: &str = r#"name: demo/least
purpose: Show the least.
owner: demo
repeatable: { safe: false }
schedule: { cron: "30 23 * * *", timezone: Asia/Shanghai }
misfire: { policy: skip }
overlap: queue
expected_duration: 40m
timeout: 15m
run: { exec: ["/bin/true"] }
"#;

fn one(yaml: &str) -> Manifest {
    let mut manifests = parse_manifests("job.yaml", yaml)
        .unwrap_or_else(|problems| panic!("{}", lines(&problems).join("\n")));
    assert_eq!(manifests.len(), 1);
    manifests.remove(0)
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn refused(yaml: impl AsRef<[u8]>) -> Vec<String> {
    let shown = String::from_utf8_lossy(yaml.as_ref()).into_owned();
    lines(&parse_manifests("job.yaml", yaml).expect_err(&shown))
}

/// [`LEAST`] with the line of one field replaced (or added, where it has none).
fn with(field: &str, line: &str) -> String {
    let mut kept: Vec<&str> = LEAST
        .lines()
        .filter(|kept| !kept.starts_with(&format!("{field}:")))
        .collect();
    kept.push(line);
    kept.join("\n")
}

/// A manifest with the line of one field replaced in its place, or added where it has none.
fn edited(yaml: &str, field: &str, line: &str) -> String {
    let is_field = |kept: &&str| kept.starts_with(&format!("{field}:"));
    match yaml.lines().find(is_field) {
        Some(kept) => yaml.replacen(kept, line, 1),
        None => format!("{yaml}\n{line}\n"),
    }
}
