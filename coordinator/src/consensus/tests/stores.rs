use std::path::Path;
use std::sync::{Arc, mpsc};
use std::{fs, io, thread};

use futures_util::poll;
use futures_util::stream::{self, Stream, TryStreamExt};
use ledger::Store;
use ledger::log::LogFile;
use ledger::power::Disk;
use openraft::entry::{EntryPayload, RaftEntry};
use openraft::storage::{
    EntryResponder, IOFlushed, RaftLogStorage, RaftLogStorageExt, RaftStateMachine, SnapshotMeta,
};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::vote::RaftVote;
use openraft::{OptionalSend, RaftLogReader, RaftSnapshotBuilder, StorageError};
use openraft_rt::Oneshot as _;
use openraft_rt_tokio::TokioOneshot;
use protocol::Rules;
use tempfile::TempDir;
use tokio::sync::watch;

use super::super::log_store::LogStore;
use super::super::snapshots::{KeepError, SnapshotFile, Snapshots};
use super::super::start::spawn;
use super::super::state::{State, Whole};
use super::super::types::{
    EntryId, Leader, LogEntry, Member, MembersAt, SnapshotOf, Types, VoteCast, position,
};
use super::group::LIMIT;

struct Fresh;

impl StoreBuilder<Types, LogStore, Filled, TempDir> for Fresh {
    async fn build(&self) -> Result<(TempDir, LogStore, Filled), StorageError<Types>> {
        let directory = tempfile::tempdir().unwrap();
        let (log, state) = open(&directory);
        Ok((directory, log, Filled(state)))
    }
}

/// The suite applies entries that do not follow each other, which no log does and the ledger
/// refuses: what lies between is filled with entries of nothing.
struct Filled(State);

impl RaftStateMachine<Types> for Filled {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Snapshots;

