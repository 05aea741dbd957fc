//! What a person asks the ledger in SQL, beside the coordinator that writes it.
//!
//! The question comes from outside, so nothing of it is trusted: the connection is opened to read,
//! and while the question is compiled everything but reading is refused, attaching other files
//! included. It reads from one moment of the ledger, for as long as its asker allows: meanwhile the
//! writer goes on, but cannot shorten its log.

use std::path::Path;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement};

use crate::reader::{ReaderError, open_to_read};

/// Steps of SQLite's machine between two looks whether to go on.
const STEPS_A_LOOK: i32 = 1_000;

/// Longest text or blob that a question may make or meet.
const VALUE_BYTES_MAX: i32 = 8 << 20;

/// All that an answer may hold.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// An answer: under each name a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// There were more than asked for.
    pub cut_off: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    #[error(transparent)]
    Open(#[from] ReaderError),
    #[error("only reading is allowed here")]
    NotReading,
    #[error("more than one statement")]
    Several,
    #[error("it is no question: nothing is selected")]
    NoQuestion,
    #[error("it took longer than it may")]
    TooLong,
    #[error("the answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20)]
    TooLarge,
    #[error("{0}")]
    Refused(String),
}

/// Answers one SELECT with at most `rows_max` rows. It is given up once `go_on` says no.
pub fn ask(
    ledger: &Path,
    sql: &str,
    rows_max: usize,
    mut go_on: impl FnMut() -> bool + Send + 'static,
) -> Result<Rows, SqlError> {
    let mut conn = open(ledger)?;
    conn.progress_handler(STEPS_A_LOOK, Some(move || !go_on()))
        .map_err(read_error)?;
    let mut statement = conn.prepare(sql).map_err(read_error)?;
    if statement.column_count() == 0 {
        return Err(SqlError::NoQuestion);
    }
    read(&mut statement, rows_max)
}

/// The views that people are to ask, and their columns.
pub fn views(ledger: &Path) -> Result<Vec<(String, Vec<String>)>, SqlError> {
    let conn = open(ledger)?;
    let names: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .map_err(read_error)?;
    names
        .into_iter()
        .map(|name| {
            let statement = conn
                .prepare(&format!("SELECT * FROM {name}"))
                .map_err(read_error)?;
            Ok((name, columns_of(&statement)))
        })
        .collect()
}

fn open(ledger: &Path) -> Result<Connection, SqlError> {
    let mut conn = open_to_read(ledger)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        .map_err(read_error)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)
        .map_err(read_error)?;
    conn.authorizer(Some(judge)).map_err(read_error)?;
    Ok(conn)
}

fn judge(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Recursive
        | AuthAction::Function { .. } => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn columns_of(statement: &Statement<'_>) -> Vec<String> {
    let names = statement.column_names();
    names.map(str::to_owned).collect()
}

fn read(statement: &mut Statement<'_>, rows_max: usize) -> Result<Rows, SqlError> {
    let columns = columns_of(statement);
    let mut answer = Rows {
        columns,
        rows: Vec::new(),
        cut_off: false,
    };
    let mut bytes = 0;
    let mut rows = statement.query([]).map_err(read_error)?;
    while let Some(row) = rows.next().map_err(read_error)? {
        if answer.rows.len() == rows_max {
            answer.cut_off = true;
            break;
        }
        let cells: Vec<Cell> = (0..answer.columns.len())
            .map(|i| row.get_ref(i).map(cell))
            .collect::<Result<_, _>>()
            .map_err(read_error)?;
        bytes += cells.iter().map(size).sum::<usize>();
        if bytes > ANSWER_BYTES_MAX {
            return Err(SqlError::TooLarge);
        }
        answer.rows.push(cells);
    }
    Ok(answer)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(n) => Cell::Integer(n),
        ValueRef::Real(x) => Cell::Real(x),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) => Cell::Blob(bytes.to_vec()),
        },
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
    }
}

fn size(cell: &Cell) -> usize {
    size_of::<Cell>()
        + match cell {
            Cell::Text(text) => text.len(),
            Cell::Blob(bytes) => bytes.len(),
            Cell::Null | Cell::Integer(_) | Cell::Real(_) => 0,
        }
}

