//! What about an expression surprises people.

use std::collections::BTreeMap;

use protocol::{DurationMs, WallMs};

use super::{Missed, Warning, sentence};
use crate::schedule::cron::{Cron, SECONDS_A_DAY, date_of};
use crate::schedule::dialect::Days;
use crate::schedule::expression::{DayField, Expression, Items};
use crate::schedule::field::Item;
use crate::schedule::fires::CAUGHT_UP_SECONDS_MAX;
use crate::schedule::month_day::MonthDay;
use crate::schedule::{Schedule, zone};

/// So many local times are named one by one.
const TIMES_MAX: usize = 4;

pub(super) fn of(
    schedule: &Schedule,
    cron: &Cron,
    expression: &Expression,
    after: WallMs,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(of_two_day_fields(expression));
    warnings.extend(of_quartz(schedule, expression));
    warnings.extend(of_short_months(expression));
    warnings.extend(of_long_steps(expression));
    let fields = [
        expression.seconds.as_ref(),
        Some(&expression.minutes),
        Some(&expression.hours),
        Some(&expression.months),
    ];
    warnings.extend(fields.into_iter().flatten().filter_map(of_step));
    warnings.extend(of_day_step(expression));
    warnings.extend(of_clock(schedule, cron, after));
    if cron.ends()
        && let Some(last) = schedule.previous_before(after, WallMs(i64::MAX))
    {
        warnings.push(Warning::Ends { last: last.at });
    }
    warnings
}

fn of_two_day_fields(expression: &Expression) -> Option<Warning> {
    let dates = sentence::dates(expression)?;
    let weekdays = sentence::weekdays(expression)?;
    if expression.is_either_day() {
        return Some(Warning::EitherDay {
            dates: format!("on {dates}"),
            weekdays: format!("on {weekdays}"),
        });
    }
    let has_star = |days: &DayField| matches!(days, DayField::Items(items) if expression.grammar.has_star(items));
    let field = if has_star(&expression.days) {
        expression.day_field
    } else {
        expression.weekday_field
    };
    let star = match expression.grammar.days {
        Days::ByStar(crate::schedule::dialect::Star::First) => "begins with `*`",
        _ => "has `*` among its items",
    };
    Some(Warning::BothDays {
        field: field.name,
        star,
    })
}

fn of_quartz(schedule: &Schedule, expression: &Expression) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !expression.grammar.has_day_words() {
        return warnings;
    }
    if expression.has_star_for_question() {
        warnings.push(Warning::StarForQuestion);
    }
    let written = schedule.spec.cron.split_ascii_whitespace().nth(5);
    if let Some(written) = written.filter(|written| has_weekday_number(written)) {
        let means = match &expression.weekdays {
            DayField::Items(_) => sentence::weekdays(expression),
            DayField::MonthDay(MonthDay::LastOf { weekday } | MonthDay::Nth { weekday, .. }) => {
                Some(sentence::weekday(*weekday).to_owned())
            }
            _ => None,
        };
        warnings.extend(means.map(|means| Warning::SundayIsOne {
            means: format!("`{written}`, that is {means}"),
        }));
    }
    warnings
}

/// Whether a digit stands for a day, not for a step or for the nth.
fn has_weekday_number(written: &str) -> bool {
    let mut before = ' ';
    written.chars().any(|c| {
        let counts = c.is_ascii_digit() && !matches!(before, '/' | '#') && !before.is_ascii_digit();
        before = c;
        counts
    })
}

fn of_short_months(expression: &Expression) -> Option<Warning> {
    let days: Vec<u16> = match &expression.days {
        DayField::MonthDay(MonthDay::Working { day }) => vec![u16::from(*day)],
        DayField::MonthDay(MonthDay::Last { before } | MonthDay::LastWorking { before }) => {
            vec![u16::from(*before) + 1]
        }
        DayField::Items(items) if sentence::dates(expression).is_some() => match items[..] {
            // To the end of the month, however long it is: nobody expects more.
            [
                Item::All { .. }
                | Item::From { low: ..=28, .. }
                | Item::Span {
                    low: ..=28,
                    high: 31,
                    ..
                },
            ] => Vec::new(),
            _ => sentence::sorted_of(expression.day_field, items),
        },
        _ => Vec::new(),
    };
    let months = sentence::sorted(&expression.months);
    let shortest = months.iter().map(|month| shortest(*month)).min()?;
    let days: Vec<u16> = days.into_iter().filter(|day| *day > shortest).collect();
    match (&days[..], &months[..]) {
        ([], _) => None,
        ([29], [2]) => Some(Warning::LeapYears),
        _ => Some(Warning::ShortMonths { days }),
    }
}

