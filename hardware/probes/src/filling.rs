//! How fast a file system fills, and when it will be full.
//!
//! Pure: fed with samples and the boot clock's time of each. Over an hour it tells of what fills now, over
//! a day of what fills every day; the earlier of both is when somebody must have acted.

use std::collections::VecDeque;

use protocol::time::{BootMs, DurationMs};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Samples are kept this far apart.
const APART_MS: i64 = 5 * 60_000;
/// A slope over less than this part of its window says nothing.
const SHARE_MIN_PERCENT: i64 = 50;

/// Samples of one file system, over a day.
#[derive(Clone, Debug, Default)]
pub struct Filling {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: BootMs,
    used_bytes: u64,
    free_bytes: u64,
}

/// What follows from the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Bytes an hour, below 0 where it empties. None until half of the window has been seen.
    pub hour_bytes_per_h: Option<i64>,
    pub day_bytes_per_h: Option<i64>,
    /// How long until nothing is free, if it goes on. None where it does not fill.
    pub full_in: Option<DurationMs>,
}

impl Filling {
    /// Takes what was free of how much. A sample of another size begins anew: it was grown, or is another
    /// file system.
    pub fn handle_sample(&mut self, now: BootMs, size_bytes: u64, free_bytes: u64) {
        let used_bytes = size_bytes.saturating_sub(free_bytes);
        let sample = Sample {
            at: now,
            used_bytes,
            free_bytes,
        };
        let size_before = self
            .samples
            .back()
            .map(|last| last.used_bytes.saturating_add(last.free_bytes));
        if size_before.is_some_and(|before| before != used_bytes.saturating_add(free_bytes)) {
            self.samples.clear();
        }
        // The newest stands for the time since the last that is kept.
        if self.samples.len() >= 2 {
            let before_last = self.samples[self.samples.len() - 2].at;
            if now.0.saturating_sub(before_last.0) < APART_MS {
                self.samples.pop_back();
            }
        }
        self.samples.push_back(sample);
        while let Some(first) = self.samples.front()
            && now.0.saturating_sub(first.at.0) > DAY_MS
        {
            self.samples.pop_front();
        }
    }

    pub fn forecast(&self) -> Forecast {
        let hour = self.slope(HOUR_MS);
        let day = self.slope(DAY_MS);
        let Some(last) = self.samples.back() else {
            return Forecast::default();
        };
        let fastest = hour.into_iter().chain(day).max().filter(|slope| *slope > 0);
        let full_in = fastest.map(|slope| {
            let ms = i128::from(last.free_bytes) * i128::from(HOUR_MS) / i128::from(slope);
            DurationMs(i64::try_from(ms).unwrap_or(i64::MAX))
        });
        Forecast {
            hour_bytes_per_h: hour,
            day_bytes_per_h: day,
            full_in,
        }
    }

    /// Bytes an hour over the last `window_ms`.
    fn slope(&self, window_ms: i64) -> Option<i64> {
        let last = self.samples.back()?;
        let first = self
            .samples
            .iter()
            .find(|sample| last.at.0.saturating_sub(sample.at.0) <= window_ms)?;
        let passed_ms = last.at.0.saturating_sub(first.at.0);
        if passed_ms * 100 < window_ms * SHARE_MIN_PERCENT {
            return None;
        }
        let grown = i128::from(last.used_bytes) - i128::from(first.used_bytes);
        let per_hour = grown * i128::from(HOUR_MS) / i128::from(passed_ms);
        Some(i64::try_from(per_hour).unwrap_or(if grown > 0 { i64::MAX } else { i64::MIN }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn at(minute: u64) -> BootMs {
        BootMs(i64::try_from(minute).unwrap() * 60_000)
    }

    /// A disk of 100 GiB whose use is told for every minute.
    fn forecast(minutes: u64, used: impl Fn(u64) -> u64) -> Forecast {
        let mut filling = Filling::default();
        for minute in 0..=minutes {
            filling.handle_sample(at(minute), 100 * GIB, 100 * GIB - used(minute));
        }
        filling.forecast()
    }

    #[test]
    fn nothing_is_said_too_early() {
        assert_eq!(forecast(0, |_| GIB), Forecast::default());
        assert_eq!(forecast(29, |minute| minute * GIB), Forecast::default());
        assert_eq!(Filling::default().forecast(), Forecast::default());
    }

    #[test]
    fn what_fills_evenly_is_full_when_the_rest_is_used() {
        // A GiB an hour from 10 GiB on, over 20 hours.
        let forecast = forecast(20 * 60, |minute| 10 * GIB + minute * GIB / 60);
        let gib = i64::try_from(GIB).unwrap();
        for slope in [forecast.hour_bytes_per_h, forecast.day_bytes_per_h] {
            assert!((slope.unwrap() - gib).abs() < gib / 1000, "{forecast:?}");
        }
        let full_in_h = forecast.full_in.unwrap().0 as f64 / HOUR_MS as f64;
        assert!((full_in_h - 70.0).abs() < 0.1, "{full_in_h}");
    }

    #[test]
    fn the_faster_of_both_counts() {
        // Still for 20 hours, then 10 GiB in one.
        let burst = forecast(21 * 60, |minute| {
            10 * GIB + minute.saturating_sub(20 * 60) * GIB / 6
        });
        assert!(burst.hour_bytes_per_h > burst.day_bytes_per_h);
        let full_in_h = burst.full_in.unwrap().0 as f64 / HOUR_MS as f64;
        assert!((7.9..8.1).contains(&full_in_h), "{full_in_h}");
        // What empties now and fills over the day will still be full.
        let saw = forecast(20 * 60, |minute| {
            (minute * GIB / 60).min(40 * GIB - minute * GIB / 60)
        });
        assert!(saw.full_in.is_some());
        let emptying = forecast(20 * 60, |minute| 50 * GIB - minute * GIB / 60);
        assert_eq!(emptying.full_in, None);
        assert!(emptying.day_bytes_per_h.unwrap() < 0);
    }

    #[test]
    fn a_disk_that_was_grown_begins_anew() {
        let mut filling = Filling::default();
        for minute in 0..120 {
            filling.handle_sample(at(minute), 100 * GIB, 50 * GIB);
        }
        filling.handle_sample(at(121), 200 * GIB, 150 * GIB);
        assert_eq!(filling.forecast(), Forecast::default());
    }

    #[test]
    fn a_day_of_samples_is_few() {
        let mut filling = Filling::default();
        for second in 0..3 * 24 * 3600 / 5 {
            filling.handle_sample(BootMs(second * 5000), GIB, GIB / 2);
        }
        let most = 300;
        assert!(filling.samples.len() <= most, "{}", filling.samples.len());
        assert_eq!(filling.forecast().day_bytes_per_h, Some(0));
    }
}
