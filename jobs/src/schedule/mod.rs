//! When a job is due.
//!
//! A [`Schedule`] is a cron expression in a zone, or an interval. It is asked for the instants
//! in a stretch of time, never whether "it is that minute now": so a clock that jumps over a
//! minute skips nothing and one that jumps back repeats nothing.
//!
//! Changes of the clock, by Vixie's rule: an expression that means an interval (in the dialect
//! vixie one whose minute or hour field begins with `*`) follows the clock face
//! blindly: what a gap leaves out is not run, what a fold repeats is run again. Any other means times of the day and keeps its count: a
//! local time that a gap leaves out fires once, at the first instant after the gap, together
//! with all others in the gap and named with them; a local time that a fold repeats fires in the
//! first pass. A gap of more than three hours is a correction of the calendar (Samoa had no
//! 30 December 2011), and nothing in it is caught up, as in Debian's cron.

mod cron;
mod dialect;
mod error;
mod every;
mod explain;
mod expression;
mod face;
mod field;
mod fires;
mod foreign;
mod month_day;
mod zone;
mod zone_name;

use std::collections::VecDeque;

use chrono::NaiveDateTime;
use chrono_tz::Tz;
use protocol::WallMs;
use serde::{Deserialize, Serialize};

pub use dialect::{Dialect, DialectError};
pub use error::{Beside, ScheduleError, Setting};
pub use explain::{Explanation, Missed, Warning};
pub use face::{ClockNote, Face};
pub(crate) use zone::{local_text, parse_local};

use cron::{Cron, SECONDS_A_DAY};
use every::Every;
use expression::Expression;
use fires::Fire;

/// Schedules name instants of the years 1970 to 9999 and no others.
const FIRST: WallMs = WallMs(0);
const LAST: WallMs = WallMs(253_402_300_799_999);

/// The longest wait that an expression can ask for is the 40 years between two 29ths of February
/// on the same weekday around 2100.
const SEARCH_DAYS: i64 = 41 * 366;

/// 2025-01-01T00:00:00Z: from here a new schedule must find its first instant.
const PROBE: WallMs = WallMs(1_735_689_600_000);

/// Longest expression read, in bytes; the longest useful one has about 400.
const EXPRESSION_BYTES_MAX: usize = 1024;

/// A schedule as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// The fields of its dialect, a macro, or `@every <duration>`.
    pub cron: String,
    /// IANA name, as `Asia/Shanghai`.
    pub timezone: String,
    /// How `cron` is read.
    #[serde(default, skip_serializing_if = "Dialect::is_default")]
    pub dialect: Dialect,
}

/// A schedule that can be asked. Equal where it is written the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    spec: ScheduleSpec,
    tz: Tz,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Cron(Cron),
    Every(Every),
}

/// One instant that a schedule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instant {
    pub at: WallMs,
    /// The local times it stands for, `2026-03-29T02:30:00`, oldest first; never empty. Several
    /// after a gap. For `@every` the local time of the instant.
    pub nominal: Vec<String>,
}

/// Version of the bundled zone database, as `2025b`.
pub fn tzdata_version() -> &'static str {
    chrono_tz::IANA_TZDB_VERSION
}

impl Schedule {
    /// Reads a schedule, and refuses one that would never fire in its zone. Of several errors
    /// the first is told.
    pub fn parse(spec: &ScheduleSpec) -> Result<Schedule, ScheduleError> {
        Schedule::parse_whole(spec).map_err(|mut errors| errors.swap_remove(0))
    }

    /// The same with the errors of expression and zone together, never an empty list.
    pub fn parse_whole(spec: &ScheduleSpec) -> Result<Schedule, Vec<ScheduleError>> {
        let rule = Rule::parse(&spec.cron, spec.dialect);
        let (tz, rule) = match (zone_name::parse(&spec.timezone), rule) {
            (Ok(tz), Ok(rule)) => (tz, rule),
            (tz, rule) => return Err(rule.err().into_iter().chain(tz.err()).collect()),
        };
        let schedule = Schedule {
            spec: spec.clone(),
            tz,
            rule,
        };
        let probe = match &schedule.rule {
            Rule::Cron(cron) if cron.ends() => WallMs(FIRST.0 - 1),
            _ => PROBE,
        };
        if schedule.next_after(probe, probe).is_none() {
            return Err(vec![ScheduleError::new(
                "cron",
                &spec.cron,
                format!(
                    "never fires in {}: every local time it names is left out when the clock goes forward",
                    spec.timezone
                ),
                "write a fixed minute and hour, which fire after the gap, or another hour",
            )]);
        }
        Ok(schedule)
    }

    /// The schedule as written.
    pub fn spec(&self) -> &ScheduleSpec {
        &self.spec
    }

    /// IANA name of the zone, as written.
    pub fn timezone(&self) -> &str {
        &self.spec.timezone
    }

    /// Whether the schedule means times of the clock face, each of which fires once although the
    /// clock repeats it: its fires are unique by nominal local time too.
    pub fn is_fixed_time(&self) -> bool {
        matches!(&self.rule, Rule::Cron(cron) if cron.fixed)
    }

