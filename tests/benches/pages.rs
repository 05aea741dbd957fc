//! What a page of each list costs with ever more runs in the ledger: run by `make bench`, quoted in
//! docs/BENCHMARKS.md. Rows are written past the ledger's commands, to have a million of them soon.
#![allow(clippy::print_stdout)] // figures are its output

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ledger::{Reader, RunCursor, RunFilter, RunState, Store};
use protocol::{Rules, RunId, WallMs};
use rusqlite::Connection;

const JOBS: i64 = 1000;
const ROUNDS: usize = 7;
const MINUTE: i64 = 60_000;

fn main() -> Result<()> {
    println!("milliseconds a page of 50, median of {ROUNDS}\n");
    let names: Vec<&str> = lists(0).into_iter().map(|(name, _)| name).collect();
    println!("| runs | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for runs in [1_000, 10_000, 100_000, 1_000_000] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("ledger.db");
        fill(&path, runs)?;
        let reader = Reader::open(&path)?;
        let mut cells = Vec::new();
        for (_, filter) in lists(runs) {
            cells.push(format!("{:.2}", median(&reader, &filter)?));
        }
        println!("| {runs} | {} |", cells.join(" | "));
    }
    Ok(())
}

fn median(reader: &Reader, filter: &RunFilter) -> Result<f64> {
    let mut spent = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        reader.runs(filter)?;
        spent.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    spent.sort_by(f64::total_cmp);
    Ok(spent[ROUNDS / 2])
}

/// What is asked for; the cursors lie in the middle of `runs`.
fn lists(runs: i64) -> Vec<(&'static str, RunFilter)> {
    let page = RunFilter {
        limit: 50,
        ..RunFilter::default()
    };
    let middle = RunCursor {
        fire_time: WallMs(runs / JOBS / 2 * MINUTE),
        run_id: RunId(runs / 2),
    };
    let job = RunFilter {
        job: Some("bench/job-7".parse().expect("a name of a job")),
        ..page.clone()
    };
    let (from, to) = (
        Some(middle.fire_time),
        Some(middle.fire_time + protocol::DurationMs(10 * MINUTE)),
    );
    vec![
        ("newest", page.clone()),
        (
            "from the middle",
            RunFilter {
                before: Some(middle),
                ..page.clone()
            },
        ),
        ("of a job", job.clone()),
        ("of a job, ten minutes", RunFilter { from, to, ..job }),
        (
            "running",
            RunFilter {
                state: Some(RunState::Running),
                ..page.clone()
            },
        ),
        (
            "missed (there are none)",
            RunFilter {
                state: Some(RunState::Missed),
                ..page.clone()
            },
        ),
        (
            "of a host that had none",
            RunFilter {
                agent: Some("host-9".parse().expect("a name of a host")),
                ..page
            },
        ),
    ]
}

/// A ledger of so many runs of a thousand jobs, one shard and one attempt each; one in a thousand runs.
fn fill(path: &Path, runs: i64) -> Result<()> {
    drop(Store::open(path, Rules::all())?);
    let conn = Connection::open(path)?;
    let table = |name: &str| -> Result<Vec<(String, String, bool)>> {
        let mut columns =
            conn.prepare("SELECT name, type, \"notnull\" FROM pragma_table_info(?1)")?;
        let rows = columns.query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    // Columns that do not matter here get what their type takes.
    let insert = |name: &str, given: &[(&str, &str)], from: &str| -> Result<()> {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for (column, kind, needed) in table(name)? {
            let value = given.iter().find(|(known, _)| *known == column);
            let value = match value {
                Some((_, value)) => (*value).to_owned(),
                None if needed && kind == "TEXT" => "''".to_owned(),
                None if needed => "0".to_owned(),
                None => continue,
            };
            columns.push(column);
            values.push(value);
        }
        let (columns, values) = (columns.join(", "), values.join(", "));
        conn.execute_batch(&format!(
            "INSERT INTO {name} ({columns}) SELECT {values} FROM {from}"
        ))?;
        Ok(())
    };
    let count = |to: i64| {
        format!(
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to}) SELECT i FROM n)"
        )
    };
    let name = "'bench/job-' || i";
    insert(
        "jobs",
        &[("job_id", "i"), ("name", name), ("version", "1")],
        &count(JOBS),
    )?;
    insert("names", &[("name", name), ("job_id", "i")], &count(JOBS))?;
    insert(
        "agents",
        &[("agent_id", "i"), ("name", "'host-' || i")],
        &count(9),
    )?;
    let state = "iif(i % 1000 = 0, 2, 4)";
    let job_id = format!("i % {JOBS} + 1");
    let fire_time = format!("i / {JOBS} * {MINUTE}");
    insert(
        "runs",
        &[
            ("run_id", "i"),
            ("job_id", &job_id),
            ("version", "1"),
            ("fire_time", &fire_time),
            ("nominal", "'[\"2026-11-29T02:10:00\"]'"),
            ("state", state),
            ("execution", "1"),
            ("execution_id", "i"),
            ("shards", "1"),
        ],
        &count(runs),
    )?;
    insert(
        "shards",
        &[("run_id", "i"), ("state", "2"), ("token", "i")],
        &count(runs),
    )?;
    insert(
        "attempts",
        &[("token", "i"), ("run_id", "i"), ("agent_id", "i % 8 + 1")],
        &count(runs),
    )?;
    Ok(())
}
