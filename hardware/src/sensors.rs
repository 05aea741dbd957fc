//! Sensors: `ipmitool sdr`, `sdr elist`, `sensor`, and `sensors` of lm-sensors as text or JSON.
//!
//! "ns" means that there was no reading, and says nothing of what is measured. A state may be "ok" while
//! the reading names a fault ("Presence detected, Power Supply AC lost"): both are judged.

use crate::facts::{Facts, SensorFacts};
use crate::json::{self, Json, is_json};
use crate::judgement::{Judgement, Words};
use crate::lines::{Line, decimal, lines, plain};
use crate::report::{Health, Item, Report};
use crate::tables::is_rule;

const STATES: Words = &[
    ("ok", Health::Ok),
    ("ns", Health::Unknown),
    ("na", Health::Unknown),
    ("us", Health::Unknown),
    ("nc", Health::Degraded),
    ("lnc", Health::Degraded),
    ("unc", Health::Degraded),
    ("cr", Health::Failed),
    ("lcr", Health::Failed),
    ("ucr", Health::Failed),
    ("nr", Health::Failed),
    ("lnr", Health::Failed),
    ("unr", Health::Failed),
];

/// What readings say that are no numbers.
const READINGS: Words = &[
    ("presence detected", Health::Ok),
    ("fully redundant", Health::Ok),
    ("redundancy fully", Health::Ok),
    ("connected", Health::Ok),
    ("present", Health::Ok),
    ("device present", Health::Ok),
    ("device enabled", Health::Ok),
    ("drive present", Health::Ok),
    ("transition to ok", Health::Ok),
    ("transition to running", Health::Ok),
    ("state deasserted", Health::Ok),
    ("predictive failure deasserted", Health::Ok),
    ("limit not exceeded", Health::Ok),
    ("performance met", Health::Ok),
    ("enabled", Health::Ok),
    ("s0/g0: working", Health::Ok),
    ("processor presence detected", Health::Ok),
    ("slot / connector device installed/attached", Health::Ok),
    ("power on", Health::Ok),
    ("presence detected, ac", Health::Ok),
    ("no reading", Health::Unknown),
    ("not readable", Health::Unknown),
    ("disabled", Health::Unknown),
    ("device absent", Health::Unknown),
    ("absent", Health::Unknown),
    ("event-only", Health::Unknown),
    ("redundancy lost", Health::Degraded),
    ("redundancy degraded", Health::Degraded),
    ("non-redundant: sufficient from redundant", Health::Degraded),
    ("non-redundant: insufficient resources", Health::Failed),
    ("predictive failure", Health::Degraded),
    ("failure detected", Health::Failed),
    ("power supply ac lost", Health::Failed),
    ("ac lost or out-of-range", Health::Failed),
    ("ac out-of-range, but present", Health::Failed),
    ("config error", Health::Failed),
    ("config error: vendor mismatch", Health::Failed),
    ("config error: revision mismatch", Health::Failed),
    ("config error: processor missing", Health::Failed),
    ("config error: power supply rating mismatch", Health::Failed),
    ("config error: voltage rating mismatch", Health::Failed),
    ("power supply inactive", Health::Degraded),
    ("drive fault", Health::Failed),
    ("in critical array", Health::Degraded),
    ("in failed array", Health::Failed),
    ("rebuild in progress", Health::Rebuilding),
    ("uncorrectable ecc", Health::Failed),
    ("correctable ecc", Health::Degraded),
    ("correctable ecc logging limit reached", Health::Degraded),
    ("general chassis intrusion", Health::Degraded),
    ("state asserted", Health::Degraded),
    ("limit exceeded", Health::Degraded),
    ("ierr", Health::Failed),
    ("thermal trip", Health::Failed),
    ("disconnected", Health::Degraded),
];

