//! With tools of our own that do what real ones have been seen to do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hardware::facts::{ControllerFacts, DriveFacts};
use hardware::{Health, Item};

use super::*;

const VOLUME: &str = r#"{"Controllers": [{"Command Status": {"Controller": 0, "Status": "Success"},
    "Response Data": {"Controller": 0, "VD LIST": [{"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl",
    "Access": "RW", "Consist": "Yes", "Cache": "RWBD", "sCC": "ON", "Size": "446.625 GB", "Name": "os"}]}}]}"#;

struct Tools(tempfile::TempDir);

impl Tools {
    fn new(tools: &[(&str, &str)]) -> Self {
        let place = tempfile::tempdir().unwrap();
        for (name, script) in tools {
            let file = place.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(place)
    }

    fn ask(&self, items: Vec<Item>, has_ipmi: bool) -> Report {
        let mut report = Report {
            items,
            ..Report::default()
        };
        ask_tools(&mut report, &Places::only(self.0.path()), has_ipmi);
        report
    }
}

fn controller(driver: &str) -> Item {
    let mut facts = ControllerFacts::unknown("not told");
    facts.driver = driver.to_owned().into();
    Item {
        id: "0000:03:00.0".into(),
        health: Health::Unknown,
        reason: "only its tool can tell how it fares".into(),
        facts: Facts::Controller(facts),
    }
}

fn drive(id: &str, transport: &str) -> Item {
    let mut facts = DriveFacts::unknown("not told");
    facts.transport = transport.to_owned().into();
    Item {
        id: id.into(),
        health: Health::Unknown,
        reason: "how it fares only the drive can tell".into(),
        facts: Facts::Drive(facts),
    }
}

fn reason_of<'a>(report: &'a Report, id: &str) -> &'a str {
    let item = report.items.iter().find(|item| item.id == id);
    &item
        .unwrap_or_else(|| panic!("{id} is not in {report:?}"))
        .reason
}

#[test]
fn a_tool_is_asked_by_the_driver_of_its_controller() {
    let script =
        format!("case \"$*\" in '/call/vall show all J') cat <<'END'\n{VOLUME}\nEND\nesac");
    // Under the name of a 64-bit program of another vendor.
    let tools = Tools::new(&[("perccli64", &script)]);
    let report = tools.ask(vec![controller("megaraid_sas")], false);
    let volume = report.items.iter().find(|item| item.id == "c0/v0");
    assert_eq!(
        volume.map(|item| item.health),
        Some(Health::Ok),
        "{report:?}"
    );
    let other = tools.ask(vec![controller("aacraid")], false);
    assert_eq!(other.items.len(), 1);
}

