//! What is wrong with a text that is not YAML, in words that mend it.
//!
//! A parser says where it gave up, which is often a line after the mistake, and in its own terms.
//! So the lines around that place are read again here for the mistakes that people make. Where
//! there is only one way to mend a mistake the mended text is given too: the reader goes on with
//! it, and whatever else is wrong is told in the same answer.

use super::command::list_of;
use super::problem::Place;
use super::quoting::{Loose, loose_values, quoted, without_comment};
use super::source;

/// A mistake and how to mend it.
pub(super) struct Mistake {
    /// Within the document, from 1.
    pub(super) at: Place,
    pub(super) about: About,
    pub(super) what: String,
    pub(super) remedy: String,
    /// What to put in place of which bytes of the document, where that is certain.
    pub(super) mend: Option<Mend>,
}

/// What a mistake is about.
pub(super) enum About {
    /// The lines themselves.
    Lines,
    /// The value of this field.
    Field(String),
    /// An item of the list that is being read.
    Item,
}

pub(super) struct Mend {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) with: String,
}

/// A line of the document.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// From 1.
    number: usize,
    /// Where it begins in the document, in bytes.
    from: usize,
    /// Without its end.
    text: &'a str,
}

/// Explains why the parser gave up in `line` (from 1) at `column` (from 0) with `reason`.
pub(super) fn explain(document: &str, line: usize, column: usize, reason: &str) -> Mistake {
    let Around { before, here } = Around::find(document, line);
    // The mistake is often in the line before: what begins there does not go on here.
    let nearby = || before.into_iter().chain(here);
    let open = open_bracket(document, here.map_or(document.len(), |line| line.from));
    let inside = open.as_ref().map(|open| open.bracket);
    let unclosed = || {
        let open = open.as_ref()?;
        here?.is_outside(open).then(|| open.unclosed())
    };
    here.and_then(|here| tab(here, before))
        .or_else(|| nearby().find_map(odd_blank))
        .or_else(unclosed)
        .or_else(|| no_comma(here?, column))
        .or_else(|| unquoted(here?, inside, column))
        .or_else(|| nearby().find_map(no_colon))
        .or_else(|| quotes(here?, column, reason))
        .or_else(|| brackets(document, here, column, reason))
        .or_else(|| no_field(before?, reason))
        .or_else(|| indentation(here?, before?, reason))
        .unwrap_or_else(|| {
            at(
                line,
                column,
                format!("this is not YAML: {reason}"),
                "look at the indentation, quotes and brackets here and in the line before",
            )
        })
}

fn at(line: usize, column: usize, what: impl Into<String>, remedy: impl Into<String>) -> Mistake {
    Mistake {
        at: place(line, column),
        about: About::Lines,
        what: what.into(),
        remedy: remedy.into(),
        mend: None,
    }
}

fn place(line: usize, column_from_0: usize) -> Place {
    let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        line: cut(line.max(1)),
        column: cut(column_from_0.saturating_add(1)),
    }
}

/// The line in which the parser gave up and the line with content before it.
struct Around<'a> {
    before: Option<Line<'a>>,
    here: Option<Line<'a>>,
}

impl<'a> Around<'a> {
    fn find(document: &'a str, line: usize) -> Around<'a> {
        let (mut before, mut from) = (None, 0);
        for (i, text) in source::lines(document).enumerate() {
            let found = Line {
                number: i + 1,
                from,
                text: text.trim_end_matches(['\n', '\r']),
            };
            from += text.len();
            if found.number >= line {
                return Around {
                    before,
                    here: Some(found),
                };
            }
            let content = found.text.trim_start();
            if !content.is_empty() && !content.starts_with('#') {
                before = Some(found);
            }
        }
        Around { before, here: None }
    }
}

impl Line<'_> {
    /// Column from 0 of a byte of this line.
    fn column(&self, byte: usize) -> usize {
        self.text[..byte].chars().count()
    }

