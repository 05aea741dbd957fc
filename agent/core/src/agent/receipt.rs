//! How an attempt ended, in the ledger's words.

use super::{DiskFull, Forbidden};
use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit};
use protocol::supervisor::{End, KillCause, SpawnFault};
use protocol::{DurationMs, WallMs};

/// Why an agent would not carry out a Start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartRefusal {
    #[error("the start is of a session that is no longer live")]
    OtherSession,
    #[error("the start rests on beat {0}, which this agent does not remember sending")]
    UnknownBeat(u64),
    #[error("the deadline had passed {late} before the start arrived")]
    DeadlinePassed { late: DurationMs },
    #[error("the token is not above those this agent has already carried out")]
    Replayed,
    #[error("all {slots} slots are taken")]
    NoSlot { slots: u32 },
    #[error("{held} attempts wait for their receipts to be acknowledged")]
    ReceiptsPileUp { held: usize },
    #[error("{0}")]
    DiskFull(DiskFull),
    #[error("the policy of this host forbids it: {0}")]
    Forbidden(Forbidden),
    #[error("the agent was told to stop")]
    Stopping,
    #[error("the supervisor is away")]
    SupervisorAway,
    #[error("the connection to the supervisor broke before it read the launch")]
    LaunchUnread,
}

impl StartRefusal {
    /// No process was started, and none will be.
    pub(super) fn into_end(self, at: WallMs) -> AttemptEnd {
        unseen(AttemptOutcome::Refused, self.to_string(), at)
    }
}

/// The receipt for what the supervisor verified dead; the tail of its output is still empty.
pub(super) fn attempt_end(end: End) -> AttemptEnd {
    let (outcome, mut reason) = outcome(&end);
    let mut add = |more: String| {
        reason = Some(match reason.take() {
            Some(reason) => format!("{reason}; {more}"),
            None => more,
        });
    };
    if end.out_of_memory {
        add("a process of it was killed because memory was used up".to_owned());
    }
    if end.leftovers > 0 {
        add(format!(
            "processes left behind that had to be killed: {}",
            end.leftovers
        ));
    }
    AttemptEnd {
        outcome,
        exit: end.exit,
        started_at: end.started_at,
        ended_at: end.ended_at,
        cpu: end.cpu,
        memory_bytes_peak: end.memory_bytes_peak,
        out_of_memory: end.out_of_memory,
        usage: end.usage,
        not_enforced: end.not_enforced,
        reason,
        tail: String::new(),
    }
}

/// The receipt for what began, is dead, and was forgotten by the supervisor at the word of some
/// other agent: only that one has heard how it ended.
pub(super) fn end_taken_by_another(started_at: WallMs, at: WallMs) -> AttemptEnd {
    let reason =
        "another agent was connected to this host's supervisor and took the word of its end";
    AttemptEnd {
        started_at: Some(started_at),
        ..unseen(AttemptOutcome::Lost, reason.to_owned(), at)
    }
}

/// An end of which nothing was seen that could be told.
fn unseen(outcome: AttemptOutcome, reason: String, ended_at: WallMs) -> AttemptEnd {
    AttemptEnd {
        outcome,
        exit: None,
        started_at: None,
        ended_at,
        cpu: DurationMs::ZERO,
        memory_bytes_peak: 0,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: Some(reason),
        tail: String::new(),
    }
}

