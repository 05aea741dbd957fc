//! What people ask for, and the answers.
//!
//! `by` is who asks, for the record. Where a token was made for somebody, its own name is recorded
//! and `by` is not looked at; the token of the machine itself is nobody's in particular.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::{IdText, Rfc3339, Rfc3339OrNull};
use crate::time::WallMs;
use crate::{AgentName, AlertId, ExecutionId, JobId, JobName, RunId, RunState};

/// `PUT /jobs/{namespace}/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutJobRequest {
    /// The manifest's YAML, one document.
    pub manifest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PutJobAnswer {
    pub job: JobName,
    #[serde(with = "IdText::<JobId>")]
    pub id: JobId,
    pub version: u32,
    /// `created`, `revived`, `changed`, `renamed` or `unchanged`.
    pub result: String,
    #[serde(with = "Rfc3339OrNull")]
    pub next_fire: Option<WallMs>,
    /// The job stands all the same.
    #[serde(default)]
    pub warnings: Vec<JobWarning>,
}

/// Why no shard of a job would find a place, by all that is known of the hosts now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobWarning {
    /// `no_such_class` or `no_host`.
    pub kind: String,
    /// Of the manifest: `needs.class`.
    pub field: String,
    pub says: String,
}

/// `DELETE /jobs/{namespace}/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteJobRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeleteJobAnswer {
    pub job: JobName,
}

/// `POST /jobs/{namespace}/{name}/plan`: what would be done is asked, and nothing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The manifest that would be put; `null`: the job would be deleted.
    pub manifest: Option<String>,
}

/// What a put or a deletion would do now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobPlan {
    pub job: JobName,
    /// As of [`PutJobAnswer`], or `deleted`.
    pub result: String,
    /// The version that would be in force; `null` after a deletion.
    pub version: Option<u32>,
    /// The version that would be followed, that of a deleted job too.
    pub before: Option<PlannedFrom>,
    /// Instants up to this one stay those of the version before; the new one begins after it.
    #[serde(with = "Rfc3339")]
    pub cut_over: WallMs,
    /// Runs that are not final: a put leaves them alone, a deletion cancels them.
    pub open_runs: u64,
    /// Shards that run now; a job with one is not deleted.
    pub leases: u64,
    #[serde(default)]
    pub warnings: Vec<JobWarning>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedFrom {
    /// Its name, where the job would be renamed.
    pub job: JobName,
    pub version: u32,
    /// Canonical JSON.
    pub manifest: serde_json::Value,
}

/// `POST /jobs/{namespace}/{name}/runs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// An instant of the past that has no run; `null`: a run of no instant.
    #[serde(with = "Rfc3339OrNull", default)]
    pub fire_time: Option<WallMs>,
    /// Values for this run instead of the manifest's own; of parameters that the manifest names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// `POST /runs/{id}/rerun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// `null`: every shard that did not succeed.
    #[serde(default)]
    pub shard: Option<u32>,
    /// Only the shards that failed: those in need of confirmation and those given up by a person,
    /// but none that was cancelled. Not together with `shard`.
    #[serde(default)]
    pub failed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// `POST /runs/{id}/redo`: all shards are computed anew, those that succeeded too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RedoRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
    /// Although the job's manifest does not declare a second run harmless.
    #[serde(default)]
    pub force: bool,
}

/// Answer to a redo: the new execution of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RedoAnswer {
    #[serde(with = "IdText::<RunId>")]
    pub run: RunId,
    pub execution: u32,
    #[serde(with = "IdText::<ExecutionId>")]
    pub execution_id: ExecutionId,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: RunState,
}

/// `POST /jobs/{namespace}/{name}/pause`: nothing of its schedule fires until it is resumed; runs that
/// there are go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// `POST /jobs/{namespace}/{name}/resume`: it fires from now on. What was due meanwhile does not run:
/// it becomes one gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Answer to a pause or a resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseAnswer {
    pub job: JobName,
    pub paused: bool,
    /// False where it was so already.
    pub changed: bool,
    /// Instants that a resume put into the gap.
    pub skipped: u64,
    #[serde(with = "Rfc3339OrNull")]
    pub next_fire: Option<WallMs>,
}

/// `POST /runs/{id}/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// `POST /runs/{id}/confirm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmRequest {
    /// `null`: every shard that needs confirmation.
    #[serde(default)]
    pub shard: Option<u32>,
    /// `succeeded`, `retry` or `failed`.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["succeeded", "retry", "failed"]))
    )]
    pub verdict: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// `POST /agents/{name}/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokeAnswer {
    pub agent: AgentName,
    /// Whether an agent of this name had ever attached.
    pub known: bool,
}

/// Answer to what was asked of a run: the run as it stands now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunAnswer {
    #[serde(with = "IdText::<RunId>")]
    pub run: RunId,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: RunState,
}

/// `POST /agents/{name}/cordon`: no new work; what runs there goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CordonRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// `POST /agents/{name}/uncordon`: it gets work again. Ends a drain, and lifts a quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UncordonRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// `POST /agents/{name}/drain`: cordoned until it is uncordoned, and the answer's `leased` falls to 0
/// when what runs there has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Interrupt what runs there instead of waiting for its end; it starts elsewhere.
    #[serde(default)]
    pub now: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

/// Answer to what was asked of an agent: as it stands now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentAnswer {
    pub agent: AgentName,
    /// As of [`Agent`](super::Agent).
    pub state: String,
    /// Shards leased to it.
    pub leased: u32,
}

/// `PUT /resources/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutResourceRequest {
    /// How many units all shards that run may hold together. Less than is held now takes nothing
    /// away; nothing more is given until it fits.
    pub capacity: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// `DELETE /resources/{name}`; refused while a job in force uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeleteResourceRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// `POST /alerts/{id}/clear`: seen to. Where its matter goes on, it is opened anew the next time that
/// it is raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClearAlertRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClearAlertAnswer {
    #[serde(with = "IdText::<AlertId>")]
    pub alert: AlertId,
    /// False where it had been cleared before.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeleteResourceAnswer {
    pub resource: String,
}