    async fn applied_state(&mut self) -> Result<(Option<EntryId>, MembersAt), io::Error> {
        self.0.applied_state().await
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let applied = self.0.applied_state().await?.0;
            let next = applied.map_or(0, |applied| applied.index + 1);
            let leader = entry.log_id().leader_id;
            let missing = (next..entry.index()).map(|index| {
                let id = EntryId::new(leader, index);
                Ok((LogEntry::new(id, EntryPayload::Blank), None))
            });
            let given = std::iter::once(Ok((entry, responder)));
            self.0.apply(stream::iter(missing.chain(given))).await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Snapshots {
        self.0.get_snapshot_builder().await
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<Leader, u64, Member>,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        self.0.install_snapshot(meta, snapshot).await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf>, io::Error> {
        self.0.get_current_snapshot().await
    }
}

/// The two stores on a directory, with their threads.
fn open(directory: &TempDir) -> (LogStore, State) {
    let at = |name| directory.path().join(name);
    let file = LogFile::open(&at("log.db"), "5eed").unwrap();
    let (log, writer) = LogStore::open(file, &at("log.db")).unwrap();
    spawn("log", move || writer.run()).unwrap();
    let store = Store::open_replica(&at("ledger.db"), Rules::all()).unwrap();
    let snapshots = Snapshots::open(&at("snapshots"), &at("ledger.db")).unwrap();
    // The suite, and most tests here, apply what they have not put into the log.
    let (_, in_log) = watch::channel(u64::MAX);
    let (state, keeper) = State::new(store, snapshots, Whole::default(), in_log);
    spawn("ledger", move || keeper.run()).unwrap();
    (log, state)
}

#[tokio::test]
async fn openrafts_own_suite() {
    Suite::test_all(Fresh).await.unwrap();
}

fn id(index: u64) -> EntryId {
    let leader = Leader {
        term: 1,
        node_id: 1,
    };
    EntryId::new(leader, index)
}

/// An entry that weighs as much as a batch of `commands` and can be told from others.
fn entry(index: u64, commands: usize) -> LogEntry {
    let command = ledger::Command::EndSession(ledger::command::EndSession {
        session: protocol::SessionId(index.cast_signed()),
    });
    let proposal = ledger::Proposal {
        epoch: None,
        at: protocol::WallMs(0),
        source: None,
        command,
    };
    let batch: Arc<[_]> = std::iter::repeat_n(proposal, commands).collect();
    LogEntry::new(
        id(index),
        EntryPayload::Normal(super::super::form::cut(batch, usize::MAX).remove(0)),
    )
}

async fn append(log: &mut LogStore, indexes: std::ops::Range<u64>, commands: usize) {
    let entries: Vec<_> = indexes.map(|index| entry(index, commands)).collect();
    log.blocking_append(entries).await.unwrap();
}

async fn read(log: &mut LogStore, range: std::ops::Range<u64>) -> Vec<LogEntry> {
    log.try_get_log_entries(range).await.unwrap()
}

/// openraft's own suite does not ask this: a vote that is reported and lost is cast twice, an entry
/// that is reported and lost was acknowledged. So the writer is the test itself here, and the disk
/// loses what was not synced.
#[tokio::test]
async fn nothing_is_reported_before_it_survives_a_power_cut() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::watch(directory.path());
    let path = directory.path().join("log.db");
    let open = || LogStore::open(LogFile::open(&path, "5eed").unwrap(), &path).unwrap();
    let vote = VoteCast::new(7, 1);
    {
        let (mut log, mut writer) = open();
        let (told, mut tells) = TokioOneshot::channel();
        log.append([entry(0, 3)], IOFlushed::signal(told))
            .await
            .unwrap();
        let order = writer.next().await.unwrap();
        assert!(
            poll!(&mut tells).is_pending(),
            "an entry was reported unwritten"
        );
        writer.write(order);
        tells.await.unwrap().unwrap();

        let mut saving = Box::pin(log.save_vote(&vote));
        assert!(poll!(&mut saving).is_pending());
        let order = writer.next().await.unwrap();
        assert!(
            poll!(&mut saving).is_pending(),
            "a vote was reported unwritten"
        );
        writer.write(order);
        saving.await.unwrap();
        disk.switch_off();
    }
    assert!(disk.is_closed());
    disk.lose(|| false).unwrap();
    disk.switch_on();
    let (mut log, _writer) = open();
    assert_eq!(log.read_vote().await.unwrap(), Some(vote));
    assert_eq!(read(&mut log, 0..9).await, [entry(0, 3)]);
}

/// Others may have committed it: a ledger that went ahead of its log would be left, by a crash, with
/// what the log beside it lacks.
#[tokio::test]
async fn nothing_is_applied_before_it_is_in_the_log_beside_the_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name| directory.path().join(name);
    let file = LogFile::open(&at("log.db"), "5eed").unwrap();
    let (mut log, mut writer) = LogStore::open(file, &at("log.db")).unwrap();
    let store = Store::open_replica(&at("ledger.db"), Rules::all()).unwrap();
    let snapshots = Snapshots::open(&at("snapshots"), &at("ledger.db")).unwrap();
    let (mut state, keeper) = State::new(store, snapshots, Whole::default(), log.synced());
    spawn("ledger", move || keeper.run()).unwrap();
    for indexes in [0..2, 2..3] {
        let entries: Vec<_> = indexes.clone().map(|index| entry(index, 1)).collect();
        log.append(entries.clone(), IOFlushed::noop())
            .await
            .unwrap();
        let mut applying = Box::pin(apply(&mut state, entries));
        assert!(poll!(&mut applying).is_pending());
        let order = writer.next().await.unwrap();
        assert!(poll!(&mut applying).is_pending());
        writer.write(order);
        applying.await;
        let applied = state.applied_state().await.unwrap().0;
        assert_eq!(applied, Some(id(indexes.end - 1)));
    }
}

