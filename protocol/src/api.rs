//! Bodies of the HTTP API under `/api/v1`, shared by coordinator and CLI.
//!
//! Every time is RFC 3339 in UTC; every length of time is in milliseconds and says so in its name;
//! every id is text with its prefix, `run-12`.

use serde::{Deserialize, Serialize};

use crate::attempt::{AttemptOutcome, Exit, Trigger};
use crate::output::Stream;
use crate::time::{WallMs, rfc3339};
use crate::{AgentId, AgentName, AlertId, Epoch, ExecutionId, JobId, JobName, RunId, Token, ids};

/// A job as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub job: JobName,
    #[serde(with = "ids::text")]
    pub id: JobId,
    pub version: u32,
    /// As the manifest writes it: a cron expression or `@every 10s`.
    pub schedule: String,
    pub timezone: String,
    pub owner: String,
    pub purpose: String,
    /// Every instant up to this one is settled.
    #[serde(with = "rfc3339")]
    pub fired_through: WallMs,
    /// `null` where the manifest cannot be read.
    #[serde(with = "rfc3339::option")]
    pub next_fire: Option<WallMs>,
    pub last_run: Option<Run>,
    /// Why the job stands still, where it does.
    pub problem: Option<String>,
}

/// A job with its manifest (canonical JSON), its recent runs and its recorded gaps, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobDetail {
    #[serde(flatten)]
    pub job: Job,
    pub manifest: serde_json::Value,
    pub runs: Vec<Run>,
    pub gaps: Vec<Gap>,
}

/// `count` instants after `from`, up to and including `through`, that have no row each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    #[serde(with = "rfc3339")]
    pub from: WallMs,
    #[serde(with = "rfc3339")]
    pub through: WallMs,
    pub count: u64,
    pub reason: String,
}

/// A run with its newest execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    #[serde(with = "ids::text")]
    pub run: RunId,
    pub job: JobName,
    pub version: u32,
    /// `scheduled` or `manual`.
    pub namespace: String,
    #[serde(with = "rfc3339")]
    pub fire_time: WallMs,
    pub nominal: Vec<String>,
    pub state: String,
    pub reason: Option<String>,
    pub execution: u32,
    #[serde(with = "ids::text")]
    pub execution_id: ExecutionId,
    pub trigger: Trigger,
    pub shards: u32,
    pub pending: u32,
    pub leased: u32,
    pub succeeded: u32,
    pub needs_confirmation: u32,
    pub cancelled: u32,
    #[serde(with = "rfc3339")]
    pub admitted_at: WallMs,
    #[serde(with = "rfc3339::option")]
    pub ended_at: Option<WallMs>,
}

/// A run with everything that happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: Run,
    pub executions: Vec<Execution>,
    pub shard_list: Vec<Shard>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    pub execution: u32,
    #[serde(with = "ids::text")]
    pub id: ExecutionId,
    pub trigger: Trigger,
    /// Who asked for it; `null` for the schedule.
    pub by: Option<String>,
    pub reason: Option<String>,
    #[serde(with = "rfc3339")]
    pub admitted_at: WallMs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub shard: u32,
    pub state: String,
    pub reason: Option<String>,
    pub retries_used: u32,
    /// Oldest first, over all executions.
    pub attempts: Vec<Attempt>,
}

/// One record of an attempt's output, as `format=json` has it: one object a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLine {
    /// When it was read, in UTC and to the microsecond.
    pub time: String,
    pub job: JobName,
    #[serde(with = "rfc3339")]
    pub fire_time: WallMs,
    pub shard: u32,
    pub attempt: u32,
    #[serde(with = "ids::text")]
    pub token: Token,
    /// `matins` where Matins says something of the output.
    pub stream: Stream,
    /// The line goes on in the next record of this stream, or the output ends without a line feed.
    pub partial: bool,
    /// Without the line feed.
    pub content: String,
    /// `content` is not text and is written in base64.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub base64: bool,
    /// So much of the output is missing here; `content` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    #[serde(with = "ids::text")]
    pub token: Token,
    pub execution: u32,
    pub attempt: u32,
    pub agent: AgentName,
    #[serde(with = "rfc3339")]
    pub granted_at: WallMs,
    #[serde(with = "rfc3339::option")]
    pub started_at: Option<WallMs>,
    #[serde(with = "rfc3339::option")]
    pub ended_at: Option<WallMs>,
    /// `null` while it lives.
    pub outcome: Option<AttemptOutcome>,
    pub exit: Option<Exit>,
    pub cpu_ms: Option<i64>,
    pub memory_bytes_peak: Option<u64>,
    /// A process of it was killed because memory was used up.
    #[serde(default)]
    pub out_of_memory: bool,
    /// Limits of the manifest that its host could not enforce, `memory, pids`.
    pub limits_not_enforced: Option<String>,
    pub reason: Option<String>,
    pub tail: Option<String>,
    /// A receipt that came after a later grant: what it said, which changed nothing.
    pub stale_outcome: Option<AttemptOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub agent: AgentName,
    #[serde(with = "ids::text")]
    pub id: AgentId,
    /// `ready`, `offline`, `quarantined` or `revoked`.
    pub state: String,
    pub slots: u32,
    pub leased: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    #[serde(with = "ids::text")]
    pub id: AlertId,
    #[serde(with = "rfc3339")]
    pub at: WallMs,
    pub kind: String,
    pub job: Option<JobName>,
    #[serde(with = "ids::text::option")]
    pub run: Option<RunId>,
    pub text: String,
}

