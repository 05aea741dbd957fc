//! Disks as the kernel sees them, from `/sys/block`.
//!
//! What is stable of a disk is its world-wide name, its serial, and which path it hangs on; `sda` is
//! another disk after the next boot. A disk of a hypervisor claims to turn, and to have a cache, and may
//! be anything: of it, medium and cache are unknown.

use std::collections::BTreeMap;

use crate::fact::Fact;
use crate::facts::{DriveFacts, Facts, Medium};
use crate::report::{Health, Item, Report};
use crate::root::Root;

/// Names that are no disks: made of others, or of memory.
const NOT_DISKS: [&str; 10] = [
    "loop", "ram", "zram", "pmem", "md", "dm-", "sr", "fd", "nbd", "drbd",
];

/// Reads the disks below `root`.
pub fn read_block_devices(root: &Root) -> Report {
    let mut report = Report::default();
    let mut disks = BTreeMap::new();
    // The first is what there should be; copies of `/sys` may have disks in the second alone, among
    // their partitions.
    for place in ["sys/class/block", "sys/block"] {
        let names = root.names(place).unwrap_or_default();
        for name in &names {
            let directory = format!("{place}/{name}");
            if !is_partition(root, &directory, &names) {
                disks.insert(name.clone(), directory);
            }
        }
    }
    if disks.is_empty() && !root.has("sys/block") && !root.has("sys/class/block") {
        report.problem("sys/block", "it cannot be read");
    }
    for (name, directory) in disks {
        if !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix)) {
            report.items.push(read_disk(root, &name, &directory));
        }
    }
    report
}

/// A partition says so, and its directory stands in that of its disk.
fn is_partition(root: &Root, directory: &str, names: &[String]) -> bool {
    let in_disk = || {
        let link = root.link(directory)?;
        let parent = link.rsplit('/').nth(1)?.to_owned();
        names.contains(&parent).then_some(())
    };
    root.has(&format!("{directory}/partition")) || in_disk().is_some()
}

fn read_disk(root: &Root, name: &str, directory: &str) -> Item {
    let line = |file: &str| root.line(&format!("{directory}/{file}"));
    let mut facts = DriveFacts::unknown("the kernel does not tell without asking the drive");
    let vendor =
        line("device/vendor").filter(|vendor| !vendor.starts_with("0x") && vendor != "ATA");
    let model = line("device/model");
    facts.model.learn(match (vendor, model) {
        (Some(vendor), Some(model)) => Some(format!("{vendor} {model}")),
        (vendor, model) => model.or(vendor),
    });
    let serial = [
        "device/serial",
        "serial",
        "wwid",
        "device/wwid",
        "device/unique_id",
    ]
    .iter()
    .find_map(|file| line(file));
    facts.serial.learn(serial);
    let sectors = root.number(&format!("{directory}/size"));
    facts.size_bytes.learn(
        sectors
            .filter(|sectors| *sectors > 0)
            .and_then(|sectors| sectors.checked_mul(512)),
    );
    let transport = transport(name, &root.link(directory).unwrap_or_default());
    if transport == Some("virtio") || transport == Some("virtual") {
        let hidden = || "a hypervisor hides it";
        facts.medium = Fact::Unknown(hidden().into());
        facts.write_cache = Fact::Unknown(hidden().into());
    } else {
        facts
            .medium
            .learn(match line("queue/rotational").as_deref() {
                Some("0") => Some(Medium::Ssd),
                Some("1") => Some(Medium::Hdd),
                _ => None,
            });
        // What the kernel believes; it can be told to believe otherwise.
        facts
            .write_cache
            .learn(match line("queue/write_cache").as_deref() {
                Some("write back") => Some(true),
                Some("write through") => Some(false),
                _ => None,
            });
    }
    facts.transport.learn(transport.map(str::to_owned));
    if facts.medium.known() == Some(&Medium::Hdd) {
        facts.wear_percent = Fact::NotApplicable;
        facts.spare_percent = Fact::NotApplicable;
    }
    let (health, reason) = match line("device/state").as_deref() {
        None | Some("running" | "live") => (
            Health::Unknown,
            "the kernel uses it; how it fares only the drive can tell".to_owned(),
        ),
        Some(state @ ("offline" | "dead" | "deleting" | "transport-offline" | "cancel")) => {
            (Health::Failed, format!("the kernel calls it {state}"))
        }
        Some(state) => (Health::Unknown, format!("the kernel calls it {state}")),
    };
    Item {
        id: format!("/dev/{name}"),
        health,
        reason,
        facts: Facts::Drive(facts),
    }
}

/// By which way a disk hangs on the machine, from the path of its device.
fn transport(name: &str, path: &str) -> Option<&'static str> {
    let has = |part: &str| path.contains(part);
    if name.starts_with("nvme") {
        Some("nvme")
    } else if name.starts_with("vd") || has("/virtio") {
        Some("virtio")
    } else if name.starts_with("xvd") || has("/vbd-") || has("/vmbus") || has("/VMBUS") {
        Some("virtual")
    } else if name.starts_with("mmcblk") {
        Some("mmc")
    } else if has("/usb") {
        Some("usb")
    } else if has("/ata") {
        Some("sata")
    } else if has("/end_device-") || has("/expander-") {
        Some("sas")
    } else if has("/iscsi") || has("/session") {
        Some("iscsi")
    } else if has("/host") {
        Some("scsi")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    fn disk(name: &str, path: &str, files: &[(&str, &str)]) -> DriveFacts {
        let mut archive = Archive::default();
        archive.links.insert(
            format!("sys/block/{name}"),
            format!("../devices/{path}/{name}"),
        );
        for (file, text) in files {
            archive.files.insert(
                format!("sys/devices/{path}/{name}/{file}"),
                text.as_bytes().to_vec(),
            );
        }
        let report = read_block_devices(&Root::Archive(archive));
        assert_eq!(report.items.len(), 1, "{report:?}");
        let Facts::Drive(facts) = report.items.into_iter().next().unwrap().facts else {
            panic!()
        };
        facts
    }

    #[test]
    fn a_disk_of_a_hypervisor_tells_nothing_of_itself() {
        let files = [
            ("queue/rotational", "1\n"),
            ("queue/write_cache", "write back\n"),
            ("size", "2048\n"),
        ];
        let virtual_disk = disk("vda", "pci0/virtio0/block", &files);
        assert_eq!(virtual_disk.medium.known(), None);
        assert_eq!(virtual_disk.write_cache.known(), None);
        assert_eq!(virtual_disk.size_bytes, (1_u64 << 20).into());
        let real = disk("sda", "pci0/ata1/host0/block", &files);
        assert_eq!(real.medium, Medium::Hdd.into());
        assert_eq!(real.write_cache, true.into());
        assert_eq!(real.transport, "sata".to_owned().into());
    }
}
