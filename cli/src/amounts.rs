//! Lengths of time and sizes, as a person wants them: one form for each, wherever they are shown.

use protocol::DurationMs;

/// A length of time as precise as a person wants it: `12ms`, `1.2s`, `47s`, `4m12s`, `3h05m`, `2d4h`.
pub(crate) fn rough(length: DurationMs) -> String {
    let ms = length.0;
    match ms {
        i64::MIN..0 => format!("-{}", rough(DurationMs(ms.saturating_neg()))),
        0..1000 => format!("{ms}ms"),
        1000..10_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        10_000..60_000 => format!("{}s", ms / 1000),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
        3_600_000..86_400_000 => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{}d{}h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

/// The same of microseconds: `250us`, `1.2ms`.
pub(crate) fn rough_us(us: i64) -> String {
    match us {
        i64::MIN..0 => format!("-{}", rough_us(us.saturating_neg())),
        0..1000 => format!("{us}us"),
        1000..10_000 => format!("{}.{}ms", us / 1000, us % 1000 / 100),
        _ => rough(DurationMs(us / 1000)),
    }
}

/// `512 B`, `1.4 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_precise_as_wanted() {
        for (us, expected) in [
            (0, "0us"),
            (999, "999us"),
            (1_250, "1.2ms"),
            (12_400, "12ms"),
            (1_250_000, "1.2s"),
            (47_900_000, "47s"),
            (252_000_000, "4m12s"),
            (11_100_000_000, "3h05m"),
            (187_200_000_000, "2d4h"),
            (-1_500_000, "-1.5s"),
            (-20, "-20us"),
        ] {
            assert_eq!(rough_us(us), expected);
            if us % 10_000 == 0 && us != 0 {
                assert_eq!(rough(DurationMs(us / 1000)), expected);
            }
        }
        assert_eq!(rough(DurationMs(0)), "0ms");
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        for (bytes, expected) in [
            (512, "512 B"),
            (1 << 20, "1.0 MiB"),
            (3_000_592_982_016, "2.7 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
