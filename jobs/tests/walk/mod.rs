//! The other way to look at it, by which the engine is judged: walk along local time, minute by
//! minute, and ask chrono what each means.

use std::collections::BTreeMap;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::{GapInfo, Tz};

pub(crate) const DAY: i64 = 86_400;
const FIRST: i64 = 0;
/// 2038-01-01T00:00:00Z.
const LAST: i64 = 2_145_916_800;

/// A change of a zone's offset, in seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) at: i64,
    pub(crate) before: i64,
    pub(crate) after: i64,
}

pub(crate) fn utc(at: i64) -> NaiveDateTime {
    DateTime::from_timestamp(at, 0).unwrap().naive_utc()
}

fn offset(tz: Tz, at: i64) -> i64 {
    i64::from(
        tz.offset_from_utc_datetime(&utc(at))
            .fix()
            .local_minus_utc(),
    )
}

/// Every change of a zone's offset, 1970 to 2037.
pub(crate) fn changes(tz: Tz) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut before = offset(tz, FIRST);
    for day in FIRST / DAY..LAST / DAY {
        let after = offset(tz, (day + 1) * DAY);
        if after != before {
            let (mut low, mut high) = (day * DAY, (day + 1) * DAY);
            while high - low > 1 {
                let middle = i64::midpoint(low, high);
                if offset(tz, middle) == before {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            changes.push(Change {
                at: high,
                before,
                after,
            });
            before = after;
        }
    }
    changes
}

/// What should fire in (`from`, `to`], and for which local times: those of `named`, whose seconds
/// are `seconds`.
pub(crate) fn expected(
    tz: Tz,
    fixed: bool,
    seconds: &[u32],
    named: impl Fn(NaiveDateTime) -> bool,
    from: i64,
    to: i64,
) -> BTreeMap<i64, Vec<String>> {
    let mut fires: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    // No clock is a day away from UTC.
    let first = (from - DAY).div_euclid(60) * 60;
    let minutes = (first..to + DAY).step_by(60).map(utc).filter(|&t| named(t));
    for local in minutes.flat_map(|t| {
        seconds
            .iter()
            .map(move |&s| t + TimeDelta::seconds(s.into()))
    }) {
        let instants = match tz.from_local_datetime(&local) {
            LocalResult::Single(only) => vec![only.timestamp()],
            LocalResult::Ambiguous(first, _) if fixed => vec![first.timestamp()],
            LocalResult::Ambiguous(first, second) => vec![first.timestamp(), second.timestamp()],
            LocalResult::None if fixed => {
                let gap = GapInfo::new(&local, &tz).unwrap();
                let end = gap.end.unwrap();
                let length = end.naive_local() - gap.begin.unwrap().0;
                if length > TimeDelta::hours(3) {
                    vec![]
                } else {
                    vec![end.timestamp()]
                }
            }
            LocalResult::None => vec![],
        };
        for at in instants {
            if at > from && at <= to {
                fires
                    .entry(at)
                    .or_default()
                    .push(local.format("%Y-%m-%dT%H:%M:%S").to_string());
            }
        }
    }
    fires
}
