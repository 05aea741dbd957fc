use protocol::SessionId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::outcome::{Done, Refusal};

/// Ends a session without contact for ever. Its leases end by expiry, not by this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSession {
    pub session: SessionId,
}

impl EndSession {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let gone = Refusal::NoSession {
            session: self.session,
        };
        let Some(session) = context.session(self.session)? else {
            return Err(gone.into());
        };
        let Some(mut agent) = context.agent(session.agent_id)? else {
            return Err(gone.into());
        };
        if agent.row.session != Some(self.session) {
            return Err(gone.into());
        }
        agent.row.session = None;
        context.write_agent(&agent)?;
        context.end_session(self.session)?;
        Ok(Done::SessionEnded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, attach};

    #[test]
    fn a_session_ends_once_and_its_leases_live_on() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.grant(run_id, 0, session);
        assert_eq!(bed.ok(EndSession { session }), Done::SessionEnded);
        assert_eq!(bed.set.agents[&agent_id].session, None);
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "leased");
        for gone in [session, SessionId(77)] {
            assert_eq!(
                bed.refused(EndSession { session: gone }),
                Refusal::NoSession { session: gone }
            );
        }
        // An older session of an agent that has attached since is not the live one.
        let (_, newer) = bed.attach(attach("h1"));
        assert_eq!(
            bed.refused(EndSession { session }),
            Refusal::NoSession { session }
        );
        assert_eq!(bed.set.agents[&agent_id].session, Some(newer));
    }
}
