use protocol::attempt::AttemptOutcome;
use protocol::{Rule, RunId, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::ended::Ended;
use crate::outcome::{Done, Refusal};

/// Ends a lease whose agent was silent for too long. Conditional on the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expire {
    pub run_id: RunId,
    pub shard: u32,
    pub token: Token,
    pub reason: String,
}

impl Expire {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut run = context.run(self.run_id)?;
        let mut shard = context.shard(self.run_id, self.shard)?;
        let named = |token| token == self.token || !context.rules.on(Rule::ExpireNamesToken);
        let lease = shard
            .lease()
            .filter(|lease| named(lease.token))
            .ok_or(Refusal::NotCurrent { token: self.token })?;
        let outcome = AttemptOutcome::Lost;
        context.end_attempt_unheard(lease.token, outcome, clip(&self.reason))?;
        context.settle(
            &mut run,
            &mut shard,
            Ended::unheard(outcome, Some(&self.reason)),
        )?;
        Ok(Done::Expired)
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;
    use crate::rows::ShardState;
    use crate::testing::{Bed, attach};

    #[test]
    fn a_lease_expires_only_under_its_own_token() {
        for rule_on in [true, false] {
            let mut bed = if rule_on {
                Bed::new()
            } else {
                Bed::without(Rule::ExpireNamesToken)
            };
            let job = bed.job("");
            let (_, session) = bed.attach(attach("h1"));
            let (run_id, _) = bed.fire(job, 1);
            let token = bed.grant(run_id, 0, session);
            let expire = |token, shard| Expire {
                run_id,
                shard,
                token,
                reason: "silent for 60 s".to_owned(),
            };
            assert!(matches!(
                bed.refused(expire(token, 7)),
                Refusal::NoSuchShard { .. }
            ));
            let other = Token(token.0 - 1);
            let outcome = bed.outcome(expire(other, 0));
            if rule_on {
                assert_eq!(outcome.result, Err(Refusal::NotCurrent { token: other }));
                assert_eq!(bed.ok(expire(token, 0)), Done::Expired);
            } else {
                assert_eq!(outcome.result, Ok(Done::Expired));
            }
            assert!(matches!(
                bed.shard(run_id, 0).state,
                ShardState::Pending {
                    since: WallMs(0),
                    ..
                }
            ));
            assert_eq!(bed.shard(run_id, 0).retries_used, 1);
            assert_eq!(
                bed.view("SELECT outcome, receipt, reason FROM attempt_view"),
                ["lost|-|silent for 60 s"]
            );
            assert_eq!(bed.refused(expire(token, 0)), Refusal::NotCurrent { token });
        }
    }
}
