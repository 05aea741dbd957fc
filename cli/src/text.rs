//! Lines and tables for people, made for 80 columns.
//!
//! Nothing is cut off: what does not fit is broken over several lines of its own column, at a
//! space, or else after a `/`, `-` or `_`. A name that a person wants to copy is still whole.

use unicode_width::UnicodeWidthChar;

use crate::output::Room;
use crate::paint::{Tone, toned};

/// Columns of a terminal that everybody has.
pub(crate) const LINE_WIDTH: usize = 80;

/// Space between two columns.
const GAP: usize = 2;

/// A column that gives way is never made narrower than this.
const YIELDING_WIDTH_MIN: usize = 10;

/// Rows under a heading. Displays with every column as wide as its widest cell; where that is
/// more than the line holds, the columns that yield are broken.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

struct Column {
    title: String,
    yields: bool,
    /// Its words have a tone.
    is_state: bool,
}

impl Table {
    /// Columns by title. One that begins with `~` yields where the line is too short; one with
    /// `=` before that holds states.
    pub(crate) fn new(titles: &[&'static str]) -> Table {
        let columns = titles
            .iter()
            .map(|title| {
                let (is_state, title) = match title.strip_prefix('=') {
                    Some(title) => (true, title),
                    None => (false, *title),
                };
                Column {
                    title: title.strip_prefix('~').unwrap_or(title).to_owned(),
                    yields: title.starts_with('~'),
                    is_state,
                }
            })
            .collect();
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// Columns of whatever names, all of which yield.
    pub(crate) fn of_any(titles: Vec<&str>) -> Table {
        let columns = titles.into_iter().map(|title| Column {
            title: printable(title),
            yields: true,
            is_state: false,
        });
        Table {
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Empty cells show as `-`; characters that would move the cursor, as escapes.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for every column");
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| match cell.as_str() {
                    "" => "-".to_owned(),
                    cell => printable(cell),
                })
                .collect(),
        );
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether its columns can stand side by side at all.
    pub(crate) fn fits(&self, room: Room) -> bool {
        let widths = self.plan_widths(LINE_WIDTH);
        room == Room::Endless || total_width(&widths) <= LINE_WIDTH
    }

    pub(crate) fn render(&self) -> String {
        self.render_in(Room::Columns80)
    }

    pub(crate) fn render_in(&self, room: Room) -> String {
        let line_width = match room {
            Room::Columns80 => LINE_WIDTH,
            Room::Endless => usize::MAX,
        };
        let widths = self.plan_widths(line_width);
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.clone()).collect();
        let mut text = String::new();
        for (row, is_title) in
            std::iter::once((&titles, true)).chain(self.rows.iter().map(|row| (row, false)))
        {
            let cells: Vec<Vec<String>> = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| match room {
                    Room::Columns80 => wrap(cell, width),
                    Room::Endless => vec![cell.replace('\n', " ")],
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for i in 0..height {
                text.push_str(&self.line(&cells, &widths, i, is_title));
                text.push('\n');
            }
        }
        text
    }

    /// The `i`-th line of a row. Colours take no room.
    fn line(&self, cells: &[Vec<String>], widths: &[usize], i: usize, is_title: bool) -> String {
        let mut line = String::new();
        let mut blanks = 0;
        for ((cell, &width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let part = cell.get(i).map_or("", String::as_str);
            if !part.is_empty() {
                line.push_str(&" ".repeat(blanks));
                blanks = 0;
            }
            let tone = match cell.first() {
                _ if is_title => Some(Tone::Faint),
                Some(word) if column.is_state => Tone::of(word),
                _ => None,
            };
            if !part.is_empty() {
                line.push_str(&toned(part, tone));
            }
            blanks += width + GAP - columns_of(part).min(width);
        }
        line
    }

    fn plan_widths(&self, line_width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| {
                let widest = self.rows.iter().map(|row| columns_of(&row[i])).max();
                widest.unwrap_or(0).max(columns_of(&column.title))
            })
            .collect();
        loop {
            if total_width(&widths) <= line_width {
                return widths;
            }
            // The widest of those that yield gives one column at a time, so that two long ones
            // end equal.
            let widest = (0..widths.len())
                .filter(|&i| self.columns[i].yields && widths[i] > YIELDING_WIDTH_MIN)
                .max_by_key(|&i| widths[i]);
            match widest {
                Some(i) => widths[i] -= 1,
                None => return widths,
            }
        }
    }
}

/// Of columns side by side.
fn total_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Breaks text into lines of at most `width` columns: at a space, or else after a `/`, `-` or `_`,
/// or where it must be anywhere. Line breaks in the text stay.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    lines_of(text, |rest| line_end(rest, width))
}

/// The same for sentences: what stands between backticks is to be copied, and stays in one line
/// even where that is longer.
pub(crate) fn wrap_prose(text: &str, width: usize) -> Vec<String> {
    lines_of(text, |rest| {
        let end = outside_of_code(rest, line_end(rest, width)?);
        (end < rest.len()).then_some(end)
    })
}

/// Where a line ends that would end in the midst of code: before it, or behind it where the line
/// begins with it.
fn outside_of_code(text: &str, end: usize) -> usize {
    let mut from = 0;
    while let Some((open, close)) = next_code(text, from) {
        if end <= open {
            break;
        }
        if end < close {
            // Whatever clings to the code goes with it.
            let before = text[..open].rfind(' ').map_or(0, |blank| blank + 1);
            let behind = text[close..]
                .find(' ')
                .map_or(text.len(), |blank| close + blank);
            return if before > 0 { before } else { behind };
        }
        from = close;
    }
    end
}

/// From where to where the first code behind `from` stands, its backticks included.
fn next_code(text: &str, from: usize) -> Option<(usize, usize)> {
    let open = from + text[from..].find('`')?;
    let close = open + 1 + text[open + 1..].find('`')?;
    Some((open, close + 1))
}

fn lines_of(text: &str, end_of_line: impl Fn(&str) -> Option<usize>) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut rest = paragraph.trim_end();
        while let Some(end) = end_of_line(rest) {
            lines.push(rest[..end].trim_end().to_owned());
            rest = rest[end..].trim_start_matches(' ');
        }
        lines.push(rest.to_owned());
    }
    lines
}

