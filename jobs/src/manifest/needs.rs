//! What a job needs of a host, and of what all hosts share.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{ClassName, Label, ResourceName};

use super::form::Holds;
use super::named::{self, Kind};
use super::problem::Problems;
use super::section::Cell;
use super::values::{any_text, integer, text};
use super::yaml::{Style, Value};
use crate::shown::shown;

/// The name of a class of hosts. Whether there is such a class is for whoever knows the hosts.
pub(super) fn class(cell: Cell, problems: &mut Problems) -> Option<ClassName> {
    if let Value::List(_) = cell.node.value {
        let remedy = "write one, for example `class: io`; what else a host must have are `labels`";
        cell.refuse("is a list, not the name of a class", remedy, problems);
        return None;
    }
    let name = text(cell, problems)?;
    let class = name.parse().ok();
    if class.is_none() {
        cell.refuse(
            format!("`{}` is not the name of a class", shown(&name)),
            "write for example `class: io`: 1 to 63 of a-z, 0-9, `-`, `_` and `.`, beginning and ending with a letter or digit",
            problems,
        );
    }
    class
}

/// Processors, in thousandths.
pub(super) fn processors(cell: Cell, problems: &mut Problems) -> Option<u32> {
    let Holds::Processors(low, high) = cell.field.holds else {
        cell.field.misread("processors")
    };
    let limits = format!("{} to {}", show_milli(low), show_milli(high));
    let remedy = format!("write a number of processors from {limits}, for example 0.5");
    let (what, remedy) = match &cell.node.value {
        Value::Scalar {
            text,
            style: Style::Plain | Style::PlainLines,
        } => match milli(text) {
            Ok(milli) if (low..=high).contains(&milli) => return Some(milli),
            Ok(_) => (format!("{} is outside {limits}", shown(text)), remedy),
            Err((what, certain)) => (what, certain.unwrap_or(remedy)),
        },
        Value::Scalar { text, .. } => (
            format!("\"{}\" is text, not a number", shown(text)),
            match milli(text) {
                Ok(_) => "leave the quotes out".to_owned(),
                Err(_) => remedy,
            },
        ),
        Value::Refused => return None,
        Value::List(_) => ("is a list, not a number".to_owned(), remedy),
        Value::Map(_) => ("is a mapping, not a number".to_owned(), remedy),
    };
    cell.refuse(what, remedy, problems);
    None
}

/// A decimal number of at most three places in thousandths, or what is wrong with it and what to
/// write, where that is certain.
fn milli(text: &str) -> Result<u32, (String, Option<String>)> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(number) = text.strip_suffix('m').filter(|number| is_digits(number)) {
        let meant = number
            .parse()
            .map(|milli| format!("write {}", show_milli(milli)));
        let what = format!(
            "`{}` is in thousandths, as Kubernetes has them",
            shown(text)
        );
        return Err((what, meant.ok()));
    }
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(places) || whole.len() > 1 && whole.starts_with('0') {
        return Err((
            format!("`{}` is not a number of processors", shown(text)),
            None,
        ));
    }
    let places = places.trim_end_matches('0');
    if places.len() > 3 {
        let what = format!("`{}` has more than three decimal places", shown(text));
        return Err((what, None));
    }
    // What is too large for the type is too large for the field.
    let milli = format!("{whole}{places:0<3}");
    Ok(milli.parse().unwrap_or(u32::MAX))
}

/// Thousandths as people write them: `0.5`, `2`, `2.25`.
pub fn show_milli(milli: u32) -> String {
    let places = format!("{:03}", milli % 1000);
    let number = format!("{}.{places}", milli / 1000);
    number
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

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
