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
        context.cancel_open(&mut run, &why)?;
        context.audit(Audit {
            by,
            action: "cancel",
            on: run.on(),
            reason: Some(reason),
        })?;
        Ok(Done::Cancelled)
    }
}

impl Context<'_> {
    /// Cancels what is open of a run. Its leases end by receipt or expiry.
    pub(crate) fn cancel_open(&mut self, run: &mut Run, why: &str) -> Result<(), Stop> {
        for mut shard in self.shards(run.row.run_id)? {
            match shard.row.state {
                ShardState::Pending { .. } | ShardState::NeedsConfirmation => {
                    let reason = Some(why.to_owned());
                    self.move_shard(run, &mut shard, ShardState::Cancelled, reason)?;
                }
                ShardState::Leased(lease) => self.cancel_lease(run, &mut shard, lease, why)?,
                ShardState::Succeeded | ShardState::Cancelled => {}
            }
        }
        run.row.reason = Some(why.to_owned());
        if run.row.state == RunState::Waiting {
            run.row.state = RunState::Cancelled;
            run.row.waits = None;
        }
        self.roll_up(run)?;
        self.settle_plea_of_live(run)
    }

    fn cancel_lease(
        &mut self,
        run: &mut Run,
        shard: &mut Shard,
        lease: Lease,
        why: &str,
    ) -> Result<(), Stop> {
        shard.again = false;
        let why = Some(why.to_owned());
        if !self.rules.on(Rule::LeaseEndsByReceiptOrExpiry) {
            self.end_attempt_unheard(lease.token, AttemptOutcome::Cancelled, "cancelled")?;
            return self.move_shard(run, shard, ShardState::Cancelled, why);
        }
        let lease = Lease {
            cancelling: true,
            ..lease
        };
        self.move_shard(run, shard, ShardState::Leased(lease), why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Unplaceable;
    use crate::outcome::{Change, Refusal};
    use crate::testing::{Bed, attach, end, finish};

    fn cancel(run_id: RunId) -> CancelRun {
        CancelRun {
            run_id,
            by: "ada".to_owned(),
            reason: "wrong day".to_owned(),
        }
    }

    #[test]
    fn what_is_not_leased_ends_at_once_and_a_lease_ends_by_its_receipt() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 4");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let done = bed.grant(run_id, 0, agent.1);
        bed.ok(finish(agent.0, done, end(AttemptOutcome::Succeeded)));
        let token = bed.grant(run_id, 1, agent.1);
        bed.ok(Unplaceable {
            run_id,
            shard: 2,
            report: String::new(),
        });
        assert_eq!(bed.ok(cancel(run_id)), Done::Cancelled);
        let states: Vec<_> = bed
            .set
            .shards_of(run_id)
            .map(|s| s.state.as_str())
            .collect();
        assert_eq!(states, ["succeeded", "leased", "cancelled", "cancelled"]);
        assert_eq!(bed.run(run_id).state, RunState::Running);
        // Asked twice, the agents are told twice.
        let told = Change::Shard(bed.shard(run_id, 1).clone());
        assert!(bed.outcome(cancel(run_id)).changes.contains(&told));
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Cancelled)));
        assert_eq!(
            bed.view("SELECT state, reason FROM run_view"),
            ["cancelled|cancelled by ada: wrong day"]
        );
        assert!(matches!(
            bed.refused(cancel(run_id)),
            Refusal::WrongRunState { .. }
        ));
        assert!(matches!(
            bed.refused(cancel(RunId(9))),
            Refusal::NoSuchRun { .. }
        ));
    }

    #[test]
    fn however_a_lease_being_cancelled_ends_it_is_not_retried_but_success_stands() {
        for (outcome, state) in [
            (AttemptOutcome::Cancelled, "cancelled"),
            (AttemptOutcome::Failed, "cancelled"),
            (AttemptOutcome::Lost, "cancelled"),
            (AttemptOutcome::Succeeded, "succeeded"),
        ] {
            let mut bed = Bed::new();
            let job = bed.job("");
            let agent = bed.attach(attach("h1"));
            let (run_id, _) = bed.fire(job, 1);
            let token = bed.grant(run_id, 0, agent.1);
            bed.ok(cancel(run_id));
            bed.ok(finish(agent.0, token, end(outcome)));
            assert_eq!(bed.state(run_id), state);
        }
    }

    #[test]
    fn runs_that_wait_and_runs_that_never_started_are_cancelled() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        bed.fire(job, 1);
        bed.fire(job, 2);
        for run_id in [RunId(2), RunId(1)] {
            assert_eq!(bed.ok(cancel(run_id)), Done::Cancelled);
            assert_eq!(bed.state(run_id), "cancelled");
        }
        assert!(bed.set.runs.is_empty());
    }

    #[test]
    fn without_the_rule_a_lease_ends_while_its_process_runs() {
        let mut bed = Bed::without(Rule::LeaseEndsByReceiptOrExpiry);
        let job = bed.job("");
        let (_, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.grant(run_id, 0, session);
        assert_eq!(bed.ok(cancel(run_id)), Done::Cancelled);
        assert_eq!(bed.state(run_id), "cancelled");
    }
}
