//! The integers that stand for states and kinds in the tables.
//!
//! They are on disk and in other replicas: never renumber one, never use one again, only add. The
//! words beside them are for the views; both come from the same list, so they cannot drift.

use std::str::FromStr;

use jobs::{Overlap, Previous, Serial};
use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::host::Turn;
use protocol::names::NameError;
use protocol::{ApiRole, Health, Role};
use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type};
use serde::de::DeserializeOwned;

use crate::command::{AlertKind, GapReason};
use crate::rows::{Bar, Cordon, Namespace, RunState};

/// A kind that is written as an integer.
pub(crate) trait Coded: Copy + 'static {
    const ALL: &'static [Self];
    fn code(self) -> i64;
    fn from_code(code: i64) -> Option<Self>;
    fn word(self) -> &'static str;
}

macro_rules! coded {
    ($type:ident: $($variant:ident = $code:literal),+ $(,)?) => {
        impl Coded for $type {
            const ALL: &'static [$type] = &[$($type::$variant),+];
            fn code(self) -> i64 {
                match self {
                    $($type::$variant => $code),+
                }
            }
            fn from_code(code: i64) -> Option<$type> {
                match code {
                    $($code => Some($type::$variant),)+
                    _ => None,
                }
            }
            fn word(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

/// Runs with a smaller code are open: the partial index on `runs` says so too.
pub(crate) const FIRST_FINAL_RUN_STATE: i64 = 4;

coded!(RunState:
    Waiting = 0,
    Ready = 1,
    Running = 2,
    NeedsConfirmation = 3,
    Succeeded = 4,
    Failed = 5,
    Cancelled = 6,
    Skipped = 7,
    Missed = 8,
);

/// The states of a shard without what goes with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardKind {
    Pending,
    Leased,
    Succeeded,
    NeedsConfirmation,
    Cancelled,
}

impl ShardKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ShardKind::Pending => "pending",
            ShardKind::Leased => "leased",
            ShardKind::Succeeded => "succeeded",
            ShardKind::NeedsConfirmation => "needs_confirmation",
            ShardKind::Cancelled => "cancelled",
        }
    }
}

coded!(ShardKind:
    Pending = 0,
    Leased = 1,
    Succeeded = 2,
    NeedsConfirmation = 3,
    Cancelled = 4,
);

coded!(Bar: Quarantined = 0, Revoked = 1);

coded!(Cordon: Cordoned = 0, Draining = 1, DrainingNow = 2, Unwell = 3);

coded!(Health: Ok = 0, Unknown = 1, Rebuilding = 2, Degraded = 3, Failed = 4);

coded!(Namespace: Scheduled = 0, Manual = 1);

coded!(ApiRole: Viewer = 0, Operator = 1, Admin = 2);

coded!(Role: Agent = 0, Coordinator = 1, Witness = 2);

/// The kinds of what a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockerKind {
    Overlap,
    Replaced,
    Previous,
    After,
    Turn,
}

impl BlockerKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            BlockerKind::Overlap => "overlap",
            BlockerKind::Replaced => "replaced",
            BlockerKind::Previous => "previous",
            BlockerKind::After => "after",
            BlockerKind::Turn => "catch_up_turn",
        }
    }
}

coded!(BlockerKind: Overlap = 0, Replaced = 1, Previous = 2, After = 3, Turn = 4);

coded!(Trigger: Scheduled = 0, CatchUp = 1, Manual = 2, Rerun = 3, Redo = 4);

coded!(AttemptOutcome:
    Succeeded = 0,
    Failed = 1,
    TimedOut = 2,
    Lost = 3,
    Interrupted = 4,
    Cancelled = 5,
    Refused = 6,
    NeverStarted = 7,
);

// In words of their own, because the types live in another crate.
impl Coded for Overlap {
    const ALL: &'static [Overlap] = &[
        Overlap::Forbid,
        Overlap::Queue,
        Overlap::Allow,
        Overlap::Replace,
    ];
    fn code(self) -> i64 {
        match self {
            Overlap::Forbid => 0,
            Overlap::Queue => 1,
            Overlap::Allow => 2,
            Overlap::Replace => 3,
        }
    }
    fn from_code(code: i64) -> Option<Overlap> {
        Overlap::ALL.iter().copied().find(|o| o.code() == code)
    }
    fn word(self) -> &'static str {
        match self {
            Overlap::Forbid => "forbid",
            Overlap::Queue => "queue",
            Overlap::Allow => "allow",
            Overlap::Replace => "replace",
        }
    }
}

