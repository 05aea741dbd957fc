//! Whether the coordinator lives, and whether it can do its work.
//!
//! Two questions, since they have two remedies: a process that does not live is started again; one
//! that is not ready is waited for, or its clock or its disk is looked at. A restart would mend
//! none of these.

use axum::Json;
use axum::extract::State;
use coordinator_core::clock::Verdict;
use coordinator_core::{Core, RequestError};
use nix::sys::statvfs::{FsFlags, statvfs};
use protocol::{DurationMs, Now};
use schemars::JsonSchema;
use serde::Serialize;

use super::Api;
use super::error::ApiError;

/// A batch of the ledger that takes longer than this is no ordinary one.
const WRITING_LIMIT: DurationMs = DurationMs(2_000);

/// With less room than this on its file system, the ledger is about to fail.
const ROOM_BYTES_MIN: u64 = 64 * 1024 * 1024;

#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
}

const OK: Health = Health { status: "ok" };

/// `GET /healthz`: whether the process lives: its scheduler answers. Wants no token and tells no
/// more.
pub(super) async fn health(State(api): State<Api>) -> Result<Json<Health>, ApiError> {
    let what = "asking whether the scheduler answers";
    let asked = api.engine.ask_either(|_, _| ()).await;
    asked.map_err(|error| ApiError::asking(what, &error))?;
    Ok(Json(OK))
}

/// `GET /readyz`: whether it fires and grants, or could if it came to lead: it leads or follows who
/// does, its clock is believed, and its ledger can be written. What is missing is said.
pub(super) async fn ready(State(api): State<Api>) -> Result<Json<Health>, ApiError> {
    let what = "asking whether the coordinator is ready";
    let follows = api.lead.follows();
    let asked = api.engine.ask_either(move |core, now| match core {
        Some(core) => missing_of(core, now),
        None if follows => (now, Vec::new()),
        None => (now, vec!["it follows nobody who leads".to_owned()]),
    });
    let asked = asked.await;
    let (now, mut missing) = asked.map_err(|error| ApiError::asking(what, &error))?;
    missing.extend(missing_of_ledger(&api, now));
    if missing.is_empty() {
        return Ok(Json(OK));
    }
    Err(ApiError::unavailable(
        what,
        missing.join("; "),
        "wait for it, or see to the clock or the disk; `matins version` and the log tell more",
    ))
}

/// `GET /leader`: whether it is this coordinator that acts, for who sends others here: a quorum
/// confirms it before the answer.
pub(super) async fn leader(State(api): State<Api>) -> Result<Json<Health>, ApiError> {
    if api.lead.acts().await {
        return Ok(Json(OK));
    }
    let what = "asking whether this coordinator leads";
    Err(ApiError::not_leader(what, "this coordinator does not lead"))
}

fn missing_of(core: &Core, now: Now) -> (Now, Vec<String>) {
    let mut missing = Vec::new();
    if core.epoch().is_none() {
        missing.push(RequestError::NotLeading.to_string());
    }
    if let Verdict::Held(doubt) = core.clock_verdict(now) {
        missing.push(RequestError::ClockHeld(doubt).to_string());
    }
    (now, missing)
}

fn missing_of_ledger(api: &Api, now: Now) -> Vec<String> {
    let mut missing = Vec::new();
    let writing = api.metrics.writing_for(now.boot);
    if let Some(writing) = writing.filter(|&writing| writing > WRITING_LIMIT) {
        missing.push(format!(
            "the ledger has been writing one batch for {writing}"
        ));
    }
    let directory = api.readers.directory();
    match statvfs(directory) {
        Ok(disk) if disk.flags().contains(FsFlags::ST_RDONLY) => {
            missing.push(format!("{} can only be read", directory.display()));
        }
        Ok(disk) => {
            let room = disk.blocks_available() * disk.fragment_size();
            if room < ROOM_BYTES_MIN {
                missing.push(format!(
                    "{} has room for {room} bytes more, and {ROOM_BYTES_MIN} are the least",
                    directory.display()
                ));
            }
        }
        Err(error) => missing.push(format!("looking at {}: {error}", directory.display())),
    }
    missing
}
