//! Who may ask a coordinator for what: the role of an API token, and how far it reaches.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{JobName, NamespaceName};

/// What the bearer of an API token may do; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApiRole {
    /// Looks.
    Viewer,
    /// Applies jobs, acts on runs, takes hosts out of service and puts them back.
    Operator,
    /// Decides who may do any of that, lets hosts and control machines in and out, overrules what a
    /// manifest forbids.
    Admin,
}

impl ApiRole {
    pub const ALL: &'static [ApiRole] = &[ApiRole::Viewer, ApiRole::Operator, ApiRole::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            ApiRole::Viewer => "viewer",
            ApiRole::Operator => "operator",
            ApiRole::Admin => "admin",
        }
    }
}

impl fmt::Display for ApiRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is no role.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a role: use viewer, operator or admin")]
pub struct ApiRoleError(String);

impl FromStr for ApiRole {
    type Err = ApiRoleError;

    fn from_str(text: &str) -> Result<ApiRole, ApiRoleError> {
        let mut all = ApiRole::ALL.iter().copied();
        all.find(|role| role.as_str() == text)
            .ok_or_else(|| ApiRoleError(text.to_owned()))
    }
}

/// Which jobs an API token is for: all of them, written `null`, or those of some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    try_from = "Option<BTreeSet<NamespaceName>>",
    into = "Option<BTreeSet<NamespaceName>>"
)]
pub struct Reach(Option<BTreeSet<NamespaceName>>);

/// No namespace at all, which is neither everything nor of any use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no namespace in the list: name at least one, or leave the list out for all")]
pub struct ReachError;

impl Reach {
    /// Everything, what belongs to no job included.
    pub const ALL: Reach = Reach(None);

    /// The namespaces, where it is limited to some.
    pub fn namespaces(&self) -> Option<&BTreeSet<NamespaceName>> {
        self.0.as_ref()
    }

    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    pub fn holds(&self, job: &JobName) -> bool {
        self.0
            .as_ref()
            .is_none_or(|own| own.iter().any(|namespace| namespace.holds(job)))
    }
}

/// Everything: what nobody in particular asks, such as the coordinator itself, has no limit.
impl Default for Reach {
    fn default() -> Reach {
        Reach::ALL
    }
}

impl TryFrom<Option<BTreeSet<NamespaceName>>> for Reach {
    type Error = ReachError;

    fn try_from(namespaces: Option<BTreeSet<NamespaceName>>) -> Result<Reach, ReachError> {
        match namespaces {
            Some(none) if none.is_empty() => Err(ReachError),
            namespaces => Ok(Reach(namespaces)),
        }
    }
}

impl From<Reach> for Option<BTreeSet<NamespaceName>> {
    fn from(reach: Reach) -> Option<BTreeSet<NamespaceName>> {
        reach.0
    }
}

/// `everything`, or `finance/*, data/*`.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(own) = &self.0 else {
            return f.write_str("everything");
        };
        for (i, namespace) in own.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{namespace}/*")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_may_what_those_before_it_may() {
        assert!(ApiRole::ALL.is_sorted());
        for role in ApiRole::ALL {
            assert_eq!(role.to_string().parse(), Ok(*role));
        }
        assert!("root".parse::<ApiRole>().is_err());
    }

    #[test]
    fn a_reach_holds_its_namespaces_and_nothing_is_no_reach() {
        let job: JobName = "finance/close".parse().unwrap();
        for (written, held, shown) in [
            ("null", true, "everything"),
            (r#"["finance"]"#, true, "finance/*"),
            (r#"["hr","data"]"#, false, "data/*, hr/*"),
        ] {
            let reach: Reach = serde_json::from_str(written).unwrap();
            assert_eq!(reach.holds(&job), held, "{written}");
            assert_eq!(reach.is_all(), written == "null");
            assert_eq!(reach.to_string(), shown);
            let again = serde_json::to_string(&reach).unwrap();
            assert_eq!(serde_json::from_str::<Reach>(&again).unwrap(), reach);
        }
        let none = serde_json::from_str::<Reach>("[]").unwrap_err().to_string();
        assert!(none.contains("name at least one"), "{none}");
    }
}
