//! Reading one field: its kind, its limits, and the words for what it is not.
//!
//! Programs disagree on what YAML's plain words and numbers are: `on` is a truth to some, `010` is
//! eight, `1:30` is ninety. Where a reader here meets one of those outside its kind, it refuses and
//! asks for quotes instead of choosing.

use protocol::DurationMs;

use super::problem::{Place, Problems};
use super::yaml::{Key, Node, Value};
use crate::nearest::nearest;
use crate::shown::shown;
use crate::size::{parse_size, show_size};

/// The fields of one mapping.
pub(super) struct Section<'a> {
    /// Path of the mapping, empty for a manifest itself.
    path: &'static str,
    at: Place,
    entries: &'a [(Key, Node)],
}

impl<'a> Section<'a> {
    /// Takes a node as a mapping of known fields; reports the unknown and the repeated.
    pub(super) fn read(
        node: &'a Node,
        path: &'static str,
        known: &[&str],
        problems: &mut Problems,
    ) -> Option<Section<'a>> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Refused => return None,
            _ => {
                let what = format!("is {}, not a mapping of fields", kind(&node.value));
                let remedy = format!("write the fields {}", known.join(", "));
                problems.push(node.at, path, what, remedy);
                return None;
            }
        };
        let section = Section {
            path,
            at: node.at,
            entries,
        };
        for (i, (key, _)) in entries.iter().enumerate() {
            let Some(name) = key.name.as_deref() else {
                continue;
            };
            if !known.contains(&name) {
                let remedy = match nearest(name, known.iter().copied()) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("leave it out; known here are {}", known.join(", ")),
                };
                problems.push(
                    key.at,
                    &section.field(&shown(name)),
                    "is not a field that anything acts on",
                    remedy,
                );
            } else if let Some((first, _)) = entries[..i]
                .iter()
                .find(|(first, _)| first.name == key.name)
            {
                problems.push(
                    key.at,
                    &section.field(name),
                    format!("is written twice, first in line {}", first.at.line),
                    "leave one of the two out",
                );
            }
        }
        Some(section)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Node> {
        let (_, node) = self
            .entries
            .iter()
            .find(|(key, _)| key.name.as_deref() == Some(name))?;
        Some(node)
    }

    /// A field that must be there; `remedy` says what to write and why it is demanded.
    pub(super) fn demand(
        &self,
        name: &str,
        remedy: &str,
        problems: &mut Problems,
    ) -> Option<&'a Node> {
        let node = self.get(name);
        if node.is_none() {
            problems.push(self.at, &self.field(name), "is missing", remedy);
        }
        node
    }

    fn field(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Plain(text) if text.is_empty() => "empty",
        Value::Plain(_) | Value::Quoted(_) => "a single value",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
        Value::Refused => "unreadable",
    }
}

/// Text of any length that is text for every reader of YAML.
pub(super) fn any_text<'a>(
    node: &'a Node,
    field: &str,
    problems: &mut Problems,
) -> Option<&'a str> {
    match &node.value {
        Value::Plain(text) if text.is_empty() => {
            problems.push(
                node.at,
                field,
                "has no value",
                "write one, or `\"\"` for an empty text",
            );
            None
        }
        Value::Plain(text) if is_ambiguous(text) => {
            problems.push(
                node.at,
                field,
                format!("`{}` is not text to every reader of YAML", shown(text)),
                format!("put it in quotes, \"{}\"", shown(text)),
            );
            None
        }
        Value::Plain(text) | Value::Quoted(text) => Some(text),
        Value::Refused => None,
        Value::List(_) | Value::Map(_) => {
            let what = format!("is {}, not a text", kind(&node.value));
            problems.push(
                node.at,
                field,
                what,
                "write a single value, in quotes where it has braces or brackets",
            );
            None
        }
    }
}

/// Text that says something: trimmed, not empty, without control characters, of bounded length.
pub(super) fn text(
    node: &Node,
    field: &str,
    bytes_max: usize,
    problems: &mut Problems,
) -> Option<String> {
    let text = any_text(node, field, problems)?.trim();
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
    } else {
        return Some(text.to_owned());
    };
    problems.push(node.at, field, what, remedy);
    None
}

