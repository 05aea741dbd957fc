//! What people and programs ask of a coordinator.

pub(crate) mod act;
pub(crate) mod apply;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod ca;
pub(crate) mod classes;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod describe;
pub(crate) mod fleet;
pub(crate) mod get;
pub(crate) mod guard;
pub(crate) mod hardware;
pub(crate) mod join;
pub(crate) mod logs;
pub(crate) mod next;
pub(crate) mod schema;
pub(crate) mod sizing;
pub(crate) mod sql;
pub(crate) mod token;
pub(crate) mod version;
pub(crate) mod why;

use chrono::NaiveDateTime;
use jobs::{Manifest, Schedule};
use nix::unistd::{User, getuid};
use protocol::api::{JobDetail, Run, RunDetail};
use protocol::{AgentName, JobName, WallMs};

use crate::amounts::rough;
use crate::client::{Client, Target};
use crate::clock::instant_of_local;
use crate::failure::{Failure, Status};
use crate::subject::{RunRef, When};
use crate::text::count;

/// Looks in a row that a coordinator may miss which starts again, for whoever waits or follows.
const MISSED_MAX: u32 = 60;

/// Looks once more at a coordinator that may have been started again, at another address. `missed`
/// counts the looks in a row that did not reach it, of which this may be one: then nothing is seen.
fn look_again<T>(
    target: &Target,
    missed: &mut u32,
    look: impl FnOnce(&Client) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    match target.find().and_then(|client| look(&client)) {
        Ok(seen) => {
            *missed = 0;
            Ok(Some(seen))
        }
        Err(Failure::Told(told)) if told.status == Status::Unreachable && *missed < MISSED_MAX => {
            *missed += 1;
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Who asks: the user that this process runs as. Recorded where the machine's own token is used,
/// which says nothing of who has it.
pub(crate) fn asking_user() -> String {
    let uid = getuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        // A user without a name, as in some containers.
        _ => format!("uid-{uid}"),
    }
}

fn path_of(job: &JobName) -> String {
    format!("/api/v1/jobs/{}/{}", job.namespace(), job.name())
}

fn agent_path(agent: &AgentName) -> String {
    format!("/api/v1/agents/{agent}")
}

fn find_run(client: &Client, run: &RunRef) -> Result<RunDetail, Failure> {
    let id = match run {
        RunRef::Id(id) => *id,
        RunRef::Fire { job, when } => match when {
            When::Latest => newest_run(client, job)?.run,
            When::At(at) => return run_of_fire(client, job, *at),
            When::Local(local) => {
                let at = instant_in_zone_of(client, job, *local)?;
                return run_of_fire(client, job, at);
            }
        },
    };
    client.get(&format!("/api/v1/runs/{id}"), &[])
}

fn run_of_fire(client: &Client, job: &JobName, at: WallMs) -> Result<RunDetail, Failure> {
    client.get(
        "/api/v1/runs/by-fire-time",
        &[("job", job.to_string()), ("fire_time", at.to_rfc3339())],
    )
}

fn newest_run(client: &Client, job: &JobName) -> Result<Run, Failure> {
    let query = [("job", job.to_string()), ("limit", "1".to_owned())];
    let runs: Vec<Run> = client.get("/api/v1/runs", &query)?;
    runs.into_iter().next().ok_or_else(|| {
        Failure::failed(
            format!("choosing the newest run of {job}"),
            "it has none",
            format!("see when it fires with `matins describe {job}`"),
        )
    })
}

/// What the clock of the job's zone means by a local time.
fn instant_in_zone_of(
    client: &Client,
    job: &JobName,
    local: NaiveDateTime,
) -> Result<WallMs, Failure> {
    let detail: JobDetail = client.get(&path_of(job), &[])?;
    let zone = &detail.job.timezone;
    instant_of_local(local, zone).map_err(|why| {
        Failure::bad_input(
            format!("finding {local} on the clock of {zone}, the zone of {job}"),
            why,
            "write the time with its offset, as in 2026-11-29T10:10:00+08:00",
        )
    })
}

/// The schedule of a stored manifest.
fn schedule_of(job: &JobName, manifest: &serde_json::Value) -> Result<Schedule, Failure> {
    match Manifest::from_json(&manifest.to_string()) {
        Ok(manifest) => Ok(manifest.schedule().clone()),
        Err(error) => Err(Failure::of_error(
            format!("reading the manifest of {job}"),
            &error,
            "apply a manifest that this version of Matins reads",
        )),
    }
}

/// `3/12`: shards that succeeded, of how many.
fn shards_done(run: &Run) -> String {
    format!("{}/{}", run.succeeded, run.shards)
}

/// From admission to end, nothing where it goes on.
fn took(run: &Run) -> String {
    run.ended_at
        .map_or_else(String::new, |end| rough(end - run.admitted_at))
}

/// Said of a list that has more rows than were asked for.
fn cut_off(rows: usize) -> String {
    format!(
        "the first {} only; --limit shows more",
        count(rows as u64, "row")
    )
}