#[tokio::test]
async fn an_entry_is_read_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (mut log, _state) = open(&directory);
    for index in 0..50 {
        log.append([entry(index, 1)], IOFlushed::noop())
            .await
            .unwrap();
        assert_eq!(read(&mut log, index..index + 1).await, [entry(index, 1)]);
        assert_eq!(
            log.get_log_state().await.unwrap().last_log_id,
            Some(id(index))
        );
    }
}

/// Far more than is held in memory: what is read comes from the file, from memory, or from both,
/// and is the same.
#[tokio::test]
async fn what_is_old_is_read_from_the_file_and_what_is_new_from_memory() {
    const EACH: usize = 500;
    const ENTRIES: u64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let (mut log, _state) = open(&directory);
    append(&mut log, 0..ENTRIES, EACH).await;
    append(&mut log, ENTRIES..ENTRIES + 1, EACH).await;
    let held_from = log.held_from();
    assert!(held_from > 100 && held_from < ENTRIES, "{held_from}");
    for range in [
        0..ENTRIES + 1,
        0..10,
        held_from - 3..held_from + 3,
        held_from..held_from + 3,
        held_from - 1..held_from,
        ENTRIES - 1..ENTRIES + 50,
        5..5,
    ] {
        let expected: Vec<_> = range
            .clone()
            .take_while(|index| *index <= ENTRIES)
            .map(|index| entry(index, EACH))
            .collect();
        assert_eq!(read(&mut log, range.clone()).await, expected, "{range:?}");
        // Some of it, bit by bit, is the same in the end.
        let mut next = range.start;
        while next < range.end.min(ENTRIES + 1) {
            let some = log.limited_get_log_entries(next, range.end).await.unwrap();
            assert_eq!(some[0].index(), next);
            next += some.len() as u64;
        }
        use futures_util::StreamExt;
        let stream = log.entries_stream(range.clone()).await;
        let streamed: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(streamed, expected, "{range:?}");
    }
    // What was taken back is gone from both.
    log.truncate_after(Some(id(held_from - 5))).await.unwrap();
    assert_eq!(read(&mut log, held_from - 6..held_from + 9).await.len(), 2);
    append(&mut log, held_from - 4..held_from, 1).await;
    log.purge(id(held_from - 2)).await.unwrap();
    assert_eq!(read(&mut log, 0..ENTRIES).await, [entry(held_from - 1, 1)]);
}

#[tokio::test]
async fn votes_and_entries_are_there_when_it_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let leader = Leader {
        term: 9,
        node_id: 3,
    };
    let vote = VoteCast::from_leader_id(leader, true);
    {
        let (mut log, _state) = open(&directory);
        append(&mut log, 0..20, 3).await;
        log.save_committed(Some(id(15))).await.unwrap();
        log.save_vote(&vote).await.unwrap();
        log.truncate_after(Some(id(17))).await.unwrap();
        log.purge(id(4)).await.unwrap();
    }
    let (mut log, _state) = open(&directory);
    let ends = log.get_log_state().await.unwrap();
    assert_eq!(ends.last_purged_log_id, Some(id(4)));
    assert_eq!(ends.last_log_id, Some(id(17)));
    assert_eq!(log.read_vote().await.unwrap(), Some(vote));
    assert_eq!(log.read_committed().await.unwrap(), Some(id(15)));
    let expected: Vec<_> = (5..18).map(|index| entry(index, 3)).collect();
    assert_eq!(read(&mut log, 0..99).await, expected);
}

/// What is committed may be known before it is written here, and a start must not look for it.
#[tokio::test]
async fn nothing_is_noted_as_committed_that_is_not_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    {
        let (mut log, _state) = open(&directory);
        append(&mut log, 0..5, 1).await;
        log.save_committed(Some(id(9))).await.unwrap();
        log.save_vote(&VoteCast::new(1, 1)).await.unwrap();
    }
    let (mut log, _state) = open(&directory);
    assert_eq!(log.read_committed().await.unwrap(), None);
}

