//! Both versions on trees of plain files; the kernel's own are in the tests of processes.

use std::fmt::Write;

use super::*;

/// A machine whose /proc and cgroups are files.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    /// `mounts`: kind, options and mount point of each hierarchy.
    fn new(mounts: &[(&str, &str, &str)], cgroup: &str) -> Machine {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine { root };
        let mut mountinfo = String::new();
        for (kind, options, point) in mounts {
            let point = machine.root.path().join(point);
            fs::create_dir_all(&point).unwrap();
            let point = point.display();
            writeln!(
                mountinfo,
                "31 23 0:27 / {point} rw - {kind} {kind} {options}"
            )
            .unwrap();
        }
        machine.put("proc/self/mountinfo", &mountinfo);
        machine.put("proc/self/cgroup", cgroup);
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        let path = self.root.path().join(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("matins")
    }

    fn prepare(&self) -> Cgroups {
        fs::create_dir_all(self.directory()).unwrap();
        Cgroups::prepare(&self.root.path().join("proc"), &self.directory())
    }

    fn name(&self) -> String {
        format!("matins-{:016x}", hash(&self.directory()))
    }
}

const LIMITS: Limits = Limits {
    memory_bytes: Some(1 << 30),
    pids: Some(50),
    cpu_weight: Some(200),
    io_weight: None,
};

