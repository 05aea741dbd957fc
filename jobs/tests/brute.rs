//! Random expressions of every dialect, in random zones, mostly around a change of the clock:
//! the engine and a walk along local time that knows nothing of it name the same instants, and
//! every way to ask the engine gives the same answer.

#![allow(clippy::unwrap_used)] // a test fails by panic

mod walk;

use std::collections::BTreeMap;

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};
use chrono_tz::TZ_VARIANTS;
use jobs::{Dialect, Instant, Schedule, ScheduleError, ScheduleSpec};
use proptest::prelude::*;
use protocol::WallMs;

use walk::{DAY, changes, expected};

/// A generated field: its text, and the values that the text means.
#[derive(Clone, Debug)]
struct Written {
    text: String,
    values: Vec<u32>,
}

impl Written {
    fn begins_with_star(&self) -> bool {
        self.text.starts_with('*')
    }

    /// A step of one leaves robfig's star where it is.
    fn has_plain_star(&self) -> bool {
        let stars = ["*", "*/1", "?", "?/1"];
        self.text.split(',').any(|item| stars.contains(&item))
    }

    fn has_star_or_open_step(&self) -> bool {
        self.text
            .split(',')
            .any(|item| item.contains(['*', '?']) || (item.contains('/') && !item.contains('-')))
    }

    fn has_any_sign(&self) -> bool {
        self.text.contains(['*', '-', '/'])
    }
}

/// A field of a dialect.
#[derive(Clone, Copy, Debug)]
struct Limits {
    dialect: Dialect,
    low: u32,
    high: u32,
    /// Of the values from `low` on.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Limits {
    fn numbers(dialect: Dialect, low: u32, high: u32) -> Limits {
        let names = &[];
        Limits {
            dialect,
            low,
            high,
            names,
        }
    }

    fn months(dialect: Dialect) -> Limits {
        Limits {
            names: &MONTHS,
            ..Limits::numbers(dialect, 1, 12)
        }
    }

    fn weekdays(dialect: Dialect) -> Limits {
        let (low, high) = match dialect {
            Dialect::Vixie => (0, 7),
            Dialect::Quartz => (1, 7),
            Dialect::Kubernetes => (0, 6),
        };
        Limits {
            names: &WEEKDAYS,
            ..Limits::numbers(dialect, low, high)
        }
    }

    /// A value as some people write it.
    fn spell(&self, value: u32, way: u32) -> String {
        let name = self.names.get((value - self.low) as usize);
        match (way, name) {
            (2, _) => format!("{value:02}"),
            (3, Some(name)) => (*name).to_owned(),
            (4, Some(name)) => name.to_uppercase(),
            _ => value.to_string(),
        }
    }
}

const WAYS: u32 = 5;

fn item(limits: Limits) -> BoxedStrategy<Written> {
    let Limits {
        dialect, low, high, ..
    } = limits;
    let written = |text: String, values: Vec<u32>| Written { text, values };
    let by = move |low: u32, high: u32, step: u32| (low..=high).step_by(step as usize).collect();
    // A step longer than its field is refused by Quartz, and names one value elsewhere.
    let step = if dialect == Dialect::Quartz {
        (1..=high.min(30)).boxed()
    } else {
        prop_oneof![8 => 1..=high.min(30), 1 => 31..200u32].boxed()
    };
    let sign = if dialect == Dialect::Kubernetes {
        prop_oneof![3 => Just('*'), 1 => Just('?')].boxed()
    } else {
        Just('*').boxed()
    };
    let stars = (sign, prop::option::of(step.clone())).prop_map(move |(sign, step)| {
        let values = by(low, high, step.unwrap_or(1));
        let step = step.map_or_else(String::new, |step| format!("/{step}"));
        written(format!("{sign}{step}"), values)
    });
    let value = (low..=high, 0..WAYS)
        .prop_map(move |(value, way)| written(limits.spell(value, way), vec![value]));
    let range = (low..=high, low..=high, 1..4u32, 0..WAYS, 0..WAYS).prop_map(
        move |(a, b, step, way_a, way_b)| {
            let (a, b) = if dialect == Dialect::Quartz {
                (a, b)
            } else {
                (a.min(b), a.max(b))
            };
            let span = high - low + 1;
            let end = if a <= b { b } else { b + span };
            let values = (a..=end)
                .step_by(step as usize)
                .map(|v| if v > high { v - span } else { v })
                .collect();
            let step = if step == 1 {
                String::new()
            } else {
                format!("/{step}")
            };
            let (a, b) = (limits.spell(a, way_a), limits.spell(b, way_b));
            written(format!("{a}-{b}{step}"), values)
        },
    );
    if dialect == Dialect::Vixie {
        return prop_oneof![2 => stars, 4 => value, 2 => range].boxed();
    }
    let open = (low..=high, step, 0..WAYS).prop_map(move |(value, step, way)| {
        let text = format!("{}/{step}", limits.spell(value, way));
        written(text, by(value, high, step))
    });
    prop_oneof![2 => stars, 4 => value, 2 => range, 2 => open].boxed()
}

