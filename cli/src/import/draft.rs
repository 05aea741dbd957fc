//! A manifest while it is made from something else, and how it is written down.
//!
//! What is written is read by a person before it is put in force: so it says where it came from,
//! which values nobody chose, and what to decide.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use jobs::Dialect;

use crate::text::{printable, wrap};

use super::names::digest;

/// Hexadecimal digits of the stamp.
const STAMP_DIGITS: usize = 16;

/// How the first line of an imported manifest begins.
const IMPORTED: &str = "# Imported from ";
const STAMP: &str = ". Stamp ";

/// Columns of a comment.
const WIDTH: usize = 100;

/// Room of a value before its remark.
const REMARK_COLUMN: usize = 40;

/// A job as a source describes it. Texts are as they will be read; braces of `exec` are doubled
/// already where they are no placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    /// `namespace/name`.
    pub(crate) name: String,
    /// The program whose file it was, and the file: `crontab sysstat`.
    pub(crate) source: String,
    /// Line of the file.
    pub(crate) line: u32,
    /// What stands there, for the person who compares.
    pub(crate) original: String,
    /// What a person must look at before the job may run, a sentence each.
    pub(crate) decide: Vec<String>,
    pub(crate) purpose: String,
    pub(crate) owner: Said,
    pub(crate) cron: String,
    pub(crate) timezone: Said,
    pub(crate) dialect: Dialect,
    pub(crate) misfire: Said,
    /// Late instants that the source would run, where it is more than the newest.
    pub(crate) catch_up: Option<u32>,
    pub(crate) overlap: Said,
    pub(crate) expected_duration: Said,
    pub(crate) timeout: Said,
    pub(crate) retry: Said,
    pub(crate) limits: Option<Said>,
    pub(crate) exec: Vec<String>,
    pub(crate) exec_remark: String,
    pub(crate) user: Option<String>,
    /// Where there is no user: what that means.
    pub(crate) user_remark: String,
    /// The source had switched it off.
    pub(crate) was_off: bool,
}

/// A value as YAML, and why it is this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) value: String,
    pub(crate) why: String,
}

impl Said {
    pub(crate) fn new(value: impl Into<String>, why: impl Into<String>) -> Said {
        Said {
            value: value.into(),
            why: why.into(),
        }
    }
}

/// A text as one argument of `run.exec`: nothing in it is a placeholder.
pub(crate) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// The words before a program that give it these variables; none where there are none.
pub(crate) fn with_environment<N: Display, V: Display>(variables: &BTreeMap<N, V>) -> Vec<String> {
    if variables.is_empty() {
        return Vec::new();
    }
    let set = variables
        .iter()
        .map(|(name, value)| literal(&format!("{name}={value}")));
    std::iter::once("/usr/bin/env".to_owned())
        .chain(set)
        .collect()
}

/// The longest that a manifest waits or lets run: 31 days.
pub(crate) const SECONDS_MAX: u64 = 31 * 86_400;

/// Retries that a manifest allows.
pub(crate) const RETRIES_MAX: u64 = 5;

/// Beside a duration that nobody said.
const PLACEHOLDER: &str = "nobody said: put your own";

/// A timeout where the source has none: long enough to end no run that used to end by itself.
pub(crate) fn timeout_unsaid() -> Said {
    Said::new("24h", format!("ended after this; {PLACEHOLDER}"))
}

pub(crate) fn expected_duration_unsaid() -> Said {
    Said::new("1h", PLACEHOLDER)
}

/// Where the source knew no users of hosts.
pub(crate) fn user_unsaid() -> String {
    "user of the host that it runs as; without it, the one of the agent".to_owned()
}

impl Draft {
    /// The manifest, its first line with the stamp of all others.
    pub(crate) fn render(&self) -> String {
        let body = self.body();
        let stamp = stamp_of(&body);
        format!(
            "{IMPORTED}{}:{}{STAMP}{stamp}\n{body}",
            printable(&self.source).replace('\n', " "),
            self.line
        )
    }

