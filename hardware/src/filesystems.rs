//! File systems that are mounted, from `/proc/self/mountinfo`: what they are, what they lie on, and
//! whether they may be written.
//!
//! Nothing here touches them: a mount of a server that is gone holds up whoever asks it, for ever. How
//! full they are is for whoever can afford to wait.

mod mountinfo;

use std::collections::BTreeSet;

pub use mountinfo::{Mount, parse_mountinfo};

use crate::block::Stack;
use crate::fact::Fact;
use crate::facts::{Facts, FilesystemFacts};
use crate::judgement::Judgement;
use crate::report::{Health, Item, Report};
use crate::root::Root;

/// File systems of another machine.
const NETWORKED: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ocfs2",
    "gfs2",
    "afs",
    "9p",
    "virtiofs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.ceph",
];

/// What lies in memory and is gone with the power.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs"];

impl Mount {
    /// Whether another machine has what is in it. Everything that is not known here and lies on no disk
    /// may be such.
    pub fn is_networked(&self) -> bool {
        NETWORKED.contains(&self.kind.as_str())
            || self.kind.starts_with("fuse.") && !self.device.starts_with("/dev/")
    }

    /// Whether it holds files that somebody stores, and no view of the kernel's. Images that are mounted to
    /// be read, as package managers do by the dozen, are none.
    fn holds_files(&self) -> bool {
        if matches!(
            self.kind.as_str(),
            "squashfs" | "erofs" | "iso9660" | "cramfs"
        ) {
            return false;
        }
        self.is_networked()
            || self.device.starts_with("/dev/")
            || matches!(
                self.kind.as_str(),
                "btrfs" | "zfs" | "bcachefs" | "overlay" | "xfs" | "ext4"
            )
    }
}

/// Mounts below `root`, each file system once: where it is bound to several places, the one that shows
/// its root, or else the shortest path.
pub fn read_mounts(root: &Root) -> Vec<Mount> {
    let text = root.read("proc/self/mountinfo").unwrap_or_default();
    parse_mountinfo(&text).0
}

/// The mount that holds a path, given without `.`, `..` and links.
pub fn mount_of<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    let holds = |mount: &&Mount| {
        let rest = path.strip_prefix(mount.point.as_str());
        mount.point == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // Of two on one point the later covers the earlier.
    mounts
        .iter()
        .filter(holds)
        .max_by_key(|mount| mount.point.len())
}

/// Reads the file systems below `root` that hold files, and the one that holds `path` whatever it is.
pub fn read_filesystems(root: &Root, path: Option<&str>) -> Report {
    let mut report = Report::default();
    let Some(text) = root.read("proc/self/mountinfo") else {
        report.problem("proc/self/mountinfo", "it cannot be read");
        return report;
    };
    let (mounts, problems) = parse_mountinfo(&text);
    report.problems = problems;
    let wanted = path.and_then(|path| mount_of(&mounts, path));
    let stack = Stack::read(root);
    let mut seen = BTreeSet::new();
    let mut listed: Vec<&Mount> = mounts.iter().filter(|mount| mount.holds_files()).collect();
    listed.sort_by_key(|mount| (mount.root != "/", mount.point.len(), mount.point.clone()));
    for mount in wanted.into_iter().chain(listed) {
        // Parts of one file system have one number; only of the network it may be one for all.
        if seen.insert((mount.number.as_str(), mount.device.as_str())) {
            report.items.push(read_one(root, &stack, mount));
        }
    }
    report.items.sort_by(|a, b| a.id.cmp(&b.id));
    report
}

fn read_one(root: &Root, stack: &Stack, mount: &Mount) -> Item {
    let mut facts = FilesystemFacts::unknown("nobody asked the file system itself");
    facts.r#type = mount.kind.clone().into();
    facts.device = mount.device.clone().into();
    facts.read_only = mount.is_read_only().into();
    facts.barriers = mount.barriers().into();
    let devices = devices_of(root, stack, mount);
    let drives: BTreeSet<String> = devices
        .iter()
        .flat_map(|device| stack.drives(device))
        .collect();
    if mount.is_networked() {
        let why = "another machine has it";
        facts.drives = Fact::NotApplicable;
        facts.redundant = Fact::Unknown(why.into());
        facts.barriers = Fact::Unknown(why.into());
    } else if IN_MEMORY.contains(&mount.kind.as_str()) {
        facts.drives = Fact::NotApplicable;
        facts.redundant = false.into();
        facts.barriers = Fact::NotApplicable;
    } else if drives.is_empty() {
        let why = format!("what {} lies on is not told by /sys", mount.device);
        facts.drives = Fact::Unknown(why.clone().into());
        facts.redundant = Fact::Unknown(why.into());
    } else {
        facts.drives = Fact::Known(drives.iter().map(|name| format!("/dev/{name}")).collect());
        facts.redundant = redundant(stack, &devices);
    }
    judge(mount).item(mount.point.clone(), Facts::Filesystem(facts))
}

/// Block devices that a file system lies on: mostly the one of its number.
fn devices_of(root: &Root, stack: &Stack, mount: &Mount) -> Vec<String> {
    let by_number = stack.of_number(&mount.number);
    let first = by_number.or_else(|| stack.of_path(&mount.device));
    let Some(first) = first else {
        return Vec::new();
    };
    if mount.kind != "btrfs" {
        return vec![first.to_owned()];
    }
    // It may lie on several, of which the mount names one.
    let places = root.names("sys/fs/btrfs").unwrap_or_default();
    let of_first = places.iter().find_map(|place| {
        let devices = root.names(&format!("sys/fs/btrfs/{place}/devices"))?;
        devices.iter().any(|name| name == first).then_some(devices)
    });
    of_first.unwrap_or_else(|| vec![first.to_owned()])
}

