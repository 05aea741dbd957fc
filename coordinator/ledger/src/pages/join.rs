//! Join tokens by page, the newest first.

use protocol::{JoinTokenId, api};

use super::{EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::tables::join::{JOIN_TOKEN_COLUMNS, show_join_token};

impl Answers<'_> {
    /// Those that are over too.
    pub(crate) fn join_tokens(
        &self,
        before: Option<JoinTokenId>,
        limit: u32,
    ) -> rusqlite::Result<Page<api::JoinToken, JoinTokenId>> {
        let walk = Walk {
            sql: format!(
                "SELECT {JOIN_TOKEN_COLUMNS} FROM join_tokens WHERE join_token_id < ?
                 ORDER BY join_token_id DESC"
            ),
            values: vec![before.map_or(i64::MAX, |before| before.0).into()],
            limit,
            examined_max: EXAMINED_MAX,
        };
        walk.go(self.conn, |row| {
            let token = show_join_token(row)?;
            Ok((token.id, Some(token)))
        })
    }
}
