//! Classes and standings as the API and the command line show them, and classes read back from that.

use protocol::api::{self, ClassFact, ClassFinding, ClassRule, ClassStanding, HealthActions};
use protocol::{AgentName, ClassName, Health, HostFacts};

use super::{Class, Classes, HealthRule, Membership, Rule, Standing};

/// Why classes that were shown cannot be gone by here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadShownError {
    #[error("the rule `{rule}` of the class `{class}` cannot be read: {what}")]
    Rule {
        class: ClassName,
        rule: String,
        what: String,
    },
    #[error("`{0}` is not a health that this version knows")]
    Health(String),
    #[error("they have the digest {told}, and what was read of them has {read}")]
    Digest { told: String, read: String },
}

impl Classes {
    /// The classes that a coordinator goes by, of what it shows of them: to judge by them elsewhere.
    /// Another version may know other facts, so the digest must be the same.
    pub fn read_shown(shown: &api::Classes) -> Result<Classes, ReadShownError> {
        let mut by_name = std::collections::BTreeMap::new();
        for class in &shown.classes {
            by_name.insert(class.class.clone(), read_class(class)?);
        }
        let health = |word: &Option<String>| {
            let read = |word: &String| {
                let known = Health::ALL.into_iter().find(|known| known.as_str() == word);
                known.ok_or_else(|| ReadShownError::Health(word.clone()))
            };
            word.as_ref().map(read).transpose()
        };
        let classes = Classes {
            by_name,
            health: HealthRule {
                cordon: health(&shown.health.cordon)?,
                alarm: health(&shown.health.alarm)?,
                cordon_at_most_percent: shown.health.cordon_at_most_percent,
            },
        };
        let read = classes.digest();
        if read != shown.digest {
            let told = shown.digest.clone();
            return Err(ReadShownError::Digest { told, read });
        }
        Ok(classes)
    }

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

fn read_class(shown: &api::HostClass) -> Result<Class, ReadShownError> {
    let rules = |rules: &[ClassRule]| {
        let read = |rule: &ClassRule| {
            let read = Rule::read_written(&rule.rule, rule.because.clone());
            read.map_err(|what| ReadShownError::Rule {
                class: shown.class.clone(),
                rule: rule.rule.clone(),
                what,
            })
        };
        rules.iter().map(read).collect::<Result<Vec<_>, _>>()
    };
    Ok(Class {
        about: shown.about.clone(),
        built_in: shown.built_in,
        require: rules(&shown.require)?,
        refuse: rules(&shown.refuse)?,
        warn: rules(&shown.warn)?,
    })
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
