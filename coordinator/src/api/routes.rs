//! What is served: every operation once, with its name and what only its handler may refuse.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::ApiRole;
use serde_json::json;

use super::describe::{About, Answer, By, Draft, Open, Routes, Scope, document};
use super::error::ApiError;
use super::{
    Api, classes, clock, cluster, fleet, health, jobs, join, metrics, output, profile, resources,
    runs, tokens,
};

const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
const CONFLICT: StatusCode = StatusCode::CONFLICT;
const CHANGED: StatusCode = StatusCode::PRECONDITION_FAILED;

pub(super) fn routes() -> Routes {
    let routes = Routes::default();
    let routes = about_jobs(routes);
    let routes = about_runs(routes);
    let routes = about_the_fleet(routes);
    let routes = about_tokens(routes);
    let routes = about_joining(routes);
    about_itself(routes)
}

fn about_jobs(routes: Routes) -> Routes {
    const JOB: &str = "/api/v1/jobs/{namespace}/{name}";
    routes
        .serve(
            Method::GET,
            "/api/v1/jobs",
            jobs::list,
            shows("list_jobs", Scope::Within, "Jobs in force, by name."),
        )
        .serve(
            Method::GET,
            JOB,
            jobs::show,
            shows(
                "show_job",
                Scope::Job,
                "A job with its manifest, recent runs and gaps.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/jobs/{namespace}/{name}/gaps",
            jobs::gaps,
            shows(
                "list_gaps",
                Scope::Job,
                "Stretches of the job's schedule that have no run each, newest first.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/jobs/{namespace}/{name}/profile",
            profile::show,
            shows(
                "job_profile",
                Scope::Job,
                "What the job declares, and what its newest runs have used.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::PUT,
            JOB,
            jobs::put,
            operates(
                "put_job",
                Scope::Job,
                "Creates the job or puts a new version in force.",
            )
            .refuses(&[CONFLICT, CHANGED]),
        )
        .serve(
            Method::DELETE,
            JOB,
            jobs::delete,
            operates("delete_job", Scope::Job, "Deletes the job; its past stays.")
                .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::GET,
            "/api/v1/jobs/{namespace}/{name}/expectation",
            jobs::expectation,
            shows(
                "expectation",
                Scope::Job,
                "What is known of one instant of the job.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/plan",
            jobs::plan,
            shows(
                "plan_job",
                Scope::Job,
                "What a put or a deletion would do now.",
            )
            .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/pause",
            jobs::pause,
            operates(
                "pause_job",
                Scope::Job,
                "Nothing of the job's schedule fires from now on.",
            )
            .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/resume",
            jobs::resume,
            operates(
                "resume_job",
                Scope::Job,
                "The job fires again from now on, and never for the past.",
            )
            .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/runs",
            jobs::run,
            operates("run_job", Scope::Job, "Runs the job at a person's wish.")
                .refuses(&[NOT_FOUND, CONFLICT]),
        )
}

fn about_runs(routes: Routes) -> Routes {
    let changes = &[NOT_FOUND, CONFLICT];
    routes
        .serve(
            Method::GET,
            "/api/v1/runs",
            runs::list,
            shows(
                "list_runs",
                Scope::Within,
                "Runs, newest first; with `after`, those after it, oldest first.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/by-fire-time",
            runs::by_fire_time,
            shows("find_run", Scope::Within, "The run of a job's instant.").refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/usage",
            runs::usage,
            shows(
                "list_run_usage",
                Scope::Within,
                "Runs with what each of their attempts took, newest first.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/{id}",
            runs::show,
            shows(
                "show_run",
                Scope::Within,
                "A run with everything that happened to it.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/rerun",
            runs::rerun,
            operates(
                "rerun",
                Scope::Within,
                "Carries out again what of the run did not succeed.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/redo",
            runs::redo,
            operates(
                "redo",
                Scope::Within,
                "Carries out all of the run anew, what succeeded too.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/cancel",
            runs::cancel,
            operates(
                "cancel_run",
                Scope::Within,
                "Cancels the run; what runs is interrupted.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/confirm",
            runs::confirm,
            operates(
                "confirm_run",
                Scope::Within,
                "A person's word on shards whose outcome nobody knows.",
            )
            .refuses(changes),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/{id}/shards/{shard}/log",
            output::log,
            shows(
                "read_log",
                Scope::Within,
                "What an attempt of the shard wrote.",
            )
            .refuses(&[NOT_FOUND]),
        )
}

fn about_the_fleet(routes: Routes) -> Routes {
    let changes = &[NOT_FOUND, CONFLICT];
    routes
        .serve(
            Method::GET,
            "/api/v1/agents",
            fleet::agents,
            shows(
                "list_agents",
                Scope::Common,
                "Every agent that ever attached, by name.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/agents/{name}",
            fleet::agent,
            shows(
                "show_agent",
                Scope::Within,
                "An agent with what runs there.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/agents/{name}/classes",
            classes::of_agent,
            shows(
                "show_agent_classes",
                Scope::Common,
                "How a host stands to every class, and why.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/classes",
            classes::list,
            shows(
                "list_classes",
                Scope::Common,
                "The classes of hosts by name, their rules, and who is in them.",
            ),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/cordon",
            fleet::cordon,
            operates(
                "cordon_agent",
                Scope::Everything,
                "Grants the host nothing more.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/uncordon",
            fleet::uncordon,
            operates(
                "uncordon_agent",
                Scope::Everything,
                "Puts the host back into service.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/drain",
            fleet::drain,
            operates(
                "drain_agent",
                Scope::Everything,
                "Grants the host nothing more; with `now`, interrupts what runs there.",
            )
            .refuses(changes),
        )
        .serve(
            Method::GET,
            "/api/v1/resources",
            resources::list,
            shows(
                "list_resources",
                Scope::Common,
                "What shards share, by name.",
            ),
        )
        .serve(
            Method::PUT,
            "/api/v1/resources/{name}",
            resources::put,
            operates(
                "put_resource",
                Scope::Everything,
                "Says how much there is of a resource.",
            )
            .refuses(&[CONFLICT]),
        )
        .serve(
            Method::DELETE,
            "/api/v1/resources/{name}",
            resources::delete,
            operates(
                "delete_resource",
                Scope::Everything,
                "Forgets a resource that nobody uses.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/revoke",
            fleet::revoke,
            administers("revoke_agent", Scope::Everything, "Lets a host in no more.")
                .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::GET,
            "/api/v1/alerts",
            fleet::alerts,
            shows(
                "list_alerts",
                Scope::Within,
                "Open alerts, newest first; with `all`, the cleared ones too.",
            ),
        )
        .serve(
            Method::POST,
            "/api/v1/alerts/{id}/clear",
            fleet::clear_alert,
            operates(
                "clear_alert",
                Scope::Within,
                "A person has seen to the alert.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/audit",
            fleet::audit,
            shows(
                "list_audit",
                Scope::Within,
                "What people did, newest first.",
            ),
        )
}

fn about_tokens(routes: Routes) -> Routes {
    routes
        .serve(
            Method::GET,
            "/api/v1/tokens",
            tokens::list,
            administers(
                "list_tokens",
                Scope::Everything,
                "API tokens by name, those that are over too.",
            ),
        )
        .serve(
            Method::POST,
            "/api/v1/tokens",
            tokens::create,
            administers(
                "create_token",
                Scope::Everything,
                "Makes a token; its secret is told this once.",
            )
            .refuses(&[CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/tokens/{name}/revoke",
            tokens::revoke,
            administers(
                "revoke_token",
                Scope::Everything,
                "Lets the bearer of the token in no more.",
            )
            .refuses(&[NOT_FOUND]),
        )
}

fn about_joining(routes: Routes) -> Routes {
    routes
        .serve(
            Method::POST,
            "/api/v1/join-tokens",
            join::create,
            administers(
                "create_join_token",
                Scope::Everything,
                "Makes a token by which hosts or control machines are let in; its secret is told this once.",
            )
            .refuses(&[CONFLICT]),
        )
        .serve(
            Method::GET,
            "/api/v1/join-tokens",
            join::list,
            administers(
                "list_join_tokens",
                Scope::Everything,
                "Join tokens, newest first, those that are over too.",
            ),
        )
        .serve(
            Method::POST,
            "/api/v1/join-tokens/{id}/revoke",
            join::revoke,
            administers(
                "revoke_join_token",
                Scope::Everything,
                "Lets nobody in by the token any more.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::POST,
            "/api/v1/enrol",
            join::enrol,
            open(
                "enrol",
                "Gives whoever shows a join token a certificate of its own key.",
            )
            .by_leader()
            .refuses(&[StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, CONFLICT]),
        )
}

fn about_itself(routes: Routes) -> Routes {
    routes
        .serve(
            Method::GET,
            "/api/v1/status",
            fleet::status,
            shows(
                "status",
                Scope::Common,
                "The coordinator that answers, and what it looks after.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/clock",
            clock::clocks,
            shows(
                "clocks",
                Scope::Everything,
                "The clocks of control machines and hosts, those furthest off first.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/cluster",
            cluster::status,
            shows(
                "cluster",
                Scope::Everything,
                "The control group, as the machine that answers sees it.",
            )
            .by_any(),
        )
        .serve(
            Method::POST,
            "/api/v1/cluster/add",
            cluster::add,
            administers(
                "add_member",
                Scope::Everything,
                "Adds the machine at an address to the control group.",
            )
            .refuses(&[CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/cluster/remove",
            cluster::remove,
            administers(
                "remove_member",
                Scope::Everything,
                "Takes a machine out of the control group for ever.",
            )
            .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/cluster/transfer",
            cluster::transfer,
            administers(
                "transfer_lead",
                Scope::Everything,
                "Hands the lead over to another coordinator.",
            )
            .refuses(&[CONFLICT]),
        )
        .serve(
            Method::GET,
            "/api/v1/openapi.json",
            openapi,
            shows("openapi", Scope::Common, "This document.").by_any(),
        )
        .serve(
            Method::GET,
            "/healthz",
            health::health,
            open(
                "health",
                "Whether the process lives: its scheduler answers.",
            ),
        )
        .serve(
            Method::GET,
            "/readyz",
            health::ready,
            open(
                "ready",
                "Whether it leads or could, its clock is believed and its ledger can be written.",
            ),
        )
        .serve(
            Method::GET,
            "/leader",
            health::leader,
            open(
                "leader",
                "Whether this coordinator leads, as a quorum has just confirmed.",
            ),
        )
        .serve(
            Method::GET,
            "/metrics",
            metrics::show,
            shows(
                "metrics",
                Scope::Everything,
                "Metrics, as Prometheus reads them.",
            )
            .by_any(),
        )
}

/// For everybody, with a token or without.
const fn open(id: &'static str, says: &'static str) -> About {
    About {
        id,
        says,
        refuses: &[],
        open: Open::ToAll,
        by: By::Any,
    }
}

const fn shows(id: &'static str, scope: Scope, says: &'static str) -> About {
    for_role(ApiRole::Viewer, id, scope, says)
}

const fn operates(id: &'static str, scope: Scope, says: &'static str) -> About {
    for_role(ApiRole::Operator, id, scope, says)
}

const fn administers(id: &'static str, scope: Scope, says: &'static str) -> About {
    for_role(ApiRole::Admin, id, scope, says)
}

const fn for_role(role: ApiRole, id: &'static str, scope: Scope, says: &'static str) -> About {
    About {
        id,
        says,
        refuses: &[],
        open: Open::To(role, scope),
        by: By::Leader,
    }
}

impl About {
    const fn refuses(self, refuses: &'static [StatusCode]) -> About {
        About { refuses, ..self }
    }

    const fn by_leader(self) -> About {
        About {
            by: By::Leader,
            ..self
        }
    }

    const fn by_any(self) -> About {
        About {
            by: By::Any,
            ..self
        }
    }
}

/// `GET /api/v1/openapi.json`
async fn openapi(State(_): State<Api>) -> Result<Document, ApiError> {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let bytes = DOCUMENT.get_or_init(|| {
        let (_, operations) = routes().into_parts();
        document(&operations).to_string().into()
    });
    Ok(Document(bytes.clone()))
}

struct Document(Bytes);

impl Answer for Document {
    fn describe(draft: &mut Draft) {
        draft.answers("application/json", json!({ "type": "object" }));
    }
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// Every `$ref` below a value.
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_is_whole() {
        let (_, operations) = routes().into_parts();
        let document = document(&operations);
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in &found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let kinds = ["schemas", "responses"].map(|kind| format!("#/components/{kind}/"));
        assert!(
            kinds
                .iter()
                .all(|kind| found.iter().any(|r| r.starts_with(kind)))
        );
        let ids: BTreeSet<&str> = operations.iter().map(|o| o.about.id).collect();
        assert_eq!(ids.len(), operations.len(), "a name for each operation");
        for operation in &operations {
            let described =
                &document["paths"][operation.path][operation.method.as_str().to_ascii_lowercase()];
            let none = Vec::new();
            let parameters = described["parameters"].as_array().unwrap_or(&none);
            let of_path: BTreeSet<&str> = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            let in_path: BTreeSet<&str> = operation
                .path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
                .collect();
            assert_eq!(of_path, in_path, "{}", operation.path);
            assert!(
                described["responses"]["200"]["content"].is_object(),
                "{}: what it gives is described",
                operation.path
            );
        }
    }
}
