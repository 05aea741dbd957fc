//! How the clocks of control machines and hosts stand to that of the coordinator that leads.

use serde::{Deserialize, Serialize};

use super::text::{Rfc3339, Rfc3339OrNull};
use crate::time::WallMs;

/// `GET /clock`: every clock, those furthest off first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clocks {
    /// The coordinator that answers, whose clock the others are held against.
    pub node: String,
    #[serde(with = "Rfc3339")]
    pub now: WallMs,
    /// As in `GET /status`.
    pub clock: String,
    /// Why it is `warned` or `held`.
    pub clock_says: Option<String>,
    /// Beyond this a clock is told of, and beyond that it fires nothing.
    pub warn_ms: i64,
    pub stop_ms: i64,
    pub clocks: Vec<ClockSeen>,
    /// Clocks that are less far off, beyond `limit`.
    pub left_out: u64,
}

/// One clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockSeen {
    /// `coordinator`, `witness` or `agent`.
    pub role: String,
    /// Of the machine: of an agent its name.
    pub name: String,
    /// Whether it is the one that answers.
    pub own: bool,
    /// What it is ahead of the clock of the one that answers, and by how much that may be wrong;
    /// `null` where it has not been read.
    pub ahead_ms: Option<i64>,
    pub unsure_ms: Option<i64>,
    /// It has seen no step of its clock in the last minute; of control machines only.
    pub steady: Option<bool>,
    /// What its own time service says; `null` where it has not been heard.
    pub kept: Option<ClockKept>,
}

/// What a machine's own time service says of its clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockKept {
    /// `synchronised`, `free-running` or `unsynchronised`.
    pub verdict: String,
    /// Microseconds that the clock is slow (above 0) or fast.
    pub correction_us: Option<i64>,
    /// How wrong it can be at most, in microseconds.
    pub bound_us: Option<i64>,
    /// By how many parts in a million the clock is steered: it runs fast (above 0) or slow by design, to
    /// correct its own drift and what it was off.
    pub steered_ppm: Option<i64>,
    /// Who said so: `chronyd`, `chronyc`, `kernel`, or `nobody`.
    pub source: String,
    /// What the verdict rests on, and why who knows more said nothing.
    pub reason: String,
    /// When the clock was last seen to be set, and by how much; above 0 forward, in microseconds.
    #[serde(with = "Rfc3339OrNull")]
    pub set_at: Option<WallMs>,
    pub set_by_us: Option<i64>,
}
