//! Sizes of memory as people write them: `2GiB`, `512MiB`.
//!
//! One whole number with one binary unit. `2GB` is refused rather than guessed at: it is 7 % less
//! than `2GiB` to some programs and the same to others, and `2g` or `2Gi` are other programs' words.

use crate::shown::shown;

/// Units from the largest to the smallest, in bytes.
const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

/// Text that is not a size, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {reason}; {remedy}")]
pub struct SizeError {
    /// As written, cut where it is long.
    pub(crate) text: String,
    /// Continues a sentence that begins with the text.
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

/// Reads a size, in bytes. Only the form is judged here; which sizes make sense is for the field.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let refuse = |reason: String, remedy: String| SizeError {
        text: shown(text),
        reason,
        remedy,
    };
    const FORMS: &str = "write for example 512MiB or 2GiB";
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if let Some(&(_, unit_bytes)) = UNITS.iter().find(|&&(known, _)| known == unit) {
        return number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(unit_bytes))
            .ok_or_else(|| match number {
                "" => refuse("has no number".to_owned(), FORMS.to_owned()),
                _ => refuse("is too large".to_owned(), "write a smaller size".to_owned()),
            });
    }
    Err(if number.is_empty() {
        refuse("is not a size".to_owned(), FORMS.to_owned())
    } else if unit.is_empty() {
        refuse("has no unit".to_owned(), FORMS.to_owned())
    } else if let Some(whole) = whole_of_fraction(text) {
        refuse(
            "has a fraction".to_owned(),
            format!("write a whole number, {whole}"),
        )
    } else if let Some(meant) = meant_unit(unit) {
        refuse(
            format!("has the unit `{unit}`, which programs read differently"),
            format!(
                "write {}{meant}; units are KiB (1024 bytes), MiB (1024 KiB), GiB and TiB",
                shown(number)
            ),
        )
    } else {
        refuse("is not a size".to_owned(), FORMS.to_owned())
    })
}

/// The size in the largest unit that leaves no fraction.
pub(crate) fn show_size(bytes: u64) -> String {
    let (unit, unit_bytes) = UNITS
        .into_iter()
        .find(|&(_, unit_bytes)| bytes >= unit_bytes && bytes.is_multiple_of(unit_bytes))
        .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / unit_bytes)
}

/// The size to a tenth of the largest unit that it reaches, rounded down: what is left of something
/// is never shown as more than it is.
pub fn show_size_roughly(bytes: u64) -> String {
    let Some((unit, unit_bytes)) = UNITS.into_iter().find(|&(_, of)| bytes >= of) else {
        return format!("{bytes}B");
    };
    let (whole, rest) = (bytes / unit_bytes, bytes % unit_bytes);
    // Less than a unit: ten times that is within the type.
    match rest * 10 / unit_bytes {
        0 => format!("{whole}{unit}"),
        tenths => format!("{whole}.{tenths}{unit}"),
    }
}

/// `GB`, `Gi`, `g`, `gib`: the binary unit that its writer most likely has in mind.
fn meant_unit(unit: &str) -> Option<&'static str> {
    let lower = unit.trim().to_ascii_lowercase();
    UNITS.iter().map(|&(known, _)| known).find(|known| {
        let letter = known[..1].to_ascii_lowercase();
        ["", "b", "i", "ib"]
            .iter()
            .any(|end| lower.strip_prefix(&letter) == Some(end))
    })
}

/// `1.5GiB` as `1536MiB`; what is no whole number of KiB is rounded down to one.
fn whole_of_fraction(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.')?;
    let meant = meant_unit(unit)?;
    let (_, unit_bytes) = UNITS.into_iter().find(|&(known, _)| known == meant)?;
    let parts = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let bytes = whole
        .parse::<u64>()
        .ok()?
        .checked_mul(unit_bytes)?
        .checked_add(fraction.parse::<u64>().ok()?.checked_mul(unit_bytes)? / parts)?;
    (bytes >= 1024).then(|| show_size(bytes & !1023))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_sizes_come_back_as_written() {
        for (text, bytes, shown) in [
            ("4096KiB", 4 << 20, "4MiB"),
            ("512MiB", 512 << 20, "512MiB"),
            ("2GiB", 2 << 30, "2GiB"),
            ("1536MiB", 1536 << 20, "1536MiB"),
            ("16TiB", 16 << 40, "16TiB"),
            ("0KiB", 0, "0B"),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(show_size(bytes), shown, "{text}");
        }
    }

    #[test]
    fn what_is_left_is_shown_to_a_tenth_and_never_as_more() {
        for (bytes, shown) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            ((2 << 30) - 1, "1.9GiB"),
            (2 << 30, "2GiB"),
            ((1 << 30) + (256 << 20), "1.2GiB"),
            (u64::MAX, "16777215.9TiB"),
        ] {
            assert_eq!(show_size_roughly(bytes), shown);
        }
    }

    #[test]
    fn refused_sizes_say_what_to_write() {
        const UNITS: &str = "units are KiB (1024 bytes), MiB (1024 KiB), GiB and TiB";
        for (text, expected) in [
            (
                "",
                "is not a size; write for example 512MiB or 2GiB".to_owned(),
            ),
            (
                "2",
                "has no unit; write for example 512MiB or 2GiB".to_owned(),
            ),
            (
                "GiB",
                "has no number; write for example 512MiB or 2GiB".to_owned(),
            ),
            (
                "lots",
                "is not a size; write for example 512MiB or 2GiB".to_owned(),
            ),
            (
                "-2GiB",
                "is not a size; write for example 512MiB or 2GiB".to_owned(),
            ),
            (
                "2GB",
                format!("has the unit `GB`, which programs read differently; write 2GiB; {UNITS}"),
            ),
            (
                "2Gi",
                format!("has the unit `Gi`, which programs read differently; write 2GiB; {UNITS}"),
            ),
            (
                "2g",
                format!("has the unit `g`, which programs read differently; write 2GiB; {UNITS}"),
            ),
            (
                "512 MiB",
                format!(
                    "has the unit ` MiB`, which programs read differently; write 512MiB; {UNITS}"
                ),
            ),
            (
                "512kB",
                format!(
                    "has the unit `kB`, which programs read differently; write 512KiB; {UNITS}"
                ),
            ),
            (
                "2B",
                "is not a size; write for example 512MiB or 2GiB".to_owned(),
            ),
            (
                "1.5GiB",
                "has a fraction; write a whole number, 1536MiB".to_owned(),
            ),
            (
                "0.3GB",
                "has a fraction; write a whole number, 314572KiB".to_owned(),
            ),
            (
                "99999999999999999999TiB",
                "is too large; write a smaller size".to_owned(),
            ),
            (
                "99999999TiB",
                "is too large; write a smaller size".to_owned(),
            ),
        ] {
            let error = parse_size(text).unwrap_err();
            assert_eq!(error.to_string(), format!("`{text}` {expected}"));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(kib in 1u64..=1 << 34) {
            prop_assert_eq!(parse_size(&show_size(kib << 10)), Ok(kib << 10));
        }

        #[test]
        fn any_text_is_answered(text in "[0-9.KMGTiBb ]{0,12}|.*") {
            let _ = parse_size(&text);
        }
    }
}
