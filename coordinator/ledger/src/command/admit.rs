use protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::Done;
use crate::rows::RunState;

/// Judges a waiting run anew: it starts, waits on, or is skipped.
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
        let before = run.row.clone();
        context.admit(&mut run)?;
        if run.row != before {
            context.update_run(&run)?;
        }
        Ok(Done::Admitted {
            state: run.row.state,
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::Rule;

    use super::*;
    use crate::outcome::Refusal;
    use crate::rows::ShardState;
    use crate::testing::{Bed, attach};

    #[test]
    fn a_waiting_run_starts_when_its_turn_has_come() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        let agent = bed.attach(attach("h1"));
        for minute in 1..=3 {
            bed.fire(job, minute);
        }
        let admit = |run| Admit { run_id: RunId(run) };
        let judged = |state| Done::Admitted { state };
        assert_eq!(bed.ok(admit(2)), judged(RunState::Waiting));
        bed.carry_out(RunId(1), agent);
        assert_eq!(bed.ok(admit(3)), judged(RunState::Waiting));
        assert_eq!(bed.ok(admit(2)), judged(RunState::Ready));
        let run = bed.run(RunId(2));
        assert_eq!(
            (run.state, &run.reason, run.waits),
            (RunState::Ready, &None, None)
        );
        assert!(run.fence.is_some());
        assert!(matches!(
            bed.shard(RunId(2), 0).state,
            ShardState::Pending { .. }
        ));
        assert!(matches!(
            bed.refused(admit(2)),
            Refusal::WrongRunState { .. }
        ));
        assert!(matches!(bed.refused(admit(9)), Refusal::NoSuchRun { .. }));
        assert_eq!(bed.ok(admit(3)), judged(RunState::Waiting));
    }

    #[test]
    fn each_start_takes_a_higher_fence() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        let agent = bed.attach(attach("h1"));
        bed.fire(job, 1);
        bed.fire(job, 2);
        let first = bed.run(RunId(1)).fence;
        bed.carry_out(RunId(1), agent);
        bed.ok(Admit { run_id: RunId(2) });
        assert!(bed.run(RunId(2)).fence > first);
    }

    #[test]
    fn without_the_judgement_both_run() {
        let mut bed = Bed::without(Rule::OverlapJudgedInApply);
        let job = bed.job("overlap: queue");
        bed.fire(job, 1);
        bed.fire(job, 2);
        assert!(bed.run(RunId(1)).state.is_live() && bed.run(RunId(2)).state.is_live());
    }
}
