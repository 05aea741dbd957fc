//! Processors: how many there are, how they hang together, and how many of them this process may use.
//!
//! From `/sys/devices/system/{cpu,node}`, not from `/proc/cpuinfo`, which shows all of a machine inside a
//! small control group, and from which a decade of programs counted cores wrongly. A core is a set of
//! threads that share it: numbers of cores repeat between packages and have gaps. What may be used is
//! what runs, less what the control group and the affinity leave out; both are told beside the machine's
//! size, for either alone has been the wrong answer to somebody.

mod cpuinfo;
mod cpulist;
mod groups;
mod lscpu;

use std::collections::{BTreeMap, BTreeSet};

pub use cpuinfo::parse_cpuinfo;
pub use lscpu::parse_lscpu;

use crate::fact::Fact;
use crate::facts::{CpuFacts, Facts};
use crate::lines::size;
use crate::report::{Health, Item, Report};
use crate::root::Root;
use cpulist::{parse_list, parse_mask};

pub(crate) use groups::memory_limit;

const CPUS: &str = "sys/devices/system/cpu";
/// One directory for each NUMA node.
pub(crate) const NODES: &str = "sys/devices/system/node";

/// Logical processors by number.
type Set = BTreeSet<u32>;

/// Reads the processors below `root`.
pub fn read_cpu(root: &Root) -> Report {
    let mut report = Report::default();
    let listed = numbered(root, CPUS, "cpu");
    let present = list(root, &format!("{CPUS}/present")).unwrap_or_else(|| listed.clone());
    let online = list(root, &format!("{CPUS}/online")).unwrap_or_else(|| running(root, &listed));
    if online.is_empty() {
        return without_topology(root);
    }
    let topology = Topology::read(root, &online);
    let usable = usable(root, &online);
    let mut facts = CpuFacts::unknown("the kernel does not tell");
    facts.threads = (present.union(&online).count() as u64).into();
    facts.threads_usable = (usable.len() as u64).into();
    facts.packages.learn(topology.packages());
    facts.cores.learn(topology.cores());
    learn_nodes(root, &mut facts);
    learn_rest(root, &online, &mut facts);
    let mut reason = format!(
        "{} of {} logical processors run",
        online.len(),
        present.len().max(online.len())
    );
    if usable.len() < online.len() {
        reason = format!("{reason}, and {} of them may be used here", usable.len());
    }
    if topology.silent > 0 {
        report.problem(
            CPUS,
            format!("{} running processors have no topology", topology.silent),
        );
    }
    report.items.push(item(facts, reason));
    report
}

fn item(facts: CpuFacts, reason: String) -> Item {
    Item {
        id: "cpu".into(),
        // A processor that runs is well; what is broken in it, the kernel tells elsewhere.
        health: Health::Ok,
        reason,
        facts: Facts::Cpu(facts),
    }
}

/// Where `/sys` has no processors, as on old kernels and in some containers.
fn without_topology(root: &Root) -> Report {
    if let Some(text) = root.read("proc/cpuinfo") {
        parse_cpuinfo(&text)
    } else {
        let mut report = Report::default();
        report.problem(
            CPUS,
            "there is neither this nor proc/cpuinfo: it is no root of a machine",
        );
        report
    }
}

/// Numbers of `cpu0`, `cpu1`, ... in a directory.
fn numbered(root: &Root, directory: &str, prefix: &str) -> Set {
    let names = root.names(directory).unwrap_or_default();
    let numbers = names
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
    numbers.collect()
}

fn list(root: &Root, path: &str) -> Option<Set> {
    parse_list(&root.line(path)?)
}

/// Those that run, where no list says so: the first one has no switch and always runs.
fn running(root: &Root, listed: &Set) -> Set {
    let is_on = |number: &u32| {
        let directory = format!("{CPUS}/cpu{number}");
        match root.line(&format!("{directory}/online")).as_deref() {
            Some("0") => false,
            Some(_) => true,
            None => root.has(&format!("{directory}/topology")),
        }
    };
    listed.iter().copied().filter(is_on).collect()
}

/// Packages and cores as sets of the threads that they have.
struct Topology {
    packages: BTreeSet<String>,
    cores: BTreeSet<String>,
    /// Running processors that tell nothing.
    silent: usize,
}

