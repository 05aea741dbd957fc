//! The log as openraft sees it.
//!
//! One thread writes votes and entries, in the order in which they were asked for, and whatever has
//! come up while it wrote is the next transaction. Entries can be read from the moment they were
//! handed over, from memory; that they are on the disk is told after the commit. What the others
//! will ask for next, the newest entries, stays in memory for a while; what is older is read from
//! the file by threads that may wait.
//!
//! An error of the file ends the process. After a failed sync nobody knows what is on the disk, and
//! a vote or an entry that was reported and is gone would make two leaders or lose a write.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt};
use ledger::log::{LogError, LogFile, LogReader, Vote};
use openraft::entry::{EntryPayload, RaftEntry};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::vote::RaftVote;
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::{mpsc, oneshot, watch};

use super::types::{EntryId, Leader, LogEntry, Types, VoteCast, entry_id, position};
use super::{fail, form, on_disk};
use crate::exit::{self, LEDGER_FAILED};

/// Commands that are kept in memory with the newest entries: at 300 bytes each, 10 MB, and as much
/// for what is written of them.
const COMMANDS_HELD: usize = 32_768;

/// Orders that become one transaction.
const ORDERS_AT_ONCE: usize = 64;

/// Entries purged in one transaction; each may be a megabyte.
const PURGED_AT_ONCE: u32 = 16;

/// Bytes read from the file in one go.
const BYTES_AT_ONCE: usize = 8 << 20;

/// Entries taken from memory in one go, where the caller is content with some.
const ENTRIES_AT_ONCE: u64 = 256;

/// The log, for openraft; its clones read.
#[derive(Clone)]
pub(super) struct LogStore {
    shared: Arc<Shared>,
    writer: mpsc::UnboundedSender<Order>,
}

struct Shared {
    held: Mutex<Held>,
    /// Since when a transaction is being written, while one is.
    writing: watch::Sender<Option<Instant>>,
    reader: Mutex<LogReader>,
}

/// What is known without the file.
struct Held {
    vote: Option<VoteCast>,
    purged: Option<EntryId>,
    last: Option<EntryId>,
    committed: Option<EntryId>,
    /// The newest entries without a hole, among them all that are not on the disk.
    entries: BTreeMap<u64, LogEntry>,
    commands: usize,
    /// Entries before this index are on the disk.
    synced: watch::Sender<u64>,
}

pub(super) enum Order {
    Vote(VoteCast, oneshot::Sender<()>),
    Append(Vec<LogEntry>, IOFlushed<Types>),
    TruncateAfter(Option<EntryId>, oneshot::Sender<()>),
    /// Some of it; the flag becomes true when that was all.
    Purge(EntryId, bool, oneshot::Sender<bool>),
}

impl LogStore {
    /// The store, and the writer that carries out what it is asked to write.
    pub(super) fn open(file: LogFile, path: &Path) -> Result<(LogStore, LogWriter), LogError> {
        let head = file.head()?;
        let vote = head.vote.map(|vote| {
            let leader = Leader {
                term: vote.term,
                node_id: vote.node,
            };
            VoteCast::from_leader_id(leader, vote.granted)
        });
        let held = Held {
            vote,
            purged: head.purged.map(entry_id),
            last: head.last.map(entry_id),
            committed: head.committed.map(entry_id),
            entries: BTreeMap::new(),
            commands: 0,
            synced: watch::Sender::new(head.last.map_or(0, |last| last.index + 1)),
        };
        let shared = Arc::new(Shared {
            held: Mutex::new(held),
            writing: watch::Sender::new(None),
            reader: Mutex::new(LogReader::open(path)?),
        });
        let (writer, orders) = mpsc::unbounded_channel();
        let store = LogStore {
            shared: Arc::clone(&shared),
            writer,
        };
        let writer = LogWriter {
            file,
            orders,
            shared,
        };
        Ok((store, writer))
    }

    /// Before which index all entries are on the disk.
    pub(super) fn synced(&self) -> watch::Receiver<u64> {
        self.shared.held().synced.subscribe()
    }

    /// Since when a transaction is being written, while one is.
    pub(super) fn writing(&self) -> watch::Receiver<Option<Instant>> {
        self.shared.writing.subscribe()
    }

    /// The last entry that was purged, and the last one there is.
    pub(super) fn ends(&self) -> (Option<u64>, Option<u64>) {
        let held = self.shared.held();
        let index = |id: &Option<EntryId>| id.as_ref().map(|id| id.index);
        (index(&held.purged), index(&held.last))
    }

    /// From which entry on the log is in memory.
    #[cfg(test)]
    pub(super) fn held_from(&self) -> u64 {
        self.shared.held().first()
    }

    /// What the log takes up on the disk, without what it would use again.
    pub(super) async fn bytes(&self) -> io::Result<u64> {
        let shared = Arc::clone(&self.shared);
        on_disk(move || shared.reader().bytes()).await
    }

