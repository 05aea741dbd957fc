//! How hosts are let into the cluster.
//!
//! A host has no certificate yet and no token of the API. What it shows is a *join token*'s secret,
//! and a request for a certificate of a key that never leaves it. The ledger judges the secret and
//! counts its use; only then is anything signed, and signing again for the same key does no harm.

use axum::Json;
use axum::extract::{ConnectInfo, State};
use coordinator_core::Request;
use ledger::Done;
use ledger::command::{CreateJoinToken, EnrolAgent};
use protocol::AgentName;
use protocol::api::{
    CreateJoinTokenRequest, CreatedJoinToken, EnrolAnswer, EnrolRequest, JOIN_USES_MAX,
};
use transport::Role;
use transport::ca::{CERTIFICATE_LIFETIME, SigningRequest, Subject, Validity};

use super::Api;
use super::asker::Asker;
use super::error::ApiError;
use super::input::Entity;
use super::jobs::out_of_place;
use super::listener::Peer;
use crate::authority::Authority;
use crate::clock::read_now;
use crate::exit::causes;
use crate::token::{Secret, digest_of};

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
        return Err(ApiError::invalid(
            what,
            why,
            "say how many hosts it lets in",
        ));
    }
    let name_prefix = body.name_prefix.unwrap_or_default();
    // Any name that it begins is one.
    if format!("{name_prefix}0").parse::<AgentName>().is_err() {
        let why = format!("no name of a host begins with `{name_prefix}`");
        return Err(ApiError::invalid(what, why, "use a-z, 0-9 and `-`"));
    }
    let secret = Secret::draw().map_err(|error| ApiError::internal(what, error.to_string()))?;
    let request = Request::CreateJoinToken(CreateJoinToken {
        secret: secret.digest(),
        name_prefix,
        uses: body.uses,
        expires_at: body.expires_at,
        by,
    });
    match api.carry_out(what, &asker, request).await? {
        Done::JoinTokenCreated => Ok(Json(CreatedJoinToken {
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
    let what = format!("enrolling {}", body.name);
    let authority = authority(&api, &what)?.clone();
    let unknown = || {
        let remedy = "use the whole text that `matins token join` wrote";
        ApiError::unauthorized_for(&what, "there is no such join token", remedy)
    };
    let secret = digest_of(body.secret.as_bytes()).ok_or_else(unknown)?;
    let request = SigningRequest::read(&body.request).map_err(|error| {
        let remedy = "ask with `matins agent enrol`, which makes a request of its own key";
        ApiError::invalid(&what, causes(&error), remedy)
    })?;
    let enrol = Request::EnrolAgent(EnrolAgent {
        secret,
        name: body.name.clone(),
        key: request.key_digest(),
    });
    match api.carry_out_from(&what, &peer.source(), enrol).await? {
        Done::Enrolled { .. } => {}
        other => return Err(out_of_place(&what, &other)),
    }
    let subject = Subject::new(Role::Agent, &body.name);
    let validity = Validity {
        now: read_now().wall,
        lifetime: CERTIFICATE_LIFETIME,
    };
    let signed =
        tokio::task::spawn_blocking(move || request.sign(&authority.directory, &subject, validity));
    match signed.await {
        Ok(Ok(issued)) => Ok(Json(EnrolAnswer {
            certificate: issued.certificate,
            authorities: issued.authorities,
        })),
        Ok(Err(error)) => Err(ApiError::internal(what, causes(&error))),
        Err(error) => Err(ApiError::internal(what, error.to_string())),
    }
}

fn authority<'a>(api: &'a Api, what: &str) -> Result<&'a Authority, ApiError> {
    api.authority.as_deref().ok_or_else(|| {
        ApiError::refused(
            what,
            "this coordinator does not have the key of the cluster's authority, so it lets no host in",
            "put ca.key beside its identity's ca.pem (mode 600) and start it again; or issue certificates \
             by hand (`matins ca issue`) where the key is",
        )
    })
}
