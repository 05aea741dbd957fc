//! What is refused, and what its writer is told: the field, the text, the reason, what to write
//! instead, and which dialect means what seems to be wanted.

#![allow(clippy::unwrap_used)] // a test fails by panic

use jobs::schedule::Setting;
use jobs::{Dialect, Schedule, ScheduleError, ScheduleSpec};
use protocol::WallMs;

fn refuse(dialect: Dialect, cron: &str, timezone: &str) -> ScheduleError {
    let spec = ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect,
    };
    match Schedule::parse(&spec) {
        Ok(_) => panic!("accepted: {spec:?}"),
        Err(error) => error,
    }
}

fn dialect_of(error: &ScheduleError) -> Option<Dialect> {
    match error.beside.as_ref()?.setting {
        Setting::Dialect(dialect) => Some(dialect),
        Setting::Timezone(_) => None,
    }
}

#[test]
fn expressions() {
    use Dialect::{Kubernetes, Quartz, Vixie};
    for (dialect, cron, other, told) in [
        (
            Vixie,
            "",
            None,
            "cron `` has 0 fields, not five; write minute, hour, day of month, month and day of week, for example `30 23 * * *`",
        ),
        (
            Vixie,
            "* * * * * *",
            Some(Quartz),
            "cron `* * * * * *` has 6 fields, not five: with so many, the first is seconds; add `dialect: quartz`, which reads it as it stands",
        ),
        (
            Vixie,
            "TZ=UTC 0 0 * * *",
            None,
            "cron `TZ=UTC 0 0 * * *` has the zone in it; write `0 0 * * *` with `timezone: UTC`",
        ),
        (
            Vixie,
            "60 * * * *",
            None,
            "minute `60` is outside 0-59; write a number from 0 to 59",
        ),
        (
            Vixie,
            "* 99999999999 * * *",
            None,
            "hour `99999999999` has a number of more than two digits; write a number from 0 to 23",
        ),
        (
            Vixie,
            "007 * * * *",
            None,
            "minute `007` has a number of more than two digits; write a number from 0 to 59",
        ),
        (
            Vixie,
            "5-3 * * * *",
            None,
            "minute `5-3` is a range that runs backwards and would name nothing; write two ranges, `5-59,0-3`",
        ),
        (
            Vixie,
            "0 0 * * 6-1",
            None,
            "day of week `6-1` is a range that runs backwards and would name nothing; write two ranges, `6,0-1`",
        ),
        (
            Vixie,
            "0 0 * * 7-1",
            None,
            "day of week `7-1` is a range that runs backwards and would name nothing; write `0-1`",
        ),
        (
            Vixie,
            "5/15 * * * *",
            Some(Kubernetes),
            "minute `5/15` has a step after a single value; write a range before the step, `5-59/15`; or add `dialect: kubernetes`, which reads it as it stands",
        ),
        (
            Vixie,
            "*/0 * * * *",
            None,
            "minute `*/0` has a step that is not a number from 1 to 9999; write for example `*/15`",
        ),
        (
            Vixie,
            "1,,2 * * * *",
            None,
            "minute `1,,2` has an empty place in its list; write one comma between two values and none at the ends",
        ),
        (
            Vixie,
            "0-10-20 * * * *",
            None,
            "minute `0-10-20` has more than one `-`; write `0,10` for 0 and 10 alone or `0-10` for every minute from 0 to 10",
        ),
        (
            Vixie,
            "-5 * * * *",
            None,
            "minute `-5` has a number missing; write `*`, `*/2`, `0`, `0-59`, `0-59/2` or several with commas between",
        ),
        (
            Vixie,
            "5* * * * *",
            None,
            "minute `5*` is not a value of this field, 0-59; write `*`, `*/2`, `0`, `0-59`, `0-59/2` or several with commas between",
        ),
        (
            Vixie,
            "0 0 ? * *",
            Some(Kubernetes),
            "day of month `?` has `?`, Quartz's sign for no value; write `*`; or add `dialect: kubernetes`, which reads it as it stands",
        ),
        (
            Vixie,
            "0 0 L * *",
            Some(Quartz),
            "day of month `L` has `L` or `W`, Quartz's signs for the last day and the nearest working day; write `0 0 0 L * ?` with `dialect: quartz`; or name the days, for example `28-31`, and let the program look whether it is the last",
        ),
        (
            Vixie,
            "0 0 1 L 5L",
            None,
            "month `L` is not a value of this field, 1-12 or jan-dec; write `*`, `*/2`, `1`, `1-12`, `1-12/2` or several with commas between",
        ),
        (
            Vixie,
            "0 0 * * 5#3",
            Some(Quartz),
            "day of week `5#3` has `#`, Quartz's sign for the nth weekday of a month; write `0 0 0 ? * 6#3` with `dialect: quartz`; or name the days of the month, for example `15-21` with `*/7` as day of week for the third Sunday",
        ),
        (
            Vixie,
            "0~30 * * * *",
            None,
            "minute `0~30` has `~`, cronie's sign for a value chosen at random; write one fixed value",
        ),
        (
            Vixie,
            "H * * * *",
            None,
            "minute `H` has `H`, Jenkins's sign for a value chosen by hash; write one fixed value",
        ),
        (
            Vixie,
            "0 0 * * monday",
            None,
            "day of week `monday` has a name of more than three letters; write `mon`",
        ),
        (
            Vixie,
            "0 0 30 2 *",
            None,
            "cron `0 0 30 2 *` would never fire: no month it names has such a day in any year; February has 28 days, 29 in leap years: write `0 0 28 2 *` (at 00:00 on the 28th of February), or other months",
        ),
        (
            Vixie,
            "0 0 31 2,4 *",
            None,
            "cron `0 0 31 2,4 *` would never fire: no month it names has such a day in any year; February and April have at most 30 days: write `0 0 30 2,4 *` (at 00:00 on the 30th of February and April), or other months",
        ),
        (
            Vixie,
            "@Daily",
            None,
            "cron `@Daily` is not a known macro; write `@daily`",
        ),
        (
            Vixie,
            "@daily 23:30",
            None,
            "cron `@daily 23:30` says more than `@daily`, which takes nothing after it; write `30 23 * * *` for every day at 23:30",
        ),
        (
            Vixie,
            "@weekly on Monday",
            None,
            "cron `@weekly on Monday` says more than `@weekly`, which takes nothing after it; write `@weekly` alone, or its fields, `0 0 * * 0`, with what you mean",
        ),
        (
            Vixie,
            "*/5 9-17 * * MON-FIRI",
            None,
            "day of week `MON-FIRI` names no value of this field, 0-7 or sun-sat; did you mean `MON-FRI`?",
        ),
        (
            Vixie,
            "@reboot",
            None,
            "cron `@reboot` is no time, and no machine of the fleet is the one whose start would count; give the job a schedule, or start it with the host's own init",
        ),
        (
            Vixie,
            "@every",
            None,
            "cron `@every` is not an interval; write `@every` and a duration, for example `@every 1h30m`",
        ),
        (
            Vixie,
            "@every 500ms",
            None,
            "period `500ms` is outside 1s to 366d; write a period of at least a second and at most a year",
        ),
        (
            Vixie,
            "@every 1s500ms",
            None,
            "period `1s500ms` is not a whole number of seconds; write whole seconds",
        ),
        (
            Vixie,
            "@every 90",
            None,
            "period `90` has no unit; write for example 90s",
        ),
        (
            Vixie,
            "*/5 2 8-14 3 */7",
            None,
            "cron `*/5 2 8-14 3 */7` never fires in America/New_York: every local time it names is left out when the clock goes forward; write a fixed minute and hour, which fire after the gap, or another hour",
        ),
        (
            Vixie,
            "0 0 1 1 1 2025",
            None,
            "cron `0 0 1 1 1 2025` has 6 fields, not five: after five good ones stands `2025`; write `0 0 1 1 1`, for this dialect has neither seconds nor years",
        ),
        (
            Vixie,
            "0 30 2 * * ?",
            Some(Quartz),
            "cron `0 30 2 * * ?` has 6 fields, not five: with so many, the first is seconds; add `dialect: quartz`, which reads it as it stands",
        ),
        (
            Vixie,
            "30 2",
            None,
            "cron `30 2` has 2 fields, not five; write minute, hour, day of month, month and day of week, for example `30 23 * * *`",
        ),
        (
            Quartz,
            "30 2 * * *",
            Some(Vixie),
            "cron `30 2 * * *` has 5 fields, not six or seven: the seconds are missing; write `0 30 2 * * ?` (at 02:30 every day), where Sunday is 1; or add `dialect: vixie`, which reads it as it stands",
        ),
        (
            Quartz,
            "30 2 * * 5L",
            None,
            "cron `30 2 * * 5L` has 5 fields, not six or seven: the seconds are missing; write `0 30 2 ? * 6L` (at 02:30 on the last Friday of every month), where Sunday is 1",
        ),
        (
            Quartz,
            "0 0 12 ? * 0",
            None,
            "day of week `0` is outside 1-7 or sun-sat; write `1` or `SUN` for Sunday: this dialect counts Sunday as 1, Monday as 2 and Saturday as 7",
        ),
        (
            Quartz,
            "0 0 12 1 * MON",
            None,
            "day of week `MON` names days, and so does the day of month `1`: Quartz takes one of the two; write `0 0 12 ? * MON` (at 12:00 on Monday) or `0 0 12 1 * ?` (at 12:00 on the 1st of every month)",
        ),
        (
            Quartz,
            "0 0 12 * * MON",
            None,
            "day of month `*` names days, and so does the day of week `MON`: Quartz takes one of the two; write `0 0 12 ? * MON` (at 12:00 on Monday)",
        ),
        (
            Quartz,
            "0 0 12 ? * ?",
            None,
            "day of week `?` leaves the days to the day of month, which says `?` too; write `0 0 12 * * ?` (at 12:00 every day)",
        ),
        (
            Quartz,
            "0 0 12 L-31 * ?",
            None,
            "day of month `L-31` is no form of `L`, `W` or `#` that this field knows; write `L`, `L-3` (at most `L-30`), `LW`, `L-3W` or `15W`",
        ),
        (
            Quartz,
            "0 0 12 L,15 * ?",
            None,
            "day of month `L` stands beside other values, and Quartz knows it only alone in its field; write it alone, and make a job of each",
        ),
        (
            Quartz,
            "0 0 12 ? * 6#6",
            None,
            "day of week `6#6` is no form of `L`, `W` or `#` that this field knows; write `L`, `6L` or `6#3`, with 1 (SUN) to 7 (SAT) and the first to fifth of a month",
        ),
        (
            Quartz,
            "0 0 12 ? * 6L,2",
            None,
            "day of week `6L` stands beside other values, and Quartz knows it only alone in its field; write it alone, and make a job of each",
        ),
        (
            Quartz,
            "0/60 * * * * ?",
            None,
            "second `0/60` has a step that is not a number from 1 to 59; write for example `*/15`",
        ),
        (
            Quartz,
            "0 0 0/24 * * ?",
            None,
            "hour `0/24` has a step that is not a number from 1 to 23; write for example `*/6`",
        ),
        (
            Quartz,
            "0 0 9 LW-3 * ?",
            None,
            "day of month `LW-3` is no form of `L`, `W` or `#` that this field knows; write `L`, `L-3` (at most `L-30`), `LW`, `L-3W` or `15W`",
        ),
        (
            Quartz,
            "0 0 9 W1 * ?",
            None,
            "day of month `W1` is no form of `L`, `W` or `#` that this field knows; write `L`, `L-3` (at most `L-30`), `LW`, `L-3W` or `15W`",
        ),
        (
            Quartz,
            "0 0 0 30 2 ?",
            None,
            "cron `0 0 0 30 2 ?` would never fire: no month it names has such a day in any year; write `0 0 0 L 2 ?` (at 00:00 on the last day of February), or other months",
        ),
        (
            Quartz,
            "0 0 0 29 2 ? 2025-2027",
            None,
            "cron `0 0 0 29 2 ? 2025-2027` would never fire: no month it names has such a day in the years written; write `0 0 0 L 2 ? 2025-2027` (at 00:00 on the last day of February in 2025 to 2027), or other months",
        ),
        (
            Quartz,
            "0 0 0 1 1 ? 2100",
            None,
            "year `2100` is outside 1970-2099; write a number from 1970 to 2099",
        ),
        (
            Quartz,
            "0 0 0 1 1 ? 2030-2025",
            None,
            "year `2030-2025` is a range that runs backwards and would name nothing; write the earlier one first, `2025-2030`",
        ),
        (
            Quartz,
            "0 ? 0 * * ?",
            None,
            "minute `?` has `?`, which only the two day fields may have; write `*`",
        ),
        (
            Quartz,
            "0 0 0 ?,3 * ?",
            None,
            "day of month `?` has `?` beside other values, and `?` says that the field names no days; write `?` alone, or leave it out",
        ),
        (
            Quartz,
            "0 0 12 ? * MONDAY",
            None,
            "day of week `MONDAY` has a name of more than three letters; write `mon`",
        ),
        (
            Quartz,
            "@every 1.5h",
            None,
            "period `1.5h` has a fraction; write whole numbers, for example 1h30m for 1.5h",
        ),
        (
            Quartz,
            "0 0 12 W * ?",
            None,
            "day of month `W` is no form of `L`, `W` or `#` that this field knows; write `L`, `L-3` (at most `L-30`), `LW`, `L-3W` or `15W`",
        ),
        (
            Quartz,
            "0 0 0 1 13 ?",
            None,
            "month `13` is outside 1-12 or jan-dec; write a number from 1 to 12",
        ),
        (
            Quartz,
            "0 0 0 ? 2 7#5 2025-2026",
            None,
            "cron `0 0 0 ? 2 7#5 2025-2026` would never fire: no month it names has such a day in the years written; write another weekday, the last as `7L` is, or other months",
        ),
        (
            Kubernetes,
            "0 0 * * 7",
            Some(Vixie),
            "day of week `7` is outside 0-6 or sun-sat; write `0` or `sun` for Sunday; or add `dialect: vixie`, which reads it as it stands",
        ),
        (
            Kubernetes,
            "0 0 * * fri-mon",
            None,
            "day of week `fri-mon` is a range that runs backwards and would name nothing; write two ranges, `5-6,0-1`",
        ),
        (
            Kubernetes,
            "0 0 * * sat-sun",
            Some(Vixie),
            "day of week `sat-sun` is a range that runs backwards and would name nothing; write two ranges, `6,0`; or add `dialect: vixie`, which reads it as it stands",
        ),
        (
            Kubernetes,
            "TZ=Asia/Tokyo 0 0 * * *",
            None,
            "cron `TZ=Asia/Tokyo 0 0 * * *` has the zone in it; write `0 0 * * *` with `timezone: Asia/Tokyo`",
        ),
        (
            Kubernetes,
            "CRON_TZ=Asia/Tokyo * * * *",
            None,
            "cron `* * * *` has 4 fields, not five: probably the day of week is missing, and before it stands the zone; write `* * * * *` (every minute); the zone is no part of it: set the timezone `Asia/Tokyo`",
        ),
        (
            Kubernetes,
            "0 22-2 * * *",
            None,
            "hour `22-2` is a range that runs backwards and would name nothing; write two ranges, `22-23,0-2`",
        ),
        (
            Kubernetes,
            "0 0 31 2 ?",
            None,
            "cron `0 0 31 2 ?` would never fire: no month it names has such a day in any year; February has 28 days, 29 in leap years: write `0 0 28 2 ?` (at 00:00 on the 28th of February), or other months",
        ),
        (
            Kubernetes,
            "* * * * * *",
            Some(Quartz),
            "cron `* * * * * *` has 6 fields, not five: with so many, the first is seconds; add `dialect: quartz`, which reads it as it stands",
        ),
        (
            Kubernetes,
            "0 0 L * ?",
            Some(Quartz),
            "day of month `L` has `L` or `W`, Quartz's signs for the last day and the nearest working day; write `0 0 0 L * ?` with `dialect: quartz`; or name the days, for example `28-31`, and let the program look whether it is the last",
        ),
        (
            Kubernetes,
            "@every 1h30",
            None,
            "period `1h30` has no unit; write for example 30s",
        ),
    ] {
        let error = refuse(dialect, cron, "America/New_York");
        assert_eq!(error.to_string(), told, "{dialect} {cron}");
        assert_eq!(dialect_of(&error), other, "{dialect} {cron}");
    }
}

