//! The one row of counters: how far the log has been applied, and what is minted next.

use protocol::{AgentId, AlertId, Epoch, ExecutionId, JobId, RunId};
use rusqlite::{Connection, params};

/// Read at the start of a batch and written at its end, in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Commands applied so far, refused ones included.
    pub(crate) last_applied: i64,
    /// The counter behind tokens, epochs, sessions and fences; see [`protocol::ids`]. Its upper
    /// bits are the generation, so adding one carries into it.
    pub(crate) position: i64,
    pub(crate) epoch: Option<Epoch>,
    jobs: i64,
    runs: i64,
    executions: i64,
    agents: i64,
    alerts: i64,
    gaps: i64,
    audits: i64,
    /// Alerts that are not cleared. While there is none, nobody looks for one.
    pub(crate) open_alerts: i64,
    /// The position with which the ledger went on when it was last restored.
    pub(crate) restored: Option<i64>,
    /// The ledger was restored, and nothing is granted yet.
    pub(crate) held: bool,
}

fn next(counter: &mut i64) -> i64 {
    *counter += 1;
    *counter
}

impl Meta {
    pub(crate) fn load(conn: &Connection) -> rusqlite::Result<Meta> {
        conn.prepare_cached(
            "SELECT last_applied, position, epoch, jobs, runs, executions, agents, alerts, gaps,
                audits, open_alerts, restored, held FROM meta WHERE id = 1",
        )?
        .query_row([], |row| {
            Ok(Meta {
                last_applied: row.get(0)?,
                position: row.get(1)?,
                epoch: row.get::<_, Option<i64>>(2)?.map(Epoch),
                jobs: row.get(3)?,
                runs: row.get(4)?,
                executions: row.get(5)?,
                agents: row.get(6)?,
                alerts: row.get(7)?,
                gaps: row.get(8)?,
                audits: row.get(9)?,
                open_alerts: row.get(10)?,
                restored: row.get(11)?,
                held: row.get(12)?,
            })
        })
    }

    pub(crate) fn save(&self, conn: &Connection) -> rusqlite::Result<()> {
        conn.prepare_cached(
            "UPDATE meta SET last_applied = ?1, position = ?2, epoch = ?3, jobs = ?4, runs = ?5,
                executions = ?6, agents = ?7, alerts = ?8, gaps = ?9, audits = ?10,
                open_alerts = ?11, restored = ?12, held = ?13 WHERE id = 1",
        )?
        .execute(params![
            self.last_applied,
            self.position,
            self.epoch.map(|epoch| epoch.0),
            self.jobs,
            self.runs,
            self.executions,
            self.agents,
            self.alerts,
            self.gaps,
            self.audits,
            self.open_alerts,
            self.restored,
            self.held,
        ])?;
        Ok(())
    }

    /// Whatever is minted from here on lies above `floor`, and by more than `skipped` above every id of
    /// any kind that was minted before: what people and programs may have kept of ids that this ledger
    /// has forgotten stands for something else for ever.
    pub(crate) fn raise_ids(&mut self, floor: i64, skipped: i64) {
        let counters = [
            &mut self.jobs,
            &mut self.runs,
            &mut self.executions,
            &mut self.agents,
            &mut self.alerts,
            &mut self.gaps,
            &mut self.audits,
        ];
        let highest = counters.iter().fold(0, |highest, id| highest.max(**id));
        let floor = floor.max(highest.saturating_add(skipped));
        for counter in counters {
            *counter = floor;
        }
    }

    pub(crate) fn mint_position(&mut self) -> i64 {
        next(&mut self.position)
    }

    pub(crate) fn mint_job(&mut self) -> JobId {
        JobId(next(&mut self.jobs))
    }

    pub(crate) fn mint_run(&mut self) -> RunId {
        RunId(next(&mut self.runs))
    }

    pub(crate) fn mint_execution(&mut self) -> ExecutionId {
        ExecutionId(next(&mut self.executions))
    }

    pub(crate) fn mint_agent(&mut self) -> AgentId {
        AgentId(next(&mut self.agents))
    }

    pub(crate) fn mint_alert(&mut self) -> AlertId {
        AlertId(next(&mut self.alerts))
    }

    pub(crate) fn mint_gap(&mut self) -> i64 {
        next(&mut self.gaps)
    }

    pub(crate) fn mint_audit(&mut self) -> i64 {
        next(&mut self.audits)
    }
}
