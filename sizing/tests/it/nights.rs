//! Small nights whose end can be told beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::RunState;
use profiles::classes::Classes;
use protocol::{DurationMs, HostFacts, WallMs};
use sizing::Scenario;
use sizing::scenario::{Arrival, Host, Job, Lasts};

/// 2027-01-15, midnight.
const MIDNIGHT: WallMs = WallMs(1_799_971_200_000);

const MINUTE: DurationMs = DurationMs(60_000);

fn minutes(count: i64) -> DurationMs {
    DurationMs(count * MINUTE.0)
}

fn host(name: &str, slots: u32) -> Host {
    Host {
        name: name.parse().unwrap(),
        slots,
        labels: Vec::new(),
        facts: HostFacts::default(),
        lost_at: None,
    }
}

fn job(yaml: &str, lasts: Lasts) -> Job {
    let text = format!(
        "purpose: a test\nowner: ada\nrepeatable: {{ safe: true, how: it does nothing }}\n\
         misfire: {{ policy: run_now, after: 60s }}\nexpected_duration: 1m\n\
         run: {{ exec: [\"/bin/true\"] }}\n{yaml}"
    );
    Job {
        manifest: Arc::new(jobs::parse_manifests("test.yaml", &text).unwrap().remove(0)),
        lasts,
        volume: 1.0,
    }
}

/// From midnight for a day.
fn day(hosts: Vec<Host>, jobs: Vec<Job>) -> Scenario {
    Scenario {
        begins: MIDNIGHT,
        ends: MIDNIGHT + minutes(24 * 60),
        patience: minutes(24 * 60),
        hosts,
        jobs,
        arrivals: Vec::new(),
        resources: BTreeMap::new(),
        classes: Arc::new(Classes::built_in()),
        start_lag: DurationMs::ZERO,
        end_lag: DurationMs::ZERO,
        seed: 1,
    }
}

const NIGHTLY: &str = "name: night/books\nschedule: { cron: \"30 2 * * *\", timezone: Etc/UTC }\n\
                       overlap: queue\ntimeout: 1h\nshards: 12\n";

/// Twelve shards of five minutes on two hosts with two slots each: three rounds.
#[test]
fn shards_fill_the_slots_round_after_round() {
    let scenario = day(
        vec![host("a", 2), host("b", 2)],
        vec![job(NIGHTLY, Lasts::Always(minutes(5)))],
    );
    let night = sizing::simulate(&scenario).unwrap();
    let [run] = &night.runs[..] else {
        panic!("{:?}", night.runs);
    };
    assert_eq!(run.fire_time, MIDNIGHT + minutes(150));
    assert_eq!(run.state, RunState::Succeeded);
    assert_eq!(run.makespan(), Some(minutes(15)));
    assert_eq!(run.wait(), Some(DurationMs::ZERO));
    assert_eq!(night.spans.len(), 12);
    assert!((night.utilisation() - 1.0).abs() < 1e-9);
    assert_eq!(
        night.hosts.iter().map(|host| host.peak).collect::<Vec<_>>(),
        [2, 2]
    );
}

/// A run of 40 minutes every quarter of an hour: each overlap policy as its owner has set it.
#[test]
fn the_policies_are_the_coordinators_own() {
    let runs = |overlap: &str| {
        let yaml = format!(
            "name: night/often\nschedule: {{ cron: \"*/15 0-1 * * *\", timezone: Etc/UTC }}\n\
             overlap: {overlap}\ntimeout: 1h\n"
        );
        let scenario = day(
            vec![host("a", 9)],
            vec![job(&yaml, Lasts::Always(minutes(40)))],
        );
        let night = sizing::simulate(&scenario).unwrap();
        let skipped = night.count(RunState::Skipped);
        (
            night.count(RunState::Succeeded),
            skipped,
            night.hosts[0].peak,
        )
    };
    // 0:15 0:30 0:45 1:00 1:15 1:30 1:45: midnight itself is the beginning and not due any more.
    assert_eq!(runs("allow"), (7, 0, 3));
    assert_eq!(runs("forbid"), (3, 4, 1));
}

/// A host is lost in the middle: what it ran is started again after the job's takeover time.
#[test]
fn a_lost_host_costs_its_takeover_time_and_the_work_again() {
    let mut scenario = day(
        vec![host("a", 6), host("b", 6)],
        vec![job(NIGHTLY, Lasts::Always(minutes(5)))],
    );
    let before = sizing::simulate(&scenario).unwrap();
    assert_eq!(before.runs[0].makespan(), Some(minutes(5)));
    scenario.hosts[1].lost_at = Some(MIDNIGHT + minutes(152));
    let night = sizing::simulate(&scenario).unwrap();
    assert_eq!((night.lost, night.count(RunState::Succeeded)), (6, 1));
    let makespan = night.runs[0].makespan().unwrap();
    // Lost after 2 minutes, its leases last heard of at most 5 s before, given up after 60 s and the
    // margins; by then the other host has two minutes to go; five minutes of work follow.
    assert!(
        makespan >= minutes(10) && makespan < minutes(11),
        "{makespan}"
    );
}

#[test]
fn work_beyond_the_time_out_is_tried_and_goes_to_a_person() {
    let yaml = format!("{NIGHTLY}retry: {{ at_most: 1, backoff: [1m] }}\n");
    let mut slow = job(&yaml, Lasts::Always(minutes(40)));
    slow.volume = 2.0;
    let night = sizing::simulate(&day(vec![host("a", 12)], vec![slow])).unwrap();
    assert_eq!(night.count(RunState::NeedsConfirmation), 1);
    assert_eq!((night.timed_out, night.spans.len()), (24, 24));
    assert_eq!(night.runs[0].makespan(), Some(minutes(121)));
}

#[test]
fn the_same_seed_is_the_same_night_and_another_is_another() {
    let drawn = Lasts::drawn((1..=20).map(minutes).collect()).unwrap();
    let mut scenario = day(vec![host("a", 2), host("b", 3)], vec![job(NIGHTLY, drawn)]);
    let arrival = Arrival {
        at: MIDNIGHT + minutes(600),
        job: "night/books".parse().unwrap(),
        lasts: Some(Lasts::Always(minutes(3))),
    };
    scenario.arrivals.push(arrival);
    let night = sizing::simulate(&scenario).unwrap();
    assert_eq!(night, sizing::simulate(&scenario).unwrap());
    assert_eq!(night.runs.len(), 2);
    // Three rounds of five slots, the last one not full.
    assert_eq!(
        night.runs[1].ended.unwrap() - night.runs[1].admitted,
        minutes(9)
    );
    scenario.seed = 2;
    assert_ne!(night.spans, sizing::simulate(&scenario).unwrap().spans);
}