    /// The local time of any instant in this schedule's zone, `2026-03-29T02:30:00`.
    pub fn local_time(&self, at: WallMs) -> String {
        local_text(self.local(at))
    }

    /// The first instant after `after`. `anchor` is the start of the job's version; only `@every`
    /// counts from it, first firing one period later.
    pub fn next_after(&self, anchor: WallMs, after: WallMs) -> Option<Instant> {
        match &self.rule {
            Rule::Cron(cron) => self
                .next_fire(cron, after)
                .map(|fire| cron.write_out(&fire)),
            Rule::Every(every) => {
                let n = every.count_through(anchor, after).checked_add(1)?;
                let at = every.nth(anchor, n).filter(|&at| at <= LAST)?;
                Some(self.plain(at))
            }
        }
    }

    /// An anchor at or before `after` that names `fire`, an instant that is known to be one. For
    /// asking about the time before, or without knowing when the version began.
    pub fn anchor_of(&self, fire: WallMs, after: WallMs) -> WallMs {
        match &self.rule {
            Rule::Every(every) => every.anchor_of(fire, after),
            Rule::Cron(_) => after,
        }
    }

    /// The last instant before `before`, by the same anchor.
    pub fn previous_before(&self, anchor: WallMs, before: WallMs) -> Option<Instant> {
        let through = WallMs(before.0.saturating_sub(1));
        self.newest(anchor, WallMs(FIRST.0 - 1), through, 1).pop()
    }

    /// What an instant stands for, if the schedule names it.
    pub fn instant_at(&self, anchor: WallMs, at: WallMs) -> Option<Instant> {
        self.next_after(anchor, WallMs(at.0.saturating_sub(1)))
            .filter(|instant| instant.at == at)
    }

    /// All instants in (`after`, `through`], oldest first, each found when it is asked for.
    pub fn instants(
        &self,
        anchor: WallMs,
        after: WallMs,
        through: WallMs,
    ) -> impl Iterator<Item = Instant> + '_ {
        let mut after = after;
        std::iter::from_fn(move || {
            let instant = self
                .next_after(anchor, after)
                .filter(|instant| instant.at <= through)?;
            after = instant.at;
            Some(instant)
        })
    }

    /// How many instants lie in (`after`, `through`]. Arithmetic for `@every`; for cron a step for
    /// each day it names, so a year costs some hundred steps however many instants it has.
    pub fn count(&self, anchor: WallMs, after: WallMs, through: WallMs) -> u64 {
        match &self.rule {
            Rule::Every(every) => {
                let through = through.min(LAST);
                every
                    .count_through(anchor, through)
                    .saturating_sub(every.count_through(anchor, after))
            }
            Rule::Cron(cron) => {
                let (after, through) = seconds(after, through);
                let day = after.div_euclid(SECONDS_A_DAY);
                windows(cron, day, through.div_euclid(SECONDS_A_DAY))
                    .flat_map(|window| zone::pieces(self.tz, window))
                    .map(|piece| cron.count_fires(&piece, after, through))
                    .sum()
            }
        }
    }

    /// The newest `n` instants in (`after`, `through`], oldest first. Found from the end, so an
    /// outage of a year costs no more than one of a day.
    pub fn newest(&self, anchor: WallMs, after: WallMs, through: WallMs, n: usize) -> Vec<Instant> {
        match &self.rule {
            Rule::Every(every) => {
                let last = every.count_through(anchor, through.min(LAST));
                let skipped = every.count_through(anchor, after);
                let first = last.saturating_sub(n as u64).max(skipped);
                (first..last)
                    .filter_map(|k| every.nth(anchor, k + 1))
                    .map(|at| self.plain(at))
                    .collect()
            }
            Rule::Cron(cron) => {
                let mut newest = VecDeque::new();
                let (after, mut through) = seconds(after, through);
                while newest.len() < n
                    && let Some(fire) = self.last_fire(cron, after, through)
                {
                    newest.push_front(cron.write_out(&fire));
                    through = fire.at - 1;
                }
                newest.into()
            }
        }
    }

    fn next_fire(&self, cron: &Cron, after: WallMs) -> Option<Fire> {
        let (after, end) = seconds(after, LAST);
        let day = after.div_euclid(SECONDS_A_DAY);
        // Where years are written, the first of them may be far off, but they are few.
        let last = if cron.ends() {
            i64::MAX / 2
        } else {
            day + SEARCH_DAYS
        };
        windows(cron, day, last.min(end.div_euclid(SECONDS_A_DAY))).find_map(|window| {
            zone::pieces(self.tz, window)
                .into_iter()
                .find_map(|piece| cron.first_fire(&piece, after))
        })
    }

    /// The last fire in (`after`, `through`], in seconds.
    fn last_fire(&self, cron: &Cron, after: i64, through: i64) -> Option<Fire> {
        let first = after.div_euclid(SECONDS_A_DAY);
        let mut day = through.div_euclid(SECONDS_A_DAY);
        while let Some(found) = previous_window(cron, first, day) {
            let fire = zone::pieces(self.tz, found)
                .into_iter()
                .rev()
                .find_map(|piece| cron.last_fire(&piece, through));
            if fire.is_some() {
                return fire.filter(|fire| fire.at > after);
            }
            day = found - 1;
        }
        None
    }

    fn plain(&self, at: WallMs) -> Instant {
        Instant {
            at,
            nominal: vec![self.local_time(at)],
        }
    }

    pub(crate) fn local(&self, at: WallMs) -> NaiveDateTime {
        let at = at.clamp(FIRST, LAST);
        let offset = zone::offset_at(self.tz, at.0.div_euclid(1000));
        zone::local(at.0 + offset * 1000)
    }
}

