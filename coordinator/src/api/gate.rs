//! What every request passes on its way in, and every answer on its way out.
//!
//! In this order, cheapest first: the size of its head, how fast its client asks, whose token it
//! carries, what that lets its bearer do, whether this coordinator is the one to answer, and whether
//! its client takes any form that there is. On the way out an answer gets the request's id, and a
//! refusal its body.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ledger::RevokedToken;
use protocol::api::{ErrorBody, NOT_LEADER};
use tokio::time::timeout;
use tracing::Instrument;

use super::asker::Asker;
use super::describe::{By, Open, Operation, Scope};
use super::error::ApiError;
use super::input::{JobPath, what};
use super::listener::Peer;
use super::rate::Rates;
use super::readers::Readers;
use crate::clock::read_now;
use crate::lead::Lead;
use crate::token::{ApiToken, digest_of};

/// Largest head of a request: its target and its headers. A thousand ids fit into a query.
const HEAD_BYTES_MAX: usize = 32 * 1024;

const REQUEST_ID: &str = "x-request-id";

/// Longest id of a request that is taken over from its client.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// What of a refused request's body is taken in, and how long it may take to arrive.
const PASSED_OVER_BYTES_MAX: usize = 64 * 1024;
const PASSED_OVER_LIMIT: Duration = Duration::from_secs(1);

/// Paths that are asked for by machines at a pace of their own. They are counted apart: who watches
/// is not held up by what else comes from the same address, and yet asks no more than the scheduler,
/// the quorum and the ledger can be asked.
const WATCHED: &[&str] = &["/healthz", "/readyz", "/leader", "/metrics"];

#[derive(Clone)]
pub(super) struct Gate {
    /// The machine's own.
    token: Arc<ApiToken>,
    /// Of all others. With turns of their own: a request that changes something is not to wait at
    /// the door until long lists have been read.
    readers: Readers,
    lead: Lead,
    asking: Arc<Rates>,
    watching: Arc<Rates>,
    served: Arc<Served>,
    ids: Arc<RequestIds>,
}

/// By path, as it was registered.
type Served = BTreeMap<&'static str, Vec<OperationServed>>;

/// Of an operation, what the gate must know.
struct OperationServed {
    method: Method,
    open: Open,
    by: By,
    media_types: Vec<String>,
    statuses: Vec<StatusCode>,
}

/// Ids for requests that bring none: the process's own number, and a count.
struct RequestIds {
    process: u32,
    last: AtomicU64,
}

impl Gate {
    /// `process` tells the ids of this process's requests from those of others.
    pub(super) fn new(
        token: Arc<ApiToken>,
        readers: Readers,
        lead: Lead,
        process: u32,
        operations: &[Operation],
    ) -> Gate {
        let mut served = Served::new();
        for operation in operations {
            let (statuses, media_types) = operation.answers();
            let known = OperationServed {
                method: operation.method.clone(),
                open: operation.about.open,
                by: operation.about.by,
                media_types,
                statuses,
            };
            served.entry(operation.path).or_default().push(known);
        }
        Gate {
            token,
            readers,
            lead,
            asking: Arc::default(),
            watching: Arc::default(),
            served: Arc::new(served),
            ids: Arc::new(RequestIds {
                process,
                last: AtomicU64::new(0),
            }),
        }
    }

    fn operation(&self, parts: &Parts) -> Option<&OperationServed> {
        let path = parts.extensions.get::<MatchedPath>()?.as_str();
        // Who asks for the head alone is answered by the same handler.
        let method = match parts.method {
            Method::HEAD => &Method::GET,
            ref method => method,
        };
        let of_path = self.served.get(path)?;
        of_path.iter().find(|operation| operation.method == method)
    }

