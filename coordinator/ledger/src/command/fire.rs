use protocol::attempt::Trigger;
use protocol::{DurationMs, JobId, Rule, WallMs};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::decisions::{Stretch, compare};
use crate::outcome::Done;

/// Settles every instant of `version` in (`from`, `through`]: a compare-and-swap on (version,
/// watermark) that writes runs and gaps and moves the watermark in one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    pub job_id: JobId,
    pub version: u32,
    /// The watermark that the proposer saw.
    pub from: WallMs,
    /// The new watermark.
    pub through: WallMs,
    /// In the order of their times, which strictly increase and lie in (`from`, `through`].
    pub decisions: Vec<Decision>,
}

/// What becomes of one instant, or of a stretch of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Decision {
    /// To be run. Whether it may start now is judged by the overlap policy when applied.
    Run {
        fire_time: WallMs,
        nominal: Vec<String>,
        trigger: Trigger,
        start_deadline: Option<DurationMs>,
    },
    /// Recorded as `missed`.
    Missed {
        fire_time: WallMs,
        nominal: Vec<String>,
        reason: String,
    },
    /// `count` instants in (`from`, `through`] that do not deserve a row each.
    Gap {
        from: WallMs,
        through: WallMs,
        count: u64,
        reason: GapReason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// Missed while nothing could fire, beyond what the misfire policy runs.
    GivenUpAfterOutage,
    /// The manifest of the version could not be read. Its count is 0 and means "unknown": the only
    /// reason for which 0 is well-formed.
    UnreadableManifest,
}

impl GapReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            GapReason::GivenUpAfterOutage => "given up after an outage",
            GapReason::UnreadableManifest => "the manifest could not be read",
        }
    }
}

impl Fire {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut job = context.job(self.job_id)?;
        compare(context, &job, self.version, self.from)?;
        let stretch = Stretch {
            job_id: self.job_id,
            version: self.version,
            from: self.from,
            through: self.through,
        };
        let runs = context.write_decisions(stretch, &self.decisions)?;
        if context.rules.on(Rule::RunAndWatermarkTogether) {
            job.fired_through = self.through;
            context.update_job(&job)?;
        }
        Ok(Done::Fired { runs })
    }
}
