//! A crontab, line by line, as cron reads it.
//!
//! The rules are those of Vixie's cron as Debian and cronie have it, tried against Debian's. A line
//! is a setting if it reads as one, and only then a job.

/// A line and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u32,
    /// As it stands, without its end.
    pub(crate) text: String,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Blank,
    /// Without `#` and the blanks about it.
    Comment(String),
    Setting {
        name: String,
        value: String,
    },
    Entry {
        /// Five fields with one blank between, or a macro.
        schedule: String,
        /// Everything behind: the user, where there is one, and the command.
        rest: String,
        /// A `-` stood before the minute.
        quiet: bool,
    },
    Bad {
        why: String,
        remedy: String,
    },
}

/// A crontab whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crontab {
    pub(crate) lines: Vec<Line>,
    /// The last line is not ended.
    pub(crate) is_open: bool,
    /// Lines end in CR and LF.
    pub(crate) has_cr: bool,
    pub(crate) has_bom: bool,
}

/// Never fails: what cannot be read is a line that is bad.
pub(crate) fn parse_crontab(bytes: &[u8]) -> Crontab {
    let mut crontab = Crontab {
        is_open: bytes.last().is_some_and(|&last| last != b'\n'),
        ..Crontab::default()
    };
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => {
            crontab.has_bom = true;
            rest
        }
        None => bytes,
    };
    for (number, line) in (1..).zip(bytes.split_inclusive(|&b| b == b'\n')) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = match line.strip_suffix(b"\r") {
            Some(line) => {
                crontab.has_cr = true;
                line
            }
            None => line,
        };
        let what = parse_line(line);
        crontab.lines.push(Line {
            number,
            text: String::from_utf8_lossy(line).into_owned(),
            what,
        });
    }
    crontab
}

fn parse_line(line: &[u8]) -> What {
    let content = line.trim_ascii_start();
    if content.is_empty() {
        return What::Blank;
    }
    // A comment may be in any encoding.
    if let Some(comment) = content.strip_prefix(b"#") {
        return What::Comment(String::from_utf8_lossy(comment).trim().to_owned());
    }
    let Ok(text) = std::str::from_utf8(content) else {
        return bad(
            "it is not in UTF-8, and Matins would hand other bytes to the program",
            "write the file anew with `iconv -f ISO-8859-1 -t UTF-8`, or whatever it is in",
        );
    };
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
        return bad(
            format!("it has the control character {}", c.escape_unicode()),
            "delete it",
        );
    }
    // `<%= @minute %>` has the form of a setting too.
    let is_template = text.starts_with(['<', '{', '$', '%']);
    if let Some((name, value)) = parse_setting(text).filter(|_| !is_template) {
        return What::Setting { name, value };
    }
    parse_entry(text)
}

/// `NAME=value` by cron's rules: blanks about `=`, quotes about name and value, nothing behind a
/// closing quote, no comment.
fn parse_setting(text: &str) -> Option<(String, String)> {
    let (name, rest) = if let Some(inner) = text.strip_prefix(['"', '\'']) {
        inner.split_once(text.chars().next()?)?
    } else {
        let end = text.find(|c: char| c == '=' || c.is_ascii_whitespace())?;
        text.split_at(end)
    };
    let value = rest.trim_ascii_start().strip_prefix('=')?.trim_ascii();
    if name.is_empty() || name.contains('=') {
        return None;
    }
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (inner, behind) = value[1..].split_once(quote)?;
            if !behind.is_empty() {
                return None;
            }
            inner
        }
        _ => value,
    };
    Some((name.to_owned(), value.to_owned()))
}

fn parse_entry(text: &str) -> What {
    if let Some(placeholder) = unfilled(text) {
        return bad(
            format!("`{placeholder}` is a template's placeholder that nobody filled in"),
            "import the file that the template makes",
        );
    }
    if text.starts_with('@') {
        let (name, rest) = split_word(text);
        return What::Entry {
            schedule: name.to_owned(),
            rest: rest.to_owned(),
            quiet: false,
        };
    }
    let (quiet, fields) = match text.strip_prefix('-') {
        Some(fields) => (true, fields),
        None => (false, text),
    };
    let mut rest = fields;
    let mut schedule: Vec<&str> = Vec::new();
    while schedule.len() < 5 {
        let (field, behind) = split_word(rest);
        if field.is_empty() {
            return bad(
                format!(
                    "it has {} of the five fields that say when",
                    schedule.len().max(1)
                ),
                "write minute, hour, day of month, month, day of week and a command, or delete it",
            );
        }
        schedule.push(field);
        rest = behind;
    }
    What::Entry {
        schedule: schedule.join(" "),
        rest: rest.to_owned(),
        quiet,
    }
}

