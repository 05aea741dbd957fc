//! A cron expression as sets of bits, and the arithmetic of the local times it names.
//!
//! Local time is counted in seconds since 1970-01-01T00:00 of the zone's own clock face.
//! Whether a second exists there, and when, is not this file's business.

use chrono::{Datelike, NaiveDate};

use super::dialect::YEAR;
use super::error::ScheduleError;
use super::explain::sentence;
use super::expression::{DayField, Expression, Items};
use super::foreign;
use super::month_day::MonthDay;

pub(super) const SECONDS_A_DAY: i64 = 86_400;

/// Days from 0001-01-01 (day 1 of chrono's count) to 1970-01-01.
const EPOCH_FROM_CE: i64 = 719_163;

/// After so many days the calendar repeats itself, weekdays included.
const CALENDAR_DAYS: i64 = 146_097;

/// Most times of the day in an hour. After a gap of up to three hours one run stands for all that
/// lie in it and names each: to the host in one message, to its program in one variable.
const FIXED_TIMES_AN_HOUR_MAX: u64 = 240;

/// A compiled expression: never empty, and its dates exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u32,
    days: Days,
    /// Bits 1 to 12.
    months: u16,
    years: Option<Years>,
    /// It means times of the clock face, not an interval, and keeps its count over changes of
    /// the clock.
    pub(super) fixed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Days {
    Sets {
        /// Bits 1 to 31.
        dates: u32,
        /// Bits 0 (Sunday) to 6.
        weekdays: u8,
        /// A day that satisfies either is named; else it must satisfy both.
        either: bool,
    },
    OfMonth(MonthDay),
}

/// Bit n is 1970 + n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Years([u64; 3]);

impl Years {
    fn contains(&self, year: i32) -> bool {
        let Ok(n) = usize::try_from(year - i32::from(YEAR.low)) else {
            return false;
        };
        self.0
            .get(n / 64)
            .is_some_and(|bits| bits >> (n % 64) & 1 == 1)
    }

    /// Whether no year from this one on is named. Without the question, a schedule that has fired
    /// for the last time would look through all the years that a calendar has, after each fire.
    fn are_over_in(&self, year: i32) -> bool {
        let last = self.0.iter().rposition(|&bits| bits != 0);
        last.and_then(|word| {
            let bit = last_bit(self.0[word])?;
            i32::try_from(64 * word as i64 + bit).ok()
        })
        .is_none_or(|last| i32::from(YEAR.low) + last < year)
    }
}

impl Cron {
    /// Compiles an expression, and refuses one that names no date of any year. `text` is the
    /// expression as written.
    pub(super) fn compile(expression: &Expression, text: &str) -> Result<Cron, ScheduleError> {
        let bits = |items: &Items| items.values().fold(0u64, |bits, value| bits | 1 << value);
        let years = expression.years.as_ref().map(|items| {
            items.values().fold(Years([0; 3]), |mut years, year| {
                let n = usize::from(year - YEAR.low);
                years.0[n / 64] |= 1 << (n % 64);
                years
            })
        });
        let cron = Cron {
            seconds: expression.seconds.as_ref().map_or(1, bits),
            minutes: bits(&expression.minutes),
            hours: bits(&expression.hours) as u32,
            days: Days::compile(expression),
            months: bits(&expression.months) as u16,
            years,
            fixed: !expression.is_interval(),
        };
        let an_hour = ones(cron.seconds) * ones(cron.minutes);
        if cron.fixed && an_hour > FIXED_TIMES_AN_HOUR_MAX {
            return Err(ScheduleError::new(
                "cron",
                text,
                format!(
                    "names {an_hour} times of each hour one by one, more than {FIXED_TIMES_AN_HOUR_MAX}, and one run would stand for all that the clock goes forward over"
                ),
                "write an interval, for example `0/5` as second",
            ));
        }
        if cron.first_day(0, CALENDAR_DAYS).is_some() {
            return Ok(cron);
        }
        let when = if cron.years.is_some() {
            "in the years written"
        } else {
            "in any year"
        };
        Err(ScheduleError::new(
            "cron",
            text,
            format!("would never fire: no month it names has such a day {when}"),
            existing_day(expression, text),
        ))
    }

    /// Whether there is a last year.
    pub(super) fn ends(&self) -> bool {
        self.years.is_some()
    }