    fn indentation(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// Whether a bracket of a line before should have been closed by now.
    fn is_outside(&self, open: &OpenBracket) -> bool {
        let begins = self.text.trim_start().chars().next();
        self.number > open.line
            && self.indentation() <= open.indentation
            && !matches!(begins, None | Some(']' | '}' | '#'))
    }

    fn mistake(&self, byte: usize, what: impl Into<String>, remedy: impl Into<String>) -> Mistake {
        at(self.number, self.column(byte), what, remedy)
    }

    fn mend(&self, from: usize, to: usize, with: String) -> Mend {
        Mend {
            from: self.from + from,
            to: self.from + to,
            with,
        }
    }
}

/// Said once of a document, for who indents with tabs does so everywhere.
pub(super) const TAB: &str = "a tab indents this line";

fn tab(line: Line, before: Option<Line>) -> Option<Mistake> {
    let indentation = &line.text[..line.indentation()];
    let tab = indentation.find('\t')?;
    // Beside spaces it is not known how wide a tab was meant.
    let is_plain = indentation.bytes().all(|b| b == b'\t');
    // Below a field without a value stands what it holds; else another field beside the last.
    let width = before.map_or(0, |before| {
        let holds = without_comment(before.text).ends_with(':');
        before.indentation() + if holds { 2 } else { 0 }
    });
    let spaces = " ".repeat(width);
    Some(Mistake {
        mend: is_plain.then(|| line.mend(0, indentation.len(), spaces)),
        ..line.mistake(
            tab,
            TAB,
            "indent with spaces: YAML does not allow tabs there",
        )
    })
}

/// A blank that looks like a space and is none.
fn odd_blank(line: Line) -> Option<Mistake> {
    let is_odd = |c: char| c.is_whitespace() && c != ' ' && c != '\t';
    let (byte, c) = line.text.char_indices().find(|&(_, c)| is_odd(c))?;
    Some(Mistake {
        mend: Some(line.mend(0, line.text.len(), line.text.replace(is_odd, " "))),
        ..line.mistake(
            byte,
            format!(
                "a blank that is no space ({}) stands here",
                c.escape_unicode()
            ),
            "write a plain space: this one comes from copying out of a page or a document",
        )
    })
}

fn unquoted(line: Line, inside: Option<char>, column: usize) -> Option<Mistake> {
    let loose = loose_values(line.text, inside);
    let covers = |loose: &&Loose| {
        line.column(loose.span.start) <= column && column <= line.column(loose.span.end)
    };
    let found = loose.iter().find(covers).or(loose.first())?;
    let value = &line.text[found.span.clone()];
    let key = found.key.clone().map(|key| &line.text[key]);
    let (with, how) = match key {
        Some("exec") => (list_of(value), "write it as a list: "),
        _ => (quoted(unwrapped(value)), "put it in quotes: "),
    };
    let shown = match key {
        Some(key) => format!("{how}`{key}: {with}`"),
        None => format!("{how}`{with}`"),
    };
    let is_alias = value
        .strip_prefix('*')
        .is_some_and(|name| name.starts_with(char::is_alphabetic));
    let remedy = if is_alias {
        format!("write out what it stands for; where it is text, {shown}")
    } else {
        shown
    };
    Some(Mistake {
        about: key.map_or(About::Item, |key| About::Field(key.to_owned())),
        mend: Some(line.mend(found.span.start, found.span.end, with)),
        ..line.mistake(
            found.span.start,
            format!("`{}` {}", crate::shown::shown(value), found.why),
            remedy,
        )
    })
}

/// `"a" "b"`: two texts in quotes with only blanks between, the second where the parser gave up.
fn no_comma(line: Line, column: usize) -> Option<Mistake> {
    let (byte, _) = line.text.char_indices().nth(column)?;
    let (before, second) = line.text.split_at(byte);
    let first_ends = before.trim_end().len();
    let between = before.trim_end().ends_with(['"', '\'']) && second.starts_with(['"', '\'']);
    between.then(|| Mistake {
        mend: Some(line.mend(first_ends, first_ends, ",".to_owned())),
        ..line.mistake(
            byte,
            "two texts follow each other",
            "write a `,` between them",
        )
    })
}

/// `'It's broken'` without the quotes around it, which its writer meant to close at its end.
fn unwrapped(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

/// `name:demo/x`, or `name demo/x`.
fn no_colon(line: Line) -> Option<Mistake> {
    let start = line.indentation();
    let text = without_comment(&line.text[start..]);
    let name_len = text
        .find(|c: char| !(c.is_ascii_lowercase() || c == '_'))
        .filter(|&len| len > 0)
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(name_len);
    let (what, value) = if let Some(value) = rest.strip_prefix(':') {
        if value.is_empty() || value.starts_with([' ', '\t', '/']) {
            return None;
        }
        ("there is no blank after the colon", value)
    } else if rest.starts_with(' ') && super::form::MANIFEST.position(name).is_some() {
        ("there is no colon after the field's name", rest.trim())
    } else {
        return None;
    };
    let meant = format!("{name}: {value}");
    Some(Mistake {
        mend: Some(line.mend(start, start + text.len(), meant.clone())),
        ..line.mistake(
            start + name_len,
            what,
            format!("write `{}`", crate::shown::shown(&meant)),
        )
    })
}

fn quotes(line: Line, column: usize, reason: &str) -> Option<Mistake> {
    let byte = line.text.char_indices().nth(column).map(|(byte, _)| byte);
    if reason.contains("escape") || reason.contains("hexadecimal") {
        return Some(line.mistake(
            byte.unwrap_or(0),
            "a backslash between double quotes begins an escape, and YAML does not know this one",
            "write the backslash twice, or use single quotes",
        ));
    }
    let opens = line.text.get(byte?..)?.starts_with(['"', '\'']);
    (reason.contains("quoted scalar") && opens).then(|| {
        line.mistake(
            byte.unwrap_or(0),
            "the quote that opens here is not closed",
            "close it in the same line; a text of several lines is written as `purpose: >`, with its lines indented below",
        )
    })
}

/// Brackets that are not closed, up to the line in which the parser gave up, or not opened.
fn brackets(document: &str, line: Option<Line>, column: usize, reason: &str) -> Option<Mistake> {
    let end = line.map_or(document.len(), |line| line.from + line.text.len());
    let about_brackets = ["flow", "':' indicator", "bracket"];
    if line.is_some() && !about_brackets.iter().any(|word| reason.contains(word)) {
        return None;
    }
    if let Some(open) = open_bracket(document, end) {
        return Some(open.unclosed());
    }
    let line = line.filter(|_| reason.contains("bracket"))?;
    Some(at(
        line.number,
        column,
        "this bracket closes nothing",
        "delete it, or open it before",
    ))
}

/// A line, the one before that in which the parser missed the colon of a field's name.
fn no_field(line: Line, reason: &str) -> Option<Mistake> {
    reason.contains("simple key").then(|| {
        line.mistake(
            line.indentation(),
            "this line is no `field: value`",
            "indent it deeper if it goes on with the text above, else begin it with a field's name and a colon",
        )
    })
}

fn indentation(line: Line, before: Line, reason: &str) -> Option<Mistake> {
    let start = line.indentation();
    let content = &line.text[start..];
    if reason.contains("block sequence entries") {
        return Some(line.mistake(
            start,
            "a list cannot begin behind its field's name",
            "begin it in the next line, a `- ` before each item, or write it as `[a, b]`",
        ));
    }
    let above = before.text[before.indentation()..].trim_end();
    if content.is_empty() || before.indentation() == start {
        return None;
    }
    if start > before.indentation() && above.contains(": ") && !above.ends_with(':') {
        return Some(line.mistake(
            start,
            "this line is indented deeper than the one above, which has its value already",
            "indent both alike, or delete the value above if this line is meant to be below it",
        ));
    }
    reason.contains("block").then(|| {
        line.mistake(
            start,
            "the indentation of this line fits no line above it",
            "indent the fields of one mapping, and the items of one list, alike",
        )
    })
}

/// A bracket that is open at some place.
struct OpenBracket {
    bracket: char,
    /// Of the line that it stands in.
    indentation: usize,
    line: usize,
    column: usize,
}

impl OpenBracket {
    fn closing(&self) -> char {
        if self.bracket == '[' { ']' } else { '}' }
    }

    fn unclosed(&self) -> Mistake {
        let close = self.closing();
        at(
            self.line,
            self.column,
            format!(
                "this `{}` is not closed, or what it holds is not separated by commas",
                self.bracket
            ),
            format!("write a `,` between two items and a `{close}` after the last"),
        )
    }
}

/// The innermost bracket that is open at byte `until`, or that is closed before by one of the other
/// kind.
fn open_bracket(document: &str, until: usize) -> Option<OpenBracket> {
    let mut open: Vec<OpenBracket> = Vec::new();
    let mut quote = None;
    let mut from = 0;
    for (i, line) in source::lines(document).enumerate() {
        if from >= until {
            break;
        }
        let mut before = ' ';
        for (column, (byte, c)) in line.char_indices().enumerate() {
            if from + byte >= until {
                break;
            }
            // Outside of brackets, they and quotes mean something only where a value begins.
            let begins = !open.is_empty() || before.is_whitespace();
            match (quote, c) {
                (Some(q), _) if q == c && before != '\\' => quote = None,
                (None, '#') if before.is_whitespace() => break,
                (None, '"' | '\'')
                    if before.is_whitespace() || matches!(before, '[' | '{' | ',') =>
                {
                    quote = Some(c);
                }
                (None, '[' | '{') if begins => open.push(OpenBracket {
                    bracket: c,
                    indentation: line.len() - line.trim_start().len(),
                    line: i + 1,
                    column,
                }),
                (None, ']' | '}') => match open.last() {
                    Some(last) if last.closing() != c => return open.pop(),
                    _ => drop(open.pop()),
                },
                _ => {}
            }
            before = c;
        }
        // Outside of brackets a quote that its line does not close is an apostrophe.
        if open.is_empty() {
            quote = None;
        }
        from += line.len();
    }
    open.pop()
}
