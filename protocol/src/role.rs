//! What a process of Matins is to the others, as its certificate states it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a peer may do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Dials coordinators and runs what they grant.
    #[default]
    Agent,
    /// Listens for agents, and for the other control machines.
    Coordinator,
    /// Listens for the other control machines only.
    Witness,
}

impl Role {
    pub const ALL: &'static [Role] = &[Role::Agent, Role::Coordinator, Role::Witness];

    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Agent => "agent",
            Role::Coordinator => "coordinator",
            Role::Witness => "witness",
        }
    }

    /// Whether it is a member of a control group, or would be one.
    pub const fn is_control(self) -> bool {
        matches!(self, Role::Coordinator | Role::Witness)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that names no role.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no role: there are agent, coordinator and witness")]
pub struct RoleError(String);

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Role, RoleError> {
        let mut all = Role::ALL.iter().copied();
        all.find(|role| role.as_str() == text)
            .ok_or_else(|| RoleError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_as_it_is_written() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(*role));
        }
        assert!("watchman".parse::<Role>().is_err());
    }
}
