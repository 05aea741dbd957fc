//! What stands between braces in `run.exec`.
//!
//! A closed set, and no shell anywhere: each argument stays one argument whatever it is filled
//! with. Dates are those of the job's zone, taken from the nominal time, so that the run of 23:30
//! is about its own day even where it starts after midnight.

use std::fmt::Write as _;

use chrono::{Days, NaiveDate, NaiveDateTime};

use super::form::PARAM_BYTES_MAX;
use super::params::{Params, is_param_name};
use crate::schedule::local_text;
use crate::shown::shown;

/// Farthest date that `{fire_date-Nd}` reaches, in days.
const FAR_DAYS_MAX: u64 = 3660;

/// Longest text that a placeholder other than a parameter's is replaced with, in bytes: `{job}`, two
/// names of 63 bytes.
const FILLED_BYTES_MAX: usize = 127;

const KNOWN: &str = "`{job}`, `{fire_time}`, `{fire_date}`, `{fire_date-1d}`, `{fire_date+1d}`, `{nominal_time}`, `{shard}`, `{shards}`, `{timezone}`, `{params.NAME}`";

/// What other programs' words for a placeholder are here.
const MEANT: [(&str, &str); 16] = [
    ("date", "fire_date"),
    ("day", "fire_date"),
    ("today", "fire_date"),
    ("ds", "fire_date"),
    ("fire_day", "fire_date"),
    ("run_date", "fire_date"),
    ("execution_date", "fire_date"),
    ("yesterday", "fire_date-1d"),
    ("tomorrow", "fire_date+1d"),
    ("time", "fire_time"),
    ("now", "fire_time"),
    ("timestamp", "fire_time"),
    ("name", "job"),
    ("index", "shard"),
    ("total", "shards"),
    ("tz", "timezone"),
];

/// One argument as written. Its parts are found again whenever they are asked for: a hundred
/// thousand jobs keep arguments, and few of them are about to be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument(Box<str>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Job,
    FireTime,
    FireDate { days: i64 },
    NominalTime,
    Shard,
    Shards,
    Timezone,
    Param(&'a str),
}

/// What the parts are replaced with.
pub(super) struct Filling<'a> {
    pub(super) job: &'a str,
    /// RFC 3339, UTC.
    pub(super) fire_time: &'a str,
    /// Local time in the job's zone, of which the date is taken.
    pub(super) nominal: NaiveDateTime,
    pub(super) shard: u32,
    pub(super) shards: u32,
    pub(super) timezone: &'a str,
    /// The manifest's, and those of this run, which go before.
    pub(super) params: [&'a Params; 2],
}

/// Why an argument is refused: what is wrong and what to write.
pub(super) struct Refusal {
    pub(super) what: String,
    pub(super) remedy: String,
}

