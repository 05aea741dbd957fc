//! The HTTP API: what people and programs see and ask.
//!
//! Reading goes to the ledger, past the scheduler; what only the scheduler knows (the next fire,
//! which agents can be reached) is asked of its core. Writing is a request to the core, answered when
//! the ledger has committed it. Every answer that is not a success has the same body,
//! [`protocol::api::ErrorBody`].
//!
//! What is served stands in [`routes`], where each operation describes itself; [`gate`] is what
//! every request passes first. Everything but `/healthz`, `/readyz` and `/leader` wants a token,
//! unknown paths included; what a token lets its bearer do says [`asker`]. A coordinator that does
//! not lead answers little more than these, and says who does.

mod asker;
mod classes;
mod clock;
mod cluster;
mod describe;
mod error;
mod fleet;
mod gate;
mod health;
mod input;
mod jobs;
mod join;
mod listener;
mod metrics;
mod output;
mod pages;
mod profile;
mod rate;
mod readers;
mod resources;
mod routes;
mod runs;
mod tokens;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::{Router, serve as axum_serve};
use coordinator_core::address::Trouble;
use coordinator_core::{Asked, Request as Wish};
use ledger::Done;
use tokio::sync::watch;

use crate::authority::Authority;
use crate::class_file::ClassFile;
use crate::engine::Engine;
use crate::lead::Lead;
use crate::metrics::Metrics;
use crate::renewal::OwnCertificate;
use crate::roster::Roster;
use crate::time_service::Saying;
use crate::token::ApiToken;
use asker::Asker;
use error::ApiError;
use gate::Gate;
pub(crate) use listener::ApiListener;
use listener::Peer;
pub(crate) use output::OpenOutputs;
pub(crate) use readers::Readers;

/// What every handler may use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    /// Where this machine has its key.
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) engine: Engine,
    pub(crate) lead: Lead,
    pub(crate) readers: Readers,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) outputs: OpenOutputs,
    pub(crate) token: Arc<ApiToken>,
    pub(crate) classes: ClassFile,
    pub(crate) node: Arc<str>,
    pub(crate) agents_address: SocketAddr,
    /// What keeps the leader's address from this machine.
    pub(crate) address_trouble: watch::Receiver<Option<Trouble>>,
    pub(crate) certificate: watch::Receiver<OwnCertificate>,
    /// What this machine's own time service says.
    pub(crate) time_service: Saying,
}

impl Api {
    /// Has the scheduler carry out what a person asks; answers when it is committed.
    async fn carry_out(&self, what: &str, asker: &Asker, request: Wish) -> Result<Done, ApiError> {
        self.carry_out_from(what, asker.source(), request).await
    }

    /// The same for who is known by its address alone.
    async fn carry_out_from(
        &self,
        what: &str,
        source: &str,
        request: Wish,
    ) -> Result<Done, ApiError> {
        let asked = Asked {
            request,
            source: Some(source.into()),
        };
        let answer = self.engine.request(asked).await;
        answer.map_err(|error| ApiError::asking(what, &error))
    }
}

/// Answers requests until `stop`, and then those that are under way.
pub(crate) async fn serve(
    listener: ApiListener,
    api: Api,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let process = getrandom::u32().map_err(std::io::Error::other)?;
    let service = router(api, process).into_make_service_with_connect_info::<Peer>();
    axum_serve(listener, service)
        .with_graceful_shutdown(stop)
        .await
}

fn router(api: Api, process: u32) -> Router {
    let (router, operations) = routes::routes().into_parts();
    let gate = Gate::new(
        Arc::clone(&api.token),
        api.readers.apart(),
        api.lead.clone(),
        process,
        &operations,
    );
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(input::BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(gate, gate::pass))
        .with_state(api)
}

async fn unknown_path(method: Method, uri: Uri) -> ApiError {
    ApiError::not_found(
        format!("{method} {}", uri.path()),
        "there is nothing at this path",
        "correct the path; /api/v1/openapi.json lists all there are",
    )
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::wrong_method(
        format!("{method} {}", uri.path()),
        format!("{method} means nothing at this path"),
    )
}
