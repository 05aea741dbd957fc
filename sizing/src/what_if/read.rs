//! The file: TOML, every problem at once, each with its line.

use protocol::WallMs;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{At, Change, HOSTS_MAX, Like, Planned, Problem, WhatIf};

const TABLES: &str = "write [[add]], [[lose]] or [[volume]]";

/// Volumes beyond this are a mistake.
const TIMES: std::ops::RangeInclusive<f64> = 0.01..=1_000.0;

type Item<'a> = Spanned<DeValue<'a>>;

pub fn parse_what_if(file: &str, text: &str) -> Result<WhatIf, Vec<Problem>> {
    let mut reading = Reading {
        file,
        text,
        problems: Vec::new(),
    };
    let mut changes = Vec::new();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        let what = format!("is not TOML: {}", error.message());
        reading.note(at, what, "correct the line");
    }
    for (key, item) in table.get_ref() {
        let name = &**key.get_ref();
        if !["add", "lose", "volume"].contains(&name) {
            reading.note(
                key.span().start,
                format!("`{name}` is not a change"),
                TABLES,
            );
            continue;
        }
        let DeValue::Array(items) = item.get_ref() else {
            let what = format!("`{name}` is not a list of changes");
            reading.note(item.span().start, what, &format!("write [[{name}]]"));
            continue;
        };
        for item in items {
            if let Some(change) = reading.change(name, item) {
                let line = reading.line_of(item.span().start);
                changes.push(Planned { line, change });
            }
        }
    }
    let nothing = changes.is_empty() && reading.problems.is_empty();
    if nothing {
        reading.note(0, "it changes nothing".to_owned(), TABLES);
    }
    changes.sort_by_key(|planned| planned.line);
    if reading.problems.is_empty() {
        return Ok(WhatIf { changes });
    }
    reading.problems.sort_by_key(|problem| problem.line);
    Err(reading.problems)
}

