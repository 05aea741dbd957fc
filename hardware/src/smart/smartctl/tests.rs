use super::*;
use crate::Facts;

fn judge(text: &str) -> Health {
    let report = parse_smartctl(text);
    assert_eq!(report.items.len(), 1, "{report:?}");
    report.items[0].health
}

#[test]
fn only_a_verdict_makes_a_drive_well() {
    let head = r#""device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"}"#;
    for (rest, expected) in [
        (r#""smart_status": {"passed": true}"#, Health::Ok),
        (r#""smart_status": {"passed": false}"#, Health::Failed),
        (
            r#""smart_status": {"passed": true, "passed": false}"#,
            Health::Failed,
        ),
        (r#""smart_status": {"passed": "perhaps"}"#, Health::Unknown),
        (r#""smart_status": {}"#, Health::Unknown),
        (r#""rotation_rate": 7200"#, Health::Unknown),
        (
            r#""smart_status": {"passed": true}, "smartctl": {"exit_status": 4}"#,
            Health::Ok,
        ),
        (
            r#""smart_status": {"passed": true}, "smartctl": {"exit_status": 64}"#,
            Health::Ok,
        ),
        (
            r#""smart_status": {"passed": true}, "smartctl": {"exit_status": 16}"#,
            Health::Degraded,
        ),
        (
            r#""smart_status": {"passed": true}, "smart_support": {"enabled": false}"#,
            Health::Unknown,
        ),
    ] {
        assert_eq!(judge(&format!("{{{head}, {rest}}}")), expected, "{rest}");
    }
}

#[test]
fn a_drive_that_sleeps_is_no_drive_that_cannot_be_opened() {
    let json = |said: &str| {
        format!(
            r#"{{"device": {{"name": "/dev/sda", "type": "sat"}}, "smartctl": {{"messages":
            [{{"string": "{said}", "severity": "information"}}], "exit_status": 2}}}}"#
        )
    };
    let head = "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-5.15.0] (local build)\n\n";
    let text = |said: &str| format!("{head}{said}\n");
    for (output, asleep) in [
        (json("Device is in STANDBY mode, exit(2)"), true),
        (json("Device is in SLEEP mode, exit(2)"), true),
        (json("Device is in ACTIVE or IDLE mode"), false),
        (text("Device is in STANDBY mode, exit(2)"), true),
        (text("Device is in ACTIVE or IDLE mode"), false),
    ] {
        let report = parse_smartctl(&output);
        let [item] = &report.items[..] else {
            panic!("{report:?}");
        };
        let Facts::Drive(facts) = &item.facts else {
            panic!("{item:?}");
        };
        assert_eq!(item.health, Health::Unknown, "{output}");
        assert_eq!(facts.asleep.known() == Some(&true), asleep, "{output}");
        assert_eq!(item.reason.contains("it sleeps"), asleep, "{item:?}");
        assert!(!(asleep && item.reason.contains("open")), "{item:?}");
    }
}

#[test]
fn what_nvme_warns_of_counts_beside_its_verdict() {
    for (log, expected) in [
        (
            r#""critical_warning": 0, "percentage_used": 16"#,
            Health::Ok,
        ),
        (
            r#""critical_warning": 4, "percentage_used": 16"#,
            Health::Failed,
        ),
        (
            r#""critical_warning": 0, "percentage_used": 103"#,
            Health::Degraded,
        ),
        (
            r#""critical_warning": 0, "available_spare": 4, "available_spare_threshold": 10"#,
            Health::Degraded,
        ),
        (r#""critical_warning": 64"#, Health::Unknown),
    ] {
        let text = format!(
            r#"{{"device": {{"name": "/dev/nvme0", "protocol": "NVMe"}}, "smart_status": {{"passed": true}},
            "nvme_smart_health_information_log": {{{log}}}}}"#
        );
        assert_eq!(judge(&text), expected, "{log}");
    }
}

#[test]
fn a_self_test_that_failed_counts_beside_the_verdict() {
    for (rest, expected) in [
        (
            r#""ata_smart_data": {"self_test": {"status": {"value": 121, "string": "completed, read failure", "passed": false}}}"#,
            Health::Degraded,
        ),
        (
            r#""ata_smart_data": {"self_test": {"status": {"value": 0, "string": "completed without error", "passed": true}}}"#,
            Health::Ok,
        ),
        (
            r#""ata_smart_self_test_log": {"extended": {"table": [{"status": {"value": 112, "string": "Completed: read failure", "passed": false}}]}}"#,
            Health::Degraded,
        ),
        (
            r#""scsi_self_test_0": {"result": {"value": 7, "string": "Failed in segment -->"}}, "scsi_self_test_1": {"result": {"value": 0}}"#,
            Health::Degraded,
        ),
        (
            r#""scsi_self_test_0": {"result": {"value": 0, "string": "Completed"}}, "scsi_self_test_1": {"result": {"value": 7}}"#,
            Health::Ok,
        ),
        (
            r#""nvme_self_test_log": {"table": [{"self_test_result": {"value": 6, "string": "Completed: failed segments"}}]}"#,
            Health::Degraded,
        ),
        (
            r#""nvme_self_test_log": {"table": [{"self_test_result": {"value": 0, "string": "Completed without error"}}]}"#,
            Health::Ok,
        ),
    ] {
        let text = format!(
            r#"{{"device": {{"name": "/dev/sda"}}, "smart_status": {{"passed": true}}, {rest}}}"#
        );
        assert_eq!(judge(&text), expected, "{rest}");
    }
}

#[test]
fn a_scan_tells_what_to_ask_with() {
    let text = r#"{"devices": [{"name": "/dev/bus/0", "type": "megaraid,1", "protocol": "SCSI"}]}"#;
    let report = parse_smartctl(text);
    let Facts::Drive(facts) = &report.items[0].facts else {
        panic!()
    };
    assert_eq!(facts.smartctl_type, "megaraid,1".to_owned().into());
    assert_eq!(report.items[0].health, Health::Unknown);
}
