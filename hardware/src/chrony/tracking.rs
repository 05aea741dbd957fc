//! `chronyc tracking`: how well the clock is kept.

use std::ops::RangeInclusive;

use super::packet::{Reply, parse_reply};
use super::packets;
use crate::fact::Fact;
use crate::facts::{ClockFacts, ClockVerdict, Facts, Leap};
use crate::lines::{Line, decimal, lines, plain};
use crate::report::{Health, Item, Report};

const NOT_TOLD: &str = "chronyc does not tell";

/// Correction and bound up to which a clock is well, in seconds.
const CORRECTION_OK_S: f64 = 0.05;
const BOUND_OK_S: f64 = 0.1;
/// Beyond this, nothing may be fired by this clock (the clock gate's own limit).
const BOUND_MAX_S: f64 = 1.0;
/// A reference is too old after this many intervals between updates, as AWS ClockBound has it; and never
/// sooner than this, for a source polled every second may miss a few.
const AGE_INTERVALS_MAX: f64 = 8.0;
const AGE_FLOOR_S: f64 = 64.0;
/// How far a clock that is synchronised can be from one that is right of itself.
const STRATA: RangeInclusive<u64> = 1..=15;
/// The local reference, by which chronyd serves its own unsynchronised time.
const LOCAL_REFERENCE: u32 = 0x7f7f_0101;

/// What chronyd knows of its own clock. Nothing of it is sure to be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracking {
    pub reference_id: Option<u32>,
    pub reference: String,
    pub stratum: Option<u64>,
    pub leap: Option<Leap>,
    /// When the reference was last heard, in seconds since 1970.
    pub reference_time_s: Option<f64>,
    /// Seconds that the clock is slow (above 0) or fast.
    pub correction_s: Option<f64>,
    pub root_delay_s: Option<f64>,
    pub root_dispersion_s: Option<f64>,
    pub update_interval_s: Option<f64>,
}

impl Tracking {
    /// By how much the clock can be wrong: |correction| + root delay / 2 + root dispersion. What is told below
    /// zero, which neither of the two can be, makes it no better.
    pub fn bound_s(&self) -> Option<f64> {
        let away_s = self.root_delay_s?.abs() / 2.0 + self.root_dispersion_s?.abs();
        Some(self.correction_s?.abs() + away_s)
    }

    /// Whether it is synchronised. Its age is judged only where it is known what time it is
    /// (`now_s`, seconds since 1970): with a reference that has died, or was heard as far in the future,
    /// it is free-running then.
    pub fn verdict(&self, now_s: Option<f64>) -> Option<ClockVerdict> {
        let no_reference = matches!(self.reference_id, Some(0 | LOCAL_REFERENCE));
        let no_stratum = self
            .stratum
            .is_some_and(|stratum| !STRATA.contains(&stratum));
        if self.leap == Some(Leap::Unsynchronised) || no_reference || no_stratum {
            return Some(ClockVerdict::Unsynchronised);
        }
        // Both must be told before it can be good.
        self.leap?;
        self.reference_id?;
        let age = now_s
            .zip(self.reference_time_s)
            .map(|(now, then)| now - then);
        let allowed = self
            .update_interval_s
            .map(|interval| (AGE_INTERVALS_MAX * interval).max(AGE_FLOOR_S));
        Some(match (age, allowed) {
            (Some(age), Some(allowed)) if age.abs() > allowed => ClockVerdict::FreeRunning,
            _ => ClockVerdict::Synchronised,
        })
    }

    /// Seconds after which a reference that is not heard again is too old.
    fn age_max_s(&self) -> Option<f64> {
        let interval = self.update_interval_s?;
        Some((AGE_INTERVALS_MAX * interval).max(AGE_FLOOR_S))
    }

    /// Reads the fourteen fields of `chronyc -c tracking`.
    pub fn of_comma_separated(line: &str) -> Option<Tracking> {
        comma_separated(line)
    }

