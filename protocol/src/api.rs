//! Bodies of the HTTP API under `/api/v1`, shared by coordinator and CLI.
//!
//! Every time is RFC 3339 in UTC; every length of time is in milliseconds and says so in its name;
//! every id is text with its prefix, `run-12`.

mod classes;
mod clock;
mod cluster;
mod expectation;
mod hosts;
mod join;
mod profile;
mod requests;
mod text;
mod tokens;
mod usage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attempt::{AttemptOutcome, Exit, Trigger, Usage};
use crate::output::Stream;
use crate::time::WallMs;
use crate::{
    AgentId, AgentName, AlertId, Epoch, ExecutionId, JobId, JobName, RunId, RunState, Token,
};

pub use classes::*;
pub use clock::*;
pub use cluster::*;
pub use expectation::*;
pub use hosts::*;
pub use join::*;
pub use profile::*;
pub use requests::*;
pub use text::{IdOrNull, IdText, Rfc3339, Rfc3339OrNull};
pub use tokens::*;
pub use usage::*;

/// A job as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    pub job: JobName,
    #[serde(with = "IdText::<JobId>")]
    pub id: JobId,
    pub version: u32,
    /// As the manifest writes it: a cron expression or `@every 10s`.
    pub schedule: String,
    pub timezone: String,
    pub owner: String,
    pub purpose: String,
    /// Every instant up to this one is settled.
    #[serde(with = "Rfc3339")]
    pub fired_through: WallMs,
    /// `null` where the manifest cannot be read.
    #[serde(with = "Rfc3339OrNull")]
    pub next_fire: Option<WallMs>,
    pub last_run: Option<Run>,
    /// Since when, by whom and why nothing of its schedule fires, where a person has paused it.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// Why the job stands still, where it does.
    pub problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Paused {
    #[serde(with = "Rfc3339")]
    pub at: WallMs,
    pub by: String,
    pub reason: String,
}

/// A job with its manifest (canonical JSON), its recent runs and its recorded gaps, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobDetail {
    #[serde(flatten)]
    pub job: Job,
    pub manifest: serde_json::Value,
    /// How many its runs have: written in the manifest, or computed when it was put.
    pub shards: u32,
    pub runs: Vec<Run>,
    pub gaps: Vec<Gap>,
}

/// `count` instants after `from`, up to and including `through`, that have no row each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    #[serde(with = "Rfc3339")]
    pub from: WallMs,
    #[serde(with = "Rfc3339")]
    pub through: WallMs,
    pub count: u64,
    pub reason: String,
}

/// A run with its newest execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    #[serde(with = "IdText::<RunId>")]
    pub run: RunId,
    pub job: JobName,
    pub version: u32,
    /// `scheduled` or `manual`.
    pub namespace: String,
    #[serde(with = "Rfc3339")]
    pub fire_time: WallMs,
    pub nominal: Vec<String>,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: RunState,
    /// In words: why it is in this state; while it is `waiting`, what `waits_for` says.
    pub reason: Option<String>,
    /// What must happen first, as it is now; while it is `waiting`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<RunWaits>,
    pub execution: u32,
    #[serde(with = "IdText::<ExecutionId>")]
    pub execution_id: ExecutionId,
    pub trigger: Trigger,
    /// Values that were given for this run instead of the manifest's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    pub shards: u32,
    pub pending: u32,
    pub leased: u32,
    pub succeeded: u32,
    pub needs_confirmation: u32,
    pub cancelled: u32,
    #[serde(with = "Rfc3339")]
    pub admitted_at: WallMs,
    #[serde(with = "Rfc3339OrNull")]
    pub ended_at: Option<WallMs>,
}

/// What a waiting run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunWaits {
    pub kind: RunWaitKind,
    /// Whose run it is: the job's own, but for `after`.
    pub job: JobName,
    /// `null` where the other job has none for this fire yet.
    #[serde(with = "IdOrNull::<RunId>")]
    pub run: Option<RunId>,
    /// Of that run.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub state: Option<RunState>,
    /// Since when it has waited for something of this kind.
    #[serde(with = "Rfc3339")]
    pub since: WallMs,
    /// When it is skipped if it has not started; `null` where its start deadline does not count
    /// while it waits for this.
    #[serde(with = "Rfc3339OrNull")]
    pub until: Option<WallMs>,
}

/// What keeps a run from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunWaitKind {
    /// Another run of the job is live, or stands before it in the line.
    Overlap,
    /// A run of the job is being cancelled to make room for it.
    Replaced,
    /// The job's own fire before it.
    Previous,
    /// Another job's run.
    After,
    /// Older runs of the job that catch up.
    CatchUpTurn,
}

