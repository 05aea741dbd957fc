use protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::RunState;

/// Gives up a waiting run whose start deadline has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipWaiting {
    pub run_id: RunId,
}

impl SkipWaiting {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        if run.row.state != RunState::Waiting {
            return Err(run.wrong_state("waiting"));
        }
        let waited_for = context.waits_for(self.run_id)?;
        let reason = format!("its start deadline passed; {waited_for}");
        context.make_skipped(&mut run, reason.clone())?;
        context.update_run(&run)?;
        let title = context.title(&run.row)?;
        let text = format!(
            "{title} was skipped: {reason}. To run it now: `matins rerun {} --reason WHY`{}",
            self.run_id,
            context.holds_up(&run)?
        );
        context.raise(AlertKind::StartDeadlinePassed, run.on(), &text)?;
        Ok(Done::Skipped)
    }
}

#[cfg(test)]
mod tests {
    use protocol::RunId;

    use super::*;
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach};

    #[test]
    fn a_run_that_waited_too_long_is_skipped_with_its_reason() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        bed.attach(attach("h1"));
        bed.fire(job, 1);
        bed.fire(job, 2);
        let skip = |run| SkipWaiting { run_id: RunId(run) };
        assert!(matches!(
            bed.refused(skip(1)),
            Refusal::WrongRunState { .. }
        ));
        assert_eq!(bed.ok(skip(2)), Done::Skipped);
        assert_eq!(
            bed.view("SELECT state, reason, ended_at FROM run_view WHERE run = 'run-2'"),
            [
                "skipped|its start deadline passed; overlap: in line behind run-1, which is ready|1970-01-01T00:00:00.000Z"
            ]
        );
        assert_eq!(
            bed.view("SELECT kind, run, text FROM alert_view"),
            [
                "start_deadline_passed|run-2|team/job@1970-01-01T00:02:00Z (run-2) was skipped: \
                 its start deadline passed; overlap: in line behind run-1, which is ready. To run it now: `matins rerun run-2 --reason WHY`"
            ]
        );
        assert!(matches!(
            bed.refused(skip(2)),
            Refusal::WrongRunState { .. }
        ));
    }

    #[test]
    fn what_later_fires_wait_for_is_said_where_it_is_skipped() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: allow\nprevious: succeeded");
        bed.attach(attach("h1"));
        bed.fire(job, 1);
        for run in [2, 3] {
            bed.fire(job, run);
            bed.ok(SkipWaiting { run_id: RunId(run) });
        }
        assert_eq!(
            bed.view("SELECT text FROM alert_view WHERE run = 'run-3'"),
            [
                "team/job@1970-01-01T00:03:00Z (run-3) was skipped: its start deadline passed; \
                 previous: the fire before is run-2, which is skipped and must be rerun first. \
                 To run it now: `matins rerun run-3 --reason WHY`. Until it has succeeded, the fire \
                 after it waits for it, and is skipped in turn (`previous: succeeded`)"
            ]
        );
    }
}
