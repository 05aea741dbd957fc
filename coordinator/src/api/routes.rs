//! What is served: every operation once, with its name and what only its handler may refuse.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::describe::{About, Answer, Draft, Open, Routes, document};
use super::error::ApiError;
use super::{Api, fleet, health, jobs, metrics, output, resources, runs};

const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
const CONFLICT: StatusCode = StatusCode::CONFLICT;
const CHANGED: StatusCode = StatusCode::PRECONDITION_FAILED;

pub(super) fn routes() -> Routes {
    let routes = Routes::default();
    let routes = about_jobs(routes);
    let routes = about_runs(routes);
    let routes = about_the_fleet(routes);
    about_itself(routes)
}

fn about_jobs(routes: Routes) -> Routes {
    const JOB: &str = "/api/v1/jobs/{namespace}/{name}";
    routes
        .serve(
            Method::GET,
            "/api/v1/jobs",
            jobs::list,
            says("list_jobs", "Jobs in force, by name."),
        )
        .serve(
            Method::GET,
            JOB,
            jobs::show,
            says("show_job", "A job with its manifest, recent runs and gaps.")
                .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/jobs/{namespace}/{name}/gaps",
            jobs::gaps,
            says(
                "list_gaps",
                "Stretches of the job's schedule that have no run each, newest first.",
            )
            .refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::PUT,
            JOB,
            jobs::put,
            says("put_job", "Creates the job or puts a new version in force.")
                .refuses(&[CONFLICT, CHANGED]),
        )
        .serve(
            Method::DELETE,
            JOB,
            jobs::delete,
            says("delete_job", "Deletes the job; its past stays.").refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::GET,
            "/api/v1/jobs/{namespace}/{name}/expectation",
            jobs::expectation,
            says("expectation", "What is known of one instant of the job.").refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/plan",
            jobs::plan,
            says("plan_job", "What a put or a deletion would do now.")
                .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/pause",
            jobs::pause,
            says(
                "pause_job",
                "Nothing of the job's schedule fires from now on.",
            )
            .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/resume",
            jobs::resume,
            says(
                "resume_job",
                "The job fires again from now on, and never for the past.",
            )
            .refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::POST,
            "/api/v1/jobs/{namespace}/{name}/runs",
            jobs::run,
            says("run_job", "Runs the job at a person's wish.").refuses(&[NOT_FOUND, CONFLICT]),
        )
}

fn about_runs(routes: Routes) -> Routes {
    let changes = &[NOT_FOUND, CONFLICT];
    routes
        .serve(
            Method::GET,
            "/api/v1/runs",
            runs::list,
            says(
                "list_runs",
                "Runs, newest first; with `after`, those after it, oldest first.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/by-fire-time",
            runs::by_fire_time,
            says("find_run", "The run of a job's instant.").refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/{id}",
            runs::show,
            says("show_run", "A run with everything that happened to it.").refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/rerun",
            runs::rerun,
            says(
                "rerun",
                "Carries out again what of the run did not succeed.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/redo",
            runs::redo,
            says(
                "redo",
                "Carries out all of the run anew, what succeeded too.",
            )
            .refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/cancel",
            runs::cancel,
            says("cancel_run", "Cancels the run; what runs is interrupted.").refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/runs/{id}/confirm",
            runs::confirm,
            says(
                "confirm_run",
                "A person's word on shards whose outcome nobody knows.",
            )
            .refuses(changes),
        )
        .serve(
            Method::GET,
            "/api/v1/runs/{id}/shards/{shard}/log",
            output::log,
            says("read_log", "What an attempt of the shard wrote.").refuses(&[NOT_FOUND]),
        )
}

fn about_the_fleet(routes: Routes) -> Routes {
    let changes = &[NOT_FOUND, CONFLICT];
    routes
        .serve(
            Method::GET,
            "/api/v1/agents",
            fleet::agents,
            says("list_agents", "Every agent that ever attached, by name."),
        )
        .serve(
            Method::GET,
            "/api/v1/agents/{name}",
            fleet::agent,
            says("show_agent", "An agent with what runs there.").refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/cordon",
            fleet::cordon,
            says("cordon_agent", "Grants the host nothing more.").refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/uncordon",
            fleet::uncordon,
            says("uncordon_agent", "Puts the host back into service.").refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/drain",
            fleet::drain,
            says(
                "drain_agent",
                "Grants the host nothing more; with `now`, interrupts what runs there.",
            )
            .refuses(changes),
        )
        .serve(
            Method::GET,
            "/api/v1/resources",
            resources::list,
            says("list_resources", "What shards share, by name."),
        )
        .serve(
            Method::PUT,
            "/api/v1/resources/{name}",
            resources::put,
            says("put_resource", "Says how much there is of a resource.").refuses(&[CONFLICT]),
        )
        .serve(
            Method::DELETE,
            "/api/v1/resources/{name}",
            resources::delete,
            says("delete_resource", "Forgets a resource that nobody uses.").refuses(changes),
        )
        .serve(
            Method::POST,
            "/api/v1/agents/{name}/revoke",
            fleet::revoke,
            says("revoke_agent", "Lets a host in no more.").refuses(&[NOT_FOUND, CONFLICT]),
        )
        .serve(
            Method::GET,
            "/api/v1/alerts",
            fleet::alerts,
            says(
                "list_alerts",
                "Open alerts, newest first; with `all`, the cleared ones too.",
            ),
        )
        .serve(
            Method::POST,
            "/api/v1/alerts/{id}/clear",
            fleet::clear_alert,
            says("clear_alert", "A person has seen to the alert.").refuses(&[NOT_FOUND]),
        )
        .serve(
            Method::GET,
            "/api/v1/audit",
            fleet::audit,
            says("list_audit", "What people did, newest first."),
        )
}

fn about_itself(routes: Routes) -> Routes {
    routes
        .serve(
            Method::GET,
            "/api/v1/status",
            fleet::status,
            says(
                "status",
                "The coordinator that answers, and what it looks after.",
            ),
        )
        .serve(
            Method::GET,
            "/api/v1/openapi.json",
            openapi,
            says("openapi", "This document."),
        )
        .serve(
            Method::GET,
            "/healthz",
            health::health,
            says(
                "health",
                "Whether the process lives: its scheduler answers.",
            )
            .to_all(),
        )
        .serve(
            Method::GET,
            "/readyz",
            health::ready,
            says(
                "ready",
                "Whether it leads, its clock is believed and its ledger can be written.",
            )
            .to_all(),
        )
        .serve(
            Method::GET,
            "/metrics",
            metrics::show,
            says("metrics", "Metrics, as Prometheus reads them."),
        )
}

const fn says(id: &'static str, says: &'static str) -> About {
    About {
        id,
        says,
        refuses: &[],
        open: Open::ToBearer,
    }
}

impl About {
    const fn refuses(self, refuses: &'static [StatusCode]) -> About {
        About { refuses, ..self }
    }

    const fn to_all(self) -> About {
        About {
            open: Open::ToAll,
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
