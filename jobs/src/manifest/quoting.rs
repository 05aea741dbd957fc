//! Values that lack quotes: finding them in a line, and writing them with quotes.
//!
//! What people forget to quote is what YAML reads as something else: `*` of a cron expression is
//! an alias, `@daily` is reserved, `{fire_date}` is a mapping, a colon begins a field. The line is
//! read here as its writer meant it, so that the message can show the very text to write.

use std::ops::Range;

/// No line that a person writes by hand is longer, in bytes; in what a program wrote nobody
/// forgot a quote.
const LINE_BYTES_MAX: usize = 2000;

/// No placeholder that somebody means is longer, in bytes.
const PLACEHOLDER_BYTES_MAX: usize = 64;

/// A value without quotes, or with quotes that end too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loose {
    /// Where it stands in its line, in bytes.
    pub(super) span: Range<usize>,
    /// The field before it in the line.
    pub(super) key: Option<Range<usize>>,
    /// Why YAML does not take it for one value; continues a sentence that begins with it.
    pub(super) why: &'static str,
}

/// The value in double quotes, or in single ones where it holds what double ones would read.
pub(super) fn quoted(value: &str) -> String {
    if value.contains(['"', '\\']) {
        format!("'{}'", value.replace('\'', "''"))
    } else {
        format!("\"{value}\"")
    }
}

/// Whether the text from here is a placeholder, `{fire_date-1d}`: how long it is.
pub(super) fn placeholder_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('{')?;
    let end = inner
        .bytes()
        .take(PLACEHOLDER_BYTES_MAX)
        .position(|b| b == b'}')?;
    let name = &inner[..end];
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-' | b'.'));
    is_name.then_some(end + 2)
}

/// The values of a line that need quotes. `inside` is what brackets are open where the line
/// begins: `[` or `{`, the innermost, if any.
pub(super) fn loose_values(line: &str, inside: Option<char>) -> Vec<Loose> {
    if line.len() > LINE_BYTES_MAX {
        return Vec::new();
    }
    let mut scan = Scan {
        line,
        at: 0,
        found: Vec::new(),
    };
    match inside {
        Some('{') => scan.mapping(),
        Some(_) => scan.list(),
        None => scan.block(),
    }
    scan.found
}

struct Scan<'a> {
    line: &'a str,
    at: usize,
    found: Vec<Loose>,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.line[self.at..]
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// `- - key: value # comment`, outside of brackets.
    fn block(&mut self) {
        self.skip_blanks();
        while self.rest().starts_with("- ") {
            self.at += 2;
            self.skip_blanks();
        }
        let key = self.key();
        if self.rest().starts_with('[') {
            self.at += 1;
            return self.list();
        }
        if self.rest().starts_with('{') && placeholder_len(self.rest()).is_none() {
            self.at += 1;
            return self.mapping();
        }
        let end = self.at + without_comment(self.rest()).len();
        self.value(self.at..end, key, false);
    }

    /// What is between `[` and `]`, up to the end of the line.
    fn list(&mut self) {
        loop {
            self.skip_blanks();
            match self.rest().chars().next() {
                None | Some('#') => return,
                Some(']') => {
                    self.at += 1;
                    return;
                }
                Some(',') => self.at += 1,
                Some(_) => self.item(None, |rest| rest.starts_with([',', ']'])),
            }
        }
    }

    /// What is between `{` and `}`, up to the end of the line.
    fn mapping(&mut self) {
        loop {
            self.skip_blanks();
            match self.rest().chars().next() {
                None | Some('#') => return,
                Some('}') => {
                    self.at += 1;
                    return;
                }
                Some(',') => self.at += 1,
                Some(_) => {
                    let key = self.key();
                    // A comma belongs to the value unless a field follows it.
                    self.item(key, |rest| {
                        rest.starts_with('}')
                            || rest
                                .strip_prefix(',')
                                .is_some_and(|rest| key_len(rest.trim_start()).is_some())
                    });
                }
            }
        }
    }

    /// One value within brackets, up to where `ends` says.
    fn item(&mut self, key: Option<Range<usize>>, ends: impl Fn(&str) -> bool) {
        let rest = self.rest();
        let placeholder = placeholder_len(rest).is_some();
        if rest.starts_with('[') {
            self.at += 1;
            return self.list();
        }
        if rest.starts_with('{') && !placeholder {
            self.at += 1;
            return self.mapping();
        }
        let start = self.at;
        self.at += quote_len(rest).unwrap_or(0);
        while let Some(c) = self.rest().chars().next() {
            if ends(self.rest()) {
                break;
            }
            self.at += placeholder_len(self.rest()).unwrap_or(c.len_utf8());
        }
        let value = self.line[start..self.at].trim_end();
        let value = value.strip_suffix(',').unwrap_or(value);
        let end = start + without_comment(value).len();
        self.value(start..end, key, true);
    }

    /// Steps over `key: `.
    fn key(&mut self) -> Option<Range<usize>> {
        let len = key_len(self.rest())?;
        let key = self.at..self.at + len;
        self.at += len + 1;
        self.skip_blanks();
        Some(key)
    }

    fn value(&mut self, span: Range<usize>, key: Option<Range<usize>>, in_brackets: bool) {
        if let Some(why) = looseness(&self.line[span.clone()], in_brackets) {
            self.found.push(Loose { span, key, why });
        }
    }
}