fn field(limits: Limits) -> impl Strategy<Value = Written> {
    proptest::collection::vec(item(limits), 1..4).prop_map(|items| {
        let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
        Written {
            text: texts.join(","),
            values: items.iter().flat_map(|item| item.values.clone()).collect(),
        }
    })
}

/// Which days, restated.
#[derive(Clone, Debug)]
enum Day {
    Both(Vec<u32>, Vec<u32>),
    Either(Vec<u32>, Vec<u32>),
    BeforeLast(u32),
    WorkingBeforeLast(u32),
    Working(u32),
    LastOf(u32),
    Nth(u32, u32),
}

fn from_sunday(date: NaiveDate) -> u32 {
    date.weekday().num_days_from_sunday()
}

fn month_of(date: NaiveDate) -> Vec<NaiveDate> {
    (1..=31).filter_map(|day| date.with_day(day)).collect()
}

/// The day of the month of `date` that lies `before` its last.
fn before_last(date: NaiveDate, before: u32) -> Option<NaiveDate> {
    month_of(date).into_iter().rev().nth(before as usize)
}

/// Of the working days of the month the nearest to `meant`.
fn nearest_working(meant: NaiveDate) -> Option<NaiveDate> {
    month_of(meant)
        .into_iter()
        .filter(|&day| (1..=5).contains(&from_sunday(day)))
        .min_by_key(|day| day.day().abs_diff(meant.day()))
}

impl Day {
    fn is(&self, date: NaiveDate) -> bool {
        let all_of = |weekday: u32| -> Vec<NaiveDate> {
            let mut days = month_of(date);
            days.retain(|&day| from_sunday(day) == weekday);
            days
        };
        match self {
            Day::Both(dates, weekdays) => {
                dates.contains(&date.day()) && weekdays.contains(&from_sunday(date))
            }
            Day::Either(dates, weekdays) => {
                dates.contains(&date.day()) || weekdays.contains(&from_sunday(date))
            }
            Day::BeforeLast(n) => before_last(date, *n) == Some(date),
            Day::WorkingBeforeLast(n) => {
                before_last(date, *n).and_then(nearest_working) == Some(date)
            }
            Day::Working(n) => date.with_day(*n).and_then(nearest_working) == Some(date),
            Day::LastOf(weekday) => all_of(*weekday).last() == Some(&date),
            Day::Nth(weekday, n) => all_of(*weekday).get(*n as usize - 1) == Some(&date),
        }
    }
}

/// The two day fields and what they mean.
fn days(dialect: Dialect) -> BoxedStrategy<(String, String, Day)> {
    let every_date = || (1..=31).collect::<Vec<u32>>();
    let every_weekday = || (0..=6).collect::<Vec<u32>>();
    if dialect == Dialect::Quartz {
        let question = || "?".to_owned();
        return prop_oneof![
            4 => Just(("*".to_owned(), question(), Day::Both(every_date(), every_weekday()))),
            2 => field(Limits::numbers(dialect, 1, 31)).prop_map(move |dates| {
                (dates.text, question(), Day::Both(dates.values, every_weekday()))
            }),
            1 => Just((question(), "L".to_owned(), Day::Both(every_date(), vec![6]))),
            2 => field(Limits::weekdays(dialect)).prop_map(move |days| {
                let values = days.values.iter().map(|day| day - 1).collect();
                (question(), days.text, Day::Both(every_date(), values))
            }),
            1 => (0..=30u32).prop_map(move |n| (format!("L-{n}"), question(), Day::BeforeLast(n))),
            1 => (0..=30u32)
                .prop_map(move |n| (format!("L-{n}W"), question(), Day::WorkingBeforeLast(n))),
            1 => (1..=31u32).prop_map(move |n| (format!("{n}W"), question(), Day::Working(n))),
            1 => (0..7u32, 0..WAYS).prop_map(move |(day, way)| {
                let name = Limits::weekdays(dialect).spell(day + 1, way);
                (question(), format!("{name}L"), Day::LastOf(day))
            }),
            1 => (0..7u32, 1..=5u32, 0..WAYS).prop_map(move |(day, n, way)| {
                let name = Limits::weekdays(dialect).spell(day + 1, way);
                (question(), format!("{name}#{n}"), Day::Nth(day, n))
            }),
        ]
        .boxed();
    }
    let star = || {
        Just(Written {
            text: "*".to_owned(),
            values: (0..=31).collect(),
        })
    };
    let dates = prop_oneof![star(), field(Limits::numbers(dialect, 1, 31))];
    let weekdays = prop_oneof![star(), field(Limits::weekdays(dialect))];
    (dates, weekdays)
        .prop_map(move |(dates, weekdays)| {
            let star = |field: &Written| match dialect {
                Dialect::Vixie => field.begins_with_star(),
                _ => field.has_plain_star(),
            };
            let values = weekdays.values.iter().map(|day| day % 7).collect();
            let day = if star(&dates) || star(&weekdays) {
                Day::Both(dates.values.clone(), values)
            } else {
                Day::Either(dates.values.clone(), values)
            };
            (dates.text, weekdays.text, day)
        })
        .boxed()
}

