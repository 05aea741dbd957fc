//! Somebody's text as a message may repeat it.

/// Most characters that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// The text on one line, control characters escaped, cut where it is long.
pub fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_one_short_line() {
        for (text, expected) in [
            ("", String::new()),
            ("plain", "plain".to_owned()),
            ("a\nb\u{1b}[31m", "a\\nb\\u{1b}[31m".to_owned()),
            (&"x".repeat(60), "x".repeat(60)),
            (&"x".repeat(61), "x".repeat(60) + "..."),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
