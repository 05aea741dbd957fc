//! Reading one value: its kind, its limits, and the words for what it is not.
//!
//! Programs disagree on what YAML's plain words and numbers are: `on` is a truth to some, `010` is
//! eight, `1:30` is ninety. Where a reader here meets one of those outside its kind, it refuses and
//! asks for quotes instead of choosing.

use protocol::{DurationMs, JobName};

use super::elsewhere;
use super::form::Holds;
use super::problem::Problems;
use super::quoting::quoted;
use super::section::{Cell, kind};
use super::yaml::{Style, Value};
use crate::nearest::nearest;
use crate::shown::shown;
use crate::size::{parse_size, show_size};

/// Longest texts, in bytes, of what has limits of its own further on.
const NAME_BYTES_MAX: usize = 1000;
const EXPRESSION_BYTES_MAX: usize = 2000;
pub(super) const USER_BYTES_MAX: usize = 32;

/// What [`user`] takes, as editors may check it.
pub(super) const USER_PATTERN: &str = "^[a-z_][a-z0-9_-]*[$]?$";

/// Text that says something: trimmed, not empty, without control characters, of bounded length.
pub(super) fn text(cell: Cell, problems: &mut Problems) -> Option<String> {
    let bytes_max = match cell.field.holds {
        Holds::Text(bytes_max) => bytes_max,
        Holds::Cron | Holds::Timezone => EXPRESSION_BYTES_MAX,
        _ => NAME_BYTES_MAX,
    };
    let text = any_text(cell, problems)?.trim();
    let (what, remedy) = if text.is_empty() {
        (
            "is empty".to_owned(),
            "write something that helps its reader".to_owned(),
        )
    } else if text.len() > bytes_max {
        (
            format!("has {} bytes", text.len()),
            format!("write at most {bytes_max}"),
        )
    } else if text.chars().any(|c| c.is_control() && c != '\n') {
        (
            format!("`{}` has a control character", shown(text)),
            "leave it out".to_owned(),
        )
    } else if let Some(inner) = typographic(text) {
        (
            format!(
                "`{}` is in typographic quotes, which are text to YAML",
                shown(text)
            ),
            format!("write plain ones, {}", shown(&quoted(inner))),
        )
    } else {
        return Some(text.to_owned());
    };
    cell.refuse(what, remedy, problems);
    None
}

/// Text of any length, exactly as written, that is text for every reader of YAML.
pub(super) fn any_text<'n>(cell: Cell<'n>, problems: &mut Problems) -> Option<&'n str> {
    let (what, remedy) = match &cell.node.value {
        Value::Scalar {
            text,
            style: Style::Plain,
        } if is_ambiguous(text) => (
            format!("`{}` is not text to every reader of YAML", shown(text)),
            format!("put it in quotes, \"{}\"", shown(text)),
        ),
        Value::Scalar { text, .. } => return Some(text),
        Value::Refused => return None,
        other => match as_braces(other) {
            Some(text) => (
                format!("{text} without quotes is a mapping to YAML"),
                format!("put it in quotes, {}", quoted(&text)),
            ),
            None => (
                format!("is {}, not a text", kind(other)),
                "write a single value, in quotes where it has braces or brackets".to_owned(),
            ),
        },
    };
    cell.refuse(what, remedy, problems);
    None
}

pub(super) fn job_name(cell: Cell, problems: &mut Problems) -> Option<JobName> {
    use protocol::names::NameError;
    const PART: &str = "each part has 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit";
    let name = text(cell, problems)?;
    let meant = plausible_name(&name);
    let (what, remedy) = match name.parse() {
        Ok(name) => return Some(name),
        Err(NameError::NoNamespace(name)) => (
            format!("`{}` has no namespace", shown(&name)),
            format!("write it as `namespace/name`, for example `{meant}`"),
        ),
        Err(NameError::TooManyParts(name)) => (
            format!("`{}` has more than one `/`", shown(&name)),
            format!("write it as `namespace/name`, for example `{meant}`"),
        ),
        Err(NameError::Part { part }) => (
            format!("`{}` is not a valid part of a name", shown(&part)),
            format!("write for example `{meant}`: {PART}"),
        ),
        Err(_) => (
            format!("`{}` is not a job's name", shown(&name)),
            format!("write for example `{meant}`: {PART}"),
        ),
    };
    cell.refuse(what, remedy, problems);
    None
}

