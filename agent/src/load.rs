//! How busy the host is, from what its kernel counts.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};
use protocol::host::HostLoad;

/// A file of the kernel's that says more is not what we think it is.
const BYTES_MAX: u64 = 64 * 1024;

/// What the kernel has counted up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Time that all processors together have worked, in ticks.
    busy_ticks: Option<u64>,
    available_bytes: Option<u64>,
    cpu_stalled_us: Option<u64>,
    memory_stalled_us: Option<u64>,
    io_stalled_us: Option<u64>,
}

/// The load between one reading and the next.
pub(crate) struct LoadMeter {
    root: PathBuf,
    ticks_per_s: u64,
    before: Option<(Counted, Instant)>,
}

impl LoadMeter {
    pub(crate) fn new(root: &Path) -> LoadMeter {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
        LoadMeter {
            root: root.to_owned(),
            ticks_per_s: ticks.map_or(100, i64::unsigned_abs),
            before: None,
        }
    }

    /// The load since the last time; `None` the first time, and where the kernel tells nothing.
    pub(crate) fn read(&mut self) -> Option<HostLoad> {
        let (counted, at) = (Counted::read(&self.root), Instant::now());
        let (before, then) = self.before.replace((counted, at))?;
        load_between(&before, &counted, at - then, self.ticks_per_s)
    }
}

impl Counted {
    fn read(root: &Path) -> Counted {
        let text = |name: &str| {
            let mut text = String::new();
            let file = fs::File::open(root.join(name)).ok()?;
            file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let stalled = |name| parse_stalled(&text(name)?);
        Counted {
            busy_ticks: text("proc/stat").as_deref().and_then(parse_busy),
            available_bytes: text("proc/meminfo").as_deref().and_then(parse_available),
            cpu_stalled_us: stalled("proc/pressure/cpu"),
            memory_stalled_us: stalled("proc/pressure/memory"),
            io_stalled_us: stalled("proc/pressure/io"),
        }
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what guests
/// took is in the first two already.
fn parse_busy(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks = line.split_whitespace().map(|word| word.parse().ok());
    let ticks: Option<Vec<u64>> = ticks.take(8).collect();
    let ticks = ticks.filter(|ticks| ticks.len() >= 4)?;
    let busy = ticks
        .iter()
        .enumerate()
        .filter(|(n, _)| !matches!(n, 3 | 4));
    Some(busy.fold(0, |sum, (_, ticks)| sum.saturating_add(*ticks)))
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds.
fn parse_stalled(pressure: &str) -> Option<u64> {
    let line = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let total = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok()
}

fn load_between(
    before: &Counted,
    after: &Counted,
    elapsed: Duration,
    ticks_per_s: u64,
) -> Option<HostLoad> {
    let elapsed_us = u64::try_from(elapsed.as_micros())
        .ok()
        .filter(|&us| us > 0)?;
    // A counter that went back is one of another boot, or broken.
    let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
    let busy_ticks = grown(before.busy_ticks, after.busy_ticks)?;
    let busy_us = busy_ticks.checked_mul(1_000_000)? / ticks_per_s.max(1);
    let share = |grown_us: u64| {
        let milli = u128::from(grown_us) * 1000 / u128::from(elapsed_us);
        u32::try_from(milli).unwrap_or(u32::MAX)
    };
    let stalled = |before, after| grown(before, after).map(|us| share(us).min(1000));
    Some(HostLoad {
        cpu_used_milli: share(busy_us),
        memory_available_bytes: after.available_bytes?,
        cpu_pressure_milli: stalled(before.cpu_stalled_us, after.cpu_stalled_us),
        memory_pressure_milli: stalled(before.memory_stalled_us, after.memory_stalled_us),
        io_pressure_milli: stalled(before.io_stalled_us, after.io_stalled_us),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processors_did_and_did_not_do_is_told_apart() {
        for (stat, expected) in [
            ("cpu  10 1 5 1000 70 2 3 4 9 9\ncpu0 1 1 1 1\n", Some(25)),
            ("cpu  10 1 5 1000\n", Some(16)),
            ("cpu  18446744073709551615 1 5 1000\n", Some(u64::MAX)),
            ("cpu  10 1 five 1000 70\n", None),
            ("cpu  10 1\n", None),
            ("cpu0 10 1 5 1000 70 2 3 4\n", None),
            ("", None),
        ] {
            assert_eq!(parse_busy(stat), expected, "{stat}");
        }
    }

    #[test]
    fn memory_and_pressure_are_read() {
        let meminfo = "MemTotal:  8 kB\nMemAvailable:    6 kB\n";
        assert_eq!(parse_available(meminfo), Some(6144));
        assert_eq!(parse_available("MemAvailable: 6\n"), None);
        let pressure =
            "some avg10=1.00 avg60=0.50 avg300=0.10 total=4711\nfull avg10=0.00 total=9\n";
        assert_eq!(parse_stalled(pressure), Some(4711));
        assert_eq!(parse_stalled("full avg10=0.00 total=9\n"), None);
    }

    #[test]
    fn a_load_is_what_was_counted_over_the_time() {
        let before = Counted {
            busy_ticks: Some(1000),
            available_bytes: Some(1),
            cpu_stalled_us: Some(0),
            memory_stalled_us: None,
            io_stalled_us: Some(9),
        };
        let after = Counted {
            busy_ticks: Some(1750),
            available_bytes: Some(4096),
            cpu_stalled_us: Some(500_000),
            memory_stalled_us: Some(3),
            io_stalled_us: Some(8),
        };
        let load = load_between(&before, &after, Duration::from_secs(5), 100);
        assert_eq!(
            load,
            Some(HostLoad {
                cpu_used_milli: 1500,
                memory_available_bytes: 4096,
                cpu_pressure_milli: Some(100),
                memory_pressure_milli: None,
                io_pressure_milli: None,
            })
        );
        assert_eq!(
            load_between(&after, &before, Duration::from_secs(5), 100),
            None
        );
        assert_eq!(load_between(&before, &after, Duration::ZERO, 100), None);
    }
}
