use super::*;
use crate::facts::CachePolicy;

fn answer(data: &str) -> Report {
    parse_storcli(&format!(
        r#"{{"Controllers": [{{"Command Status": {{"Controller": 0, "Status": "Success"}}, "Response Data": {{{data}}}}}]}}"#
    ))
}

fn health(report: &Report, id: &str) -> Health {
    let item = report.items.iter().find(|item| item.id == id);
    item.unwrap_or_else(|| panic!("no {id} in {report:?}"))
        .health
}

#[test]
fn a_cache_vault_in_all_its_properties() {
    for (state, replace, expected) in [
        ("Optimal", "No", Health::Ok),
        ("Optimal", "Yes", Health::Degraded),
        ("FAILED", "No", Health::Failed),
        ("Optimal", "Perhaps", Health::Unknown),
    ] {
        let report = answer(&format!(
            r#""Cachevault_Info": [{{"Property": "Type", "Value": "CVPM02"}}, {{"Property": "State", "Value": "{state}"}},
               {{"Property": "Temperature", "Value": "28 C"}}],
               "Firmware_Status": [{{"Property": "Replacement required", "Value": "{replace}"}}],
               "GasGaugeStatus": [{{"Property": "Capacitance", "Value": "95 %"}}]"#
        ));
        // The same vault, whichever section tells of it.
        assert_eq!(
            health(&report, "c0/cv"),
            expected,
            "{state} {replace}: {report:?}"
        );
        let Facts::Battery(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.r#type, "CacheVault".to_owned().into());
        assert_eq!(facts.charge_percent, 95.into());
    }
}

#[test]
fn a_battery_that_only_the_controller_tells_of() {
    for (key, bits, expected) in [
        ("BBU Status", 1024, Some(Health::Degraded)),
        ("Energy Pack Status", 1, Some(Health::Failed)),
        ("BBU Status", 32, Some(Health::Unknown)),
        ("BBU Status", 0, None),
    ] {
        let report = answer(&format!(
            r#""Basics": {{"Model": "X"}}, "Status": {{"Controller Status": "Optimal", "{key}": {bits}}}"#
        ));
        let battery = report.items.iter().find(|item| item.id == "c0/bbu");
        assert_eq!(
            battery.map(|item| item.health),
            expected,
            "{key} {bits}: {report:?}"
        );
        assert_eq!(health(&report, "c0"), Health::Ok);
    }
}

#[test]
fn one_line_for_each_controller() {
    let report = answer(
        r#""Number of Controllers": 2, "System Overview": [
           {"Ctl": 0, "Model": "X", "DGs": 1, "DNOpt": 0, "VDs": 1, "VNOpt": 0, "BBU": "Opt", "Hlth": "Opt"},
           {"Ctl": 1, "Model": "Y", "DGs": 1, "DNOpt": 1, "VDs": 1, "VNOpt": 1, "BBU": "Msng", "Hlth": "NdAtn"}]"#,
    );
    assert_eq!(health(&report, "c0"), Health::Ok);
    assert_eq!(health(&report, "c0/bbu"), Health::Ok);
    assert_eq!(health(&report, "c1"), Health::Degraded);
    assert_eq!(health(&report, "c1/bbu"), Health::Failed);
}

#[test]
fn a_volume_with_its_drives() {
    let report = answer(
        r#""/c0/v1": [{"DG/VD": "0/1", "TYPE": "RAID5", "State": "Dgrd", "Cache": "NRAWBD", "Size": "1.818 TB"}],
           "PDs for VD 1": [{"EID:Slt": " :0", "State": "Onln"}, {"EID:Slt": " :1", "State": "Rbld"}, {"EID:Slt": " :2", "State": "Onln"}],
           "VD1 Properties": {"OS Drive Name": "/dev/sdb", "Active Operations": "None"}"#,
    );
    let item = report.items.iter().find(|item| item.id == "c0/v1").unwrap();
    assert_eq!(item.health, Health::Rebuilding);
    let Facts::Volume(facts) = &item.facts else {
        panic!()
    };
    assert_eq!(
        (&facts.members_required, &facts.members_active),
        (&3.into(), &2.into())
    );
    assert_eq!(facts.cache_policy, CachePolicy::WriteBackAlways.into());
    assert_eq!(facts.device, "/dev/sdb".to_owned().into());
    assert_eq!(health(&report, "c0/s1"), Health::Rebuilding);
}

#[test]
fn what_was_refused_is_a_problem_and_no_more() {
    let report = parse_storcli(
        r#"{"Controllers": [{"Command Status": {"Controller": 0, "Status": "Failure", "Description": "None",
           "Detailed Status": [{"Ctrl": 0, "Status": "Failed", "ErrCd": 255, "ErrMsg": "Use /cx/cv"}]}},
           {"Command Status": {"Controller": 1, "Status": "Success"}, "Response Data":
           {"BBU_Info": [{"Model": "BBU", "State": "Optimal"}]}}]}"#,
    );
    assert_eq!(report.problems.len(), 1);
    assert_eq!(health(&report, "c1/bbu"), Health::Ok);
}

