//! What a host registers: the report of its parts, and the facts that classes and matching go by.
//!
//! The facts are drawn from the report by [`facts_of`], which is pure, so that what decides where a job
//! runs can be tried on the machines of others. Every fact that a profile can have is known, or says
//! why not, or does not apply; none is guessed.

mod disk;

use std::path::Path;

use hardware::facts::{
    Action, ArrayFacts, ClockFacts, CpuFacts, MemoryFacts, NicFacts, SystemFacts,
};
use hardware::{Fact, Facts, Health, Item, Report, Root};
use protocol::host::{FACT_TEXT_BYTES_MAX, FACTS, HostFact, HostFacts, HostProfile, Value};

use crate::clock::verdict_word;
use crate::machine::{Probes, path_below};

/// Facts that only measuring gives: whoever measured hands them in.
pub const MEASURED: &[&str] = &[
    "cpu.score_single",
    "cpu.score_all",
    "memory.bandwidth_bytes_per_s",
    "disk.fsync_grade",
    "disk.fsync_p99_us",
    "disk.fsync_while_busy",
    "disk.random_write_iops",
    "disk.probe_bytes_per_year",
];

/// Asks the machine below `root` everything that it tells of itself without being measured, and joins it with
/// what was `measured` before: facts of [`MEASURED`] by their names, known or not.
/// `data_directory` is where the agent keeps its files; the facts of `disk` are of what holds it.
///
/// It starts tools, and may take minutes: see [`Probes::look_closely`].
pub fn read_profile(
    root: &Root,
    data_directory: &Path,
    measured: Option<&HostFacts>,
) -> HostProfile {
    let probes = Probes::new(std::env::var_os("PATH").as_deref());
    let report = probes.look_closely(root, data_directory);
    profile_of(root, &report, data_directory, measured)
}

/// The same of a report that somebody has read before.
pub fn profile_of(
    root: &Root,
    report: &Report,
    data_directory: &Path,
    measured: Option<&HostFacts>,
) -> HostProfile {
    let path = path_below(root, data_directory);
    let mut facts = facts_of(report, &path, measured);
    if root.is_machine() && facts.text("host.architecture").is_none() {
        let architecture = std::env::consts::ARCH.to_owned();
        facts.know("host.architecture", Value::Text(architecture));
    }
    // Keys are texts and numbers are finite: that a report is no JSON cannot be.
    let report = serde_json::to_value(report).expect("a report is JSON");
    HostProfile { facts, report }
}

/// Whom figures of [`MEASURED`] are of, as a line each: the processors, and the disks below `data_directory`.
/// Where it is another text, they are of another machine.
pub fn measured_things(root: &Root, report: &Report, data_directory: &Path) -> String {
    let path = path_below(root, data_directory);
    let facts = facts_of(report, &path, None);
    let threads = facts.number("cpu.threads_usable");
    let mut things = vec![format!(
        "{} with {} threads",
        facts.text("cpu.model").unwrap_or("a processor"),
        threads.map_or("unknown".to_owned(), |threads| threads.to_string())
    )];
    things.extend(disk::disks_of(report, &path));
    things.join("\n")
}

/// The facts of a host, from the report of its parts. `path` is what the facts of `disk` are of.
fn facts_of(report: &Report, path: &str, measured: Option<&HostFacts>) -> HostFacts {
    let mut facts = HostFacts::default();
    for spec in FACTS {
        facts.miss(spec.name, "nothing that was read tells of it");
    }
    for item in &report.items {
        match &item.facts {
            Facts::Cpu(cpu) => learn_cpu(&mut facts, cpu),
            Facts::Memory(memory) if item.id == "memory" => learn_memory(&mut facts, memory),
            Facts::Host(system) => learn_system(&mut facts, system),
            Facts::Clock(clock) => learn_clock(&mut facts, clock),
            _ => {}
        }
    }
    learn_correction(&mut facts, report);
    disk::learn_disk(&mut facts, report, path);
    learn_storage(&mut facts, report);
    learn_supplies(&mut facts, report);
    learn_nic(&mut facts, report);
    let health = worst(report).as_str().to_owned();
    facts.know("host.health", Value::Text(health));
    learn_measured(&mut facts, measured);
    bound(&mut facts);
    facts
}

