//! How hosts and control machines are let into a cluster: what is asked, and what is answered.

use serde::{Deserialize, Serialize};

use super::text::{IdText, Rfc3339, Rfc3339OrNull};
use crate::time::WallMs;
use crate::{AgentName, ClusterId, JoinTokenId, Role};

/// Most that one join token lets in.
pub const JOIN_USES_MAX: u32 = 100_000;

/// `POST /join-tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJoinTokenRequest {
    /// What those are that it lets in.
    #[serde(default)]
    pub role: Role,
    /// How many it lets in.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = JOIN_USES_MAX)))]
    pub uses: u32,
    #[serde(with = "Rfc3339")]
    pub expires_at: WallMs,
    /// What their names begin with; `null`: any name.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(extend("pattern" = "^[a-z0-9][a-z0-9-]{0,61}$"))
    )]
    pub name_prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What is needed to be let in; the only time that the secret is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedJoinToken {
    #[serde(with = "IdText::<JoinTokenId>")]
    pub id: JoinTokenId,
    pub role: Role,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cluster: ClusterId,
    /// SHA-256 of the authority's certificate, by which the cluster is known.
    pub authority: String,
    pub secret: String,
    #[serde(with = "Rfc3339")]
    pub expires_at: WallMs,
}

/// A join token as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinToken {
    #[serde(with = "IdText::<JoinTokenId>")]
    pub id: JoinTokenId,
    pub role: Role,
    /// `null`: any name.
    pub name_prefix: Option<String>,
    pub uses: u32,
    pub uses_left: u32,
    #[serde(with = "Rfc3339")]
    pub created_at: WallMs,
    pub created_by: String,
    #[serde(with = "Rfc3339")]
    pub expires_at: WallMs,
    #[serde(with = "Rfc3339OrNull")]
    pub revoked_at: Option<WallMs>,
    pub revoked_by: Option<String>,
}

/// `POST /join-tokens/{id}/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeJoinTokenRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokeJoinTokenAnswer {
    #[serde(with = "IdText::<JoinTokenId>")]
    pub id: JoinTokenId,
    /// False where it had been revoked before.
    pub changed: bool,
}

/// `POST /enrol`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    pub secret: String,
    /// As what it wants to be let in: the token says who may.
    #[serde(default)]
    pub role: Role,
    pub name: AgentName,
    /// A request for a certificate (PKCS #10) in PEM, signed with the asker's own key. Whom it names
    /// is not looked at.
    pub request: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnrolAnswer {
    /// In PEM.
    pub certificate: String,
    /// The cluster's authorities, in PEM.
    pub authorities: String,
    /// Number of a control machine, which its certificate states; `null` of a host.
    pub node: Option<u64>,
}
