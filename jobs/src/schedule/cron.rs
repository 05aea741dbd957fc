//! A cron expression as sets of bits, and the arithmetic of the local minutes it names.
//!
//! Local time is counted in minutes since 1970-01-01T00:00 of the zone's own clock face. Whether
//! a minute exists there, and when, is not this file's business.

use chrono::{Datelike, NaiveDate};

use super::error::ScheduleError;
use super::field;

pub(super) const MINUTES_A_DAY: i64 = 1440;

/// Days from 0001-01-01 (day 1 of chrono's count) to 1970-01-01.
const EPOCH_FROM_CE: i64 = 719_163;

const MONTH_DAYS_MOST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A parsed five-field expression: never empty, and its dates exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: u64,
    hours: u32,
    /// Bits 1 to 31.
    days: u32,
    /// Bits 1 to 12.
    months: u16,
    /// Bits 0 (Sunday) to 6.
    weekdays: u8,
    /// Where neither day field has Vixie's star, a day that satisfies either is named;
    /// else it must satisfy both.
    either_day: bool,
    /// Neither minute nor hour has Vixie's star: the job means times of the clock face, not an
    /// interval, and keeps its count over changes of the clock.
    pub(super) fixed: bool,
}

const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

impl Cron {
    /// Reads five fields or a macro.
    pub(super) fn parse(text: &str) -> Result<Cron, ScheduleError> {
        let refuse =
            |reason: String, remedy: &str| ScheduleError::new("cron", text, reason, remedy);
        if text.trim_start().starts_with('@') {
            return Cron::parse_macro(text.trim());
        }
        let fields: Vec<&str> = text
            .split([' ', '\t'])
            .filter(|field| !field.is_empty())
            .collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            let first = fields.first().copied().unwrap_or_default();
            return Err(
                if first.starts_with("TZ=") || first.starts_with("CRON_TZ=") {
                    refuse(
                        "has the zone in it".to_owned(),
                        "write it as schedule.timezone",
                    )
                } else {
                    refuse(
                        format!("has {} fields, not five", fields.len()),
                        "write minute, hour, day of month, month and day of week, for example `30 23 * * *`",
                    )
                },
            );
        };
        let minute = field::MINUTE.parse(minute)?;
        let hour = field::HOUR.parse(hour)?;
        let day_values = field::DAY.parse(day)?;
        let month_values = field::MONTH.parse(month)?;
        let weekday = field::WEEKDAY.parse(weekday)?;
        let cron = Cron {
            minutes: minute.bits,
            hours: hour.bits as u32,
            days: day_values.bits as u32,
            months: month_values.bits as u16,
            weekdays: ((weekday.bits | weekday.bits >> 7) & 0x7f) as u8,
            either_day: !day_values.star && !weekday.star,
            fixed: !minute.star && !hour.star,
        };
        if !cron.names_a_date() {
            return Err(ScheduleError::new(
                field::DAY.name,
                day,
                format!("is in no month of `{month}`, so it would never fire"),
                "write a day that exists, for example `28-31`, or another month",
            ));
        }
        Ok(cron)
    }

    fn parse_macro(text: &str) -> Result<Cron, ScheduleError> {
        if let Some((_, fields)) = MACROS.iter().find(|(name, _)| *name == text) {
            return Cron::parse(fields);
        }
        let refuse =
            |reason: &str, remedy: String| Err(ScheduleError::new("cron", text, reason, remedy));
        if text == "@reboot" {
            return refuse(
                "is no time, and no machine of the fleet is the one whose start would count",
                "give the job a schedule, or start it with the host's own init".to_owned(),
            );
        }
        let known = MACROS.iter().map(|(name, _)| *name);
        match crate::nearest::nearest(text, known.chain(["@every"])) {
            Some("@every") => refuse(
                "is not an interval",
                "write `@every` and a duration, for example `@every 1h30m`".to_owned(),
            ),
            Some(name) => refuse("is not a known macro", format!("write `{name}`")),
            None => refuse(
                "is not a known macro",
                "write five fields, `@every 1h30m`, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually".to_owned(),
            ),
        }
    }

    /// Whether any year has a day it names. Every weekday falls on every date of the year sooner
    /// or later, so only the day's number can be impossible, and a weekday alone never is.
    fn names_a_date(&self) -> bool {
        self.either_day
            || (1..=12).any(|month: u32| {
                let most = MONTH_DAYS_MOST[month as usize - 1];
                self.months >> month & 1 == 1 && (1..=most).any(|day| self.days >> day & 1 == 1)
            })
    }

    fn names_day(&self, date: NaiveDate) -> bool {
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().num_days_from_sunday() & 1 == 1;
        self.names_month(date)
            && if self.either_day {
                day || weekday
            } else {
                day && weekday
            }
    }

    fn names_month(&self, date: NaiveDate) -> bool {
        self.months >> date.month() & 1 == 1
    }

    /// First day named in `from..=to`, in days since the epoch.
    pub(super) fn first_day(&self, from: i64, to: i64) -> Option<i64> {
        let mut day = from;
        while day <= to {
            let date = date_of(day)?;
            if self.names_day(date) {
                return Some(day);
            }
            day += if self.names_month(date) {
                1
            } else {
                i64::from(date.num_days_in_month()) - i64::from(date.day0())
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
            day -= if self.names_month(date) {
                1
            } else {
                i64::from(date.day())
            };
        }
        None
    }

    /// First minute named in `from..to`. Meant for spans of a few days.
    pub(super) fn first_minute(&self, from: i64, to: i64) -> Option<i64> {
        let mut from = from;
        while from < to {
            let day = from.div_euclid(MINUTES_A_DAY);
            if date_of(day).is_some_and(|date| self.names_day(date))
                && let Some(minute) = self.first_of_day(from.rem_euclid(MINUTES_A_DAY))
            {
                return Some(day * MINUTES_A_DAY + minute).filter(|&minute| minute < to);
            }
            from = (day + 1) * MINUTES_A_DAY;
        }
        None
    }

    /// Last minute named in `from..to`. Meant for spans of a few days.
    pub(super) fn last_minute(&self, from: i64, to: i64) -> Option<i64> {
        let mut to = to;
        while from < to {
            let day = (to - 1).div_euclid(MINUTES_A_DAY);
            if date_of(day).is_some_and(|date| self.names_day(date))
                && let Some(minute) = self.last_of_day((to - 1).rem_euclid(MINUTES_A_DAY))
            {
                return Some(day * MINUTES_A_DAY + minute).filter(|&minute| minute >= from);
            }
            to = day * MINUTES_A_DAY;
        }
        None
    }

    /// How many minutes are named in `from..to`. Costs a step a day.
    pub(super) fn count_minutes(&self, from: i64, to: i64) -> u64 {
        let mut count = 0;
        let mut from = from;
        while from < to {
            let day = from.div_euclid(MINUTES_A_DAY);
            let end = ((day + 1) * MINUTES_A_DAY).min(to);
            if date_of(day).is_some_and(|date| self.names_day(date)) {
                count += self.count_of_day_before(end - day * MINUTES_A_DAY)
                    - self.count_of_day_before(from - day * MINUTES_A_DAY);
            }
            from = end;
        }
        count
    }

    /// First minute of a day that is named, at or after `minute` of it.
    fn first_of_day(&self, minute: i64) -> Option<i64> {
        let (hour, minute) = (minute / 60, minute % 60);
        if self.hours >> hour & 1 == 1
            && let Some(minute) = first_bit(self.minutes & (u64::MAX << minute))
        {
            return Some(hour * 60 + minute);
        }
        let hour = first_bit(u64::from(self.hours) & (u64::MAX << (hour + 1)))?;
        Some(hour * 60 + first_bit(self.minutes)?)
    }

    /// Last minute of a day that is named, at or before `minute` of it.
    fn last_of_day(&self, minute: i64) -> Option<i64> {
        let (hour, minute) = (minute / 60, minute % 60);
        if self.hours >> hour & 1 == 1
            && let Some(minute) = last_bit(self.minutes & below(minute + 1))
        {
            return Some(hour * 60 + minute);
        }
        let hour = last_bit(u64::from(self.hours) & below(hour))?;
        Some(hour * 60 + last_bit(self.minutes)?)
    }

    /// How many minutes of a named day come before `minute`, 0 to 1440, of it.
    fn count_of_day_before(&self, minute: i64) -> u64 {
        let (hour, minute) = (minute / 60, minute % 60);
        let hours = u64::from((u64::from(self.hours) & below(hour)).count_ones());
        let begun = if u64::from(self.hours) >> hour & 1 == 1 {
            u64::from((self.minutes & below(minute)).count_ones())
        } else {
            0
        };
        hours * u64::from(self.minutes.count_ones()) + begun
    }
}

fn date_of(day: i64) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(i32::try_from(day + EPOCH_FROM_CE).ok()?)
}

/// The bits below bit `n`, 0 to 63.
fn below(n: i64) -> u64 {
    (1 << n) - 1
}

fn first_bit(bits: u64) -> Option<i64> {
    (bits != 0).then(|| i64::from(bits.trailing_zeros()))
}

fn last_bit(bits: u64) -> Option<i64> {
    bits.checked_ilog2().map(i64::from)
}
