//! The two clocks of this machine, read together.

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