    fn names_day(&self, date: NaiveDate) -> bool {
        self.names_month(date)
            && self.names_year(date)
            && match self.days {
                Days::OfMonth(day) => day.is(date),
                Days::Sets {
                    dates,
                    weekdays,
                    either,
                } => {
                    let day = dates >> date.day() & 1 == 1;
                    let weekday = weekdays >> date.weekday().num_days_from_sunday() & 1 == 1;
                    if either {
                        day || weekday
                    } else {
                        day && weekday
                    }
                }
            }
    }

    fn names_month(&self, date: NaiveDate) -> bool {
        self.months >> date.month() & 1 == 1
    }

    fn names_year(&self, date: NaiveDate) -> bool {
        self.years.is_none_or(|years| years.contains(date.year()))
    }

    /// First day named in `from..=to`, in days since the epoch. Years and months that are not
    /// named cost a step each.
    pub(super) fn first_day(&self, from: i64, to: i64) -> Option<i64> {
        let mut day = from;
        let mut date = date_of(day)?;
        while day <= to {
            if self.names_day(date) {
                return Some(day);
            }
            let step = if !self.names_year(date) {
                if self
                    .years
                    .is_some_and(|years| years.are_over_in(date.year()))
                {
                    return None;
                }
                days_in_year(date) - i64::from(date.ordinal0())
            } else if !self.names_month(date) {
                i64::from(date.num_days_in_month()) - i64::from(date.day0())
            } else {
                1
            };
            day += step;
            date = if step == 1 {
                date.succ_opt()?
            } else {
                date_of(day)?
            };
        }
        None
    }

    /// Last day named in `from..=to`.
    pub(super) fn last_day(&self, from: i64, to: i64) -> Option<i64> {
        let mut day = to;
        while day >= from {
            let date = date_of(day)?;
            if self.names_day(date) {
                return Some(day);
            }
            day -= if !self.names_year(date) {
                i64::from(date.ordinal())
            } else if !self.names_month(date) {
                i64::from(date.day())
            } else {
                1
            };
        }
        None
    }

    /// First second named in `from..to`. Meant for spans of a few days.
    pub(super) fn first_time(&self, from: i64, to: i64) -> Option<i64> {
        let mut from = from;
        while from < to {
            let day = from.div_euclid(SECONDS_A_DAY);
            if let Some(second) = self.first_of_day(from.rem_euclid(SECONDS_A_DAY))
                && date_of(day).is_some_and(|date| self.names_day(date))
            {
                return Some(day * SECONDS_A_DAY + second).filter(|&time| time < to);
            }
            from = (day + 1) * SECONDS_A_DAY;
        }
        None
    }

    /// Last second named in `from..to`. Meant for spans of a few days.
    pub(super) fn last_time(&self, from: i64, to: i64) -> Option<i64> {
        let mut to = to;
        while from < to {
            let day = (to - 1).div_euclid(SECONDS_A_DAY);
            if let Some(second) = self.last_of_day((to - 1).rem_euclid(SECONDS_A_DAY))
                && date_of(day).is_some_and(|date| self.names_day(date))
            {
                return Some(day * SECONDS_A_DAY + second).filter(|&time| time >= from);
            }
            to = day * SECONDS_A_DAY;
        }
        None
    }

    /// How many seconds are named in `from..to`. Costs a step a day.
    pub(super) fn count_times(&self, from: i64, to: i64) -> u64 {
        let mut count = 0;
        let mut from = from;
        while from < to {
            let day = from.div_euclid(SECONDS_A_DAY);
            let end = ((day + 1) * SECONDS_A_DAY).min(to);
            if date_of(day).is_some_and(|date| self.names_day(date)) {
                count += self.count_of_day_before(end - day * SECONDS_A_DAY)
                    - self.count_of_day_before(from - day * SECONDS_A_DAY);
            }
            from = end;
        }
        count
    }

    /// First second of a day that is named, at or after `time` of it.
    fn first_of_day(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        if self.has_hour(hour) {
            if self.has_minute(minute)
                && let Some(second) = first_bit(self.seconds & !below(second))
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = first_bit(self.minutes & !below(minute + 1)) {
                return Some(hour * 3600 + minute * 60 + first_bit(self.seconds)?);
            }
        }
        let hour = first_bit(u64::from(self.hours) & !below(hour + 1))?;
        Some(hour * 3600 + first_bit(self.minutes)? * 60 + first_bit(self.seconds)?)
    }

