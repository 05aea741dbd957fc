//! Names that people give: `namespace/name` of a job, the name of an agent or of an API token, what
//! hosts are labelled with and jobs ask for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest part of a job's name, longest name of an agent, resource, class or API token, longest label,
/// in bytes.
pub const NAME_PART_BYTES_MAX: usize = 63;

/// What a part of a job's name looks like, as a regular expression of ECMA 262.
pub const NAME_PART_PATTERN: &str = "[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?";

/// What the name of an agent looks like, as a regular expression of ECMA 262.
pub const AGENT_NAME_PATTERN: &str = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";

/// What a label looks like, as a regular expression of ECMA 262.
pub const LABEL_PATTERN: &str = "[a-z0-9]([a-z0-9._=-]{0,61}[a-z0-9])?";

/// What the name of a resource looks like, as a regular expression of ECMA 262.
pub const RESOURCE_NAME_PATTERN: &str = "[a-z0-9][a-z0-9._-]{0,62}";

/// `namespace/name`, each part `[a-z0-9]` with `-`, `_` and `.` inside, at most 63 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobName(String);

/// A host's name as its certificate states it: a DNS label, `[a-z0-9-]`, at most 63 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

/// A cluster's name, stated in every certificate of it: a DNS label, as for [`AgentName`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId(String);

/// What a host says of itself and a job may ask for, `jdk17` or `disk=ssd`: `[a-z0-9]` with `-`, `_`,
/// `.` and `=` inside, at most 63 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

/// The name of what shards share and of which there is only so much, `ledger-db`: `[a-z0-9]` and from
/// there on `-`, `_` and `.` too, at most 63 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(String);

/// A kind of host that jobs ask for, `io` or `big-memory`: as [`NamespaceName`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClassName(String);

/// The part of a job's name before its `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespaceName(String);

/// What an API token is called, and what stands in the audit for whoever has it: as
/// [`NamespaceName`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenName(String);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    #[error("`{0}` has no namespace: write it as `namespace/name`, for example `finance/{0}`")]
    NoNamespace(String),
    #[error("`{0}` has more than one `/`: write it as `namespace/name`")]
    TooManyParts(String),
    #[error(
        "`{part}` is not a valid name: use 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit"
    )]
    Part { part: String },
    #[error(
        "`{name}` is not a valid agent name: use 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or digit"
    )]
    Agent { name: String },
    #[error(
        "`{name}` is not a valid cluster id: use 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or digit"
    )]
    Cluster { name: String },
    #[error(
        "`{name}` is not a valid label: use 1 to 63 of a-z, 0-9, `-`, `_`, `.`, `=`, beginning and ending with a letter or digit"
    )]
    Label { name: String },
    #[error(
        "`{name}` is not a valid name of a resource: use 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning with a letter or digit"
    )]
    Resource { name: String },
    #[error(
        "`{name}` is not a valid name of a class: use 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit"
    )]
    Class { name: String },
}

impl JobName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

impl AgentName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClusterId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Label {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ResourceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClassName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NamespaceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a job of this name belongs to it.
    pub fn holds(&self, job: &JobName) -> bool {
        job.namespace() == self.0
    }
}

impl TokenName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClassName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<ClassName, NameError> {
        let name = text.to_owned();
        match name_part(text) {
            Ok(name) => Ok(ClassName(name)),
            Err(_) => Err(NameError::Class { name }),
        }
    }
}

impl FromStr for NamespaceName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<NamespaceName, NameError> {
        name_part(text).map(NamespaceName)
    }
}

impl FromStr for TokenName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<TokenName, NameError> {
        name_part(text).map(TokenName)
    }
}

fn name_part(text: &str) -> Result<String, NameError> {
    if is_name(text, |b| matches!(b, b'-' | b'_' | b'.')) {
        Ok(text.to_owned())
    } else {
        Err(NameError::Part {
            part: text.to_owned(),
        })
    }
}

