use protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::codes::Coded;
use crate::outcome::{Done, Refusal};
use crate::rows::RunState;

/// Lets a waiting run start, if its job's overlap policy still allows it when applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admit {
    pub run_id: RunId,
}

impl Admit {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        if run.row.state != RunState::Waiting {
            return Err(run.wrong_state("waiting"));
        }
        if let Some(live) = context.before_in_line(run.row.job_id, self.run_id)? {
            let policy = context.policy(run.row.job_id, run.row.version)?;
            return Err(Refusal::Overlap {
                live,
                policy: policy.overlap.word().to_owned(),
            }
            .into());
        }
        context.make_ready(&mut run)?;
        context.update_run(&run)?;
        Ok(Done::Admitted)
    }
}