/// One of the words that the form has for the field.
pub(super) fn word(cell: Cell, problems: &mut Problems) -> Option<&'static str> {
    let Holds::Word(words) = cell.field.holds else {
        cell.field.misread("a word")
    };
    let text = match &cell.node.value {
        Value::Scalar { text, .. } => text.as_str(),
        _ => any_text(cell, problems)?,
    };
    let find = |text: &str| words.iter().find(|(word, _)| *word == text);
    if let Some((known, _)) = find(text) {
        return Some(known);
    }
    let meant = |(word, meaning): &(&str, &str)| format!("`{word}` ({meaning})");
    let ours = elsewhere::our_word(cell.field.name, text).and_then(find);
    let nearest = nearest(text, words.iter().map(|&(word, _)| word));
    let remedy = match (ours, nearest) {
        (Some(ours), _) => format!("here that is {}", meant(ours)),
        (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
        (None, None) => {
            let all: Vec<String> = words.iter().map(meant).collect();
            format!("write {}", all.join(", "))
        }
    };
    cell.refuse(format!("`{}` is not known", shown(text)), remedy, problems);
    None
}

/// `true` or `false`, and none of YAML's other words for them.
pub(super) fn truth(cell: Cell, problems: &mut Problems) -> Option<bool> {
    let what = match &cell.node.value {
        Value::Scalar { text, style } => match (text.as_str(), style) {
            ("true", Style::Plain) => return Some(true),
            ("false", Style::Plain) => return Some(false),
            (text, Style::Plain | Style::PlainLines) => {
                format!("`{}` is neither true nor false", shown(text))
            }
            (text, _) => format!("\"{}\" is text, neither true nor false", shown(text)),
        },
        Value::Refused => return None,
        other => format!("is {}, neither true nor false", kind(other)),
    };
    cell.refuse(what, "write `true` or `false`, without quotes", problems);
    None
}

/// A whole number in limits, in plain decimal digits.
pub(super) fn integer(cell: Cell, problems: &mut Problems) -> Option<u32> {
    let (Holds::Integer(low, high) | Holds::IntegerOr(low, high, _) | Holds::Units(_, low, high)) =
        cell.field.holds
    else {
        cell.field.misread("a number")
    };
    let limits = format!("write a whole number from {low} to {high}");
    let (what, remedy) = match &cell.node.value {
        Value::Scalar {
            text,
            style: Style::Plain | Style::PlainLines,
        } => match whole_number(text) {
            Ok(number) if (low..=high).contains(&number) => return Some(number),
            Ok(_) => (
                format!("{} is outside {low} to {high}", shown(text)),
                limits,
            ),
            Err((what, remedy)) => (what, remedy.unwrap_or(limits)),
        },
        Value::Scalar { text, .. } => (
            format!("\"{}\" is text, not a number", shown(text)),
            match whole_number(text) {
                Ok(_) => "leave the quotes out".to_owned(),
                Err(_) => limits,
            },
        ),
        Value::Refused => return None,
        other => (format!("is {}, not a number", kind(other)), limits),
    };
    cell.refuse(what, remedy, problems);
    None
}

/// A duration in limits.
pub(super) fn duration(cell: Cell, problems: &mut Problems) -> Option<DurationMs> {
    let (Holds::Duration(low, high) | Holds::Durations(_, low, high)) = cell.field.holds else {
        cell.field.misread("a duration")
    };
    let remedy = format!("write a duration from {low} to {high}");
    let (what, remedy) = match &cell.node.value {
        Value::Scalar { text, .. } => match crate::parse_duration(text) {
            Ok(duration) if (low..=high).contains(&duration) => return Some(duration),
            Ok(duration) => (format!("{duration} is outside {low} to {high}"), remedy),
            Err(error) => (format!("`{}` {}", error.text, error.reason), error.remedy),
        },
        Value::Refused => return None,
        other => (format!("is {}, not a duration", kind(other)), remedy),
    };
    cell.refuse(what, remedy, problems);
    None
}

/// A list of durations.
pub(super) fn durations(cell: Cell, problems: &mut Problems) -> Option<Vec<DurationMs>> {
    let Holds::Durations(at_most, ..) = cell.field.holds else {
        cell.field.misread("durations")
    };
    let Some(items) = cell
        .items()
        .filter(|items| (1..=at_most).contains(&items.len()))
    else {
        cell.refuse(
            format!("is not a list of 1 to {at_most} durations"),
            format!(
                "write for example `{}: [1m, 5m, 30m]`; the last is repeated",
                cell.field.name
            ),
            problems,
        );
        return None;
    };
    let steps: Vec<Option<DurationMs>> = items.map(|item| duration(item, problems)).collect();
    steps.into_iter().collect()
}

/// A size of memory in limits, in bytes.
pub(super) fn size(cell: Cell, problems: &mut Problems) -> Option<u64> {
    let Holds::Size(low, high) = cell.field.holds else {
        cell.field.misread("a size")
    };
    let limits = format!("{} to {}", show_size(low), show_size(high));
    let remedy = format!("write a size from {limits}");
    let (what, remedy) = match &cell.node.value {
        Value::Scalar { text, .. } => match parse_size(text) {
            Ok(bytes) if (low..=high).contains(&bytes) => return Some(bytes),
            Ok(bytes) => (format!("{} is outside {limits}", show_size(bytes)), remedy),
            Err(error) => (format!("`{}` {}", error.text, error.reason), error.remedy),
        },
        Value::Refused => return None,
        other => (format!("is {}, not a size", kind(other)), remedy),
    };
    cell.refuse(what, remedy, problems);
    None
}