/// A run with everything that happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: Run,
    pub executions: Vec<Execution>,
    pub shard_list: Vec<Shard>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Execution {
    pub execution: u32,
    #[serde(with = "IdText::<ExecutionId>")]
    pub id: ExecutionId,
    pub trigger: Trigger,
    /// Who asked for it; `null` for the schedule.
    pub by: Option<String>,
    pub reason: Option<String>,
    #[serde(with = "Rfc3339")]
    pub admitted_at: WallMs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shard {
    pub shard: u32,
    pub state: String,
    pub reason: Option<String>,
    /// What it waits for now, where it is pending: the rest of its backoff, or a place, and then which
    /// hosts are ruled out by what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Waits>,
    pub retries_used: u32,
    /// Oldest first, over all executions.
    pub attempts: Vec<Attempt>,
}

/// What a pending shard waits for, as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
    /// `backoff`, `grant`, `receipt`, `refused`, `unreadable` or `place`.
    pub kind: String,
    /// In words.
    pub text: String,
    /// How long yet, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<i64>,
    /// Where it waits for a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Placement>,
}

/// How many hosts are ruled out by what: each is counted under the first rule that rules it out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placement {
    pub considered: u32,
    pub revoked: u32,
    pub quarantined: u32,
    pub cordoned: u32,
    pub draining: u32,
    pub offline: u32,
    /// Not of the class that it needs.
    #[serde(default)]
    pub unclassed: u32,
    /// Why those are not, and how many for each reason.
    #[serde(default)]
    pub class_reasons: BTreeMap<String, u32>,
    /// Without all labels that it needs.
    pub unlabelled: u32,
    /// How many of those lack which.
    pub lacking: BTreeMap<String, u32>,
    /// Without as much of something as it needs.
    #[serde(default)]
    pub short: Vec<Short>,
    /// With an array that is being rebuilt, where it needs a place at the disk.
    #[serde(default)]
    pub rebuilding: u32,
    /// Where programs wait for memory, and it needs some.
    #[serde(default)]
    pub pressed: u32,
    pub no_free_slot: u32,
    /// That could take it.
    pub free: u32,
    /// Resources of which too little is left.
    pub exhausted: Vec<Exhausted>,
}

/// Hosts that have not so much of one thing, or not so much left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Short {
    /// `cpu` (in thousandths of a processor), `memory` (in bytes) or `io` (places at the disk).
    pub of: String,
    /// `unknown` (nobody knows how much they have), `too_small` or `exhausted`.
    pub kind: String,
    pub hosts: u32,
    pub asked: u64,
    /// The most that any of them has, or has left.
    pub most: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exhausted {
    pub resource: String,
    pub wanted: u32,
    /// Grants that are on their way included.
    pub in_use: u32,
    /// `null`: there is no such resource any more.
    pub capacity: Option<u32>,
    /// Enough would be left, but a shard before it waits for more.
    pub behind_another: bool,
}

/// One record of an attempt's output, as `format=json` has it: one object a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputLine {
    /// When it was read, in UTC and to the microsecond.
    pub time: String,
    pub job: JobName,
    #[serde(with = "Rfc3339")]
    pub fire_time: WallMs,
    pub shard: u32,
    pub attempt: u32,
    #[serde(with = "IdText::<Token>")]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    #[serde(with = "IdText::<Token>")]
    pub token: Token,
    pub execution: u32,
    pub attempt: u32,
    pub agent: AgentName,
    #[serde(with = "Rfc3339")]
    pub granted_at: WallMs,
    #[serde(with = "Rfc3339OrNull")]
    pub started_at: Option<WallMs>,
    #[serde(with = "Rfc3339OrNull")]
    pub ended_at: Option<WallMs>,
    /// `null` while it lives.
    pub outcome: Option<AttemptOutcome>,
    pub exit: Option<Exit>,
    pub cpu_ms: Option<i64>,
    pub memory_bytes_peak: Option<u64>,
    /// A process of it was killed because memory was used up.
    #[serde(default)]
    pub out_of_memory: bool,
    /// What else its host counted; `null` where nobody did.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Limits of the manifest that its host could not enforce, `memory, pids`.
    pub limits_not_enforced: Option<String>,
    pub reason: Option<String>,
    pub tail: Option<String>,
    /// A receipt that came after a later grant: what it said, which changed nothing.
    pub stale_outcome: Option<AttemptOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agent {
    pub agent: AgentName,
    #[serde(with = "IdText::<AgentId>")]
    pub id: AgentId,
    /// `ready`, `offline`, `cordoned`, `draining`, `quarantined` or `revoked`.
    pub state: String,
    /// Why it gets no work, where a person or a rule has decided so.
    #[serde(default)]
    pub reason: Option<String>,
    pub slots: u32,
    pub leased: u32,
    /// What the host says of itself, for `needs.labels`; sorted.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Unset before it has registered.
    #[serde(default)]
    pub host: Option<HostSummary>,
}

