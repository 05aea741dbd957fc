//! Classes of hosts: what they ask for, and who is in them.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{AgentName, ClassName};

/// `GET /classes`: the classes that the leader goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Classes {
    /// The same for class files that say the same.
    pub digest: String,
    /// The class file of the leader; `null` where it goes by the built-in classes alone.
    pub from: Option<String>,
    pub health: HealthActions,
    /// By name.
    pub classes: Vec<HostClass>,
}

/// From which health on a host is cordoned, or somebody told; `null` is never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthActions {
    pub cordon: Option<String>,
    pub alarm: Option<String>,
    pub cordon_at_most_percent: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostClass {
    pub class: ClassName,
    pub about: String,
    /// Whether it came with the program, and not from the class file.
    pub built_in: bool,
    /// All hold for a member.
    pub require: Vec<ClassRule>,
    /// None holds for a member.
    pub refuse: Vec<ClassRule>,
    /// Told where they hold; they decide nothing.
    pub warn: Vec<ClassRule>,
    /// Hosts that are in it, by name; none that was revoked.
    pub members: Vec<AgentName>,
    /// Hosts of which a fact that decides is unknown, and nothing else is against them.
    pub unjudged: Vec<AgentName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassRule {
    pub rule: String,
    /// Why it is there.
    pub because: Option<String>,
}

/// `GET /agents/{name}/classes`: how a host stands to every class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentClasses {
    pub agent: AgentName,
    /// By name.
    pub classes: Vec<ClassStanding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassStanding {
    pub class: ClassName,
    pub member: bool,
    /// Whether unknown facts alone keep it out.
    pub cannot_be_judged: bool,
    pub findings: Vec<ClassFinding>,
}

/// A rule that a host did not pass, or that is worth telling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassFinding {
    /// `failed` and `unjudged` keep it out, `warning` and `unwarned` (a warning that could not be judged)
    /// do not.
    pub kind: String,
    pub rule: String,
    /// All of it in words.
    pub says: String,
    pub facts: Vec<ClassFact>,
}

/// A fact as a rule met it: with a value, unknown, or neither where it does not apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassFact {
    pub fact: String,
    pub value: Option<Json>,
    pub unknown: Option<String>,
}