#[test]
fn zones() {
    for (timezone, told) in [
        (
            "Asia/Shanghia",
            "timezone `Asia/Shanghia` is not a known time zone; did you mean `Asia/Shanghai`?",
        ),
        (
            "Shanghai",
            "timezone `Shanghai` is not a known time zone; did you mean `Asia/Shanghai`?",
        ),
        (
            "new york",
            "timezone `new york` is not a known time zone; did you mean `America/New_York`?",
        ),
        (
            "CST",
            "timezone `CST` is no name of a zone, but short for China, US Central or Cuba time; write `Asia/Shanghai`, `America/Chicago` or `America/Havana`",
        ),
        (
            "GMT+8",
            "timezone `GMT+8` is a distance from UTC, and no zone; write the zone of a place, for example Asia/Shanghai; for the bare distance write `Etc/GMT-8`, where the sign is the other way round",
        ),
        (
            "+08:00",
            "timezone `+08:00` is a distance from UTC, and no zone; write the zone of a place, for example Asia/Shanghai; for the bare distance write `Etc/GMT-8`, where the sign is the other way round",
        ),
        (
            "",
            "timezone `` is not a known time zone; write its IANA name, for example Asia/Shanghai, Europe/Berlin or Etc/UTC",
        ),
    ] {
        let error = refuse(Dialect::Vixie, "@daily", timezone);
        assert_eq!(error.to_string(), told);
    }
}