/// `GET /agents/{name}`: an agent with what runs on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentDetail {
    #[serde(flatten)]
    pub agent: Agent,
    /// By token, oldest first.
    pub leases: Vec<AgentLease>,
    /// Unset before it has registered.
    #[serde(default)]
    pub profile: Option<HostDetail>,
}

/// A shard that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentLease {
    #[serde(with = "IdText::<Token>")]
    pub token: Token,
    #[serde(with = "IdText::<RunId>")]
    pub run: RunId,
    pub job: JobName,
    pub shard: u32,
    #[serde(with = "Rfc3339")]
    pub granted_at: WallMs,
    /// The manifest declares a second run harmless. Where it does not, a shard that is interrupted
    /// goes to a person instead of running elsewhere.
    pub safe: bool,
    /// It is being cancelled.
    pub cancelling: bool,
}

/// Something that shards share and of which there is only so much, such as the connections of a
/// database; a manifest asks for units of it under `needs.uses`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    pub resource: String,
    pub capacity: u32,
    /// Units held by shards that are leased now.
    pub in_use: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    #[serde(with = "IdText::<AlertId>")]
    pub id: AlertId,
    #[serde(with = "Rfc3339")]
    pub at: WallMs,
    pub kind: String,
    pub job: Option<JobName>,
    #[serde(with = "IdOrNull::<RunId>")]
    pub run: Option<RunId>,
    #[serde(default)]
    pub agent: Option<AgentName>,
    pub text: String,
    /// How often it was raised while it was open, reminders included.
    #[serde(default)]
    pub count: u32,
    /// When it was raised last.
    #[serde(with = "Rfc3339OrNull", default)]
    pub last_at: Option<WallMs>,
    /// When what it was about was over; `null` while it is open.
    #[serde(with = "Rfc3339OrNull", default)]
    pub cleared_at: Option<WallMs>,
    /// The person who cleared it; `null` where that happened by itself.
    #[serde(default)]
    pub cleared_by: Option<String>,
}

/// Something that a person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    #[serde(with = "Rfc3339")]
    pub at: WallMs,
    pub by: String,
    /// The address that it was asked from; `null` where nobody noted one.
    #[serde(default)]
    pub from: Option<String>,
    /// What was done: `put job`, `delete job`, `cancel` and so on.
    pub action: String,
    pub job: Option<JobName>,
    #[serde(with = "IdOrNull::<RunId>")]
    pub run: Option<RunId>,
    pub agent: Option<AgentName>,
    pub reason: Option<String>,
}

/// `GET /status`: the coordinator that answers, and what it looks after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    pub node: String,
    /// Of Matins.
    pub version: String,
    /// The reign; `null` while this coordinator does not lead.
    #[serde(with = "IdOrNull::<Epoch>")]
    pub epoch: Option<Epoch>,
    /// `trusted`; `no_reference` where too few control machines and agents are there to compare
    /// with, and no time service keeps it; `warned` where it differs from theirs, or its time service
    /// says so; `held` after a step, where they contradict it, or its time service does and nobody
    /// else has a say, or where they have not spoken yet since the machine was started: then nothing
    /// fires.
    pub clock: String,
    /// How long the clock is held yet, after a step or a start of the machine.
    pub clock_held_ms: Option<i64>,
    /// Why it is `warned` or `held`.
    #[serde(default)]
    pub clock_says: Option<String>,
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

/// [`ErrorBody::kind`] of a coordinator that does not lead, and has not done what was asked.
pub const NOT_LEADER: &str = "not_leader";

/// Body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// A word for programs: `not_found`, `refused`, `invalid`, `unauthorized`, `unavailable`,
    /// `changed` (what was expected is no longer so), `throttled` (asked too fast), `not_leader`
    /// (another coordinator answers this), and `internal` where the coordinator itself is at fault.
    pub kind: String,
    /// What was being done, and to what.
    pub what: String,
    pub why: String,
    pub remedy: String,
    /// By which the coordinator's log knows the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Where this coordinator does not lead: who does, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderAddress>,
}

/// The coordinator that leads, and where it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderAddress {
    pub name: String,
    /// Of its HTTP API.
    pub api: String,
}
