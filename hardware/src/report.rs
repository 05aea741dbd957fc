//! What was understood of a machine, and what was not: the one shape that every reader and parser
//! answers with.
//!
//! In JSON: `{"items": [{"kind", "id", "health", "reason", "unknown": {fact: why}, ...facts}],
//! "problems": [{"where", "what"}]}`.

pub use protocol::host::Health;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::fact::Fact;
use crate::facts::Facts;

/// Problems told of one file. Whoever has so many has another file than was thought.
const PROBLEMS_MAX: usize = 100;

/// What was understood, and what was not. A tool or file that is broken costs what it would have
/// told, never the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub items: Vec<Item>,
    pub problems: Vec<Problem>,
}

/// One thing of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its name within its kind, as its tool writes it: `md0`, `c0/v1`, `/dev/sda`.
    pub id: String,
    pub health: Health,
    /// What the health rests on, for a person.
    pub reason: String,
    pub facts: Facts,
}

/// Something that was there to be read and was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A file, a line, an item.
    pub r#where: String,
    pub what: String,
}

impl Report {
    /// The worst of all that is here. Nothing at all, and what was not understood, is unknown.
    pub fn worst(&self) -> Health {
        let health = self.items.iter().map(|item| item.health).max();
        let health = health.unwrap_or(Health::Unknown);
        if self.problems.is_empty() {
            health
        } else {
            health.max(Health::Unknown)
        }
    }

    pub fn problem(&mut self, r#where: impl Into<String>, what: impl Into<String>) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        self.problems.push(Problem {
            r#where: r#where.into(),
            what: what.into(),
        });
    }

    pub fn append(&mut self, mut other: Self) {
        self.items.append(&mut other.items);
        self.problems.append(&mut other.problems);
    }
}

/// What a person looks for first stands first.
impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.facts.kind())?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("health", self.health.as_str())?;
        map.serialize_entry("reason", &self.reason)?;
        let mut unknown = Map::new();
        for (name, fact) in self.facts.entries() {
            match fact {
                Fact::Known(value) => map.serialize_entry(name, &value)?,
                Fact::Unknown(why) => {
                    map.serialize_entry(name, &Value::Null)?;
                    unknown.insert(name.into(), why.into_owned().into());
                }
                Fact::NotApplicable => {}
            }
        }
        if !unknown.is_empty() {
            map.serialize_entry("unknown", &unknown)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = Map::deserialize(deserializer)?;
        let mut text = |name: &'static str| match map.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(D::Error::missing_field(name)),
        };
        let (kind, id, reason) = (text("kind")?, text("id")?, text("reason")?);
        let health = map.remove("health").unwrap_or_default();
        let health = serde_json::from_value(health).map_err(D::Error::custom)?;
        let unknown = match map.remove("unknown") {
            Some(Value::Object(unknown)) => unknown,
            _ => Map::new(),
        };
        let facts = Facts::take(&kind, &mut map, &unknown);
        let facts = facts.ok_or_else(|| D::Error::custom(format!("no kind is called {kind}")))?;
        Ok(Self {
            id,
            health,
            reason,
            facts,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::{Action, ArrayFacts, BatteryFacts};

    #[test]
    fn an_item_is_written_in_the_one_shape_and_read_back() {
        let mut facts = ArrayFacts::unknown("not told");
        facts.level = "raid6".to_owned().into();
        facts.members_required = 4.into();
        facts.spares = Fact::NotApplicable;
        facts.action = Action::Idle.into();
        let report = Report {
            items: vec![
                Item {
                    id: "md7".into(),
                    health: Health::Degraded,
                    reason: "3 of 4 members".into(),
                    facts: Facts::Array(facts),
                },
                Item {
                    id: "c0/bbu".into(),
                    health: Health::Unknown,
                    reason: "none".into(),
                    facts: Facts::Battery(BatteryFacts::unknown("none")),
                },
            ],
            problems: vec![Problem {
                r#where: "line 3".into(),
                what: "no word".into(),
            }],
        };
        let written = serde_json::to_value(&report).unwrap();
        let array = &written["items"][0];
        assert_eq!(array["kind"], "array");
        assert_eq!(array["health"], "degraded");
        assert_eq!(array["members_required"], 4);
        assert_eq!(array["action"], "idle");
        assert_eq!(array.get("spares"), None);
        assert_eq!(array["members_active"], Value::Null);
        assert_eq!(array["unknown"]["members_active"], "not told");
        assert_eq!(written["items"][1]["type"], Value::Null);
        assert_eq!(
            written["problems"],
            json!([{"where": "line 3", "what": "no word"}])
        );
        let read: Report = serde_json::from_value(written).unwrap();
        assert_eq!(read, report);
    }

    #[test]
    fn what_cannot_be_told_is_never_better_than_well() {
        use Health::{Degraded, Failed, Ok, Rebuilding, Unknown};
        assert!(Ok < Unknown && Unknown < Rebuilding && Rebuilding < Degraded && Degraded < Failed);
        assert_eq!(Report::default().worst(), Unknown);
    }
}
