use protocol::HostFacts;
use protocol::host::HEALTHS;
use serde_json::json;

use super::*;

/// A host with some of everything.
fn host() -> HostProfile {
    let mut facts = HostFacts::default();
    facts.know("cpu.cores", Value::Number(16));
    facts.know("cpu.usable_milli", Value::Number(32_000));
    facts.know("memory.size_bytes", Value::Number(64 << 30));
    facts.know("memory.ecc", Value::Truth(true));
    facts.know("disk.free_bytes", Value::Number(1 << 40));
    facts.know("disk.fsync_p99_us", Value::Number(1000));
    facts.know("disk.fsync_grade", Value::Text("A".to_owned()));
    facts.know("clock.verdict", Value::Text("synchronised".to_owned()));
    facts.know("host.kernel", Value::Text("6.1.0".to_owned()));
    facts.miss("power.supplies", "ipmitool is not installed");
    HostProfile {
        facts,
        report: json!({
            "items": [
                {"kind": "array", "id": "md0", "health": "ok", "reason": "2 of 2", "level": "raid1",
                 "action": "idle", "members_active": 2},
                {"kind": "battery", "id": "c0", "health": "ok", "type": "CacheVault", "replace": false,
                 "charge_percent": 97, "temperature_c": 30},
                {"kind": "drive", "id": "/dev/sda", "health": "ok", "serial": "S1", "reallocated": 0,
                 "temperature_c": 31},
                {"kind": "drive", "id": "/dev/sdb", "health": "ok", "serial": "S2", "reallocated": null},
                {"kind": "memory", "id": "memory", "health": "ok", "modules": 8, "corrected_errors": 3},
                {"kind": "filesystem", "id": "/data", "health": "ok", "read_only": false},
                {"kind": "clock", "id": "chronyd", "health": "ok"},
                {"kind": "source", "id": "10.0.0.1", "health": "ok"},
            ],
            "problems": [{"where": "/proc/mdstat", "what": "line 3 is odd"}],
        }),
    }
}

fn item<'a>(profile: &'a mut HostProfile, id: &str) -> &'a mut Json {
    let items = profile.report["items"].as_array_mut().unwrap();
    items.iter_mut().find(|item| item["id"] == id).unwrap()
}

fn remove(profile: &mut HostProfile, id: &str) {
    let items = profile.report["items"].as_array_mut().unwrap();
    items.retain(|item| item["id"] != id);
}

fn add(profile: &mut HostProfile, item: Json) {
    let items = profile.report["items"].as_array_mut().unwrap();
    items.push(item);
}

/// What is told of a host that was touched so; and that the digest says the same as that does.
fn check(touch: impl Fn(&mut HostProfile), expected: &[&str]) {
    let mut touched = host();
    touch(&mut touched);
    let told: Vec<String> = differences(&host(), &touched)
        .iter()
        .map(|it| format!("{} {}: {it}", it.turn.as_str(), it.about))
        .collect();
    assert_eq!(told, expected);
    if !expected.is_empty() {
        assert_ne!(digest(&host()), digest(&touched), "{expected:?}");
    }
}

#[test]
fn what_moves_by_itself_is_no_difference() {
    let touch = |host: &mut HostProfile| {
        host.facts.know("disk.free_bytes", Value::Number(7));
        host.facts
            .know("clock.verdict", Value::Text("free-running".to_owned()));
        item(host, "/dev/sda")["temperature_c"] = json!(60);
        item(host, "c0")["charge_percent"] = json!(3);
        item(host, "md0")["reason"] = json!("other words");
        item(host, "md0")["members_active"] = json!(1);
        item(host, "memory")["corrected_errors"] = json!(4);
        remove(host, "10.0.0.1");
    };
    check(touch, &[]);
    let comes = |host: &mut HostProfile| {
        remove(host, "/data");
        add(
            host,
            json!({"kind": "filesystem", "id": "/mnt", "health": "ok"}),
        );
    };
    let mut other = host();
    comes(&mut other);
    assert_eq!(differences(&host(), &other), []);
}

#[test]
fn a_digest_is_of_what_matters() {
    let mut touched = host();
    item(&mut touched, "/dev/sda")["temperature_c"] = json!(60);
    touched.facts.know("disk.free_bytes", Value::Number(7));
    touched.facts.miss("power.supplies", "it took 20.1 s");
    touched.report["problems"][0]["what"] = json!("line 4 is odd");
    assert_eq!(digest(&host()), digest(&touched));
    touched.facts.know("cpu.cores", Value::Number(17));
    assert_ne!(digest(&host()), digest(&touched));
}

