//! Answers as YAML: what JSON says, in blocks.
//!
//! Only what reads the same under YAML 1.1 and 1.2 is written without quotes; everything else is a
//! string of JSON, which is one of YAML too.

use std::fmt::Write;

use serde_json::Value;

/// A document, with a line break at its end.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Array(items) if !items.is_empty() => sequence(&mut text, items, 0),
        Value::Object(fields) if !fields.is_empty() => mapping(&mut text, fields, 0),
        other => {
            text.push_str(&scalar(other));
            text.push('\n');
        }
    }
    text
}

fn mapping(text: &mut String, fields: &serde_json::Map<String, Value>, depth: usize) {
    for (i, (key, value)) in fields.iter().enumerate() {
        // The first field of an item stands behind its dash.
        if i > 0 || !text.ends_with("- ") {
            indent(text, depth);
        }
        text.push_str(&string(key));
        text.push(':');
        below(text, value, depth);
    }
}

fn sequence(text: &mut String, items: &[Value], depth: usize) {
    for item in items {
        indent(text, depth);
        match item {
            Value::Object(fields) if !fields.is_empty() => {
                text.push_str("- ");
                mapping(text, fields, depth + 1);
            }
            Value::Array(inner) if !inner.is_empty() => {
                text.push_str("-\n");
                sequence(text, inner, depth + 1);
            }
            other => {
                let _ = writeln!(text, "- {}", scalar(other));
            }
        }
    }
}

/// What belongs to a key.
fn below(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            mapping(text, fields, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            sequence(text, items, depth + 1);
        }
        other => {
            let _ = writeln!(text, " {}", scalar(other));
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        // Empty lists and mappings are written the same in both.
        other => other.to_string(),
    }
}

/// Without quotes where nothing about it could be read as anything else than this text.
fn string(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '-' | '.'))
        && !is_a_word_of_yaml(text);
    if plain {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// Words that some readers take for a truth, for nothing or for a number.
fn is_a_word_of_yaml(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_and_quotes() {
        for (value, expected) in [
            (json!([]), "[]\n"),
            (json!({}), "{}\n"),
            (json!("no"), "\"no\"\n"),
            (json!("Null"), "\"Null\"\n"),
            (json!(null), "null\n"),
            (json!("run-12"), "run-12\n"),
            (json!("12"), "\"12\"\n"),
            (json!("1e3"), "\"1e3\"\n"),
            (json!("a: b"), "\"a: b\"\n"),
            (json!("a\n#b"), "\"a\\n#b\"\n"),
            (json!("2026-11-29T02:10:00Z"), "\"2026-11-29T02:10:00Z\"\n"),
            (
                json!([{"a": 1, "b": [true, null]}, "x"]),
                "- a: 1\n  b:\n    - true\n    - null\n- x\n",
            ),
            (
                json!({"a": {"b": {}, "c": [[1, 2], []]}, "d e": "f/g"}),
                "a:\n  b: {}\n  c:\n    -\n      - 1\n      - 2\n    - []\n\"d e\": f/g\n",
            ),
            (json!([{"a": {"b": 1}, "c": 2}]), "- a:\n    b: 1\n  c: 2\n"),
        ] {
            assert_eq!(text(&value), expected, "{value}");
        }
    }
}