#[test]
fn a_tool_that_is_absent_is_named_where_it_is_missed() {
    let tools = Tools::new(&[]);
    let report = tools.ask(
        vec![controller("megaraid_sas"), drive("/dev/sda", "sata")],
        true,
    );
    assert_eq!(
        reason_of(&report, "0000:03:00.0"),
        "only its tool can tell how it fares: none of storcli, megacli is installed"
    );
    assert_eq!(
        reason_of(&report, "/dev/sda"),
        "how it fares only the drive can tell: smartctl is not installed"
    );
    let problems: Vec<_> = report
        .problems
        .iter()
        .map(|problem| (problem.r#where.as_str(), problem.what.as_str()))
        .collect();
    assert_eq!(problems, [("power supplies", "ipmitool is not installed")]);
}

#[test]
fn a_tool_that_fails_costs_its_own_facts() {
    for (script, why) in [
        ("exit 64", "arcconf printed nothing: exit status 64"),
        (
            "echo 'no permission' >&2; exit 1",
            "arcconf printed nothing: no permission",
        ),
        (
            "while :; do echo 'Controller Status : Optimal'; done",
            "arcconf printed more than 16777216 bytes and was killed",
        ),
        ("echo gibberish", "arcconf told nothing that is understood"),
        ("kill -9 $$", "arcconf printed nothing: a signal ended it"),
    ] {
        let tools = Tools::new(&[("arcconf", script)]);
        let report = tools.ask(
            vec![controller("aacraid"), drive("/dev/vda", "virtio")],
            false,
        );
        let reason = reason_of(&report, "0000:03:00.0");
        assert!(reason.contains(why), "{script}: {reason}");
        assert_eq!(report.items.len(), 2, "{script}");
    }
}

#[test]
fn every_controller_is_asked_and_one_that_is_silent_stays() {
    let second = |mut item: Item| {
        item.id = "0000:04:00.0".into();
        item
    };
    let bus = || vec![controller("aacraid"), second(controller("aacraid"))];
    let told = "echo 'Controller information'; echo '---'; echo '   Controller Status : Optimal'; \
                echo '   Controller Model : X'";
    for (script, ids) in [
        (told.to_owned(), &["c1", "c2"][..]),
        (
            format!("case \"$2\" in 1) {told};; *) echo 'no such card' >&2;; esac"),
            &["0000:04:00.0", "c1"],
        ),
    ] {
        let tools = Tools::new(&[("arcconf", &script)]);
        let report = tools.ask(bus(), false);
        let found: Vec<&str> = report.items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(found, ids, "{report:?}");
    }
}

#[test]
fn drives_are_scanned_and_asked_one_by_one() {
    let scan = r#"{"devices": [{"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
        {"name": "/dev/bus/0", "type": "megaraid,8", "protocol": "SCSI"}]}"#;
    let script = format!(
        "case \"$*\" in\n'--scan-open -j') cat <<'END'\n{scan}\nEND\n;;\n\
         '-j -x -n standby /dev/sda -d sat') echo '{{\"device\": {{\"name\": \"/dev/sda\", \"type\": \"sat\"}}, \
         \"smart_status\": {{\"passed\": true}}}}';;\n\
         '-j -x -n standby /dev/bus/0 -d megaraid,8') echo '{{\"device\": {{\"name\": \"/dev/bus/0\", \
         \"type\": \"megaraid,8\"}}, \"smart_status\": {{\"passed\": false}}}}'; exit 64;;\nesac"
    );
    let tools = Tools::new(&[("smartctl", &script)]);
    let report = tools.ask(vec![drive("/dev/sda", "sata")], false);
    let told: Vec<_> = report
        .items
        .iter()
        .map(|item| (item.id.as_str(), item.health))
        .collect();
    assert_eq!(
        told,
        [
            ("/dev/sda", Health::Ok),
            ("/dev/bus/0[megaraid,8]", Health::Failed)
        ],
        "{report:?}"
    );
}

#[test]
fn drives_that_hang_hold_nobody_up_for_ever() {
    let scan = r#"{"devices": [{"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
        {"name": "/dev/sdb", "type": "sat", "protocol": "ATA"},
        {"name": "/dev/sdc", "type": "sat", "protocol": "ATA"}]}"#;
    let script = format!("case \"$1\" in --scan-open) echo '{scan}';; *) sleep 1000;; esac");
    let tools = Tools::new(&[("smartctl", &script)]);
    let mut report = Report {
        items: vec![drive("/dev/sda", "sata")],
        ..Report::default()
    };
    let places = Places::only(tools.0.path());
    ask_within(&mut report, &places, false, Duration::from_secs(2));
    let problems: Vec<_> = report
        .problems
        .iter()
        .map(|problem| (problem.r#where.as_str(), problem.what.as_str()))
        .collect();
    let [(first, hung), rest @ ..] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert_eq!(*first, "/dev/sda");
    assert!(hung.contains("did not end within"), "{hung}");
    let unasked = "smartctl was not asked: those asked before it took too long; ask it by hand";
    assert_eq!(rest, [("/dev/sdb", unasked), ("/dev/sdc", unasked)]);
}

#[test]
fn supplies_are_told_by_the_management_controller() {
    let tools = Tools::new(&[(
        "ipmitool",
        "echo 'PS1 Status | C8h | ok | 10.1 | Presence detected'",
    )]);
    let report = tools.ask(Vec::new(), true);
    assert_eq!(report.items[0].id, "supply 1");
    assert_eq!(tools.ask(Vec::new(), false), Report::default());
}

#[test]
fn places_are_absolute() {
    let places = Places::of_path(Some(OsStr::new(":.:bin:/usr/local/bin")));
    assert!(places.0.iter().all(|place| place.is_absolute()));
    assert_eq!(places.0[0], Path::new("/usr/local/bin"));
}