fn read_error(error: rusqlite::Error) -> SqlError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => SqlError::TooLong,
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
            SqlError::NotReading
        }
        _ => match error {
            rusqlite::Error::MultipleStatement => SqlError::Several,
            rusqlite::Error::Empty => SqlError::NoQuestion,
            // The words of SQLite, without the number that stands before them elsewhere.
            rusqlite::Error::SqliteFailure(_, Some(words)) => SqlError::Refused(words),
            rusqlite::Error::SqlInputError { msg, .. } => SqlError::Refused(msg),
            error => SqlError::Refused(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use protocol::Rules;

    use super::*;
    use crate::Store;

    fn ledger() -> (tempfile::TempDir, std::path::PathBuf, Store) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let store = Store::open(&path, Rules::all()).unwrap();
        (directory, path, store)
    }

    #[test]
    fn questions_are_answered_with_their_names_and_kinds() {
        let (_directory, path, _store) = ledger();
        let sql = "SELECT 1 AS n, 1.5 AS x, 'a' AS t, x'ff' AS b, NULL AS none";
        let answer = ask(&path, sql, 10, || true).unwrap();
        assert_eq!(answer.columns, ["n", "x", "t", "b", "none"]);
        assert_eq!(
            answer.rows,
            [[
                Cell::Integer(1),
                Cell::Real(1.5),
                Cell::Text("a".to_owned()),
                Cell::Blob(vec![255]),
                Cell::Null
            ]]
        );
        assert!(!answer.cut_off);
        let three = "SELECT value FROM json_each('[1,2,3]')";
        let answer = ask(&path, three, 2, || true).unwrap();
        assert_eq!((answer.rows.len(), answer.cut_off), (2, true));
        let answer = ask(&path, three, 3, || true).unwrap();
        assert_eq!((answer.rows.len(), answer.cut_off), (3, false));
    }

    #[test]
    fn every_view_is_named_and_can_be_asked() {
        let (_directory, path, _store) = ledger();
        let views = views(&path).unwrap();
        assert!(
            views.iter().any(|(name, _)| name == "run_view"),
            "{views:?}"
        );
        for (name, columns) in views {
            assert!(!columns.is_empty(), "{name}");
            ask(&path, &format!("SELECT * FROM {name}"), 1, || true).unwrap();
        }
    }

    #[test]
    fn whatever_does_more_than_read_is_refused() {
        let (directory, path, _store) = ledger();
        let other = directory.path().join("other.db");
        for sql in [
            "UPDATE meta SET position = 0",
            "DELETE FROM jobs",
            "INSERT INTO names VALUES ('a/b', 1) RETURNING name",
            "CREATE TABLE t (a)",
            "CREATE TEMP TABLE t AS SELECT 1",
            "DROP VIEW run_view",
            "PRAGMA query_only = OFF",
            "PRAGMA journal_mode = DELETE",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "SELECT * FROM pragma_database_list",
            "VACUUM",
            "BEGIN IMMEDIATE",
            "SAVEPOINT s",
            "REINDEX",
            &format!("ATTACH '{}' AS other", other.display()),
            &format!("VACUUM INTO '{}'", other.display()),
        ] {
            let refused = ask(&path, sql, 1, || true);
            assert!(
                matches!(
                    refused,
                    Err(SqlError::NotReading | SqlError::NoQuestion | SqlError::Refused(_))
                ),
                "{sql}: {refused:?}"
            );
        }
        assert!(!other.exists());
        for (sql, expected) in [
            ("", "nothing is selected"),
            ("-- nothing", "nothing is selected"),
            ("SELECT 1; SELECT 2", "more than one statement"),
            ("SELECT 1; DELETE FROM jobs", "only reading is allowed"),
            ("SELECT nosuch FROM run_view", "no such column: nosuch"),
            ("SELECT load_extension('x')", "not authorized"),
            ("SELECT zeroblob(100000000)", "string or blob too big"),
        ] {
            let error = ask(&path, sql, 1, || true).unwrap_err().to_string();
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }

    #[test]
    fn what_goes_on_for_ever_is_given_up_and_hinders_no_writer() {
        let (_directory, path, _store) = ledger();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                       SELECT count(*) FROM n";
        let mut looks = 100;
        let answer = ask(&path, endless, 1, move || {
            looks -= 1;
            looks > 0
        });
        assert!(matches!(answer, Err(SqlError::TooLong)), "{answer:?}");
    }
}
