//! The control group: how it stands, and how it is changed.

use serde::{Deserialize, Serialize};

use super::text::{IdOrNull, Rfc3339OrNull};
use crate::Epoch;
use crate::time::WallMs;

/// `GET /cluster`: the control group as the machine that answers sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cluster {
    /// The machine that answers.
    pub node: u64,
    pub term: u64,
    /// The node that leads; none where nobody does, or it is not known.
    pub leader: Option<u64>,
    /// Of the reign in force, where the machine that answers reigns; and since when by its clock.
    #[serde(with = "IdOrNull::<Epoch>")]
    pub epoch: Option<Epoch>,
    #[serde(with = "Rfc3339OrNull")]
    pub since: Option<WallMs>,
    pub members: Vec<ClusterMember>,
    /// Machines that are no members and were turned away of late.
    pub turned_away: Vec<TurnedAway>,
}

/// A member of the control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterMember {
    pub node: u64,
    pub name: String,
    /// `coordinator` or `witness`.
    pub role: String,
    /// Whether it votes; one that does not is being brought up.
    pub votes: bool,
    /// Addresses by which it is reached, empty where it has none.
    pub peers: String,
    pub agents: String,
    pub api: String,
    /// Whether the machine that answers has heard it within the longest election time-out.
    pub reached: bool,
    /// How long ago that was; none for itself, and where it was never heard.
    pub heard_ms_ago: Option<i64>,
    /// Entries of the log that it lacks; known to the leader only.
    pub behind: Option<u64>,
    /// By how much its clock is ahead, give or take so much, and whether it has stood still.
    pub clock_ahead_ms: Option<i64>,
    pub clock_unsure_ms: Option<i64>,
    pub clock_steady: Option<bool>,
    /// The newest commands that its program knows.
    pub speaks: u32,
    /// Why it is not spoken to.
    pub trouble: Option<String>,
}

/// A machine that was turned away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnedAway {
    pub who: String,
    pub why: String,
    pub times: u64,
}

/// `POST /cluster/add`: adds the machine that answers at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddMemberRequest {
    /// `host:port` of its peers' address.
    pub address: String,
}

/// `POST /cluster/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoveMemberRequest {
    pub node: u64,
}

/// `POST /cluster/transfer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferRequest {
    /// To whom; to the coordinator that has the most where it is left out.
    #[serde(default)]
    pub to: Option<u64>,
}

/// A change of the control group that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterAnswer {
    /// The machine that it was about: added, removed, or leading now.
    pub node: u64,
}
