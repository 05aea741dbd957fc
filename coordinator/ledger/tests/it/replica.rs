//! A ledger that follows a log: it is where its position says, and gets there again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ledger::log::Position;
use ledger::replica::{Applied, Entry};
use ledger::snapshot::{self, SnapshotError};
use ledger::wal::{Checkpointer, Thoroughness};
use ledger::{JobFilter, Outcome, Proposal, Reader, Store, StoreError};
use protocol::{JobId, Rules};

use crate::{fire, manifest, put, wal};

/// Names the ledger into which snapshots are put, in the process that is to be killed.
const CHILD: &str = "MATINS_REPLICA_CHILD";

fn at(index: u64) -> Position {
    Position {
        index,
        term: 2,
        node: 7,
    }
}

/// What the log holds at an index; the same whenever it is asked.
fn batch(index: u64) -> Vec<Proposal> {
    match index {
        0 => vec![put(manifest("t/a", 2, "queue", true))],
        // An entry need not hold a command.
        _ if index.is_multiple_of(5) => Vec::new(),
        _ => {
            let minute = index.cast_signed() * 2;
            vec![
                fire(JobId(1), minute - 1),
                fire(JobId(1), minute),
                // Refused, and no less a part of the log.
                fire(JobId(1), minute),
            ]
        }
    }
}

fn apply(store: &mut Store, index: u64) -> Vec<Outcome> {
    let members = (index % 10 == 3).then(|| format!("members of {index}"));
    store
        .apply(Entry {
            at: at(index),
            batch: &batch(index),
            members: members.as_ref().map(String::as_bytes),
        })
        .unwrap()
}

fn open(path: &Path) -> Store {
    Store::open_replica(path, Rules::all()).unwrap()
}

/// A ledger that has gone through the entries before `end`.
fn grown(path: &Path, end: u64) -> Store {
    let mut store = open(path);
    for index in 0..end {
        apply(&mut store, index);
    }
    store
}

fn expected_dump(end: u64) -> String {
    let directory = tempfile::tempdir().unwrap();
    grown(&directory.path().join("expected.db"), end)
        .dump()
        .unwrap()
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    (directory, path)
}

#[test]
fn position_and_members_move_with_the_effects() {
    let (_directory, path) = directory();
    assert_eq!(open(&path).applied().unwrap(), Applied::default());
    drop(grown(&path, 25));
    let store = open(&path);
    let expected = Applied {
        position: Some(at(24)),
        members: Some((at(23), b"members of 23".to_vec())),
    };
    assert_eq!(store.applied().unwrap(), expected);
    assert_eq!(store.dump().unwrap(), expected_dump(25));
    assert_ne!(store.dump().unwrap(), expected_dump(24));
}

#[test]
fn no_entry_is_applied_twice_and_none_is_passed_over() {
    for (have, got) in [(4, 3), (4, 0), (4, 5), (4, 40), (0, 1)] {
        let (_directory, path) = directory();
        let mut store = grown(&path, have);
        let before = store.dump().unwrap();
        let wrong = Entry {
            at: at(got),
            batch: &batch(got),
            members: None,
        };
        let refused = store.apply(wrong);
        assert!(
            matches!(refused, Err(StoreError::OutOfOrder { next, got: it }) if (next, it) == (have, got)),
            "{refused:?}"
        );
        // Whoever sent it is mistaken about this ledger and must not go on.
        let next = Entry {
            at: at(have),
            ..wrong
        };
        assert!(matches!(store.apply(next), Err(StoreError::AfterFailure)));
        assert_eq!(store.dump().unwrap(), before);
    }
}

#[test]
fn it_is_written_to_through_the_log_only_and_by_its_own_version_only() {
    let (_directory, path) = directory();
    drop(grown(&path, 2));
    let error = Store::open(&path, Rules::all()).err().unwrap();
    assert!(matches!(error, StoreError::Replica { .. }), "{error}");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute("UPDATE replica SET format = 9", []).unwrap();
    let error = Store::open_replica(&path, Rules::all()).err().unwrap();
    assert!(
        matches!(error, StoreError::ReplicaFormat { found: 9, .. })
            && error
                .to_string()
                .contains("version of matins that wrote it"),
        "{error}"
    );
}

