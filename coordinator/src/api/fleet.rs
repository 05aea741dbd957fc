//! What a coordinator looks after, and how it is itself.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use coordinator_core::clock::{Doubt, Verdict};
use coordinator_core::dispatch::Standing;
use coordinator_core::{Core, Request};
use ledger::{AuditFilter, Cordon, Done, RunState};
use protocol::api::{
    Agent, AgentAnswer, AgentDetail, Alert, AuditEntry, ClearAlertAnswer, ClearAlertRequest,
    CordonRequest, DrainRequest, IdOrNull, RevokeAnswer, RevokeRequest, Status, UncordonRequest,
};
use protocol::{AgentId, AgentName, JobName, Now, RunId};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Api;
use super::error::{ApiError, LIST_AGENTS};
use super::input::{AgentPath, AlertPath, Entity, Params, check_asker, check_limit};
use super::jobs::out_of_place;
use super::pages::{self, Paged, place};

const ALERTS_DEFAULT: u32 = 100;

const AUDIT_DEFAULT: u32 = 100;

/// Query of `GET /api/v1/alerts`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AlertsQuery {
    /// Those that are cleared too.
    #[serde(default)]
    all: bool,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

/// `GET /api/v1/agents`: every agent that ever attached, by name.
pub(super) async fn agents(State(api): State<Api>) -> Result<Json<Vec<Agent>>, ApiError> {
    Ok(Json(read_agents(&api, "listing the agents").await?))
}

async fn read_agents(api: &Api, what: &str) -> Result<Vec<Agent>, ApiError> {
    let mut agents = api.readers.read(what, ledger::Reader::agents).await?;
    let standings = api
        .engine
        .ask(standings)
        .await
        .map_err(|error| ApiError::asking(what, &error))?;
    for agent in &mut agents {
        // One that is in the ledger and not yet in the core has only just attached.
        let standing = standings.get(&agent.id).copied();
        standing.unwrap_or("offline").clone_into(&mut agent.state);
    }
    Ok(agents)
}

/// `GET /api/v1/agents/{name}`: with what runs there, and what would become of it.
pub(super) async fn agent(
    State(api): State<Api>,
    AgentPath(name): AgentPath,
) -> Result<Json<AgentDetail>, ApiError> {
    let what = format!("showing agent {name}");
    Ok(Json(detail(&api, &what, &name).await?))
}

async fn detail(api: &Api, what: &str, name: &AgentName) -> Result<AgentDetail, ApiError> {
    let found = read_agents(api, what).await?;
    let Some(agent) = found.into_iter().find(|agent| agent.agent == *name) else {
        let why = format!("no host of the name {name} has ever attached");
        return Err(ApiError::not_found(what, why, LIST_AGENTS));
    };
    let id = agent.id;
    let read = move |reader: &ledger::Reader| reader.leases_of(id);
    let leases = api.readers.read(what, read).await?;
    Ok(AgentDetail { agent, leases })
}

/// `POST /api/v1/agents/{name}/cordon`
pub(super) async fn cordon(
    State(api): State<Api>,
    AgentPath(agent): AgentPath,
    Entity(body): Entity<CordonRequest>,
) -> Result<Json<AgentAnswer>, ApiError> {
    let what = format!("cordoning agent {agent}");
    take_out(&api, &what, agent, Cordon::Cordoned, body.by, body.reason).await
}

/// `POST /api/v1/agents/{name}/drain`
pub(super) async fn drain(
    State(api): State<Api>,
    AgentPath(agent): AgentPath,
    Entity(body): Entity<DrainRequest>,
) -> Result<Json<AgentAnswer>, ApiError> {
    let what = format!("draining agent {agent}");
    let cordon = if body.now {
        Cordon::DrainingNow
    } else {
        Cordon::Draining
    };
    take_out(&api, &what, agent, cordon, body.by, body.reason).await
}

async fn take_out(
    api: &Api,
    what: &str,
    agent: AgentName,
    cordon: Cordon,
    by: String,
    reason: String,
) -> Result<Json<AgentAnswer>, ApiError> {
    check_asker(what, &by, Some(&reason))?;
    let request = Request::Cordon {
        agent: agent.clone(),
        cordon,
        by,
        reason,
    };
    match api.carry_out(what, request).await? {
        Done::AgentCordoned { .. } => as_it_stands(api, what, agent).await,
        other => Err(out_of_place(what, &other)),
    }
}

/// `POST /api/v1/agents/{name}/uncordon`
pub(super) async fn uncordon(
    State(api): State<Api>,
    AgentPath(agent): AgentPath,
    Entity(body): Entity<UncordonRequest>,
) -> Result<Json<AgentAnswer>, ApiError> {
    let what = format!("uncordoning agent {agent}");
    check_asker(&what, &body.by, None)?;
    let request = Request::Uncordon {
        agent: agent.clone(),
        by: body.by,
    };
    match api.carry_out(&what, request).await? {
        Done::AgentUncordoned { .. } => as_it_stands(&api, &what, agent).await,
        other => Err(out_of_place(&what, &other)),
    }
}

async fn as_it_stands(
    api: &Api,
    what: &str,
    agent: AgentName,
) -> Result<Json<AgentAnswer>, ApiError> {
    let found = detail(api, what, &agent).await.map_err(|error| {
        let remedy = format!("look at it: `matins describe agent {agent}`");
        error.after_all("it was done", remedy)
    })?;
    Ok(Json(AgentAnswer {
        agent,
        state: found.agent.state,
        leased: found.agent.leased,
    }))
}

