//! Text as tools print it: lines, and `key : value` on them.
//!
//! Spacing, tabs, letter case and line ends differ between versions and terminals, so none of them
//! counts.

/// One line that is not blank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) text: &'a str,
}

impl<'a> Line<'a> {
    pub(crate) fn place(&self) -> String {
        format!("line {}", self.number)
    }

    /// Key and value around the first colon: the key plain, the value as it stands.
    pub(crate) fn pair(&self) -> Option<(String, &'a str)> {
        let (key, value) = self.text.split_once(':')?;
        Some((plain(key), value.trim()))
    }
}

/// Lines that are not blank, trimmed of what surrounds them, whatever ends them.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split('\n')
        .enumerate()
        .map(|(index, line)| Line {
            number: index + 1,
            text: line
                .trim_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}'),
        })
        .filter(|line| !line.text.is_empty())
}

/// Lower case, single blanks, none around: the form in which words are compared.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(&word.to_lowercase());
    }
    plain
}

/// The number that a text begins with and that ends where the text does, or before a blank, a bracket or
/// a unit: `98 %`, `23C`, `4 (2 spare)`, `1,024`. `4r3` is no number, and neither is an empty text.
pub(crate) fn number(text: &str) -> Option<u64> {
    let (digits, rest) = split_number(text, |c| c.is_ascii_digit());
    if let Some(joined) = thousands(text) {
        return joined.parse().ok();
    }
    ends_a_number(rest).then(|| digits.parse().ok())?
}

/// As [`number`], with a sign and a fraction. Some languages write the fraction behind a comma: `8,5%`.
/// `1,024` may be either, and is nothing then.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let (mut digits, mut rest) = split_number(text, is_part);
    let with_point;
    if let Some(fraction) = rest
        .strip_prefix(',')
        .filter(|rest| begins_with_digit(rest))
    {
        let (behind, after) = split_number(fraction, |c| c.is_ascii_digit());
        let is_fraction = behind.len() != 3 || digits.trim_start_matches(['-', '+']) == "0";
        if !is_fraction || digits.contains('.') {
            return None;
        }
        with_point = format!("{digits}.{behind}");
        (digits, rest) = (&with_point, after);
    }
    let value: f64 = digits.parse().ok()?;
    (value.is_finite() && ends_a_number(rest)).then_some(value)
}

/// The digits of a number in groups of three.
fn thousands(text: &str) -> Option<String> {
    let (digits, rest) = split_number(text, |c| c.is_ascii_digit() || c == ',');
    let mut groups = digits.split(',');
    let first = groups
        .next()
        .filter(|first| (1..=3).contains(&first.len()))?;
    let mut joined = first.to_owned();
    for group in groups.clone() {
        if group.len() != 3 {
            return None;
        }
        joined.push_str(group);
    }
    (groups.next().is_some() && ends_a_number(rest)).then_some(joined)
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn split_number(text: &str, part: impl Fn(char) -> bool) -> (&str, &str) {
    let text = text.trim();
    text.split_at(text.find(|c| !part(c)).unwrap_or(text.len()))
}

/// A blank, a bracket, or a unit, which is letters alone: digits behind them make it something else, and
/// so do digits right behind a comma.
fn ends_a_number(rest: &str) -> bool {
    if rest.strip_prefix(',').is_some_and(begins_with_digit) {
        return false;
    }
    let unit = rest
        .split([' ', '\t', '(', ')', ',', ';'])
        .next()
        .unwrap_or("");
    unit.chars()
        .all(|c| c.is_alphabetic() || matches!(c, '%' | '°' | '/'))
}

/// Bytes in `14.551 TB`, `2.725 TB`, `893.75 GB`, `70006 MB`, `960GB`. Tools that count in 1024 and
/// write it as if it were 1000 are taken by what they mean, which is 1024.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    let unit = text[end..].split_whitespace().next().unwrap_or("");
    let power = match unit.to_ascii_lowercase().as_str() {
        "b" | "bytes" => 0,
        "kb" | "kib" | "k" => 1,
        "mb" | "mib" | "m" => 2,
        "gb" | "gib" | "g" => 3,
        "tb" | "tib" | "t" => 4,
        "pb" | "pib" | "p" => 5,
        _ => return None,
    };
    let bytes = value * 1024_f64.powi(power);
    // A disk of no bytes is one that a tool could not ask.
    (bytes >= 1.0 && bytes < 2_f64.powi(63)).then_some(bytes as u64)
}

