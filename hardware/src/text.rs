//! Text as it arrives: saved by an editor, by a terminal's log, or by a shell of another system.
//!
//! What carries the text means nothing, and is taken off before anything is read: the order of its
//! bytes, the colours of a terminal, line ends of other systems, blanks that do not break.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// The text in an output. Bytes that are no text are replaced; nothing is refused.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let text = match wide(bytes) {
        Some(text) => Cow::Owned(text),
        None => String::from_utf8_lossy(bytes),
    };
    let text = without_escapes(&text);
    // A lone carriage return overwrites a line on a terminal. It ends lines where nothing else does.
    if text.contains('\n') {
        text
    } else {
        text.replace('\r', "\n")
    }
}

/// Text in units of two bytes: it says so by its mark, or has a zero in every other byte.
fn wide(bytes: &[u8]) -> Option<String> {
    type Unit = fn([u8; 2]) -> u16;
    let (unit, bytes): (Unit, &[u8]) = match bytes {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        [0, first, 0, second, ..] if *first != 0 && *second != 0 => (u16::from_be_bytes, bytes),
        [first, 0, second, 0, ..] if *first != 0 && *second != 0 => (u16::from_le_bytes, bytes),
        _ => return None,
    };
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let read = char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER));
    Some(read.collect())
}

/// Without the sequences that move and colour a terminal (ECMA-48), and with plain blanks.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{a0}' | '\u{202f}' | '\u{2007}' => kept.push(' '),
            '\u{feff}' => {}
            other => kept.push(other),
        }
    }
    kept
}

/// Skips what follows an escape. No sequence goes beyond its line.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    let is_line_end = |c: &char| matches!(c, '\n' | '\r');
    match rest.next_if(|c| !is_line_end(c)) {
        Some('[') => {
            while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            rest.next_if(|c| !is_line_end(c));
        }
        // A title, up to a bell or a terminator of its own.
        Some(']') => {
            let is_end = |c: &char| matches!(c, '\u{7}' | '\u{1b}') || is_line_end(c);
            while rest.next_if(|c| !is_end(c)).is_some() {}
            if rest.next_if_eq(&'\u{1b}').is_some() {
                rest.next_if_eq(&'\\');
            } else {
                rest.next_if_eq(&'\u{7}');
            }
        }
        Some('(' | ')') => {
            rest.next_if(|c| !is_line_end(c));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_carries_a_text_is_taken_off() {
        let wide = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let units = "State : Optimal\n".encode_utf16();
            mark.iter().copied().chain(units.flat_map(bytes)).collect()
        };
        for bytes in [
            b"State : Optimal\n".to_vec(),
            b"\xef\xbb\xbfState : Optimal\n".to_vec(),
            b"\x1b[1;32mState\x1b[0m : \x1b[KOptimal\x1b(B\n".to_vec(),
            b"\x1b]0;root@host\x07State : Optimal\x1b[m\n".to_vec(),
            b"\x1b]8;;x\x1b\\State : Optimal\n".to_vec(),
            b"State : Optimal\r".to_vec(),
            "State\u{a0}:\u{202f}Optimal\n".as_bytes().to_vec(),
            wide(&[0xff, 0xfe], u16::to_le_bytes),
            wide(&[0xfe, 0xff], u16::to_be_bytes),
            wide(&[], u16::to_le_bytes),
            wide(&[], u16::to_be_bytes),
        ] {
            assert_eq!(decode(&bytes), "State : Optimal\n", "{bytes:?}");
        }
    }

    #[test]
    fn what_is_cut_within_a_sequence_keeps_its_lines() {
        for (bytes, expected) in [
            (&b"a\x1b"[..], "a"),
            (b"a\x1b[31", "a"),
            (b"a\x1b[31\nb", "a\nb"),
            (b"a\x1b]0;b\nc", "a\nc"),
            (b"\xff\xfea", ""),
            (b"a\r\r\nb\r\n", "a\r\r\nb\r\n"),
        ] {
            assert_eq!(decode(bytes), expected, "{bytes:?}");
        }
    }
}
