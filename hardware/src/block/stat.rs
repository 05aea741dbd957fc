//! `/sys/block/*/stat`: what the kernel counts of a disk. Of its numbers the last two are wanted, flushes
//! and the time they took (Linux 5.5 and later): they tell for nothing how long a flush takes.

/// Counters of one disk since the kernel started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCounters {
    pub sectors_written: u64,
    /// Milliseconds in which something was under way.
    pub busy_ms: u64,
    pub flushes: u64,
    pub flush_ms: u64,
}

impl DiskCounters {
    /// What was counted since an earlier look. None where the counters began anew in between.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            sectors_written: self.sectors_written.checked_sub(earlier.sectors_written)?,
            busy_ms: self.busy_ms.checked_sub(earlier.busy_ms)?,
            flushes: self.flushes.checked_sub(earlier.flushes)?,
            flush_ms: self.flush_ms.checked_sub(earlier.flush_ms)?,
        })
    }

    /// How long a flush took on average.
    pub fn flush_mean_us(&self) -> Option<f64> {
        (self.flushes > 0).then(|| self.flush_ms as f64 * 1000.0 / self.flushes as f64)
    }
}

/// Reads the file. None where the kernel is too old to count flushes, or the text is anything else.
pub fn parse_disk_counters(text: &str) -> Option<DiskCounters> {
    let numbers: Option<Vec<u64>> = text
        .split_whitespace()
        .map(|number| number.parse().ok())
        .collect();
    let numbers = numbers?;
    let at = |place: usize| numbers.get(place - 1).copied();
    Some(DiskCounters {
        sectors_written: at(7)?,
        busy_ms: at(10)?,
        flushes: at(16)?,
        flush_ms: at(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_the_last_of_seventeen() {
        let text = "1 2 3 4 5 6 70 8 9 100 11 12 13 14 15 545 23\n";
        let counters = parse_disk_counters(text).unwrap();
        assert_eq!(
            (counters.sectors_written, counters.busy_ms, counters.flushes),
            (70, 100, 545)
        );
        assert_eq!(counters.flush_mean_us().map(f64::round), Some(42.0));
        let later = DiskCounters {
            flushes: 555,
            flush_ms: 123,
            ..counters
        };
        let between = later.since(&counters).unwrap();
        assert_eq!(between.flush_mean_us(), Some(10_000.0));
        assert_eq!(counters.since(&later), None);
    }

    #[test]
    fn old_kernels_count_no_flushes() {
        for text in ["", "1 2 3 4 5 6 7 8 9 10 11", "1 2 x", "-1"] {
            assert_eq!(parse_disk_counters(text), None, "{text:?}");
        }
        let none = parse_disk_counters(&"0 ".repeat(17)).unwrap();
        assert_eq!(none.flush_mean_us(), None);
    }
}
