//! Whether a disk has become slow in flushing, by what the kernel counts anyway.
//!
//! A drive that fails, a cache whose battery ran down or a neighbour on the same array show in the
//! flushes long before anything says so. Each five minutes have a mean; one that is more than three times
//! the median of the last seven days, and above 5 ms, is too long, and two in a row are told. The
//! median does not follow a day of slowness, as a mean would; it does follow one of half a week, after which
//! the disk is called what it is.

use std::collections::VecDeque;

use hardware::DiskCounters;
use serde::{Deserialize, Serialize};

const WINDOW_MS: i64 = 5 * 60 * 1000;
/// Seven days of windows.
const WINDOWS_MAX: usize = 7 * 24 * 12;
/// Before so many windows nothing is judged: an hour, so that a disk is not held against its own boot.
const WINDOWS_MIN: usize = 12;
/// A mean above this multiple of the median ...
const FACTOR: u64 = 3;
/// ... and above this is too long.
const FLOOR_US: u64 = 5_000;
/// So many in a row are told.
const IN_A_ROW: u32 = 2;

/// Watches the flushes of one device. It can be written and read back, so that a restart of whoever
/// watches does not begin the seven days anew; the clock must be one that a restart does not set back, and
/// a step of it costs the window under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushDrift {
    /// Where the window under way began.
    begun: Option<(i64, DiskCounters)>,
    /// Means of past windows, the oldest first. Windows without a flush are not among them.
    means_us: VecDeque<u32>,
    long_in_a_row: u32,
}

/// A disk flushes slower than it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// Mean of the newest window.
    pub mean_us: u64,
    /// Median of the windows of seven days before.
    pub median_us: u64,
    pub windows_in_a_row: u32,
}

impl FlushDrift {
    /// Takes a reading, as often as one likes; every 15 s is plenty. Answers at the end of each window
    /// that is the second or later in a row to be too long.
    pub fn handle_reading(&mut self, now_ms: i64, counters: DiskCounters) -> Option<Drift> {
        let Some((begun_ms, before)) = self.begun else {
            self.begun = Some((now_ms, counters));
            return None;
        };
        let elapsed_ms = now_ms - begun_ms;
        if (0..WINDOW_MS).contains(&elapsed_ms) && counters.since(&before).is_some() {
            return None;
        }
        self.begun = Some((now_ms, counters));
        // A window that was slept through, or whose clock or counters went back, says nothing.
        if !(WINDOW_MS..2 * WINDOW_MS).contains(&elapsed_ms) {
            return None;
        }
        let mean_us = counters.since(&before)?.flush_mean_us()?;
        let drift = self.judge(mean_us);
        if self.means_us.len() == WINDOWS_MAX {
            self.means_us.pop_front();
        }
        self.means_us
            .push_back(u32::try_from(mean_us).unwrap_or(u32::MAX));
        drift
    }

    /// Whether the last window, like the one before it, was too long.
    pub fn is_slow(&self) -> bool {
        self.long_in_a_row >= IN_A_ROW
    }

    /// Median of the windows so far; None before there are enough of them.
    pub fn median_us(&self) -> Option<u64> {
        if self.means_us.len() < WINDOWS_MIN {
            return None;
        }
        let mut means: Vec<u32> = self.means_us.iter().copied().collect();
        let middle = means.len() / 2;
        let (_, median, _) = means.select_nth_unstable(middle);
        Some(u64::from(*median))
    }

