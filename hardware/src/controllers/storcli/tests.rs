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
