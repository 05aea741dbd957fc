//! Jobs of every policy, at intervals of seconds: in half an hour they fire as often as four jobs
//! of every minute do in a day.

use anyhow::Result;

use crate::site::Site;
use crate::writers::Writer;

/// By its shard an attempt succeeds, fails once, is killed by itself, leaves a process behind, or
/// prints.
pub(crate) const MIXED: &str = "case $((MATINS_SHARD % 5)) in \
     0) exit 0 ;; \
     1) test $MATINS_ATTEMPT -gt 1 ;; \
     2) test $MATINS_ATTEMPT -gt 1 || kill -9 $$ ;; \
     3) setsid sleep 300 & ;; \
     4) yes | head -c 100000 ;; esac";

/// Its attempts write without a pause, and everything that they write is judged.
pub(crate) struct WriterJob {
    pub(crate) writer: Writer<'static>,
    pub(crate) every_ms: i64,
}

/// A job whose evidence is the ledger's alone.
struct PlainJob {
    name: &'static str,
    every_ms: i64,
    script: &'static str,
    shards: u32,
    retry: &'static str,
    timeout: &'static str,
}

/// Its runs may be there at once, and it has no fence.
pub(crate) const ALLOW: &str = "soak/allow";

/// A second run of it does harm.
pub(crate) const UNSAFE: &str = "soak/unsafe";

/// Shards of one job share it.
pub(crate) const RESOURCE: &str = "soak-db";

pub(crate) fn writers() -> Vec<WriterJob> {
    let of = |every_ms, writer: Writer<'static>| WriterJob { writer, every_ms };
    let light = Writer {
        shards: 1,
        seconds: 0.3,
        ..Writer::of("soak/light")
    };
    vec![
        of(
            3_000,
            Writer {
                name: "soak/queue",
                schedule: "@every 3s",
                shards: 2,
                further: "limits: { pids: 50, memory: 256MiB }\npriority: 80\n",
                ..light.clone()
            },
        ),
        of(
            3_000,
            Writer {
                name: "soak/forbid",
                schedule: "@every 3s",
                overlap: "forbid",
                seconds: 0.5,
                shards: 2,
                ..light.clone()
            },
        ),
        of(
            6_000,
            Writer {
                name: "soak/replace",
                schedule: "@every 6s",
                overlap: "replace",
                seconds: 4.5,
                shards: 2,
                ways: &["stubborn"],
                ..light.clone()
            },
        ),
        of(
            4_000,
            Writer {
                name: ALLOW,
                schedule: "@every 4s",
                overlap: "allow",
                seconds: 5.0,
                ..light.clone()
            },
        ),
        of(
            10_000,
            Writer {
                name: UNSAFE,
                schedule: "@every 10s",
                overlap: "forbid",
                safe: false,
                shards: 2,
                seconds: 1.0,
                further: "serial: strict\n",
                ..light.clone()
            },
        ),
        of(
            7_000,
            Writer {
                name: "soak/daemon",
                schedule: "@every 7s",
                seconds: 1.0,
                ways: &["daemon"],
                ..light.clone()
            },
        ),
        of(
            5_000,
            Writer {
                name: "soak/previous",
                schedule: "@every 5s",
                ways: &["talk"],
                further: "previous: ended\n",
                ..light.clone()
            },
        ),
        of(
            10_000,
            Writer {
                name: "soak/import",
                schedule: "*/10 * * * * ?",
                dialect: "quartz",
                ..light.clone()
            },
        ),
        of(
            10_000,
            Writer {
                name: "soak/report",
                schedule: "*/10 * * * * ?",
                dialect: "quartz",
                start_deadline: "20s",
                further: "after: [{ job: soak/import, match: same_fire }]\n",
                ..light.clone()
            },
        ),
        of(
            3_000,
            Writer {
                name: "soak/late",
                schedule: "@every 3s",
                misfire: "{ policy: run_now, after: 2s }",
                further: "catch_up: { at_most: 2, window: 1m, concurrency: 1 }\n",
                ..light.clone()
            },
        ),
        of(
            3_000,
            Writer {
                name: "soak/skip",
                schedule: "@every 3s",
                misfire: "{ policy: skip, after: 1s }",
                ..light.clone()
            },
        ),
        of(
            4_000,
            Writer {
                name: "soak/shared",
                schedule: "@every 4s",
                shards: 3,
                further: "needs: { uses: { soak-db: 2 } }\n",
                ..light
            },
        ),
    ]
}

const PLAIN: &[PlainJob] = &[
    PlainJob {
        name: "soak/mixed",
        every_ms: 6_000,
        script: MIXED,
        shards: 5,
        retry: "{ at_most: 1, backoff: [100ms] }",
        timeout: "1m",
    },
    PlainJob {
        name: "soak/flood",
        every_ms: 4_000,
        script: "yes | head -c 300000; mkdir -p a/b/c; touch a/1 a/b/2 a/b/c/3",
        shards: 1,
        retry: "{ at_most: 3, backoff: [1s] }",
        timeout: "1m",
    },
    PlainJob {
        name: "soak/slow",
        every_ms: 10_000,
        script: "sleep 30",
        shards: 1,
        retry: "{ at_most: 1, backoff: [1s] }",
        timeout: "2s",
    },
];

impl PlainJob {
    fn manifest(&self) -> String {
        format!(
            "---\nname: {}\npurpose: test\nowner: test\n\
             repeatable: {{ safe: true, how: test }}\n\
             schedule: {{ cron: \"@every {}s\", timezone: Etc/UTC }}\n\
             misfire: {{ policy: run_now, after: 10m }}\noverlap: queue\nstart_deadline: 10m\n\
             expected_duration: 5s\ntimeout: {}\nshards: {}\ntakeover_after: 15s\nretry: {}\n\
             run: {{ exec: [\"/bin/sh\", \"-c\", {:?}] }}\n",
            self.name,
            self.every_ms / 1_000,
            self.timeout,
            self.shards,
            self.retry,
            self.script,
        )
    }
}

/// Puts all of them in force; each with the interval of its fires.
pub(crate) fn apply(site: &Site) -> Result<Vec<(&'static str, i64)>> {
    site.matins(&["resource", "set", RESOURCE, "5"])?;
    let mut all: Vec<_> = PLAIN.iter().map(|job| (job.name, job.every_ms)).collect();
    let mut manifests: String = PLAIN.iter().map(PlainJob::manifest).collect();
    for job in writers() {
        manifests.push_str(&job.writer.manifest(site));
        all.push((job.writer.name, job.every_ms));
    }
    site.apply("soak.yaml", &manifests)?;
    Ok(all)
}

/// A job that comes and goes.
pub(crate) const CHURN: &str = "soak/churn";

pub(crate) fn churn_manifest() -> String {
    PlainJob {
        name: CHURN,
        every_ms: 2_000,
        script: "exit 0",
        shards: 1,
        retry: "{ at_most: 1, backoff: [1s] }",
        timeout: "1m",
    }
    .manifest()
}
