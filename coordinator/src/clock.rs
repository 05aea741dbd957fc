//! This machine's two clocks.

use std::time::Duration;
use std::{fs, io};

use nix::time::{ClockId, clock_gettime};
use protocol::{BootMs, DurationMs, Now, WallMs};

/// Two readings of the boot clock further apart than this were not "together".
const TOGETHER: DurationMs = DurationMs(5);
const TRIES: u32 = 5;

/// Reads both clocks together.
///
/// A process that is stopped between the two readings would see the wall clock jump against the
/// boot clock, and hold every fire for a step that never was. So the boot clock is read on both
/// sides of the wall clock, and again where much time passed between.
pub(crate) fn read_now() -> Now {
    let mut before = read_ms(ClockId::CLOCK_BOOTTIME);
    for _ in 1..TRIES {
        let wall = read_ms(ClockId::CLOCK_REALTIME);
        let after = read_ms(ClockId::CLOCK_BOOTTIME);
        if after - before <= TOGETHER.0 {
            return Now {
                wall: WallMs(wall),
                boot: BootMs(after),
            };
        }
        before = after;
    }
    Now {
        wall: WallMs(read_ms(ClockId::CLOCK_REALTIME)),
        boot: BootMs(read_ms(ClockId::CLOCK_BOOTTIME)),
    }
}

/// The clock since boot alone, for what must be looked at right before it is acted on.
pub(crate) fn read_boot() -> BootMs {
    BootMs(read_ms(ClockId::CLOCK_BOOTTIME))
}

/// A time-out in the unit of these clocks.
pub(crate) fn in_millis(time: Duration) -> DurationMs {
    DurationMs(time.as_millis().try_into().unwrap_or(i64::MAX))
}

/// The kernel's id of this start of the machine.
pub(crate) fn read_boot_id() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

fn read_ms(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("Linux has had both clocks since 2.6.39");
    time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_that_of_the_standard_library_and_boot_time_does_not_go_back() {
        let before = read_now();
        let std = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let after = read_now();
        assert!(before.boot <= after.boot);
        // Generous: the machine may be busy, and its clock may be steered.
        assert!((WallMs(std.as_millis() as i64) - before.wall).0.abs() < 60_000);
    }
}
