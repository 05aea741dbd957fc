use protocol::attempt::AttemptOutcome;
use protocol::{Rule, RunId};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::rows::{Lease, RunState, ShardState};
use crate::tables::record::Audit;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// Ends a run at a person's wish: pending shards at once, leased ones when their lease ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRun {
    pub run_id: RunId,
    pub by: String,
    pub reason: String,
}

impl CancelRun {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        if run.row.state.is_final() {
            return Err(run.wrong_state("not yet final"));
        }
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        let why = format!("cancelled by {by}: {reason}");
        let leases = context.cancel_open(&mut run, &why)?;
        context.audit(Audit {
            by,
            action: "cancel",
            job_id: run.row.job_id,
            run_id: Some(self.run_id),
            reason: Some(reason),
        })?;
        let leases = leases
            .into_iter()
            .map(|lease| (lease.agent_id, lease.token))
            .collect();
        Ok(Done::Cancelled { leases })
    }
}

impl Context<'_> {
    /// Cancels what is open of a run; answers the leases that must still end.
    pub(super) fn cancel_open(&mut self, run: &mut Run, why: &str) -> Result<Vec<Lease>, Stop> {
        let mut leases = Vec::new();
        for mut shard in self.shards(run.row.run_id)? {
            match shard.row.state {
                ShardState::Pending { .. } | ShardState::NeedsConfirmation => {
                    let reason = Some(why.to_owned());
                    self.move_shard(run, &mut shard, ShardState::Cancelled, reason)?;
                }
                ShardState::Leased(lease) => {
                    leases.extend(self.cancel_lease(run, &mut shard, lease, why)?);
                }
                ShardState::Succeeded | ShardState::Cancelled => {}
            }
        }
        run.row.reason = Some(why.to_owned());
        if run.row.state == RunState::Waiting {
            run.row.state = RunState::Cancelled;
        }
        self.roll_up(run)?;
        Ok(leases)
    }

    fn cancel_lease(
        &mut self,
        run: &mut Run,
        shard: &mut Shard,
        lease: Lease,
        why: &str,
    ) -> Result<Option<Lease>, Stop> {
        shard.again = false;
        if !self.rules.on(Rule::LeaseEndsByReceiptOrExpiry) {
            self.end_attempt_unheard(lease.token, AttemptOutcome::Cancelled, why)?;
            self.move_shard(run, shard, ShardState::Cancelled, Some(why.to_owned()))?;
            return Ok(None);
        }
        let lease = Lease {
            cancelling: true,
            ..lease
        };
        self.move_shard(run, shard, ShardState::Leased(lease), Some(why.to_owned()))?;
        Ok(Some(lease))
    }
}