/// What stands where the time belongs and can be no time: the placeholder of a template.
fn unfilled(text: &str) -> Option<&str> {
    let (first, _) = split_word(text);
    let opens = ["{", "<", "$", "%", "[", "__", "@@"];
    if opens.iter().any(|open| first.starts_with(open)) {
        let ends = |close: &str| text.find(close).map(|at| &text[..at + close.len()]);
        let whole = match first {
            _ if first.starts_with("{{") => ends("}}"),
            _ if first.starts_with("<%") => ends("%>"),
            _ if first.starts_with("{%") => ends("%}"),
            _ => None,
        };
        return Some(whole.unwrap_or(first));
    }
    let head: String = text.split_ascii_whitespace().take(5).collect();
    let inner = head.contains("{{") || head.contains("${") || head.contains("<%");
    inner.then_some(first)
}

/// The first word and what follows it, blanks left out.
pub(crate) fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    match text.find(|c: char| c.is_ascii_whitespace()) {
        Some(end) => (&text[..end], text[end..].trim_ascii_start()),
        None => (text, ""),
    }
}

fn bad(why: impl Into<String>, remedy: impl Into<String>) -> What {
    What::Bad {
        why: why.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> What {
        parse_line(line.as_bytes())
    }

    #[test]
    fn settings_are_read_as_cron_reads_them() {
        for (line, expected) in [
            ("A=b", Some(("A", "b"))),
            ("  A = b c  ", Some(("A", "b c"))),
            ("A=\"b c\"", Some(("A", "b c"))),
            ("A='it is \"b\"'  ", Some(("A", "it is \"b\""))),
            ("\"A B\"=c", Some(("A B", "c"))),
            ("A=b # no comment", Some(("A", "b # no comment"))),
            ("A=", Some(("A", ""))),
            ("MAILTO=\"\"", Some(("MAILTO", ""))),
            ("A=\"b\" c", None),
            ("A b=c", None),
            ("=b", None),
            ("* * * * * A=b run", None),
            ("@daily A=b run", None),
        ] {
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(parse_setting(line.trim_ascii_start()), expected, "{line}");
        }
    }

    #[test]
    fn entries_are_fields_and_the_rest() {
        for (line, schedule, rest) in [
            (
                "*/5 * * * *\troot  run  it ",
                "*/5 * * * *",
                "root  run  it ",
            ),
            (" 1 2\t3  4 5 a", "1 2 3 4 5", "a"),
            ("@daily a b", "@daily", "a b"),
            ("-*/15 * * * * root a", "*/15 * * * *", "root a"),
            ("* * * * *", "* * * * *", ""),
        ] {
            match one(line) {
                What::Entry {
                    schedule: s,
                    rest: r,
                    ..
                } => assert_eq!((s.as_str(), r.as_str()), (schedule, rest), "{line}"),
                what => panic!("{line}: {what:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_line_of_a_crontab() {
        for (line, word) in [
            (&b"oops"[..], "five fields"),
            (b"1 2 3 run", "five fields"),
            (b"{{ cron_schedule }} root run", "{{ cron_schedule }}"),
            (b"<%= @minute %> * * * * run", "<%= @minute %>"),
            (b"${MIN} * * * * run", "${MIN}"),
            (b"0 {{ hour }} * * * run", "placeholder"),
            (b"* * * * * caf\xe9", "UTF-8"),
            (b"* * * * * a\0b", "control character"),
        ] {
            match parse_line(line) {
                What::Bad { why, .. } => assert!(why.contains(word), "{why}"),
                what => panic!("{line:?}: {what:?}"),
            }
        }
        // In a comment anything may stand.
        assert!(matches!(parse_line(b"# caf\xe9 \0"), What::Comment(_)));
    }
}
