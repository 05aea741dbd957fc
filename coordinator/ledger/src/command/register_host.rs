use std::sync::Arc;

use protocol::host::{
    DIFFERENCE_TEXT_BYTES_MAX, DIFFERENCES_MAX, Difference, PROFILE_BYTES_MAX, ProfileDigest,
};
use protocol::{AgentId, AgentName, HostFacts};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip, malformed};
use crate::command::AlertKind;
use crate::outcome::{Done, Refusal};
use crate::rows::ProfileRow;
use crate::tables::host::Profile;
use crate::tables::record::On;

/// Differences that an alert names; the rest is counted.
const NAMED_MAX: usize = 5;

/// A host has told what it was found to be.
///
/// How that differs from what it told before is found out by whoever proposes this, against the
/// profile of the generation `against`. Where another one has come meanwhile, it is to be found out
/// anew. Two versions of the program may look for differences in two ways, and all ledgers of a group
/// must say the same, so they are not looked for here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterHost {
    pub name: AgentName,
    /// The generation of the profile before; 0 where there was none.
    pub against: u32,
    pub digest: ProfileDigest,
    pub facts: HostFacts,
    /// The parts of the host in JSON, for people; see [`HostProfile`](protocol::HostProfile).
    pub report: String,
    /// What matters of what is not as before.
    pub differences: Vec<Difference>,
}

