//! How much of the log is kept.
//!
//! Two things must be true of an entry before it goes: the ledger's file itself holds its effects,
//! synced, or else a power cut would take back what nothing brings again; and a synced snapshot
//! holds them, for a member that still needs them. Beyond that the log is kept for [`KEEP`], so
//! that a member that was away for a while catches up entry by entry, and no longer than the disk
//! has room for.
//!
//! A small log is left as it is. Nothing is gained from making it smaller, and each snapshot is a
//! copy of the whole ledger.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::{BootMs, DurationMs};

/// For how long an entry is kept.
const KEEP: DurationMs = DurationMs(10 * 60 * 1000);

/// Between two looks at how far the log has come.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A log of less than this is left alone.
const BYTES_SMALL: u64 = 64 << 20;

/// A log of more than this loses the older half of its entries, however young.
const BYTES_MAX: u64 = 2 << 30;

/// What is to be done about the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
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
pub(super) struct Standing {
    /// The last entry that was purged.
    pub(super) purged: u64,
    pub(super) last: u64,
    pub(super) bytes: u64,
    /// Up to here the ledger's file holds the effects, synced.
    pub(super) checkpointed: Option<u64>,
    /// Up to here a synced snapshot does.
    pub(super) snapshot: Option<u64>,
}

#[derive(Default)]
pub(super) struct Retention {
    /// When the log was how long, oldest first; of those older than [`KEEP`] only the newest.
    looks: VecDeque<(BootMs, u64)>,
}

impl Retention {
    /// To be called every [`LOOK_EVERY`].
    pub(super) fn plan(&mut self, now: BootMs, log: Standing) -> Plan {
        self.looks.push_back((now, log.last));
        while self.looks.get(1).is_some_and(|(at, _)| *at + KEEP <= now) {
            self.looks.pop_front();
        }
        let old = self.looks.front().filter(|(at, _)| *at + KEEP <= now);
        let wanted = if log.bytes >= BYTES_MAX {
            Some(log.purged + (log.last - log.purged) / 2)
        } else if log.bytes >= BYTES_SMALL {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    /// A log that has grown by 100 entries a minute, at minute `now`, looked at every minute.
    fn plan(now: i64, change: impl Fn(&mut Standing)) -> Plan {
        let mut retention = Retention::default();
        let mut planned = Plan::Nothing;
        for minute in 0..=now {
            let last = minute.cast_unsigned() * 100;
            let mut log = Standing {
                purged: 0,
                last,
                bytes: BYTES_SMALL,
                checkpointed: Some(last),
                snapshot: Some(last),
            };
            change(&mut log);
            planned = retention.plan(BootMs(minute * MINUTE), log);
        }
        planned
    }

    #[test]
    fn what_is_old_goes_once_it_is_safe_twice() {
        type Change = fn(&mut Standing);
        let cases: [(&str, i64, Change, Plan); 12] = [
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
                |log| log.bytes = BYTES_MAX,
                Plan::Purge { through: 150 },
            ),
            (
                "large, unsafe",
                3,
                |log| (log.bytes, log.snapshot) = (BYTES_MAX, Some(9)),
                Plan::MakeSnapshot,
            ),
        ];
        for (name, now, change, expected) in cases {
            assert_eq!(plan(now, change), expected, "{name}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut retention = Retention::default();
        for look in 0..100_000 {
            let log = Standing {
                purged: 0,
                last: 5,
                bytes: 0,
                checkpointed: None,
                snapshot: None,
            };
            retention.plan(BootMs(look * 10_000), log);
        }
        assert!(retention.looks.len() <= 62, "{}", retention.looks.len());
    }
}
