//! What is different between two manifests, field by field.

use serde_json::Value;

use super::form::{Form, Holds, MANIFEST};

/// A field that two manifests say differently. At least one of the two says it.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// `schedule.cron`, or `run.exec[2]` where only some items of a list differ.
    pub field: String,
    /// `None` where it was left out and has no default.
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// The differences between two manifests in canonical JSON, in the order in which the
/// documentation lists the fields. Fields that only another version of Matins knew come last.
pub fn manifest_changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare(Some(&MANIFEST), "", Some(before), Some(after), &mut changes);
    changes
}

fn compare(
    form: Option<&'static Form>,
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<FieldChange>,
) {
    if before == after {
        return;
    }
    match (before, after) {
        (Some(Value::Object(_)) | None, Some(Value::Object(_)) | None) => {
            for name in names(form, before, after) {
                let inner = form.and_then(|form| match form.fields[form.position(&name)?].holds {
                    Holds::Fields(inner) | Holds::IntegerOr(_, _, inner) => Some(inner),
                    _ => None,
                });
                let dot = if path.is_empty() { "" } else { "." };
                let of =
                    |value: Option<&'_ Value>| value.and_then(|value| value.get(&name)).cloned();
                let (before, after) = (of(before), of(after));
                let path = format!("{path}{dot}{name}");
                compare(inner, &path, before.as_ref(), after.as_ref(), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                compare(None, &format!("{path}[{i}]"), Some(old), Some(new), changes);
            }
        }
        (before, after) => changes.push(FieldChange {
            field: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// The fields of two mappings: those of the form in its order, then the rest.
fn names(
    form: Option<&'static Form>,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Vec<String> {
    let keys = |value: Option<&Value>| -> Vec<String> {
        let map = value.and_then(Value::as_object);
        map.map_or_else(Vec::new, |map| map.keys().cloned().collect())
    };
    let mut all = [keys(before), keys(after)].concat();
    all.sort_by_key(|name| {
        let position = form.and_then(|form| form.position(name));
        (position.unwrap_or(usize::MAX), name.clone())
    });
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_told_field_by_field_in_the_order_of_the_form() {
        let before = json!({
            "name": "demo/a",
            "old": 1,
            "run": {"exec": ["/bin/x", "a", "b"]},
            "retry": {"at_most": 3, "backoff": ["1m"]},
            "schedule": {"cron": "30 23 * * *", "timezone": "Etc/UTC"},
            "shards": 1,
        });
        let after = json!({
            "name": "demo/a",
            "limits": {"memory": "2GiB"},
            "run": {"exec": ["/bin/x", "c", "b"], "user": "batch"},
            "retry": {"at_most": 3, "backoff": ["1m", "5m"]},
            "schedule": {"cron": "45 23 * * *", "timezone": "Etc/UTC"},
            "shards": 2,
        });
        let shown = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let changes: Vec<String> = manifest_changes(&before, &after)
            .iter()
            .map(|change| {
                format!(
                    "{}: {} -> {}",
                    change.field,
                    shown(&change.before),
                    shown(&change.after)
                )
            })
            .collect();
        assert_eq!(
            changes,
            [
                "schedule.cron: \"30 23 * * *\" -> \"45 23 * * *\"",
                "shards: 1 -> 2",
                "retry.backoff: [\"1m\"] -> [\"1m\",\"5m\"]",
                "limits.memory: - -> \"2GiB\"",
                "run.exec[1]: \"a\" -> \"c\"",
                "run.user: - -> \"batch\"",
                "old: 1 -> -",
            ]
        );
        assert_eq!(manifest_changes(&after, &after), []);
        // A stored manifest that cannot be read is text.
        let unreadable = json!("{{");
        assert_eq!(manifest_changes(&unreadable, &after).len(), 1);
    }
}
