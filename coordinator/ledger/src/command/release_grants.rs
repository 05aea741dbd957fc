use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::Done;

/// Ends the hold of a restored ledger: every lease that the group of before may have granted has run
/// out by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseGrants {}

impl ReleaseGrants {
    pub(crate) fn apply(context: &mut Context<'_>) -> Result<Done, Stop> {
        if context.meta.held {
            context.meta.held = false;
            context.changes.held(false);
            context.conn.execute(
                "UPDATE restores SET released_at = ?1 WHERE released_at IS NULL",
                params![context.at.0],
            )?;
        }
        Ok(Done::GrantsReleased)
    }
}
