//! Agents and resources by page, in the order of their names.

use protocol::{AgentName, ResourceName, api};
use rusqlite::{OptionalExtension, Row};

use super::{Conditions, EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::tables::agent::{AGENT_COLUMNS, read_agent};
use crate::tables::resource::{RESOURCE_COLUMNS, read_resource};

impl Answers<'_> {
    /// Agents. Whether one is offline only the leader's core knows.
    pub(crate) fn agents(
        &self,
        after: Option<&AgentName>,
        limit: u32,
    ) -> rusqlite::Result<Page<api::Agent, AgentName>> {
        let after = after.map(AgentName::as_str);
        let walk = by_name(&shown_agents(), "agents", after, limit);
        walk.go(self.conn, |row| {
            let agent = show_agent(row)?;
            Ok((agent.agent.clone(), Some(agent)))
        })
    }

    pub(crate) fn agent(&self, name: &AgentName) -> rusqlite::Result<Option<api::Agent>> {
        self.conn
            .prepare_cached(&format!(
                "SELECT {} FROM agents WHERE name = ?1",
                shown_agents()
            ))?
            .query_row([name.as_str()], show_agent)
            .optional()
    }

    pub(crate) fn resources(
        &self,
        after: Option<&ResourceName>,
        limit: u32,
    ) -> rusqlite::Result<Page<api::Resource, ResourceName>> {
        let after = after.map(ResourceName::as_str);
        let walk = by_name(RESOURCE_COLUMNS, "resources", after, limit);
        walk.go(self.conn, |row| {
            let found = read_resource(row)?;
            let shown = api::Resource {
                resource: found.name.as_str().to_owned(),
                capacity: found.capacity,
                in_use: found.in_use,
            };
            Ok((found.name, Some(shown)))
        })
    }
}

/// Along the key of the names.
pub(super) fn by_name(columns: &str, table: &str, after: Option<&str>, limit: u32) -> Walk {
    let mut key = Conditions::default();
    if let Some(after) = after {
        key.and("name > ?", [after.to_owned().into()]);
    }
    Walk {
        sql: format!(
            "SELECT {columns} FROM {table} WHERE {} ORDER BY name",
            key.sql()
        ),
        values: key.values,
        limit,
        examined_max: EXAMINED_MAX,
    }
}

/// What [`show_agent`] reads: an agent, and how many leases it holds.
fn shown_agents() -> String {
    format!(
        "{AGENT_COLUMNS}, (SELECT count(*) FROM shards s INDEXED BY shards_leased
            WHERE s.agent_id = agents.agent_id) AS leased"
    )
}

fn show_agent(row: &Row<'_>) -> rusqlite::Result<api::Agent> {
    let agent = read_agent(row)?;
    let state = match (agent.row.barred, agent.row.cordon, agent.row.session) {
        (Some(bar), ..) => bar.as_str(),
        (None, Some(cordon), _) => cordon.as_str(),
        (None, None, Some(_)) => "ready",
        (None, None, None) => "offline",
    };
    let labels = agent.row.labels.iter();
    Ok(api::Agent {
        id: agent.row.agent_id,
        state: state.to_owned(),
        reason: agent.why_out_of_service(),
        slots: agent.row.slots,
        leased: row.get("leased")?,
        labels: labels.map(|label| label.as_str().to_owned()).collect(),
        agent: agent.row.name,
    })
}
