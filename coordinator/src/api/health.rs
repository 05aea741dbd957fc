//! Whether the coordinator lives, and whether it can do its work.
//!
//! Two questions, since they have two remedies: a process that does not live is started again; one
//! that is not ready is waited for, or its clock or its disk is looked at. A restart would mend
//! none of these.

use axum::Json;
use axum::extract::State;
use coordinator_core::clock::Verdict;
use coordinator_core::{Core, RequestError};
use protocol::api::ClusterStanding;
use protocol::{DurationMs, Now};
use schemars::JsonSchema;
use serde::Serialize;

use super::Api;
use super::error::ApiError;
use crate::files::read_disk;
use crate::renewal::OwnCertificate;
use crate::standing::Stands;

/// A standby that has not had everything for so long would take over late.
const BEHIND_LIMIT: DurationMs = DurationMs::from_secs(5);

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

/// `GET /readyz`: whether it fires and grants, or could if it came to lead: it leads, or follows who
/// does and has all that was committed some seconds ago, its clock is believed, its ledger can be
/// written and its certificate is good. What is missing is said.
pub(super) async fn ready(State(api): State<Api>) -> Result<Json<Health>, ApiError> {
    let what = "asking whether the coordinator is ready";
    let asked = api
        .engine
        .ask_either(|core, now| (now, core.map(|core| missing_of(core, now))));
    let asked = asked.await;
    let (now, of_core) = asked.map_err(|error| ApiError::asking(what, &error))?;
    let mut missing = of_core.unwrap_or_default();
    missing.extend(missing_of_standing(api.lead.stands(), now));
    missing.extend(missing_of_ledger(&api, now));
    missing.extend(missing_of_certificate(&api.certificate.borrow(), now));
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

/// Of a place in the group from which it could not take over.
fn missing_of_standing(stands: Stands, now: Now) -> Option<String> {
    let missing = match stands.standing {
        ClusterStanding::Leads => return None,
        ClusterStanding::Follows => {
            let behind_for = now.boot - stands.caught_up;
            if behind_for <= BEHIND_LIMIT {
                return None;
            }
            return Some(format!(
                "it has been behind who leads for {behind_for}, and catches up"
            ));
        }
        ClusterStanding::CutOff => "it is heard by too few of those that vote",
        ClusterStanding::Searches => "it hears nobody who leads",
        ClusterStanding::Waits => {
            "it is no member of a group yet, and waits to be added (`matins cluster add`)"
        }
        ClusterStanding::Removed => {
            "it was removed from its group: stop it and clear its data directory"
        }
    };
    Some(missing.to_owned())
}

/// Until it has ended everything works; that it is not renewed is told of elsewhere, in time.
fn missing_of_certificate(own: &OwnCertificate, now: Now) -> Option<String> {
    let until = own.lifetime.until;
    let why = own
        .trouble
        .as_deref()
        .unwrap_or("it was not renewed in time");
    (now.wall >= until).then(|| {
        format!("its certificate has ended at {until}, and no other machine speaks to it: {why}")
    })
}

fn missing_of(core: &Core, now: Now) -> Vec<String> {
    let mut missing = Vec::new();
    if core.epoch().is_none() {
        missing.push(RequestError::NotLeading.to_string());
    }
    if let Verdict::Held(doubt) = core.clock_verdict(now) {
        missing.push(RequestError::ClockHeld(doubt).to_string());
    }
    missing
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
    match read_disk(directory) {
        Ok(disk) if disk.read_only => {
            missing.push(format!("{} can only be read", directory.display()));
        }
        Ok(disk) if disk.spare_bytes < ROOM_BYTES_MIN => {
            let room = disk.spare_bytes;
            missing.push(format!(
                "{} has room for {room} bytes more, and {ROOM_BYTES_MIN} are the least",
                directory.display()
            ));
        }
        Ok(_) => {}
        Err(error) => missing.push(format!("looking at {}: {error}", directory.display())),
    }
    missing
}

#[cfg(test)]
mod tests {
    use protocol::{BootMs, Lifetime, WallMs};

    use super::*;

    #[test]
    fn whoever_could_not_take_over_is_not_ready() {
        let now = Now {
            wall: WallMs(0),
            boot: BootMs(100_000),
        };
        for (standing, caught_up, missing) in [
            (ClusterStanding::Leads, 0, None),
            (ClusterStanding::Follows, 95_000, None),
            (ClusterStanding::Follows, 94_999, Some("behind who leads")),
            (ClusterStanding::CutOff, 100_000, Some("too few")),
            (ClusterStanding::Searches, 100_000, Some("nobody who leads")),
            (ClusterStanding::Waits, 100_000, Some("matins cluster add")),
            (ClusterStanding::Removed, 100_000, Some("removed")),
        ] {
            let stands = Stands {
                standing,
                since: WallMs(0),
                caught_up: BootMs(caught_up),
                last_leader: None,
            };
            let told = missing_of_standing(stands, now);
            assert_eq!(told.is_some(), missing.is_some(), "{standing:?}");
            assert!(told.unwrap_or_default().contains(missing.unwrap_or("")));
        }
    }

    #[test]
    fn nobody_speaks_to_a_machine_whose_certificate_has_ended() {
        let own = |trouble: Option<&str>| OwnCertificate {
            lifetime: Lifetime {
                from: WallMs(0),
                until: WallMs(1_000),
            },
            trouble: trouble.map(str::to_owned),
        };
        for (wall, trouble, missing) in [
            (999, Some("nobody has the key"), None),
            (
                1_000,
                Some("nobody has the key"),
                Some("speaks to it: nobody has the key"),
            ),
            (1_000, None, Some("not renewed in time")),
        ] {
            let now = Now {
                wall: WallMs(wall),
                boot: BootMs(0),
            };
            let told = missing_of_certificate(&own(trouble), now);
            assert_eq!(told.is_some(), missing.is_some(), "{wall}");
            assert!(told.unwrap_or_default().contains(missing.unwrap_or("")));
        }
    }
}
