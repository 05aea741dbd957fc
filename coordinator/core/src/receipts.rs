//! Receipts that are to come, and shards that wait for them.
//!
//! A lease expires while its host is out of reach; its shard is pending and waits for a place. Then
//! the host comes back, and its attach does two things at once: it opens a place, and it announces
//! the attempt whose receipt follows. A grant made that moment would overtake the receipt by a
//! millisecond, and work that is done would be done again. After an outage of the whole fleet that
//! would be everything that ended meanwhile.
//!
//! So the shard is left alone until the receipt has been answered, its connection is gone, or it
//! has had its time. Only waiting is at stake: whether the receipt counts is for the ledger to say.

use std::collections::{BTreeMap, BTreeSet};

use ledger::Owed;
use protocol::lease::KILL_GRACE;
use protocol::{BootMs, DurationMs, Token};

use crate::core::ConnId;
use crate::queue::Key;

/// How long a shard waits for a receipt, from the landing of the attach that announced it. An
/// attempt that is still running is killed first, and what is said of it crosses the network twice.
const RECEIPT_WAIT: DurationMs = DurationMs(5_000);

const _: () = assert!(RECEIPT_WAIT.0 > KILL_GRACE.0);

#[derive(Debug, Default)]
pub(crate) struct Receipts {
    owed: BTreeMap<ConnId, Announced>,
    /// The same by shard: what is waited for, and from whom.
    waiting: BTreeMap<Key, (ConnId, Token)>,
    /// The same by time.
    due: BTreeSet<(BootMs, ConnId)>,
}

/// What one attach has announced and is still to come.
#[derive(Debug)]
struct Announced {
    until: BootMs,
    receipts: BTreeMap<Token, Key>,
}

impl Receipts {
    /// An attach has landed that announces these.
    pub(crate) fn expect(
        &mut self,
        conn: ConnId,
        owed: impl IntoIterator<Item = Owed>,
        now: BootMs,
    ) -> Vec<Key> {
        let freed = self.give_up_on(conn);
        let until = now + RECEIPT_WAIT;
        let mut receipts = BTreeMap::new();
        for Owed {
            token,
            run_id,
            shard,
        } in owed
        {
            let key = (run_id, shard);
            if let Some((other, earlier)) = self.waiting.insert(key, (conn, token)) {
                self.strike(other, earlier);
            }
            receipts.insert(token, key);
        }
        if !receipts.is_empty() {
            self.owed.insert(conn, Announced { until, receipts });
            self.due.insert((until, conn));
        }
        freed
    }

    pub(crate) fn is_awaited(&self, key: Key) -> bool {
        self.waiting.contains_key(&key)
    }

    /// A receipt was answered, whatever the answer. The shard that waited for it, if one did.
    pub(crate) fn answered(&mut self, conn: ConnId, token: Token) -> Option<Key> {
        let key = self.strike(conn, token)?;
        self.waiting.remove(&key);
        Some(key)
    }

    /// The connection is gone, or has had its time. The shards that waited for its receipts.
    pub(crate) fn give_up_on(&mut self, conn: ConnId) -> Vec<Key> {
        let Some(announced) = self.owed.remove(&conn) else {
            return Vec::new();
        };
        self.due.remove(&(announced.until, conn));
        for key in announced.receipts.values() {
            self.waiting.remove(key);
        }
        announced.receipts.into_values().collect()
    }

    pub(crate) fn give_up_overdue(&mut self, now: BootMs) -> Vec<Key> {
        let mut freed = Vec::new();
        while let Some(&(until, conn)) = self.due.first()
            && until <= now
        {
            freed.extend(self.give_up_on(conn));
        }
        freed
    }

    pub(crate) fn len(&self) -> usize {
        self.owed.len() + self.waiting.len() + self.due.len()
    }

    pub(crate) fn next_wake(&self) -> Option<BootMs> {
        self.due.first().map(|&(until, _)| until)
    }

    /// Takes a receipt off what a connection announced; answers for which shard it was.
    fn strike(&mut self, conn: ConnId, token: Token) -> Option<Key> {
        let announced = self.owed.get_mut(&conn)?;
        let key = announced.receipts.remove(&token);
        if announced.receipts.is_empty() {
            self.due.remove(&(announced.until, conn));
            self.owed.remove(&conn);
        }
        key
    }
}
