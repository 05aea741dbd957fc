//! When leases were granted, told and ended: what a benchmark asks after it is over.

use protocol::{RunId, WallMs};
use rusqlite::Connection;

/// One lease that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    pub run_id: RunId,
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
        "SELECT run_id, granted_at, started_at, ended_at FROM attempts
         WHERE ended_at >= ?1 AND ended_at < ?2",
    )?
    .query_map([from.0, until.0], |row| {
        Ok(LeaseTimes {
            run_id: RunId(row.get(0)?),
            granted_at: WallMs(row.get(1)?),
            started_at: row.get::<_, Option<i64>>(2)?.map(WallMs),
            ended_at: WallMs(row.get(3)?),
        })
    })?
    .collect()
}
