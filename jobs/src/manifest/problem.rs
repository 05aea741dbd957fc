//! What is wrong with a manifest, where, and what to do about it.

use std::fmt;

/// More problems than this in one file are not listed: the first hundred are enough to begin with.
const PROBLEMS_MAX: usize = 100;

/// One thing wrong with a manifest. Displays as `file:line:column: field: what; remedy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1; 0 where the manifest came from no file.
    pub line: u32,
    /// In characters, from 1; 0 where the manifest came from no file.
    pub column: u32,
    /// Path of the field, `schedule.cron` or `run.exec[2]`; empty where the file as a whole is meant.
    pub field: String,
    pub what: String,
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if !self.file.is_empty() || self.line > 0 {
            f.write_str(" ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for Problem {}

/// A place in a file: line and column from 1, or both 0 outside any file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Collects the problems of one file.
pub(super) struct Problems {
    file: String,
    found: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub(super) fn of_file(file: &str) -> Problems {
        Problems {
            file: file.to_owned(),
            found: Vec::new(),
            unlisted: 0,
        }
    }

    /// Whether a problem more would not be listed: then its words need not be found.
    pub(super) fn are_full(&self) -> bool {
        self.found.len() == PROBLEMS_MAX
    }

    pub(super) fn push(
        &mut self,
        at: Place,
        field: impl fmt::Display,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.are_full() {
            self.unlisted += 1;
            return;
        }
        self.found.push(Problem {
            file: self.file.clone(),
            line: at.line,
            column: at.column,
            field: field.to_string(),
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// Something about the file as a whole, unless a problem found before explains it.
    pub(super) fn push_if_none(&mut self, at: Place, what: &str, remedy: &str) {
        if self.found.is_empty() {
            self.push(at, "", what, remedy);
        }
    }

    /// The value, if nothing was found wrong; else all problems in the order of the file.
    pub(super) fn or<T>(mut self, value: T) -> Result<T, Vec<Problem>> {
        if self.found.is_empty() {
            return Ok(value);
        }
        self.found
            .sort_by_key(|problem| (problem.line, problem.column));
        if self.unlisted > 0 {
            let last = self.found.last().map(|problem| Place {
                line: problem.line,
                column: problem.column,
            });
            self.found.push(Problem {
                file: self.file,
                line: last.unwrap_or_default().line,
                column: last.unwrap_or_default().column,
                field: String::new(),
                what: format!("{} more problems are not listed", self.unlisted),
                remedy: "correct these first".to_owned(),
            });
        }
        Err(self.found)
    }
}
