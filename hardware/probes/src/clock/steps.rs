//! Steps of the wall clock, as they are seen without asking anybody.
//!
//! Four clocks of the kernel are read together. CLOCK_REALTIME less CLOCK_BOOTTIME stays what it is
//! however fast the wall clock is steered, for both are steered alike; it moves when somebody *sets*
//! the wall clock, by exactly as much. CLOCK_BOOTTIME less CLOCK_MONOTONIC grows by what the machine
//! was suspended, and CLOCK_MONOTONIC less CLOCK_MONOTONIC_RAW by what it is steered.
//!
//! Read every second, that tells of every step but two that undo each other between two readings. A
//! timer of the wall clock that the kernel cancels when the clock is set ([`StepTimer`]) tells of
//! those.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{
    ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags,
};
use nix::time::{ClockId, clock_gettime};

/// What is less than this is the noise of reading clocks one after the other, or no matter.
const STEP_MIN_NS: i64 = 1_000_000;

/// A machine that was suspended for less was not.
const SUSPEND_MIN_NS: i64 = 100_000_000;

/// Steering is measured over at least so long: over less it is noise.
const SLEW_OVER_NS: i64 = 1_000_000_000;

const SECOND_NS: i64 = 1_000_000_000;
/// By how much a leap second may differ from a second, and from midnight.
const LEAP_SLACK_NS: i64 = 5_000_000;
const LEAP_AROUND_S: i64 = 2;

/// The clocks of one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub realtime_ns: i64,
    pub boottime_ns: i64,
    pub monotonic_ns: i64,
    pub raw_ns: i64,
    /// How long it took to read them: by so much they may not be of one moment.
    pub took_ns: i64,
    /// The kernel says that the wall clock was set since the reading before.
    pub was_set: bool,
}

/// The wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Above 0 it was set forward. 0 where it was set and back again, or by less than can be seen.
    pub by_ns: i64,
    /// It was a second between two half-years, as the kernel inserts or leaves out.
    pub leap_second: bool,
    /// When it was seen.
    pub boottime_ns: i64,
}

/// What a reading showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    pub step: Option<Step>,
    /// How long the machine was suspended.
    pub suspended_ns: Option<i64>,
}

/// Readings go in, steps come out.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepMeter {
    last: Option<Reading>,
    /// Since when steering is measured, and what came of it last.
    slew_since: Option<Reading>,
    slew_ppm: Option<f64>,
}

impl StepMeter {
    pub fn handle_reading(&mut self, reading: Reading) -> Seen {
        self.measure_slew(reading);
        let Some(last) = self.last.replace(reading) else {
            return Seen::default();
        };
        let moved = |of: fn(&Reading) -> i64| of(&reading).saturating_sub(of(&last));
        let by_ns = moved(|at| at.realtime_ns.saturating_sub(at.boottime_ns));
        let noise = STEP_MIN_NS + reading.took_ns + last.took_ns;
        let large = by_ns.saturating_abs() >= noise;
        let step = (large || reading.was_set).then(|| Step {
            by_ns: if large { by_ns } else { 0 },
            leap_second: is_leap_second(by_ns, reading.realtime_ns),
            boottime_ns: reading.boottime_ns,
        });
        let suspended = moved(|at| at.boottime_ns.saturating_sub(at.monotonic_ns));
        let suspended_ns = (suspended >= SUSPEND_MIN_NS).then_some(suspended);
        Seen { step, suspended_ns }
    }

    /// How fast the clock is being steered, in parts per million; above 0 it runs fast.
    pub fn slew_ppm(&self) -> Option<f64> {
        self.slew_ppm
    }

    fn measure_slew(&mut self, reading: Reading) {
        let Some(since) = self.slew_since else {
            self.slew_since = Some(reading);
            return;
        };
        let raw = reading.raw_ns.saturating_sub(since.raw_ns);
        if raw < SLEW_OVER_NS {
            return;
        }
        let steered = reading.monotonic_ns.saturating_sub(since.monotonic_ns) - raw;
        self.slew_ppm = Some(steered as f64 * 1e6 / raw as f64);
        self.slew_since = Some(reading);
    }
}