impl FromStr for JobName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<JobName, NameError> {
        let (namespace, name) = text
            .split_once('/')
            .ok_or_else(|| NameError::NoNamespace(text.to_owned()))?;
        if name.contains('/') {
            return Err(NameError::TooManyParts(text.to_owned()));
        }
        for part in [namespace, name] {
            name_part(part)?;
        }
        Ok(JobName(text.to_owned()))
    }
}

impl FromStr for AgentName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<AgentName, NameError> {
        if is_name(text, |b| b == b'-') {
            Ok(AgentName(text.to_owned()))
        } else {
            Err(NameError::Agent {
                name: text.to_owned(),
            })
        }
    }
}

impl FromStr for ClusterId {
    type Err = NameError;
    fn from_str(text: &str) -> Result<ClusterId, NameError> {
        if is_name(text, |b| b == b'-') {
            Ok(ClusterId(text.to_owned()))
        } else {
            Err(NameError::Cluster {
                name: text.to_owned(),
            })
        }
    }
}

impl FromStr for Label {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Label, NameError> {
        if is_name(text, |b| matches!(b, b'-' | b'_' | b'.' | b'=')) {
            Ok(Label(text.to_owned()))
        } else {
            Err(NameError::Label {
                name: text.to_owned(),
            })
        }
    }
}

impl FromStr for ResourceName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<ResourceName, NameError> {
        let spelled = |b: u8| plain(b) || matches!(b, b'-' | b'_' | b'.');
        if text.bytes().next().is_some_and(plain)
            && text.len() <= NAME_PART_BYTES_MAX
            && text.bytes().all(spelled)
        {
            Ok(ResourceName(text.to_owned()))
        } else {
            Err(NameError::Resource {
                name: text.to_owned(),
            })
        }
    }
}

fn plain(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_name(part: &str, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = part.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if plain(first) && plain(last))
        && bytes.len() <= NAME_PART_BYTES_MAX
        && bytes.iter().all(|&b| plain(b) || inner(b))
}

macro_rules! string_conversions {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<$name, NameError> {
                text.parse()
            }
        }
    };
}

string_conversions!(JobName);
string_conversions!(AgentName);
string_conversions!(ClusterId);
string_conversions!(Label);
string_conversions!(ResourceName);
string_conversions!(ClassName);
string_conversions!(NamespaceName);
string_conversions!(TokenName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names() {
        for good in ["a/b", "settlement/reconcile", "team-1/etl.v2_x"] {
            assert_eq!(good.parse::<JobName>().unwrap().as_str(), good);
        }
        for bad in [
            "", "a", "a/", "/b", "a/b/c", "A/b", "a/-b", "a/b.", "a b/c", "ä/b", "a/\u{0}",
        ] {
            assert!(bad.parse::<JobName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn labels_and_resources() {
        for good in ["jdk17", "disk=ssd", "x", "a.b-c_d"] {
            assert!(good.parse::<Label>().is_ok(), "{good}");
        }
        for bad in ["", "=", "a=", "Jdk", "a b", "a:b", &"x".repeat(64)] {
            assert!(bad.parse::<Label>().is_err(), "{bad:?}");
        }
        for good in ["ledger-db", "x", "db_", "a.b-", &"x".repeat(63)] {
            assert!(good.parse::<ResourceName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a=b", "A", "a b", "é", &"x".repeat(64)] {
            assert!(bad.parse::<ResourceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_namespace_holds_the_jobs_of_its_name_and_no_others() {
        let finance: NamespaceName = "finance".parse().unwrap();
        for (job, held) in [
            ("finance/close", true),
            ("finances/close", false),
            ("finance-2/close", false),
            ("financ/e", false),
        ] {
            assert_eq!(finance.holds(&job.parse().unwrap()), held, "{job}");
        }
        for bad in ["", "*", "finance/*", "a/b", "finance/", "Finance"] {
            assert!(bad.parse::<NamespaceName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn agent_names_and_cluster_ids_are_dns_labels() {
        assert!("host-07".parse::<AgentName>().is_ok());
        assert!("prod-1".parse::<ClusterId>().is_ok());
        for bad in ["", "-a", "a.b", "a_b", "A", &"x".repeat(64)] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad:?}");
            assert!(bad.parse::<ClusterId>().is_err(), "{bad:?}");
        }
    }
}
