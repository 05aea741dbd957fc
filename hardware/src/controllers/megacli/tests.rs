use super::*;
use crate::facts::CachePolicy;

#[test]
fn a_battery_that_wants_replacing_is_not_well_whatever_its_charge() {
    let battery = |replace: &str, low: &str| {
        let text = format!(
            "BBU status for Adapter: 0\nBatteryType: iBBU\nBattery Pack Missing : No\n\
             Battery Replacement required : {replace}\nRemaining Capacity Low : {low}\n\
             Battery state: \nRelative State of Charge: 96 %\nExit Code: 0x00\n"
        );
        let report = parse_megacli(&text);
        assert_eq!(report.items.len(), 1, "{report:?}");
        report.items[0].health
    };
    assert_eq!(battery("No", "No"), Health::Ok);
    assert_eq!(battery("Yes", "No"), Health::Degraded);
    assert_eq!(battery("No", "Yes"), Health::Degraded);
    assert_eq!(battery("Perhaps", "No"), Health::Unknown);
}

#[test]
fn a_battery_is_one_under_all_its_titles() {
    for (state, charging, expected) in [
        ("Optimal", "None", Health::Ok),
        ("Operational", "None", Health::Ok),
        ("Non Operational", "Charging", Health::Degraded),
        ("Non Operational", "None", Health::Failed),
        ("Degraded(Need Attention)", "None", Health::Degraded),
        ("Failed", "None", Health::Failed),
        ("Splendid", "None", Health::Unknown),
    ] {
        let text = format!(
            "BBU status for Adapter: 1\nBatteryType: CVPM02\nBattery State     : {state}\n\
             BBU Firmware Status:\n Charging Status : {charging}\n Battery Pack Missing : No\n \
             Battery Replacement required : No\n Remaining Capacity Low : No\n \
             Learn Cycle Requested : Yes\nBBU Capacity Info for Adapter: 1\n\
             Relative State of Charge: 31 %\nBBU Properties for Adapter: 1\n\
             Auto-Learn Mode: Enabled\nExit Code: 0x00\n"
        );
        let report = parse_megacli(&text);
        assert_eq!(report.items.len(), 1, "{report:?}");
        assert_eq!(report.items[0].id, "c1/bbu");
        assert_eq!(report.items[0].health, expected, "{state}: {report:?}");
        let Facts::Battery(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.charge_percent, 31.into());
        assert_eq!(facts.r#type, "CacheVault".to_owned().into());
    }
}

#[test]
fn a_cache_that_fell_to_write_through_is_the_alarm() {
    let text = "Adapter 0 -- Virtual Drive Information:\nVirtual Disk: 0 (Target Id: 0)\n\
                RAID Level: Primary-1, Secondary-0, RAID Level Qualifier-0\nState: Optimal\n\
                Number Of Drives per span:2\nSpan Depth:2\n\
                Default Cache Policy: WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU\n\
                Current Cache Policy: WriteThrough, ReadAhead, Direct, No Write Cache if Bad BBU\n";
    let report = parse_megacli(text);
    let item = &report.items[0];
    assert_eq!(item.id, "c0/v0");
    assert_eq!(item.health, Health::Degraded);
    let Facts::Volume(facts) = &item.facts else {
        panic!()
    };
    assert_eq!(facts.level, "raid10".to_owned().into());
    assert_eq!(facts.members_required, 4.into());
    assert_eq!(facts.cache_policy, CachePolicy::WriteThrough.into());
}

#[test]
fn an_adapter_is_well_if_all_its_counts_are() {
    let info = |degraded: &str, failed: &str| {
        let text = format!(
            "Adapter #0\nProduct Name    : PERC H700\nBBU              : Absent\nROC temperature : 52  degree Celsius\n\
             Virtual Drives    : 1\n{degraded}  Offline         : 0\nPhysical Devices  : 9\n  Disks           : 8\n\
             Critical Disks  : 0\n{failed}Memory Correctable Errors   : 0\nMemory Uncorrectable Errors : 0\nExit Code: 0x00\n"
        );
        let report = parse_megacli(&text);
        assert_eq!(report.items[1].id, "c0/bbu", "{report:?}");
        report.items[0].health
    };
    for (degraded, failed, expected) in [
        ("Degraded : 0\n", "Failed Disks : 0\n", Health::Ok),
        ("Degraded : 1\n", "Failed Disks : 0\n", Health::Degraded),
        ("Degraded : 0\n", "Failed Disks : 1\n", Health::Failed),
        ("Degraded : 0\n", "Failed Disks : some\n", Health::Unknown),
        ("", "Failed Disks : 0\n", Health::Unknown),
        ("Degraded : 0\n", "", Health::Unknown),
    ] {
        assert_eq!(info(degraded, failed), expected, "{degraded}{failed}");
    }
}

#[test]
fn each_adapter_has_its_own_battery() {
    let battery = |adapter: u8, replace: &str| {
        format!(
            "BBU status for Adapter: {adapter}\nBatteryType: iBBU\nBattery State: Optimal\nBattery Pack Missing : No\n\
             Battery Replacement required : {replace}\nRemaining Capacity Low : No\n"
        )
    };
    let volume = |adapter: u8, access: &str| {
        format!(
            "Adapter {adapter} -- Virtual Drive Information:\nVirtual Drive: 0 (Target Id: 0)\nState : Optimal\n\
             Current Cache Policy: WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU\nCurrent Access Policy: {access}\n"
        )
    };
    let text = [
        volume(0, "Read/Write"),
        volume(1, "Blocked"),
        battery(0, "No"),
        battery(1, "Yes"),
        "Exit Code: 0x00\n".to_owned(),
    ];
    let report = parse_megacli(&text.concat());
    for (id, health, protected) in [
        ("c0/v0", Health::Ok, true),
        ("c1/v0", Health::Failed, false),
    ] {
        let item = report.items.iter().find(|item| item.id == id).unwrap();
        assert_eq!(item.health, health);
        let Facts::Volume(facts) = &item.facts else {
            panic!()
        };
        assert_eq!(facts.cache_protected, protected.into(), "{id}");
    }
}

#[test]
fn what_tells_of_nothing_is_told() {
    for (text, items, problems) in [
        ("Controller Count: 0.\nExit Code: 0x00\n", 0, 0),
        (
            "Adapter 0: No Virtual Drive Configured.\nExit Code: 0x00\n",
            0,
            0,
        ),
        ("Exit Code: 0x00\n", 0, 1),
        (
            "Adapter 0: Get BBU Status Failed.\nFW error description:\n The current operation is not allowed\nExit Code: 0x32\n",
            0,
            1,
        ),
        (
            "Rebuild Progress on Device at Enclosure 252, Slot 3 Completed 45% in 20 Minutes.\nExit Code: 0x00\n",
            1,
            0,
        ),
    ] {
        let report = parse_megacli(text);
        assert_eq!(
            (report.items.len(), report.problems.len()),
            (items, problems),
            "{text}: {report:?}"
        );
    }
}

#[test]
fn what_the_disks_do_is_evidence_of_durability() {
    use crate::facts::WriteHonesty;
    for (policy, expected) in [
        ("Disabled", WriteHonesty::Protected),
        ("Enabled", WriteHonesty::Unsafe),
        ("Disk's Default", WriteHonesty::Unknown),
    ] {
        let text = format!(
            "Adapter 0 -- Virtual Drive Information:\nVirtual Drive: 0 (Target Id: 0)\nState : Optimal\n\
             Current Cache Policy: WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU\n\
             Disk Cache Policy : {policy}\nBBU status for Adapter: 0\nBatteryType: iBBU\nBattery State: Optimal\n\
             Battery Pack Missing : No\nBattery Replacement required : No\nRemaining Capacity Low : No\n"
        );
        let report = crate::Tool::Megacli.parse(text.as_bytes());
        let volume = report.items.iter().find(|item| item.id == "c0/v0").unwrap();
        let Facts::Volume(facts) = &volume.facts else {
            panic!()
        };
        assert_eq!(facts.write_honesty, expected.into(), "{policy}: {report:?}");
    }
}