#[test]
fn a_host_without_a_card_has_nothing() {
    for text in [
        r#"{"Controllers": [{"Command Status": {"Status": "Failure", "Description": "No Controller found"}}]}"#,
        "Status = Failure\nDescription = No Controller found\n",
        r#"{"Controllers": [{"Command Status": {"Status": "Success"}, "Response Data": {"Number of Controllers": 0}}]}"#,
    ] {
        assert_eq!(parse_storcli(text), Report::default(), "{text}");
    }
}

#[test]
fn a_cache_that_fell_is_the_alarm_in_every_version() {
    for (row, properties, expected) in [
        (
            r#""Cache": "RWTD""#,
            r#""Write Cache(initial setting)": "WriteBack""#,
            Health::Degraded,
        ),
        (
            r#""Cache": "RWTD""#,
            r#""Write Cache(initial setting)": "WriteThrough""#,
            Health::Ok,
        ),
        (
            r#""Cache": "RWBD""#,
            r#""Write Cache(initial setting)": "WriteBack""#,
            Health::Ok,
        ),
        (
            r#""CurrentCache": "NR,WT", "DefaultCache": "NR,WB""#,
            "",
            Health::Degraded,
        ),
        (
            r#""CurrentCache": "NR,WB", "DefaultCache": "NR,WB""#,
            "",
            Health::Ok,
        ),
    ] {
        let report = answer(&format!(
            r#""/c0/v0": [{{"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl", "Access": "RW", {row}}}],
               "VD0 Properties": {{"Number of Drives Per Span": 2, "Span Depth": 1, {properties}
               {}"Active Operations": "None"}}"#,
            if properties.is_empty() { "" } else { "," }
        ));
        assert_eq!(
            health(&report, "c0/v0"),
            expected,
            "{row} {properties}: {report:?}"
        );
        let Facts::Volume(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.members_required, 2.into());
    }
}

#[test]
fn who_may_reach_a_volume() {
    for (access, expected) in [
        ("RW", Health::Ok),
        ("RO", Health::Degraded),
        ("B", Health::Failed),
        ("Splendid", Health::Unknown),
    ] {
        let report = answer(&format!(
            r#""VD LIST": [{{"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl", "Access": "{access}"}}]"#
        ));
        assert_eq!(health(&report, "c0/v0"), expected, "{access}");
    }
}

#[test]
fn a_short_answer_has_the_card_and_what_hangs_on_it() {
    let report = answer(
        r#""Product Name": "MR9361-8i", "TOPOLOGY": [], "VD LIST": [{"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl",
           "Access": "RW", "Cache": "RWBD"}], "HwCfg": {"ROC temperature(Degree Celsius)": 58, "BBU": "Absent"}"#,
    );
    assert_eq!(health(&report, "c0"), Health::Unknown);
    assert_eq!(health(&report, "c0/bbu"), Health::Unknown);
    let volume = report.items.iter().find(|item| item.id == "c0/v0").unwrap();
    let Facts::Volume(facts) = &volume.facts else {
        panic!()
    };
    assert_eq!(facts.cache_protected, false.into());
    let Facts::Controller(facts) = &report.items[0].facts else {
        panic!()
    };
    assert_eq!(facts.temperature_c, 58.into());
}

#[test]
fn progress_alone_and_answers_of_nothing() {
    let of_data = |data: &str| {
        parse_storcli(&format!(
            r#"{{"Controllers": [{{"Command Status": {{"Controller": 1, "Status": "Success"}}, "Response Data": {data}}}]}}"#
        ))
    };
    let report = of_data(
        r#"[{"Drive-ID": "/c1/e252/s1", "Progress%": 45, "Status": "In progress", "Estimated Time Left": "2 Hours"},
            {"VD": 0, "Operation": "BGI", "Progress%": 5, "Status": "In progress"},
            {"VD": 1, "Operation": "CC", "Progress%": 5, "Status": "In progress"}]"#,
    );
    assert_eq!(health(&report, "c1/e252/s1"), Health::Rebuilding);
    assert_eq!(health(&report, "c1/v0"), Health::Rebuilding);
    assert_eq!(health(&report, "c1/v1"), Health::Unknown);
    let report = of_data(r#"{"Splendour": {"State": 1}}"#);
    assert!(report.items.is_empty() && report.problems.len() == 1);
}

#[test]
fn what_a_cache_vault_says_of_its_flash() {
    for (state, expected) in [("OK", Health::Ok), ("Failed", Health::Unknown)] {
        let report = answer(&format!(
            r#""Cachevault_Info": [{{"Property": "Type", "Value": "CVPM05"}}, {{"Property": "State", "Value": "Optimal"}}],
               "Firmware_Status": [{{"Property": "NVCache State", "Value": "{state}"}}, {{"Property": "Replacement required", "Value": "No"}}],
               "GasGaugeStatus": [{{"Property": "Capacitance", "Value": "108 %"}}]"#
        ));
        assert_eq!(health(&report, "c0/cv"), expected, "{state}: {report:?}");
        let Facts::Battery(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.charge_percent, 108.into());
    }
}
