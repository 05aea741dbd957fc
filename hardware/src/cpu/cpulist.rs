//! Sets of processors as the kernel writes them: lists and masks.

use std::collections::BTreeSet;

/// More numbers than any machine has: a garbled range must not fill the memory.
const NUMBERS_MAX: usize = 1 << 16;

/// `0-3,8,10-62:2`: single numbers, ranges, ranges with a stride, and `0-31:1/2`, one of every two. None
/// if it is anything else; an empty list is an empty set.
pub(super) fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for part in text
        .trim()
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (range, stride) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let (used, group): (u32, u32) = match stride.split_once('/') {
            Some((used, group)) => (used.parse().ok()?, group.parse().ok()?),
            None => (1, stride.parse().ok()?),
        };
        if first > last || group == 0 || (last - first) as usize >= NUMBERS_MAX {
            return None;
        }
        set.extend((first..=last).filter(|number| (number - first) % group < used));
        if set.len() > NUMBERS_MAX {
            return None;
        }
    }
    Some(set)
}

/// `00000000,0000f00f`: words of 32 bits, the highest first.
pub(super) fn parse_mask(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for (word, digits) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits.trim().trim_start_matches("0x"), 16).ok()?;
        let base = u32::try_from(word).ok()?.checked_mul(32)?;
        if word * 32 >= NUMBERS_MAX {
            return None;
        }
        set.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| base + bit),
        );
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks() {
        let set = |numbers: &[u32]| Some(numbers.iter().copied().collect::<BTreeSet<u32>>());
        for (text, expected) in [
            ("0-3,8", set(&[0, 1, 2, 3, 8])),
            ("0-6:2", set(&[0, 2, 4, 6])),
            ("0-7:1/4", set(&[0, 4])),
            ("0-7:2/4", set(&[0, 1, 4, 5])),
            ("", set(&[])),
            ("3-1", None),
            ("0-4000000000", None),
            ("0-4:0", None),
            ("x", None),
        ] {
            assert_eq!(parse_list(text), expected, "{text:?}");
        }
        for (text, expected) in [
            ("f", set(&[0, 1, 2, 3])),
            ("00000001,00000001", set(&[0, 32])),
            ("0", set(&[])),
            ("", None),
            ("g", None),
        ] {
            assert_eq!(parse_mask(text), expected, "{text:?}");
        }
    }
}