    async fn ordered<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> io::Result<T> {
        let (done, wait) = oneshot::channel();
        self.order(order(done))?;
        wait.await.map_err(|_| writer_gone())
    }

    fn order(&self, order: Order) -> io::Result<()> {
        self.writer.send(order).map_err(|_| writer_gone())
    }

    /// Entries of `range` from its start on. All that there are if `all`, or else some.
    async fn read(&self, range: Range<u64>, all: bool) -> io::Result<Vec<LogEntry>> {
        let (from_file, mut newest) = self.shared.held().split(&range, all);
        if from_file.is_empty() {
            return Ok(newest);
        }
        let shared = Arc::clone(&self.shared);
        let bytes_max = if all { usize::MAX } else { BYTES_AT_ONCE };
        let end = from_file.end;
        let mut entries = on_disk(move || shared.read_file(from_file, bytes_max)).await?;
        // Of a log that was cut short by `bytes_max` the newest entries do not follow.
        if entries.last().is_none_or(|last| last.index() + 1 == end) {
            entries.append(&mut newest);
        }
        Ok(entries)
    }
}

fn writer_gone() -> io::Error {
    io::Error::other("the thread that writes the log has ended")
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics while holding it")
    }

    fn reader(&self) -> MutexGuard<'_, LogReader> {
        self.reader.lock().expect("nobody panics while holding it")
    }

    fn read_file(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<LogEntry>, ReadError> {
        let read = self.reader().read(range, bytes_max)?;
        read.into_iter()
            .map(|entry| {
                let payload = form::read_payload(&entry.bytes).map_err(|source| {
                    let index = entry.at.index;
                    ReadError::Form { index, source }
                })?;
                Ok(LogEntry::new(entry_id(entry.at), payload))
            })
            .collect()
    }
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    File(#[from] LogError),
    #[error("reading the log's entry {index}")]
    Form { index: u64, source: form::FormError },
}

impl Held {
    /// Entries from this index on are in memory.
    fn first(&self) -> u64 {
        self.entries
            .first_key_value()
            .map_or_else(|| *self.synced.borrow(), |(index, _)| *index)
    }

    /// What of `range` is to be read from the file, and what is in memory after it.
    fn split(&self, range: &Range<u64>, all: bool) -> (Range<u64>, Vec<LogEntry>) {
        let first = self.first();
        let from_file = range.start..range.end.min(first);
        if !all && !from_file.is_empty() {
            return (from_file, Vec::new());
        }
        let start = range.start.max(first);
        let mut end = range.end;
        if !all {
            end = end.min(start.saturating_add(ENTRIES_AT_ONCE));
        }
        if start >= end {
            return (from_file, Vec::new());
        }
        let newest = self.entries.range(start..end);
        (from_file, newest.map(|(_, entry)| entry.clone()).collect())
    }

    fn append(&mut self, entries: &[LogEntry]) {
        for entry in entries {
            self.commands += commands(entry);
            self.entries.insert(entry.index(), entry.clone());
            self.last = Some(entry.log_id());
        }
    }

    /// Everything before `next` is on the disk: what is old enough need not stay in memory.
    fn synced(&mut self, next: u64) {
        self.synced.send_replace(next);
        while self.commands > COMMANDS_HELD
            && let Some(oldest) = self.entries.first_entry()
            && *oldest.key() < next
        {
            self.commands -= commands(&oldest.remove());
        }
    }

    fn truncate_after(&mut self, last: Option<EntryId>) {
        let next = last.as_ref().map_or(0, |last| last.index + 1);
        let gone = self.entries.split_off(&next);
        self.commands -= gone.values().map(commands).sum::<usize>();
        self.synced
            .send_modify(|synced| *synced = next.min(*synced));
        if self.last.as_ref().is_some_and(|it| it.index >= next) {
            self.last = last.or(self.purged);
        }
    }

    fn purge(&mut self, through: &EntryId) {
        let kept = self.entries.split_off(&(through.index + 1));
        let gone = std::mem::replace(&mut self.entries, kept);
        self.commands -= gone.values().map(commands).sum::<usize>();
        let next = through.index + 1;
        self.synced
            .send_modify(|synced| *synced = next.max(*synced));
        self.purged = Some(*through);
        if self
            .last
            .as_ref()
            .is_none_or(|last| last.index <= through.index)
        {
            self.last = Some(*through);
        }
    }
}

/// What an entry weighs in memory.
fn commands(entry: &LogEntry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(batch) => 1 + batch.proposals.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 1,
    }
}

/// Whoever writes the file: everything in the order in which it was asked for.
pub(super) struct LogWriter {
    file: LogFile,
    orders: mpsc::UnboundedReceiver<Order>,
    shared: Arc<Shared>,
}

impl LogWriter {
    /// Writes until no [`LogStore`] is left, on a thread that may wait.
    pub(super) fn run(mut self) {
        while let Some(order) = self.orders.blocking_recv() {
            self.write(order);
        }
    }

