//! What a job needs of a host, and of what all hosts share.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{Label, ResourceName};

use super::form::Holds;
use super::named::{self, Kind};
use super::problem::Problems;
use super::section::Cell;
use super::values::{any_text, integer};
use super::yaml::Value;
use crate::shown::shown;

/// A list of labels, each once.
pub(super) fn labels(cell: Cell, problems: &mut Problems) -> Option<BTreeSet<Label>> {
    let Holds::Labels(at_most) = cell.field.holds else {
        cell.field.misread("labels")
    };
    let Some(items) = cell.items().filter(|items| items.len() <= at_most) else {
        let remedy = match &cell.node.value {
            Value::Scalar { text, .. } if text.parse::<Label>().is_ok() => {
                format!("write `labels: [{text}]`")
            }
            Value::Map(_) => "write `labels: [disk=ssd]`: a label is one word".to_owned(),
            _ => "write for example `labels: [jdk17, disk=ssd]`".to_owned(),
        };
        let what = format!("is not a list of at most {at_most} labels");
        cell.refuse(what, remedy, problems);
        return None;
    };
    let mut labels = BTreeSet::new();
    let mut whole = true;
    for item in items {
        match label(item, problems) {
            Some(label) if labels.contains(&label) => {
                item.refuse(
                    format!("`{label}` is in the list already"),
                    "leave it out",
                    problems,
                );
                whole = false;
            }
            Some(label) => whole &= labels.insert(label),
            None => whole = false,
        }
    }
    whole.then_some(labels)
}

fn label(item: Cell, problems: &mut Problems) -> Option<Label> {
    let text = any_text(item, problems)?;
    let label = text.parse().ok();
    if label.is_none() {
        item.refuse(
            format!("`{}` is not a label", shown(text)),
            "write 1 to 63 of a-z, 0-9, `-`, `_`, `.` and `=`, beginning and ending with a letter or digit",
            problems,
        );
    }
    label
}

/// Units by the name of the resource.
pub(super) fn units(cell: Cell, problems: &mut Problems) -> Option<BTreeMap<ResourceName, u32>> {
    let Holds::Units(at_most, ..) = cell.field.holds else {
        cell.field.misread("units of resources")
    };
    let kind = Kind {
        at_most,
        what: "resources and the units of each",
        example: "`uses: { ledger-db: 4 }`",
        blank: "write how many units one shard takes, for example 1",
        read_name: |name| {
            name.parse().map_err(|_| {
                (
                    format!("`{}` is not the name of a resource", shown(name)),
                    "write 1 to 63 of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit"
                        .to_owned(),
                )
            })
        },
    };
    named::read(cell, &kind, problems, integer)
}
