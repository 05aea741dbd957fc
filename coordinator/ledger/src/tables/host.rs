//! What hosts have registered, and how that differed from what they had registered before.

use protocol::host::{Difference, ProfileDigest, Turn};
use protocol::{AgentId, HostFacts, WallMs};
use rusqlite::{OptionalExtension, params};

use crate::apply::{Context, Stop};
use crate::codes::Coded;
use crate::command::AlertKind;

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

    /// Whether an alert about the host is open and nothing that has vanished or got worse since it began is
    /// still so. Where changes of that time are forgotten nobody can tell, and it is left to a person.
    pub(crate) fn is_whole_again(&self, agent_id: AgentId) -> Result<bool, Stop> {
        let Some(since) = self.open_since(AlertKind::HostChanged, agent_id)? else {
            return Ok(false);
        };
        let oldest_kept: Option<(i64, i64)> = self
            .conn
            .prepare_cached(
                "SELECT n, at FROM host_changes WHERE agent_id = ?1 ORDER BY n LIMIT 1",
            )?
            .query_row([agent_id.0], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if oldest_kept.is_some_and(|(n, at)| n > 1 && at >= since.0) {
            return Ok(false);
        }
        // Of each thing the last that was told.
        let still_missed = self
            .conn
            .prepare_cached(
                "SELECT EXISTS (
                    SELECT 1 FROM host_changes c
                    WHERE agent_id = ?1 AND at >= ?2 AND turn IN (?3, ?4) AND NOT EXISTS (
                        SELECT 1 FROM host_changes later
                        WHERE later.agent_id = ?1 AND later.about = c.about AND later.n > c.n))",
            )?
            .query_row(
                params![
                    agent_id.0,
                    since.0,
                    Turn::Vanished.code(),
                    Turn::Worse.code()
                ],
                |row| row.get::<_, bool>(0),
            )?;
        Ok(!still_missed)
    }

    /// Since when a matter of an agent is open, if it is.
    fn open_since(&self, kind: AlertKind, agent_id: AgentId) -> Result<Option<WallMs>, Stop> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT at FROM alerts WHERE kind = ?1 AND about = ?2 AND cleared_at IS NULL",
            )?
            .query_row(params![kind.code(), agent_id.0], |row| {
                row.get(0).map(WallMs)
            })
            .optional()?)
    }
}
