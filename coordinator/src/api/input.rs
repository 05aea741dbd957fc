//! What a request says, as types: past here a value cannot be wrong.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::Json;
use axum::RequestPartsExt;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ledger::ROWS_MAX;
use protocol::api::IdText;
use protocol::names::NAME_PART_PATTERN;
use protocol::{JobName, RunId};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;

use super::Api;
use super::describe::{Answer, Draft, Input};
use super::error::ApiError;
use super::listener::Peer;

/// Largest body of a request.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How long a body may take to arrive. Below what the connection as a whole may take to be
/// answered, so that its client is told.
const BODY_LIMIT: Duration = Duration::from_secs(10);

/// `.../{namespace}/{name}`
pub(crate) struct JobPath(pub(crate) JobName);

/// `.../{name}` of an agent, a resource or a token.
pub(crate) struct NamePath<T>(pub(crate) T);

/// `.../{id}` of a run or an alert.
pub(crate) struct IdPath<T>(pub(crate) T);

/// `.../runs/{id}/shards/{shard}`
pub(crate) struct ShardPath(pub(crate) RunId, pub(crate) u32);

/// The query, all of it known.
pub(crate) struct Params<T>(pub(crate) T);

/// The version of a job that must be in force for the request to be carried out: `If-Match` with
/// its ETag; 0, none, for `If-None-Match: *`.
pub(crate) struct Expected(pub(crate) Option<u32>);

/// A job, or what became of it, with its version as its ETag.
pub(crate) struct Tagged<T>(pub(crate) u32, pub(crate) T);

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

impl<T: FromStr<Err: Display>, S: Sync> FromRequestParts<S> for NamePath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<NamePath<T>, ApiError> {
        only_value(parts).await.map(NamePath)
    }
}

impl<T: FromStr<Err: Display>, S: Sync> FromRequestParts<S> for IdPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IdPath<T>, ApiError> {
        only_value(parts).await.map(IdPath)
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

impl<S: Sync> FromRequestParts<S> for Expected {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Expected, ApiError> {
        let said = |header: header::HeaderName| {
            let value = parts.headers.get(header);
            value.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        };
        match (said(header::IF_MATCH), said(header::IF_NONE_MATCH)) {
            (None, None) => Some(None),
            (None, Some(none)) if none == "*" => Some(Some(0)),
            (Some(tag), None) => version_of(&tag).map(Some),
            _ => None,
        }
        .map(Expected)
        .ok_or_else(|| {
            ApiError::invalid(
                what(parts),
                "the precondition cannot be understood",
                "send `If-Match` with the one ETag that the job came with, as in `If-Match: \"3\"`; or \
                 `If-None-Match: *` where there must be no such job yet",
            )
        })
    }
}

/// A version from its ETag. No job has a version 0.
fn version_of(tag: &str) -> Option<u32> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    let version = digits.parse().ok()?;
    (version > 0 && digits.bytes().all(|b| b.is_ascii_digit())).then_some(version)
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let tag = format!("\"{}\"", self.0);
        ([(header::ETAG, tag)], Json(self.1)).into_response()
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Entity<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Entity<T>, ApiError> {
        let what = format!("{} {}", request.method(), request.uri().path());
        check_body_headers(&what, request.headers())?;
        let body = match timeout(BODY_LIMIT, Bytes::from_request(request, state)).await {
            Ok(Ok(body)) => body,
            Ok(Err(rejection)) => return Err(unreceived(what, &rejection)),
            Err(_) => {
                let why = format!(
                    "the body did not arrive within {} s; nothing was done",
                    BODY_LIMIT.as_secs()
                );
                let (status, remedy) = (StatusCode::REQUEST_TIMEOUT, "send it again, faster");
                return Err(ApiError::not_taken(status, what, why, remedy));
            }
        };
        read_body(&body).map(Entity).map_err(|why| {
            let why = format!("the body is not what this request takes: {why}");
            ApiError::invalid(
                what,
                why,
                "send the JSON that the API's reference describes",
            )
        })
    }
}

