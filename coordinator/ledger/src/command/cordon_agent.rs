use protocol::AgentName;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::rows::Cordon;
use crate::tables::agent::Cordoned;
use crate::tables::record::{Audit, On};

/// An operator takes a host out of service: it is granted nothing more, over every attach, until it
/// is uncordoned. Its leases go on, unless it is drained at once: then its agent is told to
/// interrupt them, and each ends by the receipt that says so.
///
/// The newest word counts: a drain may become a mere cordon again, and the other way round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CordonAgent {
    pub name: AgentName,
    pub cordon: Cordon,
    pub by: String,
    pub reason: String,
}

impl CordonAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut agent = context.known_agent(&self.name)?;
        let agent_id = agent.row.agent_id;
        let changed = agent.row.cordon != Some(self.cordon);
        if !changed {
            return Ok(Done::AgentCordoned { agent_id, changed });
        }
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        agent.row.cordon = Some(self.cordon);
        agent.cordoned = Some(Cordoned {
            by: by.to_owned(),
            reason: reason.to_owned(),
        });
        context.write_agent(&agent)?;
        context.audit(Audit {
            by,
            action: match self.cordon {
                Cordon::Cordoned | Cordon::Unwell => "cordon agent",
                Cordon::Draining => "drain agent",
                Cordon::DrainingNow => "drain agent now",
            },
            on: On::Agent(agent_id),
            reason: Some(reason),
        })?;
        Ok(Done::AgentCordoned { agent_id, changed })
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::command::{Grant, UncordonAgent};
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach, end, finish};

    fn cordon(name: &str, cordon: Cordon) -> CordonAgent {
        CordonAgent {
            name: name.parse().unwrap(),
            cordon,
            by: "ada".to_owned(),
            reason: "a new disk".to_owned(),
        }
    }

    #[test]
    fn a_cordoned_host_is_granted_nothing_and_its_leases_go_on() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 2");
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, session);
        bed.ok(cordon("h1", Cordon::Cordoned));
        let grant = Grant {
            run_id,
            shard: 1,
            session,
            uses: Vec::new(),
        };
        let refused = bed.refused(grant);
        assert!(matches!(refused, Refusal::Cordoned { .. }), "{refused:?}");
        bed.ok(finish(agent_id, token, end(AttemptOutcome::Succeeded)));
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "succeeded");
        assert_eq!(
            bed.view("SELECT by, action, agent, reason FROM audit_view WHERE agent IS NOT NULL"),
            ["ada|cordon agent|h1|a new disk"]
        );
    }

    #[test]
    fn it_stays_so_over_an_attach_until_it_is_uncordoned() {
        for word in [Cordon::Cordoned, Cordon::Draining, Cordon::DrainingNow] {
            let mut bed = Bed::new();
            let job = bed.job("");
            bed.attach(attach("h1"));
            bed.ok(cordon("h1", word));
            let (agent_id, session) = bed.attach(attach("h1"));
            assert_eq!(bed.set.agents[&agent_id].cordon, Some(word));
            let (run_id, _) = bed.fire(job, 1);
            let grant = Grant {
                run_id,
                shard: 0,
                session,
                uses: Vec::new(),
            };
            assert!(matches!(bed.refused(grant), Refusal::Cordoned { .. }));
            bed.ok(UncordonAgent {
                name: "h1".parse().unwrap(),
                by: "ada".to_owned(),
                health: None,
            });
            bed.grant(run_id, 0, session);
        }
    }

    #[test]
    fn the_newest_word_counts_and_the_same_again_changes_nothing() {
        let mut bed = Bed::new();
        let (agent_id, _) = bed.attach(attach("h1"));
        for (word, changed) in [
            (Cordon::Cordoned, true),
            (Cordon::Cordoned, false),
            (Cordon::DrainingNow, true),
            (Cordon::Draining, true),
        ] {
            let done = bed.ok(cordon("h1", word));
            assert_eq!(done, Done::AgentCordoned { agent_id, changed });
        }
        let seen = bed.view("SELECT cordon, cordon_by, cordon_reason FROM agent_view");
        assert_eq!(seen, ["draining|ada|a new disk"]);
    }

    #[test]
    fn a_name_that_never_attached_is_a_mistake() {
        let mut bed = Bed::new();
        let refused = bed.refused(cordon("h9", Cordon::Cordoned));
        assert!(matches!(refused, Refusal::NoAgentNamed { .. }));
    }
}
