//! What the kernel itself knows of its clock (adjtimex): whether somebody says that it is right, and how
//! wrong it may be at most. That takes no privilege, and says nothing of who, nor how far it is off.
//!
//! It is slow to notice that nobody says so any more: half a millisecond is added to the error each
//! second, and at 16 s, hours later, the clock is called unsynchronised. So it is the last to be asked.
#![allow(unsafe_code)]

use std::io;

use nix::libc;

/// The kernel's own word for a clock that nobody keeps.
const UNSYNCHRONISED: i32 = 0x40;
const NANOSECONDS: i32 = 0x2000;
/// The state of a clock that is not right.
const TIME_ERROR: i32 = 5;
/// 2^32 nanoseconds: an offset of this size is a number that has overflowed, and no offset.
const OVERFLOWN_US: i64 = 4_294_967;

/// The kernel's account of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    pub synchronised: bool,
    /// How far it is off at most.
    pub error_max_us: i64,
    /// What is still to be corrected, positive where the clock is slow; none where it is not known.
    pub correction_us: Option<i64>,
}

pub fn read_kernel_clock() -> io::Result<KernelClock> {
    // SAFETY: all zeros is a `timex` in which nothing is asked to be changed.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes within the structure, which lives until it returns.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(judge(state, timex.status, timex.maxerror, timex.offset))
}

fn judge(state: i32, status: i32, error_max_us: i64, offset: i64) -> KernelClock {
    let offset_us = if status & NANOSECONDS == 0 {
        offset
    } else {
        offset / 1_000
    };
    let overflown = (offset_us.saturating_abs() - OVERFLOWN_US).abs() <= 1;
    let synchronised = state != TIME_ERROR && status & UNSYNCHRONISED == 0;
    KernelClock {
        synchronised,
        error_max_us,
        correction_us: (synchronised && !overflown).then_some(offset_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: (i32, i32, i64, i64), synchronised: bool, correction_us: Option<i64>) {
        let (state, status, error_max_us, offset) = said;
        let expected = KernelClock {
            synchronised,
            error_max_us,
            correction_us,
        };
        assert_eq!(judge(state, status, error_max_us, offset), expected);
    }

    #[test]
    fn what_the_kernel_says_and_what_it_only_seems_to_say() {
        check((0, NANOSECONDS, 500, 12_345_000), true, Some(12_345));
        check((0, 0, 500, -12), true, Some(-12));
        check((5, UNSYNCHRONISED, 16_000_000, 0), false, None);
        // A clock with an inserted second pending is in state 1, and well.
        check((1, NANOSECONDS, 500, 0), true, Some(0));
        check((0, UNSYNCHRONISED, 500, 0), false, None);
        // An offset that has overflowed is none.
        check((0, NANOSECONDS, 500, 4_294_967_296), true, None);
        check((0, NANOSECONDS, 500, -4_294_967_296), true, None);
    }

    #[test]
    fn this_machines_kernel_answers() {
        assert!(read_kernel_clock().unwrap().error_max_us >= 0);
    }
}
