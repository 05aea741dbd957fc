//! This machine, or another one by copies of its files: one report, from the kernel's files alone or from
//! all who can be asked.

use std::path::{Path, PathBuf};

use hardware::{Fact, Facts, Health, Item, Report, Root, honesty, read_machine, read_mounts};

use crate::clock::{ClockWatch, default_addresses};
use crate::nvme::ask_nvme;
use crate::space::{ANSWERED_WITHIN, Answer, Spaces};
use crate::tools::{Places, ask_tools};

/// A file system with less than this share of its space or inodes free works, and soon does not.
const FREE_MIN_PERCENT: u64 = 5;

/// Who looks at the machine, again and again.
#[derive(Clone, Debug)]
pub struct Probes {
    spaces: Spaces,
    places: Places,
}

impl Probes {
    /// Tools are looked for in a path such as `PATH` holds, and where vendors put them.
    pub fn new(path: Option<&std::ffi::OsStr>) -> Self {
        Self {
            spaces: Spaces::default(),
            places: Places::of_path(path),
        }
    }

    /// Reads what the kernel tells, and asks file systems how full they are: cheap, without any other process, and
    /// done within seconds whatever hangs. Below any other root than the machine itself nobody is asked.
    pub fn look(&self, root: &Root, path: &Path) -> Report {
        let path = path_below(root, path);
        let mut report = read_machine(root, Some(&path));
        if root.is_machine() {
            self.ask_space(root, &mut report);
        }
        report
    }

    /// As [`Probes::look`], and asks drives, tools and who keeps the clock as well: seconds at best, minutes at worst, at most every
    /// five minutes.
    pub fn look_closely(&self, root: &Root, path: &Path) -> Report {
        let mut report = self.look(root, path);
        if root.is_machine() {
            ask_nvmes(&mut report);
            let has_ipmi = ["/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"]
                .iter()
                .any(|device| Path::new(device).exists());
            ask_tools(&mut report, &self.places, has_ipmi);
            let clock = ClockWatch::new(default_addresses()).look();
            report.items.push(clock.item());
            honesty::settle(&mut report);
        }
        report
    }

    fn ask_space(&self, root: &Root, report: &mut Report) {
        let mounts = read_mounts(root);
        let is_local = |item: &&Item| {
            let mount = mounts.iter().find(|mount| mount.point == item.id);
            matches!(item.facts, Facts::Filesystem(_))
                && mount.is_some_and(|mount| !mount.is_networked())
        };
        let local: Vec<PathBuf> = report
            .items
            .iter()
            .filter(is_local)
            .map(|item| PathBuf::from(&item.id))
            .collect();
        let mut answers = self.spaces.ask(&local, ANSWERED_WITHIN);
        for item in &mut report.items {
            if let Some(answer) = answers.remove(Path::new(&item.id)) {
                learn_space(item, answer);
            }
        }
    }
}

/// The path without links on this machine. Those of another one cannot be followed.
pub(crate) fn path_below(root: &Root, path: &Path) -> String {
    let followed = root
        .is_machine()
        .then(|| path.canonicalize().ok())
        .flatten();
    let path = followed.as_deref().unwrap_or(path);
    path.to_string_lossy().into_owned()
}

fn learn_space(item: &mut Item, answer: Answer) {
    let Facts::Filesystem(facts) = &mut item.facts else {
        return;
    };
    let space = match answer {
        Answer::Space(space) => space,
        Answer::Stuck => {
            item.health = Health::Failed;
            item.reason = format!(
                "it did not answer within {} s: what reads it hangs; {}",
                ANSWERED_WITHIN.as_secs(),
                item.reason
            );
            return;
        }
        Answer::Failed(why) => {
            let why = format!("it cannot be asked: {why}");
            item.health = item.health.max(Health::Unknown);
            item.reason = format!("{why}; {}", item.reason);
            return;
        }
    };
    facts.size_bytes = space.size_bytes.into();
    facts.free_bytes = space.free_bytes.into();
    if space.inodes == 0 {
        // Some make them as they need them.
        facts.inodes = Fact::NotApplicable;
        facts.inodes_free = Fact::NotApplicable;
    } else {
        facts.inodes = space.inodes.into();
        facts.inodes_free = space.inodes_free.into();
    }
    // Of what is never written to, all is used.
    if facts.read_only.known() == Some(&true) {
        return;
    }
    for (what, free, all) in [
        ("space", space.free_bytes, space.size_bytes),
        ("its inodes", space.inodes_free, space.inodes),
    ] {
        let percent = free.saturating_mul(100).checked_div(all);
        if let Some(percent) = percent.filter(|percent| *percent < FREE_MIN_PERCENT) {
            item.health = item.health.max(Health::Degraded);
            item.reason = format!("{percent} % of {what} is free; {}", item.reason);
        }
    }
}

