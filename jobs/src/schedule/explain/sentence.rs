//! An expression as one English sentence: when in the day, then on which days.

use std::fmt::Write;

use crate::schedule::expression::{DayField, Expression, Items};
use crate::schedule::field::{Field, Item};
use crate::schedule::month_day::MonthDay;

/// So many times of the day are listed one by one.
const TIMES_LISTED_MAX: usize = 6;

/// So many values of a field are listed one by one.
const VALUES_LISTED_MAX: usize = 12;

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(in crate::schedule) fn of(expression: &Expression) -> String {
    let listed = listed_times(expression);
    let days = days(expression, listed.is_some());
    let mut text = listed.unwrap_or_else(|| spread_times(expression));
    if !days.is_empty() {
        text.push(' ');
        text.push_str(&days);
    }
    if let Some(years) = expression.years.as_ref().filter(|years| !is_all(years)) {
        let years = runs(&sorted(years), u16::to_string);
        let _ = write!(text, " in {years}");
    }
    text.push('.');
    let mut chars = text.chars();
    let first = chars.next().expect("it ends with a full stop");
    first.to_uppercase().chain(chars).collect()
}

/// `at 09:00 and 18:00`; `None` where there are too many.
fn listed_times(expression: &Expression) -> Option<String> {
    let (minutes, hours) = (sorted(&expression.minutes), sorted(&expression.hours));
    let seconds = expression.seconds.as_ref().map_or(vec![0], sorted);
    if is_all(&expression.hours) || minutes.len() * hours.len() * seconds.len() > TIMES_LISTED_MAX {
        return None;
    }
    let mut times = Vec::new();
    for hour in &hours {
        for minute in &minutes {
            for second in &seconds {
                times.push(match second {
                    0 => format!("{hour:02}:{minute:02}"),
                    second => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
    }
    Some(format!("at {}", list(times.into_iter(), "and")))
}

/// `every 5 minutes from 08:00 to 18:59`.
fn spread_times(expression: &Expression) -> String {
    let mut parts = Vec::new();
    if let Some(field) = expression
        .seconds
        .as_ref()
        .filter(|field| sorted(field) != [0])
    {
        parts.push(part_of(field, "second", "minute"));
    }
    if parts.is_empty() || !is_all(&expression.minutes) {
        parts.push(part_of(&expression.minutes, "minute", "hour"));
    }
    let hours = sorted(&expression.hours);
    let in_a_row = usize::from(hours[hours.len() - 1] - hours[0]) == hours.len() - 1;
    if !is_all(&expression.hours) && in_a_row {
        let last = hours[hours.len() - 1];
        parts.push(format!("from {:02}:00 to {last:02}:59", hours[0]));
    } else if !is_all(&expression.hours) {
        let hours = runs(&hours, |hour| format!("{hour:02}"));
        let at = parts
            .last()
            .and_then(|part| part.strip_suffix(" of each hour"));
        if let Some(of_hours) = at.map(|at| format!("{at} of the hours {hours}")) {
            parts.pop();
            parts.push(of_hours);
        } else {
            parts.push(format!("in the hours {hours}"));
        }
    }
    let simple = parts.len() == 2 && !parts[0].contains([':', ',']);
    parts.join(if simple { " " } else { ", " })
}

/// `every 15 minutes`, `at minute 5 of each hour`.
fn part_of(field: &Items, one: &str, whole: &str) -> String {
    let values = &sorted(field)[..];
    if values.len() == 60 {
        return format!("every {one}");
    }
    let at = || {
        let plural = if values.len() == 1 { "" } else { "s" };
        let values = runs(values, u16::to_string);
        format!("at {one}{plural} {values} of each {whole}")
    };
    let [Item::All { step } | Item::From { step, .. }] = field.items[..] else {
        return at();
    };
    let first = values[0];
    if values.len() == 1 {
        return at();
    }
    let mut text = format!("every {step} {one}s");
    if 60 % step != 0 || first != 0 {
        let short: Vec<String> = values.iter().map(|value| format!(":{value:02}")).collect();
        let _ = write!(text, " from {one} {first} of each {whole}: at ");
        if short.len() <= VALUES_LISTED_MAX {
            text.push_str(&list(short.into_iter(), "and"));
        } else {
            let _ = write!(text, "{}, {} and so on", short[0], short[1]);
        }
        let gaps = gaps(values, 60);
        if gaps.iter().any(|gap| *gap != gaps[0]) {
            let last = gaps[gaps.len() - 1];
            let _ = write!(text, ", so the gaps are {step} and {last} {one}s");
        }
    }
    text
}

/// On which days, with the months; nothing where it goes without saying, as for `every minute`.
fn days(expression: &Expression, times_are_listed: bool) -> String {
    let months = months(expression);
    let of_months = match &months {
        Some(months) => format!("of {months}"),
        None => "of every month".to_owned(),
    };
    let in_months = months.map_or_else(String::new, |months| format!(" in {months}"));
    for field in [&expression.days, &expression.weekdays] {
        if let DayField::MonthDay(day) = field {
            return format!("on {} {of_months}", month_day(*day));
        }
    }
    let dates = dates(expression);
    let weekdays = weekdays(expression);
    match (dates, weekdays) {
        (None, None) if in_months.is_empty() && !times_are_listed => String::new(),
        (None, None) => format!("every day{in_months}"),
        (Some(dates), None) => format!("on {dates} {of_months}"),
        (None, Some(weekdays)) => format!("on {weekdays}{in_months}"),
        (Some(dates), Some(weekdays)) if expression.is_either_day() => {
            format!("on {dates} {of_months}, and also on {weekdays}{in_months}")
        }
        (Some(dates), Some(weekdays)) => {
            format!("on {dates} {of_months}, where that is {weekdays}")
        }
    }
}

/// `the 1st and 15th`; `None` where all dates are named.
pub(super) fn dates(expression: &Expression) -> Option<String> {
    let DayField::Items(items) = &expression.days else {
        return None;
    };
    let values = sorted_of(expression.day_field, items);
    if let [Item::All { step } | Item::From { step, .. }] = items[..]
        && values.len() > 1
        && step > 1
    {
        let first = nth(values[0]);
        return Some(format!("every {} day from the {first}", nth(step)));
    }
    (values.len() < 31).then(|| format!("the {}", runs(&values, |day| nth(*day))))
}

/// `Monday to Friday`; `None` where all weekdays are named.
pub(super) fn weekdays(expression: &Expression) -> Option<String> {
    let DayField::Items(items) = &expression.weekdays else {
        return None;
    };
    let field = expression.weekday_field;
    let mut values: Vec<u16> = sorted_of(field, items)
        .iter()
        .map(|day| (day - field.low) % 7)
        .collect();
    values.sort_unstable();
    values.dedup();
    // A week is read from Monday on, as Saturday and Sunday are neighbours.
    if values.first() == Some(&0) && values.len() > 1 {
        values.rotate_left(1);
        let last = values.len() - 1;
        values[last] = 7;
    }
    (values.len() < 7).then(|| runs(&values, |day| WEEKDAYS[usize::from(*day) % 7].to_owned()))
}

pub(super) fn weekday(from_sunday: u8) -> &'static str {
    WEEKDAYS[usize::from(from_sunday)]
}

/// The name of a month, from 1.
pub(in crate::schedule) fn month(month: u16) -> String {
    MONTHS[usize::from(month) - 1].to_owned()
}

fn months(expression: &Expression) -> Option<String> {
    let values = sorted(&expression.months);
    let name = |month: &u16| self::month(*month);
    (values.len() < 12).then(|| runs(&values, name))
}

fn month_day(day: MonthDay) -> String {
    match day {
        MonthDay::Last { before: 0 } => "the last day".to_owned(),
        MonthDay::Last { before: 1 } => "the last day but one".to_owned(),
        MonthDay::Last { before } => format!("the day {before} days before the last"),
        MonthDay::LastWorking { before: 0 } => "the last working day".to_owned(),
        MonthDay::LastWorking { before } => {
            format!("the working day nearest to {before} days before the last day")
        }
        MonthDay::Working { day } => {
            format!("the working day nearest to the {}", nth(day.into()))
        }
        MonthDay::LastOf { weekday } => format!("the last {}", self::weekday(weekday)),
        MonthDay::Nth { weekday, n } => {
            format!("the {} {}", nth(n.into()), self::weekday(weekday))
        }
    }
}

fn is_all(field: &Items) -> bool {
    sorted(field).len() == usize::from(field.field.high - field.field.low + 1)
}

pub(in crate::schedule) fn sorted(field: &Items) -> Vec<u16> {
    sorted_of(field.field, &field.items)
}

pub(super) fn sorted_of(field: &Field, items: &[Item]) -> Vec<u16> {
    let mut values: Vec<u16> = items.iter().flat_map(|item| item.values(field)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The distances from each value to the next, the last to the first of the next round.
pub(super) fn gaps(values: &[u16], round: u16) -> Vec<u16> {
    let next = values.iter().skip(1).copied();
    let next = next.chain(values.first().map(|first| first + round));
    values.iter().zip(next).map(|(a, b)| b - a).collect()
}

/// `1st, 3rd and 5th to 9th`: three and more in a row are shortened.
fn runs(values: &[u16], name: impl Fn(&u16) -> String) -> String {
    let mut parts = Vec::new();
    let mut rest = values;
    while let Some(first) = rest.first() {
        let run = rest
            .iter()
            .zip(*first..)
            .take_while(|(a, b)| **a == *b)
            .count();
        match run {
            1 | 2 => parts.extend(rest[..run].iter().map(&name)),
            _ => parts.push(format!("{} to {}", name(first), name(&rest[run - 1]))),
        }
        rest = &rest[run..];
    }
    list(parts.into_iter(), "and")
}

/// `a`, `a and b`, `a, b and c`.
pub(in crate::schedule) fn list(parts: impl Iterator<Item = String>, last: &str) -> String {
    let mut parts: Vec<String> = parts.collect();
    let end = parts.pop().unwrap_or_default();
    if parts.is_empty() {
        return end;
    }
    format!("{} {last} {end}", parts.join(", "))
}

/// `1st`, `22nd`, `13th`.
fn nth(n: u16) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}