    /// The clock as an item, judged at `now_s` where that is known.
    pub fn item(&self, now_s: Option<f64>) -> Item {
        let verdict = self.verdict(now_s);
        let bound = self.bound_s();
        let (health, reason) = judge_clock(verdict, self.correction_s, bound);
        let unknown = || Fact::Unknown(NOT_TOLD.into());
        let facts = ClockFacts {
            verdict: verdict.map_or_else(unknown_verdict, Fact::Known),
            correction_s: self.correction_s.map_or_else(unknown, Fact::Known),
            bound_s: bound.map_or_else(unknown, Fact::Known),
            stratum: self
                .stratum
                .map_or(Fact::Unknown(NOT_TOLD.into()), Fact::Known),
            leap: self
                .leap
                .map_or(Fact::Unknown(NOT_TOLD.into()), Fact::Known),
            reference: if self.reference.is_empty() {
                Fact::Unknown(NOT_TOLD.into())
            } else {
                Fact::Known(self.reference.clone())
            },
        };
        let reason = match (now_s, verdict) {
            (None, Some(ClockVerdict::Synchronised)) => {
                let stale = self.reference_time_s.zip(self.age_max_s());
                let stale = stale.map_or_else(String::new, |(then, age)| {
                    format!(": stale later than {age:.0} s after {then:.0} s of 1970")
                });
                format!("{reason}; how old its reference is was not judged{stale}")
            }
            _ => reason,
        };
        Item {
            id: "chrony".into(),
            health,
            reason,
            facts: Facts::Clock(facts),
        }
    }
}

/// How a clock fares of which so much is told, in seconds, and what that rests on.
pub fn judge_clock(
    verdict: Option<ClockVerdict>,
    correction_s: Option<f64>,
    bound_s: Option<f64>,
) -> (Health, String) {
    match verdict {
        None => {
            return (
                Health::Unknown,
                "leap status and reference are not both told".into(),
            );
        }
        Some(ClockVerdict::Unsynchronised) => {
            return (Health::Failed, "it is not synchronised".into());
        }
        Some(ClockVerdict::FreeRunning) => {
            return (
                Health::Degraded,
                "its reference has not been heard for too long".into(),
            );
        }
        Some(ClockVerdict::Synchronised) => {}
    }
    let (Some(correction), Some(bound)) = (correction_s, bound_s) else {
        return (Health::Unknown, "how far it is off is not told".into());
    };
    let said = format!(
        "{:.6} s to be corrected, wrong by {:.6} s at most",
        correction.abs(),
        bound
    );
    let health = if bound > BOUND_MAX_S {
        Health::Failed
    } else if correction.abs() > CORRECTION_OK_S || bound > BOUND_OK_S {
        Health::Degraded
    } else {
        Health::Ok
    };
    (health, said)
}

fn unknown_verdict() -> Fact<ClockVerdict> {
    Fact::Unknown("leap status and reference are not both told".into())
}

/// Reads `chronyc tracking`, `chronyc -c tracking`, or a reply of the protocol in hexadecimal.
pub fn parse_chrony_tracking(text: &str) -> Report {
    let mut report = Report::default();
    if let Some(packets) = packets(text) {
        for packet in packets {
            match parse_reply(&packet) {
                Ok(Reply::Tracking(tracking)) => report.items.push(tracking.item(None)),
                Ok(_) => report.problem("the packet", "it tells of sources, not of tracking"),
                Err(error) => report.problem("the packet", error.to_string()),
            }
        }
        return report;
    }
    let mut tracking = Tracking::default();
    let mut known = false;
    for line in lines(text) {
        if let Some(read) = comma_separated(line.text) {
            report.items.push(read.item(None));
        } else if let Some((key, value)) = line.pair() {
            // Of another clock, or of this one at another time.
            if key == "reference id" && !tracking.reference.is_empty() {
                report.items.push(std::mem::take(&mut tracking).item(None));
            }
            known |= field(&mut tracking, &key, value, line, &mut report);
        } else {
            report.problem(line.place(), line.text.to_owned());
        }
    }
    if known {
        report.items.push(tracking.item(None));
    } else if report.items.is_empty() && report.problems.is_empty() {
        report.problem(
            "the file",
            "nothing in it is in the form of chronyc tracking",
        );
    }
    report
}

