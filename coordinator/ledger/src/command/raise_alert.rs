use protocol::JobId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;

/// Records something a person should know that no other command records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiseAlert {
    pub kind: AlertKind,
    pub job_id: Option<JobId>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// A job's row cannot be read; it does not fire.
    UnreadableJob,
    /// Schedules are settled beyond what the clock shows: nothing of them fires until it gets there.
    ClockBehind,
    /// The ledger does not take a job's fire; it does not fire.
    FireRefused,
    /// The leader changed several times and an agent with leases has not been heard of since.
    FlappingLeader,
    /// A fire was skipped because an earlier run was still live.
    OverlapSkipped,
    /// A waiting run passed its start deadline.
    StartDeadlinePassed,
    /// Instants were given up after an outage.
    GivenUp,
    /// A run needs a person.
    NeedsConfirmation,
    /// Two processes under one identity.
    DuplicateAgent,
    /// A person revoked an agent.
    AgentRevoked,
    /// The ledger's tables do not take what the scheduler decided about a run; it is tried again,
    /// ever more rarely.
    CommandRefused,
    /// A certificate in use ends soon.
    CertificateEnds,
}

impl AlertKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            AlertKind::UnreadableJob => "unreadable_job",
            AlertKind::FlappingLeader => "flapping_leader",
            AlertKind::OverlapSkipped => "overlap_skipped",
            AlertKind::StartDeadlinePassed => "start_deadline_passed",
            AlertKind::GivenUp => "given_up",
            AlertKind::NeedsConfirmation => "needs_confirmation",
            AlertKind::DuplicateAgent => "duplicate_agent",
            AlertKind::FireRefused => "fire_refused",
            AlertKind::ClockBehind => "clock_behind",
            AlertKind::AgentRevoked => "agent_revoked",
            AlertKind::CommandRefused => "command_refused",
            AlertKind::CertificateEnds => "certificate_ends",
        }
    }
}

impl RaiseAlert {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        context.alert(self.kind, self.job_id, None, clip(&self.text))?;
        Ok(Done::AlertRaised)
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;
    use crate::testing::Bed;

    #[test]
    fn an_alert_is_kept_with_its_job_and_a_bounded_text() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.at = WallMs(1500);
        for (job_id, text) in [(Some(job), "x".to_owned()), (None, "ä".repeat(5000))] {
            let kind = AlertKind::UnreadableJob;
            assert_eq!(bed.ok(RaiseAlert { kind, job_id, text }), Done::AlertRaised);
        }
        assert_eq!(
            bed.view("SELECT alert, at, kind, name, length(text) FROM alert_view"),
            [
                "alert-1|1970-01-01T00:00:01.500Z|unreadable_job|team/job|1",
                "alert-2|1970-01-01T00:00:01.500Z|unreadable_job|-|1024",
            ]
        );
    }
}
