use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ledger::command::{AlertKind, BecomeActive, On, RaiseAlert};
use ledger::{Done, Outcome, Proposal, Store};
use protocol::message::Incarnation;
use protocol::{BootMs, Epoch, Rules, WallMs};
use tokio::time::timeout;

use super::super::{Begin, Group, GroupError, GroupOptions, ProposeError};

/// How long anything may take that a test waits for.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// Names the data directory, in the process that is to be killed.
const CHILD: &str = "MATINS_GROUP_CHILD";

/// As [`CHILD`], of the process whose consensus ends.
const ENDING: &str = "MATINS_GROUP_ENDING";

fn proposal(command: ledger::Command) -> Proposal {
    Proposal {
        epoch: None,
        at: WallMs(0),
        source: None,
        command,
    }
}

/// A batch that mints two epochs and raises an alert: what it answers depends on all before it.
pub(super) fn batch() -> Arc<[Proposal]> {
    let begin = || {
        proposal(ledger::Command::BecomeActive(BecomeActive {
            node: "a".to_owned(),
            incarnation: Incarnation(1),
            boot_id: "boot".to_owned(),
            boot: BootMs(1),
            tzdata: "2025b".to_owned(),
            looked_at: None,
        }))
    };
    let alert = proposal(ledger::Command::RaiseAlert(RaiseAlert {
        kind: AlertKind::GivenUp,
        on: On::All,
        text: "a text that is as long as those of others and that nobody will read".repeat(4),
    }));
    Arc::new([begin(), alert, begin()])
}

/// The last epoch that a batch minted.
pub(super) fn epoch(outcomes: &[Outcome]) -> i64 {
    match outcomes.last().unwrap().result {
        Ok(Done::Active {
            epoch: Epoch(epoch),
        }) => epoch,
        ref other => panic!("{other:?}"),
    }
}

pub(super) async fn leads(group: &Group) {
    let mut leadership = group.leadership();
    let leads = leadership.wait_for(|now| now.leads);
    timeout(LIMIT, leads).await.unwrap().unwrap();
}

async fn start(options: &GroupOptions) -> Group {
    let group = Group::start(options.clone()).await.unwrap();
    leads(&group).await;
    group
}

pub(super) async fn propose(group: &Group) -> i64 {
    epoch(&group.propose(batch()).await.unwrap())
}

