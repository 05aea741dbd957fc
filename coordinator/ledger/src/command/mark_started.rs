use protocol::{AgentId, Token, WallMs};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::{Done, Refusal};

/// The agent's word that the process of a lease runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkStarted {
    pub agent_id: AgentId,
    pub token: Token,
    pub at: WallMs,
}

impl MarkStarted {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let attempt = context.attempt_of(self.token, self.agent_id)?;
        if attempt.ended_at.is_some() {
            return Err(Refusal::AlreadyEnded { token: self.token }.into());
        }
        if attempt.started_at.is_none() {
            context.mark_attempt_started(self.token, self.at)?;
        }
        Ok(Done::Started)
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::testing::{Bed, attach, end, finish};

    #[test]
    fn only_the_holder_of_a_live_lease_may_say_so_and_the_first_word_stays() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let agent = bed.attach(attach("h1"));
        let other = bed.attach(attach("h2"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, agent.1);
        let started = |agent: (AgentId, _), token, at| MarkStarted {
            agent_id: agent.0,
            token,
            at: WallMs(at),
        };
        let unknown = Token(999);
        assert_eq!(
            bed.refused(started(agent, unknown, 1)),
            Refusal::NoSuchToken { token: unknown }
        );
        assert_eq!(
            bed.refused(started(other, token, 1)),
            Refusal::NotYourToken { token }
        );
        assert_eq!(bed.ok(started(agent, token, 1000)), Done::Started);
        assert_eq!(bed.ok(started(agent, token, 2000)), Done::Started);
        assert_eq!(
            bed.view("SELECT started_at FROM attempt_view"),
            ["1970-01-01T00:00:01.000Z"]
        );
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Succeeded)));
        assert_eq!(
            bed.refused(started(agent, token, 3000)),
            Refusal::AlreadyEnded { token }
        );
    }
}