/// A delegated cgroup of version 2 with every file of an attempt's.
fn version_2() -> Machine {
    let machine = Machine::new(&[("cgroup2", "rw", "cg")], "0::/unit\n");
    let name = machine.name();
    machine.put("cg/unit/cgroup.controllers", "cpuset cpu io memory pids\n");
    machine.put("cg/unit/cgroup.type", "domain\n");
    machine.put("cg/unit/cgroup.subtree_control", "");
    machine.put(&format!("cg/unit/{name}/cgroup.subtree_control"), "");
    machine.put(&format!("cg/unit/{name}/supervisor/cgroup.procs"), "");
    machine.put(&format!("cg/unit/{name}/cgroup.kill"), "");
    machine.put(&format!("cg/unit/{name}/cpu.stat"), "usage_usec 0\n");
    machine.put(&format!("cg/unit/{name}/io.pressure"), "");
    for (file, text) in [
        ("cgroup.procs", ""),
        ("cgroup.kill", ""),
        ("cgroup.events", "populated 0\nfrozen 0\n"),
        ("memory.max", "max\n"),
        ("memory.swap.max", "max\n"),
        ("memory.oom.group", "0\n"),
        ("memory.peak", "123456\n"),
        (
            "memory.events",
            "low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\noom_group_kill 1\n",
        ),
        ("memory.current", "4096\n"),
        (
            "io.stat",
            "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
        ),
        (
            "cpu.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1999\n",
        ),
        (
            "memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=999\n",
        ),
        (
            "io.pressure",
            "some avg10=9.99 avg60=0.00 avg300=0.00 total=2500999\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        ),
        ("pids.max", "max\n"),
        ("cpu.weight", "100\n"),
        ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
    ] {
        machine.put(&format!("cg/unit/{name}/a7/{file}"), text);
    }
    machine
}

#[test]
fn version_2_holds_limits_and_measures() {
    let machine = version_2();
    let cgroups = machine.prepare();
    let at = |file: &str| machine.text(&format!("cg/unit/{}/{file}", machine.name()));
    // The supervisor has made room for controllers.
    assert_eq!(at("supervisor/cgroup.procs"), "0");
    assert_eq!(at("cgroup.subtree_control"), "+io", "the last of four");
    assert_eq!(cgroups.mechanism(), "cgroup.kill");

    let entered = cgroups.enter(Token(7), &LIMITS);
    assert!(entered.held);
    assert_eq!(entered.not_enforced, []);
    for (file, expected) in [
        ("cgroup.procs", "0"),
        ("memory.max", "1073741824"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", "50"),
        ("cpu.weight", "200"),
    ] {
        assert_eq!(at(&format!("a7/{file}")), expected, "{file}");
    }
    let used = Used {
        cpu: Some(DurationMs(2_500)),
        memory_bytes_peak: Some(123_456),
        out_of_memory: true,
        memory_bytes_seen: None,
        counted: Usage::default(),
    };
    assert_eq!(cgroups.used(Token(7), Account::Brief), used);
    let used = Used {
        counted: Usage {
            memory_cache_bytes: Some(4096),
            read_bytes: Some(1),
            write_bytes: Some(2),
            read_operations: Some(3),
            write_operations: Some(4),
            stall_cpu_ms: Some(1),
            stall_memory_ms: Some(2),
            stall_memory_full_ms: Some(0),
            stall_io_ms: Some(2_500),
            partial: vec![],
        },
        ..used
    };
    assert_eq!(cgroups.used(Token(7), Account::Whole), used);
    let alive = cgroups.alive(Token(7));
    assert!(alive.processes.is_empty() && !alive.undecided);
    cgroups.kill(Token(7)).unwrap();
    assert_eq!(at("a7/cgroup.kill"), "1");
}

#[test]
fn where_no_peak_is_kept_memory_is_looked_at_now_and_then() {
    let machine = version_2();
    let name = machine.name();
    machine.put(&format!("cg/unit/{name}/memory.peak"), "0\n");
    assert!(!machine.prepare().keeps_no_peak());
    let (parent, group) = (format!("cg/unit/{name}"), format!("cg/unit/{name}/a7"));
    for group in [&parent, &group] {
        fs::remove_file(machine.root.path().join(group).join("memory.peak")).unwrap();
    }
    let mut cgroups = machine.prepare();
    assert!(cgroups.keeps_no_peak());
    for bytes in [10, 30, 20] {
        machine.put(&format!("{group}/memory.current"), &format!("{bytes}\n"));
        cgroups.look_at_memory([Token(7), Token(8)].into_iter());
    }
    let used = cgroups.used(Token(7), Account::Brief);
    let told = (used.memory_bytes_peak, used.memory_bytes_seen);
    assert_eq!(told, (None, Some(30)));
    cgroups.remove(Token(7));
    let used = cgroups.used(Token(7), Account::Brief);
    assert_eq!(used.memory_bytes_seen, None);
}

#[test]
fn what_a_machine_cannot_do_is_said() {
    let machine = version_2();
    machine.put("cg/unit/cgroup.controllers", "pids\n");
    let cgroups = machine.prepare();
    let entered = cgroups.enter(Token(7), &LIMITS);
    assert_eq!(entered.not_enforced, [Limit::Memory, Limit::CpuWeight]);
    let nothing_asked = cgroups.enter(Token(7), &Limits::default());
    assert_eq!(nothing_asked.not_enforced, []);

    let bare = Machine::new(&[], "");
    let entered = bare.prepare().enter(Token(7), &LIMITS);
    assert!(!entered.held);
    let all = [Limit::Memory, Limit::Pids, Limit::CpuWeight];
    assert_eq!(entered.not_enforced, all);
}

#[test]
fn a_mixed_machine_kills_by_version_2_and_limits_by_version_1() {
    let machine = Machine::new(
        &[
            ("cgroup", "rw,memory", "memory"),
            ("cgroup", "rw,freezer", "freezer"),
            ("cgroup", "rw,cpu,cpuacct", "cpu"),
            ("cgroup2", "rw", "unified"),
        ],
        "4:memory:/here\n3:cpu,cpuacct:/\n2:freezer:/\n0::/\n",
    );
    let name = machine.name();
    machine.put("unified/cgroup.controllers", "");
    machine.put(&format!("unified/{name}/cgroup.kill"), "");
    machine.put(&format!("unified/{name}/a7/cgroup.procs"), "");
    machine.put(&format!("memory/here/{name}/a7/cgroup.procs"), "");
    machine.put(&format!("memory/here/{name}/a7/memory.limit_in_bytes"), "");
    machine.put(&format!("cpu/{name}/a7/cgroup.procs"), "");
    machine.put(&format!("cpu/{name}/a7/cpu.shares"), "");
    machine.put(&format!("cpu/{name}/a7/cpuacct.usage"), "3000000\n");
    let cgroups = machine.prepare();
    assert_eq!(cgroups.mechanism(), "cgroup.kill");
    let freezer = machine.root.path().join("freezer").join(&name);
    assert!(!freezer.exists(), "what is of no use is not kept");
    let entered = cgroups.enter(Token(7), &LIMITS);
    assert_eq!(entered.not_enforced, [Limit::Pids]);
    let limit = machine.text(&format!("memory/here/{name}/a7/memory.limit_in_bytes"));
    assert_eq!(limit, "1073741824");
    assert_eq!(machine.text(&format!("cpu/{name}/a7/cpu.shares")), "2048");
    let used = cgroups.used(Token(7), Account::Whole);
    let expected = Used {
        cpu: Some(DurationMs(3)),
        ..Used::default()
    };
    assert_eq!(used, expected, "what has no file is not counted");
}

#[test]
fn version_1_alone_is_held_by_its_freezer() {
    let machine = Machine::new(&[("cgroup", "rw,freezer", "freezer")], "2:freezer:/\n");
    let name = machine.name();
    machine.put(&format!("freezer/{name}/freezer.state"), "");
    machine.put(&format!("freezer/{name}/a7/cgroup.procs"), "");
    machine.put(&format!("freezer/{name}/a7/freezer.state"), "");
    machine.put(&format!("freezer/{name}/a7/inner/freezer.state"), "");
    let cgroups = machine.prepare();
    assert_eq!(cgroups.mechanism(), "freezer.state");
    cgroups.kill(Token(7)).unwrap();
    for group in ["a7", "a7/inner"] {
        let state = machine.text(&format!("freezer/{name}/{group}/freezer.state"));
        assert_eq!(state, "THAWED", "{group}");
    }
    cgroups
        .kill(Token(8))
        .expect("what never was needs no killing");
}

#[test]
fn whose_a_process_is() {
    let ours = "matins-1";
    for (cgroup, expected) in [
        ("0::/unit/matins-1/a12\n", Some(Token(12))),
        (
            "4:memory:/\n0::/matins-1/a12/made/by/itself\n",
            Some(Token(12)),
        ),
        ("0::/matins-2/a12\n", None),
        ("0::/matins-1/supervisor\n", None),
        ("0::/matins-1\n", None),
        ("", None),
    ] {
        assert_eq!(parse_owner(cgroup, ours), expected, "{cgroup}");
    }
}

#[test]
fn cgroups_of_a_supervisor_that_was_started_elsewhere_are_swept_too() {
    let machine = Machine::new(&[("cgroup2", "rw", "cg")], "0::/first\n");
    machine.put("cg/first/cgroup.controllers", "");
    machine.put(
        &format!("cg/first/{}/cpu.stat", machine.name()),
        "usage_usec 0\n",
    );
    machine.prepare();
    let first = machine.root.path().join("cg/first").join(machine.name());
    fs::remove_file(first.join("cpu.stat")).unwrap();
    fs::create_dir(first.join("a7")).unwrap();
    machine.put("proc/self/cgroup", "0::/second\n");
    machine.put("cg/second/cgroup.controllers", "");
    assert!(machine.prepare().sweep().unwrap());
    assert!(!first.exists());
    // A path that somebody else wrote there is none of ours.
    let strange = machine.root.path().join("cg/strange");
    fs::create_dir_all(strange.join("a7")).unwrap();
    fs::write(
        machine.directory().join(PLACES),
        strange.display().to_string(),
    )
    .unwrap();
    assert!(machine.prepare().sweep().unwrap());
    assert!(strange.exists());
}