async fn apply(state: &mut State, entries: Vec<LogEntry>) {
    let entries = entries.into_iter().map(|entry| Ok((entry, None)));
    state
        .apply(futures_util::stream::iter(entries))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_snapshot_outlives_the_process_and_one_that_is_cut_off_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("snapshots/snapshot.db");
    {
        let (_log, mut state) = open(&directory);
        apply(&mut state, (0..3).map(|index| entry(index, 2)).collect()).await;
        let mut builder = state.get_snapshot_builder().await;
        let made = builder.build_snapshot().await.unwrap();
        assert_eq!(made.meta.last_log_id, Some(id(2)));
        apply(&mut state, vec![entry(3, 1)]).await;
    }
    let leftover = directory.path().join("snapshots/snapshot.new");
    fs::write(&leftover, "half of it").unwrap();
    {
        let (_log, mut state) = open(&directory);
        let current = state.get_current_snapshot().await.unwrap().unwrap();
        assert_eq!(current.meta.last_log_id, Some(id(2)));
        assert!(!leftover.exists());
    }
    let whole = fs::read(&place).unwrap();
    fs::write(&place, &whole[..whole.len() - 5000]).unwrap();
    let (_log, mut state) = open(&directory);
    assert!(state.get_current_snapshot().await.unwrap().is_none());
    assert!(!place.exists());
    assert_eq!(state.applied_state().await.unwrap().0, Some(id(3)));
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

async fn snapshot(state: &mut State) -> SnapshotOf {
    state
        .get_snapshot_builder()
        .await
        .build_snapshot()
        .await
        .unwrap()
}

/// A store that has applied the entries before `end`, for the snapshots of it.
async fn other(end: u64) -> (TempDir, State) {
    let directory = tempfile::tempdir().unwrap();
    let (_log, mut state) = open(&directory);
    apply(&mut state, (0..end).map(|index| entry(index, 2)).collect()).await;
    (directory, state)
}

/// Whoever sends it to a newcomer takes its time, and meanwhile another takes its name.
#[tokio::test]
async fn a_snapshot_stays_what_it_is_for_whoever_holds_it() {
    let (directory, mut state) = other(3).await;
    snapshot(&mut state).await;
    let held = state.get_current_snapshot().await.unwrap().unwrap();
    apply(&mut state, vec![entry(3, 1)]).await;
    let made = snapshot(&mut state).await;
    assert_eq!(made.meta.last_log_id, Some(id(3)));
    let now = state.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(now.meta.last_log_id, Some(id(3)));
    for (snapshot, last) in [(&held, 2), (&made, 3), (&now, 3)] {
        let found = ledger::snapshot::examine(snapshot.snapshot.path()).unwrap();
        assert_eq!(found.position, Some(position(&id(last))));
    }
    drop((held, made, now));
    assert_eq!(files(&directory.path().join("snapshots")), 1);
}

/// One is received while another is made: what goes further stays.
#[tokio::test]
async fn a_snapshot_that_was_made_does_not_take_the_place_of_one_that_goes_further() {
    let (_elsewhere, mut sender) = other(9).await;
    let sent = snapshot(&mut sender).await;
    let (directory, mut state) = other(3).await;
    let at = |name| directory.path().join(name);
    let snapshots = Snapshots::open(&at("snapshots"), &at("ledger.db")).unwrap();
    let ninth = Some(position(&id(8)));
    let third = Some(position(&id(2)));
    let refused = snapshots.keep(&sent.snapshot, third);
    assert!(
        matches!(refused, Err(KeepError::Elsewhere { .. })),
        "{refused:?}"
    );
    assert_eq!(snapshots.reached(), None);
    snapshots.keep(&sent.snapshot, ninth).unwrap();
    let (made, _file) = snapshots.make().unwrap();
    assert_eq!(made.position, third);
    assert_eq!(snapshots.reached(), ninth);
    let (current, file) = snapshots.current().unwrap().unwrap();
    assert_eq!(current.position, ninth);
    assert_eq!(ledger::snapshot::examine(file.path()).unwrap(), current);
    // And it is installed.
    drop(file);
    state
        .install_snapshot(&sent.meta, sent.snapshot)
        .await
        .unwrap();
    assert_eq!(state.applied_state().await.unwrap().0, Some(id(8)));
}

/// A page that says nothing any more, of which nothing is read until all of the file is.
fn damage(path: &Path) {
    let whole = fs::read(path).unwrap();
    let pages = whole.chunks_exact(4096).enumerate();
    let damaged = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
    let found = damaged.map(|(page, _)| page).find(|page| {
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0);
        fs::write(path, bytes).unwrap();
        ledger::snapshot::examine(path).is_ok() && ledger::snapshot::verify(path).is_err()
    });
    assert!(
        found.is_some(),
        "{} pages, and each is read",
        whole.len() / 4096
    );
}