/// Whether the line is one of tracking's.
fn field(
    tracking: &mut Tracking,
    key: &str,
    value: &str,
    line: Line<'_>,
    report: &mut Report,
) -> bool {
    let mut seconds = |slot: &mut Option<f64>| match decimal(value) {
        Some(read)
            if value
                .split_whitespace()
                .nth(1)
                .is_none_or(|unit| unit.starts_with('s')) =>
        {
            *slot = Some(read);
        }
        _ => report.problem(line.place(), format!("{value:?} is no number of seconds")),
    };
    match key {
        "reference id" => {
            let (id, name) = value.split_once('(').unwrap_or((value, ""));
            tracking.reference_id = u32::from_str_radix(id.trim(), 16)
                .ok()
                .or_else(|| id.trim().parse::<std::net::Ipv4Addr>().ok().map(u32::from));
            let name = name.trim_end_matches(')').trim();
            let shown = if name.is_empty() { id.trim() } else { name };
            shown.clone_into(&mut tracking.reference);
            if tracking.reference_id.is_none() {
                report.problem(line.place(), format!("{value:?} is no reference"));
            }
        }
        "stratum" => tracking.stratum = value.parse().ok(),
        "system time" => {
            // `0.000275117 seconds slow of NTP time`
            let sign = match value.split_whitespace().nth(2) {
                Some("slow") => 1.0,
                Some("fast") => -1.0,
                _ => {
                    report.problem(line.place(), format!("{value:?} is neither slow nor fast"));
                    return true;
                }
            };
            seconds(&mut tracking.correction_s);
            tracking.correction_s = tracking.correction_s.map(|correction| correction * sign);
        }
        "root delay" => seconds(&mut tracking.root_delay_s),
        "root dispersion" => seconds(&mut tracking.root_dispersion_s),
        "update interval" => seconds(&mut tracking.update_interval_s),
        "leap status" => {
            tracking.leap = match plain(value).as_str() {
                "normal" => Some(Leap::Normal),
                "insert second" => Some(Leap::Insert),
                "delete second" => Some(Leap::Delete),
                "not synchronised" | "not synchronized" => Some(Leap::Unsynchronised),
                _ => None,
            };
            if tracking.leap.is_none() {
                report.problem(
                    line.place(),
                    format!("{value:?} is no leap status known here"),
                );
            }
        }
        "last offset" | "rms offset" | "frequency" | "residual freq" | "skew" => {}
        _ if key.starts_with("ref time") => tracking.reference_time_s = date(value),
        _ => return false,
    }
    true
}

/// `Tue Jul 09 08:01:06 2019`, in seconds since 1970. The clock of this process is not asked, and neither
/// is a calendar beyond the one that chronyd writes.
fn date(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let text = plain(text);
    let words: Vec<&str> = text.split(' ').collect();
    let [_, month, day, time, year] = words.as_slice() else {
        return None;
    };
    let month = MONTHS.iter().position(|name| name == month)? as i64;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let hours: Vec<i64> = time
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [hour, minute, second] = hours.as_slice() else {
        return None;
    };
    let is_time = (0..24).contains(hour) && (0..60).contains(minute) && (0..=60).contains(second);
    if !is_time || !(1..=31).contains(&day) || !(1900..10_000).contains(&year) {
        return None;
    }
    // Years begin in March, so that the leap day is their last: days before the year, then in it.
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(seconds as f64)
}

