use super::*;
use crate::facts::{Action, CachePolicy, Facts};

#[test]
fn a_volume_is_as_well_as_its_worst_segment() {
    for (status, segment, expected) in [
        ("Optimal", "Present (0,1) XYZ", Health::Ok),
        ("Okay", "Present (0,1)", Health::Ok),
        ("Optimal", "Missing", Health::Degraded),
        ("Degraded", "Rebuilding (0,1)", Health::Rebuilding),
        ("Degraded", "Inconsistent (0,1)", Health::Degraded),
        ("Offline", "Present (0,1)", Health::Failed),
        ("Splendid", "Present (0,1)", Health::Unknown),
    ] {
        let text = format!(
            "Controllers found: 1\nLogical device information\nLogical device number 0\n\
             RAID level : 1\nStatus of logical device : {status}\n\
             Logical device segment information\nSegment 0 : Present (0,0)\nSegment 1 : {segment}\n"
        );
        let report = parse_arcconf(&text);
        assert_eq!(report.items[0].health, expected, "{status} {segment}");
    }
}

#[test]
fn a_recent_card_has_arrays_and_a_cache_of_its_own() {
    let text = "Controllers found: 1\nController information\nController Status : Optimal\n\
                Defunct disk drive count : 0\nCache Properties\nCache Status : Temporarily Disabled\n\
                No-Battery Write Cache : Enabled\nGreen Backup Information\nBackup Power Status : Ok\n\
                Power Type : Supercap\nRAID Properties\nLogical devices/Failed/Degraded : 1/0/0\n\
                Array Information\nArray Number 0\nStatus : Has Failed Physical Device\n\
                Array Physical Device Information\nDevice 0 : Present (0)\nDevice 1 : Missing\n\
                Logical device information\nLogical Device number 0\nRAID level : 1\n\
                Status of Logical Device : Optimal\nCaching : Enabled\n\
                Physical Device information\nChannel #0:\nDevice #0\nDevice is a Hard drive\nState : Online\n\
                Channel #2:\nDevice #0\nDevice is an Enclosure Services Device\nState : Online\n";
    let report = parse_arcconf(text);
    let told: Vec<_> = report
        .items
        .iter()
        .map(|item| (item.id.as_str(), item.health))
        .collect();
    let expected = [
        ("c1", Health::Degraded),
        ("c1/battery", Health::Ok),
        ("c1/array0", Health::Degraded),
        ("c1/ld0", Health::Ok),
        ("c1/d0", Health::Ok),
    ];
    assert_eq!(told, expected, "{report:?}");
    let Facts::Volume(facts) = &report.items[3].facts else {
        panic!()
    };
    assert_eq!(facts.cache_policy, CachePolicy::WriteBackAlways.into());
    assert_eq!(facts.cache_protected, true.into());
}

#[test]
fn what_does_nothing_is_idle_and_not_waiting() {
    let status = |operation: &str| {
        parse_arcconf(&format!(
            "Controllers found: 1\nLogical device Task:\n{operation}Command completed successfully.\n"
        ))
    };
    assert_eq!(status(" Current operation : None\n"), Report::default());
    let report = status(" Logical device : 0\n Current operation : None\n");
    let Facts::Volume(facts) = &report.items[0].facts else {
        panic!()
    };
    assert_eq!(facts.action, Action::Idle.into());
    assert_eq!(report.items[0].health, Health::Unknown);
    assert_eq!(status("").problems.len(), 1);
    assert_eq!(parse_arcconf("Controllers found: 0\n"), Report::default());
}

#[test]
fn drives_by_their_counters_and_batteries_by_their_charge() {
    let text = |failures: &str, capacity: &str| {
        format!(
            "Controllers found: 1\nController information\nController Status : Optimal\nDefunct disk drive count : 0\n\
             Logical devices/Failed/Degraded : 1/0/0\nGreen Backup Information\nBackup Power Status : Ok\n\
             Hardware Error : {capacity}\nRelative Charge : 97 percent\n\
             Physical Device information\nDevice #0\nDevice is a Hard drive\nState : Online\n\
             Device Error Counters\nMedia Failures : 3\nPredictive Failures : {failures}\n"
        )
    };
    for (failures, capacity, drive, battery) in [
        ("0", "No Error", Health::Ok, Health::Ok),
        ("2", "No Error", Health::Degraded, Health::Ok),
        ("some", "No Error", Health::Unknown, Health::Ok),
        ("0", "Pack missing", Health::Ok, Health::Degraded),
    ] {
        let report = parse_arcconf(&text(failures, capacity));
        let health = |id: &str| {
            report
                .items
                .iter()
                .find(|item| item.id == id)
                .unwrap()
                .health
        };
        assert_eq!(
            (health("c1/d0"), health("c1/battery")),
            (drive, battery),
            "{report:?}"
        );
        let Facts::Drive(facts) = &report.items[2].facts else {
            panic!()
        };
        assert_eq!(facts.media_errors, 3.into());
        let Facts::Battery(facts) = &report.items[1].facts else {
            panic!()
        };
        assert_eq!(facts.charge_percent, 97.into());
    }
}

#[test]
fn a_task_says_what_its_volume_does() {
    let text = "Controllers found: 1\nLogical device Task:\n Logical device : 0\n\
                Current operation : Rebuild\n Status : In Progress\n Percentage complete : 1\n";
    let report = parse_arcconf(text);
    assert_eq!(report.items[0].health, Health::Rebuilding);
    let Facts::Volume(facts) = &report.items[0].facts else {
        panic!()
    };
    assert_eq!(facts.action, Action::Recovery.into());
    assert_eq!(facts.action_percent, 1.0.into());
}
