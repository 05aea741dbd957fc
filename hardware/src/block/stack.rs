//! What block devices are made of: partitions, logical volumes, encryption and arrays, down to disks.
//!
//! `/sys` names what each is made of (`slaves`), a partition stands in the directory of its disk, and
//! every device has its number. What a device mapper does with several, it does not say: only for
//! what is known to copy is redundancy claimed.

use std::collections::{BTreeMap, BTreeSet};

use super::transport;
use crate::lines::{is_redundant, level};
use crate::root::Root;

/// Block devices are stacked a few deep; a garbled copy may go in a circle.
const DEPTH_MAX: usize = 16;

/// All block devices below a root.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    devices: BTreeMap<String, Device>,
}

#[derive(Debug, Default)]
struct Device {
    /// `8:1`.
    number: Option<String>,
    /// What it is made of; a partition of its disk.
    parts: Vec<String>,
    /// Of an array of the kernel's own, whether it copies.
    copies: Option<bool>,
    /// Whether it is one drive, and nothing that a hypervisor or a controller made.
    is_one_drive: bool,
}

impl Stack {
    pub(crate) fn read(root: &Root) -> Self {
        let mut stack = Self::default();
        for place in ["sys/class/block", "sys/block"] {
            for name in root.names(place).unwrap_or_default() {
                let directory = format!("{place}/{name}");
                stack.add(root, &name, &directory, None);
                // Without `class/block` partitions are seen in their disk alone.
                for inner in root.names(&directory).unwrap_or_default() {
                    if root.has(&format!("{directory}/{inner}/partition")) {
                        stack.add(root, &inner, &format!("{directory}/{inner}"), Some(&name));
                    }
                }
            }
        }
        stack
    }

    fn add(&mut self, root: &Root, name: &str, directory: &str, disk: Option<&str>) {
        let device = self.devices.entry(name.to_owned()).or_default();
        if device.number.is_none() {
            device.number = root.line(&format!("{directory}/dev"));
        }
        if device.parts.is_empty() {
            let slaves = root.names(&format!("{directory}/slaves"));
            device.parts = slaves.unwrap_or_default();
            device.parts.extend(disk.map(str::to_owned));
        }
        let link = root.link(directory).unwrap_or_default();
        device.is_one_drive |= matches!(
            transport(name, &link),
            Some("nvme" | "sata" | "sas" | "usb" | "mmc")
        );
        if let Some(said) = root.line(&format!("{directory}/md/level")) {
            device.copies = level(&said).map(|level| is_redundant(&level));
        }
    }

    /// The device of a number, `8:1`, or of a path, `/dev/sda1` or `/dev/mapper/x`, if it is here.
    pub(crate) fn of_number(&self, number: &str) -> Option<&str> {
        let of_number = |(_, device): &(&String, &Device)| device.number.as_deref() == Some(number);
        let found = self.devices.iter().find(of_number);
        found.map(|(name, _)| name.as_str())
    }

    pub(crate) fn of_path(&self, path: &str) -> Option<&str> {
        let name = path.strip_prefix("/dev/")?;
        let found = self.devices.get_key_value(name);
        found.map(|(name, _)| name.as_str())
    }

    /// The disks below a device, itself if it is one.
    pub(crate) fn drives(&self, name: &str) -> BTreeSet<String> {
        let mut drives = BTreeSet::new();
        self.descend(name, 0, &mut drives);
        drives
    }

    fn descend(&self, name: &str, depth: usize, drives: &mut BTreeSet<String>) {
        let parts = self.devices.get(name).map_or(&[][..], |d| &d.parts);
        if parts.is_empty() {
            drives.insert(name.to_owned());
        } else if depth < DEPTH_MAX {
            for part in parts {
                self.descend(part, depth + 1, drives);
            }
        }
    }

    /// Whether what is stored on a device survives the loss of one disk. None where it cannot be told: a
    /// disk of a hypervisor, and one that a controller made, may be anything.
    pub(crate) fn is_redundant(&self, name: &str) -> Option<bool> {
        self.redundant_below(name, 0)
    }

    fn redundant_below(&self, name: &str, depth: usize) -> Option<bool> {
        let device = self.devices.get(name)?;
        if device.copies == Some(true) {
            return Some(true);
        }
        if device.parts.is_empty() {
            return device.is_one_drive.then_some(false);
        }
        if depth >= DEPTH_MAX {
            return None;
        }
        // Laid one behind the other, the data needs each of them. Of a device mapper over several it is not
        // known whether it does that or copies.
        let mut all = Some(true);
        for part in &device.parts {
            match self.redundant_below(part, depth + 1) {
                Some(true) => {}
                Some(false) => {
                    all = Some(false);
                    break;
                }
                None => all = None,
            }
        }
        let may_copy = name.starts_with("dm-") && device.parts.len() > 1;
        all.filter(|all| *all || !may_copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    fn stack(listing: &str) -> Stack {
        let listing = listing.replace("/sys/block/sd", "/sys/devices/ata1/host0/block/sd");
        let mut archive = Archive::parse_listing(&listing).unwrap();
        for name in ["sda", "sdb", "sdc"] {
            archive.links.insert(
                format!("sys/block/{name}"),
                format!("../devices/ata1/host0/block/{name}"),
            );
        }
        Stack::read(&Root::Archive(archive))
    }

    const LVM_ON_MIRROR: &str = "\
        /sys/block/sda/dev:8:0\n/sys/block/sda/sda1/partition:1\n/sys/block/sda/sda1/dev:8:1\n\
        /sys/block/sdb/dev:8:16\n/sys/block/sdb/sdb1/partition:1\n/sys/block/sdb/sdb1/dev:8:17\n\
        /sys/block/sdc/dev:8:32\n\
        /sys/block/md0/dev:9:0\n/sys/block/md0/md/level:raid1\n\
        /sys/block/md0/slaves/sda1/dev:8:1\n/sys/block/md0/slaves/sdb1/dev:8:17\n\
        /sys/block/dm-0/dev:253:0\n/sys/block/dm-0/slaves/md0/dev:9:0\n\
        /sys/block/dm-1/dev:253:1\n/sys/block/dm-1/slaves/sdc/dev:8:32\n\
        /sys/block/dm-2/dev:253:2\n/sys/block/dm-2/slaves/sdc/dev:8:32\n/sys/block/dm-2/slaves/sda/dev:8:0\n\
        /sys/block/dm-3/dev:253:3\n/sys/block/dm-3/slaves/dm-3/dev:253:3\n";

    #[test]
    fn disks_are_found_through_all_that_lies_on_them() {
        let stack = stack(LVM_ON_MIRROR);
        for (number, drives, redundant) in [
            ("8:1", &["sda"][..], Some(false)),
            ("253:0", &["sda", "sdb"][..], Some(true)),
            ("253:1", &["sdc"][..], Some(false)),
            // A mirror, or one behind the other: it does not say.
            ("253:2", &["sda", "sdc"][..], None),
            // A circle ends.
            ("253:3", &[][..], None),
        ] {
            let name = stack.of_number(number).unwrap();
            let found: Vec<String> = stack.drives(name).into_iter().collect();
            assert_eq!(found, drives, "{number}");
            assert_eq!(stack.is_redundant(name), redundant, "{number}");
        }
        assert_eq!(stack.of_number("1:1"), None);
        assert_eq!(stack.of_path("/dev/sdb1"), Some("sdb1"));
    }
}
