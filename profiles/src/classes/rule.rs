//! A rule, and what becomes of it when it meets a host.
//!
//! There are three answers, not two: a fact that is unknown neither holds nor fails. It spreads as in
//! Kleene's logic: `any` holds if one of its conditions does, whatever is unknown of the others.

use protocol::HostFacts;
use protocol::host::Value;
use serde::Serialize;

use super::condition::{self, Condition};
use super::{Finding, FindingKind};

/// A condition on facts, as somebody wrote it, with why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(super) on: On,
    pub because: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum On {
    Condition(Condition),
    Any(Vec<On>),
    All(Vec<On>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Fails,
    Unknown,
}

/// Lists inside each other that a rule may have.
pub(super) const DEPTH_MAX: usize = 3;

/// What stands between semicolons, but for those inside brackets.
fn parts_of(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts
}

/// A fact as a rule met it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Met {
    pub fact: &'static str,
    /// Unset where it is unknown, or not told because it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Why it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// One condition that decided a rule.
pub(super) struct Decided<'a> {
    pub(super) condition: &'a Condition,
    pub(super) met: Vec<Met>,
}

impl Rule {
    /// As it stands in the class file, but for its spaces.
    pub fn written(&self) -> String {
        self.on.written()
    }

    /// Of what [`Rule::written`] has made of one; what is wrong with it otherwise.
    pub(super) fn read_written(text: &str, because: Option<String>) -> Result<Rule, String> {
        let on = On::read_written(text, DEPTH_MAX)?;
        Ok(Rule { on, because })
    }

    pub(super) fn required(&self, facts: &HostFacts) -> Option<Finding> {
        let (verdict, decided) = self.on.meet(facts);
        let kind = match verdict {
            Verdict::Holds => return None,
            Verdict::Fails => FindingKind::Failed,
            Verdict::Unknown => FindingKind::Unjudged,
        };
        Some(self.finding(kind, decided, true))
    }

    pub(super) fn refused(&self, facts: &HostFacts) -> Option<Finding> {
        let (verdict, decided) = self.on.meet(facts);
        let kind = match verdict {
            Verdict::Holds => FindingKind::Failed,
            Verdict::Fails => return None,
            Verdict::Unknown => FindingKind::Unjudged,
        };
        Some(self.finding(kind, decided, false))
    }

    pub(super) fn warned(&self, facts: &HostFacts) -> Option<Finding> {
        let (verdict, decided) = self.on.meet(facts);
        let kind = match verdict {
            Verdict::Holds => FindingKind::Warning,
            Verdict::Fails => return None,
            Verdict::Unknown => FindingKind::Unwarned,
        };
        Some(self.finding(kind, decided, false))
    }

    fn finding(&self, kind: FindingKind, decided: Vec<Decided<'_>>, wanted: bool) -> Finding {
        let demands = wanted && kind == FindingKind::Failed;
        let mut parts: Vec<String> = decided
            .iter()
            .map(|decided| decided.condition.says(&decided.met, demands))
            .collect();
        parts.dedup();
        let mut says = parts.join(", and ");
        // Why a rule is there explains a verdict; where there is none, it would read like one.
        if matches!(kind, FindingKind::Failed | FindingKind::Warning)
            && let Some(because) = &self.because
        {
            says = format!("{says}: {because}");
        }
        Finding {
            kind,
            rule: self.written(),
            because: self.because.clone(),
            facts: decided
                .into_iter()
                .flat_map(|decided| decided.met)
                .collect(),
            says,
        }
    }
}

impl On {
    fn read_written(text: &str, depth: usize) -> Result<On, String> {
        let inside = |word: &str| text.strip_prefix(word)?.strip_suffix(')');
        let list = |inside: &str| {
            if depth == 0 {
                return Err("it has lists too deep inside each other".to_owned());
            }
            let parts = parts_of(inside).into_iter();
            parts
                .map(|part| On::read_written(part, depth - 1))
                .collect()
        };
        if let Some(inside) = inside("any of (") {
            return Ok(On::Any(list(inside)?));
        }
        if let Some(inside) = inside("all of (") {
            return Ok(On::All(list(inside)?));
        }
        let condition = condition::parse(text).map_err(|(what, _)| what)?;
        Ok(On::Condition(condition))
    }

    fn written(&self) -> String {
        let list = |parts: &[On]| {
            let parts: Vec<String> = parts.iter().map(On::written).collect();
            parts.join("; ")
        };
        match self {
            On::Condition(condition) => condition.written(),
            On::Any(parts) => format!("any of ({})", list(parts)),
            On::All(parts) => format!("all of ({})", list(parts)),
        }
    }

    /// Its verdict, and the conditions that made it.
    fn meet(&self, facts: &HostFacts) -> (Verdict, Vec<Decided<'_>>) {
        let (parts, settles, otherwise) = match self {
            On::Condition(condition) => {
                let (verdict, met) = condition.meet(facts);
                return (verdict, vec![Decided { condition, met }]);
            }
            On::Any(parts) => (parts, Verdict::Holds, Verdict::Fails),
            On::All(parts) => (parts, Verdict::Fails, Verdict::Holds),
        };
        let met: Vec<_> = parts.iter().map(|part| part.meet(facts)).collect();
        let has = |wanted| met.iter().any(|(verdict, _)| *verdict == wanted);
        let verdict = if has(settles) {
            settles
        } else if has(Verdict::Unknown) {
            Verdict::Unknown
        } else {
            otherwise
        };
        let made = met.into_iter().filter(|(of_part, _)| *of_part == verdict);
        (verdict, made.flat_map(|(_, decided)| decided).collect())
    }
}
