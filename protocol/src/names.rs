//! Names that people give: `namespace/name` of a job, the name of an agent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest part of a job's name, and longest agent name, in bytes.
pub const NAME_PART_BYTES_MAX: usize = 63;

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
            if !is_name(part, |b| matches!(b, b'-' | b'_' | b'.')) {
                return Err(NameError::Part {
                    part: part.to_owned(),
                });
            }
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

fn is_name(part: &str, inner: impl Fn(u8) -> bool) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
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
    fn agent_names_and_cluster_ids_are_dns_labels() {
        assert!("host-07".parse::<AgentName>().is_ok());
        assert!("prod-1".parse::<ClusterId>().is_ok());
        for bad in ["", "-a", "a.b", "a_b", "A", &"x".repeat(64)] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad:?}");
            assert!(bad.parse::<ClusterId>().is_err(), "{bad:?}");
        }
    }
}
