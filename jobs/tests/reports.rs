//! Public reports about other schedulers that concern when a job is due, each replayed here.
//! `docs/REPORTS.md` says which report is met by which test.

#![allow(clippy::unwrap_used)] // a test fails by panic

use jobs::{Dialect, Schedule, ScheduleSpec};
use protocol::{DurationMs, WallMs};

fn schedule(dialect: Dialect, cron: &str, timezone: &str) -> Schedule {
    let spec = ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect,
    };
    Schedule::parse(&spec).unwrap()
}

fn at(text: &str) -> WallMs {
    WallMs::parse_rfc3339(text).unwrap()
}

/// Fires in (after, through].
fn fires(schedule: &Schedule, after: &str, through: &str) -> Vec<String> {
    schedule
        .instants(at(after), at(after), at(through))
        .map(|instant| instant.at.to_rfc3339())
        .collect()
}

const MINUTE: i64 = 60_000;

#[test]
fn every_minute_of_a_longer_and_of_a_shorter_day_has_its_fire() {
    for (dialect, cron) in [
        (Dialect::Quartz, "0 * * * * ?"),
        (Dialect::Vixie, "* * * * *"),
    ] {
        let schedule = schedule(dialect, cron, "Europe/Berlin");
        let count = |after, through| fires(&schedule, after, through).len();
        let before = |text| (at(text) - DurationMs(1)).to_rfc3339();
        let (from, to) = (
            before("2025-10-26T01:00:00Z"),
            before("2025-10-26T02:00:00Z"),
        );
        assert_eq!(count(&from, &to), 60, "the repeated hour");
        // Local midnight to local midnight.
        let (from, to) = (
            before("2025-10-25T22:00:00Z"),
            before("2025-10-26T23:00:00Z"),
        );
        assert_eq!(count(&from, &to), 1_500);
        let (from, to) = (
            before("2025-03-29T23:00:00Z"),
            before("2025-03-30T22:00:00Z"),
        );
        assert_eq!(count(&from, &to), 1_380);
    }
}

/// 02:29:05 is there twice. Asked between the two, before both, and after both.
#[test]
fn a_date_in_a_repeated_hour_fires_once_or_is_over_and_is_never_an_error() {
    let schedule = schedule(Dialect::Quartz, "5 29 2 23 2 ? 2025", "Africa/Casablanca");
    let next = |after| {
        let next = schedule.next_after(at(after), at(after));
        next.map(|instant| instant.at.to_rfc3339())
    };
    let first = "2025-02-23T01:29:05Z";
    assert_eq!(next("2025-02-23T01:00:00Z").as_deref(), Some(first));
    for over in [
        "2025-02-23T01:45:10Z",
        "2025-02-23T02:10:00Z",
        "2025-02-23T03:00:00Z",
    ] {
        assert_eq!(next(over), None, "{over}");
        let last = schedule.previous_before(at(over), at(over)).unwrap();
        assert_eq!(last.at.to_rfc3339(), first);
    }
}

#[test]
fn a_local_hour_stays_the_hour_when_the_offset_changes() {
    let schedule = schedule(Dialect::Vixie, "0 6 * * *", "America/Chicago");
    // Created in summer, followed through the change.
    let found = fires(&schedule, "2025-07-01T00:00:00Z", "2025-11-05T13:00:00Z");
    assert_eq!(found.len(), 128);
    for fire in &found {
        let hour = if fire.as_str() < "2025-11-02" {
            "T11:00:00Z"
        } else {
            "T12:00:00Z"
        };
        assert!(fire.ends_with(hour), "{fire}");
    }
}

#[test]
fn seven_is_sunday_as_nought_is() {
    for cron in ["0 3 * * 7", "0 3 * * 0", "0 3 * * sun"] {
        let schedule = schedule(Dialect::Vixie, cron, "Etc/UTC");
        assert_eq!(
            fires(&schedule, "2025-01-01T00:00:00Z", "2025-01-13T00:00:00Z"),
            ["2025-01-05T03:00:00Z", "2025-01-12T03:00:00Z"],
            "{cron}"
        );
    }
}

/// Wherever one asks on a day that has an hour twice or not at all, what comes is later, and soon.
#[test]
fn what_comes_next_is_later_wherever_one_asks() {
    for (timezone, day) in [
        ("America/New_York", "2024-11-03T04:00:00Z"),
        ("America/New_York", "2024-03-10T05:00:00Z"),
        ("Australia/Lord_Howe", "2024-04-06T13:00:00Z"),
        ("Africa/Casablanca", "2025-02-22T23:00:00Z"),
        ("America/Santiago", "2022-09-10T12:00:00Z"),
        ("Asia/Beirut", "2024-03-30T12:00:00Z"),
    ] {
        let schedule = schedule(Dialect::Vixie, "*/30 * * * *", timezone);
        for minute in 0..26 * 60 {
            let after = at(day) + DurationMs(minute * MINUTE);
            let next = schedule.next_after(after, after).unwrap().at;
            let wait = (next - after).0;
            assert!(
                (1..=60 * MINUTE).contains(&wait),
                "{timezone}: {next} after {after}"
            );
        }
    }
}
