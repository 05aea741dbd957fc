//! Disks as the kernel sees them, from `/sys/block`.
//!
//! What is stable of a disk is its world-wide name, its serial, and which path it hangs on; `sda` is
//! another disk after the next boot. A disk of a hypervisor claims to turn, and to have a cache, and may
//! be anything: of it, medium and cache are unknown.

mod stack;
mod stat;

use std::collections::BTreeMap;

pub(crate) use stack::Stack;
pub use stat::{DiskCounters, parse_disk_counters};

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

/// What is counted of each disk below `root` now; those of which nothing is counted are left out.
pub fn read_disk_counters(root: &Root) -> BTreeMap<String, DiskCounters> {
    let names = root.names("sys/block").unwrap_or_default();
    let is_disk = |name: &String| !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix));
    let read = |name: String| {
        let text = root.read(&format!("sys/block/{name}/stat"))?;
        Some((name, parse_disk_counters(&text)?))
    };
    names.into_iter().filter(is_disk).filter_map(read).collect()
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
    let path = root.link(directory).unwrap_or_default();
    let served_by = driver(root, &path);
    let transport = match (transport(name, &path), served_by.as_deref()) {
        // Old kernels do not name the port of ATA on the way.
        (Some("scsi"), Some("ahci" | "ata_piix")) => Some("sata"),
        (transport, _) => transport,
    };
    if transport == Some("virtio") || transport == Some("virtual") {
        let hidden = || "a hypervisor hides it";
        facts.medium = Fact::Unknown(hidden().into());
        facts.write_cache = Fact::Unknown(hidden().into());
        facts.kernel_write_cache = Fact::Unknown(hidden().into());
    } else {
        facts
            .medium
            .learn(match line("queue/rotational").as_deref() {
                Some("0") => Some(Medium::Ssd),
                Some("1") => Some(Medium::Hdd),
                _ => None,
            });
        // What the kernel believes; it can be told to believe otherwise, and then says so of its own guess
        // ("temporary") or not at all.
        facts
            .kernel_write_cache
            .learn(line("queue/write_cache").as_deref().and_then(has_cache));
        let pages = root.names(&format!("{directory}/device/scsi_disk"));
        let page = pages.unwrap_or_default().into_iter().next();
        let said = page.and_then(|page| line(&format!("device/scsi_disk/{page}/cache_type")));
        facts.write_cache.learn(said.as_deref().and_then(has_cache));
    }
    let counters = root.read(&format!("{directory}/stat"));
    let counters = counters.as_deref().and_then(parse_disk_counters);
    match counters {
        Some(DiskCounters {
            flushes: Some(flushes),
            ..
        }) => {
            facts.flushes = flushes.into();
            match counters.and_then(|counters| counters.flush_mean_us()) {
                Some(mean) => facts.flush_mean_us = (mean as f64).into(),
                None => facts.flush_mean_us = Fact::Unknown("none was asked for yet".into()),
            }
        }
        _ => facts.flushes = Fact::Unknown("the kernel does not count them".into()),
    }
    facts.driver.learn(served_by);
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

/// Whether a cache is volatile and on, in the words of the kernel.
fn has_cache(said: &str) -> Option<bool> {
    match said {
        "write back" | "write back, no read (daft)" => Some(true),
        "write through" | "none" => Some(false),
        _ => None,
    }
}

/// The driver of the PCI device that a disk hangs on, from the path of the disk's device: the last with
/// an address on the way.
fn driver(root: &Root, path: &str) -> Option<String> {
    let path = crate::root::normal(path);
    let parts: Vec<&str> = path.split('/').collect();
    let last = parts.iter().rposition(|part| is_pci_address(part))?;
    let directory = format!("sys/{}", parts[..=last].join("/"));
    let link = root.link(&format!("{directory}/driver"))?;
    link.rsplit('/').next().map(str::to_owned)
}

/// `0000:03:00.0`.
pub(crate) fn is_pci_address(text: &str) -> bool {
    let shape = |text: &str| -> String {
        let hex = |c: char| if c.is_ascii_hexdigit() { 'x' } else { c };
        text.chars().map(hex).collect()
    };
    matches!(shape(text).as_str(), "xxxx:xx:xx.x" | "xxxxx:xx:xx.x")
}

/// By which way a disk hangs on the machine, from the path of its device.
pub(crate) fn transport(name: &str, path: &str) -> Option<&'static str> {
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
        assert_eq!(virtual_disk.kernel_write_cache.known(), None);
        assert_eq!(virtual_disk.size_bytes, (1_u64 << 20).into());
        let real = disk("sda", "pci0/ata1/host0/block", &files);
        assert_eq!(real.medium, Medium::Hdd.into());
        assert_eq!(real.kernel_write_cache, true.into());
        assert_eq!(
            real.write_cache.known(),
            None,
            "the kernel's word is not the drive's"
        );
        assert_eq!(real.transport, "sata".to_owned().into());
    }

    #[test]
    fn the_drive_and_the_kernel_may_differ_about_its_cache() {
        let cache_type = "device/scsi_disk/0:0:0:0/cache_type";
        for (kernel, page, expected) in [
            ("write back", "write back", (Some(true), Some(true))),
            ("write through", "write back", (Some(false), Some(true))),
            ("write through", "none", (Some(false), Some(false))),
            ("write through", "temporary none", (Some(false), None)),
        ] {
            let facts = disk(
                "sda",
                "pci0/ata1/host0/block",
                &[("queue/write_cache", kernel), (cache_type, page)],
            );
            let found = (
                facts.kernel_write_cache.known().copied(),
                facts.write_cache.known().copied(),
            );
            assert_eq!(found, expected, "{kernel}, {page}");
        }
    }

    #[test]
    fn the_driver_is_that_of_the_last_device_on_the_bus() {
        let mut archive = Archive::default();
        let bus = "sys/devices/pci0000:00/0000:00:03.0";
        for (device, driver) in [
            (bus, "pcieport"),
            (&format!("{bus}/0000:03:00.0"), "megaraid_sas"),
        ] {
            archive.links.insert(
                format!("{device}/driver"),
                format!("../../bus/pci/drivers/{driver}"),
            );
        }
        let root = Root::Archive(archive);
        let disk =
            "../devices/pci0000:00/0000:00:03.0/0000:03:00.0/host0/target0:2:0/0:2:0:0/block/sda";
        assert_eq!(driver(&root, disk).as_deref(), Some("megaraid_sas"));
        assert_eq!(driver(&root, "../devices/virtual/block/md0"), None);
    }
}
