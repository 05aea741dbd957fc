//! What a job declares beside what its runs have used.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use ledger::{AttemptSeen, JobSeen};
use profiles::classes::Classes;
use profiles::learned::{self, AttemptSample, Histogram, HostSize, Sample};
use protocol::attempt::{Counted, Usage};
use protocol::{AgentId, ClassName, HostFacts, WallMs, api};

use super::Api;
use super::error::ApiError;
use super::input::JobPath;
use super::jobs::no_such_job;

/// What a host is that is in no class that says what it is good for.
const UNCLASSIFIED: &str = "unclassified";

/// Of every host: it is named where there is no other.
const GENERAL: &str = "general";

/// A role, which says nothing about how jobs fare.
const COORDINATOR: &str = "coordinator";

/// `GET /api/v1/jobs/{namespace}/{name}/profile`
pub(super) async fn show(
    State(api): State<Api>,
    JobPath(name): JobPath,
) -> Result<Json<api::JobProfile>, ApiError> {
    let what = format!("showing what job {name} uses");
    let classes = Arc::clone(&api.classes.classes);
    let wanted = name.clone();
    // Learned on the reader's thread: twenty thousand attempts are milliseconds of arithmetic.
    let read = move |reader: &ledger::Reader| {
        let seen = reader.seen(&wanted)?;
        Ok(seen.map(|seen| profile(&seen, &classes)))
    };
    match api.readers.read(&what, read).await? {
        Some(profile) => Ok(Json(profile)),
        None => Err(no_such_job(what, &name)),
    }
}

fn profile(seen: &JobSeen, classes: &Classes) -> api::JobProfile {
    let limits = &seen.manifest.limits;
    let needs = &seen.manifest.needs;
    let declared = api::Declared {
        memory_limit_bytes: limits.memory_bytes,
        memory_needed_bytes: needs.memory_bytes,
        cpu_needed_milli: needs.cpu_milli,
        expected_duration_ms: seen.manifest.expected_duration.0,
        timeout_ms: seen.manifest.timeout.0,
        retries_at_most: seen.manifest.retry_at_most,
    };
    let kinds = kinds_of_hosts(seen, classes);
    let mut samples: BTreeMap<&str, (WallMs, Vec<Sample>)> = BTreeMap::new();
    for run in &seen.runs {
        let mut of_run: BTreeMap<&str, Vec<&AttemptSeen>> = BTreeMap::new();
        for attempt in &run.attempts {
            let kind = kinds.get(&attempt.agent_id);
            let kind = kind.map_or(UNCLASSIFIED, String::as_str);
            of_run.entry(kind).or_default().push(attempt);
        }
        for (kind, attempts) in of_run {
            let (newest, of_kind) = samples.entry(kind).or_insert((run.ended_at, Vec::new()));
            *newest = run.ended_at;
            of_kind.push(sample(&attempts, run.succeeded, seen));
        }
    }
    let mut observed: Vec<(WallMs, api::Observed)> = samples
        .into_iter()
        .map(|(kind, (newest, samples))| {
            let profile = learned::JobProfile::learn(&samples);
            (newest, show_observed(kind, &profile, declared))
        })
        .collect();
    observed.sort_by_key(|(newest, _)| Reverse(*newest));
    api::JobProfile {
        job: seen.job.clone(),
        version: seen.version,
        declared,
        observed: observed.into_iter().map(|(_, observed)| observed).collect(),
    }
}

/// By what a host is today: what it was when it ran the job is not kept.
fn kinds_of_hosts(seen: &JobSeen, classes: &Classes) -> BTreeMap<AgentId, String> {
    let kind = |facts: &HostFacts| {
        if let Some(class) = &seen.manifest.needs.class {
            return class.to_string();
        }
        let membership = classes.of(facts);
        let of_jobs = membership.classes().map(ClassName::as_str);
        let (common, telling): (Vec<&str>, Vec<&str>) = of_jobs
            .filter(|name| *name != COORDINATOR)
            .partition(|name| *name == GENERAL);
        match (telling.is_empty(), common.is_empty()) {
            (false, _) => telling.join(", "),
            (true, false) => GENERAL.to_owned(),
            (true, true) => UNCLASSIFIED.to_owned(),
        }
    };
    let hosts = seen.hosts.iter();
    hosts.map(|(agent, facts)| (*agent, kind(facts))).collect()
}