impl Argument {
    /// `params` are those of the manifest; `None` where they could not be read.
    pub(super) fn parse(text: &str, params: Option<&Params>) -> Result<Argument, Refusal> {
        let known = |part| match part {
            Part::Param(name) => match params {
                Some(params) if !params.contains_key(name) => Err(unknown_param(name, params)),
                _ => Ok(()),
            },
            _ => Ok(()),
        };
        Part::all_of(text, params).try_for_each(|part| part.and_then(known))?;
        Ok(Argument(text.into()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        // Parameters are of use to a refusal only.
        Part::all_of(&self.0, None)
            .map(|part| part.ok().expect("an argument is made of good parts only"))
    }

    pub(super) fn fill(&self, with: &Filling) -> String {
        let mut filled = String::with_capacity(self.0.len() + 32);
        for part in self.parts() {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Job => filled.push_str(with.job),
                Part::FireTime => filled.push_str(with.fire_time),
                Part::FireDate { days } => filled.push_str(&shifted(with.nominal.date(), days)),
                Part::NominalTime => filled.push_str(&local_text(with.nominal)),
                Part::Shard => push_number(&mut filled, with.shard),
                Part::Shards => push_number(&mut filled, with.shards),
                Part::Timezone => filled.push_str(with.timezone),
                Part::Param(name) => filled.push_str(param(with.params, name)),
            }
        }
        filled
    }

    /// No filling makes it longer than this, in bytes.
    pub(super) fn filled_bytes_max(&self) -> usize {
        let bytes = |part| match part {
            Part::Text(text) => text.len(),
            // A run by hand may bring a longer value than the manifest's.
            Part::Param(_) => PARAM_BYTES_MAX,
            _ => FILLED_BYTES_MAX,
        };
        self.parts().map(bytes).sum()
    }
}

impl Part<'_> {
    /// The parts of an argument in their order, none of them empty, and the refusal that ends them.
    fn all_of<'a>(
        text: &'a str,
        params: Option<&Params>,
    ) -> impl Iterator<Item = Result<Part<'a>, Refusal>> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let (part, behind) = match rest.find(['{', '}']) {
                None if rest.is_empty() => return None,
                None => (Ok(Part::Text(rest)), ""),
                Some(0) => Part::at_brace(rest, text, params),
                Some(brace) => (Ok(Part::Text(&rest[..brace])), &rest[brace..]),
            };
            rest = behind;
            Some(part)
        })
    }

    /// The part that begins with a brace, and what stands behind it. `whole` is the argument.
    fn at_brace<'a>(
        text: &'a str,
        whole: &str,
        params: Option<&Params>,
    ) -> (Result<Part<'a>, Refusal>, &'a str) {
        if text.starts_with("{{") || text.starts_with("}}") {
            return (Ok(Part::Text(&text[..1])), &text[2..]);
        }
        let refused = |what: &str, remedy: &str| {
            let what = format!("`{}` {what}", shown(whole));
            let remedy = remedy.to_owned();
            (Err(Refusal { what, remedy }), "")
        };
        if text.starts_with('}') {
            return refused("has a `}` without its `{`", "write `}}` for a brace");
        }
        match text.find('}') {
            None => refused("has a `{` without its `}`", "write `{{` for a brace"),
            Some(end) => (Part::parse(&text[1..end], params), &text[end + 1..]),
        }
    }

    fn parse<'a>(name: &'a str, params: Option<&Params>) -> Result<Part<'a>, Refusal> {
        if let Some(param) = name.strip_prefix("params.") {
            return Ok(Part::Param(param));
        }
        Ok(match name {
            "job" => Part::Job,
            "fire_time" => Part::FireTime,
            "fire_date" => Part::FireDate { days: 0 },
            "nominal_time" => Part::NominalTime,
            "shard" => Part::Shard,
            "shards" => Part::Shards,
            "timezone" => Part::Timezone,
            _ => match name.strip_prefix("fire_date") {
                Some(shift) if shift.starts_with(['+', '-']) => Part::FireDate {
                    days: parse_shift(name, shift)?,
                },
                _ => {
                    return Err(Refusal {
                        what: unknown(name),
                        remedy: format!(
                            "{}known are {KNOWN}; for a brace itself write it twice, `{{{{`",
                            nearest_to(name, params)
                        ),
                    });
                }
            },
        })
    }
}

fn unknown(name: &str) -> String {
    format!("there is no placeholder `{{{}}}`", shown(name))
}

/// Says which parameters there are.
fn unknown_param(name: &str, params: &Params) -> Refusal {
    let known: Vec<String> = params
        .keys()
        .map(|known| format!("`{{params.{known}}}`"))
        .collect();
    let remedy = match crate::nearest::nearest(name, params.keys().map(String::as_str)) {
        _ if known.is_empty() => format!(
            "write `params: {{ {}: ... }}` beside `run`, with the value that it has in every run of the schedule",
            if is_param_name(name) { name } else { "region" },
        ),
        Some(nearest) => format!(
            "did you mean `{{params.{nearest}}}`? known are {}",
            known.join(", ")
        ),
        None => format!("known are {}, or write it under `params`", known.join(", ")),
    };
    Refusal {
        what: format!("there is no parameter `{}`", shown(name)),
        remedy,
    }
}

