//! Join tokens, and the hosts that were let in by them.
//!
//! As of other tokens (see [`token`](super::token)) only the digest of a secret is kept.

use protocol::{AgentName, WallMs};
use rusqlite::{OptionalExtension, params};

use crate::apply::{Context, Stop};

/// A join token as far as it is judged.
pub(crate) struct JoinToken {
    pub(crate) name_prefix: String,
    pub(crate) uses_left: u32,
    pub(crate) expires_at: WallMs,
}

impl Context<'_> {
    pub(crate) fn join_token(&self, secret: &str) -> Result<Option<JoinToken>, Stop> {
        let found = self
            .conn
            .prepare_cached(
                "SELECT name_prefix, uses_left, expires_at FROM join_tokens WHERE secret = ?1",
            )?
            .query_row([secret], |row| {
                Ok(JoinToken {
                    name_prefix: row.get(0)?,
                    uses_left: row.get(1)?,
                    expires_at: WallMs(row.get(2)?),
                })
            })
            .optional()?;
        Ok(found)
    }

    pub(crate) fn insert_join_token(
        &mut self,
        secret: &str,
        token: &JoinToken,
        by: &str,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached("INSERT INTO join_tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![
                secret,
                token.name_prefix,
                token.uses_left,
                token.expires_at.0,
                self.at.0,
                by
            ])?;
        Ok(())
    }

    /// The digest of the key that a host of this name was enrolled with.
    pub(crate) fn enrolled_key(&self, name: &AgentName) -> Result<Option<String>, Stop> {
        let found = self
            .conn
            .prepare_cached("SELECT key FROM enrolments WHERE name = ?1")?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()?;
        Ok(found)
    }

    /// Notes a host, and that its join token has been used once more.
    pub(crate) fn insert_enrolment(
        &mut self,
        name: &AgentName,
        key: &str,
        secret: &str,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached("INSERT INTO enrolments VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![name.as_str(), key, secret, self.at.0])?;
        self.conn
            .prepare_cached("UPDATE join_tokens SET uses_left = uses_left - 1 WHERE secret = ?1")?
            .execute([secret])?;
        Ok(())
    }
}