fn sample(attempts: &[&AttemptSeen], succeeded: bool, seen: &JobSeen) -> Sample {
    let begun = attempts.iter().map(|a| a.started_at).min();
    let ended = attempts.iter().map(|a| a.ended_at).max();
    let wall = begun.zip(ended).filter(|_| succeeded);
    let of_attempt = |attempt: &&AttemptSeen| AttemptSample {
        shard: attempt.shard,
        outcome: attempt.outcome,
        wall_ms: milliseconds((attempt.ended_at - attempt.started_at).0),
        cpu_ms: milliseconds(attempt.cpu.0),
        memory_bytes_peak: attempt.memory_bytes_peak,
        memory_limit_bytes: seen
            .manifest
            .limits
            .memory_bytes
            .filter(|_| attempt.memory_was_limited),
        out_of_memory: attempt.out_of_memory,
        // Of an older supervisor: nobody knows what it counted.
        usage: attempt.usage.clone().unwrap_or_else(|| Usage {
            partial: Counted::ALL.to_vec(),
            ..Usage::default()
        }),
        host: seen
            .hosts
            .get(&attempt.agent_id)
            .map(HostSize::of)
            .unwrap_or_default(),
    };
    Sample {
        wall_ms: wall.map(|(begun, ended)| milliseconds((ended - begun).0)),
        attempts: attempts.iter().map(of_attempt).collect(),
    }
}

/// A wall clock can be set back under an attempt.
fn milliseconds(length: i64) -> u64 {
    u64::try_from(length).unwrap_or(0)
}

fn show_observed(
    kind: &str,
    profile: &learned::JobProfile,
    declared: api::Declared,
) -> api::Observed {
    let counts = profile.counts;
    let ratios = profile.ratios();
    let asked = declared.memory_limit_bytes.or(declared.memory_needed_bytes);
    let advice = profile.memory_advice(asked);
    api::Observed {
        hosts: kind.to_owned(),
        runs: counts.runs,
        attempts: counts.attempts,
        retries: counts.retries,
        failed: counts.failed,
        timed_out: counts.timed_out,
        out_of_memory: counts.out_of_memory,
        partial: profile.partial(),
        bound: profile.bound().map(|bound| bound.as_str().to_owned()),
        ratios: api::ObservedRatios {
            cpu_milli: ratios.cpu_milli,
            memory_share_milli: ratios.memory_share_milli,
            memory_stall_milli: ratios.memory_stall_milli,
            io_stall_milli: ratios.io_stall_milli,
            io_share_milli: ratios.io_share_milli,
        },
        memory_bytes: spread(&profile.memory_bytes),
        cpu_milli: spread(&profile.cpu_milli),
        shard_cpu_ms: spread(&profile.shard_cpu_ms),
        shard_ms: spread(&profile.shard_ms),
        run_ms: spread(&profile.run_ms),
        io_bytes_per_s: spread(&profile.io_bytes_per_s),
        io_operations_per_s: spread(&profile.io_operations_per_s),
        skew_milli: spread(&profile.skew_milli),
        slowest_shards: profile.slowest_shards().collect(),
        memory_advice: advice.as_ref().ok().copied(),
        cpu_advice_milli: profile.cpu_advice_milli(false).ok(),
        no_advice: advice.err().map(|why| why.to_string()),
    }
}

fn spread(values: &Histogram) -> Option<api::Spread> {
    Some(api::Spread {
        runs: values.runs(),
        mean: values.mean()?,
        p50: values.percentile(50)?,
        p95: values.percentile(95)?,
        p98: values.percentile(98)?,
        max: values.max()?,
        buckets: values.buckets().collect(),
    })
}