/// Everything that the ledger holds, but how far it has come in the log: a new term adds an entry.
pub(super) async fn content(group: &Group) -> String {
    let dump = group.look(|store| store.dump().unwrap()).await.unwrap();
    let lines = dump.lines();
    lines
        .filter(|line| !line.contains("applied_index"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn alone(directory: &Path) -> GroupOptions {
    GroupOptions::in_directory(directory, 1, Begin::Alone)
}

/// A machine that was on its own: its tokens go on rising, and it loses nothing.
#[tokio::test]
async fn a_ledger_of_its_own_becomes_that_of_a_group_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let options = alone(directory.path());
    let mut store = Store::open(&options.ledger, Rules::all()).unwrap();
    let before = epoch(&store.propose(&batch()).unwrap());
    let applied = store.last_applied().unwrap();
    drop(store);

    let group = start(&options).await;
    let now = group.look(Store::last_applied).await.unwrap().unwrap();
    assert_eq!(now, applied);
    assert_eq!(propose(&group).await, before + 2);
    group.confirm(LIMIT).await.unwrap();
    let (store, term) = (group.store(), group.leadership().borrow().term);
    let (members, voters) = group.members();
    assert_eq!(members[&1].store, store);
    assert_eq!(voters, [1].into());
    let kept = content(&group).await;
    group.stop().await.unwrap();

    // Again, with the log it has: another reign, the same store.
    let group = start(&options).await;
    assert_eq!(content(&group).await, kept);
    assert_eq!(group.store(), store);
    assert!(group.leadership().borrow().term > term);
    assert_eq!(propose(&group).await, before + 4);
    group.stop().await.unwrap();
}

#[tokio::test]
async fn batches_are_applied_in_the_order_in_which_they_were_proposed() {
    let directory = tempfile::tempdir().unwrap();
    let group = start(&alone(directory.path())).await;
    let mut proposed = Vec::new();
    for _ in 0..200 {
        let mut answer = Box::pin(group.propose(batch()));
        // On its way, and not waited for.
        let early = futures_util::poll!(&mut answer);
        proposed.push((early, answer));
    }
    let mut expected = 0;
    for (early, answer) in proposed {
        let outcomes = match early {
            std::task::Poll::Ready(outcomes) => outcomes,
            std::task::Poll::Pending => answer.await,
        };
        expected += 2;
        assert_eq!(epoch(&outcomes.unwrap()), expected);
    }
    group.stop().await.unwrap();
}

#[tokio::test]
async fn who_waits_to_join_proposes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = GroupOptions::in_directory(directory.path(), 2, Begin::Join);
    let group = Group::start(options).await.unwrap();
    let refused = group.propose(batch()).await;
    assert_eq!(refused, Err(ProposeError::NotLeading { leader: None }));
    group.confirm(Duration::from_millis(1)).await.unwrap_err();
    group.stop().await.unwrap();
}

/// Files that do not belong together.
#[tokio::test]
async fn what_must_not_take_part_is_refused_with_what_to_do() {
    type Spoil = fn(&GroupOptions, &GroupOptions);
    let cases: [(&str, Spoil, &str); 5] = [
        (
            "the log is damaged",
            |own, _| {
                let mut bytes = fs::read(&own.log).unwrap();
                bytes[200..].fill(0x5a);
                fs::write(&own.log, bytes).unwrap();
            },
            "is damaged, and with it what this node has voted",
        ),
        (
            "the log is gone",
            |own, _| remove_database(&own.log),
            "has lost its log",
        ),
        (
            "the log is another's",
            |own, other| {
                fs::copy(&other.log, &own.log).unwrap();
            },
            "add it under a new number",
        ),
        (
            "the ledger is gone",
            |own, _| {
                remove_database(&own.ledger);
                fs::remove_dir_all(&own.snapshots).unwrap();
                purge_log(&own.log, 1);
            },
            "the ledger was lost",
        ),
        (
            "the members are in a newer form",
            |own, _| {
                let mut store = Store::open_replica(&own.ledger, Rules::all()).unwrap();
                let mut at = store.applied().unwrap().position.unwrap();
                at.index += 1;
                let entry = ledger::replica::Entry {
                    at,
                    batch: &[],
                    members: Some(&[2]),
                };
                store.apply(entry).unwrap();
            },
            "form 2",
        ),
    ];
    for (name, spoil, expected) in cases {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [own, other] = directories.each_ref().map(|it| alone(it.path()));
        for options in [&own, &other] {
            let group = start(options).await;
            propose(&group).await;
            group.stop().await.unwrap();
        }
        spoil(&own, &other);
        let error = Group::start(own).await.err().unwrap();
        let told = crate::exit::causes(&error);
        assert!(told.contains(expected), "{name}: {told}");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut options = alone(directory.path());
    options.begin = Begin::Join;
    let mut store = Store::open(&options.ledger, Rules::all()).unwrap();
    store.propose(&batch()).unwrap();
    drop(store);
    let error = Group::start(options).await.err().unwrap();
    assert!(
        error.to_string().contains("empty data directory"),
        "{error}"
    );
    assert!(matches!(error, GroupError::Founding(_)));
}

fn remove_database(path: &Path) {
    fs::remove_file(path).unwrap();
    for beside in ["db-wal", "db-shm"] {
        let _ = fs::remove_file(path.with_extension(beside));
    }
}

fn purge_log(path: &Path, index: u64) {
    let mut log = ledger::log::LogFile::open(path, "").unwrap();
    let mut write = log.begin().unwrap();
    let through = ledger::log::Position {
        index,
        term: 1,
        node: 1,
    };
    write.purge(through, u32::MAX).unwrap();
    write.commit().unwrap();
}

/// Power goes while batches are applied: of the ledger there is what the last checkpoint carried
/// home, or nothing at all, and of the log everything that was acknowledged.
#[tokio::test]
async fn the_log_brings_back_what_a_power_cut_takes_of_the_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let options = alone(directory.path());
    let group = start(&options).await;
    for _ in 0..40 {
        propose(&group).await;
    }
    for checkpointed in [false, true] {
        if checkpointed {
            let checkpointer = ledger::wal::Checkpointer::open(&options.ledger).unwrap();
            checkpointer
                .run(ledger::wal::Thoroughness::Passing)
                .unwrap();
            propose(&group).await;
        }
        let last = propose(&group).await;
        let kept = content(&group).await;
        let cut = tempfile::tempdir().unwrap();
        let after = alone(cut.path());
        fs::copy(&options.log, &after.log).unwrap();
        let wal = |path: &Path| path.with_extension("db-wal");
        fs::copy(wal(&options.log), wal(&after.log)).unwrap();
        if checkpointed {
            fs::copy(&options.ledger, &after.ledger).unwrap();
        }
        let again = start(&after).await;
        again.confirm(LIMIT).await.unwrap();
        assert_eq!(content(&again).await, kept);
        assert_eq!(propose(&again).await, last + 2);
        again.stop().await.unwrap();
    }
    group.stop().await.unwrap();
}

/// What was there before the log stands in the snapshot that a group makes as it begins; the log
/// alone would be applied to nothing, and mint again what was minted before.
#[tokio::test]
async fn a_ledger_that_is_lost_comes_back_from_the_snapshot_and_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let options = alone(directory.path());
    let mut store = Store::open(&options.ledger, Rules::all()).unwrap();
    store.propose(&batch()).unwrap();
    drop(store);
    let group = start(&options).await;
    let last = propose(&group).await;
    let kept = content(&group).await;
    group.stop().await.unwrap();

    remove_database(&options.ledger);
    let group = start(&options).await;
    group.confirm(LIMIT).await.unwrap();
    assert_eq!(content(&group).await, kept);
    assert_eq!(propose(&group).await, last + 2);
    group.stop().await.unwrap();
}

