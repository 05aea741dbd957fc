//! API tokens: who may ask, by the digest of a secret.
//!
//! The secret is 256 random bits, drawn outside and told once; only its SHA-256 enters the log. A
//! slow, salted hash, as passwords need, would gain nothing here: it guards words that somebody can
//! guess, and nobody guesses 256 random bits, however fast a guess is tried. The gate hashes with
//! every request, so a fast one it is.

use protocol::{ApiRole, Reach, TokenName, WallMs, api};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{Coded, coded, json, named};

/// An API token as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub name: TokenName,
    pub role: ApiRole,
    pub reach: Reach,
    pub created_at: WallMs,
    pub created_by: String,
    pub expires_at: Option<WallMs>,
    pub revoked: Option<RevokedToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedToken {
    pub at: WallMs,
    pub by: String,
}

pub(crate) const TOKEN_COLUMNS: &str =
    "name, role, namespaces, created_at, created_by, expires_at, revoked_at, revoked_by";

pub(crate) fn read_token(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    let revoked_at: Option<i64> = row.get(6)?;
    let revoked = match revoked_at {
        Some(at) => Some(RevokedToken {
            at: WallMs(at),
            by: row.get(7)?,
        }),
        None => None,
    };
    Ok(TokenRow {
        name: named(row, 0)?,
        role: coded(row, 1)?,
        reach: json(row, 2)?,
        created_at: WallMs(row.get(3)?),
        created_by: row.get(4)?,
        expires_at: row.get::<_, Option<i64>>(5)?.map(WallMs),
        revoked,
    })
}

/// The token with the secret of this digest.
pub(crate) fn find_token_by_secret(
    conn: &Connection,
    secret: &str,
) -> rusqlite::Result<Option<TokenRow>> {
    conn.prepare_cached(&format!(
        "SELECT {TOKEN_COLUMNS} FROM api_tokens WHERE secret = ?1"
    ))?
    .query_row([secret], read_token)
    .optional()
}

impl TokenRow {
    pub(crate) fn show(self) -> api::ApiToken {
        let (revoked_at, revoked_by) = self.revoked.map(|revoked| (revoked.at, revoked.by)).unzip();
        api::ApiToken {
            name: self.name,
            role: self.role,
            namespaces: self.reach,
            created_at: self.created_at,
            created_by: self.created_by,
            expires_at: self.expires_at,
            revoked_at,
            revoked_by,
        }
    }
}

impl Context<'_> {
    pub(crate) fn token_named(&self, name: &TokenName) -> Result<Option<TokenRow>, Stop> {
        let found = self
            .conn
            .prepare_cached(&format!(
                "SELECT {TOKEN_COLUMNS} FROM api_tokens WHERE name = ?1"
            ))?
            .query_row([name.as_str()], read_token)
            .optional()?;
        Ok(found)
    }

    pub(crate) fn insert_token(&mut self, token: &TokenRow, secret: &str) -> Result<(), Stop> {
        let namespaces = serde_json::to_string(&token.reach).expect("names are always JSON");
        self.conn
            .prepare_cached(
                "INSERT INTO api_tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, NULL)",
            )?
            .execute(params![
                token.name.as_str(),
                secret,
                token.role.code(),
                namespaces,
                token.created_at.0,
                token.created_by,
                token.expires_at.map(|at| at.0),
            ])?;
        Ok(())
    }

    pub(crate) fn mark_token_revoked(&mut self, name: &TokenName, by: &str) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "UPDATE api_tokens SET revoked_at = ?2, revoked_by = ?3 WHERE name = ?1",
            )?
            .execute(params![name.as_str(), self.at.0, by])?;
        Ok(())
    }
}
