//! How long a certificate is good for, and when its end is near.

use crate::time::{DurationMs, WallMs};

/// A person is told of a certificate's end this long before it, or a tenth of its lifetime before,
/// whichever is later.
const WARNING: DurationMs = DurationMs(30 * 86_400_000);

/// The time in which a certificate is good: from the first instant through the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub from: WallMs,
    pub until: WallMs,
}

impl Lifetime {
    /// From when on a person should know that it will end.
    pub fn warns_from(self) -> WallMs {
        let tenth = DurationMs((self.until - self.from).0 / 10);
        self.until - tenth.clamp_to(WARNING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_before_the_end_or_a_tenth_of_a_short_life() {
        const DAY: i64 = 86_400_000;
        for (days, warns_days_before) in [(365, 30), (3_650, 30), (300, 30), (100, 10), (10, 1)] {
            let life = Lifetime {
                from: WallMs(0),
                until: WallMs(days * DAY),
            };
            assert_eq!(life.warns_from(), WallMs((days - warns_days_before) * DAY));
        }
    }
}
