//! API tokens by page, in the order of their names.

use protocol::{TokenName, api};

use super::Page;
use super::fleet::by_name;
use crate::answers::Answers;
use crate::tables::token::{TOKEN_COLUMNS, read_token};

impl Answers<'_> {
    /// Revoked ones too.
    pub(crate) fn tokens(
        &self,
        after: Option<&TokenName>,
        limit: u32,
    ) -> rusqlite::Result<Page<api::ApiToken, TokenName>> {
        let after = after.map(TokenName::as_str);
        let walk = by_name(TOKEN_COLUMNS, "api_tokens", after, limit);
        walk.go(self.conn, |row| {
            let token = read_token(row)?;
            Ok((token.name.clone(), Some(token.show())))
        })
    }
}