/// Whether what lies on these devices survives the loss of a disk. A disk of a hypervisor, and one that a
/// controller made, may be anything.
fn redundant(stack: &Stack, devices: &[String]) -> Fact<bool> {
    let [device] = devices else {
        return Fact::Unknown("it lies on several devices, and only itself knows how".into());
    };
    match stack.is_redundant(device) {
        Some(redundant) => redundant.into(),
        None => Fact::Unknown("what is below the disk that the kernel sees is not known".into()),
    }
}

fn judge(mount: &Mount) -> Judgement {
    let mut judgement = Judgement::default();
    let has = |word: &str| mount.options_of_super.iter().any(|option| option == word);
    if has("shutdown") || has("emergency_ro") {
        judgement.say(
            Health::Failed,
            "it stopped by itself after an error, and takes no writes",
        );
    } else if mount.turned_read_only() {
        judgement.say(
            Health::Failed,
            "mounted to be written, and read-only now: mostly after an error of its disk",
        );
    } else if !mount.says_whether_writable() {
        judgement.say(Health::Unknown, "whether it may be written is not told");
    } else if mount.is_read_only() {
        judgement.say(Health::Ok, "mounted read-only");
    } else {
        judgement.say(Health::Ok, "it may be written");
    }
    if !mount.barriers() {
        judgement.say(
            Health::Degraded,
            "mounted without barriers: what was acknowledged may be lost with the power",
        );
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    fn read(mountinfo: &str, listing: &str, path: Option<&str>) -> Report {
        let mut archive = Archive::parse_listing(listing).unwrap_or_default();
        archive
            .files
            .insert("proc/self/mountinfo".into(), mountinfo.into());
        read_filesystems(&Root::Archive(archive), path)
    }

    const DISKS: &str = "/sys/block/nvme0n1/dev:259:0\n\
        /sys/block/nvme0n1/nvme0n1p1/partition:1\n/sys/block/nvme0n1/nvme0n1p1/dev:259:1\n\
        /sys/block/sda/dev:8:0\n";

    fn facts(item: &Item) -> &FilesystemFacts {
        let Facts::Filesystem(facts) = &item.facts else {
            panic!("{item:?}")
        };
        facts
    }

    #[test]
    fn what_holds_files_is_listed_once() {
        let mountinfo = "\
            22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            27 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,errors=remount-ro\n\
            28 27 259:1 /home /srv/home rw - ext4 /dev/nvme0n1p1 rw\n\
            30 27 0:40 / /mnt/share rw - nfs4 server:/export rw,vers=4.2\n\
            31 27 0:41 / /run rw - tmpfs tmpfs rw\n\
            32 27 8:0 / /data\\040of\\040all rw - xfs /dev/sda rw,nobarrier\n";
        let report = read(mountinfo, DISKS, Some("/run/matins"));
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| {
                let facts = facts(item);
                (
                    item.id.as_str(),
                    item.health,
                    facts.drives.known().map(|drives| drives.join(" ")),
                    facts.redundant.known().copied(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("/", Health::Ok, Some("/dev/nvme0n1".into()), Some(false)),
                (
                    "/data of all",
                    Health::Degraded,
                    Some("/dev/sda".into()),
                    None
                ),
                ("/mnt/share", Health::Ok, None, None),
                ("/run", Health::Ok, None, Some(false)),
            ]
        );
    }

    #[test]
    fn what_turned_read_only_by_itself_failed() {
        for (options, of_super, health, read_only) in [
            ("rw", "rw", Health::Ok, false),
            ("ro", "ro", Health::Ok, true),
            ("ro", "rw", Health::Ok, true),
            ("rw", "ro", Health::Failed, true),
            ("rw", "rw,shutdown", Health::Failed, false),
            ("rw", "rw,barrier=0", Health::Degraded, false),
            ("rw", "r?", Health::Unknown, false),
            ("", "rw", Health::Unknown, false),
        ] {
            let text = format!("27 1 8:0 / / {options} - ext4 /dev/sda {of_super}\n");
            let report = read(&text, DISKS, None);
            let item = &report.items[0];
            assert_eq!(item.health, health, "{options} {of_super}: {item:?}");
            assert_eq!(facts(item).read_only, read_only.into());
        }
    }

    #[test]
    fn the_mount_of_a_path_is_the_deepest_that_holds_it() {
        let text = "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 8:1 / /var rw - ext4 /dev/sda1 rw\n\
                    3 1 8:2 / /var/lib rw - ext4 /dev/sda2 rw\n4 1 8:3 / /var/lib rw - ext4 /dev/sda3 rw\n";
        let (mounts, _) = parse_mountinfo(text);
        for (path, number) in [
            ("/", "8:0"),
            ("/variable", "8:0"),
            ("/var", "8:1"),
            ("/var/log", "8:1"),
            ("/var/lib/matins", "8:3"),
        ] {
            assert_eq!(mount_of(&mounts, path).unwrap().number, number, "{path}");
        }
    }
}