struct Reading<'a> {
    file: &'a str,
    text: &'a str,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn line_of(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    fn note(&mut self, at: usize, what: String, remedy: &str) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: self.line_of(at),
            what,
            remedy: remedy.to_owned(),
        });
    }

    fn change(&mut self, kind: &str, item: &Item<'_>) -> Option<Change> {
        let at = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            self.note(
                at,
                format!("`{kind}` has a change that is no table"),
                TABLES,
            );
            return None;
        };
        let fields: &[&str] = match kind {
            "add" => &["hosts", "like", "class"],
            "lose" => &["host", "at"],
            _ => &["job", "times"],
        };
        for key in table.keys() {
            let name = &**key.get_ref();
            if !fields.contains(&name) {
                let known = format!("it has {}", fields.join(", "));
                self.note(
                    key.span().start,
                    format!("`{name}` is not a field of [[{kind}]]"),
                    &known,
                );
            }
        }
        let field = |name: &str| table.iter().find(|(key, _)| &**key.get_ref() == name);
        let field = |name: &str| field(name).map(|(_, item)| item);
        match kind {
            "add" => self.add(at, field("hosts"), field("like"), field("class")),
            "lose" => {
                let example = "write the name of a host, as host = \"io-2\"";
                let host = self.text(at, "host", field("host"), example);
                let example =
                    "write at = \"23:40\" for a time in UTC, or an instant as 2026-11-30T23:40:00Z";
                let when = self.text(at, "at", field("at"), example);
                let host =
                    host.and_then(|(at, text)| self.parsed(at, "host", &text, "a host's name"));
                let when = when.and_then(|(at, text)| {
                    let parsed = parse_at(&text);
                    if parsed.is_none() {
                        self.note(at, format!("at: `{text}` is not a time"), example);
                    }
                    parsed
                });
                Some(Change::Lose {
                    host: host?,
                    at: when?,
                })
            }
            _ => {
                let example = "write the name of a job, as job = \"settlement/reconcile\"";
                let job = self.text(at, "job", field("job"), example);
                let job = job.and_then(|(at, text)| self.parsed(at, "job", &text, "a job's name"));
                let times = self.times(at, field("times"));
                Some(Change::Volume {
                    job: job?,
                    times: times?,
                })
            }
        }
    }

    fn add(
        &mut self,
        at: usize,
        hosts: Option<&Item<'_>>,
        like: Option<&Item<'_>>,
        class: Option<&Item<'_>>,
    ) -> Option<Change> {
        let count = self.number(at, "hosts", hosts, "write how many, as hosts = 3")?;
        let whole = (count.fract() == 0.0 && count >= 1.0 && count <= f64::from(HOSTS_MAX))
            .then_some(count as u32);
        if whole.is_none() {
            let remedy = format!("write a whole number from 1 to {HOSTS_MAX}");
            self.note(at, format!("hosts: {count} is no number of hosts"), &remedy);
        }
        let like = match (like, class) {
            (Some(like), None) => {
                let (at, text) = self.text(at, "like", Some(like), "write a host's name")?;
                Like::Host(self.parsed(at, "like", &text, "a host's name")?)
            }
            (None, Some(class)) => {
                let (at, text) = self.text(at, "class", Some(class), "write a class's name")?;
                Like::Class(self.parsed(at, "class", &text, "a class's name")?)
            }
            _ => {
                let remedy = "write one of like = \"HOST\" and class = \"CLASS\"";
                self.note(
                    at,
                    "[[add]] must say what the hosts are like".to_owned(),
                    remedy,
                );
                return None;
            }
        };
        Some(Change::Add {
            hosts: whole?,
            like,
        })
    }

    fn times(&mut self, at: usize, item: Option<&Item<'_>>) -> Option<f64> {
        let times = self.number(
            at,
            "times",
            item,
            "write how many times as much, as times = 2",
        )?;
        if TIMES.contains(&times) {
            return Some(times);
        }
        let remedy = format!("write a number from {} to {}", TIMES.start(), TIMES.end());
        self.note(at, format!("times: {times} is out of reach"), &remedy);
        None
    }

    fn text(
        &mut self,
        at: usize,
        name: &str,
        item: Option<&Item<'_>>,
        example: &str,
    ) -> Option<(usize, String)> {
        match item.map(|item| (item.span().start, item.get_ref())) {
            Some((at, DeValue::String(text))) => Some((at, text.to_string())),
            Some((at, _)) => {
                self.note(at, format!("{name}: it is no text"), example);
                None
            }
            None => {
                self.note(at, format!("`{name}` is missing"), example);
                None
            }
        }
    }

    fn number(
        &mut self,
        at: usize,
        name: &str,
        item: Option<&Item<'_>>,
        example: &str,
    ) -> Option<f64> {
        let Some(item) = item else {
            self.note(at, format!("`{name}` is missing"), example);
            return None;
        };
        let number = match item.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.note(
                item.span().start,
                format!("{name}: it is no number"),
                example,
            );
        }
        number
    }

    fn parsed<T: std::str::FromStr>(
        &mut self,
        at: usize,
        field: &str,
        text: &str,
        what: &str,
    ) -> Option<T> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.note(
                at,
                format!("{field}: `{text}` is not {what}"),
                "write it as it is listed",
            );
        }
        parsed
    }
}

fn parse_at(text: &str) -> Option<At> {
    if let Ok(instant) = WallMs::parse_rfc3339(text) {
        return Some(At::Instant(instant));
    }
    let (hour, minute) = text.split_once(':')?;
    let part = |text: &str, most: i64| {
        let digits = text.len() == 2 && text.chars().all(|c| c.is_ascii_digit());
        text.parse().ok().filter(|part| digits && *part <= most)
    };
    Some(At::Clock {
        hour: part(hour, 23)?,
        minute: part(minute, 59)?,
    })
}
