//! The control group: how it stands, who is in it, who leads.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use protocol::api::{
    AddMemberRequest, Cluster, ClusterAnswer, RemoveMemberRequest, TransferRequest,
};

use coordinator_core::Afterwards;
use coordinator_core::{NoSuccessor, Request};
use ledger::Done;
use ledger::command::{ChangeGroup, ControlMachine, GroupChange};

use super::Api;
use super::asker::Asker;
use super::error::ApiError;
use super::input::Entity;
use super::jobs::out_of_place;
use crate::clock::read_now;
use crate::cluster::{self, ClusterError};
use crate::consensus::{Group, Member};
use crate::engine::HandOverError;
use crate::exit::causes;

/// `GET /api/v1/cluster`
pub(super) async fn status(State(api): State<Api>) -> Result<Json<Cluster>, ApiError> {
    let group = group(&api, "looking at the control group")?;
    let (stands, reign) = (api.lead.stands(), api.lead.reign());
    let trouble = api
        .address_trouble
        .borrow()
        .as_ref()
        .map(ToString::to_string);
    let certificate = api.certificate.borrow().clone();
    let seen = cluster::describe(&group, stands, reign, trouble, &certificate, read_now());
    Ok(Json(seen))
}

/// `POST /api/v1/cluster/add`
pub(super) async fn add(
    State(api): State<Api>,
    asker: Asker,
    Entity(body): Entity<AddMemberRequest>,
) -> Result<Json<ClusterAnswer>, ApiError> {
    let what = format!(
        "adding the machine at {} to the control group",
        body.address
    );
    let by = asker.signs(&what, body.by, None)?;
    let group = group(&api, &what)?;
    let met = cluster::meet(&group, &body.address).await;
    let met = match met.map_err(|error| refused(&what, &error))? {
        Ok(met) => met,
        Err(node) => return Ok(Json(ClusterAnswer { node })),
    };
    let change = GroupChange::Add(machine(met.node, &met.member));
    note(&api, &what, &asker, change, by).await?;
    let added = cluster::add(&group, met).await;
    let node = added.map_err(|error| refused(&what, &error))?;
    Ok(Json(ClusterAnswer { node }))
}

/// `POST /api/v1/cluster/remove`
pub(super) async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Entity(body): Entity<RemoveMemberRequest>,
) -> Result<Json<ClusterAnswer>, ApiError> {
    let node = body.node;
    let what = format!("removing node {node} from the control group");
    let by = asker.signs(&what, body.by, None)?;
    let group = group(&api, &what)?;
    let member = cluster::removable(&group, node).map_err(|error| refused(&what, &error))?;
    // First its number is given up: whatever becomes of the rest, it is given to nobody again.
    let change = GroupChange::Remove(machine(node, &member));
    note(&api, &what, &asker, change, by).await?;
    let removed = cluster::remove(&group, node).await;
    let node = removed.map_err(|error| refused(&what, &error))?;
    Ok(Json(ClusterAnswer { node }))
}

/// What is done next stands in the audit, with who asked and from where.
async fn note(
    api: &Api,
    what: &str,
    asker: &Asker,
    change: GroupChange,
    by: String,
) -> Result<(), ApiError> {
    let request = Request::ChangeGroup(ChangeGroup { change, by });
    match api.carry_out(what, asker, request).await? {
        Done::GroupChangeNoted => Ok(()),
        other => Err(out_of_place(what, &other)),
    }
}

fn machine(node: u64, member: &Member) -> ControlMachine {
    ControlMachine {
        node,
        name: member.facts.name.clone(),
        store: member.store.to_string(),
    }
}

/// `POST /api/v1/cluster/transfer`
pub(super) async fn transfer(
    State(api): State<Api>,
    asker: Asker,
    Entity(body): Entity<TransferRequest>,
) -> Result<Json<ClusterAnswer>, ApiError> {
    let what = "handing the lead over";
    let by = asker.signs(what, body.by, None)?;
    let change = GroupChange::HandOver { to: body.to };
    note(&api, what, &asker, change, by).await?;
    let handed = api.engine.hand_over(body.to, Afterwards::Stays).await;
    let node = handed.map_err(|error| match error {
        HandOverError::NotLeading => ApiError::not_leader(what, error.to_string()),
        HandOverError::Stopping => ApiError::unavailable(
            what,
            error.to_string(),
            "ask the coordinator that leads now",
        ),
        HandOverError::NoSuccessor(NoSuccessor::Amiss { .. }) => ApiError::refused(
            what,
            error.to_string(),
            "see to that clock, or wait a minute where it was only just set; a coordinator that is \
             stopped hands over all the same",
        ),
        HandOverError::NoSuccessor(NoSuccessor::Nobody)
        | HandOverError::Behind { .. }
        | HandOverError::NotTaken { .. }
        | HandOverError::UnderWay => ApiError::refused(
            what,
            error.to_string(),
            "look at `matins cluster status`: another coordinator must vote and be reached",
        ),
    })?;
    Ok(Json(ClusterAnswer { node }))
}

fn group(api: &Api, what: &str) -> Result<Arc<Group>, ApiError> {
    let stopping = || {
        let why = "this coordinator is stopping";
        ApiError::unavailable(what, why, "ask another coordinator")
    };
    api.lead.group().ok_or_else(stopping)
}

fn refused(what: &str, error: &ClusterError) -> ApiError {
    let why = causes(error);
    match error {
        ClusterError::NoSuchNode { .. } => ApiError::not_found(
            what,
            why,
            "look at `matins cluster status` for the nodes that there are",
        ),
        ClusterError::Late | ClusterError::CatchingUp { .. } => ApiError::unavailable(
            what,
            why,
            "look at `matins cluster status`, and ask again when it has caught up",
        ),
        ClusterError::Meet(_) => ApiError::refused(
            what,
            why,
            "see that the machine runs `matins coordinator --join` or `matins witness`, that its \
             7410/udp is reached from here, and that its certificate is of this cluster",
        ),
        _ => ApiError::refused(what, why, "look at `matins cluster status`"),
    }
}
