//! Join tokens, and who was let in: by them, or by hand and renewed since.
//!
//! As of other tokens (see [`token`](super::token)) only the digest of a secret is kept. Who was let in
//! is known by the digest of its key, which stays the same through every renewal. A row is never
//! removed: the numbers of control machines are given once.

use protocol::{AgentName, JoinTokenId, Role, WallMs, api};
use rusqlite::{OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{Coded, coded, named};

/// A join token as far as it is judged.
pub(crate) struct JoinToken {
    pub(crate) role: Role,
    pub(crate) name_prefix: String,
    pub(crate) uses_left: u32,
    pub(crate) expires_at: WallMs,
    pub(crate) revoked_at: Option<WallMs>,
}

pub(crate) struct NewJoinToken<'a> {
    pub(crate) secret: &'a str,
    pub(crate) role: Role,
    pub(crate) name_prefix: &'a str,
    pub(crate) uses: u32,
    pub(crate) expires_at: WallMs,
    pub(crate) by: &'a str,
}

/// Who a key is.
pub(crate) struct Enrolment {
    pub(crate) role: Role,
    pub(crate) name: AgentName,
    /// Of a control machine.
    pub(crate) node: Option<u64>,
}

/// No group gets this far, and SQLite's integers go beyond.
pub(crate) const NODE_MAX: u64 = 1 << 53;

const JUDGED: &str = "join_token_id, role, name_prefix, uses_left, expires_at, revoked_at";

fn read_judged(row: &Row<'_>) -> rusqlite::Result<(JoinTokenId, JoinToken)> {
    let token = JoinToken {
        role: coded(row, 1)?,
        name_prefix: row.get(2)?,
        uses_left: row.get(3)?,
        expires_at: WallMs(row.get(4)?),
        revoked_at: row.get::<_, Option<i64>>(5)?.map(WallMs),
    };
    Ok((JoinTokenId(row.get(0)?), token))
}

pub(crate) const JOIN_TOKEN_COLUMNS: &str = "join_token_id, role, name_prefix, uses, uses_left, \
     created_at, created_by, expires_at, revoked_at, revoked_by";

/// As lists show it.
pub(crate) fn show_join_token(row: &Row<'_>) -> rusqlite::Result<api::JoinToken> {
    let name_prefix: String = row.get(2)?;
    Ok(api::JoinToken {
        id: JoinTokenId(row.get(0)?),
        role: coded(row, 1)?,
        name_prefix: Some(name_prefix).filter(|prefix| !prefix.is_empty()),
        uses: row.get(3)?,
        uses_left: row.get(4)?,
        created_at: WallMs(row.get(5)?),
        created_by: row.get(6)?,
        expires_at: WallMs(row.get(7)?),
        revoked_at: row.get::<_, Option<i64>>(8)?.map(WallMs),
        revoked_by: row.get(9)?,
    })
}

impl Context<'_> {
    pub(crate) fn join_token_by_secret(
        &self,
        secret: &str,
    ) -> Result<Option<(JoinTokenId, JoinToken)>, Stop> {
        let found = self
            .conn
            .prepare_cached(&format!(
                "SELECT {JUDGED} FROM join_tokens WHERE secret = ?1"
            ))?
            .query_row([secret], read_judged)
            .optional()?;
        Ok(found)
    }

    pub(crate) fn join_token(&self, id: JoinTokenId) -> Result<Option<JoinToken>, Stop> {
        let found = self
            .conn
            .prepare_cached(&format!(
                "SELECT {JUDGED} FROM join_tokens WHERE join_token_id = ?1"
            ))?
            .query_row([id.0], read_judged)
            .optional()?;
        Ok(found.map(|(_, token)| token))
    }

    pub(crate) fn insert_join_token(
        &mut self,
        token: &NewJoinToken<'_>,
    ) -> Result<JoinTokenId, Stop> {
        self.conn
            .prepare_cached(
                "INSERT INTO join_tokens VALUES (NULL, ?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, NULL, NULL)",
            )?
            .execute(params![
                token.secret,
                token.role.code(),
                token.name_prefix,
                token.uses,
                self.at.0,
                token.by,
                token.expires_at.0,
            ])?;
        Ok(JoinTokenId(self.conn.last_insert_rowid()))
    }

    pub(crate) fn mark_join_token_revoked(
        &mut self,
        id: JoinTokenId,
        by: &str,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "UPDATE join_tokens SET revoked_at = ?2, revoked_by = ?3 WHERE join_token_id = ?1",
            )?
            .execute(params![id.0, self.at.0, by])?;
        Ok(())
    }

    pub(crate) fn use_join_token(&mut self, id: JoinTokenId) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "UPDATE join_tokens SET uses_left = uses_left - 1 WHERE join_token_id = ?1",
            )?
            .execute([id.0])?;
        Ok(())
    }

    /// Who was let in with the key of this digest.
    pub(crate) fn enrolment_of(&self, key: &str) -> Result<Option<Enrolment>, Stop> {
        let found = self
            .conn
            .prepare_cached("SELECT role, name, node FROM enrolments WHERE key = ?1")?
            .query_row([key], |row| {
                Ok(Enrolment {
                    role: coded(row, 0)?,
                    name: named(row, 1)?,
                    node: row.get::<_, Option<i64>>(2)?.map(i64::unsigned_abs),
                })
            })
            .optional()?;
        Ok(found)
    }

    /// Whether a host of this name was let in, with whatever key.
    pub(crate) fn is_host_enrolled(&self, name: &AgentName) -> Result<bool, Stop> {
        let found = self
            .conn
            .prepare_cached("SELECT 1 FROM enrolments WHERE name = ?1 AND role = 0")?
            .exists([name.as_str()])?;
        Ok(found)
    }

    pub(crate) fn insert_enrolment(
        &mut self,
        key: &str,
        who: &Enrolment,
        by: Option<JoinTokenId>,
        good_until: WallMs,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached("INSERT INTO enrolments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                key,
                who.role.code(),
                who.name.as_str(),
                who.node.map(u64::cast_signed),
                by.map(|id| id.0),
                self.at.0,
                good_until.0,
            ])?;
        Ok(())
    }

    /// A host shows another key than before, by a certificate of the authority.
    pub(crate) fn replace_key(
        &mut self,
        name: &AgentName,
        key: &str,
        good_until: WallMs,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "UPDATE enrolments SET key = ?2, good_until = ?3 WHERE name = ?1 AND role = 0",
            )?
            .execute(params![name.as_str(), key, good_until.0])?;
        Ok(())
    }

    pub(crate) fn note_certificate(&mut self, key: &str, good_until: WallMs) -> Result<(), Stop> {
        self.conn
            .prepare_cached("UPDATE enrolments SET good_until = ?2 WHERE key = ?1")?
            .execute(params![key, good_until.0])?;
        Ok(())
    }

    /// A number for a control machine that none has had: neither one that was given here, nor one up
    /// to `above`.
    pub(crate) fn next_node(&self, above: u64) -> Result<u64, Stop> {
        let given: i64 = self
            .conn
            .prepare_cached(
                "SELECT ifnull(max(node), 0) FROM \
                 (SELECT node FROM enrolments UNION ALL SELECT node FROM control_machines)",
            )?
            .query_row([], |row| row.get(0))?;
        Ok(above.min(NODE_MAX).max(given.unsigned_abs()) + 1)
    }
}