/// A ledger of a machine on its own keeps what it has when a log begins behind it.
#[test]
fn a_ledger_without_a_log_becomes_a_replica_as_it_is() {
    let (_directory, path) = directory();
    let mut alone = Store::open(&path, Rules::all()).unwrap();
    for index in 0..9 {
        alone.propose(&batch(index)).unwrap();
    }
    let (position, set) = (alone.last_applied().unwrap(), alone.working_set().unwrap());
    drop(alone);
    let mut store = open(&path);
    assert_eq!(store.applied().unwrap(), Applied::default());
    assert_eq!(store.last_applied().unwrap(), position);
    assert_eq!(store.working_set().unwrap(), set);
    apply(&mut store, 0);
    assert_eq!(store.applied().unwrap().position, Some(at(0)));
}

/// Power goes: of the file there is what the last checkpoint carried home, of the write-ahead log
/// any part from the front. The log brings the rest back.
#[test]
fn what_a_power_cut_takes_is_applied_again_from_the_log() {
    let (directory, path) = directory();
    let mut store = grown(&path, 30);
    let checkpointer = Checkpointer::open(&path).unwrap();
    let safe = checkpointer
        .run_on_replica(Thoroughness::Restarting)
        .unwrap();
    assert_eq!(safe.1, Some(at(29)));
    for index in 30..60 {
        apply(&mut store, index);
    }
    let (file, tail) = (fs::read(&path).unwrap(), fs::read(wal(&path)).unwrap());
    let expected = store.dump().unwrap();
    let cut = directory.path().join("cut.db");
    let mut reached = Vec::new();
    for sixth in 0..=6 {
        let kept = tail.len() * sixth / 6;
        fs::write(&cut, &file).unwrap();
        fs::write(wal(&cut), &tail[..kept]).unwrap();
        let mut store = open(&cut);
        let position = store.applied().unwrap().position.unwrap();
        assert!(position.index >= 29, "{position:?}");
        for index in position.index + 1..60 {
            apply(&mut store, index);
        }
        assert_eq!(store.dump().unwrap(), expected, "after {position:?}");
        reached.push(position.index);
        drop(store);
        fs::remove_file(&cut).unwrap();
    }
    assert!(
        reached.is_sorted() && reached[0] == 29 && reached[6] == 59,
        "{reached:?}"
    );
    assert!(
        reached.iter().any(|index| (30..59).contains(index)),
        "{reached:?}"
    );
}

#[test]
fn a_reader_of_an_older_state_keeps_a_checkpoint_from_covering_what_came_after() {
    let (_directory, path) = directory();
    let mut store = grown(&path, 10);
    let checkpointer = Checkpointer::open(&path).unwrap();
    let run = |how| checkpointer.run_on_replica(how).unwrap().1;
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    assert_eq!(run(Thoroughness::Passing), Some(at(9)));
    apply(&mut store, 10);
    assert_eq!(run(Thoroughness::Passing), None);
    assert_eq!(run(Thoroughness::Restarting), None);
    // Neither of them is in the writer's way.
    apply(&mut store, 11);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(run(Thoroughness::Passing), Some(at(11)));
    let length = || fs::metadata(wal(&path)).unwrap().len();
    let before = length();
    run(Thoroughness::Restarting);
    apply(&mut store, 12);
    assert_eq!(length(), before, "it is begun anew, not added to");
}

#[test]
fn a_snapshot_is_of_one_moment_while_the_ledger_is_written_to() {
    let (directory, path) = directory();
    let mut store = grown(&path, 40);
    let writing = AtomicBool::new(true);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut index = 40;
            while writing.load(Ordering::Relaxed) {
                apply(&mut store, index);
                index += 1;
            }
            index
        });
        for round in 0..5 {
            let to = directory.path().join(format!("{round}.db"));
            let copied = snapshot::copy(&path, &to).unwrap();
            assert_eq!(snapshot::examine(&to).unwrap(), copied);
            let end = copied.position.unwrap().index + 1;
            let other = directory.path().join(format!("other-{round}.db"));
            let mut other = open(&other);
            assert_eq!(other.install(&to).unwrap(), copied);
            assert_eq!(other.dump().unwrap(), expected_dump(end));
            // And it is a ledger like any other.
            apply(&mut other, end);
        }
        writing.store(false, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 40);
    });
}