#[test]
fn a_drive_is_the_one_with_its_serial_number() {
    let rename = |host: &mut HostProfile, from: &str, to: &str| item(host, from)["id"] = json!(to);
    // Another boot, and they have changed places.
    let mut swapped = host();
    rename(&mut swapped, "/dev/sda", "x");
    rename(&mut swapped, "/dev/sdb", "/dev/sda");
    rename(&mut swapped, "x", "/dev/sdb");
    assert_eq!(differences(&host(), &swapped), []);
    check(
        |host| item(host, "/dev/sda")["serial"] = json!("S9"),
        &[
            "vanished drive /dev/sda: drive /dev/sda vanished (ok, serial S1)",
            "came drive /dev/sda: drive /dev/sda is new (ok, serial S9)",
        ],
    );
    // Nobody could tell before, or can now.
    let mut untold = host();
    item(&mut untold, "/dev/sda")["serial"] = Json::Null;
    assert_eq!(differences(&host(), &untold), []);
    assert_eq!(differences(&untold, &host()), []);
}

#[test]
fn parts_that_went_and_came_are_told() {
    check(
        |host| remove(host, "/dev/sdb"),
        &["vanished drive /dev/sdb: drive /dev/sdb vanished (ok, serial S2)"],
    );
    check(
        |host| remove(host, "c0"),
        &["vanished battery c0: battery c0 vanished (ok)"],
    );
    check(
        |host| {
            add(
                host,
                json!({"kind": "drive", "id": "/dev/sdc", "health": "unknown"}),
            );
        },
        &["came drive /dev/sdc: drive /dev/sdc is new (unknown)"],
    );
    // Of a kind that this version does not know.
    check(
        |host| add(host, json!({"kind": "tape", "id": "st0", "health": "ok"})),
        &["came tape st0: tape st0 is new (ok)"],
    );
}

#[test]
fn health_goes_by_its_order() {
    for (place, from) in HEALTHS.iter().enumerate() {
        for (other, to) in HEALTHS.iter().enumerate() {
            let (mut was, mut is) = (host(), host());
            item(&mut was, "md0")["health"] = json!(from);
            item(&mut is, "md0")["health"] = json!(to);
            let turns: Vec<Turn> = differences(&was, &is).iter().map(|it| it.turn).collect();
            match other.cmp(&place) {
                std::cmp::Ordering::Greater => assert_eq!(turns, [Turn::Worse]),
                std::cmp::Ordering::Less => assert_eq!(turns, [Turn::Better]),
                std::cmp::Ordering::Equal => assert!(turns.is_empty()),
            }
        }
    }
    check(
        |host| item(host, "md0")["health"] = json!("degraded"),
        &["worse array md0: array md0 got worse: ok, now degraded"],
    );
    check(
        |host| item(host, "md0")["health"] = json!("sideways"),
        &["changed array md0: array md0 changed: ok, now sideways"],
    );
}

#[test]
fn properties_of_parts_are_weighed() {
    check(
        |host| item(host, "/dev/sda")["reallocated"] = json!(8),
        &["worse drive /dev/sda reallocated: drive /dev/sda reallocated got worse: 0, now 8"],
    );
    check(
        |host| item(host, "/data")["read_only"] = json!(true),
        &["worse filesystem /data read_only: filesystem /data read_only got worse: no, now yes"],
    );
    check(
        |host| item(host, "memory")["modules"] = json!(7),
        &["worse memory modules: memory modules got worse: 8, now 7"],
    );
    check(
        |host| item(host, "c0")["replace"] = json!(true),
        &["worse battery c0 replace: battery c0 replace got worse: no, now yes"],
    );
    // That a tool tells more than before is no change of the drive.
    let told_now = |host: &mut HostProfile| item(host, "/dev/sdb")["reallocated"] = json!(5);
    let (was, mut is) = (host(), host());
    told_now(&mut is);
    assert!(differences(&was, &is).is_empty());
    assert!(differences(&is, &was).is_empty());
}