/// Ledger and snapshot are both gone, and the log has lost nothing: what it was begun behind is
/// not in it, and what it minted would be minted again.
#[tokio::test]
async fn a_log_is_not_applied_to_less_than_what_it_was_begun_behind() {
    for lost in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let options = alone(directory.path());
        let mut store = Store::open(&options.ledger, Rules::all()).unwrap();
        store.propose(&batch()).unwrap();
        let before = store.dump().unwrap();
        drop(store);
        let group = start(&options).await;
        propose(&group).await;
        let kept = content(&group).await;
        group.stop().await.unwrap();

        remove_database(&options.ledger);
        fs::remove_dir_all(&options.snapshots).unwrap();
        if lost {
            let error = Group::start(options).await.err().unwrap();
            let told = crate::exit::causes(&error);
            assert!(told.contains("behind a ledger of 3 commands"), "{told}");
            assert!(told.contains("holds 0"), "{told}");
            continue;
        }
        // As it was when the log was begun, which was synced by then.
        let mut store = Store::open(&options.ledger, Rules::all()).unwrap();
        store.propose(&batch()).unwrap();
        assert_eq!(store.dump().unwrap(), before);
        drop(store);
        let group = start(&options).await;
        group.confirm(LIMIT).await.unwrap();
        assert_eq!(content(&group).await, kept);
        group.stop().await.unwrap();
    }
}

/// A ledger that follows a log, as a member that has been removed, without its log.
#[tokio::test]
async fn a_ledger_whose_log_is_gone_takes_no_part_under_any_number() {
    let directory = tempfile::tempdir().unwrap();
    let options = alone(directory.path());
    let group = start(&options).await;
    propose(&group).await;
    group.stop().await.unwrap();
    remove_database(&options.log);
    for begin in [Begin::Alone, Begin::Join] {
        let options = GroupOptions::in_directory(directory.path(), 7, begin);
        let error = Group::start(options.clone()).await.err().unwrap();
        let told = crate::exit::causes(&error);
        assert!(told.contains("the log was lost"), "{told}");
        // The log that was looked for is there now, and just as new.
        assert!(options.log.exists());
    }
}

