//! API tokens: what is asked about them, and what is answered.

use serde::{Deserialize, Serialize};

use super::text::{Rfc3339, Rfc3339OrNull};
use crate::time::WallMs;
use crate::{ApiRole, Reach, TokenName};

/// `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateTokenRequest {
    /// Stands in the audit for whoever has the token. Never given twice.
    pub name: TokenName,
    pub role: ApiRole,
    /// The namespaces it is for; `null`: everything. Must be said: a field forgotten must not open
    /// everything.
    #[serde(deserialize_with = "Deserialize::deserialize")]
    pub namespaces: Reach,
    /// When it ends; `null`: when it is revoked.
    #[serde(with = "Rfc3339OrNull", default)]
    pub expires_at: Option<WallMs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Answer to a new token: the only time that its secret is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    pub name: TokenName,
    /// What its bearer sends: `Authorization: Bearer TOKEN`.
    pub token: String,
    pub role: ApiRole,
    pub namespaces: Reach,
    #[serde(with = "Rfc3339OrNull")]
    pub expires_at: Option<WallMs>,
}

/// A token as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiToken {
    pub name: TokenName,
    pub role: ApiRole,
    /// `null`: everything.
    pub namespaces: Reach,
    #[serde(with = "Rfc3339")]
    pub created_at: WallMs,
    pub created_by: String,
    #[serde(with = "Rfc3339OrNull")]
    pub expires_at: Option<WallMs>,
    #[serde(with = "Rfc3339OrNull")]
    pub revoked_at: Option<WallMs>,
    pub revoked_by: Option<String>,
}

/// `POST /tokens/{name}/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeTokenRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokeTokenAnswer {
    pub name: TokenName,
    /// False where it had been revoked before.
    pub changed: bool,
}
