use protocol::{ResourceName, Rule, RunId, SessionId, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::{Done, Refusal};
use crate::rows::{Lease, RunState, ShardState};
use crate::tables::agent::Agent;
use crate::tables::attempt::NewAttempt;

/// Leases a pending shard to the agent of a session, under a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub run_id: RunId,
    pub shard: u32,
    pub session: SessionId,
    /// Units of resources that one shard of its manifest takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<(ResourceName, u32)>,
}

impl Grant {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if context.meta.held && context.rules.on(Rule::RestoreHoldsGrants) {
            return Err(Refusal::Held.into());
        }
        let (mut run, mut shard) = context.placeable(self.run_id, self.shard)?;
        let agent = context.agent_of_live_session(self.session)?;
        context.take_units(&self.uses, context.rules.on(Rule::ResourcesBounded))?;
        shard.holds.clone_from(&self.uses);

        let token = Token(context.meta.mint_position());
        let earlier = shard.token.replace(token);
        shard.row.attempts = shard.row.attempts.saturating_add(1);
        context.insert_attempt(NewAttempt {
            token,
            earlier,
            run_id: self.run_id,
            shard: self.shard,
            execution: run.row.execution,
            attempt: shard.row.attempts,
            agent_id: agent.row.agent_id,
            session: self.session,
        })?;
        let lease = Lease {
            token,
            agent_id: agent.row.agent_id,
            cancelling: false,
        };
        context.move_shard(&mut run, &mut shard, ShardState::Leased(lease), None)?;
        run.row.state = RunState::Running;
        context.update_run(&run)?;
        Ok(Done::Granted {
            token,
            run_id: self.run_id,
            shard: self.shard,
            attempt: shard.row.attempts,
        })
    }
}

impl Context<'_> {
    fn agent_of_live_session(&self, session: SessionId) -> Result<Agent, Stop> {
        let gone = || Refusal::NoSession { session };
        let attached = self.session(session)?.ok_or_else(gone)?;
        let agent = self.agent(attached.agent_id)?.ok_or_else(gone)?;
        if let Some(refusal) = agent.refusal() {
            return Err(refusal.into());
        }
        if agent.row.session != Some(session) {
            return Err(gone().into());
        }
        if let Some(cordon) = agent
            .row
            .cordon
            .filter(|_| self.rules.on(Rule::CordonHolds))
        {
            let name = agent.row.name;
            return Err(Refusal::Cordoned { name, cordon }.into());
        }
        Ok(agent)
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::command::{EndSession, Quarantine};
    use crate::testing::{Bed, attach, end, finish};

    #[test]
    fn a_run_goes_through_its_shards_to_success() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let agent = bed.attach(attach("h1"));
        let (run, state) = bed.fire(job, 1);
        assert_eq!(state, RunState::Ready);
        assert_eq!(bed.set.jobs[&job].fired_through, WallMs(60_000));

        let first = bed.grant(run, 0, agent.1);
        let second = bed.grant(run, 1, agent.1);
        assert!(first < second);
        assert_eq!(bed.run(run).state, RunState::Running);
        assert_eq!(bed.shard(run, 0).attempts, 1);

        bed.ok(finish(agent.0, first, end(AttemptOutcome::Succeeded)));
        assert_eq!(bed.run(run).state, RunState::Running);
        bed.ok(finish(agent.0, second, end(AttemptOutcome::Succeeded)));
        assert_eq!(bed.state(run), "succeeded");
        assert!(bed.set.runs.is_empty() && bed.set.shards.is_empty());
    }

    #[test]
    fn a_lease_is_refused_to_whom_and_where_it_must_not_be() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 1");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let grant = |run_id, shard, session| Grant {
            run_id,
            shard,
            session,
            uses: Vec::new(),
        };
        assert_eq!(
            bed.refused(grant(RunId(9), 0, session)),
            Refusal::NoSuchRun { run: RunId(9) }
        );
        assert_eq!(
            bed.refused(grant(run_id, 1, session)),
            Refusal::NoSuchShard {
                run: run_id,
                shard: 1
            }
        );
        let stranger = SessionId(99);
        assert_eq!(
            bed.refused(grant(run_id, 0, stranger)),
            Refusal::NoSession { session: stranger }
        );
        let token = bed.grant(run_id, 0, session);
        assert!(matches!(
            bed.refused(grant(run_id, 0, session)),
            Refusal::WrongShardState { .. }
        ));

        let (other, _) = bed.attach(attach("h2"));
        let ended = bed.set.agents[&other].session.unwrap();
        bed.ok(EndSession { session: ended });
        bed.ok(finish(agent_id, token, end(AttemptOutcome::Failed)));
        assert_eq!(
            bed.refused(grant(run_id, 0, ended)),
            Refusal::NoSession { session: ended }
        );
        bed.ok(Quarantine {
            name: "h1".parse().unwrap(),
            reason: "two of them".to_owned(),
        });
        assert_eq!(
            bed.refused(grant(run_id, 0, session)),
            Refusal::Quarantined {
                reason: "two of them".to_owned()
            }
        );
    }
}
