//! Faults of other engines, each seen when they were run beside each other on one virtual clock,
//! and each shown not to be ours. A test is named after the fault.

#![allow(clippy::unwrap_used)] // a test fails by panic

use jobs::{Dialect, Schedule, ScheduleSpec};
use protocol::WallMs;

use Dialect::{Kubernetes, Quartz, Vixie};

fn parse(dialect: Dialect, cron: &str, timezone: &str) -> Option<Schedule> {
    Schedule::parse(&ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect,
    })
    .ok()
}

fn at(text: &str) -> WallMs {
    WallMs::parse_rfc3339(text).unwrap()
}

#[track_caller]
fn fires(dialect: Dialect, cron: &str, timezone: &str, after: &str, expected: &[&str]) {
    let schedule = parse(dialect, cron, timezone).unwrap();
    let found: Vec<String> = schedule
        .instants(at(after), at(after), WallMs(i64::MAX))
        .take(expected.len())
        .map(|instant| instant.at.to_rfc3339())
        .collect();
    assert_eq!(found, expected, "{cron} in {timezone}");
}

#[track_caller]
fn refused(dialect: Dialect, expressions: &[&str]) {
    for cron in expressions {
        assert!(parse(dialect, cron, "Etc/UTC").is_none(), "{cron}");
    }
}

/// Debian's cron.
#[test]
fn a_backward_range_is_accepted_and_never_runs() {
    refused(Vixie, &["5-3 * * * *", "* 22-2 * * *", "* * * * 7-1"]);
}

/// Debian's cron.
#[test]
fn what_follows_a_value_is_ignored() {
    refused(
        Vixie,
        &[
            "5* * * * *",
            "0-10-20 * * * *",
            "*-5 * * * *",
            "0 0 * * 5#3",
            "0~30 * * * *",
            "0 0 1 1 1 2025",
        ],
    );
}

/// Debian's cron, and Quartz where nobody asks for the next time.
#[test]
fn a_date_that_no_year_has_is_accepted_and_never_runs() {
    refused(Vixie, &["0 0 30 2 *", "0 0 31 2,4,6,9,11 *"]);
    refused(Kubernetes, &["0 0 31 2 *"]);
    refused(Quartz, &["0 0 0 31 4 ?", "0 0 0 29 2 ? 2025-2027"]);
}

/// Vixie's own code keeps a step in an int: 4,294,967,297 is 1 there.
#[test]
fn a_great_step_wraps_round() {
    refused(Vixie, &["*/4294967297 * * * *", "*/65537 * * * *"]);
}

/// Debian's cron, vixie 4.999 and cronie run such a job once per local time left out.
#[test]
fn after_a_gap_a_job_runs_several_times_at_once() {
    fires(
        Vixie,
        "0,30 2 * * *",
        "Europe/Berlin",
        "2025-03-29T11:00:00Z",
        &["2025-03-30T01:00:00Z", "2025-03-31T00:00:00Z"],
    );
}

/// robfig/cron, hashicorp/cronexpr, croner: the night's job is not run.
#[test]
fn a_fixed_time_in_a_gap_is_skipped() {
    for (dialect, cron) in [
        (Vixie, "30 2 * * *"),
        (Kubernetes, "30 2 * * *"),
        (Quartz, "0 30 2 * * ?"),
    ] {
        fires(
            dialect,
            cron,
            "America/New_York",
            "2024-03-09T17:00:00Z",
            &["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"],
        );
    }
}

/// robfig/cron, croniter, cronexpr run it in both passes; Java Quartz in the second only.
#[test]
fn a_fixed_time_in_a_fold_is_doubled_or_late() {
    for (dialect, cron) in [
        (Vixie, "30 1 * * *"),
        (Kubernetes, "30 1 * * *"),
        (Quartz, "0 30 1 * * ?"),
    ] {
        fires(
            dialect,
            cron,
            "America/New_York",
            "2024-11-02T16:00:00Z",
            &["2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"],
        );
    }
}

/// Java Quartz leaves the first pass out for intervals too.
#[test]
fn an_interval_pauses_for_the_repeated_hour() {
    fires(
        Quartz,
        "0 0/30 * * * ?",
        "Europe/Berlin",
        "2025-10-25T22:59:30Z",
        &[
            "2025-10-25T23:00:00Z",
            "2025-10-25T23:30:00Z",
            "2025-10-26T00:00:00Z",
            "2025-10-26T00:30:00Z",
            "2025-10-26T01:00:00Z",
        ],
    );
}

