//! How a condition is read, and what is said of one that cannot be.

use protocol::host::{FACTS, FactSpec, Form, Value, fact_spec};

use super::super::unit;
use super::{Comparison, Condition, Test, Wrong};

/// What stands between fact and value, the longer before what it begins with.
const SIGNS: &[&str] = &[
    ">=",
    "<=",
    "!=",
    "==",
    "=",
    ">",
    "<",
    "better than",
    "worse than",
    "not in",
    "in",
];

const SIGNS_SHOWN: &str = "=, !=, >=, <=, >, <, `in`, `not in`, `better than` or `worse than`";

/// Reads a condition.
pub(in crate::classes) fn parse(text: &str) -> Result<Condition, Wrong> {
    let text = text.trim();
    let end = text
        .find(|c: char| c.is_whitespace() || "=<>!".contains(c))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Err((
            if text.is_empty() {
                "is empty".to_owned()
            } else {
                format!("`{}` names no fact", jobs::shown(text))
            },
            "write for example \"disk.fsync_grade better than C\"".to_owned(),
        ));
    }
    let fact = fact_spec(name).ok_or_else(|| unknown_fact(name))?;
    let mut rest = rest.trim_start();
    let mut per_cpu = false;
    if let Some(after) = word_off(rest, "per") {
        let Some(after) = word_off(after, "cpu") else {
            let (what, _) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
            return Err((
                format!("`per {}` is not known", jobs::shown(what)),
                "write `per cpu`: for each processor that jobs can have".to_owned(),
            ));
        };
        if fact.form != Form::Number {
            return Err((
                format!("{name} is not a number, and has no share `per cpu`"),
                format!("leave `per cpu` out; {}", form_in_words(fact)),
            ));
        }
        (per_cpu, rest) = (true, after);
    }
    let sign = SIGNS.iter().find(|sign| {
        let spelled = sign.starts_with(|c: char| c.is_ascii_alphabetic());
        if spelled {
            word_off(rest, sign).is_some()
        } else {
            rest.starts_with(**sign)
        }
    });
    let Some(sign) = sign else {
        return Err(no_sign(fact, rest));
    };
    let value = rest[sign.len()..].trim();
    if value.is_empty() {
        return Err((
            format!("there is nothing behind `{sign}`"),
            form_in_words(fact),
        ));
    }
    let test = match *sign {
        "better than" | "worse than" => {
            let Form::Word(words) = fact.form else {
                return Err((
                    format!("{name} has no better and worse"),
                    match fact.form {
                        Form::Number => "write >= or <= and a number".to_owned(),
                        _ => form_in_words(fact),
                    },
                ));
            };
            let place = place_of(fact, words, value)?;
            let (beyond, than) = if *sign == "better than" {
                (place == 0, "better")
            } else {
                (place + 1 == words.len(), "worse")
            };
            if beyond {
                return Err((
                    format!("nothing is {than} than {value}, so that it never holds"),
                    form_in_words(fact),
                ));
            }
            if than == "better" {
                Test::BetterThan(place)
            } else {
                Test::WorseThan(place)
            }
        }
        "in" => Test::In(values(fact, value)?),
        "not in" => Test::NotIn(values(fact, value)?),
        sign => compare(fact, sign, value)?,
    };
    if per_cpu && !matches!(test, Test::Number(..)) {
        return Err((
            format!("`{sign}` does not go with `per cpu`"),
            "write >=, <=, > or < and a number".to_owned(),
        ));
    }
    Ok(Condition {
        fact,
        per_cpu,
        test,
    })
}

fn compare(fact: &'static FactSpec, sign: &str, value: &str) -> Result<Test, Wrong> {
    let comparison = match sign {
        ">=" => Comparison::AtLeast,
        "<=" => Comparison::AtMost,
        ">" => Comparison::Above,
        "<" => Comparison::Below,
        "!=" => Comparison::Unequal,
        _ => Comparison::Equal,
    };
    if fact.form == Form::Number {
        return Ok(Test::Number(comparison, unit::read(fact.name, value)?));
    }
    match comparison {
        Comparison::Equal => Ok(Test::In(vec![one(fact, value)?])),
        Comparison::Unequal => Ok(Test::NotIn(vec![one(fact, value)?])),
        _ => Err((
            format!(
                "{} is not a number, and `{sign}` compares numbers",
                fact.name
            ),
            match fact.form {
                Form::Word(_) => {
                    format!(
                        "write `better than` or `worse than`; {}",
                        form_in_words(fact)
                    )
                }
                _ => form_in_words(fact),
            },
        )),
    }
}

