//! What a coordinator looks after, and how it is itself.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use coordinator_core::clock::{Doubt, Verdict};
use coordinator_core::dispatch::Standing;
use coordinator_core::{Core, Request};
use ledger::command::AlertKind;
use ledger::{AlertFilter, AuditFilter, Cordon, Done, ROWS_MAX, RunState};
use protocol::api::{
    Agent, AgentAnswer, AgentDetail, Alert, AuditEntry, ClearAlertAnswer, ClearAlertRequest,
    CordonRequest, DrainRequest, HostDetail, IdOrNull, RevokeAnswer, RevokeRequest, Status,
    UncordonRequest,
};
use protocol::{AgentId, AgentName, AlertId, JobName, NamespaceName, Now, RunId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::Api;
use super::asker::Asker;
use super::error::{ApiError, LIST_AGENTS};
use super::input::{Entity, IdPath, NamePath, Params};
use super::jobs::out_of_place;
use super::pages::{self, PageQuery, Paged, place};

const ALERTS_DEFAULT: u32 = 100;

const AUDIT_DEFAULT: u32 = 100;

/// Changes of a host that it is shown with.
const CHANGES_SHOWN: u32 = 100;

/// Query of `GET /api/v1/alerts`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AlertsQuery {
    /// Those that are cleared too.
    #[serde(default)]
    all: bool,
    #[serde(default)]
    #[schemars(schema_with = "alert_kind")]
    kind: Option<AlertKind>,
    /// About this job and its runs, under its present name or one that it had before.
    job: Option<JobName>,
    /// About all jobs whose names begin with this namespace, and their runs.
    namespace: Option<NamespaceName>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    cursor: Option<String>,
}

fn alert_kind(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<&str> = AlertKind::ALL.iter().map(|kind| kind.as_str()).collect();
    json_schema!({ "type": "string", "enum": words })
}

/// `GET /api/v1/agents`: every agent that ever attached, by name.
pub(super) async fn agents(
    State(api): State<Api>,
    uri: Uri,
    Params(query): Params<PageQuery>,
) -> Result<Paged<Agent>, ApiError> {
    let what = "listing the agents";
    let (after, limit) = query.read::<AgentName>(what, ROWS_MAX)?;
    let read = move |reader: &ledger::Reader| reader.agents(after.as_ref(), limit);
    let mut page = api.readers.read(what, read).await?;
    tell_standings(&api, what, &mut page.rows).await?;
    Ok(Paged::of(&uri, page))
}

/// Puts in what only the leader knows of these agents.
async fn tell_standings(api: &Api, what: &str, agents: &mut [Agent]) -> Result<(), ApiError> {
    let asked: Vec<(AgentId, AgentName)> = agents
        .iter()
        .map(|agent| (agent.id, agent.agent.clone()))
        .collect();
    let look = move |core: &Core, now| -> Vec<_> {
        let told = asked.into_iter().map(|(id, name)| {
            let fares = core.host_now(&name).and_then(|host| host.health.as_ref());
            let health = fares.map(|fares| fares.health.clone());
            (core.standing_of(id, now), health)
        });
        told.collect()
    };
    let standings = api
        .engine
        .ask(look)
        .await
        .map_err(|error| ApiError::asking(what, &error))?;
    for (agent, (standing, health)) in agents.iter_mut().zip(standings) {
        // One that is in the ledger and not yet in the core has only just attached.
        standing
            .map_or("offline", word)
            .clone_into(&mut agent.state);
        if let (Some(host), Some(health)) = (&mut agent.host, health) {
            host.health = Some(health);
        }
    }
    Ok(())
}

/// `GET /api/v1/agents/{name}`: with what runs there, and what would become of it.
pub(super) async fn agent(
    State(api): State<Api>,
    asker: Asker,
    NamePath(name): NamePath<AgentName>,
) -> Result<Json<AgentDetail>, ApiError> {
    let what = format!("showing agent {name}");
    let mut found = detail(&api, &what, &name).await?;
    found.leases.retain(|lease| asker.reach().holds(&lease.job));
    Ok(Json(found))
}

async fn detail(api: &Api, what: &str, name: &AgentName) -> Result<AgentDetail, ApiError> {
    let wanted = name.clone();
    let read = move |reader: &ledger::Reader| reader.agent(&wanted);
    let Some(mut agent) = api.readers.read(what, read).await? else {
        let why = format!("no host of the name {name} has ever attached");
        return Err(ApiError::not_found(what, why, LIST_AGENTS));
    };
    tell_standings(api, what, std::slice::from_mut(&mut agent)).await?;
    let id = agent.id;
    let read = move |reader: &ledger::Reader| reader.leases_of(id);
    let leases = api.readers.read(what, read).await?;
    let profile = host(api, what, name).await?;
    Ok(AgentDetail {
        agent,
        leases,
        profile,
    })
}

/// What is known of the host of an agent, once it has registered.
async fn host(api: &Api, what: &str, name: &AgentName) -> Result<Option<HostDetail>, ApiError> {
    let wanted = name.clone();
    let read = move |reader: &ledger::Reader| {
        let changes = reader.host_changes(&wanted, CHANGES_SHOWN)?;
        let registered = reader.host_profile(&wanted)?;
        Ok(registered.map(|registered| (registered.profile, changes)))
    };
    let Some((profile, changes)) = api.readers.read(what, read).await? else {
        return Ok(None);
    };
    let wanted = name.clone();
    let look = move |core: &Core, _| core.host_now(&wanted).cloned();
    let now = api.engine.ask(look).await;
    Ok(Some(HostDetail {
        facts: profile.facts,
        report: profile.report,
        now: now.map_err(|error| ApiError::asking(what, &error))?,
        changes,
    }))
}