fn param<'a>([own, of_run]: [&'a Params; 2], name: &str) -> &'a str {
    let value = of_run.get(name).or_else(|| own.get(name));
    value.expect("an argument is parsed with the parameters of its manifest")
}

/// `did you mean ...? ` where it can be told; else nothing.
fn nearest_to(name: &str, params: Option<&Params>) -> String {
    const NAMES: [&str; 7] = [
        "fire_date",
        "fire_time",
        "nominal_time",
        "job",
        "shard",
        "shards",
        "timezone",
    ];
    let (word, shift) = match name.find(['+', '-']) {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    let lower = word.trim().to_ascii_lowercase();
    let plain = lower
        .rsplit_once('.')
        .map_or(lower.as_str(), |(_, name)| name);
    if params.is_some_and(|params| params.contains_key(plain)) {
        return format!("did you mean `{{params.{plain}}}`? ");
    }
    let meant = MEANT.iter().find(|(word, _)| *word == lower);
    let Some(meant) = meant
        .map(|&(_, meant)| meant)
        .or_else(|| crate::nearest::nearest(&lower, NAMES))
    else {
        return String::new();
    };
    let with_shift = format!("{meant}{shift}");
    // Dates alone are shifted. Whatever else has a shift is unknown too, and would be looked up for ever.
    let is_shifted =
        meant == "fire_date" && !shift.is_empty() && parse_shift(&with_shift, shift).is_ok();
    let meant = if is_shifted { &with_shift } else { meant };
    let says = match Part::parse(meant, None) {
        Ok(Part::FireDate { days: -1 }) => ", the day before the fire",
        Ok(Part::FireDate { days: 1 }) => ", the day after the fire",
        Ok(Part::FireDate { days: 0 }) => ", the day of the fire",
        Ok(Part::FireTime) => ", the instant of the fire",
        _ => "",
    };
    format!("did you mean `{{{meant}}}`{says}? ")
}

/// Reads `-1d` or `+30d`.
fn parse_shift(name: &str, shift: &str) -> Result<i64, Refusal> {
    let digits = shift[1..].strip_suffix('d').unwrap_or_default();
    let days = digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|&days: &u64| days <= FAR_DAYS_MAX)
        .and_then(|days| i64::try_from(days).ok())
        .ok_or_else(|| Refusal {
            what: unknown(name),
            remedy: format!(
                "write whole days, at most {FAR_DAYS_MAX}, for example {{fire_date-1d}}"
            ),
        })?;
    Ok(if shift.starts_with('-') { -days } else { days })
}

/// The date some days on or back; at the calendar's ends it stays there.
fn shifted(date: NaiveDate, days: i64) -> String {
    let shift = Days::new(days.unsigned_abs());
    let shifted = if days < 0 {
        date.checked_sub_days(shift).unwrap_or(NaiveDate::MIN)
    } else {
        date.checked_add_days(shift).unwrap_or(NaiveDate::MAX)
    };
    shifted.format("%Y-%m-%d").to_string()
}

fn push_number(to: &mut String, number: u32) {
    write!(to, "{number}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_date_and_has_a_shift_is_refused() {
        for (text, meant) in [
            ("{shard+1}", "`{shard}`"),
            ("{job-1d}", "`{job}`"),
            ("{date-1d}", "`{fire_date-1d}`"),
            ("{date-x}", "`{fire_date}`"),
        ] {
            let refusal = Argument::parse(text, None).err();
            let remedy = refusal.map(|refusal| refusal.remedy).unwrap_or_default();
            assert!(remedy.contains(meant), "{text}: {remedy}");
        }
    }
}