/// `rest` behind `word` as a whole word, without the spaces between.
fn word_off<'a>(rest: &'a str, word: &str) -> Option<&'a str> {
    let after = rest.strip_prefix(word)?;
    let ends = after.is_empty() || after.starts_with(|c: char| !c.is_ascii_alphanumeric());
    ends.then(|| after.trim_start())
}

fn values(fact: &'static FactSpec, list: &str) -> Result<Vec<Value>, Wrong> {
    if fact.form == Form::Number {
        return Err((
            format!("{} is a number, and `in` lists words", fact.name),
            "write >=, <= or = and a number".to_owned(),
        ));
    }
    list.split(',')
        .map(|value| one(fact, value.trim()))
        .collect()
}

fn one(fact: &'static FactSpec, value: &str) -> Result<Value, Wrong> {
    match fact.form {
        Form::Truth => match value {
            "true" => Ok(Value::Truth(true)),
            "false" => Ok(Value::Truth(false)),
            _ => Err((
                format!("`{}` is neither true nor false", jobs::shown(value)),
                form_in_words(fact),
            )),
        },
        Form::Word(words) => {
            let place = place_of(fact, words, value)?;
            Ok(Value::Text(words[place].to_owned()))
        }
        Form::Text if value.is_empty() => {
            Err(("there is an empty text".to_owned(), form_in_words(fact)))
        }
        Form::Text => Ok(Value::Text(value.to_owned())),
        Form::Number => Ok(Value::Number(unit::read(fact.name, value)?)),
    }
}

fn place_of(fact: &'static FactSpec, words: &[&'static str], value: &str) -> Result<usize, Wrong> {
    if let Some(place) = words.iter().position(|word| *word == value) {
        return Ok(place);
    }
    let what = format!("`{}` is no word of {}", jobs::shown(value), fact.name);
    // One letter is near every other.
    let nearest = jobs::nearest(value, words.iter().copied().filter(|word| word.len() > 1));
    let same = words.iter().find(|word| word.eq_ignore_ascii_case(value));
    Err(match same.copied().or(nearest) {
        Some(meant) => (what, format!("did you mean `{meant}`?")),
        None => (what, form_in_words(fact)),
    })
}

fn unknown_fact(name: &str) -> Wrong {
    let what = format!("`{}` is no fact of a host", jobs::shown(name));
    let names = || FACTS.iter().map(|spec| spec.name);
    // Who leaves out the group, or writes another, has at least the rest.
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let of_rest = || {
        let mut same = names().filter(|known| last(known) == last(name));
        same.next().filter(|_| same.next().is_none())
    };
    if let Some(meant) = jobs::nearest(name, names()).or_else(of_rest) {
        return (what, format!("did you mean `{meant}`?"));
    }
    let group = name.split('.').next().unwrap_or_default();
    let of_group: Vec<&str> = names()
        .filter(|known| known.split('.').next() == Some(group))
        .collect();
    if of_group.is_empty() {
        let mut groups: Vec<&str> = names()
            .filter_map(|known| known.split('.').next())
            .collect();
        groups.dedup();
        let groups = groups.join(", ");
        return (
            what,
            format!("there are facts of {groups}; `matins classes --facts` lists them"),
        );
    }
    (what, format!("there are {}", of_group.join(", ")))
}

fn no_sign(fact: &'static FactSpec, rest: &str) -> Wrong {
    let what = if rest.is_empty() {
        format!("{} is compared with nothing", fact.name)
    } else {
        let first = rest.split_whitespace().next().unwrap_or(rest);
        format!("`{}` is no comparison", jobs::shown(first))
    };
    let remedy = match fact.form {
        Form::Truth => format!(
            "write `{name} = true` or `{name} = false`",
            name = fact.name
        ),
        _ => format!("write {SIGNS_SHOWN} behind {}", fact.name),
    };
    (what, remedy)
}

fn form_in_words(fact: &FactSpec) -> String {
    match fact.form {
        Form::Truth => "write true or false".to_owned(),
        Form::Number => unit::form_in_words(fact.name),
        Form::Word(words) => format!("from the best to the worst there are {}", words.join(", ")),
        Form::Text => "write a text, without quotes of its own".to_owned(),
    }
}
