//! What the program says when it does not do what it was asked: what, why and what to do now.

use std::fmt;
use std::io;

use protocol::api::{ErrorBody, NOT_LEADER};

use crate::text::{LINE_WIDTH, printable, wrap_prose};

/// Exit statuses, as `matins --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Refused or failed.
    Failed = 1,
    /// The command line, or what it names, is wrong: another try of the same cannot succeed.
    BadInput = 2,
    /// Nobody who could answer was reached: another try of the same can succeed.
    Unreachable = 3,
}

#[derive(Debug)]
pub(crate) enum Failure {
    Told(Told),
    /// Whoever read the output has gone. Nothing is said and nothing is wrong.
    OutputClosed,
}

/// Displays as three paragraphs, each at most 80 columns wide where its words allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) status: Status,
    /// What was being done, and to what.
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl Failure {
    pub(crate) fn new(
        status: Status,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Failure {
        Failure::Told(Told {
            status,
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
        })
    }

    pub(crate) fn failed(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Failure {
        Failure::new(Status::Failed, what, why, remedy)
    }

    pub(crate) fn bad_input(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Failure {
        Failure::new(Status::BadInput, what, why, remedy)
    }

    /// Of an error that knows its own causes.
    pub(crate) fn of_error(
        what: impl Into<String>,
        error: &dyn std::error::Error,
        remedy: impl Into<String>,
    ) -> Failure {
        Failure::failed(what, chain(error), remedy)
    }

    /// One failure after the other, of several who were asked; the last says what to do.
    pub(crate) fn of_several(asked: &[String], mut failures: Vec<Failure>) -> Failure {
        if failures.len() > 1 {
            let told: Vec<String> = asked
                .iter()
                .zip(&failures)
                .filter_map(|(url, failure)| match failure {
                    Failure::Told(told) => Some(format!("{url}: {}", told.why)),
                    Failure::OutputClosed => None,
                })
                .collect();
            if let Some(Failure::Told(last)) = failures.last_mut() {
                last.what = format!("asking the coordinators at {}", asked.join(", "));
                last.why = told.join("; ");
            }
        }
        let last = failures.pop();
        last.expect("whoever was asked has failed, or there would be an answer")
    }

    /// Writing to standard output failed.
    pub(crate) fn of_output(error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::of_error(
            "writing to standard output",
            error,
            "make room where the output goes, and ask again",
        )
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Failure {
        let status = match body.kind.as_str() {
            "invalid" => Status::BadInput,
            "unavailable" | NOT_LEADER => Status::Unreachable,
            _ => Status::Failed,
        };
        let remedy = match &body.leader {
            // Where it could be followed there, it was.
            Some(leader) => format!(
                "{} leads: give the command on that machine, or have its API reached from here \
                 (`--api-listen`, at {})",
                leader.name,
                if leader.api.is_empty() {
                    "no address"
                } else {
                    &leader.api
                }
            ),
            None => body.remedy,
        };
        Failure::new(status, body.what, body.why, remedy)
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        // Some libraries repeat their cause in their own words.
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (label, text)) in [
            ("error:  ", &self.what),
            ("why:    ", &self.why),
            ("remedy: ", &self.remedy),
        ]
        .into_iter()
        .enumerate()
        {
            let indent = " ".repeat(label.len());
            for (j, line) in wrap_prose(&printable(text), LINE_WIDTH - label.len())
                .iter()
                .enumerate()
            {
                if i + j > 0 {
                    f.write_str("\n")?;
                }
                f.write_str(if j == 0 { label } else { &indent })?;
                f.write_str(line)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_three_paragraphs_of_at_most_80_columns() {
        let told = Told {
            status: Status::Failed,
            what: "cancelling run-12".to_owned(),
            why: "it is `succeeded`, which is final, and what is final within an execution is never taken back".to_owned(),
            remedy: "nothing".to_owned(),
        };
        let text = told.to_string();
        assert_eq!(
            text,
            "error:  cancelling run-12\n\
             why:    it is `succeeded`, which is final, and what is final within an execution\n        \
             is never taken back\n\
             remedy: nothing"
        );
    }

    #[test]
    fn kinds_of_the_api_are_statuses() {
        for (kind, expected) in [
            ("not_found", Status::Failed),
            ("refused", Status::Failed),
            ("unauthorized", Status::Failed),
            ("invalid", Status::BadInput),
            ("unavailable", Status::Unreachable),
            (NOT_LEADER, Status::Unreachable),
        ] {
            let failure = Failure::from(ErrorBody {
                request_id: None,
                leader: None,
                kind: kind.to_owned(),
                what: String::new(),
                why: String::new(),
                remedy: String::new(),
            });
            assert!(
                matches!(failure, Failure::Told(told) if told.status == expected),
                "{kind}"
            );
        }
    }
}
