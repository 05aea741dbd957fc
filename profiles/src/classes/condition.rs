//! One condition on one fact: `disk.fsync_grade better than D`, `memory.usable_bytes per cpu >= 6GiB`.
//!
//! A fact, a comparison, a value. What may be compared how follows from the form of the fact: numbers by
//! size, words by the order that their list has, the best first, everything by being the same.

mod read;

use protocol::HostFacts;
use protocol::host::{FactSpec, Form, HostFact, Value, fact_spec};

use super::rule::{Met, Verdict};
use super::unit;

pub(super) use read::parse;

/// How many processors a value is held against with `per cpu`.
const PROCESSORS: &str = "cpu.usable_milli";

#[derive(Clone, Debug)]
pub(super) struct Condition {
    fact: &'static FactSpec,
    per_cpu: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Number(Comparison, i64),
    /// Places in the fact's list of words, where better is less.
    BetterThan(usize),
    WorseThan(usize),
    In(Vec<Value>),
    NotIn(Vec<Value>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
    Unequal,
}

/// What is wrong with a condition, and what to do about it.
pub(super) type Wrong = (String, String);

impl PartialEq for Condition {
    fn eq(&self, other: &Condition) -> bool {
        (self.fact.name, self.per_cpu, &self.test) == (other.fact.name, other.per_cpu, &other.test)
    }
}

impl Eq for Condition {}

impl Comparison {
    fn holds(self, left: i128, right: i128) -> bool {
        match self {
            Comparison::AtLeast => left >= right,
            Comparison::AtMost => left <= right,
            Comparison::Above => left > right,
            Comparison::Below => left < right,
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Comparison::AtLeast => ">=",
            Comparison::AtMost => "<=",
            Comparison::Above => ">",
            Comparison::Below => "<",
            Comparison::Equal => "=",
            Comparison::Unequal => "!=",
        }
    }

    /// Continues `must be`.
    const fn words(self) -> &'static str {
        match self {
            Comparison::AtLeast => "at least ",
            Comparison::AtMost => "at most ",
            Comparison::Above => "above ",
            Comparison::Below => "below ",
            Comparison::Equal => "",
            Comparison::Unequal => "other than ",
        }
    }
}

impl Condition {
    pub(super) fn meet(&self, facts: &HostFacts) -> (Verdict, Vec<Met>) {
        let met = Met::of(self.fact, facts);
        if !self.per_cpu {
            let verdict = met.judged(|value| self.holds(value));
            return (verdict, vec![met]);
        }
        let by = Met::of(fact_spec(PROCESSORS).expect("a fact of that name"), facts);
        let verdict = match (&met.value, &by.value) {
            (Some(Value::Number(number)), Some(Value::Number(milli))) if *milli > 0 => {
                let Test::Number(comparison, bound) = self.test else {
                    unreachable!("only numbers are read as `per cpu`");
                };
                let (left, right) = (i128::from(*number) * 1000, i128::from(bound));
                if comparison.holds(left, right * i128::from(*milli)) {
                    Verdict::Holds
                } else {
                    Verdict::Fails
                }
            }
            _ if met.unknown.is_some() || by.unknown.is_some() => Verdict::Unknown,
            _ => Verdict::Fails,
        };
        (verdict, vec![met, by])
    }

    fn holds(&self, value: &Value) -> bool {
        let place = |value: &Value| match (self.fact.form, value) {
            (Form::Word(words), Value::Text(text)) => words.iter().position(|word| word == text),
            _ => None,
        };
        match &self.test {
            Test::Number(comparison, bound) => match value {
                Value::Number(number) => comparison.holds((*number).into(), (*bound).into()),
                _ => false,
            },
            Test::BetterThan(bound) => place(value).is_some_and(|place| place < *bound),
            Test::WorseThan(bound) => place(value).is_some_and(|place| place > *bound),
            Test::In(values) => values.contains(value),
            Test::NotIn(values) => !values.contains(value),
        }
    }

    fn subject(&self) -> String {
        let per = if self.per_cpu { " per cpu" } else { "" };
        format!("{}{per}", self.fact.name)
    }

