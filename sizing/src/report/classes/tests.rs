use std::sync::Arc;

use profiles::classes::Classes;
use protocol::attempt::AttemptOutcome;
use protocol::host::{HostFacts, Value};
use protocol::{DurationMs, RunId};

use super::*;
use crate::history::{SeenJob, SeenRun};

const FIRST: WallMs = WallMs(1_795_140_000_000);

/// From so many seconds on, for ten seconds, with so many reads and writes.
struct Took(i64, Option<u64>, bool);

fn history(facts: &[(&'static str, Value)], needs: &str, took: &[Took]) -> History {
    let text = format!(
        "name: t/job\npurpose: a test\nowner: ada\nrepeatable: {{ safe: true, how: nothing }}\n\
         schedule: {{ cron: \"0 2 * * *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: run_now, after: 60s }}\noverlap: queue\nexpected_duration: 1m\n\
         timeout: 1h\nneeds: {{ {needs} }}\nrun: {{ exec: [\"/bin/true\"] }}\n"
    );
    let manifest = jobs::parse_manifests("t.yaml", &text).unwrap().remove(0);
    let mut known = HostFacts::default();
    for (fact, value) in facts {
        known.know(fact, value.clone());
    }
    let at = |second: i64| FIRST + DurationMs::from_secs(second);
    let attempts = took
        .iter()
        .map(|Took(second, operations, partial)| SeenAttempt {
            host: "a".parse().unwrap(),
            shard: 0,
            granted: at(*second),
            started: at(*second),
            ended: at(*second + 10),
            outcome: Some(AttemptOutcome::Succeeded),
            cpu: DurationMs::ZERO,
            memory_bytes_peak: 0,
            operations: *operations,
            operations_partial: *partial,
            text_bytes: 0,
        });
    let run = SeenRun {
        run: RunId(1),
        fire_time: FIRST,
        nominal: None,
        admitted: FIRST,
        ended: Some(at(60)),
        succeeded: true,
        shards: 1,
        attempts: attempts.collect(),
    };
    History {
        from: FIRST,
        to: at(600),
        hosts: vec![SeenHost {
            name: "a".parse().unwrap(),
            slots: 100,
            labels: Vec::new(),
            facts: known,
            in_service: true,
        }],
        jobs: vec![SeenJob {
            manifest: Arc::new(manifest),
            shards: 1,
            runs: vec![run],
            has_older: false,
        }],
        beside: Vec::new(),
        resources: BTreeMap::new(),
        classes: Arc::new(Classes::built_in()),
    }
}

#[test]
fn reads_and_writes_are_held_against_what_disks_were_measured_to_do() {
    let iops = [("disk.random_write_iops", Value::Number(1_000))];
    type Expected = (Option<f64>, bool, Option<&'static str>, Option<usize>);
    let check = |took: &[Took], facts: &[(&'static str, Value)], expected: Expected| {
        let report = report_classes(&history(facts, "", took)).remove(0);
        let io = report.dimensions.iter().find(|it| it.name == "io").unwrap();
        let told = (io.peak, io.partial, report.binds, report.hosts_needed);
        assert_eq!(told, expected);
    };
    let all = |second, count| Took(second, Some(count), false);
    let (io, slots) = (Some("io"), Some("slots"));
    // 900 a second twice, five seconds of it together.
    check(
        &[all(0, 9_000), all(5, 9_000)],
        &iops,
        (Some(1_800.0), false, io, Some(3)),
    );
    check(
        &[all(0, 9_000), all(10, 9_000)],
        &iops,
        (Some(900.0), false, io, Some(2)),
    );
    check(
        &[Took(0, Some(9_000), true)],
        &iops,
        (Some(900.0), true, io, Some(2)),
    );
    check(
        &[all(0, 9_000), Took(0, None, false)],
        &iops,
        (Some(900.0), true, io, Some(2)),
    );
    // Nobody has counted, or nobody has measured.
    check(&[Took(0, None, false)], &iops, (None, true, slots, Some(1)));
    check(&[all(0, 9_000)], &[], (Some(900.0), false, slots, Some(1)));
    check(&[], &iops, (Some(0.0), false, None, None));
}

#[test]
fn shards_that_ask_for_io_take_places_of_their_own() {
    let facts = [
        ("disk.random_write_iops", Value::Number(100_000)),
        ("disk.medium", Value::Text("hdd".to_owned())),
    ];
    let took = [Took(0, None, false), Took(5, None, false)];
    let check = |needs: &str, expected: f64, binds: &str| {
        let report = report_classes(&history(&facts, needs, &took)).remove(0);
        let slots = report.dimensions.iter().find(|it| it.name == "io_slots");
        assert_eq!(slots.unwrap().peak, Some(expected), "{needs}");
        assert_eq!(report.binds, Some(binds), "{needs}");
    };
    check("class: io", 2.0, "io_slots");
    check("class: general", 0.0, "slots");
}
