//! `@every <duration>`: an interval that counts from an anchor and knows no clock face.

use protocol::{DurationMs, WallMs};

use super::error::ScheduleError;

const PERIOD_MS_MIN: i64 = 1000;
const PERIOD_MS_MAX: i64 = 366 * 86_400_000;

/// The period of an expression that is an interval, in whatever dialect.
pub(super) fn period_of(text: &str) -> Option<&str> {
    let period = text.trim().strip_prefix("@every")?;
    period
        .starts_with([' ', '\t'])
        .then(|| period.trim_matches([' ', '\t']))
}

/// A period: whole seconds, one second to 366 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Every {
    period_ms: i64,
}

impl Every {
    pub(super) fn parse(text: &str) -> Result<Every, ScheduleError> {
        let refuse =
            |reason: String, remedy: &str| ScheduleError::new("period", text, reason, remedy);
        let DurationMs(period_ms) =
            crate::parse_duration(text).map_err(|error| refuse(error.reason, &error.remedy))?;
        if !(PERIOD_MS_MIN..=PERIOD_MS_MAX).contains(&period_ms) {
            return Err(refuse(
                "is outside 1s to 366d".to_owned(),
                "write a period of at least a second and at most a year",
            ));
        }
        if period_ms % 1000 != 0 {
            return Err(refuse(
                "is not a whole number of seconds".to_owned(),
                "write whole seconds",
            ));
        }
        Ok(Every { period_ms })
    }

    pub(super) fn period(self) -> DurationMs {
        DurationMs(self.period_ms)
    }

    /// How many instants lie in (`anchor`, `through`].
    pub(super) fn count_through(self, anchor: WallMs, through: WallMs) -> u64 {
        let elapsed = i128::from(through.0) - i128::from(anchor.0);
        u64::try_from(elapsed.max(0) / i128::from(self.period_ms)).unwrap_or(u64::MAX)
    }

    /// The last anchor at or before `after` that names `fire`.
    pub(super) fn anchor_of(self, fire: WallMs, after: WallMs) -> WallMs {
        let back = (i128::from(after.0) - i128::from(fire.0)).div_euclid(self.period_ms.into());
        let at = i128::from(fire.0) + back * i128::from(self.period_ms);
        WallMs(i64::try_from(at).unwrap_or(i64::MIN))
    }

    /// The nth instant after the anchor, from 1; `None` past the end of time.
    pub(super) fn nth(self, anchor: WallMs, n: u64) -> Option<WallMs> {
        let at = i128::from(anchor.0) + i128::from(n) * i128::from(self.period_ms);
        i64::try_from(at).ok().map(WallMs)
    }
}
