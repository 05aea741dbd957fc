//! Whether the wall clock may be believed.
//!
//! The wall clock decides one thing, that a fire time has come, and a wrong one must make no job
//! fire early, twice or never. Without a reference to compare with (one machine, nobody to ask)
//! one thing can still be seen: a *step*. The wall clock minus the boot clock stays constant but
//! for slow steering; when it jumps by more than a second, somebody or something set the clock.
//! Whether the old or the new time is right cannot be told from here, so nothing fires until the
//! clock has stood still for a minute. What came due meanwhile is then late, not lost: the
//! trigger works from the watermark.

use protocol::{BootMs, DurationMs, Now};

/// A jump of the wall clock against the boot clock beyond this is a step.
pub const STEP: DurationMs = DurationMs(1_000);

/// How long the clock must stand still after a step.
pub const STAND_STILL: DurationMs = DurationMs(60_000);

/// Fastest steering that is not a step, in parts per million. The kernel slews at up to 500 ppm
/// and adjusts its tick by up to 10 %; NTP stays far below this.
const STEERING_PPM: i64 = 1_000;

#[derive(Clone, Debug, Default)]
pub struct ClockGate {
    seen: Option<Seen>,
    held_until: Option<BootMs>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    boot: BootMs,
    /// Wall minus boot, in milliseconds, as far as steering explains it.
    offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Trusted,
    /// The clock was stepped; nothing fires for this long yet.
    Held {
        remaining: DurationMs,
    },
}

impl ClockGate {
    /// Takes note of both clocks. Returns the size of the step if this reading shows one.
    pub fn observe(&mut self, now: Now) -> Option<DurationMs> {
        let offset = now.wall.0.saturating_sub(now.boot.0);
        let Some(seen) = self.seen else {
            self.seen = Some(Seen {
                boot: now.boot,
                offset,
            });
            return None;
        };
        let moved = offset.saturating_sub(seen.offset);
        if moved.abs() > STEP.0 {
            self.seen = Some(Seen {
                boot: now.boot,
                offset,
            });
            self.held_until = Some(now.boot + STAND_STILL);
            return Some(DurationMs(moved));
        }
        let elapsed = (now.boot - seen.boot).0.max(0);
        let steering = elapsed.saturating_mul(STEERING_PPM) / 1_000_000;
        if steering > 0 || moved == 0 {
            self.seen = Some(Seen {
                boot: now.boot,
                offset: seen.offset + moved.clamp(-steering, steering),
            });
        }
        None
    }

    pub fn verdict(&self, now: Now) -> Verdict {
        match self.held_until {
            Some(until) if now.boot < until => Verdict::Held {
                remaining: until - now.boot,
            },
            _ => Verdict::Trusted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::WallMs;

    const START: i64 = 1_800_000_000_000;

    fn at(boot: i64, wall_error: i64) -> Now {
        Now {
            boot: BootMs(boot),
            wall: WallMs(START + boot + wall_error),
        }
    }

    /// Observes (boot, wall error) pairs in turn and says whether the last finds the gate open.
    fn open_after(readings: &[(i64, i64)]) -> bool {
        let mut gate = ClockGate::default();
        for &(boot, error) in readings {
            gate.observe(at(boot, error));
        }
        let &(boot, error) = readings.last().unwrap();
        gate.verdict(at(boot, error)) == Verdict::Trusted
    }

    #[test]
    fn a_step_holds_until_the_clock_has_stood_still_for_a_minute() {
        assert!(
            open_after(&[(0, 0), (100, 900)]),
            "below a second is not a step"
        );
        assert!(!open_after(&[(0, 0), (100, 1_001)]));
        assert!(!open_after(&[(0, 0), (100, -1_001)]));
        assert!(!open_after(&[(0, 0), (100, 5_000), (60_099, 5_000)]));
        assert!(open_after(&[(0, 0), (100, 5_000), (60_100, 5_000)]));
        assert!(
            !open_after(&[(0, 0), (100, 5_000), (30_000, 0), (89_999, 0)]),
            "a second step"
        );
    }

    #[test]
    fn steering_is_no_step_and_small_steps_add_up() {
        let steering: Vec<_> = (0..4000).map(|i| (i * 1000, i / 2)).collect();
        assert!(
            open_after(&steering),
            "500 ppm for an hour moves 2 s and is steering"
        );
        assert!(
            !open_after(&[(0, 0), (100, 600), (200, 1_200)]),
            "two steps of 0.6 s"
        );
    }

    #[test]
    fn frequent_readings_do_not_hide_steering() {
        let mut gate = ClockGate::default();
        for i in 0..400_000 {
            assert_eq!(
                gate.observe(at(i * 10, i / 200)),
                None,
                "500 ppm read every 10 ms"
            );
        }
    }
}
