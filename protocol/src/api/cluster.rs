//! The control group: how it stands, and how it is changed.

use serde::{Deserialize, Serialize};

use super::text::{IdOrNull, Rfc3339, Rfc3339OrNull};
use crate::Epoch;
use crate::time::WallMs;

/// `GET /cluster`: the control group as the machine that answers sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cluster {
    /// The machine that answers.
    pub node: u64,
    /// Where the other control machines are told to reach it; empty where nobody has said it.
    pub reached_at: String,
    /// How it takes part, and since when by its clock.
    pub standing: ClusterStanding,
    #[serde(with = "Rfc3339")]
    pub since: WallMs,
    /// Whether it hears enough of those that vote for anything to be decided.
    pub quorum: bool,
    pub term: u64,
    /// The node that leads, while it is heard by enough of those that vote or, where another machine
    /// answers, by that one; none where nobody does, or it is not known.
    pub leader: Option<u64>,
    /// Who led last, as far as it knows.
    pub last_leader: Option<u64>,
    /// Of the reign in force, where the machine that answers reigns.
    #[serde(with = "IdOrNull::<Epoch>")]
    pub epoch: Option<Epoch>,
    pub members: Vec<ClusterMember>,
    /// What keeps the leader's address from the machine that answers, where it is to hold it.
    pub address_trouble: Option<String>,
    /// Why the certificate of the machine that answers is not renewed, when that was tried last.
    pub certificate_trouble: Option<String>,
    /// Machines that are no members and were turned away of late.
    pub turned_away: Vec<TurnedAway>,
}

/// How a control machine takes part in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ClusterStanding {
    /// It has the lead.
    Leads,
    /// It has the lead, and too few of those that vote hear it: it can do nothing.
    CutOff,
    /// It hears the one that leads.
    Follows,
    /// It hears nobody that leads.
    Searches,
    /// It has never been a member, and waits to be added.
    Waits,
    /// It is a member no longer.
    Removed,
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
    /// Whether the machine that answers has heard it of late: the one that leads within the longest
    /// election time-out, and another within some seconds.
    pub reached: bool,
    /// How long ago that was; none for itself, and where it was never heard.
    pub heard_ms_ago: Option<i64>,
    /// Entries of the log that it lacks; each knows it of itself, and the leader of all.
    pub behind: Option<u64>,
    /// By how much its clock is ahead, give or take so much, and whether it has stood still.
    pub clock_ahead_ms: Option<i64>,
    pub clock_unsure_ms: Option<i64>,
    pub clock_steady: Option<bool>,
    /// The newest commands that its program knows.
    pub speaks: u32,
    /// What is left of its disk, where that is too little.
    pub spare_bytes: Option<u64>,
    /// When its certificate ends, where that is soon.
    #[serde(default, with = "Rfc3339OrNull")]
    pub certificate_until: Option<WallMs>,
    /// Why it is not spoken to, or takes nothing of the log.
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
    /// `host:port` of its peers' address; 7410 where it names no port.
    pub address: String,
    /// Who asks, where the machine's own token does.
    #[serde(default)]
    pub by: Option<String>,
}

/// `POST /cluster/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoveMemberRequest {
    pub node: u64,
    #[serde(default)]
    pub by: Option<String>,
}

/// `POST /cluster/transfer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferRequest {
    /// To whom; where it is left out, to a coordinator whose clock is good, and of those to the one that
    /// has the most.
    #[serde(default)]
    pub to: Option<u64>,
    #[serde(default)]
    pub by: Option<String>,
}

/// A change of the control group that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterAnswer {
    /// The machine that it was about: added, removed, or leading now.
    pub node: u64,
}
