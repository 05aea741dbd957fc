//! The machine as a whole: who made it, whether it is a virtual one, its kernel, its time zone, and how
//! much of the time tasks have to wait.

use crate::fact::Fact;
use crate::facts::{Facts, SystemFacts};
use crate::judgement::Judgement;
use crate::lines::plain;
use crate::report::{Health, Report};
use crate::root::Root;

/// Words of the firmware's maker or product that are a hypervisor's, and what that is called.
const HYPERVISORS: &[(&str, &str)] = &[
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("amazon ec2", "amazon"),
    ("google compute engine", "google"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("xen", "xen"),
    ("bochs", "bochs"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("openstack", "openstack"),
    ("digitalocean", "digitalocean"),
    ("hetzner", "hetzner"),
    ("alibaba cloud", "alibaba"),
    ("nutanix", "nutanix"),
    ("ovirt", "ovirt"),
    ("rhev", "rhev"),
    ("microsoft corporation virtual machine", "hyper-v"),
];

/// Reads what there is of it below `root`.
pub fn read_system(root: &Root) -> Report {
    let mut facts = SystemFacts::unknown("the kernel does not tell");
    let dmi = |file: &str| root.line(&format!("sys/class/dmi/id/{file}"));
    facts.vendor.learn(dmi("sys_vendor"));
    facts.product.learn(dmi("product_name"));
    learn_hypervisor(root, &mut facts);
    facts.container = match container(root) {
        Some(kind) => kind.to_owned().into(),
        None => Fact::NotApplicable,
    };
    facts.architecture.learn(
        root.line("proc/sys/kernel/arch")
            .or_else(|| architecture(root)),
    );
    facts.kernel.learn(root.line("proc/sys/kernel/osrelease"));
    facts.timezone = zone(root);
    let tzdata = ["usr/share/zoneinfo/+VERSION", "usr/share/zoneinfo/version"]
        .iter()
        .find_map(|file| root.line(file))
        .or_else(|| {
            // `# version 2025b`
            let text = root.read("usr/share/zoneinfo/tzdata.zi")?;
            text.lines()
                .next()?
                .strip_prefix("# version ")
                .map(str::to_owned)
        });
    facts.tzdata = match tzdata {
        Some(version) => version.into(),
        None => Fact::Unknown("no file of the system tells".into()),
    };
    facts.rtc_local = match root.read("etc/adjtime") {
        Some(text) => parse_adjtime(&text),
        // Without it nobody has set the clock of the hardware to anything else than UTC.
        None if root.has("etc") => false.into(),
        None => Fact::Unknown("etc/adjtime is not there".into()),
    };
    for (file, fact) in [
        ("cpu", &mut facts.cpu_pressure_percent),
        ("memory", &mut facts.memory_pressure_percent),
        ("io", &mut facts.io_pressure_percent),
    ] {
        let text = root.read(&format!("proc/pressure/{file}"));
        *fact = match text.as_deref().and_then(parse_pressure) {
            Some(pressure) => pressure.avg300_percent.into(),
            None => Fact::Unknown("the kernel does not count it".into()),
        };
    }
    let item = judge(&facts).item("host", Facts::Host(facts));
    Report {
        items: vec![item],
        ..Report::default()
    }
}

fn judge(facts: &SystemFacts) -> Judgement {
    let mut judgement = Judgement::default();
    let said = match (facts.r#virtual.known(), facts.hypervisor.known()) {
        (Some(true), Some(hypervisor)) => format!("a virtual machine of {hypervisor}"),
        (Some(true), None) => "a virtual machine".to_owned(),
        (Some(false), _) => "no hypervisor is seen".to_owned(),
        (None, _) => "it runs".to_owned(),
    };
    judgement.say(Health::Ok, said);
    if facts.rtc_local.known() == Some(&true) {
        judgement.say(
            Health::Degraded,
            "the hardware's clock is kept in local time: after a start the clock may be an hour wrong",
        );
    }
    if let Some(zone) = facts.timezone.known()
        && !is_utc(zone)
    {
        judgement.note(format!("its zone is {zone}, not UTC"));
    }
    judgement
}

/// Whether a zone has no rules and no offset.
fn is_utc(zone: &str) -> bool {
    let zone = zone.strip_prefix("Etc/").unwrap_or(zone);
    matches!(
        zone,
        "UTC" | "UCT" | "GMT" | "Zulu" | "Universal" | "Greenwich" | "UTC0" | "GMT0"
    )
}

fn learn_hypervisor(root: &Root, facts: &mut SystemFacts) {
    if let Some(name) = hypervisor(root, facts) {
        facts.r#virtual = true.into();
        facts.hypervisor = name.into();
        return;
    }
    let flags = root.read("proc/cpuinfo").and_then(|text| has_flag(&text));
    match flags {
        Some(true) => {
            facts.r#virtual = true.into();
            facts.hypervisor = Fact::Unknown("it does not give its name".into());
        }
        // Only where processors have such a flag does its absence say anything.
        Some(false) => {
            facts.r#virtual = false.into();
            facts.hypervisor = Fact::NotApplicable;
        }
        None => {}
    }
}

fn hypervisor(root: &Root, facts: &SystemFacts) -> Option<String> {
    if let Some(kind) = root.line("sys/hypervisor/type") {
        // The first domain of Xen is the machine itself.
        let capabilities = root.read("proc/xen/capabilities").unwrap_or_default();
        return (!capabilities.contains("control_d")).then_some(kind);
    }
    let said = format!(
        "{} {}",
        facts.vendor.known().map_or("", String::as_str),
        facts.product.known().map_or("", String::as_str)
    );
    let said = plain(&said);
    let found = HYPERVISORS.iter().find(|(word, _)| said.contains(word));
    // Machines of Amazon without a hypervisor carry its name too.
    let found = found.filter(|(_, name)| !(*name == "amazon" && said.contains(".metal")));
    if let Some((_, name)) = found {
        return Some((*name).to_owned());
    }
    // Guests without firmware tables of their own have its devices.
    let virtio = root.names("sys/bus/virtio/devices").unwrap_or_default();
    (!virtio.is_empty()).then(|| "kvm".to_owned())
}

/// Whether a processor says that a hypervisor runs it. None where processors have no such flag.
fn has_flag(cpuinfo: &str) -> Option<bool> {
    let line = cpuinfo
        .lines()
        .find(|line| line.trim_start().starts_with("flags"))?;
    Some(line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// What kind of container the process sees the machine from, by the marks that they leave.
fn container(root: &Root) -> Option<&'static str> {
    if root.has(".dockerenv") {
        return Some("docker");
    }
    if root.has("run/.containerenv") {
        return Some("podman");
    }
    let groups = root.read("proc/1/cgroup").unwrap_or_default();
    let marks = [
        ("/docker", "docker"),
        ("/kubepods", "kubernetes"),
        ("/lxc", "lxc"),
        ("/libpod", "podman"),
        ("/machine.slice", "systemd-nspawn"),
    ];
    let found = marks.iter().find(|(mark, _)| groups.contains(mark));
    found.map(|(_, kind)| *kind)
}

/// For kernels that do not say it in a file: by what their `/proc/cpuinfo` has.
fn architecture(root: &Root) -> Option<String> {
    let text = root.read("proc/cpuinfo")?;
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    let found = if has("vendor_id\t") && text.split_whitespace().any(|flag| flag == "lm") {
        "x86_64"
    } else if has("CPU implementer") && has("CPU architecture: 8") {
        "aarch64"
    } else if text.contains("IBM/S390") {
        "s390x"
    } else {
        return None;
    };
    Some(found.to_owned())
}

/// The zone's name, from where `/etc/localtime` points, or from the file that Debian keeps beside it.
fn zone(root: &Root) -> Fact<String> {
    let link = root.link("etc/localtime");
    let named = link.as_deref().and_then(|link| {
        let name = link.split_once("zoneinfo/")?.1;
        let name = name
            .trim_start_matches("posix/")
            .trim_start_matches("right/");
        (!name.is_empty()).then(|| name.to_owned())
    });
    if let Some(name) = named.or_else(|| root.line("etc/timezone")) {
        return name.into();
    }
    if root.has("etc/localtime") {
        return Fact::Unknown("etc/localtime is no link that names it".into());
    }
    if root.has("etc") {
        // Without a zone the C library takes UTC.
        return "UTC".to_owned().into();
    }
    Fact::Unknown("etc is not there".into())
}

/// Whether the clock of the hardware is kept in local time: the third line says `UTC` or `LOCAL`.
fn parse_adjtime(text: &str) -> Fact<bool> {
    match text.lines().nth(2).map(str::trim) {
        None | Some("" | "UTC") => false.into(),
        Some("LOCAL") => true.into(),
        Some(other) => Fact::Unknown(format!("etc/adjtime says {other:?}").into()),
    }
}

/// Pressure, of one file below `/proc/pressure` or of a control group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// Share of time in which some task waited.
    pub avg10_percent: f64,
    pub avg60_percent: f64,
    pub avg300_percent: f64,
    /// Microseconds in all.
    pub total_us: u64,
}

/// Reads the line `some`: `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
pub fn parse_pressure(text: &str) -> Option<Pressure> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let field = |name: &str| {
        line.split_whitespace()
            .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let percent = |name: &str| {
        let value: f64 = field(name)?.parse().ok()?;
        (0.0..=100.0).contains(&value).then_some(value)
    };
    Some(Pressure {
        avg10_percent: percent("avg10")?,
        avg60_percent: percent("avg60")?,
        avg300_percent: percent("avg300")?,
        total_us: field("total")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    fn read(files: &[(&str, &str)], links: &[(&str, &str)]) -> (SystemFacts, Health) {
        let mut archive = Archive::default();
        for (path, text) in files {
            archive
                .files
                .insert((*path).to_owned(), text.as_bytes().to_vec());
        }
        for (path, target) in links {
            archive
                .links
                .insert((*path).to_owned(), (*target).to_owned());
        }
        let item = read_system(&Root::Archive(archive))
            .items
            .into_iter()
            .next();
        let item = item.unwrap();
        let Facts::Host(facts) = item.facts else {
            panic!()
        };
        (facts, item.health)
    }

    #[test]
    fn a_hypervisor_is_known_by_what_it_leaves() {
        const VENDOR: &str = "sys/class/dmi/id/sys_vendor";
        const PRODUCT: &str = "sys/class/dmi/id/product_name";
        const CPUINFO: &str = "proc/cpuinfo";
        for (files, is_virtual, hypervisor) in [
            (&[(VENDOR, "QEMU")][..], Some(true), Some("kvm")),
            (&[(VENDOR, "VMware, Inc.")], Some(true), Some("vmware")),
            (
                &[
                    (VENDOR, "Microsoft Corporation"),
                    (PRODUCT, "Virtual Machine"),
                ],
                Some(true),
                Some("hyper-v"),
            ),
            (
                &[
                    (VENDOR, "Amazon EC2"),
                    (PRODUCT, "c5.metal"),
                    (CPUINFO, "flags : fpu"),
                ],
                Some(false),
                None,
            ),
            (&[("sys/hypervisor/type", "xen")], Some(true), Some("xen")),
            (
                &[
                    ("sys/hypervisor/type", "xen"),
                    ("proc/xen/capabilities", "control_d\n"),
                    (CPUINFO, "flags : fpu"),
                ],
                Some(false),
                None,
            ),
            (
                &[("sys/bus/virtio/devices/virtio0/status", "0")],
                Some(true),
                Some("kvm"),
            ),
            (&[(CPUINFO, "flags\t: fpu hypervisor lm")], Some(true), None),
            (
                &[(VENDOR, "Dell Inc."), (CPUINFO, "flags\t: fpu vme")],
                Some(false),
                None,
            ),
            // Processors of ARM have no such flag.
            (&[(CPUINFO, "Features\t: fp asimd")], None, None),
        ] {
            let (facts, _) = read(files, &[]);
            assert_eq!(facts.r#virtual.known().copied(), is_virtual, "{files:?}");
            assert_eq!(
                facts.hypervisor.known().map(String::as_str),
                hypervisor,
                "{files:?}"
            );
        }
    }

    #[test]
    fn zones_and_the_hardware_clock() {
        let link = |target| [("etc/localtime", target)];
        for (links, files, zone, health) in [
            (
                &link("../usr/share/zoneinfo/Europe/Berlin")[..],
                &[("etc/adjtime", "0.0 0 0\n0\nUTC\n")][..],
                Some("Europe/Berlin"),
                Health::Ok,
            ),
            (
                &link("/usr/share/zoneinfo/Etc/UTC"),
                &[("etc/adjtime", "0.0 0 0\n0\nLOCAL\n")],
                Some("Etc/UTC"),
                Health::Degraded,
            ),
            (&[], &[("etc/hostname", "a")], Some("UTC"), Health::Ok),
            (
                &[],
                &[("etc/localtime", "TZif2"), ("etc/timezone", "Asia/Tokyo\n")],
                Some("Asia/Tokyo"),
                Health::Ok,
            ),
            (&[], &[("etc/localtime", "TZif2")], None, Health::Ok),
        ] {
            let (facts, found) = read(files, links);
            assert_eq!(
                facts.timezone.known().map(String::as_str),
                zone,
                "{files:?}"
            );
            assert_eq!(found, health, "{files:?}");
        }
    }

    #[test]
    fn pressure_is_of_some_tasks() {
        let text = "some avg10=1.50 avg60=0.20 avg300=0.05 total=2345\nfull avg10=9.00 avg60=9.00 avg300=9.00 total=9\n";
        let pressure = parse_pressure(text).unwrap();
        assert_eq!(pressure.total_us, 2345);
        assert!((pressure.avg300_percent - 0.05).abs() < 1e-9);
        for text in ["", "some avg10=x avg60=0 avg300=0 total=1", "full avg10=1"] {
            assert_eq!(parse_pressure(text), None, "{text}");
        }
    }
}
