use protocol::attempt::AttemptOutcome;
use protocol::message::{FRAME_BYTES_MAX, Incarnation, SLOTS_MAX};
use protocol::{AgentId, AgentName, Rule, SessionId, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, TEXT_BYTES_MAX, malformed};
use crate::outcome::{Done, Refusal};
use crate::rows::AgentRow;
use crate::settle::Ended;
use crate::tables::agent::{Agent, Session};
use crate::tables::attempt::find_attempt;
use crate::tables::shard::Shard;

/// An agent attaches: a new session begins, the one before is dead, and leases are reconciled
/// with the supervisor's table.
///
/// A lease that the table does not hold is released at once: as `never_started` if the supervisor
/// alive at the grant is still the one that speaks, otherwise as `lost` if the host vouches that
/// nothing of before is alive (`swept`, or another `boot_id`). What cannot be verified dead waits
/// for its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachAgent {
    pub name: AgentName,
    pub boot_id: String,
    pub agent: Incarnation,
    pub supervisor: Incarnation,
    pub swept: bool,
    pub slots: u32,
    /// Attempts in the supervisor's table, running or ended.
    pub holds: Vec<Token>,
}

impl AttachAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        self.check()?;
        let known = context.agent_named(&self.name)?;
        if let Some(reason) = known.as_ref().and_then(|agent| agent.quarantine.clone()) {
            return Err(Refusal::Quarantined { reason }.into());
        }
        let session = SessionId(context.meta.mint_position());
        let agent_id = self.begin_session(context, known.as_ref(), session)?;

        let mut released = Vec::new();
        for shard in context.leases_of(agent_id)? {
            if let Some(end) = self.release(context, shard)? {
                released.push(end);
            }
        }
        let kill = self.not_current(context, agent_id)?;
        Ok(Done::Attached {
            agent_id,
            session,
            kill,
            released,
        })
    }

    fn check(&self) -> Result<(), Stop> {
        if self.slots > SLOTS_MAX {
            return Err(malformed(format!(
                "{} slots, more than {SLOTS_MAX}",
                self.slots
            )));
        }
        // A table reaches the coordinator in one frame.
        if self.holds.len() > FRAME_BYTES_MAX || self.boot_id.len() > TEXT_BYTES_MAX {
            return Err(malformed("an attach that no frame can have carried"));
        }
        Ok(())
    }

    fn begin_session(
        &self,
        context: &mut Context<'_>,
        known: Option<&Agent>,
        session: SessionId,
    ) -> Result<AgentId, Stop> {
        let agent_id = match known {
            Some(agent) => agent.row.agent_id,
            None => context.meta.mint_agent(),
        };
        if let Some(before) = known.and_then(|agent| agent.row.session) {
            context.end_session(before)?;
        }
        context.write_agent(&Agent {
            row: AgentRow {
                agent_id,
                name: self.name.clone(),
                session: Some(session),
                boot_id: self.boot_id.clone(),
                supervisor: self.supervisor,
                slots: self.slots,
                quarantined: false,
                silent_reigns: 0,
            },
            quarantine: None,
        })?;
        context.insert_session(&Session {
            session,
            agent_id,
            boot_id: self.boot_id.clone(),
            agent: self.agent,
            supervisor: self.supervisor,
            swept: self.swept,
            ended_at: None,
        })?;
        Ok(agent_id)
    }

    /// Ends a lease that the host has nothing of, if that can be relied on.
    fn release(
        &self,
        context: &mut Context<'_>,
        mut shard: Shard,
    ) -> Result<Option<(Token, AttemptOutcome)>, Stop> {
        let Some(lease) = shard.lease() else {
            return Ok(None);
        };
        if self.holds.contains(&lease.token) || !context.rules.on(Rule::AttachReleasesNeverStarted)
        {
            return Ok(None);
        }
        let Some(outcome) = self.judge_absent(context, lease.token)? else {
            return Ok(None);
        };
        let reason = "the host attached without it";
        context.end_attempt_unheard(lease.token, outcome, reason)?;
        let mut run = context.run(shard.row.run_id)?;
        context.settle(&mut run, &mut shard, Ended::unheard(outcome))?;
        Ok(Some((lease.token, outcome)))
    }

    /// What became of a lease that the supervisor's table does not hold; `None` while something
    /// of it may be alive.
    fn judge_absent(
        &self,
        context: &Context<'_>,
        token: Token,
    ) -> Result<Option<AttemptOutcome>, Stop> {
        let Some(attempt) = find_attempt(context.conn, token)? else {
            return Ok(None);
        };
        let Some(granted_in) = context.session(attempt.session)? else {
            return Ok(None);
        };
        let same_supervisor = granted_in.supervisor == self.supervisor;
        if same_supervisor || !context.rules.on(Rule::NeverStartedNeedsSameSupervisor) {
            // A supervisor keeps an attempt until its receipt is in the ledger. One that is known
            // to have started and is not there any more did run, to an end that nobody saw.
            let outcome = match attempt.started_at {
                Some(_) if same_supervisor => AttemptOutcome::Lost,
                _ => AttemptOutcome::NeverStarted,
            };
            return Ok(Some(outcome));
        }
        let verified_dead = self.swept || granted_in.boot_id != self.boot_id;
        let lost = verified_dead || !context.rules.on(Rule::LostNeedsVerifiedDead);
        Ok(lost.then_some(AttemptOutcome::Lost))
    }

    /// What the host holds beside the leases that are its own.
    fn not_current(&self, context: &Context<'_>, agent_id: AgentId) -> Result<Vec<Token>, Stop> {
        let current: Vec<Token> = context
            .leases_of(agent_id)?
            .iter()
            .filter_map(|shard| shard.lease().map(|lease| lease.token))
            .collect();
        let foreign = |token: &&Token| !current.contains(token);
        Ok(self.holds.iter().filter(foreign).copied().collect())
    }
}
