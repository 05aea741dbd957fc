use std::collections::BTreeMap;
use std::sync::Arc;

use profiles::classes::Classes;
use protocol::WallMs;
use protocol::attempt::AttemptOutcome;
use protocol::host::HostFacts;

use super::*;
use crate::history::{SeenAttempt, SeenHost};

const DAY: i64 = 86_400_000;

/// 2026-11-20, two in the morning.
const FIRST: WallMs = WallMs(1_795_140_000_000);

/// One run a night, of shards that last so many seconds each.
fn seen(nights: &[Vec<i64>]) -> SeenJob {
    let text = "name: t/job\npurpose: a test\nowner: ada\nrepeatable: { safe: true, how: nothing }\n\
                schedule: { cron: \"0 2 * * *\", timezone: Etc/UTC }\n\
                misfire: { policy: run_now, after: 60s }\noverlap: queue\nexpected_duration: 1m\n\
                timeout: 1h\nrun: { exec: [\"/bin/true\"] }\n";
    let manifest = jobs::parse_manifests("test.yaml", text).unwrap().remove(0);
    let run = |(night, shards): (usize, &Vec<i64>)| {
        let fire_time = FIRST + DurationMs(night as i64 * DAY);
        let attempts = shards
            .iter()
            .enumerate()
            .map(|(shard, seconds)| SeenAttempt {
                host: "a".parse().unwrap(),
                shard: shard as u32,
                granted: fire_time,
                started: fire_time,
                ended: fire_time + DurationMs::from_secs(*seconds),
                outcome: Some(AttemptOutcome::Succeeded),
                cpu: DurationMs::ZERO,
                memory_bytes_peak: 0,
                operations: None,
                operations_partial: false,
                text_bytes: 0,
            });
        SeenRun {
            run: protocol::RunId(night as i64 + 1),
            fire_time,
            nominal: Some(format!("{}T02:00:00", &fire_time.to_rfc3339()[..10])),
            admitted: fire_time,
            ended: shards
                .iter()
                .max()
                .map(|longest| fire_time + DurationMs::from_secs(*longest)),
            succeeded: true,
            shards: shards.len() as u32,
            attempts: attempts.collect(),
        }
    };
    SeenJob {
        manifest: Arc::new(manifest),
        shards: nights.last().map_or(1, |shards| shards.len() as u32),
        runs: nights.iter().enumerate().map(run).collect(),
        has_older: false,
    }
}

fn fleet(hosts: usize) -> History {
    let host = |number: usize| SeenHost {
        name: format!("h{number}").parse().unwrap(),
        slots: 4,
        labels: Vec::new(),
        facts: HostFacts::default(),
        in_service: true,
    };
    History {
        from: FIRST,
        to: FIRST + DurationMs(60 * DAY),
        hosts: (0..hosts).map(host).collect(),
        jobs: Vec::new(),
        beside: Vec::new(),
        resources: BTreeMap::new(),
        classes: Arc::new(Classes::built_in()),
    }
}

#[test]
fn shards() {
    for (what, nights, hosts, expected) in [
        ("too little is known", vec![vec![5_400]; 4], 4, 1),
        (
            "90 minutes in one piece, on four hosts",
            vec![vec![5_400]; 5],
            4,
            16,
        ),
        (
            "the same on two: longer than ten minutes else",
            vec![vec![5_400]; 5],
            2,
            10,
        ),
        (
            "on forty: shorter than two minutes else",
            vec![vec![5_400]; 5],
            40,
            45,
        ),
        ("as it should be", vec![vec![300; 16]; 5], 4, 16),
        (
            "so many that each is too short",
            vec![vec![10; 300]; 5],
            4,
            16,
        ),
        ("short in one piece", vec![vec![60]; 5], 4, 1),
        ("no host", vec![vec![5_400]; 5], 0, 1),
    ] {
        let advice = report_job(&seen(&nights), &fleet(hosts)).shards;
        assert_eq!(advice.advised, expected, "{what}: {}", advice.why);
    }
}

#[test]
fn a_window_that_fills_up() {
    let grows: Vec<Vec<i64>> = (0..20).map(|night| vec![36_000 + night * 600]).collect();
    let window = report_job(&seen(&grows), &fleet(1)).window.unwrap();
    assert_eq!(window.period_ms, Some(DAY));
    // 41,700 s in the middle, 600 s more a day.
    let growth = window.growth_30_days.unwrap();
    assert!((growth - 18_000.0 / 41_700.0).abs() < 1e-9, "{growth}");
    // From 46,830 s, which 95 of 100 runs do not exceed, to 86,400 s.
    assert_eq!(window.full_in_days, Some(66));
    let steady = report_job(&seen(&vec![vec![60]; 20]), &fleet(1))
        .window
        .unwrap();
    assert_eq!(steady.full_in_days, None);
    assert_eq!(
        report_job(&seen(&vec![vec![60]; 4]), &fleet(1)).window,
        None
    );
}

#[test]
fn the_end_of_a_month() {
    for (nominal, expected) in [
        ("2026-11-30T02:00:00", Some(true)),
        ("2026-12-01T02:00:00", Some(true)),
        ("2026-12-30T02:00:00", Some(false)),
        ("2028-02-28T02:00:00", Some(false)),
        ("2028-02-29T02:00:00", Some(true)),
        ("soon", None),
    ] {
        assert_eq!(is_month_end(nominal), expected, "{nominal}");
    }
    // The 30th of November and the 1st of December are the 11th and 12th night.
    let mut nights = vec![vec![100]; 15];
    (nights[10], nights[11]) = (vec![300], vec![300]);
    let window = report_job(&seen(&nights), &fleet(1)).window.unwrap();
    assert_eq!(window.month_end, Some(3.0));
}

#[test]
fn the_shard_that_is_slowest_again() {
    let hot = vec![vec![100, 100, 400, 90]; 6];
    let skew = report_job(&seen(&hot), &fleet(1)).skew.unwrap();
    assert_eq!((skew.slowest, skew.hot_shard), (4.0, Some(2)));
    let turns: Vec<Vec<i64>> = (0..6)
        .map(|night| {
            (0..6)
                .map(|shard| if shard == night { 400 } else { 100 })
                .collect()
        })
        .collect();
    let skew = report_job(&seen(&turns), &fleet(1)).skew.unwrap();
    assert_eq!((skew.slowest, skew.hot_shard), (4.0, None));
    assert_eq!(
        report_job(&seen(&vec![vec![1, 9]; 6]), &fleet(1)).skew,
        None
    );
}