#[tokio::test]
async fn a_snapshot_that_arrives_damaged_is_not_kept() {
    let (_elsewhere, mut sender) = other(9).await;
    let sent = snapshot(&mut sender).await;
    damage(sent.snapshot.path());
    let (directory, mut state) = other(3).await;
    let refused = state.install_snapshot(&sent.meta, sent.snapshot).await;
    let told = crate::exit::causes(&refused.unwrap_err());
    assert!(told.contains("cut off or damaged"), "{told}");
    assert_eq!(state.applied_state().await.unwrap().0, Some(id(2)));
    assert_eq!(files(&directory.path().join("snapshots")), 0);
}

/// It would be put in the ledger's place by every start, and end each.
#[tokio::test]
async fn a_kept_snapshot_that_is_damaged_goes_before_a_start_needs_it() {
    let (_elsewhere, mut sender) = other(9).await;
    let sent = snapshot(&mut sender).await;
    let (directory, _state) = other(3).await;
    let at = |name| directory.path().join(name);
    let open = || Snapshots::open(&at("snapshots"), &at("ledger.db")).unwrap();
    open().keep(&sent.snapshot, Some(position(&id(8)))).unwrap();
    let place = at("snapshots/snapshot.db");
    // As a file of its own: what is sent is the same file here.
    let copy = fs::read(&place).unwrap();
    fs::remove_file(&place).unwrap();
    fs::write(&place, copy).unwrap();
    damage(&place);
    let snapshots = open();
    // A ledger that is further on does not need it, and it is not read for that.
    snapshots.verify_ahead_of(Some(position(&id(8)))).unwrap();
    assert!(place.exists());
    snapshots.verify_ahead_of(Some(position(&id(7)))).unwrap();
    assert!(!place.exists());
    assert!(snapshots.current().unwrap().is_none());
}

/// A copy takes as long as the disk does, and whoever asks is the thread of votes and heartbeats.
#[test]
fn nobody_waits_for_a_snapshot_that_is_being_made() {
    let directory = tempfile::tempdir().unwrap();
    // Whoever opens it waits for the other end.
    let ledger = directory.path().join("ledger.db");
    nix::unistd::mkfifo(&ledger, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let snapshots = Snapshots::open(&directory.path().join("snapshots"), &ledger).unwrap();
    let making = thread::spawn({
        let snapshots = snapshots.clone();
        move || snapshots.make()
    });
    while files(&directory.path().join("snapshots")) == 0 {
        assert!(!making.is_finished());
        thread::yield_now();
    }
    let (say, heard) = mpsc::channel();
    thread::spawn(move || say.send(snapshots.current().unwrap().is_some()));
    assert_eq!(heard.recv_timeout(LIMIT), Ok(false));
    // It is no ledger.
    drop(fs::OpenOptions::new().write(true).open(&ledger).unwrap());
    making.join().unwrap().unwrap_err();
}
