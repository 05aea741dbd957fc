//! Mappings whose names are the writer's own: parameters, and resources.

use std::collections::BTreeMap;

use super::problem::Problems;
use super::section::{Cell, kind};
use super::yaml::Value;
use crate::shown::shown;

/// What such a mapping is, in the words of its problems.
pub(super) struct Kind<N> {
    pub(super) at_most: usize,
    /// `resources with the units of each`.
    pub(super) what: &'static str,
    pub(super) example: &'static str,
    /// Written for one without a value.
    pub(super) blank: &'static str,
    /// The name, or why it is none and what to write.
    pub(super) read_name: fn(&str) -> Result<N, (String, String)>,
}

/// The values, each read by `read`, under names of which each is good and there once.
pub(super) fn read<N: Ord, T>(
    cell: Cell,
    kind_of: &Kind<N>,
    problems: &mut Problems,
    read: impl Fn(Cell, &mut Problems) -> Option<T>,
) -> Option<BTreeMap<N, T>> {
    let Value::Map(entries) = &cell.node.value else {
        let what = match &cell.node.value {
            Value::Scalar { text, .. } => format!("`{}` is a single value", shown(text)),
            other => format!("is {}", kind(other)),
        };
        cell.refuse(
            format!("{what}, not a mapping of {}", kind_of.what),
            format!("write {}", kind_of.example),
            problems,
        );
        return None;
    };
    if entries.len() > kind_of.at_most {
        let what = format!("has {} entries", entries.len());
        let remedy = format!("write at most {}", kind_of.at_most);
        cell.refuse(what, remedy, problems);
        return None;
    }
    let mut values = BTreeMap::new();
    let mut whole = true;
    for (key, node) in entries {
        let Some(text) = key.name.as_deref() else {
            whole = false;
            continue;
        };
        let name = match (kind_of.read_name)(text) {
            Ok(name) => name,
            Err((what, remedy)) => {
                problems.push(key.at, cell.path, what, remedy);
                whole = false;
                continue;
            }
        };
        let named = cell.named(text, node);
        if values.contains_key(&name) {
            let remedy = "leave one of the two out";
            problems.push(key.at, named.path, "is written twice", remedy);
            whole = false;
        }
        if node.is_blank() {
            named.refuse(node.blank_reason(), kind_of.blank, problems);
            whole = false;
            continue;
        }
        match read(named, problems) {
            Some(value) => {
                values.insert(name, value);
            }
            None => whole = false,
        }
    }
    whole.then_some(values)
}