/// Why a value as written is not one value to YAML.
fn looseness(value: &str, in_brackets: bool) -> Option<&'static str> {
    let first = value.chars().next()?;
    if let Some(len) = quote_len(value) {
        return match value[len..].trim_start().chars().next() {
            // Such a bracket closes another than is open, or a comma is missing.
            None => None,
            Some(']' | '}' | '"' | '\'') if in_brackets => None,
            Some(_) => Some("goes on after its closing quote"),
        };
    }
    Some(match first {
        '"' | '\'' => return None,
        '*' => "begins with `*`, which YAML reads as an alias",
        '&' => "begins with `&`, which YAML reads as an anchor",
        '!' => "begins with `!`, which YAML reads as a tag",
        '@' | '`' => "begins with a character that YAML keeps for itself",
        '%' => "begins with `%`, which YAML keeps for itself",
        '|' | '>' if value.len() > 2 || in_brackets => {
            "begins with a character with which YAML begins a block of lines"
        }
        '{' if !in_brackets || placeholder_len(value).is_some() => {
            "begins with `{`, which YAML reads as a mapping"
        }
        _ if in_brackets && value.contains(['{', '}', '[', ']']) => {
            "holds a brace or bracket, which mean something to YAML within brackets"
        }
        _ if in_brackets && value.contains(',') => "holds a comma, which ends a value in braces",
        _ if value.contains(": ") || value.ends_with(':') => {
            "holds a colon before a blank, which begins a field"
        }
        _ => return None,
    })
}

/// The length of the field's name that stands here before a `:` with a blank or nothing behind.
fn key_len(text: &str) -> Option<usize> {
    let len = text
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
        .filter(|&len| len > 0)?;
    let after = text[len..].strip_prefix(':')?;
    (after.is_empty() || after.starts_with([' ', '\t'])).then_some(len)
}

/// The length of the quoted text that stands here, its quotes included, if it is closed.
fn quote_len(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|&c| c == '"' || c == '\'')?;
    let mut escaped = false;
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote == '"' {
            escaped = true;
        } else if c == quote {
            if quote == '\'' && chars.peek().is_some_and(|&(_, next)| next == '\'') {
                chars.next();
                continue;
            }
            return Some(at + 1);
        }
    }
    None
}

/// The text up to ` #`, without the blanks at its end.
pub(super) fn without_comment(text: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if (c == '"' || c == '\'') && before.is_whitespace() => quote = Some(c),
            None if c == '#' && before.is_whitespace() => return text[..at].trim_end(),
            _ => {}
        }
        before = c;
    }
    text.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_need_quotes_are_found_whole() {
        for (line, inside, expected) in [
            ("cron: * * * * *", None, &["* * * * *"][..]),
            ("  cron: */5 * * * *   # often", None, &["*/5 * * * *"]),
            ("cron: @daily", None, &["@daily"]),
            ("cron: 30 23 * * *", None, &[]),
            ("cron: \"* * * * *\"", None, &[]),
            ("- {shard}/{shards}", None, &["{shard}/{shards}"]),
            ("- - @x", None, &["@x"]),
            ("purpose: Do this: that", None, &["Do this: that"]),
            ("purpose: 'It's broken'", None, &["'It's broken'"]),
            ("purpose: 'It''s whole'", None, &[]),
            ("purpose: \"a \\\" b\"", None, &[]),
            (
                "schedule: { cron: */5 0,12 * * *, timezone: Etc/UTC }",
                None,
                &["*/5 0,12 * * *"],
            ),
            (
                "{ cron: 0,30 * * * *, timezone: UTC }",
                None,
                &["0,30 * * * *"],
            ),
            (
                "run: { exec: [/bin/x, --date={fire_date-1d}, {shard}/{shards}] }",
                None,
                &["--date={fire_date-1d}", "{shard}/{shards}"],
            ),
            ("exec: [\"{fire_date}\", '{shard}', plain]", None, &[]),
            (
                "  \"--date\", {fire_date}/x,",
                Some('['),
                &["{fire_date}/x"],
            ),
            ("  cron: * * * * *,", Some('{'), &["* * * * *"]),
            ("name: demo/x", None, &[]),
            ("", None, &[]),
            ("exec: [\"a\" \"b\"]", None, &[]),
            ("exec: [\"a\" }", None, &[]),
            ("[", None, &[]),
            ("a: {", None, &[]),
        ] {
            let found: Vec<&str> = loose_values(line, inside)
                .into_iter()
                .map(|loose| &line[loose.span])
                .collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn what_is_quoted_reads_back() {
        for (value, expected) in [
            ("* * * * *", "\"* * * * *\""),
            ("say \"hi\"", "'say \"hi\"'"),
            ("C:\\it's", "'C:\\it''s'"),
        ] {
            assert_eq!(quoted(value), expected);
        }
    }
}
