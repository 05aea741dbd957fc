//! Durations as people write them: `90s`, `1h30m`, `2d`, `500ms`.
//!
//! Whole numbers with a unit each, the largest unit first, each unit once. No fractions and no
//! bare numbers: `90` has been read as seconds, minutes and milliseconds by different programs.

use protocol::DurationMs;

use crate::shown::shown;

/// Units from the largest to the smallest, in milliseconds.
const UNITS: [(&str, i64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Text that is not a duration, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {reason}; {remedy}")]
pub struct DurationError {
    /// As written, cut where it is long.
    pub text: String,
    /// Continues a sentence that begins with the text.
    pub reason: String,
    pub remedy: String,
}

/// Reads a duration. Only the form is judged here; which lengths make sense is for the field.
pub fn parse_duration(text: &str) -> Result<DurationMs, DurationError> {
    let refuse = |reason: &str, remedy: &str| DurationError {
        text: shown(text),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    };
    const FORMS: &str = "write for example 90s, 1h30m, 2d or 500ms";
    if text.is_empty() {
        return Err(refuse("is empty", FORMS));
    }
    if text.starts_with(['-', '+']) {
        return Err(refuse("has a sign", FORMS));
    }
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(refuse("is not a duration", FORMS));
        }
        let letters = after.len()
            - after
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return Err(if after.starts_with(['.', ',']) {
                refuse(
                    "has a fraction",
                    "write whole numbers, for example 1h30m for 1.5h",
                )
            } else if after.is_empty() {
                refuse(
                    "has no unit",
                    &format!("write for example {}s", shown_number(number)),
                )
            } else {
                refuse("is not a duration", FORMS)
            });
        }
        if !UNITS.iter().any(|&(known, _)| known == unit) {
            return Err(refuse(
                &format!("has the unknown unit `{}`", shown(unit)),
                "use d, h, m, s or ms",
            ));
        }
        let Some(&(_, unit_ms)) = units.find(|&&(known, _)| known == unit) else {
            return Err(refuse(
                &format!("has `{unit}` twice or after a smaller unit"),
                "write the largest unit first and each once, for example 1h30m",
            ));
        };
        total = number
            .parse::<i64>()
            .ok()
            .and_then(|n| n.checked_mul(unit_ms))
            .and_then(|ms| total.checked_add(ms))
            .ok_or_else(|| refuse("is too long", "write a shorter duration"))?;
        rest = after;
    }
    Ok(DurationMs(total))
}

/// A number that may have thousands of digits, cut for a message.
fn shown_number(number: &str) -> &str {
    number.get(..6).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_durations() {
        for (text, ms) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("500ms", 500),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("007s", 7000),
        ] {
            assert_eq!(parse_duration(text), Ok(DurationMs(ms)), "{text}");
        }
    }

    #[test]
    fn refused_durations_say_what_to_write() {
        for (text, expected) in [
            ("", "`` is empty; write for example 90s, 1h30m, 2d or 500ms"),
            ("90", "`90` has no unit; write for example 90s"),
            (
                "-5s",
                "`-5s` has a sign; write for example 90s, 1h30m, 2d or 500ms",
            ),
            (
                "1.5h",
                "`1.5h` has a fraction; write whole numbers, for example 1h30m for 1.5h",
            ),
            (
                "5 min",
                "`5 min` is not a duration; write for example 90s, 1h30m, 2d or 500ms",
            ),
            (
                "5min",
                "`5min` has the unknown unit `min`; use d, h, m, s or ms",
            ),
            ("2w", "`2w` has the unknown unit `w`; use d, h, m, s or ms"),
            (
                "30m1h",
                "`30m1h` has `h` twice or after a smaller unit; write the largest unit first and each once, for example 1h30m",
            ),
            (
                "99999999999999999999d",
                "`99999999999999999999d` is too long; write a shorter duration",
            ),
            (
                "soon",
                "`soon` is not a duration; write for example 90s, 1h30m, 2d or 500ms",
            ),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back(ms in 0i64..=i64::MAX) {
            prop_assert_eq!(parse_duration(&DurationMs(ms).to_string()), Ok(DurationMs(ms)));
        }

        #[test]
        fn any_text_is_answered(text in "[0-9dhms.+ -]{0,12}|.*") {
            let _ = parse_duration(&text);
        }
    }
}
