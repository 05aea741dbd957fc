//! What a latency of fdatasync is worth to a coordinator, which waits for one with every commit.

use serde::{Deserialize, Serialize};

/// A sync that takes longer is told of as an event, whatever the others took: it is as long as an
/// election.
pub const SLOW_SYNC_US: u64 = 1_000_000;

/// Grades by the 99th percentile. B ends where etcd's limit for its log is; D is refused the role of a
/// coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Grade {
    A,
    B,
    C,
    D,
}

impl Grade {
    pub fn of_p99_us(p99_us: u64) -> Grade {
        match p99_us {
            0..=2_000 => Grade::A,
            2_001..=10_000 => Grade::B,
            10_001..=20_000 => Grade::C,
            _ => Grade::D,
        }
    }

    /// The word that facts of a host have for it.
    pub fn as_str(self) -> &'static str {
        protocol::host::FSYNC_GRADES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_by_the_99th_percentile() {
        for (p99_us, expected) in [
            (0, "A"),
            (2_000, "A"),
            (2_001, "B"),
            (10_000, "B"),
            (10_001, "C"),
            (20_000, "C"),
            (20_001, "D"),
            (u64::MAX, "D"),
        ] {
            assert_eq!(Grade::of_p99_us(p99_us).as_str(), expected, "{p99_us}");
        }
    }
}
