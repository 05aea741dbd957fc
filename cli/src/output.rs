//! Standard output, which carries data, and standard error, which carries talk.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;
use crate::yaml;

/// For whom the answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, at 80 columns
    #[default]
    Table,
    /// For people, with more columns, each row on one line
    Wide,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// How much room people have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Columns80,
    Endless,
}

/// What an answer comes to: data for standard output and, beside it, talk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) data: String,
    pub(crate) talk: Vec<String>,
}

impl Format {
    /// An answer as data, or as `for_people` tells it.
    pub(crate) fn page(
        self,
        data: &impl Serialize,
        for_people: impl FnOnce(Room) -> String,
    ) -> Page {
        let text = match self {
            Format::Table => for_people(Room::Columns80),
            Format::Wide => for_people(Room::Endless),
            Format::Json => json_text(data),
            Format::Yaml => yaml::text(&json_value(data)),
        };
        Page {
            data: text,
            talk: Vec::new(),
        }
    }

    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Format::Table | Format::Wide)
    }

    /// Writes an answer as data, or as `for_people` tells it.
    pub(crate) fn print(
        self,
        data: &impl Serialize,
        for_people: impl FnOnce(Room) -> String,
    ) -> Result<(), Failure> {
        self.page(data, for_people).print()
    }
}

impl Page {
    pub(crate) fn print(&self) -> Result<(), Failure> {
        print(&self.data)?;
        for text in &self.talk {
            talk(text);
        }
        Ok(())
    }

    /// Says this beside what people read; programs see for themselves.
    pub(crate) fn saying(mut self, format: Format, text: impl Into<String>) -> Page {
        if format.is_for_people() {
            self.talk.push(text.into());
        }
        self
    }
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
    print(&json_text(value))
}

fn json_text(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("bodies of the API are always JSON");
    text.push('\n');
    text
}

fn json_value(value: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("bodies of the API are always JSON")
}

/// Says something to the person. Where nobody listens, that is no reason to fail.
pub(crate) fn talk(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