/// Reads what ipmitool or lm-sensors print.
pub fn parse_sensors(text: &str) -> Report {
    if is_json(text) {
        return of_json(text);
    }
    // Rows of one tool and lines of the other may stand in one file, each at its place.
    let only = |with_cells: bool| -> String {
        let kept = text.split('\n').map(|line| {
            if line.contains('|') == with_cells {
                line
            } else {
                ""
            }
        });
        kept.collect::<Vec<_>>().join("\n")
    };
    let (rows, rest) = (only(true), only(false));
    if rows.trim().is_empty() {
        return of_lm_sensors(text);
    }
    let mut report = of_ipmitool(&rows);
    if lines(&rest).any(|line| !is_rule(line)) {
        report.append(of_lm_sensors(&rest));
    }
    report
}

fn item(id: &str, facts: SensorFacts, judgement: Judgement) -> Item {
    judgement.item(id.to_owned(), Facts::Sensor(facts))
}

fn of_ipmitool(text: &str) -> Report {
    let mut report = Report::default();
    let cells_of = |line: Line<'_>| line.text.split('|').count();
    let most = lines(text).map(cells_of).max().unwrap_or(0);
    for line in lines(text) {
        if is_rule(line) {
            continue;
        }
        let cells: Vec<&str> = line.text.split('|').map(str::trim).collect();
        // A row that is shorter than others was cut, and so was one that ends behind a sensor's number.
        if cells.len() < most || cells.len() == 3 && is_sensor_number(cells[1]) {
            report.problem(line.place(), format!("{:?} is no whole row", line.text));
            continue;
        }
        let (name, state, reading, unit) = match cells.as_slice() {
            // sdr: name, reading, state; sdr elist: name, number, state, entity, reading.
            [name, reading, state] | [name, _, state, _, reading] => {
                (*name, *state, *reading, None)
            }
            // sensor: name, value, unit, state, thresholds.
            [name, reading, unit, state, ..] if cells.len() >= 9 => {
                (*name, *state, *reading, Some(*unit))
            }
            _ => {
                report.problem(
                    line.place(),
                    format!("{:?} is no row of ipmitool", line.text),
                );
                continue;
            }
        };
        let mut judgement = Judgement::default();
        let mut facts = SensorFacts::unknown("it has no reading");
        facts.state = state.to_owned().into();
        // `sensor` writes the bits of a discrete sensor where the others write a state.
        if unit == Some("discrete") {
            judgement.note(format!("bits {state}, which mean what its maker says"));
            judgement.say(
                Health::Unknown,
                "a discrete sensor, of which only bits are told",
            );
        } else {
            judgement.word("state", state, STATES);
        }
        read_reading(reading, unit, &mut facts, &mut judgement);
        report.items.push(item(name, facts, judgement));
    }
    report
}

/// `03h`
fn is_sensor_number(cell: &str) -> bool {
    let digits = cell.strip_suffix('h').unwrap_or("");
    digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok()
}

/// `110 Watts, Presence detected`, `0x00`, `5040 RPM`, `No Reading`.
fn read_reading(
    reading: &str,
    unit: Option<&str>,
    facts: &mut SensorFacts,
    judgement: &mut Judgement,
) {
    // One word with a comma in it.
    let parts: Vec<&str> = match crate::judgement::meaning(reading, READINGS) {
        Some(_) => vec![reading],
        None => reading.split(',').collect(),
    };
    for part in parts.into_iter().map(str::trim) {
        if part.is_empty() {
            // Nothing is read of some sensors; behind a comma, something was.
            if !reading.is_empty() {
                judgement.say(Health::Unknown, format!("{reading:?} ends early"));
            }
            continue;
        }
        let is_bits = part
            .strip_prefix("0x")
            .is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok());
        if is_bits || matches!(plain(part).as_str(), "na" | "n/a" | "disabled") {
            continue;
        }
        match decimal(part) {
            Some(value) => {
                facts.value = value.into();
                let said = part.split_once(' ').map(|(_, unit)| unit.trim());
                facts.unit.learn(unit.or(said).map(str::to_owned));
            }
            None => judgement.word("reading", part, READINGS),
        }
    }
}

fn of_json(text: &str) -> Report {
    let mut report = Report::default();
    let (documents, around) = json::read(text, &mut report);
    for text in around
        .iter()
        .filter(|text| text.contains('|') || text.contains("Adapter:"))
    {
        report.items.extend(parse_sensors(text).items);
    }
    for document in documents {
        for (chip, features) in document.entries() {
            for (feature, readings) in features.entries() {
                if matches!(readings, Json::Object(_)) {
                    report
                        .items
                        .push(of_feature(&format!("{chip}/{feature}"), readings));
                }
            }
        }
    }
    report
}

