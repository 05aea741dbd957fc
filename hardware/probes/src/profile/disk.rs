//! The facts of `disk` and of what it is made of: the file system that holds the agent's files, the disks
//! below it, and the volumes of controllers that those may be.

use hardware::facts::{ArrayFacts, DriveFacts, FilesystemFacts, Medium, WriteHonesty};
use hardware::{Fact, Facts, Report, is_redundant};
use protocol::host::{HostFacts, Value};

use super::take;

/// Facts that are of the file system, or of nothing.
const OF_IT: &[&str] = &[
    "disk.medium",
    "disk.virtual",
    "disk.write_honesty",
    "disk.size_bytes",
    "disk.free_bytes",
    "storage.redundant",
];

pub(super) fn learn_disk(facts: &mut HostFacts, report: &Report, path: &str) {
    let Some(filesystem) = filesystem_of(report, path) else {
        for name in OF_IT {
            facts.miss(
                name,
                "which file system holds the agent's files is not told",
            );
        }
        return;
    };
    take(facts, "disk.size_bytes", &filesystem.size_bytes);
    take(facts, "disk.free_bytes", &filesystem.free_bytes);
    match &filesystem.write_honesty {
        Fact::Known(honesty) => facts.know("disk.write_honesty", text(word(*honesty))),
        Fact::Unknown(why) => facts.miss("disk.write_honesty", why.as_ref()),
        Fact::NotApplicable => {}
    }
    learn_redundancy(facts, report, filesystem);
    match drives_of(report, filesystem) {
        Ok(drives) => {
            learn_medium(facts, &drives);
            let is_virtual = drives.iter().any(|drive| is_virtual(drive));
            facts.know("disk.virtual", Value::Truth(is_virtual));
        }
        Err(why) => {
            facts.miss("disk.medium", why.clone());
            facts.miss("disk.virtual", why);
        }
    }
}

/// The file system whose mount is the deepest on the way to a path.
fn filesystem_of<'a>(report: &'a Report, path: &str) -> Option<&'a FilesystemFacts> {
    let holds = |point: &str| {
        let rest = path.strip_prefix(point);
        point == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = report.items.iter().filter_map(|item| match &item.facts {
        Facts::Filesystem(facts) if holds(&item.id) => Some((item.id.len(), facts)),
        _ => None,
    });
    found
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, facts)| facts)
}

/// The disks below a file system, of which every one must be in the report.
fn drives_of<'a>(
    report: &'a Report,
    filesystem: &FilesystemFacts,
) -> Result<Vec<&'a DriveFacts>, String> {
    let names = match &filesystem.drives {
        Fact::Known(names) => names,
        Fact::Unknown(why) => return Err(why.to_string()),
        Fact::NotApplicable => return Err("it lies on no disk of this machine".to_owned()),
    };
    let drive = |name: &String| {
        let found = report.items.iter().find_map(|item| match &item.facts {
            Facts::Drive(facts) if item.id == *name => Some(facts),
            _ => None,
        });
        found.ok_or_else(|| format!("nothing is known of {name}"))
    };
    names.iter().map(drive).collect()
}

/// The disks below a path, each by what it would take another one to differ in. Kernels give names in
/// another order after a boot, so that one with a serial number goes by that.
pub(super) fn disks_of(report: &Report, path: &str) -> Vec<String> {
    let names = filesystem_of(report, path).and_then(|filesystem| filesystem.drives.known());
    let disks = report.items.iter().filter_map(|item| match &item.facts {
        Facts::Drive(drive) if names?.contains(&item.id) => {
            let serial = drive.serial.known().unwrap_or(&item.id);
            let model = drive.model.known().map_or("", String::as_str);
            let size_bytes = drive.size_bytes.known().copied().unwrap_or_default();
            Some(format!("{serial} {model} {size_bytes}"))
        }
        _ => None,
    });
    let mut disks: Vec<String> = disks.collect();
    disks.sort();
    disks
}

/// The slower medium where there are both.
fn learn_medium(facts: &mut HostFacts, drives: &[&DriveFacts]) {
    let mut slowest = Medium::Ssd;
    for drive in drives {
        match &drive.medium {
            Fact::Known(Medium::Ssd) => {}
            Fact::Known(Medium::Hdd) => slowest = Medium::Hdd,
            Fact::Unknown(why) => return facts.miss("disk.medium", why.as_ref()),
            Fact::NotApplicable => return facts.miss("disk.medium", "it has none"),
        }
    }
    let word = match slowest {
        Medium::Ssd => "ssd",
        Medium::Hdd => "hdd",
    };
    facts.know("disk.medium", text(word));
}

