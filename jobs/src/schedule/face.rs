//! What the zone's clock face shows at an instant, and what a person should know of it.

use std::fmt;

use super::cron::SECONDS_A_DAY;
use super::{Instant, Schedule, zone};
use chrono::NaiveDateTime;

/// A fire as the clock on the wall of its zone shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    pub local: NaiveDateTime,
    /// East of UTC, in seconds.
    pub offset_seconds: i64,
    pub note: Option<ClockNote>,
}

/// What a change of the clock does to a fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockNote {
    /// The clock goes forward over these local times, which all fire here, once.
    StandsFor(Vec<String>),
    /// The clock will show this local time again.
    FirstPass,
    /// The clock has shown this local time before.
    SecondPass,
}

impl fmt::Display for ClockNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockNote::StandsFor(nominal) => {
                let times: Vec<&str> = nominal.iter().map(|time| time_of_day(time)).collect();
                let (shown, rest) = times.split_at(times.len().min(4));
                write!(f, "clock goes forward: stands for {}", shown.join(", "))?;
                match rest.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            ClockNote::FirstPass => f.write_str("clock goes back: first pass"),
            ClockNote::SecondPass => f.write_str("clock goes back: second pass"),
        }
    }
}

/// `02:30` of `2026-03-29T02:30:00`; with seconds where there are some.
pub(super) fn time_of_day(local: &str) -> &str {
    let time = local.split_once('T').map_or(local, |(_, time)| time);
    time.strip_suffix(":00").unwrap_or(time)
}

impl Schedule {
    /// What the clock of this schedule's zone shows at one of its instants.
    pub fn face(&self, instant: &Instant) -> Face {
        let local = self.local(instant.at);
        let at = instant.at.0.div_euclid(1000);
        let face = local.and_utc().timestamp();
        let own = super::local_text(local);
        let note = if instant.nominal.iter().any(|nominal| *nominal != own) {
            let mut nominal = instant.nominal.clone();
            nominal.retain(|nominal| *nominal != own);
            Some(ClockNote::StandsFor(nominal))
        } else {
            self.pass(at, face)
        };
        Face {
            local,
            offset_seconds: zone::offset_at(self.tz, at),
            note,
        }
    }

    /// Which pass of a local time an instant is, where there are two. Both in seconds.
    fn pass(&self, at: i64, face: i64) -> Option<ClockNote> {
        let day = at.div_euclid(SECONDS_A_DAY);
        let today = zone::pieces(self.tz, day);
        let own = today.iter().find(|piece| at < piece.end)?;
        if face < own.seen {
            return Some(ClockNote::SecondPass);
        }
        let later = zone::pieces(self.tz, day + 1);
        let again = |piece: &&zone::Piece| {
            piece.start > at && (piece.local_start()..piece.local_end()).contains(&face)
        };
        let repeats = today.iter().chain(&later).find(again);
        repeats.map(|_| ClockNote::FirstPass)
    }
}

#[cfg(test)]
mod tests {
    use crate::Schedule;
    use crate::schedule::{Dialect, ScheduleSpec};
    use protocol::WallMs;

    #[test]
    fn notes_beside_changes_of_the_clock() {
        for (cron, timezone, after, expected) in [
            (
                "0,30 2 * * *",
                "America/New_York",
                "2024-03-10T05:00:00Z",
                "-14400 clock goes forward: stands for 02:00, 02:30",
            ),
            (
                "*/10 2 * * *",
                "America/New_York",
                "2024-03-10T05:00:00Z",
                "-14400",
            ),
            (
                "0-59/10 2 * * *",
                "America/New_York",
                "2024-03-10T05:00:00Z",
                "-14400 clock goes forward: stands for 02:00, 02:10, 02:20, 02:30 and 2 more",
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2024-11-03T04:00:00Z",
                "-14400 clock goes back: first pass",
            ),
            (
                "30 * * * *",
                "America/New_York",
                "2024-11-03T05:30:00Z",
                "-18000 clock goes back: second pass",
            ),
            // Over UTC's midnight.
            (
                "50 23 * * *",
                "America/Sao_Paulo",
                "2018-02-18T00:00:00Z",
                "-7200 clock goes back: first pass",
            ),
            (
                "0 12 * * *",
                "Asia/Shanghai",
                "2024-11-03T04:00:00Z",
                "28800",
            ),
        ] {
            let schedule = Schedule::parse(&ScheduleSpec {
                cron: cron.to_owned(),
                timezone: timezone.to_owned(),
                dialect: Dialect::Vixie,
            })
            .unwrap();
            let after = WallMs::parse_rfc3339(after).unwrap();
            let face = schedule.face(&schedule.next_after(after, after).unwrap());
            let note = face.note.map_or(String::new(), |note| format!(" {note}"));
            assert_eq!(format!("{}{note}", face.offset_seconds), expected, "{cron}");
        }
    }
}