/// A user's name as Linux distributions allow it.
pub(super) fn user(cell: Cell, problems: &mut Problems) -> Option<String> {
    const REMEDY: &str = "write the name, not the number, of a user of the hosts: a-z, 0-9, `_` and `-`, beginning with a letter or `_`";
    let Value::Scalar { text: name, .. } = &cell.node.value else {
        let what = format!("is {}, not the name of a user", kind(&cell.node.value));
        cell.refuse(what, REMEDY, problems);
        return None;
    };
    let plain = name.strip_suffix('$').unwrap_or(name);
    let starts = plain.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let goes_on = plain
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if !(starts && goes_on && name.len() <= USER_BYTES_MAX) {
        let what = format!("`{}` is not the name of a user", shown(name));
        cell.refuse(what, REMEDY, problems);
        return None;
    }
    any_text(cell, problems).map(ToOwned::to_owned)
}

/// Plain decimal digits, or what is wrong with them and what to write, where that is certain.
fn whole_number(text: &str) -> Result<u32, (String, Option<String>)> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let bare = text.trim_start_matches('0');
    if is_digits(text) && text != "0" && text.starts_with('0') {
        let remedy = match bare {
            "" => "write 0".to_owned(),
            bare => format!("leave the 0 out: {}", shown(bare)),
        };
        let what = format!("`{}` begins with 0, octal to some readers", shown(text));
        return Err((what, Some(remedy)));
    }
    if is_digits(text) {
        // What is too large for the type is too large for every field.
        return Ok(text.parse().unwrap_or(u32::MAX));
    }
    let joined: String = text.chars().filter(|&c| !matches!(c, '_' | ',')).collect();
    let whole = joined
        .trim_start_matches('+')
        .trim_end_matches('0')
        .strip_suffix('.')
        .map_or(joined.trim_start_matches('+'), |whole| whole);
    let remedy = is_digits(whole).then(|| format!("write {}", shown(whole)));
    Err((format!("`{}` is not a whole number", shown(text)), remedy))
}

/// A valid name that is near to what somebody wrote.
fn plausible_name(written: &str) -> String {
    let part = |text: &str, default: &str| {
        let mut plain: String = text
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '-' | '_' | '.') => c,
                _ => '-',
            })
            .collect();
        plain.truncate(protocol::names::NAME_PART_BYTES_MAX);
        let plain = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if plain.is_empty() { default } else { plain }.to_owned()
    };
    match written.split_once('/') {
        Some((namespace, name)) => {
            format!("{}/{}", part(namespace, "finance"), part(name, "report"))
        }
        None => format!("finance/{}", part(written, "report")),
    }
}

/// What is between typographic quotes.
fn typographic(text: &str) -> Option<&str> {
    const QUOTES: [char; 8] = ['“', '”', '„', '‟', '‘', '’', '«', '»'];
    let inner = text.strip_prefix(QUOTES)?;
    Some(inner.strip_suffix(QUOTES).unwrap_or(inner))
}

/// `{fire_date}`, where that is how a value was written that YAML took for a mapping.
fn as_braces(value: &Value) -> Option<String> {
    let Value::Map(entries) = value else {
        return None;
    };
    match entries.as_slice() {
        [(key, node)] if node.is_blank() => {
            let text = format!("{{{}}}", key.name.as_deref()?);
            super::quoting::placeholder_len(&text).map(|_| text)
        }
        _ => None,
    }
}

/// Whether some reader of YAML, 1.1 or 1.2, takes a plain word for something other than text.
fn is_ambiguous(plain: &str) -> bool {
    const WORDS: [&str; 12] = [
        "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan",
    ];
    let lower = plain.to_ascii_lowercase();
    let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(&lower);
    if WORDS.contains(&unsigned) {
        return true;
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let number = unsigned.replace('_', "");
    let based = ["0x", "0o", "0b"].iter().any(|base| {
        number.strip_prefix(base).is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit())
        })
    });
    let sexagesimal = number.contains(':')
        && number
            .split([':', '.'])
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    based || sexagesimal || is_date(unsigned) || number.parse::<f64>().is_ok()
}

/// `2026-11-29`, a point in time to readers of YAML 1.1.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &str, most| {
        (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    matches!(parts[..], [year, month, day] if year.len() == 4 && digits(year, 4) && digits(month, 2) && digits(day, 2))
}
