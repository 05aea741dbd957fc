//! Standard output, which carries data, and standard error, which carries talk.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// For whom the answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, at 80 columns
    #[default]
    Table,
    /// For programs
    Json,
}

/// Writes data for people.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::of_output(&error))
}

/// Writes data for programs: one JSON value, indented, and a line break.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).expect("bodies of the API are always JSON");
    text.push('\n');
    print(&text)
}

/// Says something to the person. Where nobody listens, that is no reason to fail.
pub(crate) fn talk(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
