//! The form of a manifest as a JSON Schema, which editors read to complete and check.
//!
//! What a schema cannot say stays with the reader: whether an expression ever fires, whether a
//! duration is within its limits. So the schema refuses nothing that the reader takes.

use protocol::names::{LABEL_PATTERN, NAME_PART_PATTERN, RESOURCE_NAME_PATTERN};
use serde_json::{Map, Value, json};

use super::command::ENTRIES_MAX;
use super::form::{Field, Form, Holds, LeftOut, MANIFEST};
use super::needs::show_milli;
use super::params::PARAM_NAME_PATTERN;
use super::values::{USER_BYTES_MAX, USER_PATTERN};
use crate::size::show_size;

/// The JSON Schema (draft 2020-12) of one manifest.
pub fn manifest_schema() -> Value {
    let mut schema = of_form(&MANIFEST);
    let own = [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("title", "Matins manifest"),
        (
            "description",
            "A job: when it is due, what it runs, and what becomes of it when something goes wrong.",
        ),
    ];
    schema.extend(own.map(|(key, text)| (key.to_owned(), text.into())));
    Value::Object(schema)
}

fn of_form(form: &Form) -> Map<String, Value> {
    let properties: Map<String, Value> = form
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), Value::Object(of_field(field))))
        .collect();
    let required: Vec<&str> = form
        .fields
        .iter()
        .filter(|field| matches!(field.left_out, LeftOut::Demanded { .. }))
        .map(|field| field.name)
        .collect();
    let mut schema = object(json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    }));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let together = serde_json::from_str(form.together);
    schema.extend(object(together.expect("a test reads the whole table")));
    schema
}

fn of_field(field: &Field) -> Map<String, Value> {
    let mut schema = match field.holds {
        Holds::Fields(form) => of_form(form),
        ref other => object(of_value(other)),
    };
    let mut description = vec![sentence(field.says)];
    match field.left_out {
        LeftOut::Demanded { why, .. } => description.push(format!("Demanded: {why}.")),
        LeftOut::Default(texts) => {
            schema.insert("default".to_owned(), default(&field.holds, texts));
        }
        LeftOut::Empty(meaning) | LeftOut::Without(meaning) => {
            description.push(format!("Left out: {meaning}."));
        }
    }
    if let Some(limits) = limits(&field.holds) {
        description.push(sentence(&limits));
    }
    if let Holds::Word(words) = field.holds {
        description.extend(
            words
                .iter()
                .map(|(word, meaning)| format!("`{word}`: {meaning}.")),
        );
    }
    schema.insert("description".to_owned(), description.join(" ").into());
    schema
}

fn of_value(holds: &Holds) -> Value {
    // A number and a unit each, the largest first; an empty one is too short.
    const DURATION: &str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
    let duration = json!({"type": "string", "minLength": 2, "pattern": DURATION});
    match holds {
        Holds::JobName => {
            json!({"type": "string", "pattern": format!("^{NAME_PART_PATTERN}/{NAME_PART_PATTERN}$")})
        }
        // The reader counts bytes, of which there are no fewer than characters.
        Holds::Text(bytes_max) => {
            json!({"type": "string", "minLength": 1, "maxLength": bytes_max, "pattern": "\\S"})
        }
        Holds::Truth => json!({"type": "boolean"}),
        Holds::Word(words) => {
            let words: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
            json!({"enum": words})
        }
        Holds::Integer(low, high) => integer(*low, *high),
        Holds::IntegerOr(low, high, form) => {
            json!({"oneOf": [integer(*low, *high), of_form(form)]})
        }
        Holds::Duration(..) => duration,
        Holds::Durations(at_most, ..) => {
            json!({"type": "array", "items": duration, "minItems": 1, "maxItems": at_most})
        }
        Holds::Size(..) => json!({"type": "string", "pattern": "^[0-9]+(KiB|MiB|GiB|TiB)$"}),
        Holds::Processors(low, high) => {
            let (low, high) = (f64::from(*low) / 1000.0, f64::from(*high) / 1000.0);
            json!({"type": "number", "minimum": low, "maximum": high})
        }
        Holds::Class => json!({"type": "string", "pattern": format!("^{NAME_PART_PATTERN}$")}),
        Holds::Cron => {
            json!({"type": "string", "pattern": "^\\s*(@\\S+(\\s+\\S+)?|\\S+(\\s+\\S+){4,6})\\s*$"})
        }
        Holds::Timezone => {
            let names: Vec<&str> = chrono_tz::TZ_VARIANTS
                .iter()
                .map(|zone| zone.name())
                .collect();
            json!({"enum": names})
        }
        Holds::User => {
            json!({"type": "string", "maxLength": USER_BYTES_MAX, "pattern": USER_PATTERN})
        }
        Holds::Command => json!({
            "type": "array",
            "minItems": 1,
            "maxItems": ENTRIES_MAX,
            "prefixItems": [{"type": "string", "minLength": 1}],
            "items": {"type": "string"},
        }),
        Holds::Fields(form) => Value::Object(of_form(form)),
        Holds::List(at_most, form) => {
            json!({"type": "array", "items": of_form(form), "maxItems": at_most})
        }
        Holds::Labels(at_most) => json!({
            "type": "array",
            "items": {"type": "string", "pattern": format!("^{LABEL_PATTERN}$")},
            "maxItems": at_most,
            "uniqueItems": true,
        }),
        Holds::Units(at_most, low, high) => json!({
            "type": "object",
            "propertyNames": {"pattern": format!("^{RESOURCE_NAME_PATTERN}$")},
            "additionalProperties": integer(*low, *high),
            "maxProperties": at_most,
        }),
        Holds::Params(at_most, bytes_max) => json!({
            "type": "object",
            "propertyNames": {"pattern": PARAM_NAME_PATTERN},
            "additionalProperties": {"type": "string", "maxLength": bytes_max},
            "maxProperties": at_most,
        }),
    }
}