    fn body(&self) -> String {
        let mut text = String::new();
        comment(
            &mut text,
            "",
            "A new import may overwrite this file until you edit it.",
        );
        for line in self.original.lines() {
            text.push_str("#   ");
            text.push_str(&super::account::cut(&harmless(line), 400));
            text.push('\n');
        }
        if self.was_off {
            comment(&mut text, "", "It was switched off there.");
        }
        if !self.decide.is_empty() {
            text.push_str("#\n# Before `matins resume ");
            text.push_str(&self.name);
            text.push_str("`:\n");
            for decide in &self.decide {
                comment(&mut text, "- ", decide);
            }
        }
        let mut field = |name: &str, value: &str, why: &str| {
            line(&mut text, &format!("{name}: {value}"), why);
        };
        field("name", &self.name, "");
        field("begins", "paused", "fires nothing until `matins resume`");
        field("purpose", &scalar(&self.purpose), "");
        field("owner", &scalar(&self.owner.value), &self.owner.why);
        field(
            "repeatable",
            "{ safe: false }",
            "`true` if a second run does no harm",
        );
        let dialect = if self.dialect.is_default() {
            String::new()
        } else {
            format!(", dialect: {}", self.dialect)
        };
        let schedule = format!(
            "{{ cron: {}, timezone: {}{dialect} }}",
            quoted(&self.cron),
            flow_scalar(&self.timezone.value)
        );
        field("schedule", &schedule, &self.timezone.why);
        field("misfire", &self.misfire.value, &self.misfire.why);
        if let Some(at_most) = self.catch_up {
            field("catch_up", &format!("{{ at_most: {at_most} }}"), "");
        }
        field("overlap", &self.overlap.value, &self.overlap.why);
        let expected = &self.expected_duration;
        field("expected_duration", &expected.value, &expected.why);
        field("timeout", &self.timeout.value, &self.timeout.why);
        field("retry", &self.retry.value, &self.retry.why);
        if let Some(limits) = &self.limits {
            field("limits", &limits.value, &limits.why);
        }
        text.push_str("run:\n");
        line(&mut text, "  exec:", &self.exec_remark);
        for argument in &self.exec {
            text.push_str("    - ");
            text.push_str(&item(argument));
            text.push('\n');
        }
        if let Some(user) = &self.user {
            line(&mut text, &format!("  user: {}", scalar(user)), "");
        } else if !self.user_remark.is_empty() {
            line(&mut text, "  # user:", &self.user_remark);
        }
        text
    }
}

/// What a file says of itself: which source it was imported from, and whether it is as it was
/// written then. `None` where it is no imported manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Imprint {
    /// Program and file, without the line.
    pub(crate) source: String,
    pub(crate) stamp: String,
    pub(crate) is_edited: bool,
}

impl Imprint {
    pub(crate) fn of(text: &str) -> Option<Imprint> {
        let (first, body) = text.split_once('\n')?;
        let (place, stamp) = first.strip_prefix(IMPORTED)?.rsplit_once(STAMP)?;
        let (source, _) = place.rsplit_once(':')?;
        let whole = stamp.len() == STAMP_DIGITS && stamp.bytes().all(|b| b.is_ascii_hexdigit());
        whole.then(|| Imprint {
            source: source.to_owned(),
            stamp: stamp.to_owned(),
            is_edited: stamp_of(body) != stamp,
        })
    }
}

fn stamp_of(body: &str) -> String {
    digest(&[body], STAMP_DIGITS)
}

/// A field and the reason for its value, behind it where there is room, else above.
fn line(text: &mut String, field: &str, why: &str) {
    let indent = &field[..field.len() - field.trim_start().len()];
    if why.is_empty() {
        text.push_str(field);
    } else if field.chars().count() + why.len() + 4 <= WIDTH {
        let pad = REMARK_COLUMN.saturating_sub(field.chars().count()).max(2);
        text.push_str(field);
        text.push_str(&" ".repeat(pad));
        text.push_str("# ");
        text.push_str(&harmless(why));
    } else {
        for part in wrap(&harmless(why), WIDTH - 2) {
            text.push_str(indent);
            text.push_str("# ");
            text.push_str(&part);
            text.push('\n');
        }
        text.push_str(field);
    }
    text.push('\n');
}

fn comment(text: &mut String, bullet: &str, sentence: &str) {
    for (i, part) in wrap(&harmless(sentence), WIDTH - 2 - bullet.len())
        .iter()
        .enumerate()
    {
        let lead = if i == 0 {
            bullet.to_owned()
        } else {
            " ".repeat(bullet.len())
        };
        text.push_str("# ");
        text.push_str(&lead);
        text.push_str(part);
        text.push('\n');
    }
}

/// A text in one line of a comment: nothing in it ends the line or steers a terminal.
fn harmless(text: &str) -> String {
    let ends_lines = |c: char| matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let text = text.replace(ends_lines, " ");
    printable(&text.replace('\t', " "))
}

/// A text as a YAML value of a block mapping: plain where nobody can take it for something else.
fn scalar(text: &str) -> String {
    let plain = !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " -_./@+,".contains(c))
        && !text.ends_with(' ')
        && !is_word_of_yaml(text);
    if plain { text.to_owned() } else { quoted(text) }
}

/// The same inside `{ }` and `[ ]`, where a comma separates.
fn flow_scalar(text: &str) -> String {
    match scalar(text) {
        plain if plain == text && text.contains(',') => quoted(text),
        scalar => scalar,
    }
}

fn is_word_of_yaml(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// An item of `run.exec`: in lines of its own where it has several.
fn item(text: &str) -> String {
    let block = text.contains('\n')
        && !text.ends_with('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| needs_escape(c) && c != '\n');
    if block {
        let mut item = String::from("|-");
        for line in text.split('\n') {
            item.push('\n');
            if !line.is_empty() {
                item.push_str("      ");
                item.push_str(line);
            }
        }
        return item;
    }
    let path = text.starts_with('/')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if path {
        return text.to_owned();
    }
    // In single quotes only a quote itself is written otherwise: easier to read and to copy.
    let busy = text.contains(['\\', '"']) && !text.contains('\'');
    if busy && !text.chars().any(needs_escape) {
        return format!("'{text}'");
    }
    quoted(text)
}

/// What some reader of YAML does not take as it stands.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if needs_escape(c) => {
                write!(quoted, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
