//! Agents and their sessions.

use std::sync::Arc;

use protocol::host::NoDigest;
use protocol::message::Incarnation;
use protocol::{AgentId, AgentName, Health, Label, SessionId, WallMs};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{Coded, coded_option, damaged, json, json_option, named};
use crate::outcome::Refusal;
use crate::rows::{AgentRow, Bar, Cordon, ProfileRow};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) row: AgentRow,
    /// Why it is barred, in words.
    pub(crate) barred_reason: Option<String>,
    /// Who cordoned it and why, where it is cordoned.
    pub(crate) cordoned: Option<Cordoned>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cordoned {
    pub(crate) by: String,
    pub(crate) reason: String,
}

impl Agent {
    /// Why it gets no work, in words, where a person or a rule has decided so.
    pub(crate) fn why_out_of_service(&self) -> Option<String> {
        if self.row.barred.is_some() {
            return self.barred_reason.clone();
        }
        let cordoned = self.cordoned.as_ref()?;
        Some(format!("by {}: {}", cordoned.by, cordoned.reason))
    }

    /// Why it is served no more, if that is so.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let reason = self.barred_reason.clone().unwrap_or_default();
        Some(match self.row.barred? {
            Bar::Quarantined => Refusal::Quarantined { reason },
            Bar::Revoked => Refusal::Revoked { reason },
        })
    }

    /// The word of a revoked agent is worth nothing, and be it that its job succeeded.
    pub(crate) fn refuse_revoked(&self) -> Result<(), Refusal> {
        match self.refusal() {
            Some(refusal @ Refusal::Revoked { .. }) => Err(refusal),
            _ => Ok(()),
        }
    }
}

/// The state of an agent's host at one attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) session: SessionId,
    pub(crate) agent_id: AgentId,
    pub(crate) boot_id: String,
    pub(crate) agent: Incarnation,
    pub(crate) supervisor: Incarnation,
    pub(crate) swept: bool,
    pub(crate) ended_at: Option<WallMs>,
}

pub(crate) const AGENT_COLUMNS: &str = "agent_id, name, session, boot_id, supervisor, slots, labels, \
     facts, barred, barred_reason, cordon, cordon_by, cordon_reason, silent_reigns, noted_health, \
     generation, digest";

/// Where [`AGENT_COLUMNS`] are read from. Facts seldom change and are long, and agents are written with
/// every attach and every reign: so they lie in a table of their own.
pub(crate) const AGENTS: &str = "agents LEFT JOIN host_profiles USING (agent_id)";

pub(crate) fn read_agent(row: &Row<'_>) -> rusqlite::Result<Agent> {
    let cordon = coded_option(row, 10)?;
    let cordoned = cordon.map(|_: Cordon| -> rusqlite::Result<Cordoned> {
        let (by, reason) = (row.get(11)?, row.get(12)?);
        Ok(Cordoned { by, reason })
    });
    Ok(Agent {
        row: AgentRow {
            agent_id: AgentId(row.get(0)?),
            name: named(row, 1)?,
            session: row.get::<_, Option<i64>>(2)?.map(SessionId),
            boot_id: row.get(3)?,
            supervisor: Incarnation(row.get::<_, i64>(4)?.cast_unsigned()),
            slots: row.get(5)?,
            labels: json::<Vec<Label>>(row, 6)?.into(),
            facts: json_option(row, 7)?.map_or_else(Arc::default, Arc::new),
            profile: read_profile_row(row)?,
            barred: coded_option(row, 8)?,
            cordon,
            silent_reigns: row.get(13)?,
            health: coded_option(row, 14)?,
        },
        barred_reason: row.get(9)?,
        cordoned: cordoned.transpose()?,
    })
}

fn read_profile_row(row: &Row<'_>) -> rusqlite::Result<Option<ProfileRow>> {
    let Some(generation) = row.get(15)? else {
        return Ok(None);
    };
    let digest: String = row.get(16)?;
    let digest = digest
        .parse()
        .map_err(|error: NoDigest| damaged(16, Type::Text, &error.to_string()))?;
    Ok(Some(ProfileRow { generation, digest }))
}

pub(crate) fn list_agents(conn: &Connection) -> rusqlite::Result<Vec<Agent>> {
    conn.prepare_cached(&format!(
        "SELECT {AGENT_COLUMNS} FROM {AGENTS} ORDER BY agent_id"
    ))?
    .query_map([], read_agent)?
    .collect()
}