#[derive(Clone, Debug)]
struct Model {
    dialect: Dialect,
    text: String,
    seconds: Vec<u32>,
    minutes: Vec<u32>,
    hours: Vec<u32>,
    day: Day,
    months: Vec<u32>,
    fixed: bool,
}

impl Model {
    fn names(&self, t: NaiveDateTime) -> bool {
        self.minutes.contains(&t.minute())
            && self.hours.contains(&t.hour())
            && self.months.contains(&t.month())
            && self.day.is(t.date())
    }
}

/// Few seconds, for the walk goes over each.
fn seconds(dialect: Dialect) -> impl Strategy<Value = Written> {
    let limits = Limits::numbers(dialect, 0, 59);
    field(limits).prop_filter("few seconds", |field| field.values.len() <= 4)
}

fn model(dialect: Dialect) -> impl Strategy<Value = Model> {
    let second = seconds(dialect);
    let months = prop_oneof![
        3 => Just(("*".to_owned(), (1..=12).collect())),
        1 => field(Limits::months(dialect)).prop_map(|months| (months.text, months.values)),
    ];
    // Hours of the night, where clocks are changed, come often.
    let hour = prop_oneof![
        field(Limits::numbers(dialect, 0, 23)),
        (0..4u32).prop_map(|hour| Written {
            text: hour.to_string(),
            values: vec![hour],
        })
    ];
    let minute = field(Limits::numbers(dialect, 0, 59));
    (second, minute, hour, days(dialect), months).prop_map(
        move |(second, minute, hour, (date, weekday, day), (month, months))| {
            let five = format!("{} {} {date} {month} {weekday}", minute.text, hour.text);
            let both = [&minute, &hour];
            let (text, seconds, interval) = match dialect {
                Dialect::Vixie => (five, vec![0], both.iter().any(|f| f.begins_with_star())),
                Dialect::Kubernetes => (
                    five,
                    vec![0],
                    both.iter().any(|f| f.has_star_or_open_step()),
                ),
                Dialect::Quartz => (
                    format!("{} {five}", second.text),
                    second.values.clone(),
                    [&second, &minute, &hour].iter().any(|f| f.has_any_sign()),
                ),
            };
            Model {
                dialect,
                text,
                seconds,
                minutes: minute.values,
                hours: hour.values,
                day,
                months,
                fixed: !interval,
            }
        },
    )
}

/// Refused is what names no date, or an interval whose times a gap takes away each year, and
/// nothing else that is written here.
fn refused_rightly(model: &Model, error: &ScheduleError) -> Result<(), TestCaseError> {
    let first = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap();
    let mut dates = first.iter_days().take_while(|date| date.year() < 2400);
    let names_a_date = dates.any(|date| model.months.contains(&date.month()) && model.day.is(date));
    let taken_by_gaps = !model.fixed && error.reason.starts_with("never fires in");
    prop_assert!(!names_a_date || taken_by_gaps, "{}", error);
    Ok(())
}