/// Every body is an object. An array of the values of its fields, which serde would take for one,
/// names nothing: what it means would hang on the order in which a version writes its fields.
fn read_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    if body.trim_ascii_start().starts_with(b"[") {
        return Err("it is an array, not an object".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Whether the head promises a body, and one of JSON. A client that names no type is believed.
fn check_body_headers(what: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key(header::CONTENT_LENGTH)
        && !headers.contains_key(header::TRANSFER_ENCODING)
    {
        return Err(ApiError::not_taken(
            StatusCode::LENGTH_REQUIRED,
            what,
            "this request takes a body, and its head announces none",
            "send the JSON that the API's reference describes, with its Content-Length",
        ));
    }
    let Some(given) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let given = String::from_utf8_lossy(given.as_bytes());
    let plain = given.split(';').next().unwrap_or_default().trim();
    if plain.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::not_taken(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        what,
        format!("the body is said to be `{plain}`"),
        "send JSON, and say so: `Content-Type: application/json`",
    ))
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

/// The one value that the path names.
async fn only_value<T: FromStr<Err: Display>>(parts: &mut Parts) -> Result<T, ApiError> {
    let what = what(parts);
    let text = path::<String>(parts).await?;
    parse(&what, &text)
}

/// The request as far as it is known, for answers to what cannot be understood.
pub(crate) fn what(parts: &Parts) -> String {
    format!("{} {}", parts.method, parts.uri.path())
}

impl Input for State<Api> {
    fn describe(_: &mut Draft) {}
}

impl Input for ConnectInfo<Peer> {
    fn describe(_: &mut Draft) {}
}

impl Input for JobPath {
    fn describe(draft: &mut Draft) {
        let part = json!({ "type": "string", "pattern": format!("^{NAME_PART_PATTERN}$") });
        draft.path_part("namespace", part.clone());
        draft.path_part("name", part);
    }
}

impl<T: JsonSchema> Input for NamePath<T> {
    fn describe(draft: &mut Draft) {
        draft.path_value::<T>("name");
    }
}

impl<T> Input for IdPath<T>
where
    IdText<T>: JsonSchema,
{
    fn describe(draft: &mut Draft) {
        draft.path_value::<IdText<T>>("id");
    }
}

impl Input for ShardPath {
    fn describe(draft: &mut Draft) {
        draft.path_value::<IdText<RunId>>("id");
        draft.path_value::<u32>("shard");
    }
}

impl<T: JsonSchema> Input for Params<T> {
    fn describe(draft: &mut Draft) {
        draft.query::<T>();
    }
}

impl<T: JsonSchema> Input for Entity<T> {
    fn describe(draft: &mut Draft) {
        draft.json_body::<T>();
    }
}

impl Input for Expected {
    fn describe(draft: &mut Draft) {
        draft.header(
            "If-Match",
            "The ETag of the version that must be in force: nothing is done over another one.",
            json!({ "type": "string", "pattern": "^\"[1-9][0-9]{0,8}\"$" }),
        );
        draft.header(
            "If-None-Match",
            "`*`: nothing is done where a job of this name is in force.",
            json!({ "type": "string", "enum": ["*"] }),
        );
        draft.may_answer(StatusCode::BAD_REQUEST);
    }
}

impl<T: JsonSchema> Answer for Tagged<T> {
    fn describe(draft: &mut Draft) {
        draft.answers_json::<T>();
        draft.answers_with_header("ETag", "The job's version, for `If-Match`.");
    }
}

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(draft: &mut Draft) {
        draft.answers_json::<T>();
    }
}

/// Reads a name or id; its own error says what it should look like.
pub(crate) fn parse<T>(what: &str, text: &str) -> Result<T, ApiError>
where
    T: FromStr<Err: Display>,
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