impl Rule {
    fn parse(text: &str, dialect: Dialect) -> Result<Rule, ScheduleError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(ScheduleError::new(
                "cron",
                text,
                format!("is longer than {EXPRESSION_BYTES_MAX} bytes"),
                "write ranges and steps instead of long lists",
            ));
        }
        if let Some(period) = every::period_of(text) {
            return Every::parse(period).map(Rule::Every);
        }
        Expression::parse(text, dialect.grammar())
            .and_then(|expression| Cron::compile(&expression, text))
            .map(Rule::Cron)
            .map_err(|error| foreign::point_elsewhere(error, text, dialect))
    }
}

/// The UTC days in `day..=last` in which a fire can lie: local days touch the UTC day of the same
/// number and its neighbours, no others.
fn windows(cron: &Cron, day: i64, last: i64) -> impl Iterator<Item = i64> {
    let mut day = day;
    std::iter::from_fn(move || {
        let found = cron.first_day(day - 1, last + 1)?;
        let window = (found - 1).max(day);
        day = window + 1;
        (window <= last).then_some(window)
    })
}

/// The last UTC day in `first..=day` in which a fire can lie.
fn previous_window(cron: &Cron, first: i64, day: i64) -> Option<i64> {
    let found = cron.last_day(first - 1, day + 1)?;
    Some((found + 1).min(day)).filter(|&window| window >= first)
}

/// Milliseconds as the whole seconds on which fires lie, inside the years that schedules name:
/// a fire in (`after`, `through`] of the one is in (`after`, `through`] of the other.
fn seconds(after: WallMs, through: WallMs) -> (i64, i64) {
    let after = after.0.clamp(FIRST.0 - 1, LAST.0);
    let through = through.0.clamp(FIRST.0 - 1, LAST.0);
    (after.div_euclid(1000), through.div_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2038-01-01T00:00:00Z.
    const YEARS_END: WallMs = WallMs(2_145_916_800_000);

    /// Expressions that have sent other engines round in circles, or far away.
    const NASTY: [(Dialect, &str); 9] = [
        (Dialect::Vixie, "0 0 29 2 *"),
        (Dialect::Vixie, "0 12 30 12 *"),
        (Dialect::Vixie, "*/40 2 8-14 3 */7"),
        (Dialect::Vixie, "30 2 25-31 3,10 */7"),
        (Dialect::Quartz, "0 0 0 ? 2 7#5"),
        (Dialect::Quartz, "59 59 23 31W 3 ?"),
        (Dialect::Quartz, "0 30 1 ? 11 1#1"),
        (Dialect::Quartz, "0 0 0 L-30 10 ? 1970/3"),
        (Dialect::Kubernetes, "0/30 2 1/40 4 ?"),
    ];

    /// From each fire to the next the walk looks at the three UTC days that a local day touches
    /// and no others, in whatever zone, and goes on only where a gap has taken the fire away:
    /// here for some years at most.
    #[test]
    fn no_zone_makes_the_walk_long() {
        for &tz in &chrono_tz::TZ_VARIANTS {
            for (dialect, text) in NASTY {
                let spec = ScheduleSpec {
                    cron: text.to_owned(),
                    timezone: tz.name().to_owned(),
                    dialect,
                };
                let Ok(schedule) = Schedule::parse(&spec) else {
                    // Never fires in this zone, which it took a bounded walk to see.
                    assert!(text.starts_with('*'), "{text} {tz}");
                    continue;
                };
                let Rule::Cron(cron) = &schedule.rule else {
                    panic!("{text} is no interval");
                };
                let mut at = FIRST;
                while at < YEARS_END {
                    let after = at.0.div_euclid(1000);
                    let day = after.div_euclid(SECONDS_A_DAY);
                    let next = schedule.next_fire(cron, at);
                    let to = next.map_or(day, |fire| fire.at.div_euclid(SECONDS_A_DAY));
                    let steps = windows(cron, day, to).count();
                    assert!(
                        steps <= 3 * 20,
                        "{text} {tz}: {steps} days looked at after {at}"
                    );
                    let Some(next) = next else {
                        assert!(cron.ends(), "{text} {tz}: nothing after {at}");
                        break;
                    };
                    assert!(next.at > after, "{text} {tz}: {} after {after}", next.at);
                    at = WallMs(next.at * 1000);
                }
            }
        }
    }
}
