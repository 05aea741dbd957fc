//! Tokens as values.

use super::super::source::latin1;
use super::lexer::{Token, is_one_of, name_of};
use super::{VALUES_MAX, Value};

/// The values of a line that `COPY` writes.
pub(super) fn copied(line: &[u8]) -> Vec<Value> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.split(|&b| b == b'\t')
        .take(VALUES_MAX)
        .map(|field| match field {
            b"\\N" => Value::Null,
            field if field.starts_with(b"\\\\x") => Value::Bytes,
            field => Value::Text(decoded(&unescaped(field))),
        })
        .collect()
}

/// The tokens between two commas as a value.
pub(super) fn value_of(tokens: &[Token], backslash: bool) -> Value {
    match tokens {
        [Token::Text(text)] => Value::Text(decoded(&unquoted(text, backslash))),
        [Token::Word(word)] if is_one_of(word, &["NULL"]) => Value::Null,
        [Token::Word(word)] if word.starts_with(b"0x") || word.starts_with(b"0X") => {
            of_digits(&word[2..], 16)
        }
        [Token::Word(word), Token::Text(text)] => {
            if is_one_of(word, &["B"]) {
                of_digits(text, 2)
            } else if is_one_of(word, &["X"]) {
                of_digits(text, 16)
            } else if is_one_of(word, &["_binary"]) {
                match unquoted(text, backslash)[..] {
                    [flag @ (0 | 1)] => Value::Bare(flag.to_string()),
                    _ => Value::Bytes,
                }
            } else {
                let escapes = backslash || is_one_of(word, &["E"]);
                Value::Text(decoded(&unquoted(text, escapes)))
            }
        }
        // `'text'::type`.
        [Token::Text(text), Token::Sign(b':'), ..] => {
            Value::Text(decoded(&unquoted(text, backslash)))
        }
        tokens => {
            let words: Vec<String> = tokens
                .iter()
                .map(|token| match token {
                    Token::Sign(sign) => char::from(*sign).to_string(),
                    token => name_of(token),
                })
                .collect();
            Value::Bare(words.concat())
        }
    }
}

/// What is written bit by bit or byte by byte. Up to one byte of 0 or 1 it is a flag, which
/// databases have as numbers as well; the rest is no text.
fn of_digits(digits: &[u8], radix: u32) -> Value {
    let is_short = digits.len() <= if radix == 2 { 8 } else { 2 };
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_short)
        .and_then(|digits| u8::from_str_radix(digits, radix).ok());
    match number {
        Some(flag @ (0 | 1)) => Value::Bare(flag.to_string()),
        _ => Value::Bytes,
    }
}

/// The text between quotes with its escapes resolved.
fn unquoted(text: &[u8], backslash: bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\'' => {
                plain.push(b'\'');
                at += 2;
            }
            b'\\' if backslash => {
                let end = (at + 2).min(text.len());
                plain.extend(unescaped(&text[at..end]));
                at = end;
            }
            byte => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    plain
}

/// Backslash and a letter as MySQL and `COPY` write them.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => plain.push(b'\n'),
            Some(b't') => plain.push(b'\t'),
            Some(b'r') => plain.push(b'\r'),
            Some(b'0') => plain.push(0),
            Some(b'Z') => plain.push(0x1a),
            Some(&other) => plain.push(other),
            None => plain.push(b'\\'),
        }
    }
    plain
}

/// Bytes as text, in whatever of the two encodings they are.
fn decoded(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
    }
}