fn integer(low: u32, high: u32) -> Value {
    json!({"type": "integer", "minimum": low, "maximum": high})
}

/// The limits of a value in words, where its type does not say them.
fn limits(holds: &Holds) -> Option<String> {
    match *holds {
        Holds::Integer(low, high) | Holds::IntegerOr(low, high, _) => {
            Some(format!("{low} to {high}"))
        }
        Holds::Units(_, low, high) => Some(format!("each {low} to {high}")),
        Holds::List(at_most, _) | Holds::Labels(at_most) => Some(format!("at most {at_most}")),
        Holds::Params(at_most, bytes_max) => Some(format!(
            "at most {at_most}, each of at most {bytes_max} bytes"
        )),
        Holds::Duration(low, high) => Some(format!("{low} to {high}")),
        Holds::Durations(_, low, high) => Some(format!("each {low} to {high}")),
        Holds::Size(low, high) => Some(format!("{} to {}", show_size(low), show_size(high))),
        Holds::Processors(low, high) => {
            Some(format!("{} to {}", show_milli(low), show_milli(high)))
        }
        _ => None,
    }
}

fn default(holds: &Holds, texts: &[&str]) -> Value {
    match (holds, texts) {
        (Holds::Durations(..), texts) => json!(texts),
        (Holds::Integer(..) | Holds::IntegerOr(..), [text]) => json!(text.parse::<u32>().ok()),
        (_, [text]) => json!(text),
        (_, _) => Value::Null,
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", letters.as_str())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of fields in `docs/MANIFEST.md`.
    fn table(form: &Form, path: &str) -> String {
        let rows = form.fields.iter().map(|field| {
            let path = format!("{path}{}", field.name);
            let limits =
                limits(&field.holds).map_or_else(String::new, |limits| format!("; {limits}"));
            let left_out = match field.left_out {
                LeftOut::Demanded { .. } => "demanded".to_owned(),
                LeftOut::Default([text]) => format!("`{text}`"),
                LeftOut::Default(texts) => format!("`[{}]`", texts.join(", ")),
                LeftOut::Empty(meaning) | LeftOut::Without(meaning) => meaning.to_owned(),
            };
            let inner = match field.holds {
                Holds::Fields(form) | Holds::IntegerOr(_, _, form) => {
                    table(form, &format!("{path}."))
                }
                Holds::List(_, form) => table(form, &format!("{path}[].")),
                _ => String::new(),
            };
            format!(
                "| `{path}` | {}{limits} | {left_out} |\n{inner}",
                field.says
            )
        });
        rows.collect()
    }

    #[test]
    fn the_table_of_the_documentation_is_the_form() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/MANIFEST.md");
        let docs = std::fs::read_to_string(path).unwrap();
        let table = table(&MANIFEST, "");
        let head = "| field | what it says | left out |\n|---|---|---|\n";
        assert!(
            docs.contains(&format!("{head}{table}\n")),
            "docs/MANIFEST.md must hold this table:\n\n{head}{table}"
        );
    }

    #[test]
    fn the_schema_says_what_the_reader_demands() {
        let schema = manifest_schema();
        let at = |pointer| schema.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(
            at("/required"),
            json!([
                "name",
                "purpose",
                "owner",
                "repeatable",
                "schedule",
                "misfire",
                "overlap",
                "expected_duration",
                "timeout",
                "run"
            ])
        );
        assert_eq!(
            at("/properties/schedule/required"),
            json!(["cron", "timezone"])
        );
        assert_eq!(
            at("/properties/schedule/properties/dialect/default"),
            json!("vixie")
        );
        assert_eq!(at("/properties/shards/default"), json!(1));
        assert_eq!(
            at("/properties/retry/properties/backoff/default"),
            json!(["1m", "5m", "30m"])
        );
        assert_eq!(
            at("/properties/overlap/description"),
            json!(
                "What becomes of a fire while a run of the job is live: `forbid` skips it, `queue` lets it wait, `replace` cancels the run, `allow` runs both. Demanded: only you know whether two runs that follow each other do the work of one, and whether two at once do harm. `forbid`: a fire during a run is skipped. `queue`: a fire during a run waits for its end. `replace`: a fire during a run cancels it, and starts when nothing of it is left. `allow`: a fire during a run starts beside it."
            )
        );
    }
}