/// Reasons name paths and what the kernel said, and may be long: one that is too long for a coordinator
/// would cost the whole profile.
fn bound(facts: &mut HostFacts) {
    for fact in facts.0.values_mut() {
        if let HostFact::Unknown(text) | HostFact::Known(Value::Text(text)) = fact {
            *text = shortened(std::mem::take(text));
        }
    }
}

/// The worst of the machine. Its clock is left out: that has facts of its own, and a wrong one is no reason to
/// take a machine for broken.
fn worst(report: &Report) -> Health {
    let is_clock = |item: &Item| matches!(item.facts, Facts::Clock(_) | Facts::Source(_));
    let healths = report
        .items
        .iter()
        .filter(|item| !is_clock(item))
        .map(|item| item.health);
    let unread = (!report.problems.is_empty()).then_some(Health::Unknown);
    healths.chain(unread).max().unwrap_or(Health::Unknown)
}

fn learn_system(facts: &mut HostFacts, system: &SystemFacts) {
    take(facts, "host.virtual", &system.r#virtual);
    take(facts, "host.hypervisor", &system.hypervisor);
    take(facts, "host.kernel", &system.kernel);
    take(facts, "host.timezone", &system.timezone);
    take(facts, "host.architecture", &system.architecture);
}

fn learn_clock(facts: &mut HostFacts, clock: &ClockFacts) {
    match &clock.verdict {
        Fact::Known(verdict) => {
            let word = verdict_word(*verdict);
            facts.know("clock.verdict", Value::Text(word.to_owned()));
        }
        Fact::Unknown(why) => facts.miss("clock.verdict", why.as_ref()),
        Fact::NotApplicable => {}
    }
    match &clock.bound_s {
        Fact::Known(bound_s) => facts.know("clock.bound_us", number((bound_s * 1e6) as u64)),
        Fact::Unknown(why) => facts.miss("clock.bound_us", why.as_ref()),
        Fact::NotApplicable => {}
    }
}

/// Supplies that are there, less those that are known not to work.
fn learn_supplies(facts: &mut HostFacts, report: &Report) {
    let is_supply = |item: &&Item| matches!(item.facts, Facts::Supply(_));
    let supplies: Vec<&Item> = report.items.iter().filter(is_supply).collect();
    if supplies.is_empty() {
        facts.miss(
            "power.supplies",
            "neither the firmware nor a management controller tells of them",
        );
    } else {
        let work = supplies.iter().filter(|item| item.health != Health::Failed);
        facts.know("power.supplies", number(work.count() as u64));
    }
}

fn learn_nic(facts: &mut HostFacts, report: &Report) {
    let nics = report.items.iter().filter_map(|item| match &item.facts {
        Facts::Nic(nic) => Some(nic),
        _ => None,
    });
    let connected: Vec<&NicFacts> = nics
        .filter(|nic| nic.carrier.known() == Some(&true))
        .collect();
    let speeds = connected
        .iter()
        .filter_map(|nic| nic.speed_mbit_per_s.known());
    match speeds.max() {
        Some(speed) => facts.know("nic.speed_mbit_per_s", number(*speed)),
        None if connected.is_empty() => {
            facts.miss("nic.speed_mbit_per_s", "no network link is connected");
        }
        None => facts.miss(
            "nic.speed_mbit_per_s",
            "no driver of a connected link tells its speed",
        ),
    }
}

fn learn_cpu(facts: &mut HostFacts, cpu: &CpuFacts) {
    take(facts, "cpu.model", &cpu.model);
    take(facts, "cpu.packages", &cpu.packages);
    take(facts, "cpu.cores", &cpu.cores);
    take(facts, "cpu.threads", &cpu.threads);
    take(facts, "cpu.threads_usable", &cpu.threads_usable);
    take(facts, "cpu.numa_nodes", &cpu.numa_nodes);
    if let Some(threads) = cpu.threads_usable.known() {
        let threads_milli = threads.saturating_mul(1000);
        let quota_milli = cpu.quota.known().map(|quota| (quota * 1000.0) as u64);
        let usable_milli = threads_milli.min(quota_milli.unwrap_or(threads_milli));
        facts.know("cpu.usable_milli", number(usable_milli));
    }
}

fn learn_memory(facts: &mut HostFacts, memory: &MemoryFacts) {
    take(facts, "memory.size_bytes", &memory.size_bytes);
    take(facts, "memory.usable_bytes", &memory.usable_bytes);
}

/// Of whichever part of the report tells whether memory corrects errors.
fn learn_correction(facts: &mut HostFacts, report: &Report) {
    let told = report.items.iter().find_map(|item| match &item.facts {
        Facts::Memory(memory) => memory.ecc.known(),
        _ => None,
    });
    match told {
        Some(ecc) => facts.know("memory.ecc", Value::Truth(*ecc)),
        None => facts.miss(
            "memory.ecc",
            "neither a memory controller nor the firmware tells",
        ),
    }
}

fn learn_storage(facts: &mut HostFacts, report: &Report) {
    let stores = |item: &&Item| {
        matches!(
            item.facts,
            Facts::Array(_) | Facts::Volume(_) | Facts::Battery(_) | Facts::Drive(_)
        )
    };
    let stores: Vec<&Item> = report.items.iter().filter(stores).collect();
    match stores.iter().map(|item| item.health).max() {
        Some(worst) => facts.know("storage.health", Value::Text(worst.as_str().to_owned())),
        None => facts.miss("storage.health", "no disk is seen"),
    }
    let rebuilds = |item: &&Item| {
        item.health == Health::Rebuilding
            || match &item.facts {
                Facts::Array(array) | Facts::Volume(array) => is_filled(array),
                _ => false,
            }
    };
    let rebuilding = stores.iter().any(rebuilds);
    facts.know("storage.rebuilding", Value::Truth(rebuilding));
}

/// A check only reads, and what is delayed does not begin before others end.
fn is_filled(array: &ArrayFacts) -> bool {
    matches!(
        array.action.known(),
        Some(Action::Resync | Action::Recovery | Action::Reshape)
    )
}

fn learn_measured(facts: &mut HostFacts, measured: Option<&HostFacts>) {
    for name in MEASURED {
        match measured.and_then(|measured| measured.fact(name)) {
            Some(fact) => {
                facts.0.insert((*name).to_owned(), fact.clone());
            }
            None => facts.miss(name, "it was not measured"),
        }
    }
}

/// A fact of the report under its name here. What does not apply is not there.
fn take<T: Clone + ToValue>(facts: &mut HostFacts, name: &'static str, fact: &Fact<T>) {
    match fact {
        Fact::Known(value) => facts.know(name, value.to_value()),
        Fact::Unknown(why) => facts.miss(name, why.as_ref()),
        Fact::NotApplicable => {
            facts.0.remove(name);
        }
    }
}

trait ToValue {
    fn to_value(&self) -> Value;
}

impl ToValue for u64 {
    fn to_value(&self) -> Value {
        number(*self)
    }
}

impl ToValue for bool {
    fn to_value(&self) -> Value {
        Value::Truth(*self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

/// As much of a text as a fact may have.
pub(crate) fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(FACT_TEXT_BYTES_MAX));
    text
}

/// No machine has so much that it is no `i64`; what is garbled ends there.
fn number(value: u64) -> Value {
    Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardware::Archive;

    pub(super) fn profile(listing: &str, path: &str) -> HostProfile {
        let archive = Archive::parse_listing(listing).unwrap();
        read_profile(&Root::Archive(archive), Path::new(path), None)
    }

    const MACHINE: &str = "\
        /sys/devices/system/cpu/present:0-3\n\
        /sys/devices/system/cpu/online:0-3\n\
        /sys/devices/system/cpu/cpu0/topology/physical_package_id:0\n\
        /sys/devices/system/cpu/cpu0/topology/thread_siblings_list:0\n\
        ==> /proc/self/cgroup <==\n0::/a\n\
        ==> /proc/mounts <==\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n\
        /sys/fs/cgroup/a/cpu.max:150000 100000\n\
        /sys/fs/cgroup/a/memory.max:1048576\n\
        ==> /proc/meminfo <==\nMemTotal: 2048 kB\n";

    #[test]
    fn what_jobs_can_have_is_what_the_group_leaves() {
        let facts = profile(MACHINE, "/").facts;
        assert_eq!(facts.number("cpu.threads_usable"), Some(4));
        assert_eq!(facts.number("cpu.usable_milli"), Some(1500));
        assert_eq!(facts.number("memory.size_bytes"), Some(2 << 20));
        assert_eq!(facts.number("memory.usable_bytes"), Some(1 << 20));
    }

    #[test]
    fn an_array_that_is_filled_is_told() {
        let array = |action: &str| {
            format!(
                "{MACHINE}/sys/block/md0/md/level:raid1\n/sys/block/md0/md/array_state:clean\n\
                 /sys/block/md0/md/raid_disks:2\n/sys/block/md0/md/degraded:0\n\
                 /sys/block/md0/md/sync_action:{action}\n"
            )
        };
        for (action, rebuilding, health) in [
            ("idle", false, "ok"),
            ("check", false, "ok"),
            ("resync", true, "rebuilding"),
            ("reshape", true, "ok"),
        ] {
            let facts = profile(&array(action), "/").facts;
            assert_eq!(
                facts.truth("storage.rebuilding"),
                Some(rebuilding),
                "{action}"
            );
            assert_eq!(facts.text("storage.health"), Some(health), "{action}");
        }
    }

    #[test]
    fn a_clock_is_judged_by_facts_of_its_own() {
        let tracking = "Reference ID : 00000000 ()\nStratum : 0\nRef time (UTC) : Thu Jan 01 00:00:00 1970\n\
            System time : 0.0 seconds slow of NTP time\nRoot delay : 1.0 seconds\n\
            Root dispersion : 1.0 seconds\nUpdate interval : 0.0 seconds\nLeap status : Not synchronised\n";
        let mut report = hardware::Tool::ChronyTracking.parse(tracking.as_bytes());
        assert_eq!(report.worst(), Health::Failed, "{report:?}");
        report.items.push(Item {
            id: "memory".into(),
            health: Health::Ok,
            reason: String::new(),
            facts: Facts::Memory(MemoryFacts::unknown("not told")),
        });
        let facts = facts_of(&report, "/", None);
        assert_eq!(facts.text("clock.verdict"), Some("unsynchronised"));
        assert_eq!(facts.text("host.health"), Some("ok"));
        report.problem("a file", "not understood");
        assert_eq!(
            facts_of(&report, "/", None).text("host.health"),
            Some("unknown")
        );
    }

    #[test]
    fn every_fact_is_known_or_says_why_not() {
        let profile = profile(MACHINE, "/");
        for spec in FACTS {
            assert!(profile.facts.fact(spec.name).is_some(), "{}", spec.name);
        }
        assert!(profile.report["items"].is_array());
    }

    #[test]
    fn whatever_is_said_a_coordinator_takes_the_facts() {
        let long = "a path ".repeat(100);
        let mut measured = HostFacts::default();
        measured.miss("disk.fsync_grade", long.clone());
        let mut report = Report::default();
        let mut system = SystemFacts::unknown("not told");
        system.kernel = long.clone().into();
        system.timezone = Fact::Unknown(long.into());
        report.items.push(Item {
            id: "host".into(),
            health: Health::Ok,
            reason: String::new(),
            facts: Facts::Host(system),
        });
        let facts = facts_of(&report, "/", Some(&measured));
        assert_eq!(facts.check(), Ok(()));
    }

    #[test]
    fn what_was_measured_is_taken_over() {
        let mut measured = HostFacts::default();
        measured.know("disk.fsync_p99_us", Value::Number(900));
        measured.miss("cpu.score_all", "the machine was busy");
        measured.know("cpu.cores", Value::Number(99));
        let root = Root::Archive(Archive::parse_listing(MACHINE).unwrap());
        let facts = read_profile(&root, Path::new("/"), Some(&measured)).facts;
        assert_eq!(facts.number("disk.fsync_p99_us"), Some(900));
        assert_eq!(
            facts.fact("cpu.score_all"),
            measured.fact("cpu.score_all"),
            "why it is not known"
        );
        assert_eq!(facts.number("cpu.cores"), Some(1), "nobody measures that");
    }
}
