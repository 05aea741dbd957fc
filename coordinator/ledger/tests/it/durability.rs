//! What was answered is there after the process was killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ledger::{Done, RunFilter, Store};
use protocol::{JobId, Rules, RunId};

use crate::{MINUTE, fire, manifest, ok, put};

/// Names the ledger to write to, in the process that is to be killed.
const CHILD: &str = "MATINS_LEDGER_CHILD";

const ROUNDS: usize = 5;

/// Not a test of its own: what the killed process does. Says on standard output what was
/// acknowledged, and never stops by itself.
#[test]
fn writer_that_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let mut store = Store::open(Path::new(&path), Rules::all()).unwrap();
    let set = store.working_set().unwrap();
    let through = set.jobs.get(&JobId(1)).map(|job| job.fired_through.0);
    if through.is_none() {
        ok(&mut store, put(manifest("t/a", 2, "queue", true)));
    }
    let mut minute = through.unwrap_or(0) / MINUTE;
    for size in (1..=4).cycle() {
        let batch: Vec<_> = (minute + 1..=minute + size)
            .map(|m| fire(JobId(1), m))
            .collect();
        minute += size;
        let runs: Vec<String> = store
            .propose(&batch)
            .unwrap()
            .into_iter()
            .map(|outcome| match outcome.result.unwrap() {
                Done::Fired { runs } => runs[0].0.0.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        println!("acked {}", runs.join(" "));
    }
}

fn start_writer(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "durability::writer_that_is_killed",
            "--nocapture",
        ])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[test]
fn everything_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let mut acked: Vec<i64> = Vec::new();
    for round in 0..ROUNDS {
        let mut writer = start_writer(&path);
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut heard = 0;
        // Killed after a while in the middle of its work; then what it had said before is read.
        for line in lines {
            let line = line.unwrap();
            let Some(runs) = line.strip_prefix("acked") else {
                continue;
            };
            acked.extend(
                runs.split_whitespace()
                    .map(|run| run.parse::<i64>().unwrap()),
            );
            heard += 1;
            if heard == 10 + 7 * round {
                writer.kill().unwrap();
            }
        }
        let status = writer.wait().unwrap();
        assert!(!status.success() && status.code().is_none(), "{status:?}");

        let store = Store::open(&path, Rules::all()).unwrap();
        check(&store, &acked);
    }
    assert!(acked.len() > ROUNDS * 20);
}

/// Every acknowledged run is there, and the runs tile the job's minutes up to its watermark: no
/// half of a command was kept.
fn check(store: &Store, acked: &[i64]) {
    let mut found = Vec::new();
    let mut after = RunId(0);
    loop {
        let page = store
            .runs(&RunFilter {
                after_id: Some(after),
                limit: 1000,
                ..RunFilter::default()
            })
            .unwrap();
        let Some(last) = page.last() else { break };
        after = last.run;
        found.extend(page);
    }
    let newest_acked = *acked.last().unwrap();
    assert!(found.len() as i64 >= newest_acked);
    for (expected, run) in (1..).zip(&found) {
        assert_eq!((run.run.0, run.fire_time.0), (expected, expected * MINUTE));
    }
    assert!(
        acked
            .iter()
            .zip(1..)
            .all(|(run, expected)| *run == expected)
            || acked.is_sorted()
    );
    let set = store.working_set().unwrap();
    let watermark = set.jobs[&JobId(1)].fired_through;
    assert_eq!(watermark, found.last().unwrap().fire_time);
    assert_eq!(store.last_applied().unwrap(), found.len() as i64 + 1);
}
