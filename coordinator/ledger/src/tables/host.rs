//! What hosts have registered, and how that differed from what they had registered before.

use protocol::host::{Difference, ProfileDigest};
use protocol::{AgentId, HostFacts, WallMs};
use rusqlite::{OptionalExtension, params};

use crate::apply::{Context, Stop};
use crate::codes::Coded;
use crate::command::AlertKind;
use crate::tables::record::On;

/// Differences that are kept of each host, the newest.
pub(crate) const CHANGES_KEPT: i64 = 100;

/// A host's profile as it is to be kept.
pub(crate) struct Profile<'a> {
    pub(crate) agent_id: AgentId,
    pub(crate) generation: u32,
    pub(crate) digest: ProfileDigest,
    pub(crate) facts: &'a HostFacts,
    pub(crate) report: &'a str,
}

impl Context<'_> {
    /// Puts a profile in the place of the one before.
    pub(crate) fn write_profile(&mut self, profile: &Profile<'_>) -> Result<(), Stop> {
        // Since when its generation is there stays as long as the generation does.
        self.conn
            .prepare_cached(
                "INSERT INTO host_profiles VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
                 ON CONFLICT (agent_id) DO UPDATE SET
                    since = iif(generation = ?2, since, ?4),
                    generation = ?2, digest = ?3, registered_at = ?4, facts = ?5, report = ?6",
            )?
            .execute(params![
                profile.agent_id.0,
                profile.generation,
                profile.digest.to_string(),
                self.at.0,
                serde_json::to_string(profile.facts).expect("facts by name are always JSON"),
                profile.report,
            ])?;
        Ok(())
    }

    /// Adds to what is known of a host's changes, and forgets the oldest.
    pub(crate) fn note_changes(
        &mut self,
        agent_id: AgentId,
        generation: u32,
        differences: &[Difference],
    ) -> Result<(), Stop> {
        let mut newest: i64 = self
            .conn
            .prepare_cached("SELECT coalesce(max(n), 0) FROM host_changes WHERE agent_id = ?1")?
            .query_row([agent_id.0], |row| row.get(0))?;
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO host_changes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        for difference in differences {
            newest += 1;
            insert.execute(params![
                agent_id.0,
                newest,
                self.at.0,
                generation,
                difference.turn.code(),
                difference.about,
                difference.before,
                difference.after,
            ])?;
        }
        self.conn
            .prepare_cached("DELETE FROM host_changes WHERE agent_id = ?1 AND n <= ?2")?
            .execute(params![agent_id.0, newest - CHANGES_KEPT])?;
        Ok(())
    }

    /// What has vanished or got worse since the open alert about the host began, and is still so;
    /// `None` where no alert is open.
    pub(crate) fn still_missed(&self, agent_id: AgentId) -> Result<Option<Vec<String>>, Stop> {
        let Some(since) = self.open_since(AlertKind::HostChanged, On::Agent(agent_id))? else {
            return Ok(None);
        };
        // Of each thing the last that was told.
        let missed = self
            .conn
            .prepare_cached(
                "SELECT about FROM host_changes c
                 WHERE agent_id = ?1 AND at >= ?2 AND turn IN (?3, ?4) AND NOT EXISTS (
                    SELECT 1 FROM host_changes later
                    WHERE later.agent_id = ?1 AND later.about = c.about AND later.n > c.n)
                 ORDER BY n",
            )?
            .query_map(
                params![
                    agent_id.0,
                    since.0,
                    protocol::host::Turn::Vanished.code(),
                    protocol::host::Turn::Worse.code()
                ],
                |row| row.get(0),
            )?
            .collect::<Result<_, _>>()?;
        Ok(Some(missed))
    }

    /// Since when a matter is open, if it is.
    fn open_since(&self, kind: AlertKind, on: On) -> Result<Option<WallMs>, Stop> {
        let (_, _, agent_id) = on.ids();
        Ok(self
            .conn
            .prepare_cached(
                "SELECT at FROM alerts WHERE kind = ?1 AND about = ?2 AND cleared_at IS NULL",
            )?
            .query_row(params![kind.code(), agent_id], |row| row.get(0).map(WallMs))
            .optional()?)
    }
}