/// `PUT /jobs/{namespace}/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutJobRequest {
    /// The manifest's YAML, one document.
    pub manifest: String,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutJobAnswer {
    pub job: JobName,
    #[serde(with = "ids::text")]
    pub id: JobId,
    pub version: u32,
    /// `created`, `revived`, `changed`, `renamed` or `unchanged`.
    pub result: String,
    #[serde(with = "rfc3339::option")]
    pub next_fire: Option<WallMs>,
}

/// `DELETE /jobs/{namespace}/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteJobRequest {
    pub by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteJobAnswer {
    pub job: JobName,
}

/// `POST /jobs/{namespace}/{name}/plan`: what would be done is asked, and nothing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The manifest that would be put; `null`: the job would be deleted.
    pub manifest: Option<String>,
}

/// What a put or a deletion would do now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPlan {
    pub job: JobName,
    /// As of [`PutJobAnswer`], or `deleted`.
    pub result: String,
    /// The version that would be in force; `null` after a deletion.
    pub version: Option<u32>,
    /// The version that would be followed, that of a deleted job too.
    pub before: Option<PlannedFrom>,
    /// Instants up to this one stay those of the version before; the new one begins after it.
    #[serde(with = "rfc3339")]
    pub cut_over: WallMs,
    /// Runs that are not final: a put leaves them alone, a deletion cancels them.
    pub open_runs: u64,
    /// Shards that run now; a job with one is not deleted.
    pub leases: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFrom {
    /// Its name, where the job would be renamed.
    pub job: JobName,
    pub version: u32,
    /// Canonical JSON.
    pub manifest: serde_json::Value,
}

/// `POST /jobs/{namespace}/{name}/runs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// An instant of the past that has no run; `null`: a run of no instant.
    #[serde(with = "rfc3339::option", default)]
    pub fire_time: Option<WallMs>,
    pub by: String,
    pub reason: String,
}

/// `POST /runs/{id}/rerun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// `null`: every shard that did not succeed.
    #[serde(default)]
    pub shard: Option<u32>,
    pub by: String,
    pub reason: String,
}

/// `POST /runs/{id}/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    pub by: String,
    pub reason: String,
}

/// `POST /runs/{id}/confirm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfirmRequest {
    /// `null`: every shard that needs confirmation.
    #[serde(default)]
    pub shard: Option<u32>,
    /// `succeeded`, `retry` or `failed`.
    pub verdict: String,
    pub by: String,
    pub reason: String,
}

/// `POST /agents/{name}/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    pub by: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeAnswer {
    pub agent: AgentName,
    /// Whether an agent of this name had ever attached.
    pub known: bool,
}

/// Answer to what was asked of a run: the run as it stands now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAnswer {
    #[serde(with = "ids::text")]
    pub run: RunId,
    pub state: String,
}

/// `GET /status`: the coordinator that answers, and what it looks after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub node: String,
    /// Of Matins.
    pub version: String,
    /// The reign; `null` while this coordinator does not lead.
    #[serde(with = "ids::text::option")]
    pub epoch: Option<Epoch>,
    /// `trusted`, or `held` after a step: then nothing fires.
    pub clock: String,
    /// How long the clock is held yet, if it is.
    pub clock_held_ms: Option<i64>,
    /// The time zone data that schedules are computed with.
    pub tzdata: String,
    /// Where agents attach (UDP), with the port in use.
    pub agents_address: String,
    /// Jobs in force.
    pub jobs: u64,
    /// Runs that are not final.
    pub open_runs: u64,
    /// Of these, runs that wait for a person.
    pub needs_confirmation: u64,
    /// Shards leased to agents now.
    pub leases: u64,
    /// Agents that ever attached, and those that may be given work now.
    pub agents: u64,
    pub agents_ready: u64,
}

/// Body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// A word for programs: `not_found`, `refused`, `invalid`, `unauthorized`, `unavailable`, and
    /// `internal` where the coordinator itself is at fault.
    pub kind: String,
    /// What was being done, and to what.
    pub what: String,
    pub why: String,
    pub remedy: String,
}