/// `POST /api/v1/agents/{name}/cordon`
pub(super) async fn cordon(
    State(api): State<Api>,
    asker: Asker,
    NamePath(agent): NamePath<AgentName>,
    Entity(body): Entity<CordonRequest>,
) -> Result<Json<AgentAnswer>, ApiError> {
    let what = format!("cordoning agent {agent}");
    take_out(
        &api,
        &asker,
        &what,
        agent,
        Cordon::Cordoned,
        body.by,
        body.reason,
    )
    .await
}

/// `POST /api/v1/agents/{name}/drain`
pub(super) async fn drain(
    State(api): State<Api>,
    asker: Asker,
    NamePath(agent): NamePath<AgentName>,
    Entity(body): Entity<DrainRequest>,
) -> Result<Json<AgentAnswer>, ApiError> {
    let what = format!("draining agent {agent}");
    let cordon = if body.now {
        Cordon::DrainingNow
    } else {
        Cordon::Draining
    };
    take_out(&api, &asker, &what, agent, cordon, body.by, body.reason).await
}

async fn take_out(
    api: &Api,
    asker: &Asker,
    what: &str,
    agent: AgentName,
    cordon: Cordon,
    by: Option<String>,
    reason: String,
) -> Result<Json<AgentAnswer>, ApiError> {
    let by = asker.signs(what, by, Some(&reason))?;
    let request = Request::Cordon {
        agent: agent.clone(),
        cordon,
        by,
        reason,
    };
    match api.carry_out(what, asker, request).await? {
        Done::AgentCordoned { .. } => as_it_stands(api, what, agent).await,
        other => Err(out_of_place(what, &other)),
    }
}

/// `POST /api/v1/agents/{name}/uncordon`
pub(super) async fn uncordon(
    State(api): State<Api>,
    asker: Asker,
    NamePath(agent): NamePath<AgentName>,
    Entity(body): Entity<UncordonRequest>,
) -> Result<Json<AgentAnswer>, ApiError> {
    let what = format!("uncordoning agent {agent}");
    let by = asker.signs(&what, body.by, None)?;
    let request = Request::Uncordon {
        agent: agent.clone(),
        by,
    };
    match api.carry_out(&what, &asker, request).await? {
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
        let remedy = format!("look at it: `matins describe {agent}`");
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
    asker: Asker,
    NamePath(agent): NamePath<AgentName>,
    Entity(body): Entity<RevokeRequest>,
) -> Result<Json<RevokeAnswer>, ApiError> {
    let what = format!("revoking agent {agent}");
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    let request = Request::RevokeAgent {
        agent: agent.clone(),
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
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

pub(super) const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Ready(_) => "ready",
        Standing::Offline => "offline",
        Standing::Cordoned(cordon) => cordon.as_str(),
        Standing::Barred(bar) => bar.as_str(),
    }
}

/// `GET /api/v1/alerts`: those that are open, the newest first; with `all`, the cleared ones too.
pub(super) async fn alerts(
    State(api): State<Api>,
    asker: Asker,
    uri: Uri,
    Params(query): Params<AlertsQuery>,
) -> Result<Paged<Alert>, ApiError> {
    let what = "listing the alerts";
    let filter = AlertFilter {
        cleared: query.all,
        kind: query.kind,
        job: query.job,
        namespace: query.namespace,
        within: asker.reach().clone(),
        before: place(what, query.cursor.as_deref())?,
        limit: pages::limit(what, query.limit, ALERTS_DEFAULT)?,
    };
    let read = move |reader: &ledger::Reader| reader.alerts(&filter);
    Ok(Paged::of(&uri, api.readers.read(what, read).await?))
}

/// `POST /api/v1/alerts/{id}/clear`
pub(super) async fn clear_alert(
    State(api): State<Api>,
    asker: Asker,
    IdPath(alert): IdPath<AlertId>,
    Entity(body): Entity<ClearAlertRequest>,
) -> Result<Json<ClearAlertAnswer>, ApiError> {
    let what = format!("clearing {alert}");
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    if !asker.reach().is_all() {
        let read = move |reader: &ledger::Reader| reader.job_of_alert(alert);
        match api.readers.read(&what, read).await? {
            Some(job) => asker.must_reach(&what, &job)?,
            None => asker.must_reach_all(&what)?,
        }
    }
    let request = Request::ClearAlert {
        alert,
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
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
    asker: Asker,
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
        within: asker.reach().clone(),
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

/// A verdict of the clock gate, and why it is not the best.
pub(super) fn clock_words(verdict: Verdict) -> (&'static str, Option<String>) {
    match verdict {
        Verdict::Trusted => ("trusted", None),
        Verdict::NoReference => ("no_reference", None),
        Verdict::Warned(difference) => ("warned", Some(format!("it is {difference}"))),
        Verdict::Held(doubt) => ("held", Some(format!("it {doubt}"))),
    }
}

fn judge(core: &Core, now: Now, node: String, agents_address: String) -> Status {
    let set = core.working_set();
    let verdict = core.clock_verdict(now);
    let (clock, clock_says) = clock_words(verdict);
    let clock_held_ms = match verdict {
        Verdict::Held(Doubt::Stepped { remaining } | Doubt::Unheard { remaining }) => {
            Some(remaining.0)
        }
        Verdict::Held(Doubt::Contradicted(_) | Doubt::Divided(_))
        | Verdict::Trusted
        | Verdict::NoReference
        | Verdict::Warned(_) => None,
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
