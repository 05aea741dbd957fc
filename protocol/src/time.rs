//! Two kinds of time that must never be mixed, and the distance between two of a kind.
//!
//! [`WallMs`] answers one question: has a fire time come? It can be stepped, by hand or by NTP.
//! Everything else (leases, heartbeats, backoff, time-outs) runs on [`BootMs`], which no step
//! moves and which goes on through suspend. The types do not convert into each other.

use std::fmt;
use std::ops::{Add, Sub};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// An instant of the wall clock: milliseconds since 1970-01-01T00:00:00Z. Displays as RFC 3339.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallMs(pub i64);

/// A reading of one machine's CLOCK_BOOTTIME in milliseconds. Means nothing on another machine,
/// nor after a reboot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootMs(pub i64);

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DurationMs(pub i64);

/// Both clocks, read together by a shell and handed to a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    pub wall: WallMs,
    pub boot: BootMs,
}

impl WallMs {
    /// RFC 3339 in UTC, without a fraction where the instant is a whole second.
    /// Instants outside the years that RFC 3339 can write show as `@<milliseconds>ms`.
    pub fn to_rfc3339(self) -> String {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(t) if self.0 % 1000 == 0 => t.to_rfc3339_opts(SecondsFormat::Secs, true),
            Some(t) => t.to_rfc3339_opts(SecondsFormat::Millis, true),
            None => format!("@{}ms", self.0),
        }
    }

    /// The whole second that this instant lies in.
    #[must_use]
    pub const fn whole_second(self) -> WallMs {
        WallMs(self.0 - self.0.rem_euclid(1000))
    }

    /// Reads an RFC 3339 instant with any offset.
    pub fn parse_rfc3339(text: &str) -> Result<WallMs, chrono::ParseError> {
        DateTime::parse_from_rfc3339(text).map(|t| WallMs(t.timestamp_millis()))
    }
}

impl DurationMs {
    pub const ZERO: DurationMs = DurationMs(0);

    pub const fn from_secs(seconds: i64) -> DurationMs {
        DurationMs(seconds.saturating_mul(1000))
    }

    #[must_use]
    pub fn clamp_to(self, longest: DurationMs) -> DurationMs {
        DurationMs(self.0.clamp(0, longest.0.max(0)))
    }
}

impl fmt::Display for WallMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl fmt::Display for DurationMs {
    /// The shortest of the manifest's forms: `1h30m`, `90s` as `1m30s`, `250ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            return write!(f, "-{}", DurationMs(self.0.saturating_neg()));
        }
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let (ms, total_s) = (self.0 % 1000, self.0 / 1000);
        for (amount, unit) in [
            (total_s / 86_400, "d"),
            (total_s / 3600 % 24, "h"),
            (total_s / 60 % 60, "m"),
            (total_s % 60, "s"),
            (ms, "ms"),
        ] {
            if amount != 0 {
                write!(f, "{amount}{unit}")?;
            }
        }
        Ok(())
    }
}

macro_rules! instant_arithmetic {
    ($instant:ty, $make:path) => {
        impl Add<DurationMs> for $instant {
            type Output = $instant;
            fn add(self, d: DurationMs) -> $instant {
                $make(self.0.saturating_add(d.0))
            }
        }
        impl Sub<DurationMs> for $instant {
            type Output = $instant;
            fn sub(self, d: DurationMs) -> $instant {
                $make(self.0.saturating_sub(d.0))
            }
        }
        impl Sub<$instant> for $instant {
            type Output = DurationMs;
            fn sub(self, earlier: $instant) -> DurationMs {
                DurationMs(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

instant_arithmetic!(WallMs, WallMs);
instant_arithmetic!(BootMs, BootMs);

impl Add for DurationMs {
    type Output = DurationMs;
    fn add(self, other: DurationMs) -> DurationMs {
        DurationMs(self.0.saturating_add(other.0))
    }
}

impl Sub for DurationMs {
    type Output = DurationMs;
    fn sub(self, other: DurationMs) -> DurationMs {
        DurationMs(self.0.saturating_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_a_manifest() {
        for (ms, expected) in [
            (0, "0s"),
            (250, "250ms"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
            (-1500, "-1s500ms"),
        ] {
            assert_eq!(DurationMs(ms).to_string(), expected);
        }
    }

    #[test]
    fn instants_are_rfc_3339_and_come_back() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_764_381_600_123, "2025-11-29T02:00:00.123Z"),
            (i64::MAX, "@9223372036854775807ms"),
        ] {
            assert_eq!(WallMs(ms).to_string(), expected);
        }
        assert_eq!(WallMs(1_999).whole_second(), WallMs(1_000));
        assert_eq!(WallMs(-1).whole_second(), WallMs(-1_000));
        let t = WallMs::parse_rfc3339("2026-11-29T10:00:00+08:00").unwrap();
        assert_eq!(t.to_string(), "2026-11-29T02:00:00Z");
    }
}
