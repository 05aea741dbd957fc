use protocol::{Role, WallMs};
use serde::{Deserialize, Serialize};

use super::create_token::is_digest;
use crate::apply::{Context, Stop, clip, malformed};
use crate::outcome::Done;
use crate::tables::join::NewJoinToken;
use crate::tables::record::{Audit, On};

/// An admin makes a token by which hosts or control machines are let in: so many, for so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateJoinToken {
    /// SHA-256 of the secret, 64 hexadecimal digits in lower case.
    pub secret: String,
    /// What those are that it lets in.
    pub role: Role,
    /// What their names begin with; empty for any.
    pub name_prefix: String,
    pub uses: u32,
    pub expires_at: WallMs,
    pub by: String,
}

impl CreateJoinToken {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if !is_digest(&self.secret) {
            return Err(malformed("the secret is not given as its SHA-256"));
        }
        let by = clip(&self.by);
        let name_prefix = clip(&self.name_prefix);
        let id = context.insert_join_token(&NewJoinToken {
            secret: &self.secret,
            role: self.role,
            name_prefix,
            uses: self.uses,
            expires_at: self.expires_at,
            by,
        })?;
        let named = match name_prefix {
            "" => String::new(),
            prefix => format!(", under names that begin with `{prefix}`"),
        };
        let what = format!(
            "{id}: lets {} in as {} until {}{named}",
            self.uses, self.role, self.expires_at
        );
        context.audit(Audit {
            by,
            action: "create join token",
            on: On::All,
            reason: Some(clip(&what)),
        })?;
        Ok(Done::JoinTokenCreated { id })
    }
}
