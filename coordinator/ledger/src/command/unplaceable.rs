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
        let (mut run, mut shard) = context.placeable(self.run_id, self.shard)?;
        let report = format!("no host could take it: {}", clip(&self.report));
        let to = ShardState::NeedsConfirmation;
        context.move_shard(&mut run, &mut shard, to, Some(report.clone()))?;
        context.roll_up(&mut run)?;
        // Where nothing else of the run is open, rolling it up has said the same.
        if run.row.state.is_live() {
            let title = context.title(&run.row)?;
            let next = context.what_to_do(&run.row)?;
            let text = format!("{title}, shard {}: {report}. {next}", self.shard);
            context.raise(AlertKind::NeedsConfirmation, run.on(), &text)?;
        }
        Ok(Done::GivenToPerson)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CancelRun;
    use crate::outcome::Refusal;
    use crate::rows::RunState;
    use crate::testing::{Bed, attach};

    #[test]
    fn while_the_run_goes_on_the_alert_ends_with_the_last_shard_that_asks() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let (_, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.grant(run_id, 1, session);
        bed.ok(Unplaceable {
            run_id,
            shard: 0,
            report: "no host".to_owned(),
        });
        assert_eq!(bed.view("SELECT cleared_at FROM alert_view"), ["-"]);
        bed.ok(CancelRun {
            run_id,
            by: "ada".to_owned(),
            reason: String::new(),
        });
        assert_eq!(bed.run(run_id).state, RunState::Running);
        assert_ne!(bed.view("SELECT cleared_at FROM alert_view"), ["-"]);
    }

    #[test]
    fn a_shard_that_nobody_takes_goes_to_a_person_with_one_alert() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let (_, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let report = |shard| Unplaceable {
            run_id,
            shard,
            report: "1 host looked at, 1 has no free slot".to_owned(),
        };
        assert_eq!(bed.ok(report(0)), Done::GivenToPerson);
        assert_eq!(bed.run(run_id).state, RunState::Ready);
        assert!(matches!(
            bed.refused(report(0)),
            Refusal::WrongShardState { .. }
        ));
        assert!(matches!(
            bed.refused(report(5)),
            Refusal::NoSuchShard { .. }
        ));
        assert_eq!(bed.ok(report(1)), Done::GivenToPerson);
        assert_eq!(bed.run(run_id).state, RunState::NeedsConfirmation);
        assert!(matches!(
            bed.refused(report(1)),
            Refusal::WrongRunState { .. }
        ));
        assert_eq!(
            bed.view("SELECT kind, count, text FROM alert_view"),
            [
                "needs_confirmation|2|team/job@1970-01-01T00:01:00Z (run-1) needs a person: \
                 2 shards need confirmation; shard 0: no host could take it: 1 host looked at, \
                 1 has no free slot. See `matins describe run-1`; to run it again: \
                 `matins rerun run-1 --failed --reason WHY`"
            ]
        );
        let leased = bed.fire(job, 2).0;
        bed.grant(leased, 0, session);
        let late = Unplaceable {
            run_id: leased,
            ..report(0)
        };
        assert!(matches!(bed.refused(late), Refusal::WrongShardState { .. }));
    }
}
