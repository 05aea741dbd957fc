use protocol::{Rule, RunId};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::RunState;

/// A run still needs confirmation: its person is told once more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remind {
    pub run_id: RunId,
}

impl Remind {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        if run.row.state != RunState::NeedsConfirmation {
            return Err(run.wrong_state("in needs_confirmation"));
        }
        run.row.asked_at = Some(context.at);
        context.update_run(&run)?;
        if context.rules.on(Rule::PersonIsReminded) {
            let text = context.plea(&run)?;
            context.raise(AlertKind::NeedsConfirmation, run.on(), &text)?;
        }
        Ok(Done::Reminded)
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::command::{Confirm, Verdict};
    use crate::outcome::Refusal;
    use crate::testing::{Bed, MINUTE, attach, end, finish};

    #[test]
    fn it_counts_up_and_ends_with_what_it_is_about() {
        let mut bed = Bed::new();
        let job = bed.job("retry: { at_most: 0, backoff: [1s] }");
        let agent = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        assert!(matches!(
            bed.refused(Remind { run_id }),
            Refusal::WrongRunState { .. }
        ));
        let token = bed.grant(run_id, 0, agent.1);
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
        assert_eq!(bed.run(run_id).asked_at, Some(WallMs(0)));
        bed.at = WallMs(240 * MINUTE);
        assert_eq!(bed.ok(Remind { run_id }), Done::Reminded);
        assert_eq!(bed.run(run_id).asked_at, Some(bed.at));
        let alert = "SELECT count, at, last_at, cleared_at FROM alert_view";
        assert_eq!(
            bed.view(alert),
            ["2|1970-01-01T00:00:00.000Z|1970-01-01T04:00:00.000Z|-"]
        );
        bed.ok(Confirm {
            run_id,
            shard: None,
            verdict: Verdict::Succeeded,
            by: "ada".to_owned(),
            reason: String::new(),
        });
        assert_eq!(
            bed.view("SELECT count, cleared_at, cleared_by FROM alert_view"),
            ["2|1970-01-01T04:00:00.000Z|-"]
        );
        assert!(matches!(
            bed.refused(Remind { run_id }),
            Refusal::WrongRunState { .. }
        ));
    }
}
