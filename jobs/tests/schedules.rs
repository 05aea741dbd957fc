//! Schedules through their public face: tables, and properties restated without the engine.

#![allow(clippy::unwrap_used)] // a test fails by panic

use jobs::{Dialect, Instant, Schedule, ScheduleError, ScheduleSpec};
use proptest::prelude::*;
use protocol::WallMs;

fn parse(cron: &str, timezone: &str) -> Result<Schedule, ScheduleError> {
    Schedule::parse(&ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect: Dialect::Vixie,
    })
}

fn schedule(cron: &str, timezone: &str) -> Schedule {
    parse(cron, timezone).unwrap_or_else(|error| panic!("{cron}: {error}"))
}

fn at(text: &str) -> WallMs {
    WallMs::parse_rfc3339(text).unwrap()
}

/// `2024-03-10T07:00:00Z = 2024-03-10T02:00:00, 2024-03-10T02:30:00`
fn shown(instant: &Instant) -> String {
    format!("{} = {}", instant.at, instant.nominal.join(", "))
}

const ANCHOR: WallMs = WallMs(0);

#[test]
fn changes_of_the_clock() {
    for (cron, timezone, after, expected) in [
        // A gap: both nominal times in one instant, and the time at the gap's end with them.
        (
            "0,30 2 * * *",
            "America/New_York",
            "2024-03-10T00:00:00Z",
            [
                "2024-03-10T07:00:00Z = 2024-03-10T02:00:00, 2024-03-10T02:30:00",
                "2024-03-11T06:00:00Z = 2024-03-11T02:00:00",
            ],
        ),
        (
            "0 2,3 * * *",
            "America/New_York",
            "2024-03-10T00:00:00Z",
            [
                "2024-03-10T07:00:00Z = 2024-03-10T02:00:00, 2024-03-10T03:00:00",
                "2024-03-11T06:00:00Z = 2024-03-11T02:00:00",
            ],
        ),
        // Half an hour's gap.
        (
            "0,15,30 2 * * *",
            "Australia/Lord_Howe",
            "2024-10-05T12:00:00Z",
            [
                "2024-10-05T15:30:00Z = 2024-10-06T02:00:00, 2024-10-06T02:15:00, 2024-10-06T02:30:00",
                "2024-10-06T15:00:00Z = 2024-10-07T02:00:00",
            ],
        ),
        // Midnight that does not exist.
        (
            "@daily",
            "America/Sao_Paulo",
            "2018-11-03T12:00:00Z",
            [
                "2018-11-04T03:00:00Z = 2018-11-04T00:00:00",
                "2018-11-05T02:00:00Z = 2018-11-05T00:00:00",
            ],
        ),
        (
            "0 0 * * 0",
            "America/Santiago",
            "2022-09-10T12:00:00Z",
            [
                "2022-09-11T04:00:00Z = 2022-09-11T00:00:00",
                "2022-09-18T03:00:00Z = 2022-09-18T00:00:00",
            ],
        ),
        // A gap leaves a wildcard's times out.
        (
            "*/30 2 * * *",
            "America/New_York",
            "2024-03-10T00:00:00Z",
            [
                "2024-03-11T06:00:00Z = 2024-03-11T02:00:00",
                "2024-03-11T06:30:00Z = 2024-03-11T02:30:00",
            ],
        ),
        // A fold: the first pass for fixed times, both for wildcards.
        (
            "30 1 * * *",
            "America/New_York",
            "2024-11-03T00:00:00Z",
            [
                "2024-11-03T05:30:00Z = 2024-11-03T01:30:00",
                "2024-11-04T06:30:00Z = 2024-11-04T01:30:00",
            ],
        ),
        (
            "*/60 1 * * *",
            "America/New_York",
            "2024-11-03T00:00:00Z",
            [
                "2024-11-03T05:00:00Z = 2024-11-03T01:00:00",
                "2024-11-03T06:00:00Z = 2024-11-03T01:00:00",
            ],
        ),
        // A day that does not exist is not caught up.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00:00Z",
            [
                "2011-12-29T22:00:00Z = 2011-12-29T12:00:00",
                "2011-12-30T22:00:00Z = 2011-12-31T12:00:00",
            ],
        ),
        // An offset of -0:44:30 that ended at the local time 00:44:30.
        (
            "0,44,45 0 * * *",
            "Africa/Monrovia",
            "1972-01-06T12:00:00Z",
            [
                "1972-01-07T00:44:30Z = 1972-01-07T00:00:00, 1972-01-07T00:44:00",
                "1972-01-07T00:45:00Z = 1972-01-07T00:45:00",
            ],
        ),
    ] {
        let fires: Vec<String> = schedule(cron, timezone)
            .instants(ANCHOR, at(after), WallMs(i64::MAX))
            .take(2)
            .map(|instant| shown(&instant))
            .collect();
        assert_eq!(fires, expected, "{cron} {timezone}");
    }
}