fn shortest(month: u16) -> u16 {
    match month {
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn of_step(items: &Items) -> Option<Warning> {
    let [Item::All { step } | Item::From { step, .. }] = items.items[..] else {
        return None;
    };
    let field = items.field;
    let values = sentence::sorted(items);
    let mut gaps = sentence::gaps(&values, field.high - field.low + 1);
    gaps.dedup();
    (gaps.len() > 1).then_some(Warning::UnevenStep {
        field: field.name,
        step,
        gaps,
    })
}

/// The fields whose step leads past their end at once.
fn of_long_steps(expression: &Expression) -> Vec<Warning> {
    let day = |days: &DayField, field| match days {
        DayField::Items(items) => Some(Items {
            field,
            items: items.clone(),
        }),
        _ => None,
    };
    let fields = [
        expression.seconds.clone(),
        Some(expression.minutes.clone()),
        Some(expression.hours.clone()),
        day(&expression.days, expression.day_field),
        Some(expression.months.clone()),
        day(&expression.weekdays, expression.weekday_field),
    ];
    fields
        .into_iter()
        .flatten()
        .filter_map(|items| {
            let field = items.field;
            let [item] = items.items[..] else {
                return None;
            };
            let (written, step) = match item {
                Item::All { step } => (format!("*/{step}"), step),
                Item::From { low, step } => (format!("{low}/{step}"), step),
                Item::Span { low, high, step } if low != high => {
                    (format!("{low}-{high}/{step}"), step)
                }
                _ => return None,
            };
            let [value] = sentence::sorted(&items)[..] else {
                return None;
            };
            Some(Warning::OneStep {
                field: field.name,
                written,
                step,
                value,
                last: field.high,
                instead: instead_of_long_step(expression, field.name, step),
            })
        })
        .collect()
}

/// Expressions that together name every `step`th minute of the day, or the interval that does.
fn instead_of_long_step(expression: &Expression, field: &str, step: u16) -> Vec<String> {
    const MINUTES_A_DAY: u16 = 24 * 60;
    const EXPRESSIONS_MAX: usize = 2;
    let is_any = |days: &DayField| {
        *days == DayField::NoValue || *days == DayField::Items(vec![Item::All { step: 1 }])
    };
    let is_star = |items: &Items| items.items == [Item::All { step: 1 }];
    if !is_any(&expression.days) || !is_any(&expression.weekdays) || !is_star(&expression.months) {
        return Vec::new();
    }
    if field == "hour" {
        return vec![format!(
            "@every {}",
            DurationMs(i64::from(step) * 3_600_000)
        )];
    }
    if field != "minute" || !is_star(&expression.hours) {
        return Vec::new();
    }
    let interval = vec![format!("@every {}", DurationMs(i64::from(step) * 60_000))];
    if !MINUTES_A_DAY.is_multiple_of(step) || expression.seconds.is_some() {
        return interval;
    }
    let mut hours_by_minute: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for minute in (0..MINUTES_A_DAY).step_by(usize::from(step)) {
        let hours = hours_by_minute.entry(minute % 60).or_default();
        hours.push(minute / 60);
    }
    if hours_by_minute.len() > EXPRESSIONS_MAX {
        return interval;
    }
    hours_by_minute
        .iter()
        .map(|(minute, hours)| format!("{minute} {} * * *", stepped(hours)))
        .collect()
}

/// Hours that are equally far apart, as a field.
fn stepped(hours: &[u16]) -> String {
    match hours {
        [first, second, .., last] => format!("{first}-{last}/{}", second - first),
        hours => {
            let hours: Vec<String> = hours.iter().map(u16::to_string).collect();
            hours.join(",")
        }
    }
}

/// What begins anew at a field's end.
pub(super) fn round_of(field: &str) -> &'static str {
    match field {
        "second" => "minute",
        "minute" => "hour",
        "hour" => "day",
        "day of month" => "month",
        "day of week" => "week",
        _ => "year",
    }
}

fn of_day_step(expression: &Expression) -> Option<Warning> {
    let DayField::Items(items) = &expression.days else {
        return None;
    };
    items.iter().find_map(|item| match *item {
        Item::All { step } | Item::From { step, .. } if step > 1 => {
            Some(Warning::RestartsEachMonth { step })
        }
        _ => None,
    })
}

/// What the changes of the clock within a year do to times that are named.
fn of_clock(schedule: &Schedule, cron: &Cron, after: WallMs) -> Vec<Warning> {
    let begin = after.0.div_euclid(1000).clamp(0, 253_000_000_000);
    let day = begin.div_euclid(SECONDS_A_DAY);
    let year = if date_of(day).is_some_and(|date| date.leap_year()) {
        366
    } else {
        365
    };
    let changes = zone::changes(schedule.tz, day, day + year);
    let mut warnings = Vec::new();
    for change in changes.into_iter().filter(|&change| change > begin) {
        let before = change + zone::offset_at(schedule.tz, change - 1);
        let now = change + zone::offset_at(schedule.tz, change);
        let (from, to) = (before.min(now), before.max(now));
        let times = first_times(cron, from, to);
        if times.is_empty() {
            continue;
        }
        let more = cron.count_times(from, to) - times.len() as u64;
        let at = WallMs(change * 1000);
        warnings.push(if now > before {
            Warning::ClockForward {
                at,
                times,
                more,
                missed: match cron.fixed {
                    false => Missed::Interval,
                    true if to - from > CAUGHT_UP_SECONDS_MAX => Missed::Calendar,
                    true => Missed::FireOnce,
                },
            }
        } else {
            Warning::ClockBack {
                at,
                times,
                more,
                twice: !cron.fixed,
            }
        });
    }
    warnings
}

fn first_times(cron: &Cron, from: i64, to: i64) -> Vec<String> {
    let mut times = Vec::new();
    let mut from = from;
    while times.len() < TIMES_MAX
        && let Some(time) = cron.first_time(from, to)
    {
        times.push(zone::local_text(zone::local(time * 1000)));
        from = time + 1;
    }
    times
}
