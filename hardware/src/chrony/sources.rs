//! `chronyc sources`: whom the clock listens to.

use super::packet::{Reply, SourceData, parse_reply};
use super::packets;
use crate::fact::Fact;
use crate::facts::{Facts, SourceFacts, SourceState};
use crate::lines::{decimal, lines};
use crate::report::{Health, Item, Report};
use crate::tables::is_rule;

const NOT_TOLD: &str = "chronyc does not tell";

/// Reads `chronyc sources`, `chronyc -c sources`, or replies of the protocol in hexadecimal.
pub fn parse_chrony_sources(text: &str) -> Report {
    let mut report = Report::default();
    if let Some(packets) = packets(text) {
        for packet in packets {
            match parse_reply(&packet) {
                Ok(Reply::Source(source)) => report.items.push(of_packet(source)),
                Ok(_) => report.problem("the packet", "it tells of no source"),
                Err(error) => report.problem("the packet", error.to_string()),
            }
        }
        return report;
    }
    let mut known = false;
    for line in lines(text) {
        let said = line.text;
        let is_head =
            said.starts_with("MS ") || said.contains("Number of sources") || is_rule(line);
        // The legend of `sources -v` is drawn with these.
        let is_legend = said.starts_with(['.', '/', '|', '`']) || said.starts_with('\'');
        if is_head || is_legend {
            known = true;
            continue;
        }
        let source = if said.contains(',') {
            comma_separated(said)
        } else {
            columns(said)
        };
        match source {
            Some(item) => report.items.push(item),
            None => report.problem(line.place(), format!("{said:?} is no source")),
        }
    }
    if report.items.is_empty() && report.problems.is_empty() && !known {
        report.problem(
            "the file",
            "nothing in it is in the form of chronyc sources",
        );
    }
    report
}

/// What one source told, before it is judged.
struct Told {
    name: String,
    mode: Option<&'static str>,
    state: Option<SourceState>,
    stratum: Option<u64>,
    reach: Option<u64>,
    age_s: Option<u64>,
    offset_s: Option<f64>,
    error_s: Option<f64>,
}

fn mode_of(letter: char) -> Option<&'static str> {
    match letter {
        '^' => Some("server"),
        '=' => Some("peer"),
        '#' => Some("reference clock"),
        _ => None,
    }
}

fn state_of(letter: char) -> Option<SourceState> {
    match letter {
        '*' => Some(SourceState::Selected),
        '+' => Some(SourceState::Combined),
        '-' => Some(SourceState::Excluded),
        'x' => Some(SourceState::Falseticker),
        '~' => Some(SourceState::Jittery),
        '?' => Some(SourceState::Unselectable),
        _ => None,
    }
}

/// `^* name 2 6 377 23 -923us[ -924us] +/- 43ms`: names may be cut, and columns run together.
fn columns(text: &str) -> Option<Item> {
    let mut letters = text.chars();
    let mode = mode_of(letters.next()?)?;
    let state = letters.next()?;
    let mut words = letters.as_str().split_whitespace();
    let name = words.next()?.to_owned();
    let stratum = words.next().and_then(|word| word.parse().ok());
    let _poll = words.next();
    // Written in octal.
    let reach = words
        .next()
        .and_then(|word| u64::from_str_radix(word, 8).ok());
    let age_s = words.next().and_then(age);
    let rest: Vec<&str> = words.collect();
    let rest = rest.join(" ");
    let (sample, error) = rest.split_once("+/-").unwrap_or((&rest, ""));
    let offset = sample.split('[').next().unwrap_or("");
    Some(
        Told {
            name,
            mode: Some(mode),
            state: state_of(state),
            stratum,
            reach,
            age_s,
            offset_s: duration(offset),
            error_s: duration(error),
        }
        .item(),
    )
}

/// `^,*,name,stratum,poll,reach,last,adjusted,measured,error`
fn comma_separated(text: &str) -> Option<Item> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if fields.len() < 10 {
        return None;
    }
    let letter = |field: &str| field.chars().next();
    let since = fields[6]
        .parse::<u64>()
        .ok()
        .filter(|since| *since != u64::from(u32::MAX));
    Some(
        Told {
            name: fields[2].to_owned(),
            mode: Some(mode_of(letter(fields[0])?)?),
            state: letter(fields[1]).and_then(state_of),
            stratum: fields[3].parse().ok(),
            reach: u64::from_str_radix(fields[5], 8).ok(),
            age_s: since,
            offset_s: decimal(fields[7]),
            error_s: decimal(fields[9]),
        }
        .item(),
    )
}

