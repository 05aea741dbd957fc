use protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::ShardState;

/// Hands a pending shard, which no host could take for too long, to a person with the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaceable {
    pub run_id: RunId,
    pub shard: u32,
    pub report: String,
}

impl Unplaceable {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        if !run.row.state.is_live() {
            return Err(run.wrong_state("ready or running"));
        }
        let mut shard = context.shard(self.run_id, self.shard)?;
        if !matches!(shard.row.state, ShardState::Pending { .. }) {
            return Err(shard.wrong_state("pending"));
        }
        let report = format!("no host could take it: {}", clip(&self.report));
        let to = ShardState::NeedsConfirmation;
        context.move_shard(&mut run, &mut shard, to, Some(report.clone()))?;
        context.roll_up(&mut run)?;
        // Where nothing else of the run is open, rolling it up has said the same.
        if run.row.state.is_live() {
            let text = format!("shard {}: {report}", self.shard);
            context.alert(
                AlertKind::NeedsConfirmation,
                Some(run.row.job_id),
                Some(self.run_id),
                &text,
            )?;
        }
        Ok(Done::GivenToPerson)
    }
}
