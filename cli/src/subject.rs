//! What a command is about, as people write it: a job, a run, or the run of a job's fire time.

use std::fmt;
use std::str::FromStr;

use protocol::{JobName, RunId, WallMs};

/// `finance/reconcile`, or what [`RunRef`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Job(JobName),
    Run(RunRef),
}

/// `run-12` or `finance/reconcile@2026-11-29T02:10:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunRef {
    Id(RunId),
    Fire { job: JobName, fire_time: WallMs },
}

impl FromStr for RunRef {
    type Err = String;

    fn from_str(text: &str) -> Result<RunRef, String> {
        match text.split_once('@') {
            Some((job, time)) => Ok(RunRef::Fire {
                job: job.parse().map_err(|error| format!("{error}"))?,
                fire_time: parse_time(time)?,
            }),
            None => text.parse().map(RunRef::Id).map_err(|_| {
                "expected `run-NUMBER` as in `run-12`, or `JOB@TIME` as in \
                 `finance/reconcile@2026-11-29T02:10:00Z`"
                    .to_owned()
            }),
        }
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Subject, String> {
        if text.contains('/') && !text.contains('@') {
            let job = text.parse().map_err(|error| format!("{error}"))?;
            return Ok(Subject::Job(job));
        }
        text.parse().map(Subject::Run).map_err(|error: String| {
            if text.contains('@') {
                error
            } else {
                format!("{error}, or a job as in `finance/reconcile`")
            }
        })
    }
}

/// An instant with its offset, as RFC 3339 writes it.
pub(crate) fn parse_time(text: &str) -> Result<WallMs, String> {
    WallMs::parse_rfc3339(text).map_err(|error| {
        format!(
            "`{text}` is not a time ({error}): write it with its offset, as in \
             2026-11-29T02:10:00Z or 2026-11-29T10:10:00+08:00"
        )
    })
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunRef::Id(run) => run.fmt(f),
            RunRef::Fire { job, fire_time } => write!(f, "{job}@{fire_time}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects() {
        for (text, expected) in [
            ("run-12", Ok(Subject::Run(RunRef::Id(RunId(12))))),
            ("a/b", Ok(Subject::Job("a/b".parse().unwrap()))),
            (
                "a/b@2026-11-29T10:10:00+08:00",
                Ok(Subject::Run(RunRef::Fire {
                    job: "a/b".parse().unwrap(),
                    fire_time: WallMs::parse_rfc3339("2026-11-29T02:10:00Z").unwrap(),
                })),
            ),
            ("12", Err("expected `run-NUMBER`")),
            ("a/b/c", Err("more than one `/`")),
            ("A/b", Err("not a valid name")),
            ("a/b@yesterday", Err("`yesterday` is not a time")),
            ("a/b@2026-11-29T02:10:00", Err("write it with its offset")),
            ("b@2026-11-29T02:10:00Z", Err("has no namespace")),
        ] {
            match (text.parse::<Subject>(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
