//! What hosts have registered.

use protocol::host::Turn;
use protocol::{AgentName, HostProfile, WallMs, api};
use rusqlite::{OptionalExtension, Row, params};

use crate::answers::Answers;
use crate::codes::{coded, json};

/// A host's newest profile.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredProfile {
    /// See [`ProfileRow`](crate::ProfileRow).
    pub generation: u32,
    /// Since when it is of this generation.
    pub since: WallMs,
    pub registered_at: WallMs,
    pub profile: HostProfile,
}

impl Answers<'_> {
    pub(crate) fn host_profile(
        &self,
        name: &AgentName,
    ) -> rusqlite::Result<Option<RegisteredProfile>> {
        self.conn
            .prepare_cached(
                "SELECT generation, since, registered_at, facts, report
                 FROM host_profiles JOIN agents USING (agent_id) WHERE name = ?1",
            )?
            .query_row([name.as_str()], |row| {
                Ok(RegisteredProfile {
                    generation: row.get(0)?,
                    since: WallMs(row.get(1)?),
                    registered_at: WallMs(row.get(2)?),
                    profile: HostProfile {
                        facts: json(row, 3)?,
                        report: json(row, 4)?,
                    },
                })
            })
            .optional()
    }

    /// How a host's profiles differed, the newest first.
    pub(crate) fn host_changes(
        &self,
        name: &AgentName,
        limit: u32,
    ) -> rusqlite::Result<Vec<api::HostChange>> {
        self.conn
            .prepare_cached(
                "SELECT at, generation, turn, about, before, after
                 FROM host_changes JOIN agents USING (agent_id) WHERE name = ?1
                 ORDER BY n DESC LIMIT ?2",
            )?
            .query_map(params![name.as_str(), limit], show_change)?
            .collect()
    }
}

fn show_change(row: &Row<'_>) -> rusqlite::Result<api::HostChange> {
    Ok(api::HostChange {
        at: WallMs(row.get(0)?),
        generation: row.get(1)?,
        turn: coded::<Turn>(row, 2)?,
        about: row.get(3)?,
        before: row.get(4)?,
        after: row.get(5)?,
    })
}
