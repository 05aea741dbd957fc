//! Runs with what their attempts took, many to a page.

use serde::{Deserialize, Serialize};

use super::{IdText, Rfc3339, Rfc3339OrNull};
use crate::attempt::{AttemptOutcome, Usage};
use crate::run::RunState;
use crate::{AgentName, JobName, RunId, WallMs};

/// A row of `GET /runs/usage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunUsage {
    #[serde(with = "IdText::<RunId>")]
    pub run: RunId,
    pub job: JobName,
    pub version: u32,
    #[serde(with = "Rfc3339")]
    pub fire_time: WallMs,
    pub nominal: Vec<String>,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: RunState,
    pub execution: u32,
    pub shards: u32,
    #[serde(with = "Rfc3339")]
    pub admitted_at: WallMs,
    #[serde(with = "Rfc3339OrNull")]
    pub ended_at: Option<WallMs>,
    /// Of all its executions; by shard, and the oldest of a shard first.
    pub attempts: Vec<AttemptUsage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptUsage {
    pub shard: u32,
    pub execution: u32,
    pub agent: AgentName,
    #[serde(with = "Rfc3339")]
    pub granted_at: WallMs,
    #[serde(with = "Rfc3339OrNull")]
    pub started_at: Option<WallMs>,
    #[serde(with = "Rfc3339OrNull")]
    pub ended_at: Option<WallMs>,
    /// `null` while it lives.
    pub outcome: Option<AttemptOutcome>,
    pub cpu_ms: Option<i64>,
    pub memory_bytes_peak: Option<u64>,
    /// What else its host counted; `null` where nobody did.
    pub usage: Option<Usage>,
    /// Of its reason and the tail of its output, as they are kept in the ledger.
    pub text_bytes: u64,
}
