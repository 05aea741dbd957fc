//! Runs: listed, shown, and what people ask of them.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use coordinator_core::Request;
use coordinator_core::dispatch::{Report, Waits};
use ledger::command::{RerunScope, Verdict};
use ledger::{Done, ROWS_MAX, RunFilter, RunState};
use protocol::api::{
    CancelRequest, ConfirmRequest, IdOrNull, RedoAnswer, RedoRequest, RerunRequest, Rfc3339,
    Rfc3339OrNull, Run, RunAnswer, RunDetail, RunUsage,
};
use protocol::{AgentName, ApiRole, JobName, NamespaceName, RunId, WallMs, api};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::Api;
use super::asker::Asker;
use super::error::{ApiError, LIST_RUNS};
use super::input::{Entity, IdPath, Params, parse};
use super::jobs::out_of_place;
use super::pages::{self, Paged, place};

const LIMIT_DEFAULT: u32 = 50;

/// Query of `GET /api/v1/runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Under its present name or one that it had before; of deleted jobs too.
    job: Option<JobName>,
    /// Of all jobs whose names begin with this namespace.
    namespace: Option<NamespaceName>,
    #[serde(default)]
    #[schemars(schema_with = "run_state")]
    state: Option<RunState>,
    /// With a fire time not before this.
    #[serde(default, with = "Rfc3339OrNull")]
    from: Option<WallMs>,
    /// With a fire time before this.
    #[serde(default, with = "Rfc3339OrNull")]
    to: Option<WallMs>,
    /// Of which at least one attempt was this agent's.
    agent: Option<AgentName>,
    /// Those admitted after this run, oldest first.
    #[serde(default, with = "IdOrNull::<RunId>")]
    after: Option<RunId>,
    /// Ids with commas between.
    #[serde(default)]
    #[schemars(schema_with = "run_ids")]
    ids: Option<String>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Query of `GET /api/v1/runs/by-fire-time`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FireQuery {
    job: JobName,
    #[serde(with = "Rfc3339")]
    fire_time: WallMs,
}

fn run_state(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<&str> = RunState::ALL.iter().map(|state| state.as_str()).collect();
    json_schema!({ "type": "string", "enum": words })
}

fn run_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^run-[0-9]{1,18}(,run-[0-9]{1,18}){0,999}$" })
}

/// `GET /api/v1/runs`: newest first, those of one job by fire time, all others as they were
/// admitted; with `after`, those after it, oldest first.
pub(super) async fn list(
    State(api): State<Api>,
    asker: Asker,
    uri: Uri,
    Params(query): Params<ListQuery>,
) -> Result<Paged<Run>, ApiError> {
    let what = "listing the runs";
    let follows = query.after.is_some();
    let filter = filter(what, &asker, query)?;
    let read = move |reader: &ledger::Reader| reader.runs(&filter);
    let page = api.readers.read(what, read).await?;
    if follows {
        let next = page.next.map(|place| format!("after={}", place.run_id));
        return Ok(Paged::going_on(&uri, page.rows, next));
    }
    Ok(Paged::of(&uri, page))
}

fn filter(what: &str, asker: &Asker, query: ListQuery) -> Result<RunFilter, ApiError> {
    let limit = pages::limit(what, query.limit, LIMIT_DEFAULT)?;
    let ids: Option<Vec<RunId>> = query
        .ids
        .as_deref()
        .map(|ids| ids.split(',').map(|id| parse(what, id)).collect())
        .transpose()?;
    if ids
        .as_ref()
        .is_some_and(|ids| ids.len() > ROWS_MAX as usize)
    {
        let why = format!("more than {ROWS_MAX} ids");
        return Err(ApiError::invalid(what, why, "ask for fewer at a time"));
    }
    Ok(RunFilter {
        job: query.job,
        namespace: query.namespace,
        within: asker.reach().clone(),
        state: query.state,
        from: query.from,
        to: query.to,
        agent: query.agent,
        after_id: query.after,
        ids,
        before: place(what, query.cursor.as_deref())?,
        limit,
    })
}

