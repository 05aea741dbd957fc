use serde::{Deserialize, Serialize};

use super::text::{IdOrNull, Rfc3339, Rfc3339OrNull};
use super::{Gap, Paused};
use crate::time::WallMs;
use crate::{JobName, RunId};

/// `GET /jobs/{namespace}/{name}/expectation?at=TIME`: what the ledger knows of one instant of a
/// job, deleted jobs too. Whether the schedule names it is for its asker to compute, from the
/// manifest that was in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expectation {
    /// The present name.
    pub job: JobName,
    #[serde(with = "Rfc3339")]
    pub at: WallMs,
    /// Every instant up to this one is settled.
    #[serde(with = "Rfc3339")]
    pub fired_through: WallMs,
    pub deleted: bool,
    pub paused: Option<Paused>,
    /// `null` while the job was not there.
    pub version: Option<VersionInForce>,
    /// The run of this instant, or else the manual run of exactly this time.
    #[serde(with = "IdOrNull::<RunId>")]
    pub run: Option<RunId>,
    /// The gap that this instant lies in, if it is one of the schedule's and has no run.
    pub gap: Option<Gap>,
}

/// A version and the schedule time that it decides: after `starts`, up to and including `ends`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VersionInForce {
    pub version: u32,
    #[serde(with = "Rfc3339")]
    pub starts: WallMs,
    /// `null` for the newest.
    #[serde(with = "Rfc3339OrNull")]
    pub ends: Option<WallMs>,
    #[serde(with = "Rfc3339")]
    pub put_at: WallMs,
    pub put_by: String,
    /// Canonical JSON.
    pub manifest: serde_json::Value,
}