fn outcome(end: &End) -> (AttemptOutcome, Option<String>) {
    if let Some(cause) = end.killed {
        // A launch that came too late never ran, and that is known: it is as good as refused.
        let never_ran = end.exit.is_none();
        let outcome = match cause {
            KillCause::LeaseLost if never_ran => AttemptOutcome::Refused,
            KillCause::LeaseLost => AttemptOutcome::Lost,
            KillCause::Cancelled => AttemptOutcome::Cancelled,
            KillCause::TimedOut => AttemptOutcome::TimedOut,
            KillCause::Drained | KillCause::SupervisorStopped => AttemptOutcome::Interrupted,
        };
        let why = match cause {
            KillCause::LeaseLost => "the lease ran out",
            KillCause::Cancelled => "cancelled",
            KillCause::TimedOut => "the time-out passed",
            KillCause::Drained => "the host is drained",
            KillCause::SupervisorStopped => "the supervisor was stopped",
        };
        return (
            outcome,
            Some(end.spawn_error.clone().unwrap_or_else(|| why.to_owned())),
        );
    }
    match end.exit {
        Some(Exit::Code(0)) => (AttemptOutcome::Succeeded, None),
        Some(Exit::Code(code)) => (
            AttemptOutcome::Failed,
            Some(format!("exited with status {code}")),
        ),
        Some(Exit::Signal(signal)) => (
            AttemptOutcome::Failed,
            Some(format!("killed by signal {signal}")),
        ),
        None => {
            // What the host could not do is no failure of the job, and another host may do it.
            let outcome = match end.spawn_fault {
                SpawnFault::Host => AttemptOutcome::Refused,
                SpawnFault::Launch => AttemptOutcome::Failed,
            };
            let reason = end.spawn_error.as_ref().map_or_else(
                || "could not be started".to_owned(),
                |error| format!("could not be started: {error}"),
            );
            (outcome, Some(reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(killed: Option<KillCause>, exit: Option<Exit>, spawn_error: Option<&str>) -> End {
        End {
            killed,
            exit,
            spawn_error: spawn_error.map(str::to_owned),
            spawn_fault: SpawnFault::Launch,
            started_at: exit.map(|_| WallMs(1)),
            ended_at: WallMs(2),
            cpu: DurationMs(3),
            memory_bytes_peak: 4,
            out_of_memory: false,
            usage: None,
            not_enforced: Vec::new(),
            leftovers: 0,
        }
    }

    #[test]
    fn every_end_has_its_outcome() {
        use AttemptOutcome as O;
        use KillCause as K;
        let code = |c| Some(Exit::Code(c));
        let signal = |s| Some(Exit::Signal(s));
        for (killed, exit, error, expected) in [
            (None, code(0), None, O::Succeeded),
            (None, code(3), None, O::Failed),
            (None, signal(11), None, O::Failed),
            (None, None, Some("no such file"), O::Failed),
            (Some(K::Cancelled), signal(15), None, O::Cancelled),
            (Some(K::Cancelled), code(0), None, O::Cancelled),
            (Some(K::TimedOut), signal(9), None, O::TimedOut),
            (Some(K::SupervisorStopped), signal(15), None, O::Interrupted),
            (Some(K::Drained), signal(9), None, O::Interrupted),
            (Some(K::Drained), None, Some("too late"), O::Interrupted),
            (
                Some(K::SupervisorStopped),
                None,
                Some("stopping"),
                O::Interrupted,
            ),
            (Some(K::LeaseLost), signal(9), None, O::Lost),
            (Some(K::LeaseLost), None, Some("too late"), O::Refused),
        ] {
            let got = attempt_end(end(killed, exit, error));
            assert_eq!(got.outcome, expected, "{killed:?} {exit:?} {error:?}");
            assert_eq!(got.reason.is_none(), expected == O::Succeeded);
        }
    }

    #[test]
    fn a_host_that_cannot_start_anything_refuses_and_the_job_has_not_failed() {
        let mut ended = end(None, None, Some("no space left on device"));
        ended.spawn_fault = SpawnFault::Host;
        let got = attempt_end(ended);
        assert_eq!(got.outcome, AttemptOutcome::Refused);
        assert!(got.reason.unwrap().ends_with("no space left on device"));
    }

    #[test]
    fn leftovers_are_told_even_of_a_success() {
        let mut ended = end(None, Some(Exit::Code(0)), None);
        ended.leftovers = 2;
        let got = attempt_end(ended);
        assert_eq!(got.outcome, AttemptOutcome::Succeeded);
        assert!(got.reason.unwrap().ends_with("killed: 2"));
    }
}