impl Context<'_> {
    pub(crate) fn agent(&self, agent_id: AgentId) -> Result<Option<Agent>, Stop> {
        if let Some(agent) = self.held.borrow().agent(agent_id) {
            return Ok(Some(agent.clone()));
        }
        let agent = self
            .conn
            .prepare_cached(&format!(
                "SELECT {AGENT_COLUMNS} FROM {AGENTS} WHERE agent_id = ?1"
            ))?
            .query_row([agent_id.0], read_agent)
            .optional()?;
        if let Some(agent) = &agent {
            self.held.borrow_mut().keep_agent(agent);
        }
        Ok(agent)
    }

    pub(crate) fn agent_named(&self, name: &AgentName) -> Result<Option<Agent>, Stop> {
        Ok(self
            .conn
            .prepare_cached(&format!(
                "SELECT {AGENT_COLUMNS} FROM {AGENTS} WHERE name = ?1"
            ))?
            .query_row([name.as_str()], read_agent)
            .optional()?)
    }

    /// The agent of a name that an operator has given: one that is there.
    pub(crate) fn known_agent(&self, name: &AgentName) -> Result<Agent, Stop> {
        let gone = || Refusal::NoAgentNamed { name: name.clone() };
        Ok(self.agent_named(name)?.ok_or_else(gone)?)
    }

    /// Writes an agent, be it new or known. What it has registered is not touched.
    pub(crate) fn write_agent(&mut self, agent: &Agent) -> Result<(), Stop> {
        let row = &agent.row;
        self.conn
            .prepare_cached(
                "INSERT INTO agents
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
                 ON CONFLICT (agent_id) DO UPDATE SET session = ?3, boot_id = ?4,
                    supervisor = ?5, slots = ?6, labels = ?7, barred = ?8, barred_reason = ?9,
                    cordon = ?10, cordon_by = ?11, cordon_reason = ?12, silent_reigns = ?13,
                    noted_health = ?14",
            )?
            .execute(params![
                row.agent_id.0,
                row.name.as_str(),
                row.session.map(|session| session.0),
                row.boot_id,
                row.supervisor.0.cast_signed(),
                row.slots,
                serde_json::to_string(&row.labels[..]).expect("a list of strings is always JSON"),
                row.barred.map(Bar::code),
                agent.barred_reason,
                row.cordon.map(Cordon::code),
                agent.cordoned.as_ref().map(|cordoned| &cordoned.by),
                agent.cordoned.as_ref().map(|cordoned| &cordoned.reason),
                row.silent_reigns,
                row.health.map(Health::code),
            ])?;
        self.changes.agent(row);
        Ok(())
    }

    /// Serves an agent no more, be it known or not: its session ends, its leases by their expiry.
    pub(crate) fn bar(
        &mut self,
        name: &AgentName,
        bar: Bar,
        reason: &str,
    ) -> Result<AgentId, Stop> {
        let mut agent = match self.agent_named(name)? {
            Some(agent) => agent,
            None => Agent {
                row: AgentRow::never_attached(self.meta.mint_agent(), name.clone()),
                barred_reason: None,
                cordoned: None,
            },
        };
        if let Some(session) = agent.row.session.take() {
            self.end_session(session)?;
        }
        agent.row.barred = Some(bar);
        agent.barred_reason = Some(reason.to_owned());
        self.write_agent(&agent)?;
        Ok(agent.row.agent_id)
    }

    pub(crate) fn session(&self, session: SessionId) -> Result<Option<Session>, Stop> {
        if let Some(known) = self.held.borrow().session(session) {
            return Ok(Some(known.clone()));
        }
        let found = self
            .conn
            .prepare_cached(
                "SELECT session, agent_id, boot_id, agent, supervisor, swept, ended_at
                 FROM sessions WHERE session = ?1",
            )?
            .query_row([session.0], |row| {
                Ok(Session {
                    session: SessionId(row.get(0)?),
                    agent_id: AgentId(row.get(1)?),
                    boot_id: row.get(2)?,
                    agent: Incarnation(row.get::<_, i64>(3)?.cast_unsigned()),
                    supervisor: Incarnation(row.get::<_, i64>(4)?.cast_unsigned()),
                    swept: row.get(5)?,
                    ended_at: row.get::<_, Option<i64>>(6)?.map(WallMs),
                })
            })
            .optional()?;
        if let Some(found) = &found {
            self.held.borrow_mut().keep_session(found);
        }
        Ok(found)
    }

    pub(crate) fn insert_session(&mut self, session: &Session) -> Result<(), Stop> {
        self.conn
            .prepare_cached("INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL)")?
            .execute(params![
                session.session.0,
                session.agent_id.0,
                session.boot_id,
                session.agent.0.cast_signed(),
                session.supervisor.0.cast_signed(),
                session.swept,
                self.at.0,
            ])?;
        Ok(())
    }

    pub(crate) fn end_session(&mut self, session: SessionId) -> Result<(), Stop> {
        self.conn
            .prepare_cached("UPDATE sessions SET ended_at = ?2 WHERE session = ?1")?
            .execute(params![session.0, self.at.0])?;
        Ok(())
    }
}
