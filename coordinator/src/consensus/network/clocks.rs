//! How the clocks of the other members stand to this one's.
//!
//! The wall clock of a peer is read by asking: its answer is of some moment between the question and
//! its arrival, so half the way there and back is what is not known of it.

use std::collections::VecDeque;

use protocol::{DurationMs, Now};

use super::wire::{Clock, Condition};

/// A clock is steady when no step of it was seen for so long.
const STEADY_AFTER: DurationMs = DurationMs::from_secs(60);

/// What the wall clock may gain or lose against the boot clock between two looks without having been
/// stepped; steering is a two-thousandth.
const STEP: DurationMs = DurationMs(100);

/// By how much the two clocks of one reading may be apart, and what is cut off of milliseconds.
const READ_TOGETHER: DurationMs = DurationMs(6);

/// Looks that are remembered.
const READINGS: usize = 8;

/// Watches this machine's own wall clock for steps.
#[derive(Debug, Default)]
pub(super) struct OwnClock {
    last: Option<Now>,
    stepped: Option<Now>,
}

impl OwnClock {
    /// To be called every second or so.
    pub(super) fn look(&mut self, now: Now) -> Clock {
        if let Some(last) = self.last {
            let gained = (now.wall - last.wall).0 - (now.boot - last.boot).0;
            if gained.abs() > STEP.0 {
                self.stepped = Some(now);
            }
        }
        self.last = Some(now);
        let steady = self
            .stepped
            .is_none_or(|stepped| now.boot - stepped.boot > STEADY_AFTER);
        Clock {
            wall: now.wall,
            steady,
            spare_bytes: None,
            condition: Condition::default(),
        }
    }
}

/// The clock of a peer as it was found last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerClock {
    /// What it is ahead of this machine's clock.
    pub ahead: DurationMs,
    /// By how much `ahead` may be wrong, either way.
    pub unsure: DurationMs,
    /// The peer has seen no step of its clock in the last minute.
    pub steady: bool,
    /// When it was read, by this machine's clocks.
    pub read: Now,
}

/// The last readings of one peer's clock.
#[derive(Debug, Default)]
pub(super) struct PeerClocks {
    readings: VecDeque<PeerClock>,
}

impl PeerClocks {
    /// `asked` and `answered` are of this machine, `clock` is of the peer.
    pub(super) fn heard(&mut self, asked: Now, answered: Now, clock: &Clock) {
        let way = DurationMs((answered.boot - asked.boot).0.max(0));
        // The boot clock, because the own wall clock may be stepped between the two.
        let half_way = answered.wall - DurationMs(way.0 / 2);
        let reading = PeerClock {
            ahead: clock.wall - half_way,
            unsure: DurationMs(way.0 / 2) + READ_TOGETHER,
            steady: clock.steady,
            read: answered,
        };
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
    }

    /// The newest reading, or an older one of the last seconds that is surer and says the same.
    pub(super) fn best(&self) -> Option<PeerClock> {
        let newest = *self.readings.back()?;
        let agrees =
            |it: &&PeerClock| (it.ahead - newest.ahead).0.abs() <= it.unsure.0 + newest.unsure.0;
        let surest = self
            .readings
            .iter()
            .filter(agrees)
            .min_by_key(|it| it.unsure);
        surest.map(|surest| PeerClock {
            ahead: surest.ahead,
            unsure: surest.unsure,
            ..newest
        })
    }

    pub(super) fn forget(&mut self) {
        self.readings.clear();
    }
}

#[cfg(test)]
mod tests {
    use protocol::{BootMs, WallMs};

    use super::*;

    fn at(wall: i64, boot: i64) -> Now {
        Now {
            wall: WallMs(wall),
            boot: BootMs(boot),
        }
    }

    #[test]
    fn a_step_is_remembered_for_a_minute() {
        let mut clock = OwnClock::default();
        for (wall, boot, steady) in [
            (1_000, 0, true),
            (2_050, 1_000, true),
            (3_000, 2_000, true),
            (4_500, 3_000, false),
            (5_500, 4_000, false),
            (64_400, 63_000, false),
            (65_500, 64_000, true),
            (1_000, 65_000, false),
        ] {
            assert_eq!(clock.look(at(wall, boot)).steady, steady, "{wall} {boot}");
        }
    }

    #[test]
    fn the_surest_of_the_readings_that_agree_counts() {
        let mut clocks = PeerClocks::default();
        assert_eq!(clocks.best(), None);
        let heard = |clocks: &mut PeerClocks, asked: i64, way: i64, wall: i64| {
            let clock = Clock {
                wall: WallMs(wall),
                steady: true,
                spare_bytes: None,
                condition: Condition::default(),
            };
            clocks.heard(at(asked, asked), at(asked + way, asked + way), &clock);
        };
        // Half a second ahead, read in 2 ms; then in 40, of which the way back took 30.
        heard(&mut clocks, 1_000, 2, 1_501);
        heard(&mut clocks, 2_000, 40, 2_510);
        let best = clocks.best().unwrap();
        assert_eq!((best.ahead, best.unsure), (DurationMs(500), DurationMs(7)));
        assert_eq!(best.read, at(2_040, 2_040));
        // It was stepped: what was read before says nothing any more.
        heard(&mut clocks, 3_000, 40, 9_020);
        let best = clocks.best().unwrap();
        assert_eq!(
            (best.ahead, best.unsure),
            (DurationMs(6_000), DurationMs(26))
        );
    }
}
