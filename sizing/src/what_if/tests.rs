use std::collections::BTreeMap;
use std::sync::Arc;

use profiles::classes::Classes;
use protocol::DurationMs;
use protocol::host::HostFacts;

use super::*;
use crate::history::{History, SeenHost, SeenJob};
use crate::{plan_night, simulate};

/// 2026-11-30, 20:00 UTC.
const EVENING: WallMs = WallMs(1_796_068_800_000);

fn history() -> History {
    let text = "name: books/close\npurpose: a test\nowner: ada\nrepeatable: { safe: true, how: nothing }\n\
                schedule: { cron: \"30 23 * * *\", timezone: Etc/UTC }\n\
                misfire: { policy: run_now, after: 60s }\noverlap: queue\nexpected_duration: 10m\n\
                timeout: 1h\nshards: 8\nrun: { exec: [\"/bin/true\"] }\n";
    let manifest = jobs::parse_manifests("test.yaml", text).unwrap().remove(0);
    let mut facts = HostFacts::default();
    facts.know(
        "disk.random_write_iops",
        protocol::host::Value::Number(5_000),
    );
    let host = |name: &str, facts: &HostFacts| SeenHost {
        name: name.parse().unwrap(),
        slots: 2,
        labels: Vec::new(),
        facts: facts.clone(),
        in_service: true,
    };
    History {
        from: EVENING,
        to: EVENING,
        hosts: vec![host("io-1", &facts), host("plain", &HostFacts::default())],
        jobs: vec![SeenJob {
            manifest: Arc::new(manifest),
            shards: 8,
            runs: Vec::new(),
            has_older: false,
        }],
        beside: Vec::new(),
        resources: BTreeMap::new(),
        classes: Arc::new(Classes::built_in()),
    }
}

/// Makespan of the one run in minutes, under what a file says.
fn minutes_if(text: &str) -> i64 {
    let history = history();
    let planned = plan_night(&history, DurationMs(86_400_000), 1);
    assert_eq!(planned.unknown, ["books/close".parse().unwrap()]);
    let what_if = parse_what_if("what-if.toml", text).unwrap();
    let scenario = what_if.apply("what-if.toml", &planned.scenario).unwrap();
    let outcome = outcome(&scenario, &simulate(&scenario).unwrap());
    assert_eq!((outcome.runs, outcome.succeeded), (1, 1), "{text}");
    outcome.jobs[0].makespan_ms_max.unwrap() / 60_000
}

#[test]
fn each_change_costs_or_saves_what_it_must() {
    for (text, expected) in [
        // Eight shards of ten minutes on four slots.
        ("[[volume]]\njob = \"books/close\"\ntimes = 1\n", 20),
        ("[[volume]]\njob = \"books/close\"\ntimes = 2.0\n", 40),
        ("[[add]]\nhosts = 2\nclass = \"io\"\n", 10),
        ("[[add]]\nhosts = 1\nlike = \"plain\"\n", 20),
        // Five minutes into the second round; by the end of it the leases of the lost host have run
        // out, and its two shards make a third round on the other.
        ("[[lose]]\nhost = \"plain\"\nat = \"23:45\"\n", 30),
    ] {
        assert_eq!(minutes_if(text), expected, "{text}");
    }
}

#[test]
fn every_problem_is_told_with_its_line() {
    let text = "[[add]]\nhosts = 0\nlike = \"io-1\"\n[[add]]\nhosts = 3\nclas = \"io\"\n\
                [[lose]]\nhost = 7\nat = \"25:00\"\n[[volume]]\njob = \"books/close\"\n[remove]\n";
    let problems = parse_what_if("f.toml", text).unwrap_err();
    let said: Vec<String> = problems
        .iter()
        .map(|p| format!("{} {}", p.line, p.what))
        .collect();
    assert_eq!(
        said,
        [
            "1 hosts: 0 is no number of hosts",
            "4 [[add]] must say what the hosts are like",
            "6 `clas` is not a field of [[add]]",
            "8 host: it is no text",
            "9 at: `25:00` is not a time",
            "10 `times` is missing",
            "12 `remove` is not a change",
        ]
    );
    assert_eq!(
        parse_what_if("f.toml", "").unwrap_err()[0].what,
        "it changes nothing"
    );
    assert!(
        parse_what_if("f.toml", "[[add\n").unwrap_err()[0]
            .what
            .starts_with("is not TOML")
    );
}

#[test]
fn what_is_not_there_is_told_with_its_line() {
    let text = "[[lose]]\nhost = \"io-9\"\nat = \"23:40\"\n[[volume]]\njob = \"books/open\"\ntimes = 2\n\
                [[add]]\nhosts = 1\nclass = \"memory\"\n";
    let history = history();
    let scenario = plan_night(&history, DurationMs(3_600_000), 1).scenario;
    let what_if = parse_what_if("f.toml", text).unwrap();
    let problems = what_if.apply("f.toml", &scenario).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "f.toml:1: 2026-11-30T23:40:00Z is not of the night from 2026-11-30T20:00:00Z to 2026-11-30T21:00:00Z; write a time of it, as 23:40",
            "f.toml:4: there is no job `books/open`; `matins get jobs` lists them",
            "f.toml:7: no host in service is of class `memory`; name one that they are like: like = \"NAME\"; in service are io-1, plain",
        ]
    );
}
