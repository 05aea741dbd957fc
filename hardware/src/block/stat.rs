//! `/sys/block/*/stat`: what the kernel counts of a disk. The last two of its numbers are the flushes and
//! the time they took (Linux 5.5 and later): they tell for nothing how long a flush takes.

use serde::{Deserialize, Serialize};

const SECTOR_BYTES: u64 = 512;

/// Counters of one disk since the kernel started, or of the time between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    pub written_bytes: u64,
    /// Time in which something was under way.
    pub busy_ms: u64,
    /// Flushes of its cache, and the time that they took together. None before Linux 5.5.
    pub flushes: Option<u64>,
    pub flush_ms: Option<u64>,
}

impl DiskCounters {
    /// What came since an earlier reading; None where a counter went back, which means that it is
    /// another device or began anew.
    pub fn since(&self, earlier: &DiskCounters) -> Option<DiskCounters> {
        let both = |now: Option<u64>, then: Option<u64>| match (now, then) {
            (Some(now), Some(then)) => now.checked_sub(then).map(Some),
            _ => Some(None),
        };
        Some(DiskCounters {
            written_bytes: self.written_bytes.checked_sub(earlier.written_bytes)?,
            busy_ms: self.busy_ms.checked_sub(earlier.busy_ms)?,
            flushes: both(self.flushes, earlier.flushes)?,
            flush_ms: both(self.flush_ms, earlier.flush_ms)?,
        })
    }

    /// Share of a time that it was busy for, of the counters of that time.
    pub fn busy_per_mille(&self, elapsed_ms: u64) -> Option<u32> {
        let share = self.busy_ms.saturating_mul(1000).checked_div(elapsed_ms)?;
        Some(share.min(1000) as u32)
    }

    /// Mean time of a flush, of the counters of some time; None where none was made.
    pub fn flush_mean_us(&self) -> Option<u64> {
        self.flush_ms?
            .saturating_mul(1000)
            .checked_div(self.flushes?)
    }
}

/// Reads the file. None where the text is anything else; a kernel that counts no flushes tells the rest.
pub fn parse_disk_counters(text: &str) -> Option<DiskCounters> {
    let fields = text.split_ascii_whitespace().map(str::parse);
    let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
    Some(DiskCounters {
        written_bytes: fields.get(6)?.checked_mul(SECTOR_BYTES)?,
        busy_ms: *fields.get(9)?,
        flushes: fields.get(15).copied(),
        flush_ms: fields.get(16).copied(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "   20123     3990  2530674    20020     8015    49699 19555952   125743       47    11052   147785     5006       33   468112     2019       51        2\n";

    #[test]
    fn counters_stand_at_their_places() {
        let read = parse_disk_counters(STAT).unwrap();
        let expected = DiskCounters {
            written_bytes: 19_555_952 * 512,
            busy_ms: 11_052,
            flushes: Some(51),
            flush_ms: Some(2),
        };
        assert_eq!(read, expected);
        assert_eq!(read.flush_mean_us(), Some(39));
        let old: Vec<&str> = STAT.split_whitespace().take(11).collect();
        let old = parse_disk_counters(&old.join(" ")).unwrap();
        assert_eq!((old.flushes, old.flush_mean_us()), (None, None));
        assert_eq!(old.busy_ms, 11_052);
        for broken in ["", "1 2 3", "a b c d e f g h i j k", "-1"] {
            assert_eq!(parse_disk_counters(broken), None, "{broken:?}");
        }
        let none = parse_disk_counters(&"0 ".repeat(17)).unwrap();
        assert_eq!((none.flushes, none.flush_mean_us()), (Some(0), None));
    }

    #[test]
    fn what_came_since_and_what_that_means() {
        let counters = |written_bytes, busy_ms, flushes, flush_ms| DiskCounters {
            written_bytes,
            busy_ms,
            flushes: Some(flushes),
            flush_ms: Some(flush_ms),
        };
        let earlier = counters(1_000, 500, 10, 20);
        let later = counters(5_000, 1_300, 14, 50);
        let came = later.since(&earlier).unwrap();
        assert_eq!(came, counters(4_000, 800, 4, 30));
        assert_eq!(came.flush_mean_us(), Some(7_500));
        assert_eq!(came.busy_per_mille(1_000), Some(800));
        assert_eq!(came.busy_per_mille(0), None);
        assert_eq!(earlier.since(&later), None);
        assert_eq!(earlier.since(&earlier).unwrap().flush_mean_us(), None);
    }
}
