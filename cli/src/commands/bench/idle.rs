//! What a Matins takes that has nothing to do: one host's agent with its supervisor, and a
//! coordinator with many jobs.

use std::thread;
use std::time::{Duration, Instant};

use jobs::Manifest;
use serde_json::json;

use super::site::{Memory, Site, Work};
use super::{print_figures, read, usual};
use crate::args::{BenchSite, Text};
use crate::failure::Failure;
use crate::output::{print_json, talk};

const SLOTS: u32 = 16;

/// What the design gives an agent with its supervisor, and a coordinator with so many jobs. Beside
/// processor time this does not change with what else the machine does, so that more is a fault.
const AGENT_BYTES_MAX: u64 = 15 << 20;
const COORDINATOR_BYTES_MAX: u64 = 300 << 20;
const COORDINATOR_JOBS: u32 = 100_000;

/// What starting has stirred up is left to settle.
const SETTLE: Duration = Duration::from_secs(5);

pub(super) fn idle(options: &BenchSite, jobs: u32, seconds: u32) -> Result<(), Failure> {
    talk(&format!("preparing a ledger with {jobs} jobs"));
    let mut site = Site::prepare(&options.dir, 1)?;
    site.fill((0..jobs).map(manifest).collect(), 0)?;
    let ready = site.start_coordinator()?;
    site.start_agents(1, SLOTS, Work::Run)?;
    talk(&format!("measuring for {seconds} s"));
    thread::sleep(SETTLE);
    let (begun, cpu_begun) = (Instant::now(), site.cpu());
    thread::sleep(Duration::from_secs(seconds.into()));
    let (measured, cpu) = (begun.elapsed().as_secs_f64(), site.cpu());
    let memory = site.memory();
    site.check_alive()?;
    site.stop();

    let percent = |from: f64, until: f64| 100.0 * (until - from) / measured;
    let agent_percent = percent(cpu_begun.agents_s, cpu.agents_s);
    let coordinator_percent = percent(cpu_begun.coordinator_s, cpu.coordinator_s);
    let ready_ms = ready.as_millis() as u64;
    let printed = match options.output {
        Text::Json => print_json(&json!({
            "jobs": jobs,
            "agent_rss_bytes": memory.agents_bytes,
            "agent_cpu_percent": agent_percent,
            "coordinator_rss_bytes": memory.coordinator_bytes,
            "coordinator_cpu_percent": coordinator_percent,
            "ready_ms": ready_ms,
        })),
        Text::Text => print_figures(&[
            ("jobs, none of them due", jobs.to_string()),
            ("coordinator, memory", mib(memory.coordinator_bytes)),
            (
                "coordinator, of one core",
                format!("{coordinator_percent:.2} %"),
            ),
            (
                "coordinator, from start to leading",
                format!("{ready_ms} ms"),
            ),
            ("agent with supervisor, memory", mib(memory.agents_bytes)),
            (
                "agent with supervisor, of one core",
                format!("{agent_percent:.2} %"),
            ),
        ]),
    };
    printed.and_then(|()| judge(&memory, jobs))
}

/// An error where something takes more memory than the design gives it.
fn judge(memory: &Memory, jobs: u32) -> Result<(), Failure> {
    let coordinator_max = (jobs <= COORDINATOR_JOBS).then_some(COORDINATOR_BYTES_MAX);
    let parts = [
        (
            "an agent with its supervisor",
            memory.agents_bytes,
            Some(AGENT_BYTES_MAX),
        ),
        ("the coordinator", memory.coordinator_bytes, coordinator_max),
    ];
    let beyond = parts.into_iter().filter_map(|(what, bytes, max)| {
        max.filter(|&max| bytes > max).map(|max| (what, bytes, max))
    });
    let beyond: Vec<String> = beyond
        .map(|(what, bytes, max)| format!("{what} has {}, and may have {}", mib(bytes), mib(max)))
        .collect();
    if beyond.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(
        "judging the memory that is taken at rest",
        beyond.join("; "),
        "see in `/proc/PID/smaps` what it is: docs/BENCHMARKS.md says where it was",
    ))
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Due some night that is far off, each at a time of its own.
fn manifest(n: u32) -> Manifest {
    let (minute, hour) = (n % 60, n / 60 % 24);
    let schedule = format!("{{ cron: \"{minute} {hour} 29 2 *\", timezone: Asia/Shanghai }}");
    read(&usual(&format!("idle-{n}"), &schedule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_the_design_gives_is_a_fault() {
        for (agent_mib, coordinator_mib, jobs, said) in [
            (15, 300, 100_000, None),
            (
                16,
                300,
                100_000,
                Some("an agent with its supervisor has 16.0 MiB"),
            ),
            (15, 301, 100_000, Some("the coordinator has 301.0 MiB")),
            // Of so many jobs the design does not speak.
            (15, 2_000, 1_000_000, None),
        ] {
            let memory = Memory {
                agents_bytes: agent_mib << 20,
                coordinator_bytes: coordinator_mib << 20,
            };
            match (judge(&memory, jobs), said) {
                (Ok(()), None) => {}
                (Err(Failure::Told(told)), Some(said)) => {
                    assert!(told.why.contains(said), "{told}");
                }
                (judged, said) => panic!("{judged:?}, and not {said:?}"),
            }
        }
    }

    #[test]
    fn the_manifests_are_good() {
        for n in [0, 59, 60, 1439, 1440, 99_999] {
            assert_eq!(manifest(n).shards, jobs::Shards::Fixed(32));
        }
    }
}