/// Asks every NVMe drive itself. What none answers stays as the kernel told it, and says why.
fn ask_nvmes(report: &mut Report) {
    let is_nvme = |item: &&Item| {
        matches!(&item.facts, Facts::Drive(facts)
            if facts.transport.known().map(String::as_str) == Some("nvme"))
    };
    let names: Vec<String> = report
        .items
        .iter()
        .filter(is_nvme)
        .map(|item| item.id.clone())
        .collect();
    for name in names {
        match ask_nvme(&name) {
            Ok(item) => {
                let told = Report {
                    items: vec![item],
                    ..Report::default()
                };
                hardware::join(report, told, None);
            }
            Err(why) => {
                if let Some(item) = report.items.iter_mut().find(|item| item.id == name) {
                    item.reason = format!("{}; {why}", item.reason);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Space;
    use hardware::facts::FilesystemFacts;

    #[test]
    fn little_room_is_told_and_a_mount_that_hangs_failed() {
        let space = |free_bytes, inodes, inodes_free| {
            Answer::Space(Space {
                size_bytes: 100,
                free_bytes,
                inodes,
                inodes_free,
            })
        };
        for (answer, read_only, expected, said) in [
            (space(50, 100, 50), false, Health::Ok, ""),
            (space(5, 0, 0), false, Health::Ok, ""),
            (space(4, 0, 0), false, Health::Degraded, "4 % of space"),
            (
                space(50, 100, 1),
                false,
                Health::Degraded,
                "1 % of its inodes",
            ),
            (space(0, 100, 0), true, Health::Ok, ""),
            (Answer::Stuck, false, Health::Failed, "did not answer"),
            (Answer::Failed("no".into()), false, Health::Unknown, "no"),
        ] {
            let mut facts = FilesystemFacts::unknown("not asked");
            facts.read_only = read_only.into();
            let mut item = Item {
                id: "/".into(),
                health: Health::Ok,
                reason: "it may be written".into(),
                facts: Facts::Filesystem(facts),
            };
            learn_space(&mut item, answer.clone());
            assert_eq!(item.health, expected, "{answer:?}");
            assert!(item.reason.contains(said), "{answer:?}: {}", item.reason);
        }
    }

    #[test]
    fn a_copy_of_another_machine_shows_nothing_of_this_one() {
        let place = tempfile::tempdir().unwrap();
        let mountinfo = place.path().join("proc/self");
        std::fs::create_dir_all(&mountinfo).unwrap();
        std::fs::write(
            mountinfo.join("mountinfo"),
            "1 0 8:0 / / rw - ext4 /dev/sda rw\n",
        )
        .unwrap();
        let probes = Probes::new(None);
        let root = Root::directory(place.path());
        let report = probes.look_closely(&root, Path::new("/"));
        let facts = report.items.iter().find_map(|item| match &item.facts {
            Facts::Filesystem(facts) => Some(facts),
            _ => None,
        });
        assert_eq!(facts.unwrap().size_bytes.known(), None);
        assert_eq!(report, read_machine(&root, Some("/")));
    }

    #[test]
    fn this_machine_is_asked_how_full_it_is() {
        let report = Probes::new(None).look(&Root::machine(), Path::new("/"));
        let of_root = report.items.iter().find_map(|item| match &item.facts {
            Facts::Filesystem(facts) if item.id == "/" => Some(facts),
            _ => None,
        });
        let facts = of_root.expect("every machine has something at /");
        assert!(facts.size_bytes.known().is_some(), "{facts:?}");
    }
}
