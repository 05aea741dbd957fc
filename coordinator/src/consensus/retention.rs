//! How much of the log is kept.
//!
//! Two things must be true of an entry before it goes: the ledger's file itself holds its effects,
//! synced, or else a power cut would take back what nothing brings again; and a synced snapshot
//! holds them, for a member that still needs them. Beyond that the log is kept for some minutes, so
//! that a member that was away for a while catches up entry by entry, and no longer than the disk
//! has room for.
//!
//! A small log is left as it is. Nothing is gained from making it smaller, and each snapshot is a
//! copy of the whole ledger.

use std::collections::VecDeque;
use std::time::Duration;

use ledger::log::Position;
use openraft::Raft;
use tokio::sync::watch;
use tokio::time::Instant;

use super::log_store::LogStore;
use super::snapshots::Snapshots;
use super::state::State;
use super::types::Types;
use crate::exit::causes;

/// What is kept, and how often it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For how long an entry is kept.
    pub(super) keep: Duration,
    /// Between two looks at how far the log has come.
    pub(super) look_every: Duration,
    /// A log of less than this is left alone.
    pub(super) bytes_small: u64,
    /// A log of more than this loses the older half of its entries, however young.
    pub(super) bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            keep: Duration::from_secs(10 * 60),
            look_every: Duration::from_secs(10),
            bytes_small: 64 << 20,
            bytes_max: 2 << 30,
        }
    }
}

/// What is to be done about the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// A snapshot is missing before anything can go.
    MakeSnapshot,
    /// Everything up to and with this entry can go.
    Purge {
        through: u64,
    },
}

/// How the log stands.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The last entry that was purged.
    purged: u64,
    last: u64,
    bytes: u64,
    /// Up to here the ledger's file holds the effects, synced.
    checkpointed: Option<u64>,
    /// Up to here a synced snapshot does.
    snapshot: Option<u64>,
}

struct Retention {
    limits: Limits,
    /// When the log was how long, oldest first; of those older than is kept only the newest.
    looks: VecDeque<(Instant, u64)>,
}

impl Retention {
    fn new(limits: Limits) -> Retention {
        Retention {
            limits,
            looks: VecDeque::new(),
        }
    }

    /// To be called as often as the limits say.
    fn plan(&mut self, now: Instant, log: Standing) -> Plan {
        let limits = self.limits;
        let is_old = |look: &&(Instant, u64)| look.0 + limits.keep <= now;
        self.looks.push_back((now, log.last));
        while self.looks.get(1).is_some_and(|look| is_old(&look)) {
            self.looks.pop_front();
        }
        let old = self.looks.front().filter(is_old);
        let wanted = if log.bytes >= limits.bytes_max {
            Some(log.purged + (log.last - log.purged) / 2)
        } else if log.bytes >= limits.bytes_small {
            old.map(|(_, index)| *index)
        } else {
            None
        };
        let Some(wanted) = wanted.filter(|wanted| *wanted > log.purged) else {
            return Plan::Nothing;
        };
        if log.snapshot < Some(wanted) {
            return Plan::MakeSnapshot;
        }
        let through = Some(wanted).min(log.checkpointed);
        match through.filter(|through| *through > log.purged) {
            Some(through) => Plan::Purge { through },
            None => Plan::Nothing,
        }
    }
}

/// Keeps the log bounded for as long as the group lives.
pub(super) async fn retain(
    raft: Raft<Types, State>,
    log: LogStore,
    snapshots: Snapshots,
    checkpointed: watch::Receiver<Option<Position>>,
    limits: Limits,
) {
    let mut retention = Retention::new(limits);
    let mut interval = tokio::time::interval(limits.look_every);
    loop {
        interval.tick().await;
        let (purged, last) = log.ends();
        let bytes = match log.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(error = causes(&error), "the log's size is unknown");
                continue;
            }
        };
        let index = |position: Option<Position>| position.map(|position| position.index);
        let standing = Standing {
            purged: purged.unwrap_or(0),
            last: last.unwrap_or(0),
            bytes,
            checkpointed: index(*checkpointed.borrow()),
            snapshot: index(snapshots.reached()),
        };
        let done = match retention.plan(Instant::now(), standing) {
            Plan::Nothing => Ok(()),
            Plan::MakeSnapshot => raft.trigger().snapshot().await,
            Plan::Purge { through } => raft.trigger().purge_log(through).await,
        };
        if done.is_err() {
            // The group has ended.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn limits() -> Limits {
        Limits::default()
    }

    /// A log that has grown by 100 entries a minute, at minute `now`, looked at every minute.
    fn plan(now: u32, change: impl Fn(&mut Standing)) -> Plan {
        let mut retention = Retention::new(limits());
        let begin = Instant::now();
        let mut planned = Plan::Nothing;
        for minute in 0..=now {
            let last = u64::from(minute) * 100;
            let mut log = Standing {
                purged: 0,
                last,
                bytes: limits().bytes_small,
                checkpointed: Some(last),
                snapshot: Some(last),
            };
            change(&mut log);
            planned = retention.plan(begin + MINUTE * minute, log);
        }
        planned
    }

    #[test]
    fn what_is_old_goes_once_it_is_safe_twice() {
        type Change = fn(&mut Standing);
        let cases: [(&str, u32, Change, Plan); 12] = [
            ("young", 9, |_| {}, Plan::Nothing),
            ("old", 30, |_| {}, Plan::Purge { through: 2000 }),
            ("small", 30, |log| log.bytes -= 1, Plan::Nothing),
            ("purged", 30, |log| log.purged = 2000, Plan::Nothing),
            (
                "no snapshot",
                30,
                |log| log.snapshot = None,
                Plan::MakeSnapshot,
            ),
            (
                "old snapshot",
                30,
                |log| log.snapshot = Some(1999),
                Plan::MakeSnapshot,
            ),
            (
                "snapshot",
                30,
                |log| log.snapshot = Some(2000),
                Plan::Purge { through: 2000 },
            ),
            (
                "no checkpoint",
                30,
                |log| log.checkpointed = None,
                Plan::Nothing,
            ),
            (
                "checkpoint",
                30,
                |log| log.checkpointed = Some(1500),
                Plan::Purge { through: 1500 },
            ),
            (
                "held back",
                30,
                |log| (log.purged, log.checkpointed) = (1500, Some(1500)),
                Plan::Nothing,
            ),
            (
                "large",
                3,
                |log| log.bytes = limits().bytes_max,
                Plan::Purge { through: 150 },
            ),
            (
                "large, unsafe",
                3,
                |log| (log.bytes, log.snapshot) = (limits().bytes_max, Some(9)),
                Plan::MakeSnapshot,
            ),
        ];
        for (name, now, change, expected) in cases {
            assert_eq!(plan(now, change), expected, "{name}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut retention = Retention::new(limits());
        let begin = Instant::now();
        for look in 0..100_000 {
            let log = Standing {
                purged: 0,
                last: 5,
                bytes: 0,
                checkpointed: None,
                snapshot: None,
            };
            retention.plan(begin + limits().look_every * look, log);
        }
        assert!(retention.looks.len() <= 62, "{}", retention.looks.len());
    }
}
