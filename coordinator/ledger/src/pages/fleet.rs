//! Agents and resources by page, in the order of their names.

use protocol::{AgentName, HostFacts, ResourceName, WallMs, api};
use rusqlite::{OptionalExtension, Row};

use super::{Conditions, EXAMINED_MAX, Page, Walk};
use crate::answers::Answers;
use crate::rows::ProfileRow;
use crate::tables::agent::{AGENT_COLUMNS, AGENTS, read_agent};
use crate::tables::resource::{RESOURCE_COLUMNS, read_resource};

impl Answers<'_> {
    /// Agents. Whether one is offline only the leader's core knows.
    pub(crate) fn agents(
        &self,
        after: Option<&AgentName>,
        limit: u32,
    ) -> rusqlite::Result<Page<api::Agent, AgentName>> {
        let after = after.map(AgentName::as_str);
        let walk = by_name(&shown_agents(), AGENTS, after, limit);
        walk.go(self.conn, |row| {
            let agent = show_agent(row)?;
            Ok((agent.agent.clone(), Some(agent)))
        })
    }

    pub(crate) fn agent(&self, name: &AgentName) -> rusqlite::Result<Option<api::Agent>> {
        self.conn
            .prepare_cached(&format!(
                "SELECT {} FROM {AGENTS} WHERE name = ?1",
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
        "{AGENT_COLUMNS}, registered_at, since, (SELECT count(*) FROM shards s INDEXED BY shards_leased
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
    let host = match agent.row.profile {
        Some(profile) => {
            let (since, at) = (row.get("since")?, row.get("registered_at")?);
            let at = (WallMs(since), WallMs(at));
            Some(summarise(profile, at, &agent.row.facts))
        }
        None => None,
    };
    Ok(api::Agent {
        id: agent.row.agent_id,
        state: state.to_owned(),
        reason: agent.why_out_of_service(),
        slots: agent.row.slots,
        leased: row.get("leased")?,
        labels: labels.map(|label| label.as_str().to_owned()).collect(),
        host,
        agent: agent.row.name,
    })
}

fn summarise(
    profile: ProfileRow,
    (since, registered_at): (WallMs, WallMs),
    facts: &HostFacts,
) -> api::HostSummary {
    let text = |name| facts.text(name).map(str::to_owned);
    let disk = match facts.truth("disk.virtual") {
        Some(true) => Some("virtual".to_owned()),
        _ => text("disk.medium"),
    };
    api::HostSummary {
        generation: profile.generation,
        since,
        registered_at,
        cpu_usable_milli: facts.number("cpu.usable_milli"),
        memory_usable_bytes: facts.number("memory.usable_bytes"),
        disk,
        fsync_grade: text("disk.fsync_grade"),
        cpu_score_single: facts.number("cpu.score_single"),
        cpu_score_all: facts.number("cpu.score_all"),
        memory_bandwidth_bytes_per_s: facts.number("memory.bandwidth_bytes_per_s"),
        fsync_p99_us: facts.number("disk.fsync_p99_us"),
        random_write_iops: facts.number("disk.random_write_iops"),
        probe_bytes_per_year: facts.number("disk.probe_bytes_per_year"),
        health: text("host.health"),
    }
}