/// `temp1_input`, `temp1_max`, `temp1_crit_alarm`, ... of one feature.
fn of_feature(id: &str, readings: &Json) -> Item {
    let mut facts = SensorFacts::unknown("it has no reading");
    let mut judgement = Judgement::default();
    let ending = |end: &str| {
        let found = readings
            .entries()
            .iter()
            .find(|(name, _)| name.ends_with(end));
        found.and_then(|(_, value)| value.decimal())
    };
    let value = ending("_input");
    facts.value.learn(value);
    let kind = readings.entries().first().map(|(name, _)| name.as_str());
    facts.unit.learn(kind.and_then(unit_of).map(str::to_owned));
    for (name, value) in readings.entries() {
        let set = value.decimal().is_some_and(|value| value != 0.0);
        if name.ends_with("_fault") && set {
            judgement.say(
                Health::Unknown,
                format!("{name}: the sensor itself is broken"),
            );
        } else if name.ends_with("_alarm") && set {
            judgement.say(Health::Degraded, name.clone());
        }
    }
    let limits = Limits {
        low: ending("_min"),
        high: ending("_max"),
        critical: ending("_crit"),
    };
    limits.judge(value, &mut judgement);
    item(id, facts, judgement)
}

fn unit_of(name: &str) -> Option<&'static str> {
    let kinds = [
        ("temp", "degrees C"),
        ("fan", "RPM"),
        ("in", "Volts"),
        ("power", "Watts"),
        ("curr", "Amps"),
    ];
    kinds
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, unit)| *unit)
}

/// What a reading is held against. Without any, nobody can say whether it is good.
struct Limits {
    low: Option<f64>,
    high: Option<f64>,
    critical: Option<f64>,
}

impl Limits {
    fn judge(&self, value: Option<f64>, judgement: &mut Judgement) {
        let Some(value) = value else {
            judgement.require(false, "its reading");
            return;
        };
        // Limits of 0 and below are ones that nobody set.
        let set = |limit: Option<f64>| limit.filter(|limit| *limit > 0.0);
        let (low, high, critical) = (set(self.low), set(self.high), set(self.critical));
        if critical.is_some_and(|limit| value >= limit) {
            judgement.say(
                Health::Failed,
                format!("{value} is beyond its critical limit"),
            );
        } else if high.is_some_and(|limit| value >= limit) {
            judgement.say(
                Health::Degraded,
                format!("{value} is beyond its high limit"),
            );
        } else if low.is_some_and(|limit| value < limit) {
            judgement.say(Health::Degraded, format!("{value} is below its low limit"));
        } else if low.or(high).or(critical).is_some() {
            judgement.say(Health::Ok, format!("{value}, within its limits"));
        } else {
            judgement.say(
                Health::Unknown,
                format!("{value}, and no limit to judge it by"),
            );
        }
    }
}

fn of_lm_sensors(text: &str) -> Report {
    let mut report = Report::default();
    let mut chip = String::new();
    // Limits may go on in lines of their own, and only all of them judge a reading.
    let mut open: Option<String> = None;
    let close = |open: &mut Option<String>, chip: &str, report: &mut Report| {
        report
            .items
            .extend(open.take().map(|text| of_line(chip, &text)));
    };
    for line in lines(text) {
        if let (true, Some(text)) = (line.text.starts_with('('), &mut open) {
            text.push(' ');
            text.push_str(line.text);
            continue;
        }
        close(&mut open, &chip, &mut report);
        match line.pair() {
            Some((key, _)) if key == "adapter" => {}
            Some((_, value)) if is_reading(value) => open = Some(line.text.to_owned()),
            None if line.text.contains('-') && !line.text.contains(char::is_whitespace) => {
                line.text.clone_into(&mut chip);
            }
            None if is_rule(line) => {}
            Some(_) | None => report.problem(line.place(), format!("{:?} is no sensor", line.text)),
        }
    }
    close(&mut open, &chip, &mut report);
    if report.items.is_empty() && report.problems.is_empty() {
        report.problem("the file", "there is no sensor in it");
    }
    report
}