/// Where in `text`, in bytes, its first line ends; `None` where all of it fits.
fn line_end(text: &str, width: usize) -> Option<usize> {
    let mut columns = 0;
    let (too_far, _) = text.char_indices().find(|&(_, c)| {
        columns += columns_of_char(c);
        columns > width
    })?;
    let fits = &text[..too_far];
    if text[too_far..].starts_with(' ') && too_far > 0 {
        return Some(too_far);
    }
    let at_space = fits.rfind(' ').filter(|&i| i > 0);
    let after_joint = || fits.rfind(['/', '-', '_']).map(|i| i + 1);
    // Where not one character fits, one is put on the line all the same.
    let anywhere = || match too_far {
        0 => text.chars().next().map(char::len_utf8),
        _ => Some(too_far),
    };
    at_space
        .or_else(after_joint)
        .or_else(anywhere)
        .filter(|&end| end < text.len())
}

/// The text with characters written as escapes that a terminal would obey, or that would show it in
/// another order than it has.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |c| is_disordering(c) || c.is_control() && c != '\n')
}

/// What a program printed, with everything written as escapes that a terminal would obey or that
/// would show text in another order than it has. Tabs stay.
pub(crate) fn harmless(text: &str) -> String {
    escaped(text, |c| is_disordering(c) || c.is_control() && c != '\t')
}

