//! Every answer that is not a success: what, why, and what to do.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coordinator_core::RequestError;
use ledger::Refusal;
use protocol::Role;
use protocol::api::{ErrorBody, NOT_LEADER};

use crate::engine::AskError;

#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: Box<ErrorBody>,
    /// Where it is known when to ask again.
    retry_after_s: Option<u64>,
}

/// The words for programs, each with the statuses it comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    Unauthorized,
    Forbidden,
    NotFound,
    Refused,
    Changed,
    Throttled,
    NotLeader,
    Unavailable,
    Internal,
}

impl ApiError {
    /// The request itself is wrong; sending it again will not help.
    pub(crate) fn invalid(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, Kind::Invalid, what, why, remedy)
    }

    pub(crate) fn too_large(what: impl Into<String>, why: impl Into<String>) -> ApiError {
        let remedy = "send less";
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Invalid,
            what,
            why,
            remedy,
        )
    }

    /// Something of the request as such, such as its media type, is not taken.
    pub(crate) fn not_taken(
        status: StatusCode,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(status, Kind::Invalid, what, why, remedy)
    }

    /// The client asks too fast; `seconds` until it may ask again.
    pub(crate) fn throttled(what: impl Into<String>, seconds: u64) -> ApiError {
        let error = ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            Kind::Throttled,
            what,
            "this client asks faster than it is answered; nothing was done",
            format!("wait {seconds} s (as Retry-After says), and ask less often"),
        );
        ApiError {
            retry_after_s: Some(seconds),
            ..error
        }
    }

    /// What the client has seen is no longer so.
    pub(crate) fn changed(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        let status = StatusCode::PRECONDITION_FAILED;
        ApiError::new(status, Kind::Changed, what, why, remedy)
    }

    pub(crate) fn wrong_method(what: impl Into<String>, why: impl Into<String>) -> ApiError {
        let remedy = "use a method that the Allow header of this answer names";
        ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Kind::Invalid,
            what,
            why,
            remedy,
        )
    }

    pub(crate) fn unauthorized(what: impl Into<String>, why: impl Into<String>) -> ApiError {
        let remedy = "send `Authorization: Bearer TOKEN` with a token that `matins token create` has \
                      made, or, on the coordinator's own machine, with the one in the file \
                      api-token (or api.json) of its data directory";
        ApiError::unauthorized_for(what, why, remedy)
    }

    /// The same where something else than a token of the API is asked for.
    pub(crate) fn unauthorized_for(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            Kind::Unauthorized,
            what,
            why,
            remedy,
        )
    }

    /// Who asks is known, and may not.
    pub(crate) fn forbidden(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, Kind::Forbidden, what, why, remedy)
    }

    pub(crate) fn not_found(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, Kind::NotFound, what, why, remedy)
    }

    /// The state does not allow it.
    pub(crate) fn refused(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, Kind::Refused, what, why, remedy)
    }

    /// Not now.
    pub(crate) fn unavailable(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Kind::Unavailable,
            what,
            why,
            remedy,
        )
    }

    /// Another coordinator answers this, or soon will. Which, the gate adds.
    pub(crate) fn not_leader(what: impl Into<String>, why: impl Into<String>) -> ApiError {
        let error = ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Kind::NotLeader,
            what,
            why,
            "ask the coordinator that leads; nothing was changed",
        );
        ApiError {
            retry_after_s: Some(1),
            ..error
        }
    }

    /// The coordinator's own fault.
    pub(crate) fn internal(what: impl Into<String>, why: impl Into<String>) -> ApiError {
        let remedy = "look at the coordinator's log; this is no fault of the request";
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Internal,
            what,
            why,
            remedy,
        )
    }

    fn new(
        status: StatusCode,
        kind: Kind,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        let body = ErrorBody {
            kind: kind.as_str().to_owned(),
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
            request_id: None,
            leader: None,
        };
        let body = Box::new(body);
        ApiError {
            status,
            body,
            retry_after_s: None,
        }
    }

    /// What was asked has been done; only what was to be told of it besides could not be found out.
    pub(crate) fn after_all(mut self, done: &str, remedy: impl Into<String>) -> ApiError {
        self.body.why = format!("{done}, but more cannot be told: {}", self.body.why);
        self.body.remedy = remedy.into();
        self
    }

    /// For who is no client.
    pub(crate) fn why(&self) -> &str {
        &self.body.why
    }

    /// What the scheduler answered to a request, or that it did not.
    pub(crate) fn asking(what: impl Into<String>, error: &AskError) -> ApiError {
        let why = error.to_string();
        match error {
            AskError::Refused(error) => ApiError::declined(what.into(), why, error),
            AskError::NotLeading => ApiError::not_leader(what, why),
            AskError::Lost => ApiError::unavailable(
                what,
                why,
                "look whether it was carried out before asking the coordinator that leads now",
            ),
            AskError::Busy | AskError::Silent => {
                ApiError::unavailable(what, why, "ask again in a moment; nothing was changed")
            }
            AskError::Stopping => ApiError::unavailable(
                what,
                why,
                "ask again when it has started again, and look first whether it was carried out",
            ),
            AskError::NotYet => ApiError::unavailable(
                what,
                why,
                "look whether it was carried out before asking again; if this goes on, look at the \
                 coordinator's disk",
            ),
        }
    }

    fn declined(what: String, why: String, error: &RequestError) -> ApiError {
        match error {
            RequestError::Refused(refusal) => ApiError::refusal(what, why, refusal),
            RequestError::NotLeading => ApiError::not_leader(what, why),
            RequestError::NoSuchJob(_) => ApiError::not_found(what, why, LIST_JOBS),
            RequestError::ClockHeld(_) => ApiError::unavailable(
                what,
                why,
                "see that the clock is steered and not set (chrony, not date), and ask again",
            ),
            RequestError::NotAnInstant { .. } => ApiError::refused(
                what,
                why,
                "name an instant of the schedule to the millisecond, with its offset, or leave it \
                 out for a run of no instant",
            ),
            RequestError::Params { .. } => ApiError::refused(
                what,
                why,
                "use a parameter that the manifest names under `params`, or add it there first",
            ),
            RequestError::Unreadable(_) => {
                ApiError::refused(what, why, "apply the job's manifest anew")
            }
            RequestError::Over { .. } => ApiError::refused(
                what,
                why,
                "write later years in schedule.cron, or leave them out; ask `matins next` first",
            ),
        }
    }

    fn refusal(what: String, why: String, refusal: &Refusal) -> ApiError {
        let remedy = remedy_for(refusal);
        match refusal {
            Refusal::NoSuchJob { .. }
            | Refusal::NoSuchRun { .. }
            | Refusal::NoSuchShard { .. }
            | Refusal::NoSuchAlert { .. }
            | Refusal::NoAgentNamed { .. }
            | Refusal::NoTokenNamed { .. }
            | Refusal::NoSuchJoinToken { .. }
            | Refusal::NoSuchResource { .. } => ApiError::not_found(what, why, remedy),
            Refusal::NoJoinToken => ApiError::unauthorized_for(what, why, remedy),
            Refusal::JoinTokenEnded { .. }
            | Refusal::JoinTokenUsedUp
            | Refusal::JoinTokenRevoked { .. }
            | Refusal::JoinTokenForRole { .. }
            | Refusal::JoinTokenForOthers { .. } => ApiError::forbidden(what, why, remedy),
            Refusal::Malformed { .. } => ApiError::invalid(what, why, remedy),
            Refusal::VersionMoved { .. } | Refusal::NotInForce { .. } => {
                ApiError::changed(what, why, remedy)
            }
            Refusal::StaleEpoch { .. }
            | Refusal::LookedTooEarly { .. }
            | Refusal::NotKnownToAll { .. } => ApiError::unavailable(what, why, remedy),
            _ => ApiError::refused(what, why, remedy),
        }
    }
}

