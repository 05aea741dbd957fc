//! The one form in which a manifest is kept: its own, every default written out.

use std::collections::{BTreeMap, BTreeSet};

use protocol::attempt::Limits;
use protocol::{ClassName, DurationMs, JobName, Label, ResourceName};
use serde::{Serialize, Serializer};

use super::policy::{
    After, Begins, MisfirePolicy, Needs, Overlap, Previous, Serial, Shards, Which,
};
use super::{Manifest, Params};
use crate::schedule::ScheduleSpec;
use crate::size::show_size;

#[derive(Serialize)]
struct Canonical<'a> {
    name: &'a JobName,
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed_from: Option<&'a JobName>,
    purpose: &'a str,
    owner: &'a str,
    repeatable: CanonicalRepeatable<'a>,
    schedule: &'a ScheduleSpec,
    misfire: CanonicalMisfire,
    /// Not beside `policy: skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<CanonicalCatchUp>,
    overlap: Overlap,
    serial: Serial,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Previous>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<CanonicalAfter<'a>>,
    expected_duration: String,
    timeout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_deadline: Option<String>,
    shards: CanonicalShards,
    retry: CanonicalRetry,
    takeover_after: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<CanonicalNeeds<'a>>,
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<CanonicalLimits>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    params: &'a Params,
    begins: Begins,
    run: CanonicalRun<'a>,
}

#[derive(Serialize)]
struct CanonicalRepeatable<'a> {
    safe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<&'a str>,
}

#[derive(Serialize)]
struct CanonicalMisfire {
    policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    after: String,
}

#[derive(Serialize)]
struct CanonicalCatchUp {
    at_most: u32,
    window: String,
    concurrency: u32,
}

#[derive(Serialize)]
struct CanonicalAfter<'a> {
    job: &'a JobName,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    which: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_within: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CanonicalShards {
    Fixed(u32),
    Sized { of: String, target: String },
}

#[derive(Serialize)]
struct CanonicalNeeds<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a ClassName>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: &'a BTreeSet<Label>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    uses: &'a BTreeMap<ResourceName, u32>,
}

#[derive(Serialize)]
struct CanonicalRetry {
    at_most: u32,
    backoff: Vec<String>,
}

#[derive(Serialize)]
struct CanonicalLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_weight: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io_weight: Option<u16>,
}

#[derive(Serialize)]
struct CanonicalRun<'a> {
    exec: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (policy, within) = match self.misfire.policy {
            MisfirePolicy::RunNow => ("run_now", None),
            MisfirePolicy::Skip => ("skip", None),
            MisfirePolicy::Within(within) => ("within", Some(within.to_string())),
        };
        Canonical {
            name: &self.name,
            renamed_from: self.renamed_from.as_ref(),
            purpose: &self.purpose,
            owner: &self.owner,
            repeatable: CanonicalRepeatable {
                safe: self.safe,
                how: self.how.as_deref(),
            },
            schedule: self.schedule.spec(),
            misfire: CanonicalMisfire {
                policy,
                within,
                after: self.misfire.after.to_string(),
            },
            catch_up: (self.misfire.policy != MisfirePolicy::Skip).then(|| CanonicalCatchUp {
                at_most: self.catch_up.at_most,
                window: self.catch_up.window.to_string(),
                concurrency: self.catch_up.concurrency,
            }),
            overlap: self.overlap,
            serial: self.serial,
            previous: self.previous,
            after: self.after.iter().map(canonical_after).collect(),
            expected_duration: self.expected_duration.to_string(),
            timeout: self.timeout.to_string(),
            start_deadline: self.start_deadline.map(|deadline| deadline.to_string()),
            shards: match self.shards {
                Shards::Fixed(shards) => CanonicalShards::Fixed(shards),
                Shards::Sized { of, target } => CanonicalShards::Sized {
                    of: of.to_string(),
                    target: target.to_string(),
                },
            },
            retry: CanonicalRetry {
                at_most: self.retry_at_most,
                backoff: self.backoff.iter().map(DurationMs::to_string).collect(),
            },
            takeover_after: self.takeover_after.to_string(),
            needs: (self.needs != Needs::default()).then_some(CanonicalNeeds {
                class: self.needs.class.as_ref(),
                labels: &self.needs.labels,
                cpu: self.needs.cpu_milli.and_then(processors),
                memory: self.needs.memory_bytes.map(show_size),
                uses: &self.needs.uses,
            }),
            priority: self.priority,
            limits: (self.limits != Limits::default()).then(|| CanonicalLimits {
                memory: self.limits.memory_bytes.map(show_size),
                pids: self.limits.pids,
                cpu_weight: self.limits.cpu_weight,
                io_weight: self.limits.io_weight,
            }),
            params: &self.params,
            begins: self.begins,
            run: CanonicalRun {
                exec: self.exec().collect(),
                user: self.user.as_deref(),
            },
        }
        .serialize(serializer)
    }
}

/// Thousandths as the number that is written, which reads back as the same.
fn processors(milli: u32) -> Option<serde_json::Number> {
    if milli.is_multiple_of(1000) {
        Some((milli / 1000).into())
    } else {
        serde_json::Number::from_f64(f64::from(milli) / 1000.0)
    }
}

fn canonical_after(after: &After) -> CanonicalAfter<'_> {
    let (which, latest_within) = match after.which {
        Which::SameFire => (Some("same_fire"), None),
        Which::SameDate => (Some("same_date"), None),
        Which::LatestWithin(within) => (None, Some(within.to_string())),
    };
    CanonicalAfter {
        job: &after.job,
        which,
        latest_within,
    }
}
