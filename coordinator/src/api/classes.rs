//! Which hosts are of which class.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use coordinator_core::Core;
use ledger::Bar;
use profiles::classes::Classes;
use protocol::api::{self, AgentClasses};
use protocol::{AgentName, HostFacts};

use super::Api;
use super::error::{ApiError, LIST_AGENTS};
use super::input::NamePath;

/// What the core knows of the hosts that these ask for; judged elsewhere, for its thread has other work.
async fn hosts(
    api: &Api,
    what: &str,
    wanted: Option<AgentName>,
) -> Result<Vec<(AgentName, Arc<HostFacts>)>, ApiError> {
    let look = move |core: &Core, _| -> Vec<_> {
        let agents = core.working_set().agents.values();
        agents
            .filter(|agent| agent.barred != Some(Bar::Revoked))
            .filter(|agent| wanted.as_ref().is_none_or(|wanted| *wanted == agent.name))
            .map(|agent| (agent.name.clone(), Arc::clone(&agent.facts)))
            .collect()
    };
    let asked = api.engine.ask(look).await;
    asked.map_err(|error| ApiError::asking(what, &error))
}

/// `GET /api/v1/classes`
pub(super) async fn list(State(api): State<Api>) -> Result<Json<api::Classes>, ApiError> {
    let hosts = hosts(&api, "listing the classes", None).await?;
    let from = api.classes.from.as_ref();
    let from = from.map(|path| path.to_string_lossy().into_owned());
    let classes: &Classes = &api.classes.classes;
    let hosts = hosts.iter().map(|(name, facts)| (name, &**facts));
    Ok(Json(classes.show(from, hosts)))
}

/// `GET /api/v1/agents/{name}/classes`
pub(super) async fn of_agent(
    State(api): State<Api>,
    NamePath(name): NamePath<AgentName>,
) -> Result<Json<AgentClasses>, ApiError> {
    let what = format!("showing the classes of agent {name}");
    let mut found = hosts(&api, &what, Some(name.clone())).await?;
    let Some((agent, facts)) = found.pop() else {
        let why = format!("no host of the name {name} has ever attached, or it is revoked");
        return Err(ApiError::not_found(what, why, LIST_AGENTS));
    };
    let classes = api.classes.classes.of(&facts).show();
    Ok(Json(AgentClasses { agent, classes }))
}