    pub(super) fn written(&self) -> String {
        let subject = self.subject();
        let list = |values: &[Value]| {
            let values: Vec<String> = values.iter().map(show_plain).collect();
            values.join(", ")
        };
        match &self.test {
            Test::Number(comparison, bound) => {
                let (sign, bound) = (comparison.sign(), unit::show_exact(self.fact.name, *bound));
                format!("{subject} {sign} {bound}")
            }
            Test::BetterThan(place) => format!("{subject} better than {}", self.word(*place)),
            Test::WorseThan(place) => format!("{subject} worse than {}", self.word(*place)),
            Test::In(values) if values.len() == 1 => format!("{subject} = {}", list(values)),
            Test::In(values) => format!("{subject} in {}", list(values)),
            Test::NotIn(values) if values.len() == 1 => format!("{subject} != {}", list(values)),
            Test::NotIn(values) => format!("{subject} not in {}", list(values)),
        }
    }

    fn word(&self, place: usize) -> &'static str {
        match self.fact.form {
            Form::Word(words) => words[place],
            _ => unreachable!("only words are compared by their place"),
        }
    }

    /// What was met in words, and with `demands` what it must be instead.
    pub(super) fn says(&self, met: &[Met], demands: bool) -> String {
        if let Some(Met {
            fact,
            unknown: Some(why),
            ..
        }) = met.iter().find(|met| met.unknown.is_some())
        {
            return format!("{fact} is unknown, {why}");
        }
        let subject = self.subject();
        let show = |number| match self.test {
            Test::Number(_, bound) => unit::show_beside(self.fact.name, number, bound),
            _ => unit::show(self.fact.name, number),
        };
        let is = match (&met[0].value, met.get(1).map(|by| &by.value)) {
            (Some(Value::Number(number)), None) => format!("is {}", show(*number)),
            (Some(Value::Number(number)), Some(Some(Value::Number(milli)))) if *milli > 0 => {
                let each = i128::from(*number) * 1000 / i128::from(*milli);
                let each = i64::try_from(each).unwrap_or(i64::MAX);
                format!("is {}", show(each))
            }
            (Some(value), None) => format!("is {}", show_plain(value)),
            _ => "does not apply to it".to_owned(),
        };
        if !demands {
            return format!("{subject} {is}");
        }
        let list = |values: &[Value]| {
            let values: Vec<String> = values.iter().map(show_plain).collect();
            values.join(" or ")
        };
        let must = match &self.test {
            Test::Number(comparison, bound) => {
                let bound = unit::show_exact(self.fact.name, *bound);
                format!("{}{bound}", comparison.words())
            }
            Test::BetterThan(place) => format!("better than {}", self.word(*place)),
            Test::WorseThan(place) => format!("worse than {}", self.word(*place)),
            Test::In(values) => list(values),
            Test::NotIn(values) => format!("other than {}", list(values)),
        };
        format!("{subject} {is} and must be {must}")
    }
}

impl Met {
    fn of(spec: &'static FactSpec, facts: &HostFacts) -> Met {
        let (value, unknown) = match facts.fact(spec.name) {
            Some(HostFact::Known(value)) if is_of(spec.form, value) => (Some(value.clone()), None),
            Some(HostFact::Known(value)) => {
                let why = format!(
                    "`{}` is not a value that this version knows",
                    show_plain(value)
                );
                (None, Some(why))
            }
            Some(HostFact::Unknown(why)) => (None, Some(why.clone())),
            None if facts.0.is_empty() => {
                (None, Some("the host has not told what it is".to_owned()))
            }
            None => (None, None),
        };
        Met {
            fact: spec.name,
            value,
            unknown,
        }
    }

    fn judged(&self, holds: impl Fn(&Value) -> bool) -> Verdict {
        match &self.value {
            Some(value) if holds(value) => Verdict::Holds,
            None if self.unknown.is_some() => Verdict::Unknown,
            _ => Verdict::Fails,
        }
    }
}

fn is_of(form: Form, value: &Value) -> bool {
    match (form, value) {
        (Form::Truth, Value::Truth(_))
        | (Form::Number, Value::Number(_))
        | (Form::Text, Value::Text(_)) => true,
        (Form::Word(words), Value::Text(text)) => words.contains(&text.as_str()),
        _ => false,
    }
}

fn show_plain(value: &Value) -> String {
    match value {
        Value::Truth(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    }
}