#[cfg(test)]
mod tests {
    use ::jobs::parse_manifests;
    use ledger::RunSeen;
    use protocol::attempt::AttemptOutcome;
    use protocol::host::Value;
    use protocol::{DurationMs, RunId};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn seen(needs: &str, runs: Vec<RunSeen>) -> JobSeen {
        let text = format!(
            "name: t/a\npurpose: p\nowner: o\nschedule: {{ cron: '@every 1m', timezone: UTC }}\n\
             repeatable: {{ safe: true, how: h }}\nexpected_duration: 1m\ntimeout: 2m\n\
             misfire: {{ policy: skip, after: 1m }}\noverlap: forbid\n\
             limits: {{ memory: 1GiB }}\n{needs}run: {{ exec: [/bin/true] }}\n"
        );
        let parsed = parse_manifests("t.yaml", &text);
        let mut manifests = parsed.unwrap_or_else(|problems| panic!("{problems:?}"));
        let mut large = HostFacts::default();
        large.know("cpu.usable_milli", Value::Number(32_000));
        JobSeen {
            job: "t/a".parse().unwrap(),
            version: 3,
            manifest: manifests.remove(0),
            runs,
            hosts: BTreeMap::from([(AgentId(1), large), (AgentId(2), HostFacts::default())]),
        }
    }

    fn run(id: i64, agents: &[i64]) -> RunSeen {
        let attempt = |(shard, agent): (usize, &i64)| AttemptSeen {
            agent_id: AgentId(*agent),
            shard: u32::try_from(shard).unwrap(),
            outcome: AttemptOutcome::Succeeded,
            started_at: WallMs(id * 1_000_000),
            ended_at: WallMs(id * 1_000_000 + 4_000),
            cpu: DurationMs(3_000),
            memory_bytes_peak: 100 * MIB,
            out_of_memory: false,
            memory_was_limited: true,
            usage: (id > 1).then(Usage::default),
        };
        RunSeen {
            run_id: RunId(id),
            succeeded: true,
            ended_at: WallMs(id * 1_000_000 + 4_000),
            attempts: agents.iter().enumerate().map(attempt).collect(),
        }
    }

    #[test]
    fn what_is_declared_and_what_is_seen_stand_side_by_side() {
        let runs = (1..=7).map(|id| run(id, &[1, 1])).collect();
        let shown = profile(&seen("needs: { class: io }\n", runs), &Classes::built_in());
        assert_eq!(shown.declared.memory_limit_bytes, Some(1024 * MIB));
        let [observed] = &shown.observed[..] else {
            panic!("{shown:?}");
        };
        assert_eq!((observed.hosts.as_str(), observed.runs), ("io", 7));
        assert_eq!(observed.bound.as_deref(), Some("cpu"));
        assert_eq!(observed.ratios.cpu_milli, Some(750));
        assert_eq!(
            observed.partial,
            [],
            "the first run is none of the newest five"
        );
        let advice = observed.memory_advice.unwrap();
        assert_eq!(advice.bytes, 820 * MIB, "a fifth less than is declared");
        assert!(advice.falls_by_steps);
        assert_eq!(observed.run_ms.as_ref().unwrap().max, 4_000);
    }

    #[test]
    fn hosts_of_two_kinds_are_told_apart() {
        let runs = vec![run(1, &[1, 2]), run(2, &[2])];
        let shown = profile(&seen("", runs), &Classes::built_in());
        let of_kinds: Vec<(&str, u32)> = shown
            .observed
            .iter()
            .map(|o| (o.hosts.as_str(), o.runs))
            .collect();
        assert_eq!(of_kinds, [("general", 2), ("cpu", 1)]);
        let why = shown.observed[0].no_advice.as_deref();
        assert_eq!(why, Some("too few runs (2 of 5)"));
    }
}
