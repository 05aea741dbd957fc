use protocol::{AgentName, Health, Rule};
use serde::{Deserialize, Serialize};

use super::AlertKind;
use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::rows::Cordon;
use crate::tables::agent::Cordoned;
use crate::tables::record::{Audit, On};

/// Who cordons by health, in the words of rows and of the audit.
pub const HEALTH_RULE: &str = "rule health";

/// The leader has found, in two looks that agree, that a host fares otherwise than before.
///
/// With `act` the rule asks for the host to be cordoned. An operator's word wins: where one has put the
/// host into service although it fared as badly, or has cordoned it himself, nothing is done. What the
/// rule has cordoned it does not put back, however well the host fares later: it says so, and asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteHealth {
    pub name: AgentName,
    pub health: Health,
    pub act: bool,
    /// What is not well, or that it has recovered.
    pub reason: String,
}

impl NoteHealth {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let mut agent = context.known_agent(&self.name)?;
        let on = On::Agent(agent.row.agent_id);
        let operator_wins = context.rules.on(Rule::OperatorOverHealth);
        let by_rule = agent.row.cordon == Some(Cordon::Unwell);
        let unchanged = Done::HealthNoted { cordoned: false };
        if agent.row.barred.is_some() {
            return Ok(unchanged);
        }
        let reason = clip(&self.reason);
        let word = Cordoned {
            by: HEALTH_RULE.to_owned(),
            reason: reason.to_owned(),
        };
        if by_rule {
            if agent.row.health == Some(self.health) {
                return Ok(unchanged);
            }
            agent.row.health = Some(self.health);
            if !self.act && !context.rules.on(Rule::HealthCordonStays) {
                agent.row.cordon = None;
                agent.cordoned = None;
                context.write_agent(&agent)?;
                return Ok(unchanged);
            }
            agent.cordoned = Some(word);
            context.write_agent(&agent)?;
            let text = format!("{} is cordoned by {HEALTH_RULE}: {reason}", agent.row.name);
            context.raise(AlertKind::HostUnwell, on, clip(&text))?;
            return Ok(unchanged);
        }
        if agent.row.cordon.is_some() && operator_wins {
            return Ok(unchanged);
        }
        let accepted = agent.row.health.filter(|_| operator_wins);
        if self.act && accepted.is_none_or(|accepted| self.health > accepted) {
            agent.row.cordon = Some(Cordon::Unwell);
            agent.row.health = Some(self.health);
            agent.cordoned = Some(word);
            context.write_agent(&agent)?;
            context.audit(Audit {
                by: HEALTH_RULE,
                action: "cordon agent",
                on,
                reason: Some(reason),
            })?;
            let text = format!(
                "{} is cordoned by {HEALTH_RULE}, and what runs there goes on: {reason}; when it is mended, \
                 or serves well enough: `matins uncordon {}`",
                agent.row.name, agent.row.name
            );
            context.raise(AlertKind::HostUnwell, on, clip(&text))?;
            return Ok(Done::HealthNoted { cordoned: true });
        }
        // What was accepted was worse: should that come again, it is news.
        if accepted.is_some_and(|accepted| self.health < accepted) {
            agent.row.health = Some(self.health);
            context.write_agent(&agent)?;
        }
        Ok(unchanged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CordonAgent, UncordonAgent};
    use crate::testing::{Bed, attach};

    enum Step {
        /// What the leader finds, and whether the rule then asks for a cordon.
        Found(Health, bool),
        Cordon(Cordon),
        /// And how the leader says that the host fares.
        Uncordon(Option<Health>),
        Attach,
    }