/// Query of `GET /api/v1/runs/usage`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageQuery {
    /// Under its present name or one that it had before; of deleted jobs too.
    job: Option<JobName>,
    /// Of all jobs whose names begin with this namespace.
    namespace: Option<NamespaceName>,
    /// With a fire time not before this.
    #[serde(default, with = "Rfc3339OrNull")]
    from: Option<WallMs>,
    /// With a fire time before this.
    #[serde(default, with = "Rfc3339OrNull")]
    to: Option<WallMs>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /api/v1/runs/usage`: in the order of the list, a page at a time, and a page is bounded by its
/// attempts too.
pub(super) async fn usage(
    State(api): State<Api>,
    asker: Asker,
    uri: Uri,
    Params(query): Params<UsageQuery>,
) -> Result<Paged<RunUsage>, ApiError> {
    let what = "listing what runs took";
    let filter = RunFilter {
        job: query.job,
        namespace: query.namespace,
        within: asker.reach().clone(),
        from: query.from,
        to: query.to,
        before: place(what, query.cursor.as_deref())?,
        limit: pages::limit(what, query.limit, LIMIT_DEFAULT)?,
        ..RunFilter::default()
    };
    let read = move |reader: &ledger::Reader| reader.run_usages(&filter);
    Ok(Paged::of(&uri, api.readers.read(what, read).await?))
}

/// `GET /api/v1/runs/{id}`
pub(super) async fn show(
    State(api): State<Api>,
    asker: Asker,
    IdPath(run): IdPath<RunId>,
) -> Result<Json<RunDetail>, ApiError> {
    let what = format!("showing {run}");
    Ok(Json(detail(&api, &asker, &what, run).await?))
}

/// `GET /api/v1/runs/by-fire-time`: the run of a job's instant, or else the manual run of exactly
/// that time.
pub(super) async fn by_fire_time(
    State(api): State<Api>,
    asker: Asker,
    Params(query): Params<FireQuery>,
) -> Result<Json<RunDetail>, ApiError> {
    let what = format!("looking for the run of {}@{}", query.job, query.fire_time);
    let FireQuery { job, fire_time } = query;
    let found = {
        let job = job.clone();
        let read = move |reader: &ledger::Reader| reader.find_run(&job, fire_time);
        api.readers.read(&what, read).await?
    };
    let Some(run) = found else {
        return Err(ApiError::not_found(
            what,
            format!("{job} has no run of {fire_time}"),
            "look at the job: the instant may lie in a gap, or its schedule does not name it",
        ));
    };
    Ok(Json(detail(&api, &asker, &what, run).await?))
}

/// `POST /api/v1/runs/{id}/rerun`
pub(super) async fn rerun(
    State(api): State<Api>,
    asker: Asker,
    IdPath(run_id): IdPath<RunId>,
    Entity(body): Entity<RerunRequest>,
) -> Result<Json<RunAnswer>, ApiError> {
    let (what, scope) = match (body.shard, body.failed) {
        (None, false) => (format!("rerunning {run_id}"), RerunScope::Run),
        (None, true) => (
            format!("rerunning the failed shards of {run_id}"),
            RerunScope::Failed,
        ),
        (Some(shard), false) => (
            format!("rerunning shard {shard} of {run_id}"),
            RerunScope::Shard(shard),
        ),
        (Some(shard), true) => {
            let what = format!("rerunning shard {shard} of {run_id}");
            let why = "one shard is named, and the failed ones are asked for too";
            return Err(ApiError::invalid(what, why, "leave out one of the two"));
        }
    };
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    reach_run(&api, &asker, &what, run_id).await?;
    let request = Request::Rerun {
        run_id,
        scope,
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::Rerun { state, .. } => Ok(answer(run_id, state)),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/runs/{id}/redo`
pub(super) async fn redo(
    State(api): State<Api>,
    asker: Asker,
    IdPath(run): IdPath<RunId>,
    Entity(body): Entity<RedoRequest>,
) -> Result<Json<RedoAnswer>, ApiError> {
    let what = format!("redoing {run}");
    if body.force {
        asker.must_be(&what, ApiRole::Admin)?;
    }
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    reach_run(&api, &asker, &what, run).await?;
    let request = Request::Redo {
        run_id: run,
        by,
        reason: body.reason,
        force: body.force,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::Rerun {
            execution_id,
            execution,
            state,
        } => Ok(Json(RedoAnswer {
            run,
            execution,
            execution_id,
            state,
        })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/runs/{id}/cancel`
pub(super) async fn cancel(
    State(api): State<Api>,
    asker: Asker,
    IdPath(run_id): IdPath<RunId>,
    Entity(body): Entity<CancelRequest>,
) -> Result<Json<RunAnswer>, ApiError> {
    let what = format!("cancelling {run_id}");
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    reach_run(&api, &asker, &what, run_id).await?;
    let request = Request::Cancel {
        run_id,
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::Cancelled => {
            let detail = detail(&api, &asker, &what, run_id).await.map_err(|error| {
                error.after_all(
                    "it is being cancelled",
                    format!("look at it: `matins describe {run_id}`"),
                )
            })?;
            let run = detail.run;
            Ok(Json(RunAnswer {
                run: run_id,
                state: run.state,
            }))
        }
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/runs/{id}/confirm`
pub(super) async fn confirm(
    State(api): State<Api>,
    asker: Asker,
    IdPath(run_id): IdPath<RunId>,
    Entity(body): Entity<ConfirmRequest>,
) -> Result<Json<RunAnswer>, ApiError> {
    let what = format!("confirming {run_id} as {}", body.verdict);
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    reach_run(&api, &asker, &what, run_id).await?;
    let request = Request::Confirm {
        run_id,
        shard: body.shard,
        verdict: verdict(&what, &body.verdict)?,
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::Confirmed { state } => Ok(answer(run_id, state)),
        other => Err(out_of_place(&what, &other)),
    }
}

fn verdict(what: &str, word: &str) -> Result<Verdict, ApiError> {
    match word {
        "succeeded" => Ok(Verdict::Succeeded),
        "retry" => Ok(Verdict::Retry),
        "failed" => Ok(Verdict::Failed),
        _ => Err(ApiError::invalid(
            what,
            format!("`{word}` is not a verdict"),
            "use one of: succeeded, retry, failed",
        )),
    }
}

fn answer(run: RunId, state: RunState) -> Json<RunAnswer> {
    Json(RunAnswer { run, state })
}

/// Refuses whoever is not let in for the run's job; one that is not there is left to the ledger.
async fn reach_run(api: &Api, asker: &Asker, what: &str, run: RunId) -> Result<(), ApiError> {
    if asker.reach().is_all() {
        return Ok(());
    }
    let read = move |reader: &ledger::Reader| reader.job_of_run(run);
    match api.readers.read(what, read).await? {
        Some(job) => asker.must_reach(what, &job),
        None => Ok(()),
    }
}

pub(super) async fn detail(
    api: &Api,
    asker: &Asker,
    what: &str,
    run: RunId,
) -> Result<RunDetail, ApiError> {
    let read = move |reader: &ledger::Reader| reader.run(run);
    let found = api.readers.read(what, read).await?;
    let Some(mut detail) = found else {
        return Err(ApiError::not_found(
            what,
            format!("there is no {run}"),
            LIST_RUNS,
        ));
    };
    asker.must_reach(what, &detail.run.job)?;
    if detail.run.pending > 0 {
        let asked = api.engine.ask(move |core, now| core.waits_of(run, now));
        let mut waits = asked
            .await
            .map_err(|error| ApiError::asking(what, &error))?;
        for shard in detail
            .shard_list
            .iter_mut()
            .filter(|s| s.state == "pending")
        {
            shard.waits_for = waits.remove(&shard.shard).map(|found| waiting(&found));
        }
    }
    Ok(detail)
}

fn waiting(waits: &Waits) -> api::Waits {
    let (kind, left, report) = match waits {
        Waits::BacksOff(left) => ("backoff", Some(left), None),
        Waits::InHand => ("grant", None, None),
        Waits::Receipt => ("receipt", None, None),
        Waits::Rests(left) => ("refused", Some(left), None),
        Waits::Restored(left) => ("restored", Some(left), None),
        Waits::Unreadable(_) => ("unreadable", None, None),
        Waits::Place(report) => ("place", None, Some(report)),
    };
    api::Waits {
        kind: kind.to_owned(),
        text: waits.to_string(),
        left_ms: left.map(|left| left.0),
        hosts: report.map(placement),
    }
}

fn placement(report: &Report) -> api::Placement {
    let lacking = report.lacking.iter();
    let exhausted = report.exhausted.iter().map(|exhausted| api::Exhausted {
        resource: exhausted.resource.as_str().to_owned(),
        wanted: exhausted.wanted,
        in_use: exhausted.in_use,
        capacity: exhausted.capacity,
        behind_another: exhausted.behind_another,
    });
    let class_reasons = report.class.iter().flat_map(|class| &class.reasons);
    let short = report.short.iter().map(|((of, kind), short)| api::Short {
        of: of.as_str().to_owned(),
        kind: kind.as_str().to_owned(),
        hosts: short.hosts,
        asked: short.asked,
        most: short.most,
    });
    api::Placement {
        considered: report.considered,
        revoked: report.revoked,
        quarantined: report.quarantined,
        cordoned: report.cordoned,
        draining: report.draining,
        offline: report.offline,
        unclassed: report.unclassed,
        class_reasons: class_reasons
            .map(|(why, count)| (why.clone(), *count))
            .collect(),
        unlabelled: report.unlabelled,
        lacking: lacking
            .map(|(label, count)| (label.as_str().to_owned(), *count))
            .collect(),
        short: short.collect(),
        rebuilding: report.rebuilding,
        pressed: report.pressed,
        no_free_slot: report.no_free_slot,
        free: report.free,
        exhausted: exhausted.collect(),
    }
}
