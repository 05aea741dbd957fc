//! `matins hardware` as people meet it: this machine, a copy of another, and what a tool printed.

use std::process::Command;

use serde_json::Value;

use crate::place::Place;

const MDSTAT: &str =
    "md0 : active raid1 sdb2[1](F) sda2[0]\n      1 blocks [2/1] [U_]\n\nunused devices: <none>\n";

#[test]
fn what_a_tool_printed_packed_or_not() {
    let place = Place::new();
    place.write("mdstat", MDSTAT);
    let packed = Command::new("gzip")
        .args(["-k", "mdstat"])
        .current_dir(place.path(""))
        .status();
    assert!(
        packed.is_ok_and(|ended| ended.success()),
        "every Linux has gzip"
    );
    for file in ["mdstat", "mdstat.gz"] {
        let said = place
            .matins(&["hardware", "parse", "mdstat", file, "--output", "json"])
            .done();
        let report: Value = serde_json::from_str(&said).unwrap();
        let array = &report["items"][0];
        assert_eq!(
            (&array["kind"], &array["id"], &array["health"]),
            (&"array".into(), &"md0".into(), &"degraded".into())
        );
        assert_eq!(array["members_active"], 1);
        assert_eq!(report["problems"], Value::Array(Vec::new()));
    }
    let table = place
        .matins(&["hardware", "parse", "mdstat", "mdstat"])
        .done();
    assert!(table.starts_with("array md0: degraded\n"), "{table}");
}

#[test]
fn a_copy_of_another_machine() {
    let place = Place::new();
    place.write("other/sys/devices/system/cpu/online", "0-3\n");
    place.write("other/sys/devices/system/cpu/present", "0-7\n");
    place.write("other/proc/meminfo", "MemTotal: 1024 kB\n");
    for asked in [
        ["hardware", "--root", "other"].as_slice(),
        &["hardware", "parse", "cpu-root", "other"],
    ] {
        let said = place.matins(&[asked, &["-o", "json"]].concat()).done();
        let report: Value = serde_json::from_str(&said).unwrap();
        let cpu = item(&report, "cpu");
        assert_eq!(cpu["threads"], 8, "{said}");
        assert_eq!(cpu["threads_usable"], 4);
        assert_eq!(item(&report, "memory")["size_bytes"], 1024 * 1024);
    }
}

/// The first item of a kind.
fn item<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let mut items = report["items"].as_array().unwrap().iter();
    let found = items.find(|item| item["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {report}"))
}

#[test]
fn this_machine_has_processors_and_memory() {
    let said = Place::new()
        .matins(&["hardware", "--output", "json"])
        .done();
    let report: Value = serde_json::from_str(&said).unwrap();
    let usable = item(&report, "cpu")["threads_usable"].as_u64();
    assert!(usable.unwrap() >= 1, "{said}");
    let size = item(&report, "memory")["size_bytes"].as_u64();
    assert!(size.unwrap() >= 1 << 20, "{said}");
}

#[test]
fn what_cannot_be_read_is_bad_input() {
    let place = Place::new();
    for (asked, why) in [
        (["hardware", "parse", "storcli", "absent"], "No such file"),
        (["hardware", "parse", "storcli", "."], "it is a directory"),
    ] {
        let said = place.matins(&asked);
        assert_eq!(said.status, 2, "{said:?}");
        assert!(said.stderr.contains(why), "{said:?}");
    }
}