    /// How the host stands after each step: its cordon and by whom.
    fn check(steps: &[(Step, &str)]) {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        for (place, (step, expected)) in steps.iter().enumerate() {
            match *step {
                Step::Found(health, act) => {
                    let reason = format!("{} now", health.as_str());
                    bed.ok(NoteHealth {
                        name: "h1".parse().unwrap(),
                        health,
                        act,
                        reason,
                    });
                }
                Step::Cordon(cordon) => {
                    bed.ok(CordonAgent {
                        name: "h1".parse().unwrap(),
                        cordon,
                        by: "ada".to_owned(),
                        reason: "a new disk".to_owned(),
                    });
                }
                Step::Uncordon(health) => {
                    bed.ok(UncordonAgent {
                        name: "h1".parse().unwrap(),
                        by: "ada".to_owned(),
                        health,
                    });
                }
                Step::Attach => {
                    bed.attach(attach("h1"));
                }
            }
            let stands = bed.view("SELECT cordon, cordon_by, cordon_reason FROM agent_view");
            assert_eq!(stands, [*expected], "step {place}");
        }
    }

    const FREE: &str = "-|-|-";
    const FAILED: &str = "cordoned|rule health|failed now";
    const MENDED: &str = "cordoned|rule health|ok now";

    #[test]
    fn a_cordon_by_health_stays_until_an_operator_lifts_it() {
        check(&[
            (Step::Found(Health::Degraded, false), FREE),
            (Step::Found(Health::Failed, true), FAILED),
            (Step::Attach, FAILED),
            (Step::Found(Health::Ok, false), MENDED),
            (Step::Uncordon(Some(Health::Ok)), FREE),
            // That it fails again is news.
            (Step::Found(Health::Failed, true), FAILED),
        ]);
    }

    #[test]
    fn an_operator_who_puts_an_unwell_host_into_service_is_heeded_until_it_is_worse() {
        check(&[
            (
                Step::Found(Health::Degraded, true),
                "cordoned|rule health|degraded now",
            ),
            (Step::Uncordon(Some(Health::Degraded)), FREE),
            (Step::Found(Health::Degraded, true), FREE),
            (Step::Attach, FREE),
            (Step::Found(Health::Degraded, true), FREE),
            (Step::Found(Health::Failed, true), FAILED),
            (Step::Uncordon(None), FREE),
            (Step::Found(Health::Failed, true), FREE),
            (Step::Found(Health::Ok, false), FREE),
            (Step::Found(Health::Failed, true), FAILED),
        ]);
    }

    #[test]
    fn an_operators_cordon_is_never_overwritten() {
        let drained = "draining|ada|a new disk";
        check(&[
            (Step::Cordon(Cordon::Draining), drained),
            (Step::Found(Health::Failed, true), drained),
            (Step::Found(Health::Ok, false), drained),
            // He knows how it fares.
            (Step::Uncordon(Some(Health::Failed)), FREE),
            (Step::Found(Health::Failed, true), FREE),
        ]);
        let own = "cordoned|ada|a new disk";
        check(&[
            (Step::Found(Health::Failed, true), FAILED),
            (Step::Cordon(Cordon::Cordoned), own),
            (Step::Found(Health::Ok, false), own),
        ]);
    }

    #[test]
    fn a_person_is_told_and_it_is_over_when_the_host_is_in_service() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        let found = |health, act| NoteHealth {
            name: "h1".parse().unwrap(),
            health,
            act,
            reason: "array md0 failed".to_owned(),
        };
        bed.ok(found(Health::Failed, true));
        bed.ok(found(Health::Failed, true));
        let open = "SELECT kind, count FROM alert_view WHERE cleared_at IS NULL";
        assert_eq!(bed.view(open), ["host_unwell|1"]);
        assert_eq!(
            bed.view("SELECT by, action, agent, reason FROM audit_view WHERE agent IS NOT NULL"),
            ["rule health|cordon agent|h1|array md0 failed"]
        );
        bed.ok(UncordonAgent {
            name: "h1".parse().unwrap(),
            by: "ada".to_owned(),
            health: None,
        });
        assert_eq!(bed.view(open), [] as [&str; 0]);
    }
}
