//! What the kernel counts of the device below a directory: bytes written to it, how long flushes took,
//! how busy it is. Looking costs nothing and writes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hardware::{DiskCounters, Mount, parse_disk_counters, parse_mountinfo};
use nix::sys::stat::{major, minor};

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
            let (mounts, _) = parse_mountinfo(&mounts);
            let source = source_of(&mounts, &format!("{major}:{minor}"))?;
            let number = Path::new(source).metadata().ok()?.rdev();
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
    pub fn read_counters(&self) -> Option<DiskCounters> {
        let read = |directory: &Path| {
            let text = fs::read_to_string(directory.join("stat")).ok()?;
            parse_disk_counters(&text)
        };
        let own = read(&self.directory)?;
        if !self.directory.join("partition").exists() {
            return Some(own);
        }
        let disk = read(self.directory.parent()?)?;
        Some(DiskCounters {
            written_bytes: own.written_bytes,
            ..disk
        })
    }
}

/// What is mounted under a device number, if it is a device.
fn source_of<'a>(mounts: &'a [Mount], number: &str) -> Option<&'a str> {
    let mounted = |mount: &&Mount| mount.number == number && mount.device.starts_with("/dev/");
    let mount = mounts.iter().find(mounted)?;
    Some(&mount.device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_several_devices_names_one() {
        let (mounts, _) = parse_mountinfo(
            "22 1 0:21 / /proc rw - proc proc rw\n\
             30 1 0:44 /root / rw,relatime shared:1 - btrfs /dev/sda\\0402 rw,space_cache\n",
        );
        // Blanks are octal there.
        assert_eq!(source_of(&mounts, "0:44"), Some("/dev/sda 2"));
        assert_eq!(source_of(&mounts, "0:21"), None);
        assert_eq!(source_of(&mounts, "0:4"), None);
    }
}