/// A level of redundancy in the one spelling: `raid10` from `RAID-10`, `1+0`, `RAID 1+0`.
pub(crate) fn level(text: &str) -> Option<String> {
    let said = plain(text);
    let bare = said.strip_prefix("raid").unwrap_or(&said);
    let bare = bare.trim_start_matches([' ', '-', '_', ':']);
    let bare = bare.split([' ', '(']).next().unwrap_or("");
    let adm = said.contains("adm") && !said.contains("adg");
    let level = match bare {
        "0" | "1" | "2" | "3" | "4" | "5" | "6" | "00" | "10" | "50" | "60" | "1e" | "5e"
        | "5ee" => bare,
        "1+0" | "0+1" | "10adm" | "10t" => "10",
        "5+0" => "50",
        "6+0" => "60",
        "adg" => "6",
        "1adm" | "1t" => "1",
        _ => {
            return match said.as_str() {
                "linear" | "multipath" | "container" | "faulty" => Some(said),
                "simple_volume" | "simple volume" | "volume" | "single" | "jbod" => {
                    Some("single".into())
                }
                "spanned_volume" | "spanned volume" | "span" => Some("linear".into()),
                "mirrored" | "mirror" => Some("raid1".into()),
                "striped" | "stripe" => Some("raid0".into()),
                _ => None,
            };
        }
    };
    Some(if adm {
        format!("raid{level}-adm")
    } else {
        format!("raid{level}")
    })
}

/// Whether a level survives the loss of a member.
pub fn is_redundant(level: &str) -> bool {
    !matches!(
        level,
        "raid0" | "raid00" | "linear" | "single" | "container" | "faulty" | "multipath"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_they_end() {
        for (text, expected) in [
            ("98 %", Some(98)),
            ("1,024", Some(1024)),
            ("1,234,567 [634 GB]", Some(1_234_567)),
            ("1, 2", Some(1)),
            ("1,5", None),
            ("1,0245", None),
            ("1234,567", None),
            ("1,024r", Some(1024)),
            ("1,024r3", None),
            ("98%", Some(98)),
            ("34C (93.20 F)", Some(34)),
            ("0", Some(0)),
            ("4r3", None),
            ("4\u{fffd}3", None),
            ("", None),
            ("N/A", None),
            ("-1", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_fraction_may_stand_behind_a_comma() {
        for (text, expected) in [
            ("8.5%", Some(8.5)),
            ("8,5%", Some(8.5)),
            ("0,250050008 seconds slow", Some(0.250_050_008)),
            ("-0,250", Some(-0.25)),
            ("+45,0°C", Some(45.0)),
            ("45, 46", Some(45.0)),
            ("1,024", None),
            ("1.5,5", None),
            ("8,5x3", None),
        ] {
            assert_eq!(decimal(text), expected, "{text:?}");
        }
    }

    #[test]
    fn levels_have_one_spelling() {
        for (text, expected) in [
            ("raid6", Some("raid6")),
            ("RAID 1+0", Some("raid10")),
            ("1+0", Some("raid10")),
            ("RAID-10", Some("raid10")),
            ("RAID6", Some("raid6")),
            ("6 (ADG)", Some("raid6")),
            ("RAID ADG", Some("raid6")),
            ("RAID 1 (ADM)", Some("raid1-adm")),
            ("Spanned_volume", Some("linear")),
            ("Simple_volume", Some("single")),
            ("RAID 7x", None),
            ("", None),
        ] {
            assert_eq!(level(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes_of_nothing_are_not_known() {
        assert_eq!(size("2.0 TB"), Some(2 << 40));
        assert_eq!(size("70006 MB"), Some(70006 << 20));
        assert_eq!(size("0 MB"), None);
        assert_eq!(size("REDACTED"), None);
    }
}
