//! `run.exec`: a program and its arguments, as written.

use super::form::RUN_EXAMPLE;
use super::params::Params;
use super::placeholder::Argument;
use super::problem::Problems;
use super::quoting::quoted;
use super::section::Cell;
use super::values::any_text;
use super::yaml::{Style, Value};
use crate::shown::shown;

/// Longest command line with its placeholders filled, in bytes: a quarter of the frame in which
/// it travels, so that it fits however its characters are escaped.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// Most entries, the program included.
pub(super) const ENTRIES_MAX: usize = 1000;

/// Characters that mean something to a shell and nothing here.
const SHELL: [char; 8] = ['|', '&', ';', '<', '>', '$', '`', '*'];

/// What to do about a character that steers a terminal.
pub(super) const NO_CONTROL: &str =
    "leave it out: a terminal or a log may obey it, and NUL ends an argument";

/// A program and its arguments. `params` are those that it may name; `None` where they could not be
/// read.
pub(super) fn command(
    cell: Cell,
    params: Option<&Params>,
    problems: &mut Problems,
) -> Option<Vec<Argument>> {
    let Some(items) = cell.items().filter(|items| items.len() > 0) else {
        let (what, remedy) = no_list(&cell.node.value);
        cell.refuse(what, remedy, problems);
        return None;
    };
    if items.len() > ENTRIES_MAX {
        cell.refuse(
            format!("has {} entries, more than {ENTRIES_MAX}", items.len()),
            "put long input into a file and name the file",
            problems,
        );
        return None;
    }
    let arguments: Vec<Option<Argument>> = items
        .enumerate()
        .map(|(i, item)| argument(item, i == 0, params, problems))
        .collect();
    let arguments: Vec<Argument> = arguments.into_iter().collect::<Option<_>>()?;
    // A byte more each, for the quotes, commas and terminators it is sent and started with.
    let bytes: usize = arguments
        .iter()
        .map(|argument| argument.filled_bytes_max() + 1)
        .sum();
    if bytes > COMMAND_BYTES_MAX {
        cell.refuse(
            format!(
                "may have {bytes} bytes with its placeholders filled, more than {COMMAND_BYTES_MAX}"
            ),
            "put long input into a file and name the file",
            problems,
        );
        return None;
    }
    Some(arguments)
}

fn argument(
    item: Cell,
    is_program: bool,
    params: Option<&Params>,
    problems: &mut Problems,
) -> Option<Argument> {
    if item.node.is_blank() {
        item.refuse(
            item.node.blank_reason(),
            "write `\"\"` for an empty argument, or delete it",
            problems,
        );
        return None;
    }
    let text = any_text(item, problems)?;
    let style = match &item.node.value {
        Value::Scalar { style, .. } => *style,
        _ => return None,
    };
    let refusal = if is_program && text.is_empty() {
        Some((
            "the program is empty".to_owned(),
            "write its path".to_owned(),
        ))
    } else if style == Style::PlainLines {
        Some((
            format!("`{}` goes over several lines without quotes", shown(text)),
            "write a `,` or a `- ` between two arguments, or put one argument in quotes".to_owned(),
        ))
    } else if style == Style::Block && text.ends_with('\n') {
        Some((
            "ends with a line break, which the program would be given".to_owned(),
            "write `|-` or `>-` instead of `|` or `>`, or put it in quotes".to_owned(),
        ))
    } else if has_control(text) {
        Some((
            format!("`{}` has a control character", shown(text)),
            NO_CONTROL.to_owned(),
        ))
    } else if is_program && has_arguments(text) {
        Some((
            format!("`{}` is more than the path of a program", shown(text)),
            format!(
                "write each argument as an item of its own: `exec: {}`",
                list_of(text)
            ),
        ))
    } else {
        None
    };
    if let Some((what, remedy)) = refusal {
        item.refuse(what, remedy, problems);
        return None;
    }
    match Argument::parse(text, params) {
        Ok(argument) => Some(argument),
        Err(refusal) => {
            item.refuse(refusal.what, refusal.remedy, problems);
            None
        }
    }
}

/// Whether there is a character in it that no argument may have, and so no text that becomes part
/// of one.
pub(super) fn has_control(text: &str) -> bool {
    text.chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t')
}

/// What to say of a command that is not a list.
fn no_list(value: &Value) -> (String, String) {
    let example = format!("write {RUN_EXAMPLE}");
    match value {
        Value::Scalar { text, .. } if text.contains(SHELL) || text.contains('\n') => (
            "is a line for a shell, and there is none".to_owned(),
            match exec_of(value) {
                Some(exec) => format!(
                    "write `{exec}`, which starts a shell; what is longer is safer in a script of its own: `exec: [\"/opt/jobs/script\"]`"
                ),
                None => "write it into a script of its own, and name that: `exec: [\"/opt/jobs/script\"]`"
                    .to_owned(),
            },
        ),
        Value::Scalar { text, .. } => (
            format!("`{}` is one text, not a list", shown(text)),
            match list_of(text) {
                list if list.len() < 200 => format!("write `exec: {list}`"),
                _ => example,
            },
        ),
        _ => (
            "is not a list of texts with the program first".to_owned(),
            example,
        ),
    }
}

/// `exec: [...]` for a command as other programs take it: a line, or a list of texts. `None` where
/// it is neither, or more than a message shows.
pub(super) fn exec_of(value: &Value) -> Option<String> {
    const SHOWN_BYTES_MAX: usize = 300;
    let list = match value {
        Value::Scalar { text, .. } if text.contains('\n') || text.contains("${") => return None,
        Value::Scalar { text, .. } if text.contains(SHELL) => {
            format!("[\"/bin/sh\", \"-c\", {}]", quoted(text))
        }
        Value::Scalar { text, .. } => list_of(text),
        Value::List(items) => {
            let texts: Option<Vec<String>> = items
                .iter()
                .map(|item| match &item.value {
                    Value::Scalar { text, .. } if !text.contains('\n') => Some(quoted(text)),
                    _ => None,
                })
                .collect();
            format!("[{}]", texts?.join(", "))
        }
        _ => return None,
    };
    let exec = format!("exec: {list}");
    (exec.len() <= SHOWN_BYTES_MAX && !exec.contains('`')).then_some(exec)
}

/// `/bin/report --date {fire_date}`: what people write where a path belongs.
fn has_arguments(program: &str) -> bool {
    [" -", " {", " \"", " '"]
        .iter()
        .any(|argument| program.contains(argument))
}

/// The words of a line as a list.
pub(super) fn list_of(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(quoted).collect();
    format!("[{}]", words.join(", "))
}