/// Shows text in another order than it has, or breaks a line where there is no line feed.
fn is_disordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_unwanted: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unwanted(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Columns that the widest line of a text takes on a terminal.
fn columns_of(text: &str) -> usize {
    text.split('\n')
        .map(|line| line.chars().map(columns_of_char).sum())
        .max()
        .unwrap_or(0)
}

/// Two for a Chinese character, none for an accent on the letter before it.
fn columns_of_char(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// `1 shard`, `3 shards`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disorders_a_text_is_written_as_an_escape() {
        let text = "a\u{202e}b\u{2028}c\u{2029}d\u{1b}e";
        let escaped = r"a\u{202e}b\u{2028}c\u{2029}d\u{1b}e";
        assert_eq!(printable(text), escaped);
        assert_eq!(harmless(text), escaped);
        assert_eq!(printable("two\nlines"), "two\nlines");
    }

    #[test]
    fn wrapping_loses_nothing_and_fits() {
        for (text, width, expected) in [
            ("", 10, vec![""]),
            ("short", 10, vec!["short"]),
            ("two words", 5, vec!["two", "words"]),
            ("exactly ten", 7, vec!["exactly", "ten"]),
            ("namespace/job-name", 12, vec!["namespace/", "job-name"]),
            ("needs_confirmation", 14, vec!["needs_", "confirmation"]),
            ("abcdefghij", 4, vec!["abcd", "efgh", "ij"]),
            ("a\nb", 10, vec!["a", "b"]),
            ("run  it   now", 6, vec!["run", "it", "now"]),
            ("对账两本账", 4, vec!["对账", "两本", "账"]),
            ("对账 nightly", 5, vec!["对账", "night", "ly"]),
            ("账", 1, vec!["账"]),
        ] {
            assert_eq!(wrap(text, width), expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn prose_keeps_code_whole() {
        for (text, width, expected) in [
            ("write `a b` now", 8, vec!["write", "`a b`", "now"]),
            (
                "write (`a b c d e`) now",
                8,
                vec!["write", "(`a b c d e`)", "now"],
            ),
            ("`a b c d e f`", 4, vec!["`a b c d e f`"]),
            ("a ` b c d", 4, vec!["a `", "b c", "d"]),
            ("`a`, `b c`, `d`", 6, vec!["`a`,", "`b c`,", "`d`"]),
            ("a\n`b c d`", 4, vec!["a", "`b c d`"]),
        ] {
            assert_eq!(wrap_prose(text, width), expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn columns_stand_under_each_other_whatever_the_script() {
        let mut table = Table::new(&["JOB", "WHY"]);
        for (job, why) in [("a/b", "latin"), ("对账", "wide"), ("e\u{301}", "combined")] {
            table.row(vec![job.to_owned(), why.to_owned()]);
        }
        assert_eq!(
            table.render(),
            "JOB   WHY\na/b   latin\n对账  wide\ne\u{301}     combined\n"
        );
    }

    #[test]
    fn a_table_fits_80_columns_whole() {
        let name = "a-namespace-of-some-length/and-the-name-of-a-job-that-is-longer-than-most";
        let mut table = Table::new(&["RUN", "FIRE TIME", "STATE", "~JOB"]);
        table.row(vec![
            "run-1".to_owned(),
            "2026-11-29T02:10:00Z".to_owned(),
            "needs_confirmation".to_owned(),
            name.to_owned(),
        ]);
        table.row(vec![
            "run-2".to_owned(),
            String::new(),
            "ready".to_owned(),
            "a/b\u{1b}[31m".to_owned(),
        ]);
        let text = table.render();
        assert!(
            text.lines().all(|line| columns_of(line) <= LINE_WIDTH),
            "{text}"
        );
        assert!(text.lines().all(|line| line == line.trim_end()), "{text:?}");
        let heading = "RUN    FIRE TIME             STATE               JOB\n";
        assert!(text.starts_with(heading), "{text}");
        let pieces: String = text
            .lines()
            .skip(1)
            .take_while(|line| !line.starts_with("run-2"))
            .map(|line| line[heading.len() - 4..].trim())
            .collect();
        assert_eq!(pieces, name);
        assert!(
            text.contains("run-2  -                     ready"),
            "{text}"
        );
        assert!(text.contains("a/b\\u{1b}[31m"), "{text}");
    }
}