impl Topology {
    fn read(root: &Root, online: &Set) -> Self {
        let mut topology = Self {
            packages: BTreeSet::new(),
            cores: BTreeSet::new(),
            silent: 0,
        };
        for number in online {
            let directory = format!("{CPUS}/cpu{number}/topology");
            let line = |file: &str| root.line(&format!("{directory}/{file}"));
            let set = |files: &[&str]| files.iter().find_map(|file| threads_of(&line(file)?, file));
            // -1 where the firmware does not say.
            let package = line("physical_package_id").filter(|id| !id.starts_with('-'));
            let package = package.or_else(|| {
                set(&[
                    "package_cpus_list",
                    "package_cpus",
                    "core_siblings_list",
                    "core_siblings",
                ])
            });
            let core = set(&[
                "core_cpus_list",
                "core_cpus",
                "thread_siblings_list",
                "thread_siblings",
            ]);
            let core =
                core.or_else(|| Some(format!("{}/{}", package.as_deref()?, line("core_id")?)));
            if package.is_none() && core.is_none() {
                topology.silent += 1;
            }
            topology.packages.extend(package);
            topology.cores.extend(core);
        }
        topology
    }

    fn packages(&self) -> Option<u64> {
        (!self.packages.is_empty()).then_some(self.packages.len() as u64)
    }

    fn cores(&self) -> Option<u64> {
        (!self.cores.is_empty()).then_some(self.cores.len() as u64)
    }
}

/// A set of threads in one spelling, from a list or a mask.
fn threads_of(text: &str, file: &str) -> Option<String> {
    let set = if file.ends_with("_list") {
        parse_list(text)?
    } else {
        parse_mask(text)?
    };
    let numbers: Vec<String> = set.iter().map(u32::to_string).collect();
    (!numbers.is_empty()).then(|| numbers.join(","))
}

fn usable(root: &Root, online: &Set) -> Set {
    let mut usable = online.clone();
    for allowed in [
        groups::processors(root),
        status_list(root, "Cpus_allowed_list"),
    ]
    .into_iter()
    .flatten()
    {
        // A list that shares nothing with what runs is of another machine or moment.
        if usable.intersection(&allowed).next().is_some() {
            usable.retain(|number| allowed.contains(number));
        }
    }
    usable
}

