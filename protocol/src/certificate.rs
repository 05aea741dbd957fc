//! How long a certificate is good for, when it is to be renewed, and when its end is near.
//!
//! A certificate is renewed at two thirds of its life, so that whoever gives certificates may be away for
//! a third of it. A connection rests on two of them and ends with the first, so it is replaced by another
//! between the renewal and the end: in that time either side has had the occasion to get a new one.

use crate::time::{DurationMs, WallMs};

/// A certificate is valid from this long before its issue, for peers whose clock is behind.
pub const BACKDATED: DurationMs = DurationMs::from_secs(3600);

/// A person is told of a certificate's end this long before it, or a tenth of its lifetime before,
/// whichever is later.
const WARNING: DurationMs = DurationMs(30 * 86_400_000);

/// At most so long after a renewal that failed it is tried again.
const AGAIN: DurationMs = DurationMs(3_600_000);

/// The time in which a certificate is good: from the first instant through the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub from: WallMs,
    pub until: WallMs,
}

impl Lifetime {
    /// From its issue to its end.
    fn life(self) -> DurationMs {
        DurationMs((self.until - self.from).0 - BACKDATED.0).max(DurationMs::ZERO)
    }

    /// From when on another one is asked for.
    pub fn renews_from(self) -> WallMs {
        self.until - DurationMs(self.life().0 / 3)
    }

    /// How long to wait until one is asked for again that was not given.
    pub fn renews_again_after(self) -> DurationMs {
        DurationMs(self.life().0 / 30).clamp_to(AGAIN)
    }

    /// When a connection that rests on it is replaced. `share`, of 255, spreads those of many hosts that
    /// were let in at one time.
    pub fn replaced_at(self, share: u8) -> WallMs {
        let life = self.life().0;
        self.until - DurationMs(life / 6 + life / 12 * i64::from(share) / 255)
    }

    /// From when on a person should know that it will end.
    pub fn warns_from(self) -> WallMs {
        let tenth = DurationMs(self.life().0 / 10);
        self.until - tenth.clamp_to(WARNING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn a_month_before_the_end_or_a_tenth_of_a_short_life() {
        for (days, warns_days_before) in [(365, 30), (3_650, 30), (300, 30), (100, 10), (10, 1)] {
            let life = Lifetime {
                from: WallMs(0) - BACKDATED,
                until: WallMs(days * DAY),
            };
            assert_eq!(life.warns_from(), WallMs((days - warns_days_before) * DAY));
        }
    }

    #[test]
    fn it_is_renewed_before_its_connections_are_replaced_and_they_before_a_person_is_told() {
        for (life, again) in [(30 * DAY, 3_600_000), (60_000, 2_000), (5_000, 166)] {
            let issued = WallMs(1_000 * DAY);
            let lifetime = Lifetime {
                from: issued - BACKDATED,
                until: issued + DurationMs(life),
            };
            assert_eq!(lifetime.renews_from(), issued + DurationMs(life - life / 3));
            assert_eq!(lifetime.renews_again_after(), DurationMs(again));
            let (first, last) = (lifetime.replaced_at(255), lifetime.replaced_at(0));
            assert!(lifetime.renews_from() < first && first < last);
            assert_eq!(last, issued + DurationMs(life - life / 6));
            assert!(last < lifetime.warns_from());
        }
    }
}