#[test]
fn a_stretch_is_open_at_its_start_and_closed_at_its_end() {
    let daily = schedule("0 12 * * *", "Etc/UTC");
    let noon = at("2026-05-01T12:00:00Z");
    for (after, through, expected) in [
        (noon.0 - 1, noon.0, 1),
        (noon.0, noon.0, 0),
        (noon.0, noon.0 + 86_400_000, 1),
        (noon.0 - 1, noon.0 - 1, 0),
        (noon.0 + 1, noon.0 + 86_399_999, 0),
        (noon.0 + 86_400_000, noon.0, 0),
    ] {
        let (after, through) = (WallMs(after), WallMs(through));
        assert_eq!(daily.instants(ANCHOR, after, through).count(), expected);
        assert_eq!(daily.count(ANCHOR, after, through), expected as u64);
        assert_eq!(daily.newest(ANCHOR, after, through, 9).len(), expected);
    }
}

#[test]
fn the_ends_of_time_are_answered() {
    for cron in ["* * * * *", "0 0 29 2 *", "@every 1s"] {
        let schedule = schedule(cron, "Asia/Shanghai");
        let first = schedule.next_after(ANCHOR, WallMs(i64::MIN)).unwrap();
        assert!(first.at >= WallMs(0), "{cron}: {}", first.at);
        for late in [i64::MAX, 253_402_300_800_000] {
            assert_eq!(schedule.next_after(ANCHOR, WallMs(late)), None, "{cron}");
            assert_eq!(
                schedule.next_after(WallMs(late), ANCHOR),
                if cron == "@every 1s" {
                    None
                } else {
                    schedule.next_after(ANCHOR, ANCHOR)
                }
            );
        }
        let last = schedule.newest(ANCHOR, WallMs(i64::MIN), WallMs(i64::MAX), 2);
        assert_eq!(last.len(), 2, "{cron}");
        assert!(
            last[0].at < last[1].at && last[1].at.to_rfc3339().starts_with("999"),
            "{cron}"
        );
        assert_eq!(
            schedule.newest(ANCHOR, WallMs(i64::MIN), WallMs(i64::MAX), 0),
            []
        );
    }
    // 2100 is no leap year.
    let leap = schedule("0 0 29 2 *", "Etc/UTC");
    let next = leap.next_after(ANCHOR, at("2096-03-01T00:00:00Z")).unwrap();
    assert_eq!(next.at, at("2104-02-29T00:00:00Z"));
    // The longest wait there is.
    let rare = schedule("0 0 29 2 */7", "Etc/UTC");
    let next = rare.next_after(ANCHOR, at("2088-03-01T00:00:00Z")).unwrap();
    assert_eq!(next.at, at("2128-02-29T00:00:00Z"));
}