/// The crate `cron`: the next of 01:10 EST was 01:30 EDT, in the past.
#[test]
fn the_next_fire_lies_in_the_past() {
    let schedule = parse(Vixie, "*/30 * * * *", "America/New_York").unwrap();
    let midnight = at("2024-11-03T04:00:00Z");
    for minute in 0..25 * 60 {
        let after = WallMs(midnight.0 + minute * 60_000);
        let next = schedule.next_after(after, after).unwrap();
        let wait = next.at - after;
        assert!(
            (1..=30 * 60_000).contains(&wait.0),
            "{} after {after}",
            next.at
        );
    }
}

/// croniter stays for ever at an hour before the midnight that does not exist.
#[test]
fn a_missing_midnight_is_walked_round_for_ever() {
    fires(
        Vixie,
        "0 0 * * 0",
        "America/Santiago",
        "2022-08-21T12:00:00Z",
        &[
            "2022-08-28T04:00:00Z",
            "2022-09-04T04:00:00Z",
            "2022-09-11T04:00:00Z",
            "2022-09-18T03:00:00Z",
        ],
    );
    for (timezone, after, expected) in [
        (
            "Asia/Beirut",
            "2024-03-30T12:00:00Z",
            "2024-03-30T22:00:00Z",
        ),
        (
            "America/Havana",
            "2024-03-09T12:00:00Z",
            "2024-03-10T05:00:00Z",
        ),
        (
            "America/Sao_Paulo",
            "2018-11-03T12:00:00Z",
            "2018-11-04T03:00:00Z",
        ),
    ] {
        fires(Vixie, "0 0 * * 0", timezone, after, &[expected]);
    }
}

/// robfig/cron never comes back from this one; croner says that there is no further fire.
#[test]
fn a_missing_day_is_walked_round_for_ever() {
    fires(
        Vixie,
        "0 12 30 12 *",
        "Pacific/Apia",
        "2008-06-01T11:00:00Z",
        &[
            "2008-12-30T23:00:00Z",
            "2009-12-30T23:00:00Z",
            "2010-12-30T22:00:00Z",
            "2012-12-29T22:00:00Z",
        ],
    );
}

/// cronexpr does not answer within 20 seconds.
#[test]
fn half_an_hour_back_is_walked_round_for_ever() {
    fires(
        Kubernetes,
        "0 2 * * *",
        "Australia/Lord_Howe",
        "2025-04-05T01:00:00Z",
        &["2025-04-05T15:30:00Z", "2025-04-06T15:30:00Z"],
    );
}

/// cronie and vixie 4.999 keep the old offset until they are restarted.
#[test]
fn a_zone_that_changes_its_standard_time_is_not_noticed() {
    fires(
        Vixie,
        "30 9 * * *",
        "Asia/Pyongyang",
        "2018-05-03T12:00:00Z",
        &["2018-05-04T01:00:00Z", "2018-05-05T00:30:00Z"],
    );
}

/// The crate `cron` wants both day fields satisfied.
#[test]
fn the_two_day_fields_are_anded() {
    fires(
        Vixie,
        "0 0 13 * 5",
        "Etc/UTC",
        "2024-02-27T12:00:00Z",
        &[
            "2024-03-01T00:00:00Z",
            "2024-03-08T00:00:00Z",
            "2024-03-13T00:00:00Z",
        ],
    );
}

/// The crate `cron` and saffron count as Quartz does, in crontabs too.
#[test]
fn monday_is_taken_for_sunday() {
    let monday = "2024-03-04T00:00:00Z";
    let after = "2024-03-01T12:00:00Z";
    fires(Vixie, "0 0 * * 1", "Etc/UTC", after, &[monday]);
    fires(Kubernetes, "0 0 * * 1", "Etc/UTC", after, &[monday]);
    fires(Quartz, "0 0 0 ? * 2", "Etc/UTC", after, &[monday]);
}

/// robfig/cron's `*/2` restricts a day field, Vixie's does not.
#[test]
fn a_star_with_a_step_is_the_same_star_everywhere() {
    let after = "2024-02-27T12:00:00Z";
    fires(
        Vixie,
        "0 0 */2 * 1",
        "Etc/UTC",
        after,
        &["2024-03-11T00:00:00Z", "2024-03-25T00:00:00Z"],
    );
    fires(
        Kubernetes,
        "0 0 */2 * 1",
        "Etc/UTC",
        after,
        &["2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"],
    );
}

/// cronie takes a minute by chance when it reads the table, Jenkins one by hash.
#[test]
fn a_minute_is_chosen_by_chance() {
    refused(Vixie, &["0~30 * * * *", "H * * * *"]);
}