/// A number, or one of the words that stand in its place.
fn is_reading(value: &str) -> bool {
    let word = plain(value.split('(').next().unwrap_or(""));
    decimal(value).is_some()
        || matches!(
            word.as_str(),
            "n/a" | "ok" | "fault" | "alarm" | "enabled" | "disabled"
        )
}

/// `Package id 0:  +45.0°C  (high = +80.0°C, crit = +100.0°C)  ALARM`
fn of_line(chip: &str, text: &str) -> Item {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut facts = SensorFacts::unknown("it has no reading");
    let mut judgement = Judgement::default();
    let (reading, limits) = rest.split_once('(').unwrap_or((rest, ""));
    let value = decimal(reading);
    facts.value.learn(value);
    let unit = reading
        .trim()
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | ','));
    let unit = unit.split_whitespace().next();
    facts.unit.learn(unit.map(|unit| match unit {
        "°C" | "C" => "degrees C".to_owned(),
        other => other.to_owned(),
    }));
    let limit = |name: &str| {
        let (_, rest) = limits.split_once(name)?;
        decimal(rest.trim_start_matches([' ', '=']))
    };
    let said = plain(rest);
    if said.contains("fault") {
        judgement.say(Health::Unknown, "the sensor itself is broken");
    }
    if said.contains("alarm") {
        judgement.say(Health::Degraded, "ALARM");
    }
    let limits = Limits {
        low: limit("min").or_else(|| limit("low")),
        high: limit("high").or_else(|| limit("max")),
        critical: limit("crit").or_else(|| limit("emerg")),
    };
    limits.judge(value, &mut judgement);
    let id = if chip.is_empty() {
        name.to_owned()
    } else {
        format!("{chip}/{name}")
    };
    item(&id, facts, judgement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sensor_is_a_problem() {
        let report =
            parse_sensors("Could not open device at /dev/ipmi0: No such file or directory\n");
        assert!(report.items.is_empty() && report.problems.len() == 1);
    }

    #[test]
    fn state_and_reading_are_both_judged() {
        for (line, expected) in [
            ("Power Supply 1   | 0x00              | ok", Health::Ok),
            ("DASD Backplane 3 | Not Readable      | ns", Health::Unknown),
            (
                "SEL              | 72h | ns  |  7.1 | No Reading",
                Health::Unknown,
            ),
            ("PS1 | C8h | ok  | 10.1 | Presence detected", Health::Ok),
            (
                "PS2 | C9h | ok  | 10.2 | Presence detected, Power Supply AC lost",
                Health::Failed,
            ),
            (
                "PS2 | C9h | ok  | 10.2 | Presence detected, Something new",
                Health::Unknown,
            ),
            ("Fan1 | 30h | cr |  7.1 | 0 RPM", Health::Failed),
            (
                "Fan1 | 3600.000 | RPM | ok | na | 400.0 | 600.0 | na | na | na",
                Health::Ok,
            ),
            (
                "Fan1 | 3600.000 | RPM | splendid | na | 400.0 | 600.0 | na | na | na",
                Health::Unknown,
            ),
            (
                "Core 0:       +45.0°C  (high = +80.0°C, crit = +100.0°C)",
                Health::Ok,
            ),
            (
                "Core 0:       +85.0°C  (high = +80.0°C, crit = +100.0°C)",
                Health::Degraded,
            ),
            (
                "fan1:        0 RPM  (min = 600 RPM)  ALARM",
                Health::Degraded,
            ),
            (
                r#"{"c": {"Adapter": "x", "t": {"temp1_input": 45.0, "temp1_max": 80.0}}}"#,
                Health::Ok,
            ),
            (
                r#"{"c": {"t": {"temp1_input": 45.0, "temp1_alarm": 1.0}}}"#,
                Health::Degraded,
            ),
        ] {
            let report = parse_sensors(line);
            assert_eq!(report.items.len(), 1, "{line}: {report:?}");
            assert_eq!(report.items[0].health, expected, "{line}: {report:?}");
        }
    }
}