fn of_packet(source: SourceData) -> Item {
    Told {
        name: source.name,
        mode: Some(source.mode),
        state: Some(source.state),
        stratum: Some(u64::from(source.stratum)),
        reach: Some(u64::from(source.reach)),
        age_s: source.since_sample_s.map(u64::from),
        offset_s: Some(source.offset_s),
        error_s: Some(source.error_s),
    }
    .item()
}

impl Told {
    fn item(self) -> Item {
        let (health, reason) = self.judge();
        let never = self.reach == Some(0) && self.age_s.is_none();
        let why = if never {
            "it has not answered"
        } else {
            NOT_TOLD
        };
        fn fact<T>(value: Option<T>, why: &'static str) -> Fact<T> {
            value.map_or(Fact::Unknown(why.into()), Fact::Known)
        }
        let facts = SourceFacts {
            mode: fact(self.mode.map(str::to_owned), why),
            state: fact(self.state, why),
            stratum: fact(self.stratum, why),
            reachable: fact(self.reach.map(|reach| reach != 0), why),
            offset_s: fact(self.offset_s.filter(|_| !never), why),
            error_s: fact(self.error_s.filter(|_| !never), why),
            age_s: fact(self.age_s, why),
        };
        Item {
            id: self.name,
            health,
            reason,
            facts: Facts::Source(facts),
        }
    }

    fn judge(&self) -> (Health, String) {
        if self.reach == Some(0) {
            return (
                Health::Failed,
                "it did not answer any of the last eight times".into(),
            );
        }
        let (Some(state), Some(_)) = (self.state, self.reach) else {
            return (
                Health::Unknown,
                "its state and reach are not both told".into(),
            );
        };
        match state {
            SourceState::Selected => (Health::Ok, "selected".into()),
            SourceState::Combined => (Health::Ok, "combined with the selected one".into()),
            SourceState::Excluded => (Health::Ok, "good, and not needed".into()),
            SourceState::Falseticker => (Health::Failed, "most others disagree with it".into()),
            SourceState::Jittery => (Health::Degraded, "it varies too much".into()),
            SourceState::Unselectable => {
                (Health::Degraded, "it answers and cannot be selected".into())
            }
        }
    }
}

/// `23`, `5m`, `2h`, `3d`, `4y`, `-` for never.
fn age(word: &str) -> Option<u64> {
    let (digits, unit) = match word.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => word.split_at(at),
        None => (word, "s"),
    };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "y" => 31_536_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(seconds)
}

/// `-923us`, `+3250ms`, `+1.2s`.
fn duration(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let value: f64 = text[..end].trim().parse().ok()?;
    let unit = match text[end..].trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "y" => 31_536_000.0,
        _ => return None,
    };
    Some(value * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_by_their_letters() {
        for (line, expected) in [
            (
                "^* a.example 2 6 377 23 -923us[ -924us] +/- 43ms",
                Health::Ok,
            ),
            (
                "#+ GPS0            0   4   377    11   -479ns[ -621ns]  +/- 134ns",
                Health::Ok,
            ),
            (
                "^x b.example 2 6 377 23 +3250ms[+3250ms] +/- 52us",
                Health::Failed,
            ),
            (
                "^~ b.example 2 6 377 23 +3250ms[+3250ms] +/- 52us",
                Health::Degraded,
            ),
            (
                "^? b.example 2 6 377 23 -923us[ -924us] +/- 43ms",
                Health::Degraded,
            ),
            ("^? 127.0.0.1 0 5 0 - +0ns[ +0ns] +/- 0ns", Health::Failed),
            (
                "^! b.example 2 6 377 23 -923us[ -924us] +/- 43ms",
                Health::Unknown,
            ),
            ("^* b.example 2", Health::Unknown),
            (
                "^,*,b.example,2,6,377,23,-0.000923,-0.000924,0.043",
                Health::Ok,
            ),
            ("^,?,b.example,0,6,0,4294967295,0.0,0.0,0.0", Health::Failed),
        ] {
            let report = parse_chrony_sources(line);
            assert_eq!(report.items[0].health, expected, "{line}");
        }
    }
}