fn is_leap_second(by_ns: i64, realtime_ns: i64) -> bool {
    if (by_ns.saturating_abs() - SECOND_NS).abs() > LEAP_SLACK_NS {
        return false;
    }
    let seconds = realtime_ns.div_euclid(SECOND_NS) + LEAP_AROUND_S;
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    second <= 2 * LEAP_AROUND_S && begins_half_year(day)
}

/// Whether a day, counted from 1970, is the first of January or of July.
fn begins_half_year(day: i64) -> bool {
    let mut year = 1970 + day.div_euclid(366);
    let first_of = |year: i64| {
        let before = year - 1;
        let leaps = |year: i64| year / 4 - year / 100 + year / 400;
        (year - 1970) * 365 + leaps(before) - leaps(1969)
    };
    while first_of(year + 1) <= day {
        year += 1;
    }
    let within = day - first_of(year);
    let length = first_of(year + 1) - first_of(year);
    // The second half has 184 days in every year.
    within == 0 || within == length - 184
}

/// A timer of the wall clock that never goes off, and is cancelled when the clock is set.
#[derive(Debug)]
pub struct StepTimer(TimerFd);

impl StepTimer {
    pub fn new() -> nix::Result<StepTimer> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = StepTimer(TimerFd::new(TimerClock::CLOCK_REALTIME, flags)?);
        timer.arm()?;
        Ok(timer)
    }

    fn arm(&self) -> nix::Result<()> {
        /// As far as the kernel lets a timer be set, in seconds: it divides by nothing smaller.
        const NEVER_S: i64 = i64::MAX / SECOND_NS;
        let cancelled_on_set = nix::libc::TFD_TIMER_CANCEL_ON_SET;
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME.bits() | cancelled_on_set;
        let never = Expiration::OneShot(TimeSpec::new(NEVER_S, 0));
        self.0
            .set(never, TimerSetTimeFlags::from_bits_retain(flags))
    }

    /// Whether the clock was set since this was asked last.
    pub fn was_set(&self) -> nix::Result<bool> {
        match nix::unistd::read(self.0.as_fd(), &mut [0; 8]) {
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
            // Or it went off: the clock was set to the end of time, or near it.
            Err(Errno::ECANCELED) | Ok(_) => {
                self.arm()?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads the clocks as nearly at one moment as comes of a few tries.
pub fn read_clocks(timer: Option<&StepTimer>) -> Reading {
    const TRIES: usize = 8;
    let was_set = timer.is_some_and(|timer| timer.was_set().unwrap_or(false));
    let tries = (0..TRIES).map(|_| {
        let before = read_ns(ClockId::CLOCK_MONOTONIC);
        let raw_ns = read_ns(ClockId::CLOCK_MONOTONIC_RAW);
        let realtime_ns = read_ns(ClockId::CLOCK_REALTIME);
        let boottime_ns = read_ns(ClockId::CLOCK_BOOTTIME);
        let after = read_ns(ClockId::CLOCK_MONOTONIC);
        Reading {
            realtime_ns,
            boottime_ns,
            monotonic_ns: before + (after - before) / 2,
            raw_ns,
            took_ns: after - before,
            was_set,
        }
    });
    tries
        .min_by_key(|reading| reading.took_ns)
        .expect("there is at least one")
}

fn read_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("Linux has had these clocks since 2.6.39");
    time.tv_sec() * SECOND_NS + time.tv_nsec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    /// 2016-12-31T23:59:59Z, before the last leap second there was.
    const NEW_YEARS_EVE_S: i64 = 1_483_228_799;

    fn reading(second: i64) -> Reading {
        let up = 1_000 * SECOND_NS + second * SECOND_NS;
        Reading {
            realtime_ns: (1_700_000_000 + second) * SECOND_NS,
            boottime_ns: up,
            monotonic_ns: up,
            raw_ns: up,
            took_ns: 200,
            was_set: false,
        }
    }

    /// What the second of two readings shows.
    fn see(first: Reading, second: Reading) -> Seen {
        let mut meter = StepMeter::default();
        assert_eq!(meter.handle_reading(first), Seen::default());
        meter.handle_reading(second)
    }

    fn check(second: Reading, by_ns: Option<i64>, suspended_ns: Option<i64>) {
        let seen = see(reading(0), second);
        assert_eq!(seen.step.map(|step| step.by_ns), by_ns, "{second:?}");
        assert_eq!(seen.suspended_ns, suspended_ns, "{second:?}");
    }

    #[test]
    fn a_step_is_told_by_its_size_and_steering_is_none() {
        let at = reading(1);
        check(at, None, None);
        let forward = Reading {
            realtime_ns: at.realtime_ns + 2 * MS,
            ..at
        };
        check(forward, Some(2 * MS), None);
        let back = Reading {
            realtime_ns: at.realtime_ns - 5_000 * MS,
            ..at
        };
        check(back, Some(-5_000 * MS), None);
        // Steered by 500 ppm: all but the raw clock move alike.
        let steered = Reading {
            raw_ns: at.raw_ns - MS / 2,
            ..at
        };
        check(steered, None, None);
        // Set, and set back before it was looked at.
        check(
            Reading {
                was_set: true,
                ..at
            },
            Some(0),
            None,
        );
        // What was read across a pause proves nothing.
        let across = Reading {
            took_ns: 3 * MS,
            ..forward
        };
        check(across, None, None);
    }

    #[test]
    fn a_suspended_machine_is_not_one_whose_clock_was_set() {
        let at = reading(1);
        let hour = 3600 * SECOND_NS;
        let woken = Reading {
            realtime_ns: at.realtime_ns + hour,
            boottime_ns: at.boottime_ns + hour,
            ..at
        };
        check(woken, None, Some(hour));
    }

    #[test]
    fn leap_seconds_are_named() {
        let check = |shown_s: i64, by_ns: i64, expected: bool| {
            let first = Reading {
                realtime_ns: shown_s * SECOND_NS - by_ns - SECOND_NS,
                ..reading(0)
            };
            let second = Reading {
                realtime_ns: shown_s * SECOND_NS,
                ..reading(1)
            };
            let step = see(first, second).step.unwrap();
            assert_eq!((step.by_ns, step.leap_second), (by_ns, expected));
        };
        check(NEW_YEARS_EVE_S, -SECOND_NS, true);
        check(NEW_YEARS_EVE_S + 2, -SECOND_NS, true);
        check(NEW_YEARS_EVE_S + 2, SECOND_NS, true);
        check(NEW_YEARS_EVE_S, -2 * SECOND_NS, false);
        check(NEW_YEARS_EVE_S - 10, -SECOND_NS, false);
        check(NEW_YEARS_EVE_S + 86_400, -SECOND_NS, false);
        // 2015-06-30T23:59:59Z, and the same of the month before.
        check(1_435_708_799, -SECOND_NS, true);
        check(1_433_116_799, -SECOND_NS, false);
    }

    #[test]
    fn the_half_years_of_a_century() {
        // Restated: the first of January is 184 days behind the first of July, which is 181 days, or
        // in a leap year 182, behind the first of January.
        let mut expected = 0;
        let mut begins = std::collections::BTreeSet::new();
        for year in 1970..2070 {
            begins.insert(expected);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            begins.insert(expected + 181 + i64::from(leap));
            expected += 365 + i64::from(leap);
        }
        for day in 0..expected {
            assert_eq!(begins_half_year(day), begins.contains(&day), "{day}");
        }
    }

    #[test]
    fn steering_is_measured_over_a_second() {
        let mut meter = StepMeter::default();
        meter.handle_reading(reading(0));
        assert_eq!(meter.slew_ppm(), None);
        let at = reading(2);
        meter.handle_reading(Reading {
            monotonic_ns: at.monotonic_ns + MS,
            ..at
        });
        assert_eq!(meter.slew_ppm(), Some(500.0));
    }

    #[test]
    fn this_machines_clocks_are_read_together_and_were_not_set() {
        let timer = StepTimer::new().unwrap();
        let mut meter = StepMeter::default();
        let first = read_clocks(Some(&timer));
        meter.handle_reading(first);
        let second = read_clocks(Some(&timer));
        assert!(second.boottime_ns >= first.boottime_ns);
        assert!(!second.was_set);
    }
}