/// The fourteen fields of `chronyc -c tracking`.
fn comma_separated(text: &str) -> Option<Tracking> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if fields.len() < 14 {
        return None;
    }
    Some(Tracking {
        reference_id: Some(u32::from_str_radix(fields[0], 16).ok()?),
        reference: if fields[1].is_empty() {
            fields[0]
        } else {
            fields[1]
        }
        .to_owned(),
        stratum: fields[2].parse().ok(),
        leap: match plain(fields[13]).as_str() {
            "normal" => Some(Leap::Normal),
            "insert second" => Some(Leap::Insert),
            "delete second" => Some(Leap::Delete),
            "not synchronised" => Some(Leap::Unsynchronised),
            _ => None,
        },
        reference_time_s: decimal(fields[3]),
        correction_s: decimal(fields[4]),
        root_delay_s: decimal(fields[10]),
        root_dispersion_s: decimal(fields[11]),
        update_interval_s: decimal(fields[12]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: &str = "\
Reference ID    : C0000201 (time.example.net)
Stratum         : 3
Ref time (UTC)  : Tue Jul 09 08:01:06 2019
System time     : 0.000275117 seconds slow of NTP time
Last offset     : -0.000442775 seconds
Root delay      : 0.020000000 seconds
Root dispersion : 0.001000000 seconds
Update interval : 1042.2 seconds
Leap status     : Normal
";

    fn one(text: &str) -> (Health, ClockFacts) {
        let report = parse_chrony_tracking(text);
        let item = report.items.into_iter().next().unwrap();
        let Facts::Clock(facts) = item.facts else {
            panic!()
        };
        (item.health, facts)
    }

    #[test]
    fn nonsense_below_zero_makes_no_clock_well() {
        for (from, to) in [
            ("0.020000000 seconds", "-5.000000000 seconds"),
            ("0.001000000 seconds", "-5.000000000 seconds"),
            (
                "0.000275117 seconds slow",
                "4.000000000 seconds slow of NTP time\nRoot dispersion : -9.0 seconds",
            ),
        ] {
            let (health, facts) = one(&WELL.replace(from, to));
            assert_ne!(health, Health::Ok, "{to}");
            assert!(*facts.bound_s.known().unwrap() > 1.0, "{to}: {facts:?}");
        }
    }

    #[test]
    fn the_clock_is_judged_by_what_is_yet_to_be_corrected() {
        let (health, facts) = one(WELL);
        assert_eq!(health, Health::Ok);
        assert_eq!(facts.verdict, ClockVerdict::Synchronised.into());
        assert!((facts.bound_s.known().unwrap() - 0.011_275_117).abs() < 1e-12);
        for (from, to, expected) in [
            (
                "0.000275117 seconds slow",
                "0.250050008 seconds fast",
                Health::Degraded,
            ),
            (
                "0.000275117 seconds slow",
                "3.5 seconds slow",
                Health::Failed,
            ),
            ("0.000275117 seconds slow", "lost", Health::Unknown),
            ("Normal", "Not synchronised", Health::Failed),
            ("Normal", "Splendid", Health::Unknown),
            ("C0000201 (time.example.net)", "7F7F0101 ()", Health::Failed),
            ("C0000201 (time.example.net)", "00000000 ()", Health::Failed),
        ] {
            assert_eq!(one(&WELL.replace(from, to)).0, expected, "{to}");
        }
    }

    #[test]
    fn clocks_below_each_other_are_several() {
        let bad = WELL.replace("Normal", "Not synchronised");
        let comma = "C0000201,x,3,1562659266.0,0.000275117,0,0,0,0,0,0.02,0.001,1042.2,Normal";
        let report = parse_chrony_tracking(&format!("{bad}{WELL}{comma}\n"));
        let told: Vec<Health> = report.items.iter().map(|item| item.health).collect();
        assert_eq!(told, [Health::Failed, Health::Ok, Health::Ok]);
    }

    #[test]
    fn both_forms_tell_the_same() {
        let comma = "C0000201,time.example.net,3,1562659266.0,0.000275117,-0.000442775,0.0009,2.0,-0.004,0.182,0.02,0.001,1042.2,Normal";
        assert_eq!(one(comma), one(WELL));
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, expected) in [
            ("Tue Jul 09 08:01:06 2019", Some(1_562_659_266.0)),
            ("Thu Jan 01 00:00:00 1970", Some(0.0)),
            ("Thu Feb 29 12:00:00 2024", Some(1_709_208_000.0)),
            ("Tue Jul 99 08:01:06 2019", None),
            ("Tue Jul 09 08:99999999999999999:06 2019", None),
            ("Tue Jul 09 9223372036854775807:01:06 2019", None),
            ("yesterday", None),
        ] {
            assert_eq!(date(text), expected, "{text}");
        }
    }

    #[test]
    fn a_reference_grows_old() {
        let tracking =
            comma_separated("C0000201,x,3,1000.0,0.0,0,0,0,0,0,0.02,0.001,16.0,Normal").unwrap();
        for (now, expected) in [
            (1000.0, ClockVerdict::Synchronised),
            (1127.0, ClockVerdict::Synchronised),
            (1129.0, ClockVerdict::FreeRunning),
        ] {
            assert_eq!(tracking.verdict(Some(now)), Some(expected), "{now}");
        }
    }
}