/// One of a closed set of words.
pub(super) fn word(
    node: &Node,
    field: &str,
    words: &[&'static str],
    problems: &mut Problems,
) -> Option<&'static str> {
    let text = any_text(node, field, problems)?;
    let known = words.iter().find(|&&word| word == text);
    if known.is_none() {
        let remedy = match nearest(text, words.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("write one of {}", words.join(", ")),
        };
        problems.push(
            node.at,
            field,
            format!("`{}` is not known", shown(text)),
            remedy,
        );
    }
    known.copied()
}

/// `true` or `false`, and none of YAML's other words for them.
pub(super) fn truth(node: &Node, field: &str, problems: &mut Problems) -> Option<bool> {
    match &node.value {
        Value::Plain(text) if text == "true" => Some(true),
        Value::Plain(text) if text == "false" => Some(false),
        Value::Refused => None,
        other => {
            let what = match other {
                Value::Plain(text) => format!("`{}` is neither true nor false", shown(text)),
                Value::Quoted(text) => {
                    format!("\"{}\" is text, neither true nor false", shown(text))
                }
                other => format!("is {}, neither true nor false", kind(other)),
            };
            problems.push(
                node.at,
                field,
                what,
                "write `true` or `false`, without quotes",
            );
            None
        }
    }
}

/// A whole number in limits, in plain decimal digits.
pub(super) fn integer(
    node: &Node,
    field: &str,
    low: u32,
    high: u32,
    problems: &mut Problems,
) -> Option<u32> {
    let remedy = format!("write a whole number from {low} to {high}");
    let (what, remedy) = match &node.value {
        Value::Plain(text) => {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if digits && text.len() > 1 && text.starts_with('0') {
                let what = format!("`{}` begins with 0, octal to some readers", shown(text));
                (what, "leave the 0 out".to_owned())
            } else if !digits {
                (format!("`{}` is not a whole number", shown(text)), remedy)
            } else {
                match text.parse().ok().filter(|n| (low..=high).contains(n)) {
                    Some(number) => return Some(number),
                    None => (
                        format!("{} is outside {low} to {high}", shown(text)),
                        remedy,
                    ),
                }
            }
        }
        Value::Quoted(text) => (
            format!("\"{}\" is text, not a number", shown(text)),
            "leave the quotes out".to_owned(),
        ),
        Value::Refused => return None,
        other => (format!("is {}, not a number", kind(other)), remedy),
    };
    problems.push(node.at, field, what, remedy);
    None
}

/// A duration in limits.
pub(super) fn duration(
    node: &Node,
    field: &str,
    low: DurationMs,
    high: DurationMs,
    problems: &mut Problems,
) -> Option<DurationMs> {
    let remedy = format!("write a duration from {low} to {high}");
    let (what, remedy) = match &node.value {
        Value::Plain(text) | Value::Quoted(text) => match crate::parse_duration(text) {
            Ok(duration) if (low..=high).contains(&duration) => return Some(duration),
            Ok(duration) => (format!("{duration} is outside {low} to {high}"), remedy),
            Err(error) => (format!("`{}` {}", error.text, error.reason), error.remedy),
        },
        Value::Refused => return None,
        other => (format!("is {}, not a duration", kind(other)), remedy),
    };
    problems.push(node.at, field, what, remedy);
    None
}

/// A size of memory in limits, in bytes.
pub(super) fn size(
    node: &Node,
    field: &str,
    low: u64,
    high: u64,
    problems: &mut Problems,
) -> Option<u64> {
    let limits = format!("{} to {}", show_size(low), show_size(high));
    let remedy = format!("write a size from {limits}");
    let (what, remedy) = match &node.value {
        Value::Plain(text) | Value::Quoted(text) => match parse_size(text) {
            Ok(bytes) if (low..=high).contains(&bytes) => return Some(bytes),
            Ok(bytes) => (format!("{} is outside {limits}", show_size(bytes)), remedy),
            Err(error) => (format!("`{}` {}", error.text, error.reason), error.remedy),
        },
        Value::Refused => return None,
        other => (format!("is {}, not a size", kind(other)), remedy),
    };
    problems.push(node.at, field, what, remedy);
    None
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
    based || sexagesimal || number.parse::<f64>().is_ok()
}
