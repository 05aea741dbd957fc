//! A clock that is really set: only in a virtual machine of its own (`make test-guest`), for nothing
//! would set this one's right again.
#![allow(unsafe_code, clippy::print_stdout)]

use std::thread::sleep;
use std::time::Duration;

use nix::libc;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use probes::clock::{Step, StepWatch};

/// Set by whoever has made a machine for it.
const MAY: &str = "MATINS_MAY_SET_THE_CLOCK";

const MS: i64 = 1_000_000;

/// What reading clocks of an emulated processor one after the other may cost.
const SLACK_NS: i64 = 100 * MS;

/// 2026-12-31T23:59:58Z.
const NEW_YEARS_EVE_S: i64 = 1_798_761_598;

fn set(time: TimeSpec) {
    clock_settime(ClockId::CLOCK_REALTIME, time).expect("root sets the clock of its machine");
}

fn now() -> TimeSpec {
    clock_gettime(ClockId::CLOCK_REALTIME).expect("it is there")
}

fn adjust(change: impl FnOnce(&mut libc::timex)) {
    // SAFETY: all zeros is a `timex` in which nothing is asked to be changed.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    change(&mut timex);
    // SAFETY: the kernel writes within the structure, which lives until it returns.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    assert!(state >= 0, "{}", std::io::Error::last_os_error());
}

/// The step that is seen after `act`.
fn seen_after(watch: &mut StepWatch, act: impl FnOnce()) -> Option<Step> {
    assert_eq!(watch.look().step, None);
    act();
    watch.look().step
}

fn check(what: &str, step: Option<Step>, by_ns: i64) {
    println!("{what}: {step:?}");
    let seen = step.map(|step| step.by_ns);
    let near = seen.is_some_and(|seen| (seen - by_ns).abs() <= SLACK_NS);
    assert!(near, "{what}: {step:?}");
}

#[test]
fn a_clock_that_is_really_set() {
    let commanded = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if std::env::var_os(MAY).is_none() || !commanded.contains("console=ttyS0 quiet panic=-1") {
        println!("skipped: it sets the clock, and wants a machine for that: make test-guest");
        return;
    }
    let mut watch = StepWatch::default();
    watch.look();
    let forward = || set(now() + TimeSpec::new(5, 0));
    check("set by 5 s", seen_after(&mut watch, forward), 5_000 * MS);
    let back = || set(now() - TimeSpec::new(3600, 0));
    let an_hour = -3_600_000 * MS;
    check("set back", seen_after(&mut watch, back), an_hour);

    // As chronyd does it.
    let offset = || {
        adjust(|timex| {
            timex.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
            timex.time.tv_sec = 0;
            timex.time.tv_usec = 250 * MS;
        });
    };
    check("250 ms", seen_after(&mut watch, offset), 250 * MS);

    // Nothing is left of it to be measured, and the timer knows.
    let to_and_fro = || {
        set(now() + TimeSpec::new(60, 0));
        set(now() - TimeSpec::new(60, 0));
    };
    let step = seen_after(&mut watch, to_and_fro);
    check("set to and fro", step, 0);

    // Steered as fast as it goes.
    let steered = || {
        adjust(|timex| {
            timex.modes = libc::ADJ_FREQUENCY;
            timex.freq = 500 << 16;
        });
        sleep(Duration::from_secs(3));
    };
    assert_eq!(seen_after(&mut watch, steered), None);
    adjust(|timex| timex.modes = libc::ADJ_FREQUENCY);

    set(TimeSpec::new(NEW_YEARS_EVE_S, 0));
    watch.look();
    let leap = || {
        adjust(|timex| {
            timex.modes = libc::ADJ_STATUS;
            timex.status = libc::STA_INS;
        });
        sleep(Duration::from_secs(4));
    };
    let step = seen_after(&mut watch, leap);
    check("a leap second", step, -1_000 * MS);
    assert!(step.is_some_and(|step| step.leap_second));
}
