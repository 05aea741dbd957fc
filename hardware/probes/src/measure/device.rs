//! What the kernel counts of the device below a directory: bytes written to it, how long flushes took,
//! how busy it is. Looking costs nothing and writes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use serde::{Deserialize, Serialize};

const SECTOR_BYTES: u64 = 512;

/// A line of `/sys/block/DEV/stat`, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    pub written_bytes: u64,
    /// Time in which something was under way.
    pub busy_ms: u64,
    /// Flushes of its cache, and the time that they took together. None before Linux 5.5.
    pub flushes: Option<u64>,
    pub flush_ms: Option<u64>,
}

impl DeviceCounters {
    /// What came since an earlier reading; None where a counter went back, which means that it is
    /// another device or began anew.
    pub fn since(&self, earlier: &DeviceCounters) -> Option<DeviceCounters> {
        let both = |now: Option<u64>, then: Option<u64>| match (now, then) {
            (Some(now), Some(then)) => now.checked_sub(then).map(Some),
            _ => Some(None),
        };
        Some(DeviceCounters {
            written_bytes: self.written_bytes.checked_sub(earlier.written_bytes)?,
            busy_ms: self.busy_ms.checked_sub(earlier.busy_ms)?,
            flushes: both(self.flushes, earlier.flushes)?,
            flush_ms: both(self.flush_ms, earlier.flush_ms)?,
        })
    }

    /// Share of a time that it was busy for, of the counters of that time.
    pub fn busy_per_mille(&self, elapsed_ms: u64) -> Option<u32> {
        let share = self.busy_ms.saturating_mul(1000).checked_div(elapsed_ms)?;
        Some(share.min(1000) as u32)
    }

    /// Mean time of a flush, of the counters of some time; None where none was made.
    pub fn flush_mean_us(&self) -> Option<u64> {
        self.flush_ms?
            .saturating_mul(1000)
            .checked_div(self.flushes?)
    }
}

/// Reads a line of `/sys/block/DEV/stat`.
pub fn parse_device_counters(text: &str) -> Option<DeviceCounters> {
    let fields = text.split_ascii_whitespace().map(str::parse);
    let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
    Some(DeviceCounters {
        written_bytes: fields.get(6)?.checked_mul(SECTOR_BYTES)?,
        busy_ms: *fields.get(9)?,
        flushes: fields.get(15).copied(),
        flush_ms: fields.get(16).copied(),
    })
}

/// The block device that a directory's file system lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As the kernel calls it: `sda2`, `dm-0`, `md1`.
    pub name: String,
    /// Its directory in `/sys`.
    directory: PathBuf,
}

impl Device {
    /// None where it is on no block device, as a file system in memory or of a network. A dead mount holds
    /// this up.
    pub fn below(directory: &Path) -> Option<Device> {
        let number = directory.metadata().ok()?.dev();
        let (major, minor) = (major(number), minor(number));
        // A file system of several devices has a number of its own; its mount names one of them.
        let (major, minor) = if major == 0 {
            let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
            let source = parse_source(&mounts, &format!("{major}:{minor}"))?;
            let number = Path::new(&source).metadata().ok()?.rdev();
            (self::major(number), self::minor(number))
        } else {
            (major, minor)
        };
        let link = format!("/sys/dev/block/{major}:{minor}");
        let directory = Path::new(&link).canonicalize().ok()?;
        let name = directory.file_name()?.to_str()?.to_owned();
        Some(Device { name, directory })
    }

    /// What is counted of it now. Flushes and busy time are counted for the whole disk alone, so those
    /// of a partition are its disk's.
    pub fn read_counters(&self) -> Option<DeviceCounters> {
        let read = |directory: &Path| {
            let text = fs::read_to_string(directory.join("stat")).ok()?;
            parse_device_counters(&text)
        };
        let own = read(&self.directory)?;
        if !self.directory.join("partition").exists() {
            return Some(own);
        }
        let disk = read(self.directory.parent()?)?;
        Some(DeviceCounters {
            written_bytes: own.written_bytes,
            ..disk
        })
    }
}

/// What is mounted under a device number, by `/proc/self/mountinfo`, if it is a device.
fn parse_source(mounts: &str, number: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let same = place.split(' ').nth(2)? == number;
        let source = kind.split(' ').nth(1)?;
        (same && source.starts_with("/dev/")).then(|| source.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "   20123     3990  2530674    20020     8015    49699 19555952   125743       47    11052   147785     5006       33   468112     2019       51        2\n";

    #[test]
    fn counters_stand_at_their_places() {
        let read = parse_device_counters(STAT).unwrap();
        let expected = DeviceCounters {
            written_bytes: 19_555_952 * 512,
            busy_ms: 11_052,
            flushes: Some(51),
            flush_ms: Some(2),
        };
        assert_eq!(read, expected);
        let old: Vec<&str> = STAT.split_whitespace().take(11).collect();
        let old = parse_device_counters(&old.join(" ")).unwrap();
        assert_eq!((old.flushes, old.flush_mean_us()), (None, None));
        for broken in ["", "1 2 3", "a b c d e f g h i j k"] {
            assert_eq!(parse_device_counters(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn what_came_since_and_what_that_means() {
        let counters = |written_bytes, busy_ms, flushes, flush_ms| DeviceCounters {
            written_bytes,
            busy_ms,
            flushes: Some(flushes),
            flush_ms: Some(flush_ms),
        };
        let earlier = counters(1_000, 500, 10, 20);
        let later = counters(5_000, 1_300, 14, 50);
        let came = later.since(&earlier).unwrap();
        assert_eq!(came, counters(4_000, 800, 4, 30));
        assert_eq!(came.flush_mean_us(), Some(7_500));
        assert_eq!(came.busy_per_mille(1_000), Some(800));
        assert_eq!(came.busy_per_mille(0), None);
        assert_eq!(earlier.since(&later), None);
        assert_eq!(earlier.since(&earlier).unwrap().flush_mean_us(), None);
    }

    #[test]
    fn a_mount_of_several_devices_names_one() {
        let mounts = "22 1 0:21 / /proc rw - proc proc rw\n\
                      30 1 0:44 /root / rw,relatime shared:1 - btrfs /dev/sda2 rw,space_cache\n";
        assert_eq!(parse_source(mounts, "0:44").as_deref(), Some("/dev/sda2"));
        assert_eq!(parse_source(mounts, "0:21"), None);
        assert_eq!(parse_source(mounts, "0:4"), None);
    }
}
