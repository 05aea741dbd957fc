use protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::{RunState, ShardState};

/// Gives up a waiting run whose start deadline has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipWaiting {
    pub run_id: RunId,
    pub reason: String,
}

impl SkipWaiting {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        if run.row.state != RunState::Waiting {
            return Err(run.wrong_state("waiting"));
        }
        let reason = clip(&self.reason);
        // A rerun that waited has shards already.
        for mut shard in context.shards(self.run_id)? {
            if matches!(shard.row.state, ShardState::Pending { .. }) {
                let why = Some("its run was skipped".to_owned());
                context.move_shard(&mut run, &mut shard, ShardState::Cancelled, why)?;
            }
        }
        run.row.state = RunState::Skipped;
        run.row.reason = Some(reason.to_owned());
        context.roll_up(&mut run)?;
        let text = format!("the run of {} was skipped: {reason}", run.row.fire_time);
        context.alert(
            AlertKind::StartDeadlinePassed,
            Some(run.row.job_id),
            Some(self.run_id),
            &text,
        )?;
        Ok(Done::Skipped)
    }
}
