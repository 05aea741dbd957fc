//! API tokens: made, listed, revoked.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use coordinator_core::Request;
use ledger::command::{CreateToken, RevokeToken};
use ledger::{Done, ROWS_MAX};
use protocol::TokenName;
use protocol::api::{
    ApiToken, CreateTokenRequest, CreatedToken, RevokeTokenAnswer, RevokeTokenRequest,
};

use super::Api;
use super::asker::Asker;
use super::error::ApiError;
use super::input::{Entity, NamePath, Params};
use super::jobs::out_of_place;
use super::pages::{PageQuery, Paged};
use crate::token::Secret;

/// `GET /api/v1/tokens`: by name.
pub(super) async fn list(
    State(api): State<Api>,
    uri: Uri,
    Params(query): Params<PageQuery>,
) -> Result<Paged<ApiToken>, ApiError> {
    let what = "listing the tokens";
    let (after, limit) = query.read::<TokenName>(what, ROWS_MAX)?;
    let read = move |reader: &ledger::Reader| reader.tokens(after.as_ref(), limit);
    Ok(Paged::of(&uri, api.readers.read(what, read).await?))
}

/// `POST /api/v1/tokens`
pub(super) async fn create(
    State(api): State<Api>,
    asker: Asker,
    Entity(body): Entity<CreateTokenRequest>,
) -> Result<Json<CreatedToken>, ApiError> {
    let what = format!("making the token {}", body.name);
    let by = asker.signs(&what, body.by, None)?;
    let secret = Secret::draw().map_err(|error| ApiError::internal(&what, error.to_string()))?;
    let request = Request::CreateToken(CreateToken {
        name: body.name.clone(),
        secret: secret.digest(),
        role: body.role,
        reach: body.namespaces.clone(),
        expires_at: body.expires_at,
        by,
    });
    match api.carry_out(&what, &asker, request).await? {
        Done::TokenCreated => Ok(Json(CreatedToken {
            name: body.name,
            token: secret.reveal().to_owned(),
            role: body.role,
            namespaces: body.namespaces,
            expires_at: body.expires_at,
        })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/tokens/{name}/revoke`
pub(super) async fn revoke(
    State(api): State<Api>,
    asker: Asker,
    NamePath(name): NamePath<TokenName>,
    Entity(body): Entity<RevokeTokenRequest>,
) -> Result<Json<RevokeTokenAnswer>, ApiError> {
    let what = format!("revoking the token {name}");
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    let request = Request::RevokeToken(RevokeToken {
        name: name.clone(),
        by,
        reason: body.reason,
    });
    match api.carry_out(&what, &asker, request).await? {
        Done::TokenRevoked { changed } => Ok(Json(RevokeTokenAnswer { name, changed })),
        other => Err(out_of_place(&what, &other)),
    }
}
