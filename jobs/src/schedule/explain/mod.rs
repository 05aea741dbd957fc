//! What a schedule does, in words, and what about it surprises people.

pub(super) mod sentence;
mod warnings;

use std::fmt;

use protocol::WallMs;
use serde::Serialize;

use super::expression::Expression;
use super::face::time_of_day;
use super::{Rule, Schedule};

/// A schedule in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// One English sentence.
    pub sentence: String,
    pub warnings: Vec<Warning>,
}

/// Something that the schedule does and that its writer may not expect. Displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Both day fields name days, and one of them is enough.
    EitherDay { dates: String, weekdays: String },
    /// Both day fields name days, and one of them has the star: a day must satisfy both.
    BothDays {
        field: &'static str,
        star: &'static str,
    },
    /// In a year the clock goes forward over times that are named.
    ClockForward {
        #[serde(with = "protocol::api::Rfc3339")]
        at: WallMs,
        /// Local times that do not exist, the first few.
        times: Vec<String>,
        /// How many more there are.
        more: u64,
        missed: Missed,
    },
    /// In a year the clock goes back over times that are named.
    ClockBack {
        #[serde(with = "protocol::api::Rfc3339")]
        at: WallMs,
        /// Local times that come twice, the first few.
        times: Vec<String>,
        more: u64,
        /// Whether it fires in both passes; else in the first only.
        twice: bool,
    },
    /// Some months do not have such a day.
    ShortMonths { days: Vec<u16> },
    /// The 29th of February and no other day.
    LeapYears,
    /// Steps that do not divide the field: the last gap is shorter.
    UnevenStep {
        field: &'static str,
        step: u16,
        gaps: Vec<u16>,
    },
    /// A step that leads past the field's end at once, so that it names one value.
    OneStep {
        field: &'static str,
        /// The item, its names as numbers.
        written: String,
        step: u16,
        value: u16,
        /// The field's last value.
        last: u16,
        /// Expressions, together for what the step seems to mean; empty where that is not known.
        instead: Vec<String>,
    },
    /// A step over days of the month begins anew with each month.
    RestartsEachMonth { step: u16 },
    /// Weekdays are written as numbers where 1 is Sunday.
    SundayIsOne { means: String },
    /// `*` in both day fields, which Quartz itself refuses.
    StarForQuestion,
    /// There is a last fire.
    Ends {
        #[serde(with = "protocol::api::Rfc3339")]
        last: WallMs,
    },
    /// An interval counts from the moment a version of the job is in force.
    CountsFromVersion,
}

/// What becomes of the times that a gap leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// One fire for all of them, when the clock has gone forward.
    FireOnce,
    /// The schedule is an interval: none.
    Interval,
    /// The gap is so long that it is a correction of the calendar: none.
    Calendar,
}

impl Warning {
    /// Whether the writer almost surely means something else, and so is told without asking.
    pub fn is_striking(&self) -> bool {
        match self {
            Warning::EitherDay { .. } | Warning::RestartsEachMonth { .. } => true,
            // A step of a whole round, every 60 minutes: that is what it does.
            Warning::OneStep { field, step, .. } => {
                let round = match *field {
                    "second" | "minute" => 60,
                    "hour" => 24,
                    "month" => 12,
                    "day of week" => 7,
                    _ => 31,
                };
                *step != round
            }
            _ => false,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::EitherDay { dates, weekdays } => write!(
                f,
                "a day needs to satisfy only one of the two day fields: it fires {dates} and also {weekdays}, not only where both agree"
            ),
            Warning::BothDays { field, star } => write!(
                f,
                "a day must satisfy both day fields, because the {field} {star}; else one would be enough"
            ),
            Warning::ClockForward {
                at,
                times,
                more,
                missed,
            } => {
                write!(f, "at {at} the clock goes forward over ")?;
                write_times(f, times, *more)?;
                f.write_str(match missed {
                    Missed::FireOnce => ": it fires once at that instant, for all of them",
                    Missed::Interval => ": it is an interval, so nothing in the gap fires",
                    Missed::Calendar => {
                        ": the gap is a correction of the calendar and nothing in it fires"
                    }
                })
            }
            Warning::ClockBack {
                at,
                times,
                more,
                twice,
            } => {
                write!(f, "at {at} the clock goes back, and the day has ")?;
                write_times(f, times, *more)?;
                f.write_str(if *twice {
                    " twice: it is an interval, so it fires in both passes"
                } else {
                    " twice: it fires in the first pass only"
                })
            }
            Warning::ShortMonths { days } => write!(
                f,
                "months without a day {} are passed over",
                sentence::list(days.iter().map(u16::to_string), "or")
            ),
            Warning::LeapYears => f.write_str("only leap years have this day"),
            Warning::UnevenStep { field, step, gaps } => write!(
                f,
                "the step {step} does not divide the {field} field, at whose start it begins anew: the gaps are {}",
                sentence::list(gaps.iter().map(u16::to_string), "and")
            ),
            Warning::OneStep {
                field,
                written,
                value,
                last,
                instead,
                ..
            } => {
                write!(
                    f,
                    "the {field} `{written}` steps past {last}: it fires at {field} {value} only, every {}",
                    warnings::round_of(field)
                )?;
                let instead = instead.iter().map(|cron| format!("`{cron}`"));
                match sentence::list(instead, "and a second schedule").as_str() {
                    "" => Ok(()),
                    instead => write!(f, "; write {instead}"),
                }
            }
            Warning::RestartsEachMonth { step } => write!(
                f,
                "the step {step} begins anew with each month, so over the end of a month the gap is another"
            ),
            Warning::SundayIsOne { means } => write!(
                f,
                "Quartz counts Sunday as 1 and Saturday as 7, one more than crontabs do: this is {means}"
            ),
            Warning::StarForQuestion => f.write_str(
                "Quartz itself refuses `*` in both day fields; it is read as `?` in one of them",
            ),
            Warning::Ends { last } => write!(f, "its last fire is {last}"),
            Warning::CountsFromVersion => f.write_str(
                "the interval counts from the moment this version of the job is in force, and begins anew with the next version",
            ),
        }
    }
}

/// `02:00, 02:30 and 4 more`.
fn write_times(f: &mut fmt::Formatter<'_>, times: &[String], more: u64) -> fmt::Result {
    let mut times: Vec<String> = times
        .iter()
        .map(|time| time_of_day(time).to_owned())
        .collect();
    if more > 0 {
        times.push(format!("{more} more"));
    }
    f.write_str(&sentence::list(times.into_iter(), "and"))
}

impl Schedule {
    /// Says what the schedule does, and what may surprise in the year after `after`.
    pub fn explain(&self, after: WallMs) -> Explanation {
        match &self.rule {
            Rule::Every(every) => Explanation {
                sentence: format!("Every {}.", every.period()),
                warnings: vec![Warning::CountsFromVersion],
            },
            Rule::Cron(cron) => {
                let grammar = self.spec.dialect.grammar();
                let expression = Expression::parse(&self.spec.cron, grammar)
                    .expect("it was parsed when the schedule was made");
                Explanation {
                    sentence: sentence::of(&expression),
                    warnings: warnings::of(self, cron, &expression, after),
                }
            }
        }
    }
}
