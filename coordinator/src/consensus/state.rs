//! The ledger as openraft's state machine.
//!
//! A thread of its own owns the [`Store`]: a transaction that takes milliseconds must not stand in
//! the way of votes and heartbeats. An answer leaves after the commit of the entry it belongs to,
//! and an error of the ledger ends the process, as everywhere.
//!
//! **The ledger never runs ahead of the log beside it.** Two others may have committed an entry that
//! is still on its way to this disk, and openraft would have it applied; a crash would then leave a
//! ledger that holds what its log does not, and perhaps another entry in its place.

use std::io;
use std::sync::{Arc, Mutex};

use futures_util::stream::{Stream, TryStreamExt};
use ledger::Store;
use ledger::replica::{Applied, Entry};
use openraft::entry::{EntryPayload, RaftEntry};
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine, SnapshotMeta};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use tokio::sync::{mpsc, oneshot, watch};

use super::form::{self, FormError};
use super::snapshots::{SnapshotFile, Snapshots};
use super::types::{
    Answer, EntryId, Leader, LogEntry, Member, MembersAt, SnapshotOf, Types, entry_id, position,
};
use super::{fail, on_disk};
use crate::exit::{self, LEDGER_FAILED};

/// Entries handed to the thread in one go, as far as they are there already.
const ENTRIES_AT_ONCE: usize = 64;

/// The ledger, for openraft.
pub(super) struct State {
    thread: StateThread,
    snapshots: Snapshots,
    /// Entries before this index are in the log's file.
    in_log: watch::Receiver<u64>,
}

/// Speaks to the thread that owns the store.
#[derive(Clone)]
pub(super) struct StateThread {
    orders: mpsc::UnboundedSender<Order>,
}

/// Held by whoever must not be met by a snapshot that replaces the whole ledger.
pub(super) type Whole = Arc<Mutex<()>>;

type ToApply = (LogEntry, Option<ApplyResponder<Types>>);

pub(super) enum Order {
    Apply(Vec<ToApply>, oneshot::Sender<()>),
    Install(SnapshotFile, oneshot::Sender<()>),
    Look(Box<dyn FnOnce(&Store) + Send>),
}

impl State {
    /// The state machine, and the keeper of the ledger that carries out what it is asked to.
    pub(super) fn new(
        store: Store,
        snapshots: Snapshots,
        whole: Whole,
        in_log: watch::Receiver<u64>,
    ) -> (State, LedgerKeeper) {
        let (orders, arriving) = mpsc::unbounded_channel();
        let state = State {
            thread: StateThread { orders },
            snapshots,
            in_log,
        };
        let keeper = LedgerKeeper {
            store,
            orders: arriving,
            whole,
        };
        (state, keeper)
    }

    pub(super) fn thread(&self) -> StateThread {
        self.thread.clone()
    }
}

impl StateThread {
    /// Has the thread look at the ledger between two entries.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> io::Result<T> {
        self.ordered(|answer| {
            Order::Look(Box::new(move |store| {
                // Whoever asked may have gone.
                let _ = answer.send(question(store));
            }))
        })
        .await
    }

    async fn ordered<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> io::Result<T> {
        let thread_gone = || io::Error::other("the thread that keeps the ledger has ended");
        let (done, wait) = oneshot::channel();
        self.orders.send(order(done)).map_err(|_| thread_gone())?;
        wait.await.map_err(|_| thread_gone())
    }
}

/// Whoever owns the ledger.
pub(super) struct LedgerKeeper {
    store: Store,
    orders: mpsc::UnboundedReceiver<Order>,
    whole: Whole,
}

impl LedgerKeeper {
    /// Keeps it until no [`StateThread`] is left, on a thread that may wait.
    pub(super) fn run(mut self) {
        while let Some(order) = self.orders.blocking_recv() {
            self.carry_out(order);
        }
    }

    /// Waits for the next order, where virtual time passes.
    #[cfg(test)]
    pub(super) async fn next(&mut self) -> Option<Order> {
        self.orders.recv().await
    }

