//! The states of a run: one list for the ledger's rows, the API's answers and what the command line
//! makes of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What has become of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Admitted, but something must happen first: its reason says what.
    Waiting,
    /// Its shards may be granted; none has been since it became so.
    Ready,
    Running,
    /// No shard is pending or leased, and at least one needs a person.
    NeedsConfirmation,
    Succeeded,
    /// Given up by a person.
    Failed,
    Cancelled,
    Skipped,
    Missed,
}

impl RunState {
    pub const ALL: [RunState; 9] = [
        RunState::Waiting,
        RunState::Ready,
        RunState::Running,
        RunState::NeedsConfirmation,
        RunState::Succeeded,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Skipped,
        RunState::Missed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            RunState::Waiting => "waiting",
            RunState::Ready => "ready",
            RunState::Running => "running",
            RunState::NeedsConfirmation => "needs_confirmation",
            RunState::Succeeded => "succeeded",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
            RunState::Skipped => "skipped",
            RunState::Missed => "missed",
        }
    }

    /// Live runs are what `overlap` asks about.
    pub const fn is_live(self) -> bool {
        matches!(self, RunState::Ready | RunState::Running)
    }

    /// Final within the execution: only a rerun leaves it.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            RunState::Succeeded
                | RunState::Failed
                | RunState::Cancelled
                | RunState::Skipped
                | RunState::Missed
        )
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_one_word_wherever_it_is_written() {
        let words = [
            "waiting",
            "ready",
            "running",
            "needs_confirmation",
            "succeeded",
            "failed",
            "cancelled",
            "skipped",
            "missed",
        ];
        assert_eq!(RunState::ALL.map(RunState::as_str), words);
        for state in RunState::ALL {
            let json = serde_json::to_value(state).unwrap();
            assert_eq!(json, state.as_str());
            assert_eq!(serde_json::from_value::<RunState>(json).unwrap(), state);
            assert_eq!(format!("{state:20}|"), format!("{:20}|", state.as_str()));
        }
    }
}
