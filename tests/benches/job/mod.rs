//! Jobs as benchmarks have them, and how their attempts end.

use anyhow::{Context, Result};
use jobs::Manifest;
use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit};
use protocol::{DurationMs, WallMs};

pub(crate) fn manifest(name: &str, schedule: &str, shards: u32) -> Result<Manifest> {
    let yaml = format!(
        "name: bench/{name}\npurpose: bench\nowner: bench\n\
         repeatable: {{ safe: true, how: bench }}\n\
         schedule: {{ {schedule}, timezone: Etc/UTC }}\n\
         misfire: {{ policy: skip, after: 60s }}\noverlap: queue\nexpected_duration: 1m\n\
         timeout: 1h\nshards: {shards}\nretry: {{ at_most: 3, backoff: [1s] }}\n\
         run: {{ exec: [\"/bin/true\", \"{{shard}}\"] }}\n"
    );
    jobs::parse_manifests("bench.yaml", &yaml)
        .map_err(|problems| anyhow::anyhow!("{problems:?}"))?
        .pop()
        .context("one manifest")
}

pub(crate) fn success() -> AttemptEnd {
    AttemptEnd {
        outcome: AttemptOutcome::Succeeded,
        exit: Some(Exit::Code(0)),
        started_at: Some(WallMs(1)),
        ended_at: WallMs(2),
        cpu: DurationMs(1),
        memory_bytes_peak: 1 << 20,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: None,
        tail: String::new(),
    }
}
