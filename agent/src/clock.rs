//! The two clocks of this machine, and a timer on the one that no step moves.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{self, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};
use protocol::{BootMs, Now, WallMs};

/// Reads CLOCK_REALTIME and CLOCK_BOOTTIME.
pub(crate) fn now() -> Now {
    Now {
        wall: WallMs(milliseconds(ClockId::CLOCK_REALTIME)),
        boot: BootMs(milliseconds(ClockId::CLOCK_BOOTTIME)),
    }
}

fn milliseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("Linux has had both clocks since 2.6.39");
    time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000
}

/// A timer on CLOCK_BOOTTIME: what fell due during a suspend is due at once on waking, where
/// the timers of poll and of tokio would sleep the suspended time again.
pub(crate) struct BootTimer {
    pub(crate) fd: TimerFd,
}

impl BootTimer {
    pub(crate) fn new() -> nix::Result<BootTimer> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let fd = TimerFd::new(timerfd::ClockId::CLOCK_BOOTTIME, flags)?;
        Ok(BootTimer { fd })
    }

    /// Makes the timer readable from this instant on; with `None`, never.
    pub(crate) fn set(&self, at: Option<BootMs>) -> nix::Result<()> {
        let Some(BootMs(at)) = at else {
            return self.fd.unset();
        };
        // Zero would disarm it.
        let at = at.max(1);
        let at = TimeSpec::new(at / 1000, at % 1000 * 1_000_000);
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        self.fd.set(Expiration::OneShot(at), flags)
    }
}
