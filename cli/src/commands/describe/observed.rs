//! What a job declares against what its runs have used, for people.

use std::fmt::Write;

use protocol::DurationMs;
use protocol::api::{Declared, JobProfile, MemoryAdvice, Observed, Spread};

use super::Facts;
use crate::amounts::{rough, size};
use crate::text::count;

/// Runs below which what was seen is told with a word of caution.
const RUNS_OF_NOTE: u32 = 5;

/// A paragraph for each kind of hosts that ran it.
pub(super) fn show(profile: &JobProfile) -> String {
    let mut text = String::new();
    if profile.observed.is_empty() {
        let none = format!(
            "OBSERVED: no run of version {} has ended yet",
            profile.version
        );
        let _ = write!(text, "\n{none}\n");
    }
    for observed in &profile.observed {
        text.push('\n');
        text.push_str(&show_one(observed, profile.declared));
    }
    text
}

fn show_one(observed: &Observed, declared: Declared) -> String {
    let mut facts = Facts::under(&format!(
        "OBSERVED on {} hosts: {}, {}{}",
        observed.hosts,
        count(observed.runs.into(), "run"),
        count(observed.attempts.into(), "attempt"),
        caution(observed)
    ));
    facts.add("memory", &memory(observed, declared));
    if let Some(advice) = &observed.memory_advice {
        facts.add("", &advised(advice));
    } else if let Some(why) = observed.no_advice.as_ref().filter(|_| !is_new(observed)) {
        facts.add("", &format!("no advice: {why}"));
    }
    if let Some(cpu) = &observed.cpu_milli {
        facts.add("processors", &processors(cpu, observed, declared));
    }
    if let Some(duration) = &observed.shard_ms {
        let of = format!(
            "{}; an attempt is ended after {}",
            duration_of(duration),
            length(declared.timeout_ms)
        );
        facts.add("a shard", &of);
    }
    if let Some(duration) = &observed.run_ms {
        let of = format!(
            "{}; {} expected",
            duration_of(duration),
            length(declared.expected_duration_ms)
        );
        facts.add("a run", &of);
    }
    if let Some(slowest) = observed.slowest_shards.last() {
        let times = tenths(slowest.milli);
        let text = format!(
            "shard {} of the last run took {times} times the median one",
            slowest.shard
        );
        facts.add("slowest", &text);
    }
    if let Some(bytes) = &observed.io_bytes_per_s {
        facts.add(
            "disks",
            &format!("{} a second on average", size(bytes.mean)),
        );
    }
    if let Some(bound) = &observed.bound {
        facts.add("held back by", &format!("{bound}: {}", ratios(observed)));
    }
    facts.add("ends", &ends(observed, declared));
    if !observed.partial.is_empty() {
        let of: Vec<&str> = observed.partial.iter().map(|c| c.as_str()).collect();
        let text = format!(
            "{}, counted for a part of the processes only: the truth is more",
            of.join(", ")
        );
        facts.add("in part", &text);
    }
    facts.text
}

fn is_new(observed: &Observed) -> bool {
    observed.runs < RUNS_OF_NOTE
}

/// `; too few runs (3 of 5)`.
fn caution(observed: &Observed) -> String {
    match &observed.no_advice {
        Some(why) if is_new(observed) => format!("; {why} for advice"),
        _ if is_new(observed) => "; few to go by".to_owned(),
        _ => String::new(),
    }
}

fn memory(observed: &Observed, declared: Declared) -> String {
    let seen = match &observed.memory_bytes {
        None => "not measured".to_owned(),
        Some(peak) => format!(
            "98 of 100 runs within {}, at most {}",
            size(peak.p98),
            size(peak.max)
        ),
    };
    let mut said = vec![seen];
    match declared.memory_limit_bytes {
        Some(limit) => said.push(format!("limit {}", size(limit))),
        None => said.push("no limit".to_owned()),
    }
    said.extend(
        declared
            .memory_needed_bytes
            .map(|needed| format!("{} set aside", size(needed))),
    );
    said.join("; ")
}

fn advised(advice: &MemoryAdvice) -> String {
    let mut text = format!("advised: {}", size(advice.bytes));
    if let Some(at) = advice.exhausted_at_bytes {
        let _ = write!(text, ", for {} were not enough", size(at));
    } else if advice.falls_by_steps {
        text.push_str(", a fifth less than now; less would do, in steps");
    }
    if let Some(cache) = advice
        .cache_bytes
        .filter(|c| *c > advice.recent_max_bytes / 4)
    {
        let _ = write!(
            text,
            "; up to {} of the peaks was cache, which less memory makes smaller",
            size(cache)
        );
    }
    text
}

