//! Numbers of facts in units that people write and read.
//!
//! The unit of a fact is the end of its name. A number alone is in that unit.

use super::condition::Wrong;

struct Unit {
    /// What the name of the fact ends with.
    ending: &'static str,
    /// What may stand behind a number, the largest first, with what it is worth.
    written: &'static [(&'static str, i64)],
}

const KIB: i64 = 1 << 10;

const UNITS: &[Unit] = &[
    Unit {
        ending: "_bytes",
        written: &[
            ("TiB", KIB * KIB * KIB * KIB),
            ("GiB", KIB * KIB * KIB),
            ("MiB", KIB * KIB),
            ("KiB", KIB),
        ],
    },
    Unit {
        ending: "_bytes_per_s",
        written: &[("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("kB/s", 1000)],
    },
    Unit {
        ending: "_us",
        written: &[("s", 1_000_000), ("ms", 1000), ("us", 1)],
    },
    Unit {
        ending: "_mbit_per_s",
        written: &[("Gbit/s", 1000), ("Mbit/s", 1)],
    },
];

fn units_of(fact: &str) -> &'static [(&'static str, i64)] {
    let unit = UNITS.iter().find(|unit| fact.ends_with(unit.ending));
    unit.map_or(&[], |unit| unit.written)
}

/// Reads a number of this fact.
pub(super) fn read(fact: &str, text: &str) -> Result<i64, Wrong> {
    let units = units_of(fact);
    let shown = jobs::shown(text);
    let refuse = |why: &str| (format!("`{shown}` {why}"), form_in_words(fact));
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    if number.is_empty() {
        return Err(refuse("is no whole number"));
    }
    let rest = rest.trim_start();
    let worth = if rest.is_empty() {
        1
    } else if let Some((_, worth)) = units.iter().find(|(unit, _)| *unit == rest) {
        *worth
    } else if rest.starts_with(['.', ',', '_']) {
        return Err(refuse("is not written as a whole number of plain digits"));
    } else {
        return Err(refuse(&format!("has no unit of {fact}")));
    };
    let number = number.parse::<i64>().ok();
    number
        .and_then(|number| number.checked_mul(worth))
        .ok_or_else(|| refuse("is too large"))
}

/// A number of this fact with the largest unit of which it has one; cut, never rounded up.
pub(super) fn show(fact: &str, number: i64) -> String {
    let unit = units_of(fact)
        .iter()
        .find(|(_, worth)| number.unsigned_abs() >= worth.unsigned_abs());
    let Some(&(unit, worth)) = unit else {
        return number.to_string();
    };
    let tenths = i128::from(number.unsigned_abs()) * 10 / i128::from(worth);
    let (whole, tenth) = (tenths / 10, tenths % 10);
    if tenth == 0 {
        format!("{whole}{unit}")
    } else {
        format!("{whole}.{tenth}{unit}")
    }
}

/// A number of this fact in the largest unit that leaves nothing over, as a rule is written.
pub(super) fn show_exact(fact: &str, number: i64) -> String {
    let unit = units_of(fact)
        .iter()
        .find(|(_, worth)| number != 0 && number % worth == 0);
    match unit {
        Some((unit, worth)) => format!("{}{unit}", number / worth),
        None => number.to_string(),
    }
}

/// As [`show`], but to the last digit where it would read like the bound that it is held against.
pub(super) fn show_beside(fact: &str, number: i64, bound: i64) -> String {
    let shown = show(fact, number);
    if number != bound && shown == show_exact(fact, bound) {
        return number.to_string();
    }
    shown
}

pub(super) fn form_in_words(fact: &str) -> String {
    let units: Vec<&str> = units_of(fact).iter().map(|(unit, _)| *unit).collect();
    match units[..] {
        [] => "write a whole number".to_owned(),
        _ => format!("write a whole number with a unit: {}", units.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_shown_in_units() {
        for (fact, text, number, shown) in [
            ("memory.usable_bytes", "60GiB", 60 << 30, "60GiB"),
            ("memory.usable_bytes", "1536 MiB", 1536 << 20, "1.5GiB"),
            ("memory.usable_bytes", "1023", 1023, "1023"),
            (
                "memory.bandwidth_bytes_per_s",
                "20GB/s",
                20_000_000_000,
                "20GB/s",
            ),
            ("disk.fsync_p99_us", "10ms", 10_000, "10ms"),
            ("disk.fsync_p99_us", "999", 999, "999us"),
            ("clock.bound_us", "1s", 1_000_000, "1s"),
            ("nic.speed_mbit_per_s", "25Gbit/s", 25_000, "25Gbit/s"),
            ("cpu.cores", "8", 8, "8"),
        ] {
            assert_eq!(read(fact, text), Ok(number), "{fact} {text}");
            assert_eq!(show(fact, number), shown, "{fact} {number}");
        }
    }

    #[test]
    fn a_bound_is_shown_as_it_reads_back() {
        for (fact, number, shown) in [
            ("clock.bound_us", 1_000_001, "1000001us"),
            ("clock.bound_us", 1_500_000, "1500ms"),
            ("disk.free_bytes", 1025, "1025"),
            ("disk.free_bytes", 0, "0"),
        ] {
            assert_eq!(show_exact(fact, number), shown);
            assert_eq!(read(fact, shown), Ok(number));
        }
    }

    #[test]
    fn what_is_just_beside_a_bound_does_not_read_like_it() {
        let (bound, less) = (60 << 30, (60 << 30) - 1);
        assert_eq!(show_beside("memory.usable_bytes", less, bound), "59.9GiB");
        assert_eq!(show_beside("memory.usable_bytes", bound, bound), "60GiB");
        assert_eq!(
            show_beside("clock.bound_us", 1_000_001, 1_000_000),
            "1000001"
        );
    }
}