    /// Waits for the next order, where virtual time passes.
    #[cfg(test)]
    pub(super) async fn next(&mut self) -> Option<Order> {
        self.orders.recv().await
    }

    /// Carries out an order, and with it what has come up meanwhile.
    pub(super) fn write(&mut self, order: Order) {
        let mut orders = vec![order];
        while orders.len() < ORDERS_AT_ONCE
            && let Ok(order) = self.orders.try_recv()
        {
            orders.push(order);
        }
        self.shared.writing.send_replace(Some(Instant::now()));
        let committed = self.shared.held().committed;
        match write_once(&mut self.file, &mut orders, committed.as_ref()) {
            Ok(()) => {}
            Err(error) => exit::now(LEDGER_FAILED, "writing the log failed", Some(&error)),
        }
        self.shared.writing.send_replace(None);
        for order in orders {
            tell(order, &self.shared);
        }
    }
}

/// Carries out orders in one transaction.
fn write_once(
    file: &mut LogFile,
    orders: &mut [Order],
    committed: Option<&EntryId>,
) -> Result<(), LogError> {
    let mut write = file.begin()?;
    for order in orders.iter_mut() {
        match order {
            Order::Vote(vote, _) => write.vote(Vote {
                term: vote.leader_id.term,
                node: vote.leader_id.node_id,
                granted: vote.committed,
            })?,
            Order::Append(entries, _) => {
                for entry in entries {
                    write.append(
                        position(&entry.log_id),
                        &form::write_payload(&entry.payload),
                    )?;
                }
            }
            Order::TruncateAfter(last, _) => {
                write.truncate_after(last.as_ref().map(|last| last.index))?;
            }
            Order::Purge(through, all, _) => {
                *all = write.purge(position(through), PURGED_AT_ONCE)?;
            }
        }
    }
    // A hint that spares a start some waiting. It need not be the newest, but must not name what is
    // still on its way here.
    if let Some(committed) = committed.filter(|it| write.last() >= Some(it.index)) {
        write.committed(position(committed))?;
    }
    fail::point("log written");
    write.commit()?;
    fail::point("log committed");
    if orders.iter().any(|order| matches!(order, Order::Purge(..))) {
        fail::point("log purged");
    }
    Ok(())
}

/// It is on the disk.
fn tell(order: Order, shared: &Shared) {
    match order {
        Order::Append(entries, done) => {
            if let Some(last) = entries.last() {
                shared.held().synced(last.index() + 1);
            }
            done.io_completed(Ok(()));
        }
        // Nobody waits any more where the group is being stopped.
        Order::Vote(_, done) | Order::TruncateAfter(_, done) => {
            let _ = done.send(());
        }
        Order::Purge(_, all, done) => {
            let _ = done.send(all);
        }
    }
}

fn range_of(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<LogEntry>, io::Error> {
        self.read(range_of(&range), true).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<LogEntry>, io::Error> {
        self.read(start..end, false).await
    }

    /// Bit by bit: after a start this may be everything since the last checkpoint.
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<LogEntry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let log = self.clone();
        let chunks = stream::unfold((log, range_of(&range)), |(log, range)| async move {
            if range.is_empty() {
                return None;
            }
            let entries = match log.read(range.clone(), false).await {
                Ok(entries) => entries,
                Err(error) => return Some((vec![Err(error)], (log, range.end..range.end))),
            };
            let next = entries.last().map_or(range.end, |last| last.index() + 1);
            Some((
                entries.into_iter().map(Ok).collect(),
                (log, next..range.end),
            ))
        });
        Box::pin(chunks.flat_map(stream::iter))
    }

    async fn read_vote(&mut self) -> Result<Option<VoteCast>, io::Error> {
        Ok(self.shared.held().vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let held = self.shared.held();
        Ok(LogState {
            last_purged_log_id: held.purged,
            last_log_id: held.last,
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteCast) -> Result<(), io::Error> {
        self.ordered(|done| Order::Vote(*vote, done)).await?;
        self.shared.held().vote = Some(*vote);
        Ok(())
    }

    /// Kept in memory, and written beside what is written next.
    async fn save_committed(&mut self, committed: Option<EntryId>) -> Result<(), io::Error> {
        self.shared.held().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<EntryId>, io::Error> {
        Ok(self.shared.held().committed)
    }

    async fn append<I>(&mut self, entries: I, done: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<LogEntry> = entries.into_iter().collect();
        self.shared.held().append(&entries);
        self.order(Order::Append(entries, done))
    }

    async fn truncate_after(&mut self, last: Option<EntryId>) -> Result<(), io::Error> {
        self.ordered(|done| Order::TruncateAfter(last, done))
            .await?;
        self.shared.held().truncate_after(last);
        Ok(())
    }

    async fn purge(&mut self, through: EntryId) -> Result<(), io::Error> {
        // In steps, between which others are written: nobody is to wait for the end of it.
        while !self
            .ordered(|done| Order::Purge(through, false, done))
            .await?
        {}
        self.shared.held().purge(&through);
        Ok(())
    }
}