/// `POST /api/v1/agents/{name}/revoke`
pub(super) async fn revoke(
    State(api): State<Api>,
    AgentPath(agent): AgentPath,
    Entity(body): Entity<RevokeRequest>,
) -> Result<Json<RevokeAnswer>, ApiError> {
    let what = format!("revoking agent {agent}");
    check_asker(&what, &body.by, Some(&body.reason))?;
    let request = Request::RevokeAgent {
        agent: agent.clone(),
        by: body.by,
        reason: body.reason,
    };
    match api.carry_out(&what, request).await? {
        Done::Revoked { known } => Ok(Json(RevokeAnswer { agent, known })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// Every state that an agent can be in.
pub(super) const STATES: &[&str] = &[
    "ready",
    "offline",
    "cordoned",
    "draining",
    "quarantined",
    "revoked",
];

pub(super) fn standings(core: &Core, now: Now) -> BTreeMap<AgentId, &'static str> {
    core.hosts(now)
        .map(|host| (host.agent_id, word(host.standing)))
        .collect()
}

const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Ready(_) => "ready",
        Standing::Offline => "offline",
        Standing::Cordoned(cordon) => cordon.as_str(),
        Standing::Barred(bar) => bar.as_str(),
    }
}

/// `GET /api/v1/alerts`: the open ones, those raised last first; with `all`, the cleared ones too,
/// the newest first.
pub(super) async fn alerts(
    State(api): State<Api>,
    Params(query): Params<AlertsQuery>,
) -> Result<Json<Vec<Alert>>, ApiError> {
    let what = "listing the alerts";
    let limit = check_limit(what, query.limit.unwrap_or(ALERTS_DEFAULT), "ask for fewer")?;
    let read = move |reader: &ledger::Reader| reader.alerts(query.all, limit);
    Ok(Json(api.readers.read(what, read).await?))
}

/// `POST /api/v1/alerts/{id}/clear`
pub(super) async fn clear_alert(
    State(api): State<Api>,
    AlertPath(alert): AlertPath,
    Entity(body): Entity<ClearAlertRequest>,
) -> Result<Json<ClearAlertAnswer>, ApiError> {
    let what = format!("clearing {alert}");
    check_asker(&what, &body.by, Some(&body.reason))?;
    let request = Request::ClearAlert {
        alert,
        by: body.by,
        reason: body.reason,
    };
    match api.carry_out(&what, request).await? {
        Done::AlertCleared { changed } => Ok(Json(ClearAlertAnswer { alert, changed })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// Query of `GET /api/v1/audit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    /// Of this job and its runs, under its present name or one that it had before.
    job: Option<JobName>,
    #[serde(default, with = "IdOrNull::<RunId>")]
    run: Option<RunId>,
    agent: Option<AgentName>,
    /// Who did it.
    by: Option<String>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /api/v1/audit`: what people did, newest first.
pub(super) async fn audit(
    State(api): State<Api>,
    uri: Uri,
    Params(query): Params<AuditQuery>,
) -> Result<Paged<AuditEntry>, ApiError> {
    let what = "listing the audit";
    let filter = AuditFilter {
        before: place(what, query.cursor.as_deref())?,
        limit: pages::limit(what, query.limit, AUDIT_DEFAULT)?,
        job: query.job,
        run: query.run,
        agent: query.agent,
        by: query.by,
    };
    let read = move |reader: &ledger::Reader| reader.audit(&filter);
    Ok(Paged::of(&uri, api.readers.read(what, read).await?))
}

/// `GET /api/v1/status`
pub(super) async fn status(State(api): State<Api>) -> Result<Json<Status>, ApiError> {
    let node = api.node.to_string();
    let agents_address = api.agents_address.to_string();
    api.engine
        .ask(move |core, now| judge(core, now, node, agents_address))
        .await
        .map(Json)
        .map_err(|error| ApiError::asking("asking for the coordinator's status", &error))
}

fn judge(core: &Core, now: Now, node: String, agents_address: String) -> Status {
    let set = core.working_set();
    let verdict = core.clock_verdict(now);
    let (clock, clock_says) = match verdict {
        Verdict::Trusted => ("trusted", None),
        Verdict::NoReference => ("no_reference", None),
        Verdict::Warned(difference) => ("warned", Some(format!("it is {difference}"))),
        Verdict::Held(doubt) => ("held", Some(format!("it {doubt}"))),
    };
    let clock_held_ms = match verdict {
        Verdict::Held(Doubt::Stepped { remaining } | Doubt::Unheard { remaining }) => {
            Some(remaining.0)
        }
        _ => None,
    };
    let hosts: Vec<_> = core.hosts(now).collect();
    let ready = |standing: &Standing| matches!(standing, Standing::Ready(_));
    Status {
        node,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch: core.epoch(),
        clock: clock.to_owned(),
        clock_held_ms,
        clock_says,
        tzdata: jobs::tzdata_version().to_owned(),
        agents_address,
        jobs: set.jobs.len() as u64,
        open_runs: set.runs.len() as u64,
        needs_confirmation: set.tally().runs_in(RunState::NeedsConfirmation),
        leases: set.tally().leased(),
        agents: hosts.len() as u64,
        agents_ready: count(hosts.iter(), |host| ready(&host.standing)),
    }
}

fn count<T>(all: impl Iterator<Item = T>, wanted: impl Fn(&T) -> bool) -> u64 {
    all.filter(wanted).count() as u64
}
