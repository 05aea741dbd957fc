//! The dialects of cron expressions, and in what they differ.
//!
//! They share one field parser; what is different is data in a [`Grammar`], so that a dialect
//! can be read here as a whole.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::field::{Field, Item};

/// How an expression is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Five fields, as crontabs have them.
    #[default]
    Vixie,
    /// Six or seven fields with seconds first, 1 is Sunday; `?`, `L`, `W`, `#`, years.
    Quartz,
    /// Five fields, as CronJobs have them: `?` is `*`, `5/15` runs to the field's end.
    Kubernetes,
}

impl Dialect {
    pub const ALL: [Dialect; 3] = [Dialect::Vixie, Dialect::Quartz, Dialect::Kubernetes];

    pub fn name(self) -> &'static str {
        match self {
            Dialect::Vixie => "vixie",
            Dialect::Quartz => "quartz",
            Dialect::Kubernetes => "kubernetes",
        }
    }

    /// For serde: a manifest that does not say it is stored as one that never heard of it.
    pub fn is_default(&self) -> bool {
        *self == Dialect::default()
    }

    pub(super) fn grammar(self) -> &'static Grammar {
        match self {
            Dialect::Vixie => &VIXIE,
            Dialect::Quartz => &QUARTZ,
            Dialect::Kubernetes => &KUBERNETES,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that names no dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a dialect; write `vixie`, `quartz` or `kubernetes`")]
pub struct DialectError;

impl FromStr for Dialect {
    type Err = DialectError;

    fn from_str(text: &str) -> Result<Dialect, DialectError> {
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.name() == text)
            .ok_or(DialectError)
    }
}

/// What `?` means in a day field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Refused,
    /// The same as `*`, in every field.
    Star,
    /// This field says nothing: the other one names the days.
    NoValue,
}

/// What makes a day that one of two restricted day fields names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Days {
    /// A day must satisfy both fields where one *has the star*, else either.
    ByStar(Star),
    /// Exactly one of the two fields says something, and may say it with `L`, `W` and `#`.
    One,
}

/// Which fields have the star.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Star {
    /// Those whose first character is `*`, whatever follows.
    First,
    /// Those that have a plain `*` or `?` among their items, and no step on it.
    Plain,
}

/// Which expressions mean an interval, not times of the clock face; judged by seconds, minutes
/// and hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interval {
    /// Those with a field that begins with `*`.
    Star,
    /// Those with `*` or an open step, `5/15`, among the items of a field.
    StarOrOpenStep,
    /// Those with any sign that stands for more than the values written: `*`, `-` or `/`.
    AnySign,
}

/// One dialect.
#[derive(Debug)]
pub(super) struct Grammar {
    /// In the order written. The first is the minute where there are five.
    pub(super) fields: &'static [Field],
    /// How many of them may be left out at the end.
    pub(super) optional: usize,
    /// The fields in words, with an example.
    pub(super) form: &'static str,
    /// `5/15` is from 5 to the field's end.
    pub(super) open_steps: bool,
    /// `22-2` runs over the end of the field; else it is refused.
    pub(super) wraps: bool,
    /// A step may be longer than the field, and then names the first value only.
    pub(super) long_steps: bool,
    pub(super) question: Question,
    pub(super) days: Days,
    pub(super) interval: Interval,
}

const SECOND: Field = Field::numbers("second", 0, 59);
const MINUTE: Field = Field::numbers("minute", 0, 59);
const HOUR: Field = Field::numbers("hour", 0, 23);
const DAY: Field = Field::numbers("day of month", 1, 31);
const MONTH: Field = Field::named("month", 1, 12, &MONTHS);
pub(super) const YEAR: Field = Field::numbers("year", 1970, 2099);

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const VIXIE: Grammar = Grammar {
    fields: &[
        MINUTE,
        HOUR,
        DAY,
        MONTH,
        // 0 and 7 are both Sunday.
        Field::named("day of week", 0, 7, &WEEKDAYS),
    ],
    optional: 0,
    form: "minute, hour, day of month, month and day of week, for example `30 23 * * *`",
    open_steps: false,
    wraps: false,
    long_steps: true,
    question: Question::Refused,
    days: Days::ByStar(Star::First),
    interval: Interval::Star,
};

const KUBERNETES: Grammar = Grammar {
    fields: &[
        MINUTE,
        HOUR,
        DAY,
        MONTH,
        Field::named("day of week", 0, 6, &WEEKDAYS),
    ],
    optional: 0,
    form: VIXIE.form,
    open_steps: true,
    wraps: false,
    long_steps: true,
    question: Question::Star,
    days: Days::ByStar(Star::Plain),
    interval: Interval::StarOrOpenStep,
};

const QUARTZ: Grammar = Grammar {
    fields: &[
        SECOND,
        MINUTE,
        HOUR,
        DAY,
        MONTH,
        Field::named("day of week", 1, 7, &WEEKDAYS),
        YEAR,
    ],
    optional: 1,
    form: "second, minute, hour, day of month, month, day of week and, if wanted, year, for example `0 30 23 * * ?`",
    open_steps: true,
    wraps: true,
    long_steps: false,
    question: Question::NoValue,
    days: Days::One,
    interval: Interval::AnySign,
};

impl Grammar {
    /// `L`, `W` and `#` in the day fields.
    pub(super) fn has_day_words(&self) -> bool {
        self.days == Days::One
    }

    /// Whether a field has the star that makes both day fields count.
    pub(super) fn has_star(&self, items: &[Item]) -> bool {
        match self.days {
            Days::ByStar(Star::First) => matches!(items.first(), Some(Item::All { .. })),
            Days::ByStar(Star::Plain) => items.contains(&Item::All { step: 1 }),
            Days::One => false,
        }
    }

    /// Whether these items of seconds, minutes or hours make the expression an interval.
    pub(super) fn is_interval(&self, items: &[Item]) -> bool {
        match self.interval {
            Interval::Star => matches!(items.first(), Some(Item::All { .. })),
            Interval::StarOrOpenStep => items
                .iter()
                .any(|item| matches!(item, Item::All { .. } | Item::From { .. })),
            Interval::AnySign => items.iter().any(|item| !matches!(item, Item::One(_))),
        }
    }
}