/// What was stored before there were dialects reads as it did, and is stored as it was.
#[test]
fn the_usual_dialect_goes_without_saying() {
    for (json, dialect) in [
        (
            r#"{"cron":"0 0 * * 1","timezone":"Etc/UTC"}"#,
            Dialect::Vixie,
        ),
        (
            r#"{"cron":"0 0 0 ? * 1","timezone":"Etc/UTC","dialect":"quartz"}"#,
            Dialect::Quartz,
        ),
        (
            r#"{"cron":"0 0 * * ?","timezone":"Etc/UTC","dialect":"kubernetes"}"#,
            Dialect::Kubernetes,
        ),
    ] {
        let spec: ScheduleSpec = serde_json::from_str(json).unwrap();
        assert_eq!(spec.dialect, dialect);
        assert_eq!(serde_json::to_string(&spec).unwrap(), json);
        assert!(Schedule::parse(&spec).is_ok(), "{json}");
    }
    let unknown = r#"{"cron":"@daily","timezone":"Etc/UTC","dialect":"k8s"}"#;
    assert!(serde_json::from_str::<ScheduleSpec>(unknown).is_err());
}

#[test]
fn an_interval_is_known_by_one_of_its_instants() {
    let every = schedule("@every 90s", "Etc/UTC");
    for (fire, after, expected) in [
        (1_000_000, 1_000_000, 1_000_000),
        (1_000_000, 999_999, 910_000),
        (1_000_000, 1_200_000, 1_180_000),
        (0, i64::MAX, i64::MAX - i64::MAX % 90_000),
    ] {
        let anchor = every.anchor_of(WallMs(fire), WallMs(after));
        assert_eq!(anchor, WallMs(expected), "{fire} {after}");
    }
    let later = WallMs(5_000_000);
    assert_eq!(
        schedule("* * * * *", "Etc/UTC").anchor_of(WallMs(0), later),
        later
    );
}

#[test]
fn every_counts_from_the_anchor() {
    let every = schedule("@every 1h30m", "America/New_York");
    let anchor = at("2026-11-01T04:10:05.250Z");
    let fires: Vec<String> = every
        .instants(anchor, WallMs(0), WallMs(i64::MAX))
        .take(2)
        .map(|instant| shown(&instant))
        .collect();
    assert_eq!(
        fires,
        [
            "2026-11-01T05:40:05.250Z = 2026-11-01T01:40:05.250",
            "2026-11-01T07:10:05.250Z = 2026-11-01T02:10:05.250"
        ]
    );
    assert!(!every.is_fixed_time());
    let second = schedule("@every 1s", "Etc/UTC");
    let (after, through) = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    assert_eq!(second.count(after, after, through), 365 * 86_400);
    let newest = second.newest(after, after, through, 3);
    assert_eq!(
        newest
            .iter()
            .map(|instant| instant.at.0 - through.0)
            .collect::<Vec<_>>(),
        [-2000, -1000, 0]
    );
}

proptest! {
    #[test]
    fn any_text_is_answered(cron in "[0-9*/,@LW#?a-z -]{0,30}|.*", timezone in "[A-Za-z/_]{0,20}|.*") {
        let _ = parse(&cron, "Etc/UTC");
        let _ = parse("@daily", &timezone);
    }

    #[test]
    fn every_is_arithmetic(period in 1..100_000_i64, anchor in -5_000_000..5_000_000_i64, after in 0..10_000_000_i64, length in 0..10_000_000_i64, n in 0..20_usize) {
        let schedule = schedule(&format!("@every {period}s"), "Etc/UTC");
        let anchor = WallMs(anchor);
        let expected: Vec<i64> = (1..)
            .map(|k| anchor.0 + k * period * 1000)
            .skip_while(|&at| at <= after)
            .take_while(|&at| at <= after + length)
            .collect();
        let (after, through) = (WallMs(after), WallMs(after + length));
        let ats = |instants: Vec<Instant>| instants.iter().map(|i| i.at.0).collect::<Vec<_>>();
        prop_assert_eq!(&ats(schedule.instants(anchor, after, through).collect()), &expected);
        prop_assert_eq!(schedule.count(anchor, after, through), expected.len() as u64);
        prop_assert_eq!(ats(schedule.newest(anchor, after, through, n)), &expected[expected.len().saturating_sub(n)..]);
    }
}
