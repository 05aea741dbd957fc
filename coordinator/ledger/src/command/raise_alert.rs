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
        }
    }
}

impl RaiseAlert {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        context.alert(self.kind, self.job_id, None, clip(&self.text))?;
        Ok(Done::AlertRaised)
    }
}