#[test]
fn an_installed_snapshot_is_what_readers_see_and_what_is_there_after_a_start() {
    let (directory, path) = directory();
    let from = directory.path().join("from.db");
    drop(grown(&from, 30));
    let snapshot = directory.path().join("snapshot.db");
    snapshot::copy(&from, &snapshot).unwrap();
    let mut store = open(&path);
    let reader = Reader::open(&path).unwrap();
    let all = JobFilter {
        limit: 9,
        ..JobFilter::default()
    };
    let jobs = || reader.jobs(&all).unwrap().rows.len();
    assert_eq!(jobs(), 0);
    store.install(&snapshot).unwrap();
    assert_eq!(jobs(), 1);
    // As after a power cut: nothing but what was synced by then.
    let cut = directory.path().join("cut.db");
    fs::copy(&path, &cut).unwrap();
    fs::copy(wal(&path), wal(&cut)).unwrap();
    assert_eq!(open(&cut).dump().unwrap(), expected_dump(30));
    apply(&mut store, 30);
    assert_eq!(store.dump().unwrap(), expected_dump(31));
}

#[test]
fn a_snapshot_that_is_cut_off_or_of_another_version_changes_nothing() {
    let (directory, path) = directory();
    let mut store = grown(&path, 3);
    let before = store.dump().unwrap();
    let from = directory.path().join("from.db");
    drop(grown(&from, 30));
    let snapshot = directory.path().join("a %#? snapshot.db");
    snapshot::copy(&from, &snapshot).unwrap();
    let whole = fs::read(&snapshot).unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().count();
    let files_before = files();
    for length in [
        0,
        100,
        4096,
        whole.len() / 2,
        whole.len() - 4096,
        whole.len() - 1,
    ] {
        fs::write(&snapshot, &whole[..length]).unwrap();
        let refused = store.install(&snapshot);
        assert!(
            matches!(refused, Err(SnapshotError::Damaged { .. })),
            "{length}: {refused:?}"
        );
    }
    // A page that says nothing any more, of which nothing is read until all of it is.
    let holed = (0..whole.len() / 4096).find(|page| {
        let mut holed = whole.clone();
        holed[page * 4096..][..4096].fill(0);
        fs::write(&snapshot, &holed).unwrap();
        snapshot::examine(&snapshot).is_ok() && snapshot::verify(&snapshot).is_err()
    });
    assert!(holed.is_some());
    let refused = store.install(&snapshot);
    assert!(
        matches!(refused, Err(SnapshotError::Damaged { .. })),
        "{refused:?}"
    );
    assert!(snapshot::examine(&snapshot).is_ok());
    // What cannot be looked at is not for that reason damaged.
    let nowhere = directory.path().join("nowhere/snapshot.db");
    let refused = snapshot::examine(&nowhere);
    assert!(
        matches!(refused, Err(SnapshotError::Unreadable { .. })),
        "{refused:?}"
    );
    for (sql, what) in [
        ("UPDATE meta SET schema_version = 99", "version 99"),
        ("UPDATE replica SET format = 98", "version 98"),
        ("DROP TABLE replica", "no replicated ledger"),
    ] {
        fs::write(&snapshot, &whole).unwrap();
        let conn = rusqlite::Connection::open(&snapshot).unwrap();
        conn.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
        conn.execute_batch(sql).unwrap();
        drop(conn);
        let error = store.install(&snapshot).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(store.dump().unwrap(), before);
    assert_eq!(files(), files_before, "nothing is left beside it");
    apply(&mut store, 3);
}

/// Not a test of its own: what the killed process does. Puts one snapshot after the other in the
/// place of the ledger, and never stops by itself.
#[test]
fn installer_that_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let path = PathBuf::from(path);
    let mut store = open(&path);
    for which in ["small.db", "large.db"].into_iter().cycle() {
        store.install(&path.with_file_name(which)).unwrap();
        println!("installed {which}");
    }
}

#[test]
fn a_process_that_is_killed_while_it_installs_leaves_all_of_one_snapshot() {
    let (directory, path) = directory();
    for (name, end) in [("small.db", 3), ("large.db", 600)] {
        let from = directory.path().join(format!("from-{name}"));
        drop(grown(&from, end));
        snapshot::copy(&from, &directory.path().join(name)).unwrap();
    }
    let ends = [expected_dump(3), expected_dump(600)];
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "replica::installer_that_is_killed",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut heard = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            if line.unwrap().starts_with("installed") {
                heard += 1;
                if heard == 3 + round {
                    child.kill().unwrap();
                }
            }
        }
        assert!(!child.wait().unwrap().success());
        let dump = open(&path).dump().unwrap();
        assert!(
            ends.contains(&dump),
            "neither of the two, after round {round}"
        );
    }
}
