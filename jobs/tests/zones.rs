//! Every change of the clock in every zone, 1970 to 2037: the engine walks along UTC, this test
//! walks along local time and asks chrono what each local minute means.

#![allow(clippy::unwrap_used)] // a test fails by panic

mod walk;

use std::collections::BTreeMap;

use chrono::{Datelike, NaiveDateTime, Timelike};
use chrono_tz::{TZ_VARIANTS, Tz};
use jobs::{Dialect, Schedule, ScheduleSpec};
use protocol::WallMs;

use walk::{Change, DAY, changes, expected, utc};

/// Every change of the clock, each in the first of the zones that have it.
fn all_changes() -> BTreeMap<Change, Tz> {
    let mut all = BTreeMap::new();
    for &tz in &TZ_VARIANTS {
        for change in changes(tz) {
            all.entry(change).or_insert(tz);
        }
    }
    all
}

/// One for each kind of change: offsets, day of the week and time of the day. What differs only
/// in the week is the same to the engine.
fn kinds(all: &BTreeMap<Change, Tz>) -> Vec<(Tz, Change)> {
    let mut kinds = BTreeMap::new();
    for (&change, &tz) in all {
        kinds
            .entry((change.before, change.after, change.at.rem_euclid(7 * DAY)))
            .or_insert((tz, change));
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

/// One test, for finding the changes costs as much as all the rest.
#[test]
fn around_changes_the_engine_agrees_with_a_walk_along_local_time() {
    let all = all_changes();
    assert!(all.len() > 5000, "only {} changes", all.len());
    for (&change, &tz) in &all {
        the_next_instant_is_later(tz, change);
    }
    let kinds = kinds(&all);
    assert!(kinds.len() > 400, "only {} kinds of change", kinds.len());
    for (tz, change) in kinds {
        agrees_with_the_walk(tz, change);
    }
}

fn the_next_instant_is_later(tz: Tz, change: Change) {
    for cron in ["0,30 0-4 * * *", "*/30 * * * *"] {
        let schedule = schedule(cron, tz);
        let end = WallMs((change.at + DAY / 4) * 1000);
        let mut at = WallMs((change.at - DAY / 4) * 1000);
        while at < end {
            let next = schedule.next_after(at, at).unwrap();
            assert!(next.at > at, "{cron} {tz}: {} after {at}", next.at);
            at = next.at;
        }
    }
}

fn agrees_with_the_walk(tz: Tz, change: Change) {
    let (from, to) = (change.at - DAY, change.at + DAY);
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
        assert_eq!(fires, expected(tz, fixed, &[0], named, from, to), "{here}");
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