    /// Last second of a day that is named, at or before `time` of it.
    fn last_of_day(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        if self.has_hour(hour) {
            if self.has_minute(minute)
                && let Some(second) = last_bit(self.seconds & below(second + 1))
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = last_bit(self.minutes & below(minute)) {
                return Some(hour * 3600 + minute * 60 + last_bit(self.seconds)?);
            }
        }
        let hour = last_bit(u64::from(self.hours) & below(hour))?;
        Some(hour * 3600 + last_bit(self.minutes)? * 60 + last_bit(self.seconds)?)
    }

    /// How many seconds of a named day come before `time`, 0 to 86,400, of it.
    fn count_of_day_before(&self, time: i64) -> u64 {
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        let a_minute = ones(self.seconds);
        let mut count = ones(u64::from(self.hours) & below(hour)) * ones(self.minutes) * a_minute;
        if self.has_hour(hour) {
            count += ones(self.minutes & below(minute)) * a_minute;
            if self.has_minute(minute) {
                count += ones(self.seconds & below(second));
            }
        }
        count
    }

    fn has_hour(&self, hour: i64) -> bool {
        u64::from(self.hours) >> hour & 1 == 1
    }

    fn has_minute(&self, minute: i64) -> bool {
        self.minutes >> minute & 1 == 1
    }
}

/// What to write in place of an expression whose months have no such day.
fn existing_day(expression: &Expression, text: &str) -> String {
    let with_day = |day: &str| {
        let mut fields: Vec<&str> = text.split_ascii_whitespace().collect();
        fields[expression.day_at()] = day;
        foreign::in_words(&fields.join(" "), expression.grammar)
    };
    if expression.weekdays != DayField::NoValue && expression.grammar.has_day_words() {
        return "write another weekday, the last as `7L` is, or other months".to_owned();
    }
    if expression.grammar.has_day_words() {
        return format!("write {}, or other months", with_day("L"));
    }
    let months = sentence::sorted(&expression.months);
    let longest = months.iter().map(|month| days_at_most(*month)).max();
    let names = sentence::list(months.iter().map(|&month| sentence::month(month)), "and");
    let (days, last) = match (longest, months.len()) {
        (Some(29), _) => ("has 28 days, 29 in leap years".to_owned(), 28),
        (Some(longest), 1) => (format!("has {longest} days"), longest),
        (longest, _) => {
            let longest = longest.unwrap_or(28);
            (format!("have at most {longest} days"), longest)
        }
    };
    format!(
        "{names} {days}: write {}, or other months",
        with_day(&last.to_string())
    )
}

impl Days {
    fn compile(expression: &Expression) -> Days {
        const ALL_DATES: u32 = !1;
        const ALL_WEEKDAYS: u8 = 0x7f;
        if let DayField::MonthDay(day) = expression.days {
            return Days::OfMonth(day);
        }
        if let DayField::MonthDay(day) = expression.weekdays {
            return Days::OfMonth(day);
        }
        let dates = match &expression.days {
            DayField::Items(items) => items
                .iter()
                .flat_map(|item| item.values(expression.day_field))
                .fold(0, |bits, date| bits | 1 << date),
            _ => ALL_DATES,
        };
        // Where 7 is Sunday as 0 is, it is the same bit.
        let field = expression.weekday_field;
        let weekdays = match &expression.weekdays {
            DayField::Items(items) => items
                .iter()
                .flat_map(|item| item.values(field))
                .fold(0, |bits, day| bits | 1 << ((day - field.low) % 7)),
            _ => ALL_WEEKDAYS,
        };
        Days::Sets {
            dates,
            weekdays,
            either: expression.is_either_day(),
        }
    }
}

fn days_at_most(month: u16) -> u16 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub(super) fn date_of(day: i64) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(i32::try_from(day + EPOCH_FROM_CE).ok()?)
}

fn days_in_year(date: NaiveDate) -> i64 {
    if date.leap_year() { 366 } else { 365 }
}

/// The bits below bit `n`, 0 to 64.
fn below(n: i64) -> u64 {
    u64::MAX.checked_shr(64 - n as u32).unwrap_or(0)
}

fn ones(bits: u64) -> u64 {
    u64::from(bits.count_ones())
}

fn first_bit(bits: u64) -> Option<i64> {
    (bits != 0).then(|| i64::from(bits.trailing_zeros()))
}

fn last_bit(bits: u64) -> Option<i64> {
    bits.checked_ilog2().map(i64::from)
}