pub(super) const LIST_JOBS: &str = "list the jobs (`matins get jobs`) and use one of their names";
pub(super) const LIST_AGENTS: &str =
    "list the agents (`matins get agents`) and use one of their names";
pub(super) const LIST_RUNS: &str = "list the runs (`matins get runs`) and use one of their ids";

fn remedy_for(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoSuchJob { .. } => LIST_JOBS,
        Refusal::NoSuchRun { .. } => LIST_RUNS,
        Refusal::NoAgentNamed { .. } => LIST_AGENTS,
        Refusal::NoTokenNamed { .. } => {
            "list the tokens (`matins token list`) and use one of their names"
        }
        Refusal::NoJoinToken => "use the whole text that `matins token join` wrote",
        Refusal::NoSuchJoinToken { .. } => {
            "list the join tokens (`matins token join list`) and use one of their ids"
        }
        Refusal::JoinTokenEnded { .. }
        | Refusal::JoinTokenUsedUp
        | Refusal::JoinTokenRevoked { .. } => {
            "have another one made (`matins token join`); nothing was used up"
        }
        Refusal::JoinTokenForRole { of, .. } => match of {
            Role::Agent => "use it with `matins agent enrol`, or have one made with `--role`",
            Role::Coordinator | Role::Witness => {
                "use it with `matins cluster join`, or have one made with `--role`"
            }
        },
        Refusal::KeyEnrolled { .. } => {
            "ask under that name and role again, or in a directory of its own, with another key"
        }
        Refusal::JoinTokenForOthers { .. } => {
            "give the host a name that it is for, or have another token made; nothing was used up"
        }
        Refusal::NameEnrolled { .. } => {
            "give this host another name; where it is the same host and its key is lost, revoke the old \
             name (`matins agent revoke`) and enrol it under a new one"
        }
        Refusal::NodeNumberGiven { .. } => {
            "clear its data directory, issue it a certificate with a number that nobody had (`matins ca \
             issue --node N`), and add it again"
        }
        Refusal::TokenNameTaken { .. } => {
            "choose another name, such as the same with the year behind it"
        }
        Refusal::NoSuchResource { .. } => {
            "list the resources (`matins get resources`) and use one of their names"
        }
        Refusal::UnknownResource { .. } => {
            "make it with `matins resource set NAME CAPACITY`, or correct its name in needs.uses"
        }
        Refusal::BeyondCapacity { .. } => {
            "ask for less under needs.uses, or raise it with `matins resource set NAME CAPACITY`"
        }
        Refusal::ResourceUsed { .. } => {
            "take it out of needs.uses of every job first; or set its capacity to 0 to give none of it"
        }
        Refusal::ResourceHeld { .. } => "wait until those have ended, or cancel their runs",
        Refusal::NoSuchShard { .. } => "look at the run for its shards; they count from 0",
        Refusal::Malformed { .. } => "correct the request",
        Refusal::StaleEpoch { .. } | Refusal::LookedTooEarly { .. } => {
            "ask the coordinator that leads now"
        }
        Refusal::NotKnownToAll { .. } => {
            "upgrade the control machines that are behind (`matins cluster status` names them), and ask \
             again"
        }
        Refusal::WatermarkMoved { .. } => "ask again: it fired while this was being decided",
        Refusal::NameTaken { .. } => "choose another name, or delete the other job first",
        Refusal::NameRetired { .. } => "use the new name",
        Refusal::NoSuchPredecessor { .. } => {
            "apply that job first, or correct its name under `after`; `matins apply` of both together \
             puts them in order"
        }
        Refusal::Circle { .. } => "take one of these jobs out of another's `after`",
        Refusal::WrongRunState { .. } | Refusal::WrongShardState { .. } => {
            "look at the run as it stands now; it may have moved on"
        }
        Refusal::Overlap { .. } => "wait for that run to end, or cancel it",
        Refusal::VersionMoved { .. } => {
            "look at the version in force (`matins describe JOB`), put your change into it, and \
             apply that"
        }
        Refusal::NoSuchAlert { .. } => {
            "list the alerts (`matins get alerts`) and use one of their ids; cleared ones are kept \
             for a while only"
        }
        Refusal::NotHarmless { .. } => {
            "look at what the run has done; where a second run does no harm, redo it with force \
             (`matins redo RUN --force`), and say so in the manifest"
        }
        Refusal::NotInForce { .. } => "apply it without naming a version: the job is made anew",
        Refusal::Paused { .. } => "resume the job first (`matins resume JOB`)",
        Refusal::InFuture { .. } => "wait for it, or leave the time out for a run at once",
        Refusal::AlreadyHasRun { .. } => "rerun that run instead",
        Refusal::Revoked { .. } => {
            "nothing is left to do; a host that is to be used again needs a \
             certificate under a name not used before"
        }
        Refusal::LeasesLive { .. } => "cancel the job's runs and wait until they have ended",
        _ => "look at the state as it is now and decide again",
    }
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Unauthorized => "unauthorized",
            Kind::Forbidden => "forbidden",
            Kind::NotFound => "not_found",
            Kind::Refused => "refused",
            Kind::Changed => "changed",
            Kind::Throttled => "throttled",
            Kind::NotLeader => NOT_LEADER,
            Kind::Unavailable => "unavailable",
            Kind::Internal => "internal",
        }
    }
}

/// The gate writes the body, since it knows the request's id.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.retry_after_s {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(*self.body);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_not_denied_for_want_of_a_word_more() {
        let error = ApiError::asking("putting job t/a", &AskError::Silent);
        assert!(error.body.remedy.contains("nothing was changed"));
        let error = error.after_all("it was put as version 3", "look at the job");
        let ErrorBody { why, remedy, .. } = *error.body;
        assert!(why.starts_with("it was put as version 3, but"), "{why}");
        assert_eq!(remedy, "look at the job");
    }
}
