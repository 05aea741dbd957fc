//! From the bytes of a file to the text of its documents.
//!
//! Documents are told apart here, by their lines, and read one by one: so what one of them has
//! wrong in its syntax hides nothing of the others. YAML allows that, for a line that begins with
//! `---` or `...` ends a document wherever it stands, even within a block of text.

use super::problem::{Place, Problems};

/// Longest file of manifests that is read, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Most documents of one file.
const DOCUMENTS_MAX: usize = 1000;

/// One document, with the separator before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Lines of the file before it.
    pub(super) lines_before: u32,
}

/// The text of a file that can be read as text, else nothing and why.
pub(super) fn text<'a>(bytes: &'a [u8], problems: &mut Problems) -> Option<&'a str> {
    let start = Place { line: 1, column: 1 };
    if bytes.len() > FILE_BYTES_MAX {
        problems.push(
            start,
            "",
            format!("the file has more than {FILE_BYTES_MAX} bytes"),
            "split it into several files",
        );
        return None;
    }
    if is_utf16(bytes) {
        problems.push(
            start,
            "",
            "the file is in UTF-16, and only UTF-8 is read",
            "save it as UTF-8",
        );
        return None;
    }
    let text =
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let good = error.valid_up_to();
                let before = std::str::from_utf8(&bytes[..good]).unwrap_or_default();
                problems.push(
                place_after(before),
                "",
                format!("the file is not in UTF-8: here is the byte 0x{:02X}", bytes[good]),
                "save it as UTF-8: in another encoding, letters beyond ASCII mean something else",
            );
                return None;
            }
        };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some((at, c)) = text.char_indices().find(|&(_, c)| is_unprintable(c)) {
        let (what, remedy) = match c {
            '\u{feff}' => (
                "a byte order mark stands in the middle of the file".to_owned(),
                "delete this invisible character: it comes from putting files together",
            ),
            c => (
                format!("the control character {} stands here", c.escape_unicode()),
                "delete it: a text has no such character",
            ),
        };
        problems.push(place_after(&text[..at]), "", what, remedy);
        return None;
    }
    Some(text)
}

/// The documents of a file. Each holds something at its end only; what is before that is empty.
pub(super) fn documents<'a>(text: &'a str, problems: &mut Problems) -> Vec<Document<'a>> {
    let mut documents = Vec::new();
    let (mut begin, mut lines_before) = (0, 0);
    let mut has_content = false;
    let mut at = 0;
    for (number, line) in lines(text).enumerate() {
        let separates = is_marker(line, "---");
        let ends = is_marker(line, "...");
        // Directives and comments stand before the separator of their document.
        if separates && has_content {
            documents.push(Document {
                text: &text[begin..at],
                lines_before,
            });
            begin = at;
            lines_before = u32::try_from(number).unwrap_or(u32::MAX);
        }
        at += line.len();
        let content = line.trim();
        if separates {
            has_content = content.len() > "---".len();
        } else if !content.is_empty() && !content.starts_with('#') && !line.starts_with('%') {
            has_content = true;
        }
        if ends {
            documents.push(Document {
                text: &text[begin..at],
                lines_before,
            });
            begin = at;
            lines_before = u32::try_from(number + 1).unwrap_or(u32::MAX);
            has_content = false;
        }
    }
    documents.push(Document {
        text: &text[begin..],
        lines_before,
    });
    if documents.len() > DOCUMENTS_MAX {
        let excess = documents[DOCUMENTS_MAX];
        problems.push(
            Place {
                line: excess.lines_before + 1,
                column: 1,
            },
            "",
            format!("the file has more than {DOCUMENTS_MAX} documents"),
            "split it into several files",
        );
        documents.truncate(DOCUMENTS_MAX);
    }
    documents
}

/// Lines with their ends, as YAML ends them: `\n`, `\r\n` or `\r`.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = match rest.find(['\n', '\r']) {
            Some(at) if rest[at..].starts_with("\r\n") => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(line)
    })
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|after| after.is_empty() || after.starts_with([' ', '\t', '\n', '\r']))
}

/// By its mark, or by the zeros between the letters of a first word.
fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [0, b, 0, c, ..] | [b, 0, c, 0, ..] => *b != 0 && *c != 0,
        _ => false,
    }
}

fn is_unprintable(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{feff}' => true,
        c => c.is_control(),
    }
}

fn place_after(before: &str) -> Place {
    let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (mut number, mut last) = (0, "");
    for line in lines(before) {
        number += 1;
        last = line;
    }
    if last.ends_with(['\n', '\r']) || number == 0 {
        number += 1;
        last = "";
    }
    Place {
        line: cut(number),
        column: cut(last.chars().count() + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_end_where_yaml_ends_them() {
        for (text, expected) in [
            ("", &[(0, "")][..]),
            ("a\n---\nb\n", &[(0, "a\n"), (1, "---\nb\n")]),
            ("---\na\n", &[(0, "---\na\n")]),
            (
                "# c\n%YAML 1.2\n---\na\n",
                &[(0, "# c\n%YAML 1.2\n---\na\n")],
            ),
            ("a\r\n---\r\nb", &[(0, "a\r\n"), (1, "---\r\nb")]),
            ("a\r---\rb", &[(0, "a\r"), (1, "---\rb")]),
            (
                "a: |\n  x\n---x\n ---\nb",
                &[(0, "a: |\n  x\n---x\n ---\nb")],
            ),
            ("--- a\n--- b\n", &[(0, "--- a\n"), (1, "--- b\n")]),
            ("a\n...\n# end\n", &[(0, "a\n...\n"), (2, "# end\n")]),
            (
                "a\n...\n%YAML 1.2\n---\nb",
                &[(0, "a\n...\n"), (2, "%YAML 1.2\n---\nb")],
            ),
        ] {
            let mut problems = Problems::of_file("f");
            let found: Vec<(u32, &str)> = documents(text, &mut problems)
                .iter()
                .map(|document| (document.lines_before, document.text))
                .collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
