use proptest::prelude::*;
use protocol::api::{MemoryAdvice, SlowestShard};
use protocol::attempt::{AttemptOutcome, Counted, Usage};

use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn attempt() -> AttemptSample {
    AttemptSample {
        shard: 0,
        outcome: AttemptOutcome::Succeeded,
        wall_ms: 10_000,
        cpu_ms: 5_000,
        memory_bytes_peak: 100 * MIB,
        memory_limit_bytes: None,
        out_of_memory: false,
        usage: Usage::default(),
        host: HostSize {
            cpu_milli: Some(8_000),
            memory_bytes: Some(16 * GIB),
            random_write_iops: Some(1_000),
        },
    }
}

fn run(attempts: &[AttemptSample]) -> Sample {
    Sample {
        wall_ms: Some(10_000),
        attempts: attempts.to_vec(),
    }
}

fn of_memory(bytes: u64) -> Sample {
    run(&[AttemptSample {
        memory_bytes_peak: bytes,
        ..attempt()
    }])
}

fn exhausted(limit: u64) -> Sample {
    run(&[AttemptSample {
        outcome: AttemptOutcome::Failed,
        // The kernel counts pages, and kills before the last of them.
        memory_bytes_peak: limit - 4_096,
        memory_limit_bytes: Some(limit),
        out_of_memory: true,
        ..attempt()
    }])
}

fn advised(samples: &[Sample], declared: Option<u64>) -> Result<u64, String> {
    let profile = JobProfile::learn(samples);
    let advice = profile.memory_advice(declared);
    advice.map(|a| a.bytes / MIB).map_err(|why| why.to_string())
}

#[test]
fn memory_is_advised_by_what_was_seen() {
    let mib = |bytes: u64| of_memory(bytes * MIB);
    let usual = vec![mib(100); 20];
    let with = |more: &[Sample]| [usual.as_slice(), more].concat();
    for (what, samples, declared, expected) in [
        ("nothing", vec![], None, Err("too few runs (0 of 5)")),
        ("few", vec![mib(100); 4], None, Err("too few runs (4 of 5)")),
        ("five", vec![mib(100); 5], None, Ok(150)),
        (
            "a peak among the newest",
            with(&[mib(400), mib(100)]),
            None,
            Ok(600),
        ),
        (
            // One of 28 runs is more than two of a hundred: the percentile still knows it.
            "a peak a few runs ago",
            with(&[vec![mib(400)], vec![mib(100); 7]].concat()),
            None,
            Ok(600),
        ),
        (
            "a peak long ago",
            with(&[vec![mib(400)], vec![mib(100); 60]].concat()),
            None,
            // Up to the edge of a bucket.
            Ok(151),
        ),
        (
            "a manifest that asks for more",
            usual.clone(),
            Some(1000),
            Ok(800),
        ),
        (
            "a manifest that asks for a little more",
            usual.clone(),
            Some(160),
            Ok(150),
        ),
        (
            "a manifest that asks for less",
            usual.clone(),
            Some(50),
            Ok(150),
        ),
        (
            "exhausted in the first run",
            vec![exhausted(200 * MIB)],
            None,
            Ok(300),
        ),
        (
            "exhausted at 1,000",
            vec![exhausted(1000 * MIB)],
            None,
            Ok(1200),
        ),
        (
            "exhausted a little above",
            with(&[exhausted(120 * MIB)]),
            None,
            Ok(220),
        ),
        (
            "exhausted, of many",
            with(&[exhausted(1000 * MIB)]),
            None,
            Ok(1500),
        ),
        (
            "exhausted long ago",
            [vec![exhausted(1000 * MIB)], vec![mib(100); 60]].concat(),
            None,
            Ok(151),
        ),
        (
            "no peak known",
            vec![of_memory(0); 9],
            None,
            Err("too few runs (0 of 5)"),
        ),
    ] {
        let declared = declared.map(|mib: u64| mib * MIB);
        let expected = expected.map_err(str::to_owned);
        assert_eq!(advised(&samples, declared), expected, "{what}");
    }
}

#[test]
fn an_advice_says_what_it_follows_from() {
    let mut samples = vec![of_memory(100 * MIB); 6];
    samples[5].attempts[0].usage = Usage {
        memory_cache_bytes: Some(30 * MIB),
        partial: vec![Counted::Memory],
        ..Usage::default()
    };
    let advice = JobProfile::learn(&samples)
        .memory_advice(Some(GIB))
        .unwrap();
    let expected = MemoryAdvice {
        bytes: 820 * MIB,
        p98_bytes: 100 * MIB,
        recent_max_bytes: 100 * MIB,
        exhausted_at_bytes: None,
        falls_by_steps: true,
        partial: true,
        cache_bytes: Some(30 * MIB),
    };
    assert_eq!(advice, expected);
}

