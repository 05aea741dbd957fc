//! How hosts and control machines are let into the cluster.
//!
//! Whoever wants in has no certificate yet and no token of the API. What it shows is a *join token*'s
//! secret, and a request for a certificate of a key that never leaves it. The ledger judges the secret,
//! counts its use, and gives a control machine its number; only then is anything signed, and signing
//! again for the same key does no harm.

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::Uri;
use coordinator_core::Request;
use ledger::command::{CreateJoinToken, Enrol, RevokeJoinToken};
use ledger::{Done, ROWS_MAX};
use protocol::api::{
    CreateJoinTokenRequest, CreatedJoinToken, EnrolAnswer, EnrolRequest, JOIN_USES_MAX, JoinToken,
    RevokeJoinTokenAnswer, RevokeJoinTokenRequest,
};
use protocol::{AgentName, JoinTokenId};
use transport::ca::{SigningRequest, Subject};

use super::Api;
use super::asker::Asker;
use super::error::ApiError;
use super::input::{Entity, IdPath, Params};
use super::jobs::out_of_place;
use super::listener::Peer;
use super::pages::{PageQuery, Paged};
use crate::authority::Authority;
use crate::exit::causes;
use crate::token::{Secret, digest_of};

/// `GET /api/v1/join-tokens`: newest first.
pub(super) async fn list(
    State(api): State<Api>,
    uri: Uri,
    Params(query): Params<PageQuery>,
) -> Result<Paged<JoinToken>, ApiError> {
    let what = "listing the join tokens";
    let (before, limit) = query.read::<JoinTokenId>(what, ROWS_MAX)?;
    let read = move |reader: &ledger::Reader| reader.join_tokens(before, limit);
    Ok(Paged::of(&uri, api.readers.read(what, read).await?))
}

/// `POST /api/v1/join-tokens/{id}/revoke`
pub(super) async fn revoke(
    State(api): State<Api>,
    asker: Asker,
    IdPath(id): IdPath<JoinTokenId>,
    Entity(body): Entity<RevokeJoinTokenRequest>,
) -> Result<Json<RevokeJoinTokenAnswer>, ApiError> {
    let what = format!("revoking the join token {id}");
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    let reason = body.reason;
    let request = Request::RevokeJoinToken(RevokeJoinToken { id, by, reason });
    match api.carry_out(&what, &asker, request).await? {
        Done::JoinTokenRevoked { changed } => Ok(Json(RevokeJoinTokenAnswer { id, changed })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/join-tokens`
pub(super) async fn create(
    State(api): State<Api>,
    asker: Asker,
    Entity(body): Entity<CreateJoinTokenRequest>,
) -> Result<Json<CreatedJoinToken>, ApiError> {
    let what = "making a join token";
    let by = asker.signs(what, body.by, None)?;
    let authority = authority(&api, what)?;
    if !(1..=JOIN_USES_MAX).contains(&body.uses) {
        let why = format!("{} uses are not between 1 and {JOIN_USES_MAX}", body.uses);
        return Err(ApiError::invalid(what, why, "say how many it lets in"));
    }
    let name_prefix = body.name_prefix.unwrap_or_default();
    // Any name that it begins is one.
    if format!("{name_prefix}0").parse::<AgentName>().is_err() {
        let why = format!("no name of a machine begins with `{name_prefix}`");
        return Err(ApiError::invalid(what, why, "use a-z, 0-9 and `-`"));
    }
    let secret = Secret::draw().map_err(|error| ApiError::internal(what, error.to_string()))?;
    let request = Request::CreateJoinToken(CreateJoinToken {
        secret: secret.digest(),
        role: body.role,
        name_prefix,
        uses: body.uses,
        expires_at: body.expires_at,
        by,
    });
    match api.carry_out(what, &asker, request).await? {
        Done::JoinTokenCreated { id } => Ok(Json(CreatedJoinToken {
            id,
            role: body.role,
            cluster: authority.cluster.clone(),
            authority: authority.fingerprint.to_string(),
            secret: secret.reveal().to_owned(),
            expires_at: body.expires_at,
        })),
        other => Err(out_of_place(what, &other)),
    }
}

/// `POST /api/v1/enrol`
pub(super) async fn enrol(
    State(api): State<Api>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Entity(body): Entity<EnrolRequest>,
) -> Result<Json<EnrolAnswer>, ApiError> {
    let what = format!("enrolling the {} {}", body.role, body.name);
    let authority = authority(&api, &what)?;
    let unknown = || {
        let remedy = "use the whole text that `matins token join` wrote";
        ApiError::unauthorized_for(&what, "there is no such join token", remedy)
    };
    let secret = digest_of(body.secret.as_bytes()).ok_or_else(unknown)?;
    let request = SigningRequest::read(&body.request).map_err(|error| {
        let remedy = "ask with `matins agent enrol` or `matins cluster join`, which make a request \
                      of a key of their own";
        ApiError::invalid(&what, causes(&error), remedy)
    })?;
    let validity = authority.validity();
    let enrol = Request::Enrol(Enrol {
        secret,
        role: body.role,
        name: body.name.clone(),
        key: request.key_digest(),
        above: highest_number(&api),
        good_until: validity.now + validity.lifetime,
    });
    let node = match api.carry_out_from(&what, &peer.source(), enrol).await? {
        Done::Enrolled { node, .. } => node,
        other => return Err(out_of_place(&what, &other)),
    };
    let subject = Subject::new(body.role, &body.name).node(node);
    match authority.sign(request, subject, validity).await {
        Ok(issued) => Ok(Json(EnrolAnswer {
            certificate: issued.certificate,
            authorities: issued.authorities,
            node,
        })),
        Err(error) => Err(ApiError::internal(what, causes(&error))),
    }
}

/// Of the machines that are members now; the ledger knows which numbers it has given itself.
fn highest_number(api: &Api) -> u64 {
    let members = api.lead.group().map(|group| group.members().0);
    members.map_or(0, |members| {
        members.last_key_value().map_or(0, |(node, _)| *node)
    })
}

fn authority<'a>(api: &'a Api, what: &str) -> Result<&'a Authority, ApiError> {
    api.authority.as_deref().ok_or_else(|| {
        ApiError::refused(
            what,
            "this coordinator does not have the key of the cluster's authority, so it lets nobody in",
            "put ca.key beside its identity's ca.pem (mode 600) and start it again; or issue certificates \
             by hand (`matins ca issue`) where the key is",
        )
    })
}