/// After a gap one run stands for all fixed times in it, and must be able to name them: to a host in
/// one message, to its program in one variable.
#[test]
fn more_times_than_a_run_can_name() {
    let all: Vec<String> = (0..60).map(|second| second.to_string()).collect();
    let cron = |minutes: &str| format!("{} {minutes} 0,1,2,3,4 ? * 1", all.join(","));
    let spec = ScheduleSpec {
        cron: cron("0,1,2,3"),
        timezone: "Antarctica/Troll".to_owned(),
        dialect: Dialect::Quartz,
    };
    let schedule = Schedule::parse(&spec).unwrap();
    let before = WallMs::parse_rfc3339("2024-03-31T00:59:59Z").unwrap();
    let after_gap = schedule.next_after(before, before).unwrap();
    assert_eq!(after_gap.nominal.len(), 2 * 240 + 1);
    let error = refuse(Dialect::Quartz, &cron("0,1,2,3,4"), "Etc/UTC");
    assert_eq!(
        error.reason,
        "names 300 times of each hour one by one, more than 240, and one run would stand for all that the clock goes forward over"
    );
    // An interval stands for none.
    let interval = cron("0,1,2,3,4").replace("0,1,2,3,4 ?", "* ?");
    assert!(
        Schedule::parse(&ScheduleSpec {
            cron: interval,
            ..spec
        })
        .is_ok()
    );
}

/// What another dialect is said to read, it reads.
#[test]
fn a_dialect_that_is_pointed_to_reads_it() {
    let timezone = "Etc/UTC";
    for dialect in Dialect::ALL {
        for cron in [
            "* * * * * *",
            "5/15 * * * *",
            "0 0 * * 7",
            "0 0 * * ?",
            "30 2 * * mon",
        ] {
            let spec = |dialect| ScheduleSpec {
                cron: cron.to_owned(),
                timezone: timezone.to_owned(),
                dialect,
            };
            if let Err(error) = Schedule::parse(&spec(dialect)) {
                let other = dialect_of(&error).unwrap();
                assert_ne!(other, dialect, "{cron}");
                assert!(Schedule::parse(&spec(other)).is_ok(), "{cron} {other}");
            }
        }
    }
}