    /// Lets the request go on, with the [`Asker`] where it is known, or says what it is answered.
    async fn admit(
        &self,
        peer: &Peer,
        parts: &mut Parts,
        operation: Option<&OperationServed>,
    ) -> Result<(), ApiError> {
        let what = what(parts);
        let bytes = head_bytes(parts);
        if bytes > HEAD_BYTES_MAX {
            let why = format!("its head has {bytes} bytes, and {HEAD_BYTES_MAX} are taken");
            return Err(ApiError::not_taken(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                what,
                why,
                "ask with fewer or shorter headers, and for fewer things at a time",
            ));
        }
        let rates = if WATCHED.contains(&parts.uri.path()) {
            &self.watching
        } else {
            &self.asking
        };
        if let Err(wait) = rates.take(peer.address.ip()) {
            return Err(ApiError::throttled(what, wait.as_secs() + 1));
        }
        let open = operation.map(|operation| operation.open);
        if open != Some(Open::ToAll) {
            let asker = self.identify(&what, peer, &parts.headers).await?;
            if let Some(Open::To(role, scope)) = open {
                asker.must_be(&what, role)?;
                self.judge_reach(&what, &asker, scope, parts).await?;
            }
            parts.extensions.insert(asker);
        }
        if operation.is_some_and(|operation| operation.by == By::Leader) && !self.lead.reigns() {
            return Err(ApiError::not_leader(what, "this coordinator does not lead"));
        }
        match operation {
            Some(operation) if !accepts(&parts.headers, &operation.media_types) => {
                let there_is = operation.media_types.join(", ");
                Err(ApiError::not_taken(
                    StatusCode::NOT_ACCEPTABLE,
                    what,
                    format!("the Accept header takes none of what there is: {there_is}"),
                    "leave the header out, or name one of these",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whose token it is. A revoked one is refused from the moment its revocation is committed: the
    /// ledger is asked every time, nothing is remembered here.
    async fn identify(
        &self,
        what: &str,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Asker, ApiError> {
        let source = peer.source();
        let refused = |why: String| {
            tracing::info!(source, why, "a request is not let in");
            Err(ApiError::unauthorized(what, why))
        };
        let offered = match bearer(headers) {
            Ok(offered) => offered,
            Err(why) => return refused(why.to_owned()),
        };
        if self.token.is(offered) || self.lead.is_of_a_member(offered) {
            return Ok(Asker::local(source.into()));
        }
        let Some(secret) = digest_of(offered) else {
            return refused("the token is of no coordinator of this group".to_owned());
        };
        let read = move |reader: &ledger::Reader| reader.token_by_secret(&secret);
        let Some(token) = self.readers.read(what, read).await? else {
            return refused("there is no such token".to_owned());
        };
        if let Some(revoked) = &token.revoked {
            let RevokedToken { at, by } = revoked;
            return refused(format!(
                "the token {} was revoked at {at} by {by}",
                token.name
            ));
        }
        match token.expires_at {
            Some(end) if end <= read_now().wall => {
                refused(format!("the token {} ended at {end}", token.name))
            }
            _ => Ok(Asker::of_token(token, source.into())),
        }
    }

    /// Whether what the operation is about is within the asker's reach, as far as its path says.
    async fn judge_reach(
        &self,
        what: &str,
        asker: &Asker,
        scope: Scope,
        parts: &mut Parts,
    ) -> Result<(), ApiError> {
        match scope {
            Scope::Everything => asker.must_reach_all(what),
            Scope::Job if !asker.reach().is_all() => {
                let JobPath(name) = JobPath::from_request_parts(parts, &()).await?;
                asker.must_reach(what, &name)?;
                // An old name of a job that now is another's to see.
                let read = move |reader: &ledger::Reader| reader.present_name(&name);
                match self.readers.read(what, read).await? {
                    Some(present) => asker.must_reach(what, &present),
                    None => Ok(()),
                }
            }
            Scope::Job | Scope::Within | Scope::Common => Ok(()),
        }
    }
}

/// The middleware.
pub(super) async fn pass(
    State(gate): State<Gate>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let id = gate.ids.of(&parts.headers);
    let span = tracing::info_span!(
        "request",
        request_id = id,
        method = %parts.method,
        path = parts.uri.path(),
    );
    let operation = gate.operation(&parts);
    let answered = async {
        let mut response = match gate.admit(&peer, &mut parts, operation).await {
            Ok(()) => next.run(Request::from_parts(parts, body)).await,
            Err(refused) => {
                pass_over(body).await;
                refused.into_response()
            }
        };
        let status = response.status();
        tracing::debug!(status = status.as_u16(), "answered");
        debug_assert!(
            operation.is_none_or(|operation| operation.statuses.contains(&status)),
            "{status} is not described"
        );
        if let Some(mut body) = response.extensions_mut().remove::<ErrorBody>() {
            body.request_id = Some(id.clone());
            if body.kind == NOT_LEADER {
                body.leader = gate.lead.address();
            }
            let (told, body) = Json(body).into_response().into_parts();
            response.headers_mut().extend(told.headers);
            *response.body_mut() = body;
        }
        let id = HeaderValue::from_str(&id).expect("ids are of letters and digits");
        response.headers_mut().insert(REQUEST_ID, id);
        response
    };
    answered.instrument(span).await
}

/// Takes in the little that a refused request has for a body: a connection that ends with something
/// unread in it may take the refusal with it, and cannot carry the client's next request. Who sends
/// more, or slowly, loses its connection.
async fn pass_over(body: Body) {
    let _ = timeout(PASSED_OVER_LIMIT, to_bytes(body, PASSED_OVER_BYTES_MAX)).await;
}

impl RequestIds {
    /// The client's own, where it can stand in a log.
    fn of(&self, headers: &HeaderMap) -> String {
        let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let sane = |id: &&str| {
            let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(letter)
        };
        given.filter(sane).map_or_else(
            || {
                let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
                format!("req-{:08x}-{number}", self.process)
            },
            str::to_owned,
        )
    }
}

fn head_bytes(parts: &Parts) -> usize {
    let headers = parts.headers.iter();
    let headers: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let target = parts.uri.path_and_query();
    headers + target.map_or(0, |target| target.as_str().len())
}

fn bearer(headers: &HeaderMap) -> Result<&[u8], &'static str> {
    const SCHEME: &[u8] = b"bearer ";
    let given = headers
        .get(header::AUTHORIZATION)
        .ok_or("the request carries no token")?
        .as_bytes();
    match given.split_at_checked(SCHEME.len()) {
        Some((scheme, offered)) if scheme.eq_ignore_ascii_case(SCHEME) => Ok(offered),
        _ => Err("the Authorization header is not of the form `Bearer TOKEN`"),
    }
}

/// Whether one of the media types is among those that the client takes. One that says nothing
/// takes anything.
fn accepts(headers: &HeaderMap, media_types: &[String]) -> bool {
    let mut said = headers.get_all(header::ACCEPT).iter().peekable();
    said.peek().is_none()
        || said
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|range| takes(range, media_types))
}

/// Whether a range of an Accept header, as `text/*;q=0.5`, takes one of the media types.
fn takes(range: &str, media_types: &[String]) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
    weight.is_none_or(|weight| weight > 0.0)
        && media_types.iter().any(|media_type| {
            let plain = media_type.split(';').next().unwrap_or_default();
            let group = plain.split('/').next().unwrap_or_default();
            range == "*/*" || range == plain || range.strip_suffix("/*") == Some(group)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_takes() {
        let json = ["application/json".to_owned()];
        let text = ["text/plain; version=0.0.4".to_owned()];
        for (accept, media_types, expected) in [
            (None, &json, true),
            (Some("*/*"), &json, true),
            (Some("application/json"), &json, true),
            (Some("Application/JSON"), &json, true),
            (Some("text/html, application/*;q=0.8"), &json, true),
            (Some("text/html, */*;q=0.1"), &json, true),
            (Some("text/html"), &json, false),
            (Some("application/json;q=0"), &json, false),
            (Some(""), &json, false),
            (Some("text/plain"), &text, true),
            (Some("application/json"), &text, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(accepts(&headers, media_types), expected, "{accept:?}");
        }
    }

    #[test]
    fn an_id_is_taken_over_where_it_can_stand_in_a_log() {
        let ids = RequestIds {
            process: 0xab,
            last: AtomicU64::new(0),
        };
        let long = "x".repeat(65);
        for (given, expected) in [
            ("trace.1_a-B", "trace.1_a-B"),
            ("", "req-000000ab-1"),
            ("two words", "req-000000ab-2"),
            ("a\"b", "req-000000ab-3"),
            (&long, "req-000000ab-4"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, given.parse().unwrap());
            assert_eq!(ids.of(&headers), expected);
        }
    }
}
