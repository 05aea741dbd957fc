//! When leases were granted, told and ended, and when agents attached: what a benchmark asks after it
//! is over.

use protocol::{AgentId, RunId, Token, WallMs};
use rusqlite::Connection;

/// One lease that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    pub token: Token,
    pub run_id: RunId,
    pub shard: u32,
    /// When the leader decided it, by its clock.
    pub granted_at: WallMs,
    /// When its host began, by the host's clock; `None` where it did not.
    pub started_at: Option<WallMs>,
    /// When it ended, by the host's clock where the host reported it.
    pub ended_at: WallMs,
}

/// Walks all attempts: there is no index by time, and nobody else should need one.
pub(crate) fn ended(
    conn: &Connection,
    from: WallMs,
    until: WallMs,
) -> rusqlite::Result<Vec<LeaseTimes>> {
    conn.prepare(
        "SELECT token, run_id, shard, granted_at, started_at, ended_at FROM attempts
         WHERE ended_at >= ?1 AND ended_at < ?2",
    )?
    .query_map([from.0, until.0], |row| {
        Ok(LeaseTimes {
            token: Token(row.get(0)?),
            run_id: RunId(row.get(1)?),
            shard: row.get(2)?,
            granted_at: WallMs(row.get(3)?),
            started_at: row.get::<_, Option<i64>>(4)?.map(WallMs),
            ended_at: WallMs(row.get(5)?),
        })
    })?
    .collect()
}

/// Who attached at this moment or later, and when, by the clock of the leader.
pub(crate) fn attached(
    conn: &Connection,
    from: WallMs,
) -> rusqlite::Result<Vec<(AgentId, WallMs)>> {
    conn.prepare("SELECT agent_id, attached_at FROM sessions WHERE attached_at >= ?1")?
        .query_map([from.0], |row| {
            Ok((AgentId(row.get(0)?), WallMs(row.get(1)?)))
        })?
        .collect()
}