    fn judge(&mut self, mean_us: u64) -> Option<Drift> {
        let median_us = self.median_us()?;
        if mean_us > FLOOR_US && mean_us > FACTOR * median_us {
            self.long_in_a_row = self.long_in_a_row.saturating_add(1);
        } else {
            self.long_in_a_row = 0;
        }
        self.is_slow().then_some(Drift {
            mean_us,
            median_us,
            windows_in_a_row: self.long_in_a_row,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk and whoever watches it.
    struct Watched {
        drift: FlushDrift,
        now_ms: i64,
        counters: DiskCounters,
    }

    impl Watched {
        /// One that has watched windows of this mean.
        fn with_past(windows: usize, mean_us: u64) -> Watched {
            let counters = DiskCounters {
                flushes: Some(0),
                flush_ms: Some(0),
                ..DiskCounters::default()
            };
            let mut watched = Watched {
                drift: FlushDrift::default(),
                now_ms: 0,
                counters,
            };
            watched.drift.handle_reading(0, counters);
            for _ in 0..windows {
                assert_eq!(watched.window(mean_us), None);
            }
            watched
        }

        fn window(&mut self, mean_us: u64) -> Option<Drift> {
            self.time(WINDOW_MS, 1_000, mean_us)
        }

        fn time(&mut self, ms: i64, flushes: u64, mean_us: u64) -> Option<Drift> {
            self.now_ms += ms;
            let add = |to: &mut Option<u64>, by: u64| *to = to.map(|held| held + by);
            add(&mut self.counters.flushes, flushes);
            add(&mut self.counters.flush_ms, flushes * mean_us / 1000);
            self.drift.handle_reading(self.now_ms, self.counters)
        }
    }

    #[test]
    fn two_long_windows_in_a_row_are_told() {
        // (mean of the past, means that follow, which of them is told)
        for (past_us, means_us, expected) in [
            (2_000, &[7_000, 7_000][..], &[false, true][..]),
            (2_000, &[7_000, 7_000, 7_000], &[false, true, true]),
            (2_000, &[7_000, 2_000, 7_000], &[false, false, false]),
            // Exactly three times is not more than that.
            (2_000, &[6_000, 6_000], &[false, false]),
            // Ten times as slow, and still fast.
            (400, &[4_000, 4_000], &[false, false]),
            (400, &[5_000, 5_001, 5_001], &[false, false, true]),
        ] {
            let mut watched = Watched::with_past(100, past_us);
            let told: Vec<bool> = means_us
                .iter()
                .map(|mean_us| watched.window(*mean_us).is_some())
                .collect();
            assert_eq!(told, expected, "{past_us} and then {means_us:?}");
        }
    }

    #[test]
    fn what_is_told_says_against_what() {
        let mut watched = Watched::with_past(100, 2_000);
        watched.window(9_000);
        let told = watched.window(8_000).unwrap();
        let expected = Drift {
            mean_us: 8_000,
            median_us: 2_000,
            windows_in_a_row: 2,
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn nothing_is_judged_without_a_past() {
        let mut watched = Watched::with_past(WINDOWS_MIN - 1, 1_000);
        assert_eq!(watched.window(50_000), None);
        assert_eq!(watched.window(50_000), None);
        assert!(watched.window(50_000).is_some());
    }

    #[test]
    fn windows_that_say_nothing_break_nothing() {
        let mut watched = Watched::with_past(100, 1_000);
        assert_eq!(watched.window(9_000), None);
        // Nobody flushed: neither long nor short.
        assert_eq!(watched.time(WINDOW_MS, 0, 0), None);
        // Nobody looked for an hour.
        assert_eq!(watched.time(12 * WINDOW_MS, 1_000, 90_000), None);
        // The clock went back.
        assert_eq!(watched.time(-WINDOW_MS, 10, 90_000), None);
        assert!(watched.window(9_000).is_some());
        // Another disk has the name now, and is looked at for a whole window first.
        watched.counters.flushes = Some(0);
        watched.counters.flush_ms = Some(0);
        assert_eq!(watched.time(1_000, 10, 90_000), None);
        assert_eq!(watched.time(WINDOW_MS - 1_000, 10, 90_000), None);
        assert!(watched.time(1_000, 10, 90_000).is_some());
    }

    #[test]
    fn seven_days_are_kept_and_no_more() {
        let mut watched = Watched::with_past(WINDOWS_MAX, 1_000);
        for _ in 0..=WINDOWS_MAX / 2 {
            watched.window(9_000);
        }
        assert_eq!(watched.drift.means_us.len(), WINDOWS_MAX);
        // By now it is a slow disk, and no longer one that became slow.
        assert_eq!(watched.window(9_000), None);
        let text = serde_json::to_string(&watched.drift).unwrap();
        assert_eq!(
            serde_json::from_str::<FlushDrift>(&text).unwrap(),
            watched.drift
        );
    }
}