fn status_list(root: &Root, key: &str) -> Option<Set> {
    let status = root.read("proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    parse_list(line.trim())
}

fn learn_nodes(root: &Root, facts: &mut CpuFacts) {
    let nodes = Nodes::read(root);
    let listed = nodes.online.iter().filter_map(|node| {
        let line = root.line(&format!("{NODES}/node{node}/cpulist"))?;
        Some(format!("node{node}: {line}"))
    });
    let listed: Vec<String> = listed.collect();
    if listed.is_empty() {
        facts.node_lists = Fact::NotApplicable;
    } else {
        facts.node_lists = listed.into();
    }
    // A kernel without NUMA has one.
    facts.numa_nodes = (nodes.online.len().max(1) as u64).into();
    facts.numa_nodes_usable = (nodes.usable.len().max(1) as u64).into();
}

/// NUMA nodes: those that there are, and those whose memory this process may use.
pub(crate) struct Nodes {
    pub(crate) online: Set,
    pub(crate) usable: Set,
}

impl Nodes {
    pub(crate) fn read(root: &Root) -> Self {
        let listed = numbered(root, NODES, "node");
        // Online, not possible: firmware announces nodes that never come.
        let online = list(root, &format!("{NODES}/online")).unwrap_or(listed);
        let mut usable = online.clone();
        let allowed = [groups::nodes(root), status_list(root, "Mems_allowed_list")];
        for allowed in allowed.into_iter().flatten() {
            if usable.intersection(&allowed).next().is_some() {
                usable.retain(|node| allowed.contains(node));
            }
        }
        Self { online, usable }
    }
}

fn learn_rest(root: &Root, online: &Set, facts: &mut CpuFacts) {
    facts.model.learn(
        root.read("proc/cpuinfo")
            .and_then(|text| cpuinfo::model(&text)),
    );
    facts.quota = match groups::quota(root) {
        Some(quota) => Fact::Known(quota),
        None => Fact::NotApplicable,
    };
    facts.kinds = match kinds(root, online) {
        kinds if kinds.len() > 1 => kinds.into(),
        _ => Fact::NotApplicable,
    };
    let Some(first) = online.first() else {
        return;
    };
    let governor = root.line(&format!("{CPUS}/cpu{first}/cpufreq/scaling_governor"));
    facts.governor = match governor {
        Some(governor) => Fact::Known(governor),
        None => Fact::Unknown("the kernel does not govern its frequency".into()),
    };
    facts.cache_last_level_bytes.learn(last_level(root, online));
}

/// Processors that differ: by the kernel's lists where firmware makes two kinds (`cpu_core`, `cpu_atom`), by
/// their capacity elsewhere.
fn kinds(root: &Root, online: &Set) -> Vec<String> {
    let of_list = |kind: &&str| {
        let set = list(root, &format!("sys/devices/{kind}/cpus"))?;
        Some(format!("{} {kind}", set.len()))
    };
    let listed: Vec<String> = ["cpu_core", "cpu_atom", "cpu_lowpower"]
        .iter()
        .filter_map(of_list)
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    let mut capacities: BTreeMap<u64, usize> = BTreeMap::new();
    for number in online {
        if let Some(capacity) = root.number(&format!("{CPUS}/cpu{number}/cpu_capacity")) {
            *capacities.entry(capacity).or_default() += 1;
        }
    }
    let said = capacities
        .iter()
        .rev()
        .map(|(capacity, count)| format!("{count} of capacity {capacity}"));
    said.collect()
}

/// All caches of the last level, each counted once.
fn last_level(root: &Root, online: &Set) -> Option<u64> {
    let mut caches: BTreeSet<(u64, String, u64)> = BTreeSet::new();
    for number in online {
        let directory = format!("{CPUS}/cpu{number}/cache");
        for index in root.names(&directory).unwrap_or_default() {
            let line = |file: &str| root.line(&format!("{directory}/{index}/{file}"));
            let shared = line("shared_cpu_list")
                .and_then(|text| threads_of(&text, "_list"))
                .or_else(|| threads_of(&line("shared_cpu_map")?, "map"));
            let read = (|| {
                let kind = line("type")?;
                let level = line("level")?.parse().ok()?;
                (kind != "Instruction").then_some((level, shared?, size(&line("size")?)?))
            })();
            caches.extend(read);
        }
    }
    let last = caches.iter().map(|(level, _, _)| *level).max()?;
    let sizes = caches
        .iter()
        .filter(|(level, _, _)| *level == last)
        .map(|(_, _, bytes)| bytes);
    Some(sizes.fold(0, |sum, bytes| bytes.saturating_add(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    /// Two packages of two cores with two threads, core numbers the same in both, one thread offline,
    /// in a control group that may use three.
    fn machine() -> Archive {
        let mut archive = Archive::default();
        let mut put = |path: String, text: &str| {
            archive.files.insert(path, text.as_bytes().to_vec());
        };
        put(format!("{CPUS}/present"), "0-7\n");
        put(format!("{CPUS}/online"), "0-6\n");
        for number in 0..7_u32 {
            let directory = format!("{CPUS}/cpu{number}/topology");
            put(
                format!("{directory}/physical_package_id"),
                &format!("{}\n", number / 4),
            );
            put(
                format!("{directory}/core_id"),
                &format!("{}\n", number % 4 / 2),
            );
            let pair = number / 2 * 2;
            let siblings = if pair == 6 {
                "6".to_owned()
            } else {
                format!("{pair}-{}", pair + 1)
            };
            put(format!("{directory}/thread_siblings_list"), &siblings);
        }
        put(format!("{NODES}/online"), "0,2\n");
        put("proc/self/cpuset".into(), "/job\n\0");
        put(
            "proc/mounts".into(),
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        );
        put("sys/fs/cgroup/job/cpuset.cpus.effective".into(), "4-9\n");
        archive
    }

    fn facts(archive: Archive) -> CpuFacts {
        let report = read_cpu(&Root::Archive(archive));
        assert!(report.problems.is_empty(), "{report:?}");
        let Facts::Cpu(facts) = report.items.into_iter().next().unwrap().facts else {
            panic!()
        };
        facts
    }

    #[test]
    fn what_there_is_and_what_may_be_used() {
        let facts = facts(machine());
        assert_eq!(facts.packages, 2.into());
        assert_eq!(facts.cores, 4.into());
        assert_eq!(facts.threads, 8.into());
        assert_eq!(facts.threads_usable, 3.into());
        assert_eq!(facts.numa_nodes, 2.into());
        assert_eq!(facts.quota, Fact::NotApplicable);
    }

    #[test]
    fn the_tightest_quota_on_the_way_to_the_root_counts() {
        let mut archive = machine();
        for (path, text) in [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
        ] {
            archive.files.insert(path.into(), text.as_bytes().to_vec());
        }
        assert_eq!(facts(archive).quota, 1.5.into());
    }

    #[test]
    fn what_is_no_machine_is_a_problem() {
        let report = read_cpu(&Root::Archive(Archive::default()));
        assert!(report.items.is_empty() && report.problems.len() == 1);
    }
}
