//! Jobs: listed, shown, put, deleted, run at a person's wish.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::jobs::{Manifest, parse_manifests};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use coordinator_core::{Doubt, Request, RequestError};
use ledger::{Done, JobFilter, ROWS_MAX, Standing};
use protocol::api::{
    DeleteJobAnswer, DeleteJobRequest, Expectation, Gap, Job, JobDetail, JobPlan, JobWarning,
    PauseAnswer, PauseRequest, PlanRequest, PlannedFrom, PutJobAnswer, PutJobRequest,
    ResumeRequest, RunAnswer, RunRequest,
};
use protocol::{JobId, JobName, NamespaceName, WallMs};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Api;
use super::asker::Asker;
use super::error::{ApiError, LIST_JOBS};
use super::input::{Entity, Expected, JobPath, Params, Tagged};
use super::pages::{self, PageQuery, Paged, place};
use crate::engine::AskError;
use crate::narrate::kind_word;

const GAPS_DEFAULT: u32 = 100;

/// Query of `GET /api/v1/jobs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    namespace: Option<NamespaceName>,
    /// Only those that a person has paused, or only the others.
    paused: Option<bool>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /api/v1/jobs`: jobs in force, by name.
pub(super) async fn list(
    State(api): State<Api>,
    asker: Asker,
    uri: Uri,
    Params(query): Params<ListQuery>,
) -> Result<Paged<Job>, ApiError> {
    let what = "listing the jobs";
    let filter = JobFilter {
        namespace: query.namespace,
        within: asker.reach().clone(),
        paused: query.paused,
        after: place(what, query.cursor.as_deref())?,
        limit: pages::limit(what, query.limit, ROWS_MAX)?,
    };
    let read = move |reader: &ledger::Reader| reader.jobs(&filter);
    let page = api.readers.read(what, read).await?;
    let ids = page.rows.iter().map(|job| job.id).collect();
    let fires = next_fires(&api, what, ids).await?;
    Ok(Paged::of(&uri, page).map(|job: Job| Job {
        next_fire: fires.get(&job.id).copied(),
        ..job
    }))
}

/// `GET /api/v1/jobs/{namespace}/{name}/gaps`: of a deleted job too, newest first.
pub(super) async fn gaps(
    State(api): State<Api>,
    uri: Uri,
    JobPath(name): JobPath,
    Params(query): Params<PageQuery>,
) -> Result<Paged<Gap>, ApiError> {
    let what = format!("listing the gaps of {name}");
    let (before, limit) = query.read(&what, GAPS_DEFAULT)?;
    let job = name.clone();
    let read = move |reader: &ledger::Reader| reader.gaps(&job, before, limit);
    match api.readers.read(&what, read).await? {
        Some(page) => Ok(Paged::of(&uri, page)),
        None => Err(no_such_job(what, &name)),
    }
}

/// `GET /api/v1/jobs/{namespace}/{name}`
pub(super) async fn show(
    State(api): State<Api>,
    JobPath(name): JobPath,
) -> Result<Tagged<JobDetail>, ApiError> {
    let what = format!("showing job {name}");
    let wanted = name.clone();
    let read = move |reader: &ledger::Reader| reader.job(&wanted);
    let Some(mut detail) = api.readers.read(&what, read).await? else {
        return Err(no_such_job(what, &name));
    };
    let id = detail.job.id;
    let fires = next_fires(&api, &what, vec![id]).await?;
    detail.job.next_fire = fires.get(&id).copied();
    Ok(Tagged(detail.job.version, detail))
}

/// Query of `GET /api/v1/jobs/{namespace}/{name}/expectation`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectationQuery {
    at: String,
}

/// `GET /api/v1/jobs/{namespace}/{name}/expectation`: what is known of one instant.
pub(super) async fn expectation(
    State(api): State<Api>,
    JobPath(name): JobPath,
    Params(query): Params<ExpectationQuery>,
) -> Result<Json<Expectation>, ApiError> {
    let what = format!("asking what was expected of {name} at {}", query.at);
    let at = WallMs::parse_rfc3339(&query.at).map_err(|error| {
        let why = format!("`{}` is not a time: {error}", query.at);
        ApiError::invalid(&what, why, "write it with its offset: 2026-11-29T02:10:00Z")
    })?;
    let wanted = name.clone();
    let read = move |reader: &ledger::Reader| reader.expectation(&wanted, at);
    let found = api.readers.read(&what, read).await?;
    found.map(Json).ok_or_else(|| no_such_job(what, &name))
}

/// `PUT /api/v1/jobs/{namespace}/{name}`: creates the job or puts a new version in force; with
/// `If-Match`, only over the version that its client has seen.
pub(super) async fn put(
    State(api): State<Api>,
    asker: Asker,
    JobPath(name): JobPath,
    Expected(expected): Expected,
    Entity(body): Entity<PutJobRequest>,
) -> Result<Tagged<PutJobAnswer>, ApiError> {
    let what = format!("putting job {name}");
    let by = asker.signs(&what, body.by, None)?;
    let manifest = Arc::new(read_manifest(&what, &name, &body.manifest)?);
    reach_renamed(&asker, &what, &manifest)?;
    let request = Request::PutJob {
        manifest: Arc::clone(&manifest),
        expected,
        by,
    };
    let done = api.carry_out(&what, &asker, request).await?;
    let Done::JobPut {
        job_id,
        version,
        kind,
    } = done
    else {
        return Err(out_of_place(&what, &done));
    };
    let seen = api.engine.ask(move |core, now| {
        let doubt = core.doubt(&manifest, now);
        (core.next_fire(job_id), warnings(doubt.as_ref()))
    });
    let (next_fire, warnings) = seen.await.map_err(|error| {
        let done = format!("version {version} is in force");
        let look = format!("look at it: `matins describe {name}`");
        ApiError::asking(&what, &error).after_all(&done, look)
    })?;
    let answer = PutJobAnswer {
        job: name,
        id: job_id,
        version,
        result: kind_word(kind).to_owned(),
        next_fire,
        warnings,
    };
    Ok(Tagged(version, answer))
}

/// `POST /api/v1/jobs/{namespace}/{name}/plan`: what a put or a deletion would do now.
pub(super) async fn plan(
    State(api): State<Api>,
    asker: Asker,
    JobPath(name): JobPath,
    Entity(body): Entity<PlanRequest>,
) -> Result<Json<JobPlan>, ApiError> {
    let what = format!("planning for job {name}");
    let mut planned_manifest = None;
    let (result, standing) = if let Some(manifest) = body.manifest {
        let manifest = Arc::new(read_manifest(&what, &name, &manifest)?);
        reach_renamed(&asker, &what, &manifest)?;
        planned_manifest = Some(Arc::clone(&manifest));
        let judge = move |reader: &ledger::Reader| reader.preview_put(&manifest);
        let preview = api.readers.read(&what, judge).await?;
        let preview = preview.map_err(|refusal| {
            ApiError::asking(&what, &AskError::Refused(RequestError::Refused(refusal)))
        })?;
        (kind_word(preview.kind), preview.standing)
    } else {
        let wanted = name.clone();
        let read = move |reader: &ledger::Reader| reader.standing(&wanted);
        let Some(standing) = api.readers.read(&what, read).await? else {
            return Err(no_such_job(what, &name));
        };
        ("deleted", Some(standing))
    };
    let seen = api.engine.ask(move |core, now| {
        let doubt = planned_manifest.and_then(|manifest| core.doubt(&manifest, now));
        Ok((core.cut_over(now)?, warnings(doubt.as_ref())))
    });
    let (cut_over, warnings) = seen
        .await
        .and_then(|seen| seen)
        .map_err(|error| ApiError::asking(&what, &error))?;
    Ok(Json(JobPlan {
        warnings,
        ..planned(name, result, standing, cut_over)
    }))
}

fn warnings(doubt: Option<&Doubt>) -> Vec<JobWarning> {
    let warning = |doubt: &Doubt| JobWarning {
        kind: doubt.kind().to_owned(),
        field: doubt.field().to_owned(),
        says: doubt.to_string(),
    };
    doubt.map(warning).into_iter().collect()
}

fn planned(name: JobName, result: &str, standing: Option<Standing>, cut_over: WallMs) -> JobPlan {
    let version = standing.as_ref().map_or(0, |standing| standing.job.version);
    let fired_through = standing.as_ref().map(|standing| standing.job.fired_through);
    JobPlan {
        job: name,
        result: result.to_owned(),
        version: match result {
            "deleted" => None,
            "unchanged" => Some(version),
            _ => Some(version + 1),
        },
        cut_over: fired_through.map_or(cut_over, |through| through.max(cut_over)),
        open_runs: standing.as_ref().map_or(0, |standing| standing.open_runs),
        leases: standing.as_ref().map_or(0, |standing| standing.leases),
        warnings: Vec::new(),
        before: standing.map(|standing| PlannedFrom {
            job: standing.job.name,
            version: standing.job.version,
            manifest: serde_json::from_str(&standing.manifest)
                .unwrap_or(serde_json::Value::String(standing.manifest)),
        }),
    }
}

/// `DELETE /api/v1/jobs/{namespace}/{name}`
pub(super) async fn delete(
    State(api): State<Api>,
    asker: Asker,
    JobPath(job): JobPath,
    Entity(body): Entity<DeleteJobRequest>,
) -> Result<Json<DeleteJobAnswer>, ApiError> {
    let what = format!("deleting job {job}");
    let by = asker.signs(&what, body.by, None)?;
    let name = job.clone();
    let request = Request::DeleteJob { job: name, by };
    match api.carry_out(&what, &asker, request).await? {
        Done::JobDeleted => Ok(Json(DeleteJobAnswer { job })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/jobs/{namespace}/{name}/pause`
