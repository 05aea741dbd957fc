//! What the commands about leases meet again and again within one batch.
//!
//! Hundreds of leases of one run are granted and finished in one batch, and each of them counts its
//! shard in the run and looks at its agent. So while one such command follows the other, the rows
//! of runs are written once, when they are done, and those of agents read once. Before any other
//! command everything is in the tables again: it may ask them whatever it likes.

use std::collections::BTreeMap;

use protocol::{AgentId, RunId, SessionId};
use rusqlite::Connection;

use crate::command::Command;
use crate::tables::agent::{Agent, Session};
use crate::tables::run::{Run, write_run};

#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Whether rows are held back at all just now.
    on: bool,
    /// Newer than the table's.
    runs: BTreeMap<RunId, Run>,
    /// As the tables have them.
    agents: BTreeMap<AgentId, Agent>,
    sessions: BTreeMap<SessionId, Session>,
    /// Rows put into `runs` so far.
    writes: u64,
}

impl Held {
    /// To be called before each command of a batch.
    pub(crate) fn prepare_for(
        &mut self,
        conn: &Connection,
        command: &Command,
    ) -> rusqlite::Result<()> {
        self.on = matches!(
            command,
            Command::Grant(_) | Command::MarkStarted(_) | Command::Finish(_) | Command::Expire(_)
        );
        if !self.on {
            self.write_back(conn)?;
            self.agents.clear();
            self.sessions.clear();
        }
        Ok(())
    }

    /// Writes what is newer here.
    pub(crate) fn write_back(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        while let Some((_, run)) = self.runs.pop_first() {
            write_run(conn, &run)?;
        }
        Ok(())
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    pub(crate) fn run(&self, run_id: RunId) -> Option<&Run> {
        self.runs.get(&run_id)
    }

    /// Answers whether it holds the row; where not, it is for the caller to write.
    pub(crate) fn hold_run(&mut self, run: &Run) -> bool {
        if self.on {
            self.writes += 1;
            self.runs.insert(run.row.run_id, run.clone());
        }
        self.on
    }

    pub(crate) fn agent(&self, agent_id: AgentId) -> Option<&Agent> {
        self.agents.get(&agent_id)
    }

    pub(crate) fn keep_agent(&mut self, agent: &Agent) {
        if self.on {
            self.agents.insert(agent.row.agent_id, agent.clone());
        }
    }

    pub(crate) fn session(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(&session)
    }

    pub(crate) fn keep_session(&mut self, session: &Session) {
        if self.on {
            self.sessions.insert(session.session, session.clone());
        }
    }
}
