//! `matins sql`: the ledger itself, read where it lies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coordinator::LEDGER_FILE;
use ledger::sql::{self, Cell, SqlError};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::amounts::rough;
use crate::args::{Rows, Sql};
use crate::commands::cut_off;
use crate::failure::{Failure, Status, Told, chain};
use crate::output::{Format, print, talk};
use crate::text::{LINE_WIDTH, Table, printable, wrap};

/// One step of SQLite may itself take for ever. So long after its time a question is ended with
/// this process; that it was only reading makes that harmless.
const GRACE: Duration = Duration::from_secs(1);

/// Longest name of a column that values stand behind, where rows are written one below the other.
const LABEL_WIDTH_MAX: usize = 24;

pub(crate) fn sql(options: &Sql) -> Result<(), Failure> {
    let ledger = find_ledger(&options.data)?;
    let Some(query) = &options.query else {
        return list_views(options, &ledger);
    };
    let limit = Duration::from_millis(options.time_limit.0.unsigned_abs());
    end_after(limit + GRACE);
    let begun = Instant::now();
    let rows_max = options.rows as usize;
    let answer = sql::ask(&ledger, query, rows_max, move || begun.elapsed() < limit);
    let answer = answer.map_err(|error| refused(&error, options))?;
    write(options.output, &answer)?;
    if answer.cut_off {
        talk(&cut_off(answer.rows.len()));
    }
    Ok(())
}

/// In the data directory of a coordinator, or of the `matins dev` that has one.
pub(crate) fn find_ledger(data: &Path) -> Result<PathBuf, Failure> {
    let places = [data.join("coordinator"), data.to_owned()];
    let mut places = places.iter().map(|place| place.join(LEDGER_FILE));
    places.find(|file| file.exists()).ok_or_else(|| {
        Failure::failed(
            format!("finding a ledger in {}", data.display()),
            "there is none that this user can see",
            "on the coordinator's machine and as its user, name its data directory with --data or \
             MATINS_DATA",
        )
    })
}

fn list_views(options: &Sql, ledger: &Path) -> Result<(), Failure> {
    let views = sql::views(ledger).map_err(|error| refused(&error, options))?;
    let rows = views.into_iter();
    let answer = sql::Rows {
        columns: vec!["view".to_owned(), "columns".to_owned()],
        rows: rows
            .map(|(view, columns)| vec![Cell::Text(view), Cell::Text(columns.join(", "))])
            .collect(),
        cut_off: false,
    };
    write(options.output, &answer)
}

fn refused(error: &SqlError, options: &Sql) -> Failure {
    let remedy = match error {
        SqlError::Open(_) => {
            "ask as the user that runs the coordinator, with the same version of Matins"
        }
        SqlError::NotReading => "ask with one SELECT; what changes something is another command",
        SqlError::Several => "ask with one SELECT at a time",
        SqlError::NoQuestion => "ask with a SELECT, as in `matins sql 'SELECT * FROM run_view'`",
        SqlError::TooLong => "ask for less, or for longer with --time-limit",
        SqlError::TooLarge => "ask for less, with WHERE or with --limit",
        SqlError::Refused(_) => "see views and columns with `matins sql` alone",
    };
    let status = match error {
        SqlError::Open(_) | SqlError::TooLong | SqlError::TooLarge => Status::Failed,
        _ => Status::BadInput,
    };
    let why = match error {
        SqlError::TooLong => format!("it took longer than {}", rough(options.time_limit)),
        error => chain(error),
    };
    Failure::new(status, "asking the ledger", why, remedy)
}

fn end_after(length: Duration) {
    thread::spawn(move || {
        thread::sleep(length);
        let told = Told {
            status: Status::Failed,
            what: "asking the ledger".to_owned(),
            why: "one step of it took longer than it all may".to_owned(),
            remedy: "ask for something simpler".to_owned(),
        };
        talk(&told.to_string());
        process::exit(told.status as i32);
    });
}

