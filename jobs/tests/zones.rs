//! Every change of the clock in every zone, 1970 to 2037: the engine walks along UTC, this test
//! walks along local time and asks chrono what each local minute means.

#![allow(clippy::unwrap_used)] // a test fails by panic

use std::collections::{BTreeMap, BTreeSet};

use chrono::{
    DateTime, Datelike, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone, Timelike,
};
use chrono_tz::{GapInfo, TZ_VARIANTS, Tz};
use jobs::{Dialect, Schedule, ScheduleSpec};
use protocol::WallMs;

const DAY: i64 = 86_400;
const FIRST: i64 = 0;
/// 2038-01-01T00:00:00Z.
const LAST: i64 = 2_145_916_800;

/// A change of a zone's offset, in seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: i64,
    before: i64,
    after: i64,
}

fn utc(at: i64) -> NaiveDateTime {
    DateTime::from_timestamp(at, 0).unwrap().naive_utc()
}

fn offset(tz: Tz, at: i64) -> i64 {
    i64::from(
        tz.offset_from_utc_datetime(&utc(at))
            .fix()
            .local_minus_utc(),
    )
}

fn changes(tz: Tz) -> Vec<Change> {
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

/// One zone for each kind of change: offsets, day of the week and time of the day. What differs
/// only in the week is the same to the engine.
fn kinds_of_change() -> Vec<(Tz, Change)> {
    let mut kinds = BTreeMap::new();
    for &tz in &TZ_VARIANTS {
        for change in changes(tz) {
            kinds
                .entry((change.before, change.after, change.at.rem_euclid(7 * DAY)))
                .or_insert((tz, change));
        }
    }
    kinds.into_values().collect()
}

fn schedule(cron: &str, tz: Tz) -> Schedule {
    Schedule::parse(&ScheduleSpec {
        cron: cron.to_owned(),
        timezone: tz.name().to_owned(),
        dialect: Dialect::Vixie,
    })
    .unwrap()
}

/// Whether a local minute is named.
type Named = fn(NaiveDateTime) -> bool;

/// Expressions, whether they mean fixed times, and the minutes they name.
const EXPRESSIONS: [(&str, bool, Named); 9] = [
    ("30 2 * * *", true, |t| t.hour() == 2 && t.minute() == 30),
    ("0,30 0 * * *", true, |t| {
        t.hour() == 0 && t.minute() % 30 == 0
    }),
    ("59 23 * * *", true, |t| t.hour() == 23 && t.minute() == 59),
    ("10-50/20 0-3 * * *", true, |t| {
        t.hour() < 4 && t.minute() % 20 == 10
    }),
    ("0,1 0-23 * * 0", true, |t| {
        t.minute() < 2 && t.weekday().num_days_from_sunday() == 0
    }),
    ("15 0-23/2 13 * 5", true, |t| {
        t.minute() == 15
            && t.hour() % 2 == 0
            && (t.day() == 13 || t.weekday().num_days_from_sunday() == 5)
    }),
    ("*/15 * * * *", false, |t| t.minute() % 15 == 0),
    ("7 */2 * * *", false, |t| {
        t.minute() == 7 && t.hour() % 2 == 0
    }),
    ("*/20 0-3 * * *", false, |t| {
        t.minute() % 20 == 0 && t.hour() < 4
    }),
];

/// What should fire between two instants, and for which local times.
fn expected(tz: Tz, fixed: bool, named: Named, from: i64, to: i64) -> BTreeMap<i64, Vec<String>> {
    let mut fires: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let first = (from - 2 * DAY).div_euclid(60) * 60;
    for local in (first..to + 2 * DAY)
        .step_by(60)
        .map(utc)
        .filter(|&t| named(t))
    {
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

#[test]
fn around_every_kind_of_change_the_engine_agrees_with_a_walk_along_local_time() {
    let kinds = kinds_of_change();
    assert!(kinds.len() > 400, "only {} kinds of change", kinds.len());
    for (tz, change) in kinds {
        let (from, to) = (change.at - DAY - DAY / 2, change.at + DAY + DAY / 2);
        let (after, through) = (WallMs(from * 1000), WallMs(to * 1000));
        for (cron, fixed, named) in EXPRESSIONS {
            let schedule = schedule(cron, tz);
            assert_eq!(schedule.is_fixed_time(), fixed, "{cron}");
            let instants: Vec<_> = schedule.instants(after, after, through).collect();
            let fires: BTreeMap<i64, Vec<String>> = instants
                .iter()
                .map(|instant| (instant.at.0 / 1000, instant.nominal.clone()))
                .collect();
            let here = format!("{cron} {tz} around {}", utc(change.at));
            assert_eq!(fires, expected(tz, fixed, named, from, to), "{here}");
            assert_eq!(instants.len(), fires.len(), "{here}");
            assert_eq!(
                schedule.count(after, after, through),
                instants.len() as u64,
                "{here}"
            );
            for n in [1, 2, 7, usize::MAX] {
                let newest = schedule.newest(after, after, through, n);
                assert_eq!(
                    newest,
                    instants[instants.len().saturating_sub(n)..],
                    "{here}"
                );
            }
        }
    }
}

#[test]
fn the_next_instant_is_later_around_every_change() {
    let mut seen = BTreeSet::new();
    for &tz in &TZ_VARIANTS {
        let (fixed, wildcard) = (schedule("0,30 0-4 * * *", tz), schedule("*/30 * * * *", tz));
        for change in changes(tz) {
            if !seen.insert(change) {
                continue;
            }
            for schedule in [&fixed, &wildcard] {
                let end = WallMs((change.at + DAY) * 1000);
                let mut at = WallMs((change.at - DAY) * 1000);
                while at < end {
                    let next = schedule.next_after(at, at).unwrap();
                    assert!(next.at > at, "{tz}: {} after {at}", next.at);
                    at = next.at;
                }
            }
        }
    }
    assert!(seen.len() > 5000, "only {} changes", seen.len());
}