    pub(super) fn carry_out(&mut self, order: Order) {
        match order {
            Order::Apply(entries, done) => {
                for (entry, responder) in entries {
                    let answer = apply(&mut self.store, &entry);
                    if let Some(responder) = responder {
                        responder.send(answer);
                    }
                }
                let _ = done.send(());
            }
            Order::Install(snapshot, done) => {
                fail::point("snapshot kept");
                let _whole = self.whole.lock().expect("nobody panics while holding it");
                if let Err(error) = self.store.install(snapshot.path()) {
                    exit::now(LEDGER_FAILED, "installing a snapshot failed", Some(&error));
                }
                fail::point("snapshot installed");
                let _ = done.send(());
            }
            Order::Look(look) => look(&self.store),
        }
    }
}

fn apply(store: &mut Store, entry: &LogEntry) -> Answer {
    let members = match &entry.payload {
        EntryPayload::Membership(members) => Some(form::write_members(members)),
        EntryPayload::Normal(_) | EntryPayload::Blank => None,
    };
    let batch = match &entry.payload {
        EntryPayload::Normal(batch) => &*batch.proposals,
        EntryPayload::Membership(_) | EntryPayload::Blank => &[],
    };
    fail::point("entry due");
    let applied = store.apply(Entry {
        at: position(&entry.log_id()),
        batch,
        members: members.as_deref(),
    });
    match applied {
        Ok(outcomes) => {
            fail::point("entry applied");
            Answer(outcomes)
        }
        Err(error) => exit::now(LEDGER_FAILED, "writing the ledger failed", Some(&error)),
    }
}

/// What the ledger says of the group, in openraft's words.
fn read_applied(applied: Applied) -> Result<(Option<EntryId>, MembersAt), FormError> {
    let members = match applied.members {
        Some((at, bytes)) => {
            let members = form::read_members(&bytes)?;
            MembersAt::new(Some(entry_id(at)), members)
        }
        None => MembersAt::default(),
    };
    Ok((applied.position.map(entry_id), members))
}

/// A snapshot that goes as far as `applied` says, in openraft's words.
pub(super) fn snapshot_of(applied: Applied, file: SnapshotFile) -> Result<SnapshotOf, FormError> {
    let (last_log_id, last_membership) = read_applied(applied)?;
    Ok(SnapshotOf {
        meta: SnapshotMeta {
            last_log_id,
            last_membership,
        },
        snapshot: file,
    })
}

impl RaftStateMachine<Types> for State {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Snapshots;

    async fn applied_state(&mut self) -> Result<(Option<EntryId>, MembersAt), io::Error> {
        let applied = self.thread.look(Store::applied).await?;
        let applied = applied.map_err(io::Error::other)?;
        read_applied(applied).map_err(io::Error::other)
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let mut chunks = entries.try_ready_chunks(ENTRIES_AT_ONCE);
        while let Some(chunk) = chunks.try_next().await.map_err(|failed| failed.1)? {
            if let Some((last, _)) = chunk.last() {
                let index = last.index();
                let in_log = self.in_log.wait_for(|next| index < *next).await;
                in_log.map_err(|_| io::Error::other("the log has been closed"))?;
            }
            self.thread
                .ordered(|done| Order::Apply(chunk, done))
                .await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Snapshots {
        self.snapshots.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<Leader, u64, Member>,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        let snapshots = self.snapshots.clone();
        let expected = meta.last_log_id.as_ref().map(position);
        let kept = on_disk(move || snapshots.keep(&snapshot, expected).map(|()| snapshot)).await?;
        self.thread.ordered(|done| Order::Install(kept, done)).await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf>, io::Error> {
        let current = self.snapshots.current().map_err(io::Error::other)?;
        current
            .map(|(applied, file)| snapshot_of(applied, file))
            .transpose()
            .map_err(io::Error::other)
    }
}

impl RaftSnapshotBuilder<Types> for Snapshots {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> Result<SnapshotOf, io::Error> {
        let snapshots = self.clone();
        let (applied, file) = on_disk(move || snapshots.make()).await?;
        snapshot_of(applied, file).map_err(io::Error::other)
    }
}
