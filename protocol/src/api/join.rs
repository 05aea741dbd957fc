//! How hosts are let into a cluster: what is asked, and what is answered.

use serde::{Deserialize, Serialize};

use super::text::Rfc3339;
use crate::time::WallMs;
use crate::{AgentName, ClusterId};

/// Most hosts that one join token lets in.
pub const JOIN_USES_MAX: u32 = 100_000;

/// `POST /join-tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateJoinTokenRequest {
    /// How many hosts it lets in.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = JOIN_USES_MAX)))]
    pub uses: u32,
    #[serde(with = "Rfc3339")]
    pub expires_at: WallMs,
    /// What the names of the hosts begin with; `null`: any name.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(extend("pattern" = "^[a-z0-9][a-z0-9-]{0,61}$"))
    )]
    pub name_prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a host needs to be let in; the only time that the secret is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedJoinToken {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cluster: ClusterId,
    /// SHA-256 of the authority's certificate, by which the host knows the cluster.
    pub authority: String,
    pub secret: String,
    #[serde(with = "Rfc3339")]
    pub expires_at: WallMs,
}

/// `POST /enrol`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    pub secret: String,
    pub name: AgentName,
    /// A request for a certificate (PKCS #10) in PEM, signed with the host's own key. Whom it names
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
}
