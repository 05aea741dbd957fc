//! Classes of hosts, as rules on facts.
//!
//! A class is what jobs ask for instead of hosts' names: whoever adds a host need not touch a manifest.
//! So it is judged by what a host was found to be, never by what somebody called it, and a fact that is
//! unknown makes no member: a job that needs a fast disk is not helped by one that may be fast.
//!
//! [`Classes::of`] answers for every class, whether the host is in it or not, with the rules that decided
//! it and the facts that they met, for a report that says why a host was left out.

mod condition;
mod health;
mod read;
mod rule;
mod shown;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::BTreeMap;

use protocol::{ClassName, HostFacts};
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use health::{HealthRule, Severity};
pub use jobs::Problem;
pub use rule::{Met, Rule};
pub use shown::ReadShownError;

/// The class file that is in force where a site has none, and what one of a site's own adds to.
pub const BUILT_IN: &str = include_str!("../../classes.toml");

/// Every class that is in force, and which health of a host is acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    by_name: BTreeMap<ClassName, Class>,
    pub health: HealthRule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub about: String,
    /// Whether it came with the program; a class that a site has defined anew did not.
    pub built_in: bool,
    /// All hold for a member.
    pub require: Vec<Rule>,
    /// None holds for a member.
    pub refuse: Vec<Rule>,
    /// Told where they hold; they decide nothing.
    pub warn: Vec<Rule>,
}

/// How one host stands to every class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Membership(pub BTreeMap<ClassName, Standing>);

/// How a host stands to a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    pub member: bool,
    /// What decided against it, and what is worth telling: first what failed, then what could not be
    /// judged, then warnings, each in the order of the file.
    pub findings: Vec<Finding>,
}

/// A rule that a host did not pass, or that is worth telling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: FindingKind,
    /// The rule, as in the class file.
    pub rule: String,
    /// Why the rule is there, where its author has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The facts that it asked for, as they were met.
    pub facts: Vec<Met>,
    /// All of it in words, half a sentence: `disk.fsync_grade is D; every commit waits for it`.
    pub says: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A rule of `require` that does not hold, or one of `refuse` that does.
    Failed,
    /// A rule of either that needs a fact which is unknown.
    Unjudged,
    /// A rule of `warn` that holds.
    Warning,
    /// A rule of `warn` that needs a fact which is unknown.
    Unwarned,
}

impl FindingKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            FindingKind::Failed => "failed",
            FindingKind::Unjudged => "unjudged",
            FindingKind::Warning => "warning",
            FindingKind::Unwarned => "unwarned",
        }
    }
}

impl Classes {
    /// The classes that come with the program.
    pub fn built_in() -> Classes {
        read::built_in().expect("a test reads the built-in classes")
    }

    /// The built-in classes and those of a site's file, which replace built-in ones of their names. Every
    /// problem of the file at once; `file` is how they call it.
    pub fn parse(file: &str, text: &str) -> Result<Classes, Vec<Problem>> {
        read::over(Classes::built_in(), file, text)
    }

    pub fn class(&self, name: &ClassName) -> Option<&Class> {
        self.by_name.get(name)
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&ClassName, &Class)> {
        self.by_name.iter()
    }

    /// Every class and every rule, a line each: the same for all files that say the same.
    pub fn written(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, class) in &self.by_name {
            lines.push(format!("[class.{name}] {}", class.about));
            let lists = [
                ("require", &class.require),
                ("refuse", &class.refuse),
                ("warn", &class.warn),
            ];
            for (list, rules) in lists {
                lines.extend(rules.iter().map(|rule| {
                    let because = rule.because.as_deref().unwrap_or_default();
                    format!("{list} {} because {because}", rule.written())
                }));
            }
        }
        lines.push("[health]".to_owned());
        lines.extend(self.health.written());
        lines
    }

    /// The same for files that say the same, and hardly ever for others: eight digits, for people who hold
    /// two coordinators against each other.
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(self.written().join("\n"));
        let [first, second, third, fourth] = [digest[0], digest[1], digest[2], digest[3]];
        format!("{:08x}", u32::from_be_bytes([first, second, third, fourth]))
    }

    /// How a host of these facts stands to every class.
    pub fn of(&self, facts: &HostFacts) -> Membership {
        let standings = self
            .by_name
            .iter()
            .map(|(name, class)| (name.clone(), class.standing(facts)));
        Membership(standings.collect())
    }
}

impl Class {
    pub fn standing(&self, facts: &HostFacts) -> Standing {
        let require = self.require.iter().filter_map(|rule| rule.required(facts));
        let refuse = self.refuse.iter().filter_map(|rule| rule.refused(facts));
        let warn = self.warn.iter().filter_map(|rule| rule.warned(facts));
        let mut findings: Vec<Finding> = require.chain(refuse).chain(warn).collect();
        findings.sort_by_key(|finding| finding.kind);
        let against =
            |finding: &Finding| matches!(finding.kind, FindingKind::Failed | FindingKind::Unjudged);
        Standing {
            member: !findings.iter().any(against),
            findings,
        }
    }
}

impl Membership {
    pub fn is_in(&self, class: &ClassName) -> bool {
        self.0.get(class).is_some_and(|standing| standing.member)
    }

    /// The classes that the host is in.
    pub fn classes(&self) -> impl Iterator<Item = &ClassName> {
        let members = self.0.iter().filter(|(_, standing)| standing.member);
        members.map(|(name, _)| name)
    }

    pub fn standing(&self, class: &ClassName) -> Option<&Standing> {
        self.0.get(class)
    }
}

impl Standing {
    /// What keeps the host out of the class.
    pub fn against(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| matches!(finding.kind, FindingKind::Failed | FindingKind::Unjudged))
    }

    /// What is worth telling of the host whether it is in the class or not.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| matches!(finding.kind, FindingKind::Warning | FindingKind::Unwarned))
    }

    /// Whether it is a fact that is unknown, and nothing else, that keeps the host out.
    pub fn cannot_be_judged(&self) -> bool {
        let mut against = self.against().peekable();
        against.peek().is_some() && against.all(|finding| finding.kind == FindingKind::Unjudged)
    }
}
