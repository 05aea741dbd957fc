//! Mappings whose names are the writer's own: parameters, and resources.

use super::problem::Problems;
use super::section::{Cell, kind};
use super::yaml::Value;
use crate::shown::shown;

/// What such a mapping is, in the words of its problems.
pub(super) struct Kind {
    pub(super) at_most: usize,
    /// `resources with the units of each`.
    pub(super) what: &'static str,
    pub(super) example: &'static str,
    /// Written for one without a value.
    pub(super) blank: &'static str,
    /// Why a name is none, and what to write.
    pub(super) judge_name: fn(&str) -> Result<(), (String, String)>,
}

/// The values, each read by `read`, under names of which each is good and there once.
pub(super) fn read<T>(
    cell: Cell,
    kind_of: &Kind,
    problems: &mut Problems,
    read: impl Fn(Cell, &mut Problems) -> Option<T>,
) -> Option<Vec<(String, T)>> {
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
    let mut values: Vec<(String, T)> = Vec::new();
    let mut whole = true;
    for (key, node) in entries {
        let Some(name) = key.name.as_deref() else {
            whole = false;
            continue;
        };
        if let Err((what, remedy)) = (kind_of.judge_name)(name) {
            problems.push(key.at, cell.path, what, remedy);
            whole = false;
            continue;
        }
        let named = cell.named(name, node);
        if values.iter().any(|(other, _)| other == name) {
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
            Some(value) => values.push((name.to_owned(), value)),
            None => whole = false,
        }
    }
    whole.then_some(values)
}