impl RegisterHost {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        self.check()?;
        let mut agent = context.known_agent(&self.name)?;
        agent.refuse_revoked()?;
        let agent_id = agent.row.agent_id;
        let before = agent.row.profile.map_or(0, |profile| profile.generation);
        if before != self.against {
            return Err(Refusal::ProfileMoved {
                name: self.name.clone(),
                expected: self.against,
                generation: before,
            }
            .into());
        }
        let generation = if before > 0 && self.differences.is_empty() {
            before
        } else {
            before.saturating_add(1)
        };
        context.write_profile(&Profile {
            agent_id,
            generation,
            digest: self.digest,
            facts: &self.facts,
            report: &self.report,
        })?;
        agent.row.facts = Arc::new(self.facts.clone());
        agent.row.profile = Some(ProfileRow {
            generation,
            digest: self.digest,
        });
        context.changes.agent(&agent.row);
        if !self.differences.is_empty() {
            context.note_changes(agent_id, generation, &self.differences)?;
            self.tell(context, agent_id)?;
        }
        Ok(Done::HostRegistered { generation })
    }

    fn check(&self) -> Result<(), Stop> {
        self.facts
            .check()
            .map_err(|error| malformed(error.to_string()))?;
        if self.report.len() > PROFILE_BYTES_MAX {
            let bytes = self.report.len();
            return Err(malformed(format!(
                "a report of {bytes} bytes, more than {PROFILE_BYTES_MAX}"
            )));
        }
        if self.differences.len() > DIFFERENCES_MAX {
            let differences = self.differences.len();
            return Err(malformed(format!(
                "{differences} differences, more than {DIFFERENCES_MAX}"
            )));
        }
        let texts = |it: &Difference| {
            [
                Some(it.about.len()),
                it.before.as_ref().map(String::len),
                it.after.as_ref().map(String::len),
            ]
        };
        let longest = self.differences.iter().flat_map(texts).flatten().max();
        if longest.is_some_and(|longest| longest > DIFFERENCE_TEXT_BYTES_MAX) {
            return Err(malformed("a difference that is too long to be kept"));
        }
        Ok(())
    }

    /// A person hears of what vanished or got worse, and no more of it when all of it is as it was.
    fn tell(&self, context: &mut Context<'_>, agent_id: AgentId) -> Result<(), Stop> {
        let on = On::Agent(agent_id);
        let bad = self.differences.iter().filter(|it| it.turn.is_bad());
        let bad: Vec<String> = bad.map(ToString::to_string).collect();
        if !bad.is_empty() {
            let more = match bad.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let named = bad[..bad.len().min(NAMED_MAX)].join("; ");
            let text = format!(
                "host {}: {named}{more}; see `matins describe {}`, and clear this when it is as it \
                 should be",
                self.name, self.name
            );
            return context.raise(AlertKind::HostChanged, on, clip(&text));
        }
        if context.is_whole_again(agent_id)? {
            context.settle_alert(AlertKind::HostChanged, on)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;
    use protocol::host::{FACTS_MAX, HostFact, Turn, Value};

    use super::*;
    use crate::command::RevokeAgent;
    use crate::testing::{Bed, MINUTE, attach};

    fn facts(cores: i64) -> HostFacts {
        let mut facts = HostFacts::default();
        facts.know("cpu.cores", Value::Number(cores));
        facts
    }

    fn register(against: u32, cores: i64, differences: Vec<Difference>) -> RegisterHost {
        RegisterHost {
            name: "h1".parse().unwrap(),
            against,
            digest: ProfileDigest([cores as u8; 16]),
            facts: facts(cores),
            report: r#"{"items":[],"problems":[]}"#.to_owned(),
            differences,
        }
    }

    fn difference(turn: Turn, about: &str) -> Difference {
        Difference {
            turn,
            about: about.to_owned(),
            before: Some("ok".to_owned()),
            after: None,
        }
    }

    fn registered(generation: u32) -> Done {
        Done::HostRegistered { generation }
    }

    fn alerts(bed: &Bed) -> Vec<String> {
        bed.view("SELECT kind, agent, text FROM alert_view WHERE cleared_at IS NULL")
    }

    #[test]
    fn a_generation_rises_with_what_differs_and_not_with_what_is_told_again() {
        let mut bed = Bed::new();
        let early = bed.refused(register(0, 4, Vec::new()));
        assert!(matches!(early, Refusal::NoAgentNamed { .. }), "{early:?}");
        let (agent_id, _) = bed.attach(attach("h1"));
        assert_eq!(bed.set.agents[&agent_id].profile, None);
        assert_eq!(bed.ok(register(0, 4, Vec::new())), registered(1));
        bed.at = WallMs(MINUTE);
        assert_eq!(bed.ok(register(1, 4, Vec::new())), registered(1));
        let grown = vec![difference(Turn::Changed, "cpu.cores")];
        bed.at = WallMs(2 * MINUTE);
        assert_eq!(bed.ok(register(1, 8, grown.clone())), registered(2));
        bed.at = WallMs(3 * MINUTE);
        assert_eq!(bed.ok(register(2, 8, Vec::new())), registered(2));
        assert_eq!(
            bed.refused(register(1, 9, grown)),
            Refusal::ProfileMoved {
                name: "h1".parse().unwrap(),
                expected: 1,
                generation: 2
            }
        );
        assert_eq!(
            bed.view("SELECT agent, generation, since, registered_at FROM host_profile_view"),
            ["h1|2|1970-01-01T00:02:00.000Z|1970-01-01T00:03:00.000Z"]
        );
        // It is there after an attach, which says nothing of it.
        bed.attach(attach("h1"));
        let row = &bed.set.agents[&agent_id];
        assert_eq!(row.facts.number("cpu.cores"), Some(8));
        assert_eq!(
            row.profile,
            Some(ProfileRow {
                generation: 2,
                digest: ProfileDigest([8; 16])
            })
        );
    }

    #[test]
    fn what_vanished_is_told_until_all_of_it_is_back() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        bed.ok(register(0, 4, Vec::new()));
        for (generation, minute, differences, open) in [
            (1, 1, vec![difference(Turn::Came, "nic eth1")], false),
            (
                2,
                2,
                vec![
                    difference(Turn::Vanished, "battery c0"),
                    difference(Turn::Worse, "array md0"),
                ],
                true,
            ),
            (3, 3, vec![difference(Turn::Changed, "host.kernel")], true),
            (4, 4, vec![difference(Turn::Came, "battery c0")], true),
            (5, 5, vec![difference(Turn::Better, "array md0")], false),
        ] {
            bed.at = WallMs(minute * MINUTE);
            bed.ok(register(generation, 4, differences));
            assert_eq!(!alerts(&bed).is_empty(), open, "{generation}");
        }
        assert_eq!(
            bed.view("SELECT kind, agent, count, text FROM alert_view"),
            [
                "host_changed|h1|1|host h1: battery c0 vanished (ok); array md0 got worse (ok); see \
              `matins describe h1`, and clear this when it is as it should be"
            ]
        );
        assert_eq!(
            bed.view("SELECT generation, at, turn, about FROM host_change_view LIMIT 2"),
            [
                "2|1970-01-01T00:01:00.000Z|came|nic eth1",
                "3|1970-01-01T00:02:00.000Z|vanished|battery c0"
            ]
        );
    }

    /// More changes than are kept have come since a battery vanished: nobody can tell any more.
    #[test]
    fn what_vanished_is_not_over_because_it_is_forgotten() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        bed.ok(register(0, 4, Vec::new()));
        let vanished = vec![difference(Turn::Vanished, "battery c0")];
        bed.ok(register(1, 4, vanished));
        for generation in 2..=4 {
            bed.at = WallMs(i64::from(generation) * MINUTE);
            let flaps = |n| difference(Turn::Came, &format!("nic eth{generation}-{n}"));
            let many = (0..DIFFERENCES_MAX).map(flaps).collect();
            bed.ok(register(generation, 4, many));
            assert_eq!(alerts(&bed).len(), 1, "{generation}");
        }
    }

    #[test]
    fn of_what_changed_the_newest_is_kept() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        bed.ok(register(0, 4, Vec::new()));
        for generation in 1..=3 {
            let many = |n| difference(Turn::Came, &format!("drive {generation}-{n}"));
            bed.ok(register(
                generation,
                4,
                (0..DIFFERENCES_MAX).map(many).collect(),
            ));
        }
        assert_eq!(
            bed.view("SELECT count(*), min(n), max(n) FROM host_changes"),
            ["100|93|192"]
        );
    }

    #[test]
    fn what_is_too_large_or_of_a_host_that_is_revoked_is_not_taken() {
        let mut bed = Bed::new();
        bed.attach(attach("h1"));
        let good = register(0, 4, Vec::new());
        let mut many = good.clone();
        for n in 0..FACTS_MAX {
            let fact = HostFact::Known(Value::Truth(true));
            many.facts.0.insert(format!("site.{n}"), fact);
        }
        let long = "x".repeat(DIFFERENCE_TEXT_BYTES_MAX + 1);
        let hostile = [
            many,
            RegisterHost {
                report: " ".repeat(PROFILE_BYTES_MAX + 1),
                ..good.clone()
            },
            RegisterHost {
                differences: vec![difference(Turn::Came, "x"); DIFFERENCES_MAX + 1],
                ..good.clone()
            },
            RegisterHost {
                differences: vec![difference(Turn::Came, &long)],
                ..good.clone()
            },
        ];
        for command in hostile {
            let refused = bed.refused(command);
            assert!(matches!(refused, Refusal::Malformed { .. }), "{refused:?}");
        }
        bed.ok(RevokeAgent {
            name: "h1".parse().unwrap(),
            by: "ada".to_owned(),
            reason: "sold".to_owned(),
        });
        let revoked = bed.refused(good);
        assert!(matches!(revoked, Refusal::Revoked { .. }), "{revoked:?}");
    }
}
