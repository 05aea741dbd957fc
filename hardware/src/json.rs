//! JSON that keeps what the usual reader drops.
//!
//! A tool may write one key twice into an object, and a file may have been put together from several.
//! The usual reader keeps the last value, which may be the better one; here all are kept, so that
//! health is judged by all of them and a fact is known only where they agree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::lines::{number, plain};
use crate::report::Report;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Flag(bool),
    Number(f64),
    /// A number without sign and fraction, exactly.
    Count(u64),
    Text(String),
    List(Vec<Json>),
    /// Keys as they stand, in their order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// All values under a key, whose case and blanks do not count.
    pub(crate) fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a Json> {
        let key = plain(key);
        self.entries()
            .iter()
            .filter(move |(name, _)| plain(name) == key)
            .map(|(_, value)| value)
    }

    /// The value under a key, where there is one only or all agree.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        let mut all = self.all(key);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// The first of several names that is there: versions call one thing differently.
    pub(crate) fn any(&self, keys: &[&str]) -> Option<&Json> {
        keys.iter().find_map(|key| self.get(key))
    }

    pub(crate) fn at(&self, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self, |json, key| json.get(key))
    }

    pub(crate) fn entries(&self) -> &[(String, Json)] {
        match self {
            Self::Object(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn list(&self) -> &[Json] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// A count, be it written as number, as text with a unit, or as an object with a `value`.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            Self::Number(number) => {
                (number.fract() == 0.0 && *number >= 0.0 && *number < 2_f64.powi(63))
                    .then_some(*number as u64)
            }
            Self::Text(text) => match text.trim().strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => number(text),
            },
            Self::Object(_) => self.get("value")?.count(),
            Self::Null | Self::Flag(_) | Self::List(_) => None,
        }
    }

    pub(crate) fn decimal(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number).filter(|number| number.is_finite()),
            Self::Text(text) => crate::lines::decimal(text),
            Self::Object(_) => self.get("value")?.decimal(),
            Self::Null | Self::Flag(_) | Self::List(_) => None,
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Count(0) => Some(false),
            Self::Count(1) => Some(true),
            Self::Text(text) => crate::judgement::flag(text),
            _ => None,
        }
    }

    /// As it would stand in a sentence.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Text(text) => text.trim().to_owned(),
            Self::List(_) => "a list".into(),
            Self::Object(_) => "an object".into(),
        }
    }
}

/// Reads what JSON a text has: one document, several behind each other, or one behind lines that
/// tools and shells write before it. What cannot be read is told as a problem.
pub(crate) fn documents(text: &str, report: &mut Report) -> Vec<Json> {
    read(text, report).0
}

/// As [`documents`], with the texts before and behind them: some people put an output as text and another
/// as JSON into one file.
pub(crate) fn read(text: &str, report: &mut Report) -> (Vec<Json>, Vec<String>) {
    // Names and serials of drives may hold bytes that JSON has no place for.
    let is_foreign = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let text = &text.replace(is_foreign, " ");
    let start = json_start(text).unwrap_or(text.len());
    let mut documents = Vec::new();
    let mut around = vec![text[..start].to_owned()];
    let mut reader = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Json>();
    while let Some(read) = reader.next() {
        match read {
            Ok(document) => documents.push(document),
            Err(error) => {
                let before = text[..start].matches('\n').count();
                report.problem(
                    format!("line {}", before + error.line()),
                    format!("it is no JSON from here on, or was cut: {error}"),
                );
                let rest = text[start + reader.byte_offset()..].trim_start();
                if !rest.starts_with(['{', '[', '}', ']', ',', '"', ':']) {
                    around.push(rest.to_owned());
                }
                break;
            }
        }
    }
    if documents.is_empty() && report.problems.is_empty() {
        report.problem("the file", "it has no JSON in it");
    }
    around.retain(|text| !text.trim().is_empty());
    (documents, around)
}

/// Whether a text is JSON, or has some behind what tools and shells write before it.
pub(crate) fn is_json(text: &str) -> bool {
    json_start(text).is_some()
}

/// Where an object or a list begins, and no sentence that has a bracket in it.
fn json_start(text: &str) -> Option<usize> {
    let begins = |(at, bracket): &(usize, &str)| {
        let next = text[at + 1..].trim_start().chars().next();
        match (*bracket, next) {
            // Cut off right behind it.
            (_, None) => text[..*at].trim().is_empty(),
            ("{", Some(next)) => matches!(next, '"' | '}'),
            (_, Some(next)) => matches!(next, '{' | '[' | ']'),
        }
    };
    text.match_indices(['{', '['])
        .find(begins)
        .map(|(at, _)| at)
}

/// As [`read`], of tools whose outputs people put into one list.
pub(crate) fn outputs(text: &str, report: &mut Report) -> (Vec<Json>, Vec<String>) {
    let (documents, around) = read(text, report);
    let opened = documents.into_iter().flat_map(|document| match document {
        Json::List(outputs) => outputs,
        one => vec![one],
    });
    (opened.collect(), around)
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Flag(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Count(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Json::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Json>, usize) {
        let mut report = Report::default();
        let documents = documents(text, &mut report);
        (documents, report.problems.len())
    }

    #[test]
    fn a_key_that_stands_twice_is_known_only_if_both_agree() {
        let (documents, _) = read(r#"{"State": "Failed", "state ": "Optl", "DID": 3, "DID": 3}"#);
        assert_eq!(documents[0].get("state"), None);
        assert_eq!(documents[0].all("STATE").count(), 2);
        assert_eq!(documents[0].get("did"), Some(&Json::Count(3)));
    }

    #[test]
    fn what_stands_around_the_json_costs_at_most_a_problem() {
        for (text, documents, problems) in [
            ("{}", 1, 0),
            ("warning: old firmware\n{\"a\": 1}\n", 1, 0),
            ("[sudo] password: [a {b} c]\n{\"a\": 1}", 1, 0),
            ("{}{}\r\n[]", 3, 0),
            ("{} trailing", 1, 1),
            ("{\"SN\": \"A\u{0}\u{1}B\"}", 1, 0),
            ("{\"a\": [1, 2", 0, 1),
            ("", 0, 1),
        ] {
            let (read, told) = read(text);
            assert_eq!((read.len(), told), (documents, problems), "{text:?}");
        }
    }

    #[test]
    fn one_count_has_many_forms() {
        let (documents, _) = read(r#"[1, 1.0, "1", "1%", "0x1", {"value": 1}]"#);
        assert!(
            documents[0]
                .list()
                .iter()
                .all(|json| json.count() == Some(1))
        );
        let (documents, _) = read(r#"[-1, 1.5, "x", null, [], {}]"#);
        assert!(
            documents[0]
                .list()
                .iter()
                .all(|json| json.count().is_none())
        );
    }
}