/// What `retain` does when it is time, and a start after it.
#[tokio::test]
async fn a_log_of_which_the_front_was_purged_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let options = alone(directory.path());
    let group = start(&options).await;
    for _ in 0..50 {
        propose(&group).await;
    }
    let metrics = group.raft.wait(Some(LIMIT));
    group.snapshot().await.unwrap();
    let snapshot = metrics.metrics(
        |now| now.snapshot.is_some_and(|at| at.index > 40),
        "a snapshot is made",
    );
    snapshot.await.unwrap();
    group.raft.trigger().purge_log(40).await.unwrap();
    let purged = metrics.metrics(
        |now| now.purged.is_some_and(|at| at.index == 40),
        "the front is purged",
    );
    purged.await.unwrap();
    let last = propose(&group).await;
    let kept = content(&group).await;
    group.stop().await.unwrap();

    let log = ledger::log::LogReader::open(&options.log).unwrap();
    let entries = log.read(0..u64::MAX, usize::MAX).unwrap();
    assert_eq!(entries[0].at.index, 41);
    let group = start(&options).await;
    assert_eq!(content(&group).await, kept);
    assert_eq!(propose(&group).await, last + 2);
    group.stop().await.unwrap();
}

/// Not a test of its own: what the killed process does. Says on standard output what was
/// acknowledged, and never stops by itself.
#[test]
fn member_that_is_killed() {
    let Some(directory) = std::env::var_os(CHILD) else {
        return;
    };
    let directory = std::path::PathBuf::from(directory);
    run(async {
        let group = Arc::new(start(&alone(&directory)).await);
        // Several at a time, as the coordinator does; each says what it was told.
        let writers = (0..4).map(|_| {
            let group = Arc::clone(&group);
            tokio::spawn(async move {
                while group.leadership().borrow().leads {
                    println!("acked {}", propose(&group).await);
                }
            })
        });
        let writers: Vec<tokio::task::JoinHandle<()>> = writers.collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Not a test of its own: a process whose openraft ends while nobody asks it anything.
#[test]
fn member_whose_consensus_ends() {
    let Some(directory) = std::env::var_os(ENDING) else {
        return;
    };
    run(async {
        let group = start(&alone(Path::new(&directory))).await;
        group.raft.shutdown().await.unwrap();
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_process_does_not_outlive_its_consensus() {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "consensus::tests::group::member_whose_consensus_ends",
        ])
        .env(ENDING, directory.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(crate::exit::LEDGER_FAILED));
}

pub(super) fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

#[test]
fn everything_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal: Vec<i64> = Vec::new();
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "consensus::tests::group::member_that_is_killed"])
            .arg("--nocapture")
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut heard = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(acked) = line.strip_prefix("acked ") else {
                continue;
            };
            journal.push(acked.parse().unwrap());
            heard += 1;
            if heard == 20 + 13 * round {
                child.kill().unwrap();
            }
        }
        let status = child.wait().unwrap();
        assert!(!status.success() && status.code().is_none(), "{status:?}");
        assert!(heard >= 20, "{heard}");
        run(async {
            let group = start(&alone(directory.path())).await;
            let next = propose(&group).await;
            let newest = journal.iter().max().unwrap();
            assert!(next >= newest + 2, "{next} after {newest}");
            let dump = group.look(|store| store.dump().unwrap()).await.unwrap();
            for acked in &journal {
                let reign = format!("epoch={acked} ");
                assert!(
                    dump.contains(&reign),
                    "{acked} was acknowledged and is gone"
                );
            }
            journal.push(next);
            group.stop().await.unwrap();
        });
    }
    // No epoch was ever given twice.
    let mut distinct = journal.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), journal.len());
}
