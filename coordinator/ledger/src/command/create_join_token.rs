use protocol::WallMs;
use serde::{Deserialize, Serialize};

use super::create_token::is_digest;
use crate::apply::{Context, Stop, clip, malformed};
use crate::outcome::Done;
use crate::tables::join::JoinToken;
use crate::tables::record::{Audit, On};

/// An admin makes a token by which hosts are let in: so many, for so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateJoinToken {
    /// SHA-256 of the secret, 64 hexadecimal digits in lower case.
    pub secret: String,
    /// What the names of the hosts begin with; empty for any.
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
        let token = JoinToken {
            name_prefix: clip(&self.name_prefix).to_owned(),
            uses_left: self.uses,
            expires_at: self.expires_at,
        };
        context.insert_join_token(&self.secret, &token, by)?;
        let what = format!(
            "{} uses until {}, for names that begin with `{}`",
            self.uses, self.expires_at, token.name_prefix
        );
        context.audit(Audit {
            by,
            action: "create join token",
            on: On::All,
            reason: Some(clip(&what)),
        })?;
        Ok(Done::JoinTokenCreated)
    }
}