#[test]
fn what_holds_a_job_back() {
    let usage = |io: u64, memory: u64, operations: u64| Usage {
        stall_io_ms: Some(io),
        stall_memory_full_ms: Some(memory),
        read_operations: Some(operations),
        write_operations: Some(0),
        ..Usage::default()
    };
    for (what, cpu_ms, bytes, usage, cpu_milli, expected) in [
        ("computes", 9_800, MIB, usage(0, 0, 0), 8_000, Bound::Cpu),
        (
            "computes on many threads",
            40_000,
            MIB,
            usage(0, 0, 0),
            8_000,
            Bound::Cpu,
        ),
        (
            "computes just enough",
            7_000,
            MIB,
            usage(0, 0, 0),
            8_000,
            Bound::Cpu,
        ),
        (
            "computes a little less",
            6_999,
            MIB,
            usage(0, 0, 0),
            8_000,
            Bound::Mixed,
        ),
        (
            "has half a processor",
            3_500,
            MIB,
            usage(0, 0, 0),
            500,
            Bound::Cpu,
        ),
        (
            "waits for disks",
            9_000,
            MIB,
            usage(2_000, 0, 0),
            8_000,
            Bound::Io,
        ),
        (
            "waits a little less",
            9_000,
            MIB,
            usage(1_999, 0, 0),
            8_000,
            Bound::Cpu,
        ),
        (
            "asks much of a disk",
            2_999,
            MIB,
            usage(0, 0, 3_000),
            8_000,
            Bound::Io,
        ),
        (
            "asks a little less",
            2_999,
            MIB,
            usage(0, 0, 2_999),
            8_000,
            Bound::Mixed,
        ),
        (
            "asks much and computes",
            3_000,
            MIB,
            usage(0, 0, 3_000),
            8_000,
            Bound::Mixed,
        ),
        // The host has 2 GiB for each processor.
        (
            "is large",
            9_000,
            3 * GIB + MIB * 4,
            usage(0, 0, 0),
            8_000,
            Bound::Memory,
        ),
        (
            "is less large",
            9_000,
            3 * GIB,
            usage(0, 0, 0),
            8_000,
            Bound::Cpu,
        ),
        (
            "is large on two",
            20_000,
            5 * GIB,
            usage(0, 0, 0),
            8_000,
            Bound::Cpu,
        ),
        (
            "waits for memory",
            9_000,
            MIB,
            usage(0, 100, 0),
            8_000,
            Bound::Memory,
        ),
        ("sleeps", 10, MIB, usage(0, 0, 0), 8_000, Bound::Mixed),
        (
            "is of an old host",
            10,
            MIB,
            Usage::default(),
            8_000,
            Bound::Mixed,
        ),
    ] {
        let sample = run(&[AttemptSample {
            cpu_ms,
            memory_bytes_peak: bytes,
            usage,
            host: HostSize {
                cpu_milli: Some(cpu_milli),
                ..attempt().host
            },
            ..attempt()
        }]);
        let profile = JobProfile::learn(&[sample]);
        assert_eq!(
            profile.bound(),
            Some(expected),
            "{what}: {:?}",
            profile.ratios()
        );
    }
    assert_eq!(JobProfile::default().bound(), None);
    let exhausted = JobProfile::learn(&[exhausted(GIB)]);
    assert_eq!(exhausted.bound(), Some(Bound::Memory));
}

#[test]
fn cache_that_is_left_makes_no_job_large() {
    let mut reader = of_memory(8 * GIB);
    reader.attempts[0].usage.memory_cache_bytes = Some(7 * GIB);
    let profile = JobProfile::learn(&[reader]);
    assert_eq!(profile.ratios().memory_share_milli, Some(500));
    assert_eq!(profile.bound(), Some(Bound::Mixed));
}

#[test]
fn a_run_of_many_shards_is_one_sample() {
    let shard = |shard, wall_ms, bytes| AttemptSample {
        shard,
        wall_ms,
        cpu_ms: wall_ms / 2,
        memory_bytes_peak: bytes,
        ..attempt()
    };
    let failed = AttemptSample {
        outcome: AttemptOutcome::Failed,
        ..shard(2, 10, 900 * MIB)
    };
    let refused = AttemptSample {
        outcome: AttemptOutcome::Refused,
        ..shard(1, 99_000, 9 * GIB)
    };
    let sample = run(&[
        shard(0, 1_000, MIB),
        shard(1, 1_000, MIB),
        failed,
        refused.clone(),
        shard(2, 5_000, 500 * MIB),
    ]);
    let profile = JobProfile::learn(&[sample]);
    assert_eq!(
        profile.memory_bytes.max(),
        Some(900 * MIB),
        "of any attempt"
    );
    assert_eq!(profile.shard_ms.runs(), 1);
    assert_eq!(profile.shard_ms.max(), Some(5_000));
    assert_eq!(profile.shard_ms.percentile(50), Some(1_012), "two of three");
    assert_eq!(profile.run_ms.max(), Some(10_000));
    assert_eq!(profile.cpu_milli.max(), Some(500));
    let slowest = SlowestShard {
        shard: 2,
        milli: 5_000,
    };
    assert_eq!(profile.slowest_shards().collect::<Vec<_>>(), [slowest]);
    let counts = Counts {
        runs: 1,
        attempts: 4,
        retries: 1,
        failed: 1,
        timed_out: 0,
        out_of_memory: 0,
    };
    assert_eq!(profile.counts, counts);
    // Nothing of it ran.
    assert_eq!(JobProfile::learn(&[run(&[refused])]), JobProfile::default());
}

