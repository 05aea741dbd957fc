//! What a request says, as types: past here a value cannot be wrong.

use std::str::FromStr;

use axum::RequestPartsExt;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use ledger::ROWS_MAX;
use protocol::{AgentName, JobName, RunId};
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// Largest body of a request.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Longest name of a person and longest reason.
const BY_BYTES_MAX: usize = 256;
const REASON_BYTES_MAX: usize = 4096;

/// `.../{namespace}/{name}`
pub(crate) struct JobPath(pub(crate) JobName);

/// `.../runs/{id}`
pub(crate) struct RunPath(pub(crate) RunId);

/// `.../runs/{id}/shards/{shard}`
pub(crate) struct ShardPath(pub(crate) RunId, pub(crate) u32);

/// `.../agents/{name}`
pub(crate) struct AgentPath(pub(crate) AgentName);

/// The query, all of it known.
pub(crate) struct Params<T>(pub(crate) T);

/// The body, as JSON.
pub(crate) struct Entity<T>(pub(crate) T);

impl<S: Sync> FromRequestParts<S> for JobPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<JobPath, ApiError> {
        let what = what(parts);
        let (namespace, name) = path::<(String, String)>(parts).await?;
        parse(&what, &format!("{namespace}/{name}")).map(JobPath)
    }
}

impl<S: Sync> FromRequestParts<S> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RunPath, ApiError> {
        let what = what(parts);
        let id = path::<String>(parts).await?;
        parse(&what, &id).map(RunPath)
    }
}

impl<S: Sync> FromRequestParts<S> for AgentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<AgentPath, ApiError> {
        let what = what(parts);
        let name = path::<String>(parts).await?;
        parse(&what, &name).map(AgentPath)
    }
}

impl<S: Sync> FromRequestParts<S> for ShardPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<ShardPath, ApiError> {
        let what = what(parts);
        let (id, shard) = path::<(String, String)>(parts).await?;
        let shard = shard.parse().map_err(|_| {
            let why = format!("`{shard}` is not the number of a shard");
            ApiError::invalid(&what, why, "write the number of a shard, from 0")
        })?;
        Ok(ShardPath(parse(&what, &id)?, shard))
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, ApiError> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(params)| Params(params))
            .map_err(|rejection| {
                let why = rejection.body_text();
                ApiError::invalid(
                    what(parts),
                    why,
                    "correct the query; see the API's reference",
                )
            })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Entity<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Entity<T>, ApiError> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let body = match Bytes::from_request(request, state).await {
            Ok(body) => body,
            Err(rejection) => return Err(unreceived(what, &rejection)),
        };
        serde_json::from_slice(&body).map(Entity).map_err(|error| {
            let why = format!("the body is not what this request takes: {error}");
            ApiError::invalid(
                what,
                why,
                "send the JSON that the API's reference describes",
            )
        })
    }
}

fn unreceived(what: String, rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let why = format!("the body is larger than {BODY_BYTES_MAX} bytes");
        ApiError::too_large(what, why)
    } else {
        let why = format!("the body did not arrive: {}", rejection.body_text());
        ApiError::invalid(what, why, "send it again")
    }
}

async fn path<T: DeserializeOwned + Send + 'static>(parts: &mut Parts) -> Result<T, ApiError> {
    match parts.extract::<Path<T>>().await {
        Ok(Path(path)) => Ok(path),
        Err(rejection) => Err(ApiError::invalid(
            what(parts),
            rejection.body_text(),
            "correct the path",
        )),
    }
}

/// The request as far as it is known, for answers to what cannot be understood.
pub(crate) fn what(parts: &Parts) -> String {
    format!("{} {}", parts.method, parts.uri.path())
}

/// Reads a name or id; its own error says what it should look like.
pub(crate) fn parse<T>(what: &str, text: &str) -> Result<T, ApiError>
where
    T: FromStr<Err: std::fmt::Display>,
{
    text.parse()
        .map_err(|error: T::Err| ApiError::invalid(what, error.to_string(), "correct it"))
}

/// How many rows are asked for, if the ledger lists so many at a time.
pub(crate) fn check_limit(what: &str, limit: u32, remedy: &str) -> Result<u32, ApiError> {
    if (1..=ROWS_MAX).contains(&limit) {
        return Ok(limit);
    }
    let why = format!("a limit of {limit} is not between 1 and {ROWS_MAX}");
    Err(ApiError::invalid(what, why, remedy))
}

/// Who asks, and why: both are kept for ever in the audit.
pub(crate) fn check_asker(what: &str, by: &str, reason: Option<&str>) -> Result<(), ApiError> {
    let said = |field: &str, text: &str, longest: usize| {
        if text.trim().is_empty() {
            let why = format!("`{field}` is empty, and it is kept as the record of this");
            return Err(ApiError::invalid(what, why, format!("fill in `{field}`")));
        }
        if text.len() > longest {
            let why = format!("`{field}` is longer than {longest} bytes");
            return Err(ApiError::invalid(what, why, format!("shorten `{field}`")));
        }
        Ok(())
    };
    said("by", by, BY_BYTES_MAX)?;
    reason.map_or(Ok(()), |reason| said("reason", reason, REASON_BYTES_MAX))
}
