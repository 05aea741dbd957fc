//! What is said of schedules, in words.

#![allow(clippy::unwrap_used)] // a test fails by panic

use jobs::{Dialect, Schedule, ScheduleSpec};
use protocol::WallMs;

fn explain(dialect: Dialect, cron: &str, timezone: &str) -> Vec<String> {
    let schedule = Schedule::parse(&ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect,
    })
    .unwrap();
    let explanation = schedule.explain(WallMs::parse_rfc3339("2026-01-01T00:00:00Z").unwrap());
    let warnings = explanation.warnings.iter().map(ToString::to_string);
    std::iter::once(explanation.sentence)
        .chain(warnings)
        .collect()
}

#[test]
fn a_sentence_and_what_may_surprise() {
    use Dialect::{Kubernetes, Quartz, Vixie};
    let rows: &[(Dialect, &str, &str, &[&str])] = &[
        (Vixie, "30 2 * * *", "Etc/UTC", &["At 02:30 every day."]),
        (
            Vixie,
            "30 2 * * *",
            "Europe/Berlin",
            &[
                "At 02:30 every day.",
                "at 2026-03-29T01:00:00Z the clock goes forward over 02:30: it fires once at that instant, for all of them",
                "at 2026-10-25T01:00:00Z the clock goes back, and the day has 02:30 twice: it fires in the first pass only",
            ],
        ),
        (
            Vixie,
            "*/15 * * * *",
            "Europe/Berlin",
            &[
                "Every 15 minutes.",
                "at 2026-03-29T01:00:00Z the clock goes forward over 02:00, 02:15, 02:30 and 02:45: it is an interval, so nothing in the gap fires",
                "at 2026-10-25T01:00:00Z the clock goes back, and the day has 02:00, 02:15, 02:30 and 02:45 twice: it is an interval, so it fires in both passes",
            ],
        ),
        (
            Vixie,
            "*/45 * * * *",
            "Etc/UTC",
            &[
                "Every 45 minutes from minute 0 of each hour: at :00 and :45, so the gaps are 45 and 15 minutes.",
                "the step 45 does not divide the minute field, at whose start it begins anew: the gaps are 45 and 15",
            ],
        ),
        (Vixie, "* * * * *", "Etc/UTC", &["Every minute."]),
        (
            Vixie,
            "5 * * * *",
            "Etc/UTC",
            &["At minute 5 of each hour."],
        ),
        (
            Vixie,
            "5,35 9-17 * * mon-fri",
            "Etc/UTC",
            &["At minutes 5 and 35 of each hour from 09:00 to 17:59 on Monday to Friday."],
        ),
        (
            Vixie,
            "*/5 8-18 * * 1-5",
            "Etc/UTC",
            &["Every 5 minutes from 08:00 to 18:59 on Monday to Friday."],
        ),
        (
            Vixie,
            "15,45 */6 * * *",
            "Etc/UTC",
            &["At minutes 15 and 45 of the hours 00, 06, 12 and 18."],
        ),
        (
            Vixie,
            "*/20 0,12,13 * * *",
            "Etc/UTC",
            &["Every 20 minutes in the hours 00, 12 and 13."],
        ),
        (
            Vixie,
            "0 */5 * * *",
            "Etc/UTC",
            &[
                "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day.",
                "the step 5 does not divide the hour field, at whose start it begins anew: the gaps are 5 and 4",
            ],
        ),
        (
            Vixie,
            "0 0,12 1,15 * *",
            "Etc/UTC",
            &["At 00:00 and 12:00 on the 1st and 15th of every month."],
        ),
        (
            Vixie,
            "0 0 13 * 5",
            "Etc/UTC",
            &[
                "At 00:00 on the 13th of every month, and also on Friday.",
                "a day needs to satisfy only one of the two day fields: it fires on the 13th and also on Friday, not only where both agree",
            ],
        ),
        (
            Vixie,
            "0 0 */2 * 1",
            "Etc/UTC",
            &[
                "At 00:00 on every 2nd day from the 1st of every month, where that is Monday.",
                "a day must satisfy both day fields, because the day of month begins with `*`; else one would be enough",
                "the step 2 begins anew with each month, so over the end of a month the gap is another",
            ],
        ),
        (
            Vixie,
            "0 0 31 * *",
            "Etc/UTC",
            &[
                "At 00:00 on the 31st of every month.",
                "months without a day 31 are passed over",
            ],
        ),
        (
            Vixie,
            "0 0 29 2 *",
            "Etc/UTC",
            &[
                "At 00:00 on the 29th of February.",
                "only leap years have this day",
            ],
        ),
        (
            Vixie,
            "0 6 28-31 * *",
            "Etc/UTC",
            &["At 06:00 on the 28th to 31st of every month."],
        ),
        (
            Vixie,
            "0 9 1-7 * */7",
            "Etc/UTC",
            &[
                "At 09:00 on the 1st to 7th of every month, where that is Sunday.",
                "a day must satisfy both day fields, because the day of week begins with `*`; else one would be enough",
            ],
        ),
        (
            Vixie,
            "0 0 1 */5 *",
            "Etc/UTC",
            &[
                "At 00:00 on the 1st of January, June and November.",
                "the step 5 does not divide the month field, at whose start it begins anew: the gaps are 5 and 2",
            ],
        ),
        (
            Vixie,
            "*/90 3 * * sat,sun",
            "Etc/UTC",
            &[
                "At 03:00 on Saturday and Sunday.",
                "the minute `*/90` steps past 59: it fires at minute 0 only, every hour",
            ],
        ),
        (
            Vixie,
            "@weekly",
            "America/New_York",
            &["At 00:00 on Sunday."],
        ),
        (
            Vixie,
            "@every 1h30m",
            "Etc/UTC",
            &[
                "Every 1h30m.",
                "the interval counts from the moment this version of the job is in force, and begins anew with the next version",
            ],
        ),
        (
            Vixie,
            "0-59 2 * * *",
            "America/New_York",
            &[
                "Every minute from 02:00 to 02:59.",
                "at 2026-03-08T07:00:00Z the clock goes forward over 02:00, 02:01, 02:02, 02:03 and 56 more: it fires once at that instant, for all of them",
            ],
        ),
        (
            Vixie,
            "30 1 * * *",
            "America/New_York",
            &[
                "At 01:30 every day.",
                "at 2026-11-01T06:00:00Z the clock goes back, and the day has 01:30 twice: it fires in the first pass only",
            ],
        ),
        (
            Quartz,
            "0 0 12 ? * 2-6",
            "Etc/UTC",
            &[
                "At 12:00 on Monday to Friday.",
                "Quartz counts Sunday as 1 and Saturday as 7, one more than crontabs do: this is `2-6`, that is Monday to Friday",
            ],
        ),
        (Quartz, "*/20 * * * * ?", "Etc/UTC", &["Every 20 seconds."]),
        (
            Quartz,
            "30 0/7 8 * * ?",
            "Etc/UTC",
            &[
                "At second 30 of each minute, every 7 minutes from minute 0 of each hour: at :00, :07, :14, :21, :28, :35, :42, :49 and :56, so the gaps are 7 and 4 minutes, from 08:00 to 08:59.",
                "the step 7 does not divide the minute field, at whose start it begins anew: the gaps are 7 and 4",
            ],
        ),
        (
            Quartz,
            "0 15 10 L-2 * ?",
            "Etc/UTC",
            &["At 10:15 on the day 2 days before the last of every month."],
        ),
        (
            Quartz,
            "0 0 9 LW * ?",
            "Etc/UTC",
            &["At 09:00 on the last working day of every month."],
        ),
        (
            Quartz,
            "0 0 9 31W * ?",
            "Etc/UTC",
            &[
                "At 09:00 on the working day nearest to the 31st of every month.",
                "months without a day 31 are passed over",
            ],
        ),
        (
            Quartz,
            "0 0 9 ? * 6#3",
            "Etc/UTC",
            &[
                "At 09:00 on the 3rd Friday of every month.",
                "Quartz counts Sunday as 1 and Saturday as 7, one more than crontabs do: this is `6#3`, that is Friday",
            ],
        ),
        (
            Quartz,
            "0 0 9 ? MAR,JUN-AUG FRIL 2026-2028",
            "Etc/UTC",
            &[
                "At 09:00 on the last Friday of March and June to August in 2026 to 2028.",
                "its last fire is 2028-08-25T09:00:00Z",
            ],
        ),
        (
            Quartz,
            "0 0 12 * * *",
            "Etc/UTC",
            &[
                "At 12:00 every day.",
                "Quartz itself refuses `*` in both day fields; it is read as `?` in one of them",
            ],
        ),
        (
            Quartz,
            "0 0 22-2 * * ?",
            "Etc/UTC",
            &["At 00:00, 01:00, 02:00, 22:00 and 23:00 every day."],
        ),
        (
            Kubernetes,
            "5/15 * ? * *",
            "Etc/UTC",
            &["Every 15 minutes from minute 5 of each hour: at :05, :20, :35 and :50."],
        ),
        (
            Kubernetes,
            "0 0 *,5 * 1",
            "Etc/UTC",
            &["At 00:00 on Monday."],
        ),
        (
            Vixie,
            "0 12 * * *",
            "Asia/Shanghai",
            &["At 12:00 every day."],
        ),
    ];
    for (dialect, cron, timezone, expected) in rows {
        assert_eq!(explain(*dialect, cron, timezone), *expected, "{cron}");
    }
}

/// A day that does not exist is no time of the night that is caught up.
#[test]
fn a_correction_of_the_calendar_is_told_from_a_gap() {
    let schedule = Schedule::parse(&ScheduleSpec {
        cron: "0 12 * * *".to_owned(),
        timezone: "Pacific/Apia".to_owned(),
        dialect: Dialect::Vixie,
    })
    .unwrap();
    let explanation = schedule.explain(WallMs::parse_rfc3339("2011-12-01T00:00:00Z").unwrap());
    assert_eq!(
        explanation.warnings[0].to_string(),
        "at 2011-12-30T10:00:00Z the clock goes forward over 12:00: the gap is a correction of the calendar and nothing in it fires"
    );
}

#[test]
fn programs_get_the_kind_and_its_facts() {
    let schedule = Schedule::parse(&ScheduleSpec {
        cron: "30 1 31 * *".to_owned(),
        timezone: "Etc/UTC".to_owned(),
        dialect: Dialect::Vixie,
    })
    .unwrap();
    let json = serde_json::to_value(schedule.explain(WallMs(0))).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "sentence": "At 01:30 on the 31st of every month.",
            "warnings": [{ "kind": "short_months", "days": [31] }],
        })
    );
}
