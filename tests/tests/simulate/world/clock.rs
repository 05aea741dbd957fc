//! A machine's two clocks against true time.
//!
//! Both run at the machine's own rate. The wall clock may besides be steered a little, and set.

use protocol::{BootMs, Now, WallMs};

/// True time at which every world begins: 2027-01-15T08:00:00Z.
pub const BEGIN: i64 = 1_800_000_000_000;

const MILLION: i64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// True time at which the readings below were taken.
    since: i64,
    boot: i64,
    wall: i64,
    boot_ppm: i64,
    wall_ppm: i64,
}

impl Clock {
    /// A machine that was switched on at `now` and has the right time.
    pub fn right(now: i64) -> Clock {
        Clock {
            since: now,
            boot: 0,
            wall: now,
            boot_ppm: 0,
            wall_ppm: 0,
        }
    }

    /// How many parts per million both clocks run too fast, and how the wall clock is steered.
    pub fn set_rates(&mut self, now: i64, boot_ppm: i64, wall_ppm: i64) {
        self.settle(now);
        self.boot_ppm = boot_ppm;
        self.wall_ppm = wall_ppm;
    }

    /// Sets the wall clock, as a person or a hasty NTP client does.
    pub fn step(&mut self, now: i64, by: i64) {
        self.settle(now);
        self.wall += by;
    }

    /// Sets the wall clock to true time and keeps it there, as an NTP client that is back does.
    pub fn set_right(&mut self, now: i64) {
        self.settle(now);
        self.wall = now;
        self.wall_ppm = 0;
    }

    pub fn read(&self, now: i64) -> Now {
        let elapsed = now - self.since;
        let at_rate = |ppm: i64| elapsed + elapsed * ppm / MILLION;
        Now {
            wall: WallMs(self.wall + at_rate(self.wall_ppm)),
            boot: BootMs(self.boot + at_rate(self.boot_ppm)),
        }
    }

    /// By how much the wall clock is ahead of true time.
    pub fn wall_error(&self, now: i64) -> i64 {
        self.read(now).wall.0 - now
    }

    /// The first true time, not before `now`, at which the boot clock shows at least `boot`.
    pub fn true_time_of(&self, boot: BootMs, now: i64) -> i64 {
        let missing = (boot.0 - self.read(now).boot.0).max(0);
        let mut at = now + missing * MILLION / (MILLION + self.boot_ppm.max(0));
        while self.read(at).boot < boot {
            at += 1 + (boot.0 - self.read(at).boot.0) / 2;
        }
        at
    }

    fn settle(&mut self, now: i64) {
        let read = self.read(now);
        self.since = now;
        self.boot = read.boot.0;
        self.wall = read.wall.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_found_again_at_any_rate() {
        for ppm in [-5_000, -1, 0, 1, 5_000] {
            let mut clock = Clock::right(BEGIN);
            clock.set_rates(BEGIN, ppm, 0);
            for boot in [0, 1, 999, 60_000, 86_400_000] {
                let at = clock.true_time_of(BootMs(boot), BEGIN);
                assert!(clock.read(at).boot.0 >= boot);
                assert!(
                    at == BEGIN || clock.read(at - 2).boot.0 < boot,
                    "{ppm} {boot}"
                );
            }
        }
    }
}