/// Every way to ask gives what the walk gives.
fn agree(model: &Model, tz: chrono_tz::Tz, middle: i64) -> Result<(), TestCaseError> {
    let spec = ScheduleSpec {
        cron: model.text.clone(),
        timezone: tz.name().to_owned(),
        dialect: model.dialect,
    };
    let schedule = match Schedule::parse(&spec) {
        Ok(schedule) => schedule,
        Err(error) => return refused_rightly(model, &error),
    };
    let (from, to) = (middle - DAY - DAY / 2, middle + DAY + DAY / 2);
    let (after, through) = (WallMs(from * 1000), WallMs(to * 1000));
    let instants: Vec<Instant> = schedule.instants(after, after, through).collect();
    let found: BTreeMap<i64, Vec<String>> = instants
        .iter()
        .map(|instant| (instant.at.0 / 1000, instant.nominal.clone()))
        .collect();
    let walked = expected(
        tz,
        model.fixed,
        &model.seconds,
        |t| model.names(t),
        from,
        to,
    );
    let walked: BTreeMap<i64, Vec<String>> = walked
        .into_iter()
        .map(|(at, mut nominal)| {
            nominal.sort();
            nominal.dedup();
            (at, nominal)
        })
        .collect();
    prop_assert_eq!(&found, &walked, "{} in {}", &model.text, tz);
    prop_assert_eq!(schedule.is_fixed_time(), model.fixed);

    prop_assert_eq!(instants.len(), found.len(), "each once");
    prop_assert!(
        instants.is_sorted_by(|a, b| a.at < b.at),
        "strictly increasing"
    );
    prop_assert_eq!(schedule.count(after, after, through), instants.len() as u64);
    for n in [0, 1, 3, usize::MAX] {
        let newest = schedule.newest(after, after, through, n);
        prop_assert_eq!(&newest, &instants[instants.len().saturating_sub(n)..]);
    }
    let explanation = schedule.explain(after);
    for text in std::iter::once(explanation.sentence.clone())
        .chain(explanation.warnings.iter().map(ToString::to_string))
    {
        prop_assert!(!text.is_empty() && !text.contains('\n'), "{}", text);
    }
    let mut before = None;
    for instant in &instants {
        let previous = schedule.previous_before(after, instant.at);
        let previous = previous.filter(|previous| previous.at > after);
        prop_assert_eq!(previous.as_ref(), before);
        let here = schedule.instant_at(after, instant.at);
        prop_assert_eq!(here.as_ref(), Some(instant));
        prop_assert_eq!(schedule.instant_at(after, WallMs(instant.at.0 + 1)), None);
        before = Some(instant);
    }
    Ok(())
}

fn dialect() -> impl Strategy<Value = Model> {
    prop_oneof![
        model(Dialect::Vixie),
        model(Dialect::Quartz),
        model(Dialect::Kubernetes)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn around_changes_of_the_clock(model in dialect(), zone in 0..TZ_VARIANTS.len(), change in any::<prop::sample::Index>()) {
        let tz = TZ_VARIANTS[zone];
        let changes = changes(tz);
        let middle = if changes.is_empty() { 1_700_000_000 } else { changes[change.index(changes.len())].at };
        agree(&model, tz, middle.max(2 * DAY))?;
    }

    #[test]
    fn at_any_time(model in dialect(), zone in 0..TZ_VARIANTS.len(), middle in 2 * DAY..4_000_000_000) {
        agree(&model, TZ_VARIANTS[zone], middle)?;
    }

    /// Day fields and years alone, over whole years.
    #[test]
    fn days_of_years(
        (date, weekday, day) in days(Dialect::Quartz), (year, step) in (1970..2100i32, 1..40i32),
        begin in 1970..2095i32,
    ) {
        let spec = ScheduleSpec {
            cron: format!("0 0 12 {date} * {weekday} {year}/{step}"),
            timezone: "Etc/UTC".to_owned(),
            dialect: Dialect::Quartz,
        };
        let Ok(schedule) = Schedule::parse(&spec) else {
            return Ok(());
        };
        let noon = |date: NaiveDate| WallMs(date.and_hms_opt(12, 0, 0).unwrap().and_utc().timestamp_millis());
        let first = NaiveDate::from_ymd_opt(begin, 1, 1).unwrap();
        let last = NaiveDate::from_ymd_opt(begin + 4, 12, 31).unwrap();
        let expected: Vec<WallMs> = first
            .iter_days()
            .take_while(|&date| date <= last)
            .filter(|date| date.year() >= year && (date.year() - year) % step == 0)
            .filter(|&date| day.is(date))
            .map(noon)
            .collect();
        let (after, through) = (WallMs(noon(first).0 - 1), noon(last));
        let instants: Vec<Instant> = schedule.instants(after, after, through).collect();
        let found: Vec<WallMs> = instants.iter().map(|instant| instant.at).collect();
        prop_assert_eq!(found, expected, "{}", spec.cron);
        prop_assert_eq!(schedule.count(after, after, through), instants.len() as u64);
        prop_assert_eq!(schedule.newest(after, after, through, usize::MAX), instants);
    }
}