fn processors(cpu: &Spread, observed: &Observed, declared: Declared) -> String {
    let mut text = format!(
        "{} on average, in 95 of 100 runs within {}",
        hundredths(cpu.mean),
        hundredths(cpu.p95)
    );
    match declared.cpu_needed_milli {
        Some(milli) => {
            let _ = write!(text, "; {} set aside", hundredths(milli.into()));
        }
        None => text.push_str("; none set aside"),
    }
    if let Some(milli) = observed.cpu_advice_milli {
        let _ = write!(text, ", advised: {}", hundredths(milli));
    }
    text
}

fn duration_of(spread: &Spread) -> String {
    let of = |ms: u64| length(i64::try_from(ms).unwrap_or(i64::MAX));
    format!(
        "half within {}, 95 of 100 within {}, at most {}",
        of(spread.p50),
        of(spread.p95),
        of(spread.max)
    )
}

fn length(ms: i64) -> String {
    rough(DurationMs(ms))
}

/// What the word rests on, told for each, and what was not counted.
fn ratios(observed: &Observed) -> String {
    let ratios = &observed.ratios;
    let percent = |milli: Option<u64>| match milli {
        Some(milli) => format!("{} % of the time", tenths(milli * 100)),
        None => "not counted".to_owned(),
    };
    let share = match ratios.memory_share_milli {
        Some(milli) => format!("{} times its share of memory", hundredths(milli)),
        None => "its share of memory not known".to_owned(),
    };
    format!(
        "waits for disks {}; for memory {}, takes {share}; {} processors used",
        percent(ratios.io_stall_milli),
        percent(ratios.memory_stall_milli),
        ratios
            .cpu_milli
            .map_or_else(|| "unknown".to_owned(), hundredths),
    )
}

fn ends(observed: &Observed, declared: Declared) -> String {
    let mut said = vec![format!("{} failed", observed.failed)];
    said.push(format!("{} timed out", observed.timed_out));
    said.push(format!("{} out of memory", observed.out_of_memory));
    said.push(format!(
        "{} made again (at most {} per shard)",
        count(observed.retries.into(), "attempt"),
        declared.retries_at_most
    ));
    said.join(", ")
}

/// Of thousandths, `0.87`.
fn hundredths(milli: u64) -> String {
    let hundredths = (milli + 5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Of thousandths, `3.4`.
fn tenths(milli: u64) -> String {
    let tenths = (milli + 50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_told_at_80_columns() {
        let profile: JobProfile =
            serde_json::from_str(include_str!("sample_profile.json")).unwrap();
        let text = show(&profile);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for told in [
            "OBSERVED on io hosts: 41 runs, 1330 attempts memory",
            "98 of 100 runs within 222.2 MiB, at most 228.9 MiB; limit 1.0 GiB",
            "advised: 820.0 MiB, a fifth less than now; less would do, in steps; up to 171.7 MiB of the peaks was cache",
            "0.41 on average, in 95 of 100 runs within 0.52; 0.50 set aside, advised: 0.41",
            "half within 2m05s, 95 of 100 within 5m00s, at most 7m00s; an attempt is ended after 15m00s",
            "at most 31m40s; 40m00s expected",
            "shard 7 of the last run took 3.4 times the median one",
            "disks 30.0 MiB a second on average",
            "io: waits for disks 37.7 % of the time; for memory 0.0 % of the time, takes 0.24 times its share of memory; 0.41 processors used",
            "17 failed, 1 timed out, 0 out of memory, 18 attempts made again (at most 3 per shard)",
            "io, counted for a part of the processes only: the truth is more",
            "OBSERVED on general hosts: 3 runs, 4 attempts; too few runs (3 of 5) for advice",
            "mixed: waits for disks not counted; for memory not counted, takes its share of memory not known; 0.30 processors used",
        ] {
            assert!(words.contains(told), "{told}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_job_that_has_never_run_has_nothing_to_tell() {
        let mut profile: JobProfile =
            serde_json::from_str(include_str!("sample_profile.json")).unwrap();
        profile.observed.clear();
        assert_eq!(
            show(&profile),
            "\nOBSERVED: no run of version 3 has ended yet\n"
        );
    }

    #[test]
    fn thousandths_for_people() {
        for (milli, of_100, of_10) in [
            (0, "0.00", "0.0"),
            (994, "0.99", "1.0"),
            (995, "1.00", "1.0"),
            (12_340, "12.34", "12.3"),
        ] {
            assert_eq!(
                (hundredths(milli).as_str(), tenths(milli).as_str()),
                (of_100, of_10)
            );
        }
    }
}