impl Coded for Serial {
    const ALL: &'static [Serial] = &[Serial::Relaxed, Serial::Strict];
    fn code(self) -> i64 {
        match self {
            Serial::Relaxed => 0,
            Serial::Strict => 1,
        }
    }
    fn from_code(code: i64) -> Option<Serial> {
        Serial::ALL.iter().copied().find(|s| s.code() == code)
    }
    fn word(self) -> &'static str {
        match self {
            Serial::Relaxed => "relaxed",
            Serial::Strict => "strict",
        }
    }
}

impl Coded for Previous {
    const ALL: &'static [Previous] = &[Previous::Succeeded, Previous::Ended];
    fn code(self) -> i64 {
        match self {
            Previous::Succeeded => 0,
            Previous::Ended => 1,
        }
    }
    fn from_code(code: i64) -> Option<Previous> {
        Previous::ALL.iter().copied().find(|p| p.code() == code)
    }
    fn word(self) -> &'static str {
        match self {
            Previous::Succeeded => "succeeded",
            Previous::Ended => "ended",
        }
    }
}

coded!(Turn: Vanished = 0, Worse = 1, Changed = 2, Better = 3, Came = 4);

coded!(GapReason:
    GivenUpAfterOutage = 0,
    UnreadableManifest = 1,
    Paused = 2,
    Unknown = 3,
);

coded!(AlertKind:
    UnreadableJob = 0,
    FlappingLeader = 1,
    OverlapSkipped = 2,
    StartDeadlinePassed = 3,
    GivenUp = 4,
    NeedsConfirmation = 5,
    DuplicateAgent = 6,
    FireRefused = 7,
    ClockBehind = 8,
    AgentRevoked = 9,
    CommandRefused = 10,
    CertificateEnds = 11,
    ClockDiffers = 12,
    ClockHeld = 13,
    FuseBlown = 14,
    BacklogOld = 15,
    PredecessorFailed = 16,
    Restored = 17,
    UnknownSinceBackup = 18,
    BackupFailed = 19,
    BackupOverdue = 20,
    MemberMissing = 21,
    MemberBehind = 22,
    RoomShort = 23,
    AddressAway = 24,
    ClockUnsynchronised = 25,
    HostChanged = 27,
    HostUnwell = 28,
    ClassesDiffer = 29,
    MemberUnfit = 30,
);

/// Reads a column that holds a code. A code that nobody wrote is damage, not a value.
pub(crate) fn coded<T: Coded>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    coded_option(row, column)?
        .ok_or_else(|| damaged(column, Type::Null, "an integer code is missing"))
}

pub(crate) fn coded_option<T: Coded>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<i64>>(column)?
        .map(|code| {
            T::from_code(code).ok_or_else(|| {
                damaged(column, Type::Integer, &format!("code {code} means nothing"))
            })
        })
        .transpose()
}

/// Reads a column that holds a name.
pub(crate) fn named<T: FromStr<Err = NameError>>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    named_option(row, column)?.ok_or_else(|| damaged(column, Type::Null, "a name is missing"))
}

pub(crate) fn named_option<T: FromStr<Err = NameError>>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(str::parse)
        .transpose()
        .map_err(|error: NameError| damaged(column, Type::Text, &error.to_string()))
}

/// Reads a column that holds JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    json_option(row, column)?.ok_or_else(|| damaged(column, Type::Null, "JSON is missing"))
}

pub(crate) fn json_option<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(serde_json::from_str)
        .transpose()
        .map_err(|error| damaged(column, Type::Text, &error.to_string()))
}

/// What a reader answers for a cell that no apply can have written.
pub(crate) fn damaged(column: usize, kind: Type, what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        kind,
        Box::new(FromSqlError::Other(what.to_owned().into())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Coded + PartialEq + std::fmt::Debug>() {
        let mut codes: Vec<i64> = T::ALL.iter().map(|value| value.code()).collect();
        for value in T::ALL {
            assert_eq!(T::from_code(value.code()), Some(*value));
        }
        codes.dedup();
        assert_eq!(codes.len(), T::ALL.len());
        assert_eq!(T::from_code(-1), None);
    }

    #[test]
    fn codes_come_back() {
        check::<RunState>();
        check::<ShardKind>();
        check::<Bar>();
        check::<Cordon>();
        check::<BlockerKind>();
        check::<Overlap>();
        check::<Serial>();
        check::<Previous>();
        check::<Namespace>();
        check::<Trigger>();
        check::<AttemptOutcome>();
        check::<GapReason>();
        check::<Turn>();
        check::<AlertKind>();
    }

    #[test]
    fn statements_name_these_by_number() {
        assert_eq!(FIRST_FINAL_RUN_STATE, 4);
        assert_eq!(RunState::Running.code(), 2);
        assert_eq!(ShardKind::Leased.code(), 1);
    }

    #[test]
    fn the_first_final_code_divides_open_from_final() {
        for state in RunState::ALL {
            assert_eq!(state.is_final(), state.code() >= FIRST_FINAL_RUN_STATE);
        }
    }
}
