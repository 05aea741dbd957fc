//! Quartz's words for one day of each month: `L`, `L-3`, `LW`, `15W`, `6L`, `6#3`.

use chrono::{Datelike, NaiveDate, Weekday};

use super::dialect::Grammar;
use super::field::Field;

/// One day of each month, or none of those that have no such day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonthDay {
    /// So many days before the month's last.
    Last { before: u8 },
    /// Of the working days, Monday to Friday, of the month the one nearest to that.
    LastWorking { before: u8 },
    /// Of the working days of the month the one nearest to this date.
    Working { day: u8 },
    /// The last of this weekday; 0 is Sunday.
    LastOf { weekday: u8 },
    /// The nth, 1 to 5, of this weekday.
    Nth { weekday: u8, n: u8 },
}

impl MonthDay {
    /// Reads a word of a day field. `None` for all else, which may still be values.
    pub(super) fn parse(grammar: &Grammar, field: &Field, text: &str) -> Option<MonthDay> {
        let text = text.to_ascii_uppercase();
        if field.name == "day of month" {
            return MonthDay::parse_date(&text);
        }
        let value = |text: &str| field.parse_value(grammar, text, text).ok();
        let weekday = |text: &str| value(text).map(|value| (value - field.low) as u8);
        if let Some((name, n)) = text.split_once('#') {
            let n = number(n).filter(|n| (1..=5).contains(n))?;
            return Some(MonthDay::Nth {
                weekday: weekday(name)?,
                n,
            });
        }
        Some(MonthDay::LastOf {
            weekday: weekday(text.strip_suffix('L')?)?,
        })
    }

    fn parse_date(text: &str) -> Option<MonthDay> {
        let (days, working) = match text.strip_suffix('W') {
            Some(days) => (days, true),
            None => (text, false),
        };
        let Some(before) = days.strip_prefix('L') else {
            let day = number(days).filter(|day| working && (1..=31).contains(day))?;
            return Some(MonthDay::Working { day });
        };
        let before = match before.strip_prefix('-') {
            Some(before) => number(before).filter(|&before| before <= 30)?,
            None if before.is_empty() => 0,
            None => return None,
        };
        Some(if working {
            MonthDay::LastWorking { before }
        } else {
            MonthDay::Last { before }
        })
    }

    /// Whether it is this date.
    pub(super) fn is(self, date: NaiveDate) -> bool {
        let last = u32::from(date.num_days_in_month());
        let (day, weekday) = (date.day(), date.weekday());
        let from_last = |before: u8| last.checked_sub(u32::from(before)).filter(|&day| day > 0);
        match self {
            MonthDay::Last { before } => from_last(before) == Some(day),
            MonthDay::LastWorking { before } => from_last(before)
                .is_some_and(|meant| working_day_nearest(date, meant, last) == Some(day)),
            MonthDay::Working { day: meant } => {
                working_day_nearest(date, u32::from(meant), last) == Some(day)
            }
            MonthDay::LastOf { weekday: meant } => is(weekday, meant) && day + 7 > last,
            MonthDay::Nth { weekday: meant, n } => {
                is(weekday, meant) && (day - 1) / 7 + 1 == u32::from(n)
            }
        }
    }
}

fn is(weekday: Weekday, from_sunday: u8) -> bool {
    weekday.num_days_from_sunday() == u32::from(from_sunday)
}

/// The working day nearest to a date of the month of `date`, in that month. Saturday goes to
/// Friday and Sunday to Monday, but never over the month's ends.
fn working_day_nearest(date: NaiveDate, day: u32, last: u32) -> Option<u32> {
    let meant = date.with_day(day)?;
    Some(match meant.weekday() {
        Weekday::Sat if day == 1 => 3,
        Weekday::Sat => day - 1,
        Weekday::Sun if day == last => day - 2,
        Weekday::Sun => day + 1,
        _ => day,
    })
}

/// One or two digits and nothing else.
fn number(text: &str) -> Option<u8> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Dialect;

    #[test]
    fn days_of_months() {
        let fields = Dialect::Quartz.grammar().fields;
        for (field, text, year, month, expected) in [
            (3, "L", 2024, 2, Some(29)),
            (3, "L-3", 2024, 2, Some(26)),
            (3, "L-30", 2024, 5, Some(1)),
            (3, "L-30", 2024, 6, None),
            (3, "LW", 2024, 3, Some(29)),
            (3, "lw", 2024, 6, Some(28)),
            (3, "L-1W", 2024, 3, Some(29)),
            (3, "L-30W", 2024, 12, Some(2)),
            (3, "15W", 2024, 6, Some(14)),
            (3, "15W", 2024, 9, Some(16)),
            // Never over the month's ends.
            (3, "1W", 2024, 6, Some(3)),
            (3, "31W", 2026, 5, Some(29)),
            (3, "31W", 2026, 6, None),
            (5, "6L", 2024, 2, Some(23)),
            (5, "friL", 2024, 2, Some(23)),
            (5, "1#1", 2024, 9, Some(1)),
            (5, "7#5", 2024, 3, Some(30)),
            (5, "7#5", 2024, 4, None),
        ] {
            let day = MonthDay::parse(Dialect::Quartz.grammar(), &fields[field], text).unwrap();
            let found: Vec<u32> = (1..=31)
                .filter_map(|day| NaiveDate::from_ymd_opt(year, month, day))
                .filter(|&date| day.is(date))
                .map(|date| date.day())
                .collect();
            assert_eq!(found, Vec::from_iter(expected), "{text} {year}-{month}");
        }
    }

    #[test]
    fn what_is_no_such_word() {
        let fields = Dialect::Quartz.grammar().fields;
        for (field, text) in [
            (3, "W"),
            (3, "L-31"),
            (3, "L-"),
            (3, "L15"),
            (3, "32W"),
            (3, "0W"),
            (3, "1-15W"),
            (3, "L,15"),
            (3, "15"),
            (5, "L"),
            (5, "2#"),
            (5, "2#6"),
            (5, "2#0"),
            (5, "#1"),
            (5, "8L"),
            (5, "6L,2"),
            (5, "15W"),
        ] {
            let found = MonthDay::parse(Dialect::Quartz.grammar(), &fields[field], text);
            assert_eq!(found, None, "{text}");
        }
    }
}
