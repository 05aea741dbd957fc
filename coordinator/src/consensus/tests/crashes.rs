//! Processes that are killed at every moment at which the files are in a state of their own.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::super::fail::KILL_AT;
use super::super::retention::Limits;
use super::super::start::Workers;
use super::super::{Begin, Group, GroupOptions};
use super::draw::Draw;
use super::group::{leads, propose, run};
use super::lan::Lan;
use super::members::House;

/// Names the data directory, in the process that is to be killed.
const ALONE: &str = "MATINS_CRASH_ALONE";

/// As [`ALONE`], of three members in one process.
const THREE: &str = "MATINS_CRASH_THREE";

/// So that snapshots are made and entries purged all the time.
const LIMITS: Limits = Limits {
    keep: Duration::from_millis(20),
    look_every: Duration::from_millis(50),
    bytes_small: 0,
    bytes_max: 1 << 30,
};

async fn start_alone(directory: &Path) -> Group {
    let options = GroupOptions::in_directory(directory, 1, Begin::Alone);
    let lan = Lan::new(Draw::new(0));
    let group = Group::start_with(options, |_| lan.plug(1), LIMITS, Workers::start).await;
    let group = group.unwrap();
    leads(&group).await;
    group
}

/// Not a test of its own: writes until it is killed, and says what was acknowledged.
#[test]
fn member_that_is_killed_at_a_point() {
    let Some(directory) = std::env::var_os(ALONE).map(PathBuf::from) else {
        return;
    };
    run(async {
        let group = start_alone(&directory).await;
        let write = || async {
            loop {
                println!("acked {}", propose(&group).await);
            }
        };
        tokio::join!(write(), write(), write());
    });
}

/// Not a test of its own: three members, of which two are sent the first one's ledger.
#[test]
fn members_that_are_killed_at_a_point() {
    let Some(directory) = std::env::var_os(THREE).map(PathBuf::from) else {
        return;
    };
    run(async {
        let mut house = House::at(&directory);
        house.found().await;
        loop {
            println!("acked {}", house.groups.propose(&[1, 2, 3]).await.1);
        }
    });
}

/// Lives until it is killed at a point; answers what was acknowledged.
fn live(test: &str, names: &str, directory: &Path, kill_at: &str) -> BTreeSet<i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("consensus::tests::crashes::{test}")])
        .arg("--nocapture")
        .env(names, directory)
        .env(KILL_AT, kill_at)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acked = lines
        .filter_map(|line| line.unwrap().strip_prefix("acked ")?.parse().ok())
        .collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), None, "{kill_at}: it ended by itself");
    acked
}

/// Whether a ledger holds all that was acknowledged before it minted `next`.
async fn holds(group: &Group, acked: &BTreeSet<i64>, next: i64, kill_at: &str) {
    let dump = group.look(|store| store.dump().unwrap()).await.unwrap();
    for epoch in acked {
        let reign = format!("epoch={epoch} ");
        assert!(
            dump.contains(&reign),
            "{kill_at}: {epoch} was acknowledged and is gone"
        );
        assert!(next > *epoch, "{kill_at}: {next} after {epoch}");
    }
}

#[test]
fn a_kill_at_any_point_loses_nothing_that_was_acknowledged() {
    // At which passing of it, one life after the other: the first is while the group is begun.
    const POINTS: [(&str, [u64; 3]); 9] = [
        ("log written", [1, 3, 20]),
        ("log committed", [1, 3, 20]),
        ("log purged", [1, 2, 3]),
        ("entry due", [1, 3, 20]),
        ("entry applied", [1, 3, 20]),
        ("snapshot copied", [1, 2, 3]),
        ("snapshot linked", [1, 2, 3]),
        ("snapshot in place", [1, 2, 3]),
        ("ledger carried home", [1, 1, 2]),
    ];
    thread::scope(|scope| {
        for (point, passings) in POINTS {
            scope.spawn(move || {
                let directory = tempfile::tempdir().unwrap();
                let mut acked = BTreeSet::new();
                let mut by_killed = 0;
                for passing in passings {
                    let kill_at = format!("{point}:{passing}");
                    let test = "member_that_is_killed_at_a_point";
                    let lived = live(test, ALONE, directory.path(), &kill_at);
                    by_killed += lived.len();
                    acked.extend(lived);
                    run(async {
                        let group = start_alone(directory.path()).await;
                        let next = propose(&group).await;
                        holds(&group, &acked, next, &kill_at).await;
                        acked.insert(next);
                        group.stop().await.unwrap();
                    });
                    let snapshots = fs::read_dir(directory.path().join("snapshots")).unwrap();
                    for file in snapshots {
                        let name = file.unwrap().file_name();
                        assert_eq!(name, "snapshot.db", "{kill_at}");
                    }
                }
                // Beside those that were acknowledged by who came after them.
                assert!(by_killed >= 3, "{point}: {acked:?}");
            });
        }
    });
}

#[test]
fn a_kill_while_a_snapshot_is_taken_over_leaves_all_of_it_or_nothing() {
    thread::scope(|scope| {
        for kill_at in [
            "snapshot kept:1",
            "snapshot kept:2",
            "snapshot installed:1",
            "snapshot installed:2",
        ] {
            scope.spawn(move || {
                let directory = tempfile::tempdir().unwrap();
                let test = "members_that_are_killed_at_a_point";
                let acked = live(test, THREE, directory.path(), kill_at);
                run(async {
                    let mut house = House::at(directory.path());
                    house.start(1, Begin::Alone).await;
                    house.start(2, Begin::Join).await;
                    house.start(3, Begin::Join).await;
                    house.join().await;
                    let (leader, next) = house.groups.propose(&[1, 2, 3]).await;
                    holds(&house.groups[&leader], &acked, next, kill_at).await;
                    house.groups.agree(leader).await;
                    for node in [1, 2, 3] {
                        house.stop(node).await;
                    }
                });
            });
        }
    });
}
