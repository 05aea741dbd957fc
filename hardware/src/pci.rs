//! Controllers of disks as the bus lists them: which there are, by the driver that serves them, and so
//! which tool must be asked.

use crate::facts::{ControllerFacts, Facts};
use crate::report::{Health, Item, Report};
use crate::root::Root;

const DEVICES: &str = "sys/bus/pci/devices";

/// Drivers of controllers that make volumes out of disks, and what is to be asked of them.
pub const RAID_DRIVERS: &[(&str, &str)] = &[
    ("megaraid_sas", "storcli or perccli"),
    ("hpsa", "ssacli"),
    ("smartpqi", "ssacli or arcconf"),
    ("cciss", "ssacli"),
    ("aacraid", "arcconf"),
    ("mpt3sas", "storcli or sas3ircu"),
    ("mpt2sas", "sas2ircu"),
    ("mptsas", "sas2ircu"),
    ("3w-9xxx", "tw_cli"),
    ("3w-sas", "tw_cli"),
    ("3w-xxxx", "tw_cli"),
];

/// Whether a driver serves controllers that make volumes.
pub fn is_raid_driver(driver: &str) -> bool {
    RAID_DRIVERS.iter().any(|(known, _)| *known == driver)
}

/// Reads the controllers below `root` that make volumes out of disks, by their place on the bus.
pub fn read_controllers(root: &Root) -> Report {
    let mut report = Report::default();
    for address in root.names(DEVICES).unwrap_or_default() {
        let directory = format!("{DEVICES}/{address}");
        let link = root.link(&format!("{directory}/driver"));
        let driver = link
            .as_deref()
            .and_then(|link| link.rsplit('/').next())
            .filter(|driver| !driver.is_empty());
        let known = driver.and_then(|driver| RAID_DRIVERS.iter().find(|(name, _)| *name == driver));
        let class = root.line(&format!("{directory}/class"));
        // 0x0104: RAID. What no driver serves is there and cannot be used.
        let is_raid = class.is_some_and(|class| class.starts_with("0x0104"));
        let reason = match (driver, known) {
            (_, Some((_, tool))) => format!("only {tool} can tell how it fares"),
            (Some(driver), None) if is_raid => format!("no tool is known for {driver}"),
            (None, None) if is_raid => "no driver serves it".to_owned(),
            _ => continue,
        };
        let mut facts = ControllerFacts::unknown("the kernel does not tell");
        facts.driver.learn(driver.map(str::to_owned));
        report.items.push(Item {
            id: address,
            health: Health::Unknown,
            reason,
            facts: Facts::Controller(facts),
        });
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    #[test]
    fn what_makes_volumes_is_listed() {
        let mut archive = Archive::default();
        for (address, class, driver) in [
            ("0000:00:17.0", "0x010601", Some("ahci")),
            ("0000:03:00.0", "0x010400", Some("megaraid_sas")),
            ("0000:04:00.0", "0x010700", Some("mpt3sas")),
            ("0000:05:00.0", "0x010400", Some("newdriver")),
            ("0000:06:00.0", "0x010400", None),
            ("0000:07:00.0", "0x020000", Some("ixgbe")),
        ] {
            let directory = format!("{DEVICES}/{address}");
            archive
                .files
                .insert(format!("{directory}/class"), class.into());
            if let Some(driver) = driver {
                archive.links.insert(
                    format!("{directory}/driver"),
                    format!("../../../bus/pci/drivers/{driver}"),
                );
            }
        }
        let report = read_controllers(&Root::Archive(archive));
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.id.as_str(), item.reason.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (
                    "0000:03:00.0",
                    "only storcli or perccli can tell how it fares"
                ),
                (
                    "0000:04:00.0",
                    "only storcli or sas3ircu can tell how it fares"
                ),
                ("0000:05:00.0", "no tool is known for newdriver"),
                ("0000:06:00.0", "no driver serves it"),
            ]
        );
    }
}