pub(super) async fn pause(
    State(api): State<Api>,
    asker: Asker,
    JobPath(job): JobPath,
    Entity(body): Entity<PauseRequest>,
) -> Result<Json<PauseAnswer>, ApiError> {
    let what = format!("pausing job {job}");
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    let request = Request::Pause {
        job: job.clone(),
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::Paused { changed } => Ok(Json(PauseAnswer {
            job,
            paused: true,
            changed,
            skipped: 0,
            next_fire: None,
        })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `POST /api/v1/jobs/{namespace}/{name}/resume`
pub(super) async fn resume(
    State(api): State<Api>,
    asker: Asker,
    JobPath(job): JobPath,
    Entity(body): Entity<ResumeRequest>,
) -> Result<Json<PauseAnswer>, ApiError> {
    let what = format!("resuming job {job}");
    let by = asker.signs(&what, body.by, None)?;
    let request = Request::Resume {
        job: job.clone(),
        by,
    };
    let (changed, skipped) = match api.carry_out(&what, &asker, request).await? {
        Done::Resumed { changed, skipped } => (changed, skipped),
        other => return Err(out_of_place(&what, &other)),
    };
    let name = job.clone();
    let next_fire = api
        .engine
        .ask(move |core, _| core.next_fire_of(&name))
        .await
        .map_err(|error| {
            ApiError::asking(&what, &error).after_all(
                "it is resumed",
                format!("look at it: `matins describe {job}`"),
            )
        })?;
    Ok(Json(PauseAnswer {
        job,
        paused: false,
        changed,
        skipped,
        next_fire,
    }))
}

/// `POST /api/v1/jobs/{namespace}/{name}/runs`
pub(super) async fn run(
    State(api): State<Api>,
    asker: Asker,
    JobPath(job): JobPath,
    Entity(body): Entity<RunRequest>,
) -> Result<Json<RunAnswer>, ApiError> {
    let what = match body.fire_time {
        Some(instant) => format!("running job {job} for {instant}"),
        None => format!("running job {job}"),
    };
    let by = asker.signs(&what, body.by, Some(&body.reason))?;
    let request = Request::Run {
        job,
        instant: body.fire_time,
        params: body.params,
        by,
        reason: body.reason,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::RunStarted { run_id, state } => Ok(Json(RunAnswer { run: run_id, state })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// A manifest takes over the job that it renames.
fn reach_renamed(asker: &Asker, what: &str, manifest: &Manifest) -> Result<(), ApiError> {
    match &manifest.renamed_from {
        Some(before) => asker.must_reach(what, before),
        None => Ok(()),
    }
}

/// One manifest, of the job that the path names.
fn read_manifest(what: &str, name: &JobName, text: &str) -> Result<Manifest, ApiError> {
    let correct = "correct the manifest and put it again; nothing was changed";
    let manifests = parse_manifests("manifest", text).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ApiError::invalid(what, lines.join("\n"), correct)
    })?;
    let count = manifests.len();
    let mut manifests = manifests.into_iter();
    match (manifests.next(), manifests.next()) {
        (Some(manifest), None) if manifest.name == *name => Ok(manifest),
        (Some(manifest), None) => {
            let why = format!("the manifest is that of {}", manifest.name);
            let remedy = format!(
                "put it to the path of {}, or change its name",
                manifest.name
            );
            Err(ApiError::invalid(what, why, remedy))
        }
        _ => {
            let why = format!("there are {count} manifests in the request");
            Err(ApiError::invalid(what, why, "put one manifest at a time"))
        }
    }
}

/// The next fires of those of the jobs that have one, as the scheduler sees them now.
async fn next_fires(
    api: &Api,
    what: &str,
    ids: Vec<JobId>,
) -> Result<BTreeMap<JobId, WallMs>, ApiError> {
    api.engine
        .ask(move |core, _| {
            ids.into_iter()
                .filter_map(|id| Some((id, core.next_fire(id)?)))
                .collect()
        })
        .await
        .map_err(|error| ApiError::asking(what, &error))
}

pub(super) fn no_such_job(what: String, name: &JobName) -> ApiError {
    ApiError::not_found(what, format!("there is no job `{name}`"), LIST_JOBS)
}

/// An answer that does not belong to the question: a defect, told as one.
pub(super) fn out_of_place(what: &str, done: &Done) -> ApiError {
    tracing::error!(
        what,
        ?done,
        "the ledger answered something else than it was asked"
    );
    ApiError::internal(what, "the ledger answered something else than it was asked")
}
