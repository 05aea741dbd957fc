//! The HTTP API: what people and programs see and ask.
//!
//! Reading goes to the ledger, past the scheduler; what only the scheduler knows (the next fire,
//! which agents can be reached) is asked of its core. Writing is a request to the core, answered when
//! the ledger has committed it. Every answer that is not a success has the same body,
//! [`protocol::api::ErrorBody`].
//!
//! Everything but `/healthz` wants the token, unknown paths included.

mod error;
mod fleet;
mod input;
mod jobs;
mod listener;
mod output;
mod readers;
mod runs;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, serve as axum_serve};
use coordinator_core::Request as Wish;
use ledger::Done;

use crate::engine::Engine;
use crate::roster::Roster;
use crate::token::ApiToken;
use error::ApiError;
pub(crate) use listener::ApiListener;
use listener::Patience;
pub(crate) use output::OpenOutputs;
pub(crate) use readers::Readers;

const HEALTH: &str = "/healthz";

/// What every handler may use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) readers: Readers,
    pub(crate) roster: Arc<Roster>,
    pub(crate) outputs: OpenOutputs,
    pub(crate) token: Arc<ApiToken>,
    pub(crate) node: Arc<str>,
    pub(crate) agents_address: SocketAddr,
}

impl Api {
    /// Has the scheduler carry out what a person asks; answers when it is committed.
    async fn carry_out(&self, what: &str, request: Wish) -> Result<Done, ApiError> {
        let asked = self.engine.request(request).await;
        asked.map_err(|error| ApiError::asking(what, &error))
    }
}

/// Answers requests until `stop`, and then those that are under way.
pub(crate) async fn serve(
    listener: ApiListener,
    api: Api,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let service = router(api).into_make_service_with_connect_info::<Patience>();
    axum_serve(listener, service)
        .with_graceful_shutdown(stop)
        .await
}

fn router(api: Api) -> Router {
    // Not nested: below a nested router a request no longer knows its whole path, by which
    // answers name it.
    Router::new()
        .route(HEALTH, get(fleet::health))
        .route("/api/v1/jobs", get(jobs::list))
        .route(
            "/api/v1/jobs/{namespace}/{name}",
            get(jobs::show).put(jobs::put).delete(jobs::delete),
        )
        .route("/api/v1/jobs/{namespace}/{name}/plan", post(jobs::plan))
        .route("/api/v1/jobs/{namespace}/{name}/pause", post(jobs::pause))
        .route("/api/v1/jobs/{namespace}/{name}/resume", post(jobs::resume))
        .route("/api/v1/jobs/{namespace}/{name}/runs", post(jobs::run))
        .route("/api/v1/runs", get(runs::list))
        .route("/api/v1/runs/by-fire-time", get(runs::by_fire_time))
        .route("/api/v1/runs/{id}", get(runs::show))
        .route("/api/v1/runs/{id}/rerun", post(runs::rerun))
        .route("/api/v1/runs/{id}/cancel", post(runs::cancel))
        .route("/api/v1/runs/{id}/confirm", post(runs::confirm))
        .route("/api/v1/runs/{id}/shards/{shard}/log", get(output::log))
        .route("/api/v1/agents", get(fleet::agents))
        .route("/api/v1/agents/{name}/revoke", post(fleet::revoke))
        .route("/api/v1/alerts", get(fleet::alerts))
        .route("/api/v1/status", get(fleet::status))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(input::BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(api.clone(), let_in))
        .with_state(api)
}

async fn let_in(State(api): State<Api>, request: Request, next: Next) -> Response {
    if request.uri().path() != HEALTH
        && let Err(why) = authorized(&api.token, &request)
    {
        let what = format!("{} {}", request.method(), request.uri().path());
        let mut response = ApiError::unauthorized(what, why).into_response();
        let challenge = header::HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    next.run(request).await
}

fn authorized(token: &ApiToken, request: &Request) -> Result<(), &'static str> {
    const SCHEME: &[u8] = b"bearer ";
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .ok_or("the request carries no token")?
        .as_bytes();
    match given.split_at_checked(SCHEME.len()) {
        Some((scheme, offered)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            if token.is(offered) {
                Ok(())
            } else {
                Err("the token is not this coordinator's")
            }
        }
        _ => Err("the Authorization header is not of the form `Bearer TOKEN`"),
    }
}

async fn unknown_path(method: Method, uri: Uri) -> ApiError {
    ApiError::not_found(
        format!("{method} {}", uri.path()),
        "there is nothing at this path",
        "correct the path; everything but /healthz begins with /api/v1/",
    )
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::wrong_method(
        format!("{method} {}", uri.path()),
        format!("{method} means nothing at this path"),
    )
}