#[test]
fn facts_are_weighed() {
    let number = |name: &'static str, n| {
        move |host: &mut HostProfile| host.facts.know(name, Value::Number(n))
    };
    check(
        number("memory.size_bytes", 56 << 30),
        &["worse memory.size_bytes: memory.size_bytes got worse: 64.00 GiB, now 56.00 GiB"],
    );
    check(number("memory.size_bytes", (64 << 30) - (256 << 20)), &[]);
    check(
        number("cpu.cores", 24),
        &["better cpu.cores: cpu.cores got better: 16, now 24"],
    );
    check(
        number("cpu.usable_milli", 8000),
        &["changed cpu.usable_milli: cpu.usable_milli changed: 32000, now 8000"],
    );
    check(number("disk.fsync_p99_us", 1150), &[]);
    check(
        number("disk.fsync_p99_us", 5000),
        &["changed disk.fsync_p99_us: disk.fsync_p99_us changed: 1000, now 5000"],
    );
    check(
        number("power.supplies", 2),
        &[
            "changed power.supplies: power.supplies changed: unknown: ipmitool is not installed, now 2",
        ],
    );
    check(
        |host| {
            host.facts
                .know("disk.fsync_grade", Value::Text("C".to_owned()));
        },
        &["worse disk.fsync_grade: disk.fsync_grade got worse: A, now C"],
    );
    check(
        |host| host.facts.know("memory.ecc", Value::Truth(false)),
        &["worse memory.ecc: memory.ecc got worse: yes, now no"],
    );
    check(
        |host| host.facts.miss("cpu.cores", "/sys is not mounted"),
        &["changed cpu.cores: cpu.cores changed: 16, now unknown: /sys is not mounted"],
    );
    check(|host| host.facts.miss("power.supplies", "it hangs"), &[]);
    check(
        |host| {
            host.facts
                .know("memory.usable_bytes", Value::Number(5 << 20));
        },
        &["came memory.usable_bytes: memory.usable_bytes is new (5.00 MiB)"],
    );
}

#[test]
fn that_a_tool_broke_is_told_beside_what_it_told() {
    check(
        |host| {
            host.report["problems"] = json!([{"where": "storcli64", "what": "it ran for 20 s"}]);
            remove(host, "c0");
        },
        &[
            "vanished battery c0: battery c0 vanished (ok)",
            "worse reading of storcli64: reading of storcli64 got worse (it ran for 20 s)",
            "better reading of /proc/mdstat: reading of /proc/mdstat got better (line 3 is odd)",
        ],
    );
}

#[test]
fn however_much_differs_the_worst_is_told_and_nothing_is_long() {
    let (mut was, mut is) = (host(), host());
    for n in 0..5000 {
        let id = format!("/dev/disk/{n}/{}", "ä".repeat(500));
        add(&mut is, json!({"kind": "drive", "id": id, "health": "ok"}));
    }
    add(
        &mut was,
        json!({"kind": "drive", "id": "gone", "health": "ok"}),
    );
    let told = differences(&was, &is);
    assert_eq!(told.len(), DIFFERENCES_MAX);
    assert_eq!(told[0].turn, Turn::Vanished);
    assert_eq!(told[DIFFERENCES_MAX - 1].about, "4938 more things");
    for it in &told {
        assert!(it.about.len() <= DIFFERENCE_TEXT_BYTES_MAX);
    }
}

#[test]
fn a_report_of_any_shape_is_compared() {
    for report in [
        json!(null),
        json!([]),
        json!({"items": {}, "problems": 7}),
        json!({"items": [1, "x", {}, {"kind": 3}], "problems": [[], {}]}),
    ] {
        let odd = HostProfile { report, ..host() };
        let told = differences(&host(), &odd);
        assert!(told.iter().any(|it| it.turn == Turn::Vanished));
        differences(&odd, &host());
        digest(&odd);
    }
}

#[test]
fn what_is_left_out_of_a_report_has_not_vanished() {
    let without = || {
        let mut profile = host();
        remove(&mut profile, "/dev/sda");
        profile.report[LEFT_OUT] = json!(1);
        profile
    };
    assert_eq!(differences(&host(), &without()), []);
    assert_eq!(differences(&without(), &host()), []);
    let mut ill = without();
    item(&mut ill, "/dev/sdb")["health"] = json!("failed");
    assert_eq!(differences(&host(), &ill).len(), 1);
}

#[test]
fn a_drive_that_sleeps_and_wakes_is_no_news_and_one_that_wakes_ill_is() {
    let with = |health: &str, asleep: bool| {
        let mut profile = host();
        let drive = item(&mut profile, "/dev/sda");
        drive["health"] = json!(health);
        drive["asleep"] = json!(asleep);
        profile
    };
    let (well, ill) = (with("ok", false), with("failed", false));
    let asleep = with("unknown", true);
    assert_eq!(differences(&well, &asleep), []);
    assert_eq!(differences(&asleep, &well), []);
    // It is not better for being asleep.
    assert_eq!(differences(&ill, &asleep), []);
    let turn = |before, after| differences(before, after)[0].turn;
    assert_eq!(turn(&asleep, &ill), Turn::Worse);
    // One that says nothing, and does not sleep, may be dead.
    assert_eq!(turn(&well, &with("unknown", false)), Turn::Worse);
}
