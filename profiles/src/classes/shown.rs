//! Classes and standings as the API and the command line show them.

use protocol::api::{self, ClassFact, ClassFinding, ClassRule, ClassStanding, HealthActions};
use protocol::{AgentName, ClassName, Health, HostFacts};

use super::{Class, Classes, Membership, Rule, Standing};

impl Classes {
    /// All classes, and which of these hosts are in each. `from` is the file they were read from.
    pub fn show<'a>(
        &self,
        from: Option<String>,
        hosts: impl IntoIterator<Item = (&'a AgentName, &'a HostFacts)>,
    ) -> api::Classes {
        let mut classes: Vec<api::HostClass> = self
            .iter()
            .map(|(name, class)| show_class(name, class))
            .collect();
        for (agent, facts) in hosts {
            for (shown, (_, class)) in classes.iter_mut().zip(self.iter()) {
                let standing = class.standing(facts);
                if standing.member {
                    shown.members.push(agent.clone());
                } else if standing.cannot_be_judged() {
                    shown.unjudged.push(agent.clone());
                }
            }
        }
        for shown in &mut classes {
            shown.members.sort();
            shown.unjudged.sort();
        }
        let word = |health: Option<Health>| health.map(|health| health.as_str().to_owned());
        api::Classes {
            digest: self.digest(),
            from,
            health: HealthActions {
                cordon: word(self.health.cordon),
                alarm: word(self.health.alarm),
                cordon_at_most_percent: self.health.cordon_at_most_percent,
            },
            classes,
        }
    }
}

fn show_class(name: &ClassName, class: &Class) -> api::HostClass {
    let rules = |rules: &[Rule]| {
        let shown = rules.iter().map(|rule| ClassRule {
            rule: rule.written(),
            because: rule.because.clone(),
        });
        shown.collect()
    };
    api::HostClass {
        class: name.clone(),
        about: class.about.clone(),
        built_in: class.built_in,
        require: rules(&class.require),
        refuse: rules(&class.refuse),
        warn: rules(&class.warn),
        members: Vec::new(),
        unjudged: Vec::new(),
    }
}

impl Membership {
    pub fn show(&self) -> Vec<ClassStanding> {
        let shown = self
            .0
            .iter()
            .map(|(class, standing)| show_standing(class, standing));
        shown.collect()
    }
}

fn show_standing(class: &ClassName, standing: &Standing) -> ClassStanding {
    let findings = standing.findings.iter().map(|finding| ClassFinding {
        kind: finding.kind.as_str().to_owned(),
        rule: finding.rule.clone(),
        says: finding.says.clone(),
        facts: finding
            .facts
            .iter()
            .map(|met| ClassFact {
                fact: met.fact.to_owned(),
                value: met
                    .value
                    .as_ref()
                    .map(|value| serde_json::to_value(value).expect("a value of a fact is JSON")),
                unknown: met.unknown.clone(),
            })
            .collect(),
    });
    ClassStanding {
        class: class.clone(),
        member: standing.member,
        cannot_be_judged: standing.cannot_be_judged(),
        findings: findings.collect(),
    }
}
