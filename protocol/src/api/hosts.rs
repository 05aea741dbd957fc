//! What is known of the hosts that agents run on.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::Rfc3339;
use crate::host::{HostFacts, HostNow, Turn};
use crate::time::WallMs;

/// What a list of agents shows of a host: some facts of its profile, and how it fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostSummary {
    /// Rises with every profile that says something else that matters.
    pub generation: u32,
    /// Since when it is of this generation.
    #[serde(with = "Rfc3339")]
    pub since: WallMs,
    /// When the host last told what it is.
    #[serde(with = "Rfc3339")]
    pub registered_at: WallMs,
    /// Processors that jobs can have, in thousandths.
    pub cpu_usable_milli: Option<i64>,
    /// Memory that jobs can have.
    pub memory_usable_bytes: Option<i64>,
    /// `ssd`, `hdd` or, where a hypervisor hides it, `virtual`.
    pub disk: Option<String>,
    /// Grade of its fdatasync: `A`, `B`, `C`, `D`.
    pub fsync_grade: Option<String>,
    /// Measured speed of one thread and of all; 1,000 is one thread of the reference machine.
    pub cpu_score_single: Option<i64>,
    pub cpu_score_all: Option<i64>,
    /// Measured speed of memory, all nodes together.
    pub memory_bandwidth_bytes_per_s: Option<i64>,
    /// 99 of 100 measured fdatasyncs took at most so long.
    pub fsync_p99_us: Option<i64>,
    /// Measured random writes of 4 KiB a second, each durable.
    pub random_write_iops: Option<i64>,
    /// What measuring writes to the disk in a year.
    pub probe_bytes_per_year: Option<i64>,
    /// The worst of all that is judged: `ok`, `unknown`, `rebuilding`, `degraded`, `failed`. What a beat of
    /// the host has said is newer than what its profile says, and goes before.
    pub health: Option<String>,
}

/// All that is known of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostDetail {
    /// By name. Each is `{"known": value}` or `{"unknown": why}`; one that is not there does not
    /// apply.
    #[cfg_attr(feature = "schema", schemars(with = "Json"))]
    pub facts: HostFacts,
    /// Every part with its health and facts, and what was not understood, as `matins hardware
    /// --output json` shows it.
    pub report: Json,
    /// What its newest beat said of its clock, health and load. Unset where it is not attached.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Json>"))]
    pub now: Option<HostNow>,
    /// How its profiles differed from the ones before, the newest first.
    pub changes: Vec<HostChange>,
}

/// Something that was not as the profile before said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostChange {
    #[serde(with = "Rfc3339")]
    pub at: WallMs,
    /// The generation that it began.
    pub generation: u32,
    pub turn: Turn,
    /// A part of the host, `drive /dev/sda`, or a fact, `memory.size_bytes`.
    pub about: String,
    /// Unset where it was not there.
    pub before: Option<String>,
    pub after: Option<String>,
}