fn is_virtual(drive: &DriveFacts) -> bool {
    let transport = drive.transport.known().map(String::as_str);
    matches!(transport, Some("virtio" | "virtual"))
}

/// What the kernel knows of what it has put together itself; and where the one disk below is a volume of
/// a controller's, the level of that.
fn learn_redundancy(facts: &mut HostFacts, report: &Report, filesystem: &FilesystemFacts) {
    take(facts, "storage.redundant", &filesystem.redundant);
    let Some([device]) = filesystem.drives.known().map(Vec::as_slice) else {
        return;
    };
    let level = report.items.iter().find_map(|item| match &item.facts {
        Facts::Volume(volume) if is_device(volume, device) => volume.level.known(),
        _ => None,
    });
    if let Some(level) = level {
        facts.know("storage.redundant", Value::Truth(is_redundant(level)));
    }
}

fn is_device(volume: &ArrayFacts, device: &str) -> bool {
    volume.device.known().is_some_and(|known| known == device)
}

fn word(honesty: WriteHonesty) -> &'static str {
    match honesty {
        WriteHonesty::Protected => "protected",
        WriteHonesty::VolatileConsistent => "volatile-consistent",
        WriteHonesty::Unknown => "unknown",
        WriteHonesty::Suspicious => "suspicious",
        WriteHonesty::Unsafe => "unsafe",
    }
}

fn text(word: &str) -> Value {
    Value::Text(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;

    /// A mirror of two drives, one of them flash, and a scratch disk.
    fn machine(transport: &str) -> String {
        let disk = |name: &str, number: &str, rotational: &str| {
            format!(
                "/sys/devices/{transport}/block/{name}/dev:{number}\n\
                 /sys/devices/{transport}/block/{name}/queue/rotational:{rotational}\n\
                 /sys/devices/{transport}/block/{name}/queue/write_cache:write back\n\
                 Path: sys/block/{name}\nSymlinkTo: ../devices/{transport}/block/{name}\n"
            )
        };
        format!(
            "{}{}{}/sys/block/md0/dev:9:0\n/sys/block/md0/md/level:raid1\n\
             /sys/block/md0/md/array_state:clean\n/sys/block/md0/md/raid_disks:2\n\
             /sys/block/md0/md/degraded:0\n\
             /sys/block/md0/slaves/sda/dev:8:0\n/sys/block/md0/slaves/sdb/dev:8:16\n\
             ==> /proc/self/mountinfo <==\n1 0 9:0 / / rw - ext4 /dev/md0 rw\n\
             2 1 8:32 / /scratch rw - xfs /dev/sdc rw\n",
            disk("sda", "8:0", "0"),
            disk("sdb", "8:16", "1"),
            disk("sdc", "8:32", "0"),
        )
    }

    #[test]
    fn the_disk_is_what_holds_the_files() {
        for (path, medium, redundant) in [
            ("/var/lib/matins", "hdd", true),
            ("/scratch/matins", "ssd", false),
            ("/scratching", "hdd", true),
        ] {
            let facts = profile(&machine("ata1"), path).facts;
            assert_eq!(facts.text("disk.medium"), Some(medium), "{path}");
            assert_eq!(facts.truth("storage.redundant"), Some(redundant), "{path}");
            assert_eq!(facts.truth("disk.virtual"), Some(false), "{path}");
            assert_eq!(facts.text("disk.write_honesty"), Some("unknown"), "{path}");
        }
    }

    #[test]
    fn of_a_disk_of_a_hypervisor_little_is_known() {
        let facts = profile(&machine("virtio1"), "/scratch").facts;
        assert_eq!(facts.truth("disk.virtual"), Some(true));
        for name in ["disk.medium", "storage.redundant", "disk.free_bytes"] {
            let fact = facts.fact(name).unwrap();
            assert!(
                matches!(fact, protocol::host::HostFact::Unknown(_)),
                "{name}: {fact:?}"
            );
        }
        assert_eq!(facts.text("disk.write_honesty"), Some("unknown"));
    }
}