fn write(output: Rows, answer: &sql::Rows) -> Result<(), Failure> {
    let keys = keys(&answer.columns);
    let objects: Vec<Named<'_>> = answer
        .rows
        .iter()
        .map(|cells| Named(&keys, cells))
        .collect();
    let format = match output {
        Rows::Table => Format::Table,
        Rows::Wide => Format::Wide,
        Rows::Json => Format::Json,
        Rows::Yaml => Format::Yaml,
        Rows::Csv => return print(&csv(answer)),
    };
    format.print(&objects, |room| {
        let titles = answer.columns.iter().map(String::as_str).collect();
        let mut table = Table::of_any(titles);
        for cells in &answer.rows {
            table.row(cells.iter().map(shown).collect());
        }
        if table.fits(room) {
            table.render_in(room)
        } else {
            records(answer)
        }
    })
}

/// Where the columns are too many to stand side by side: each row on lines of its own.
fn records(answer: &sql::Rows) -> String {
    let label = answer.columns.iter().map(String::len).max();
    let label = label.unwrap_or(0).min(LABEL_WIDTH_MAX);
    let mut text = String::new();
    for (i, cells) in answer.rows.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        for (name, cell) in answer.columns.iter().zip(cells) {
            let room = LINE_WIDTH - label - 2;
            let cell = match shown(cell) {
                empty if empty.is_empty() => "-".to_owned(),
                text => printable(&text),
            };
            for (j, line) in wrap(&cell, room).iter().enumerate() {
                let name = if j == 0 {
                    printable(name)
                } else {
                    String::new()
                };
                let whole = format!("{name:label$}  {line}");
                text.push_str(whole.trim_end());
                text.push('\n');
            }
        }
    }
    text
}

/// The columns as keys of an object, which may not have one twice: of columns of one name, those
/// after the first get a number, as in `a`, `a_2`.
fn keys(columns: &[String]) -> Vec<String> {
    let mut taken: BTreeSet<String> = columns.iter().cloned().collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let mut keys = Vec::with_capacity(columns.len());
    for column in columns {
        let mut key = column.clone();
        if !seen.insert(column) {
            let mut number = 2;
            while !taken.insert(format!("{column}_{number}")) {
                number += 1;
            }
            key = format!("{column}_{number}");
        }
        keys.push(key);
    }
    keys
}

/// A row as an object, its columns in their order.
struct Named<'a>(&'a [String], &'a [Cell]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, cell) in self.0.iter().zip(self.1) {
            map.serialize_entry(name, &value(cell))?;
        }
        map.end()
    }
}

/// Blobs are written in base64; a number that JSON does not have is nothing.
fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(n) => Value::from(*n),
        Cell::Real(x) => Value::from(*x),
        Cell::Text(text) => Value::from(text.as_str()),
        Cell::Blob(bytes) => Value::from(STANDARD.encode(bytes)),
    }
}

fn shown(cell: &Cell) -> String {
    match value(cell) {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// As RFC 4180 has it. Nothing and an empty text are the same there.
fn csv(answer: &sql::Rows) -> String {
    let mut text = csv_line(answer.columns.iter().map(String::as_str));
    for cells in &answer.rows {
        let cells: Vec<String> = cells.iter().map(shown).collect();
        text.push_str(&csv_line(cells.iter().map(String::as_str)));
    }
    text
}

fn csv_line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = fields
        .map(|field| {
            if field.contains(['"', ',', '\r', '\n']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field.to_owned()
            }
        })
        .collect();
    quoted.join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_object_are_told_apart() {
        for (columns, expected) in [
            ("a b", "a b"),
            ("a a a", "a a_2 a_3"),
            ("a a a_2", "a a_3 a_2"),
            ("a_2 a a a_2", "a_2 a a_3 a_2_2"),
        ] {
            let columns: Vec<String> = columns.split(' ').map(str::to_owned).collect();
            assert_eq!(keys(&columns).join(" "), expected, "{columns:?}");
        }
    }

    #[test]
    fn csv_quotes_what_would_be_read_otherwise() {
        let answer = sql::Rows {
            columns: vec!["a".to_owned(), "b,c".to_owned()],
            rows: vec![
                vec![Cell::Integer(1), Cell::Text("say \"no\"".to_owned())],
                vec![Cell::Null, Cell::Text("two\nlines".to_owned())],
            ],
            cut_off: false,
        };
        assert_eq!(
            csv(&answer),
            "a,\"b,c\"\r\n1,\"say \"\"no\"\"\"\r\n,\"two\nlines\"\r\n"
        );
    }
}