#[test]
fn processors_are_advised_by_their_mean_or_by_the_hour() {
    let mut samples = vec![run(&[attempt()]); 9];
    for sample in &mut samples[7..] {
        sample.attempts[0].cpu_ms = 20_000;
    }
    let profile = JobProfile::learn(&samples);
    let mean = profile.cpu_advice_milli(false).unwrap();
    // Two of nine at 2,000 and seven at 500; the newer ones weigh more.
    assert!((833..=1_000).contains(&mean), "{mean}");
    assert_eq!(profile.cpu_advice_milli(true), Ok(2_000));
    let few = JobProfile::learn(&samples[..3]).cpu_advice_milli(true);
    assert_eq!(few, Err(NoAdvice::TooFewRuns { runs: 3, needed: 5 }));
}

#[test]
fn a_profile_is_kept_as_text() {
    let samples = vec![of_memory(123 * MIB), exhausted(GIB)];
    let profile = JobProfile::learn(&samples);
    let text = serde_json::to_string(&profile).unwrap();
    let again: JobProfile = serde_json::from_str(&text).unwrap();
    assert_eq!(again, profile);
}

/// The rule once more, with real numbers and all values at hand: each weighs half as much as one ten runs
/// later.
fn percentile_of(runs: &[Vec<u64>], percent: f64) -> u64 {
    let mut values: Vec<(u64, f64)> = Vec::new();
    for (age, run) in runs.iter().rev().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "few runs")]
        let weight = 0.5_f64.powf(age as f64 / 10.0) / run.len() as f64;
        values.extend(run.iter().map(|value| (*value, weight)));
    }
    values.sort_by_key(|(value, _)| *value);
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in &values {
        below += weight;
        if below >= total * percent / 100.0 {
            return *value;
        }
    }
    values.last().map_or(0, |(value, _)| *value)
}

fn runs() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let value = prop_oneof![0_u64..50, 1_u64 << 20..1 << 36, any::<u64>()];
    proptest::collection::vec(proptest::collection::vec(value, 1..6), 1..300)
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_values(runs in runs(), percent in 1_u32..=100) {
        let mut histogram = Histogram::default();
        for run in &runs {
            histogram.observe(run);
        }
        let found = histogram.percentile(percent).unwrap();
        // Weights are rounded, and what is very old is dropped: a hair's breadth to either side.
        let low = percentile_of(&runs, f64::from(percent) - 0.1);
        let high = percentile_of(&runs, f64::from(percent) + 0.1);
        prop_assert!(found >= low, "{found} is below {low}");
        let upper = u128::from(high) + u128::from(high) / 20 + 1;
        prop_assert!(u128::from(found) <= upper, "{found} is above {high}");
        prop_assert!(found <= runs.iter().flatten().copied().max().unwrap());
    }

    #[test]
    fn advice_is_never_below_what_was_seen_lately(
        peaks in proptest::collection::vec((1_u64..1 << 40, 0_u8..8), 1..60),
        declared in proptest::option::of(1_u64..1 << 42),
    ) {
        let samples: Vec<Sample> = peaks
            .iter()
            .map(|&(bytes, kind)| if kind == 0 { exhausted(bytes + 4_096) } else { of_memory(bytes) })
            .collect();
        let profile = JobProfile::learn(&samples);
        match profile.memory_advice(declared) {
            Err(_) => {
                prop_assert!(peaks.len() < 5 && peaks.iter().all(|(_, kind)| *kind > 0));
            }
            Ok(advice) => {
                let newest = &peaks[peaks.len().saturating_sub(5)..];
                for &(bytes, kind) in newest {
                    let least = if kind == 0 { (bytes + 100 * MIB).max(bytes / 5 * 6) } else { bytes };
                    prop_assert!(advice.bytes >= least);
                    if peaks.len() >= 5 {
                        prop_assert!(advice.bytes >= bytes / 2 * 3);
                    }
                }
                if let Some(declared) = declared {
                    prop_assert!(u128::from(advice.bytes) * 5 + 5 >= u128::from(declared) * 4);
                }
            }
        }
    }
}
