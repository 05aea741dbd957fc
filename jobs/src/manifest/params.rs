//! Parameters: values that a manifest names and that a run by hand may replace.

use std::collections::BTreeMap;

use super::command::{NO_CONTROL, has_control};
use super::form::{Holds, PARAM_BYTES_MAX};
use super::named::{self, Kind};
use super::problem::Problems;
use super::section::Cell;
use super::values::any_text;
use crate::nearest::nearest;
use crate::shown::shown;

/// By name.
pub type Params = BTreeMap<String, String>;

pub(super) const PARAM_NAME_PATTERN: &str = "^[a-z][a-z0-9_]{0,62}$";
const NAME_BYTES_MAX: usize = 63;

/// Why a run cannot be given the values that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    #[error("there is no parameter `{name}`; {remedy}")]
    Unknown { name: String, remedy: String },
    #[error("the parameter `{name}` {what}; {remedy}")]
    Value {
        name: String,
        what: String,
        remedy: String,
    },
}

pub(super) fn is_param_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

pub(super) fn params(cell: Cell, problems: &mut Problems) -> Option<Params> {
    let Holds::Params(at_most, _) = cell.field.holds else {
        cell.field.misread("parameters")
    };
    let kind = Kind {
        at_most,
        what: "names and their values",
        example: "`params: { region: east }`",
        blank: "write `\"\"` for an empty value, and a value that has a comma in quotes",
        read_name,
    };
    named::read(cell, &kind, problems, |value, problems| {
        let text = any_text(value, problems)?;
        match judge_value(text) {
            Ok(()) => Some(text.to_owned()),
            Err((what, remedy)) => {
                value.refuse(what, remedy, problems);
                None
            }
        }
    })
}

fn read_name(name: &str) -> Result<String, (String, String)> {
    if is_param_name(name) {
        return Ok(name.to_owned());
    }
    let mut meant: String = name
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => c,
            _ => '_',
        })
        .collect();
    meant.truncate(NAME_BYTES_MAX);
    let remedy = if is_param_name(&meant) {
        format!("write for example `{meant}`")
    } else {
        format!("write at most {NAME_BYTES_MAX} of a-z, 0-9 and `_`, beginning with a letter")
    };
    let what = format!("`{}` is not the name of a parameter", shown(name));
    Err((what, remedy))
}

/// A value becomes part of an argument, and is judged as an argument is.
fn judge_value(text: &str) -> Result<(), (String, String)> {
    if text.len() > PARAM_BYTES_MAX {
        return Err((
            format!("has {} bytes", text.len()),
            format!(
                "write at most {PARAM_BYTES_MAX}; put long input into a file and name the file"
            ),
        ));
    }
    if has_control(text) {
        return Err(("has a control character".to_owned(), NO_CONTROL.to_owned()));
    }
    Ok(())
}

/// Judges what a run by hand is given in place of the manifest's own values.
pub(super) fn judge(own: &Params, given: &Params) -> Result<(), ParamError> {
    for (name, value) in given {
        if !own.contains_key(name) {
            let known: Vec<&str> = own.keys().map(String::as_str).collect();
            let remedy = match nearest(name, known.iter().copied()) {
                _ if known.is_empty() => "the job's manifest has none".to_owned(),
                Some(nearest) => {
                    format!("did you mean `{nearest}`? known are {}", known.join(", "))
                }
                None => format!("known are {}", known.join(", ")),
            };
            return Err(ParamError::Unknown {
                name: shown(name),
                remedy,
            });
        }
        judge_value(value).map_err(|(what, remedy)| ParamError::Value {
            name: name.clone(),
            what,
            remedy,
        })?;
    }
    Ok(())
}
