//! What a command is about, as people write it: a job, a run, or the run of a job's fire time.

use std::fmt;
use std::str::FromStr;

use chrono::NaiveDateTime;
use protocol::{AgentName, JobName, RunId, WallMs};

/// `finance/reconcile`, or what [`RunRef`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Job(JobName),
    Run(RunRef),
}

/// What [`Subject`] reads, or a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Subject(Subject),
    Agent(AgentName),
}

/// `run-12` or `finance/reconcile@2026-11-29T02:10:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunRef {
    Id(RunId),
    Fire { job: JobName, when: When },
}

/// What stands behind the `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(WallMs),
    /// As the clock of the job's zone shows it: `2026-11-29T10:10`.
    Local(NaiveDateTime),
    /// The newest run.
    Latest,
}

const LATEST: &str = "latest";

impl FromStr for RunRef {
    type Err = String;

    fn from_str(text: &str) -> Result<RunRef, String> {
        match text.split_once('@') {
            Some((job, when)) => Ok(RunRef::Fire {
                job: job.parse().map_err(|error| format!("{error}"))?,
                when: when.parse()?,
            }),
            None => text.parse().map(RunRef::Id).map_err(|_| {
                "expected `run-NUMBER` as in `run-12`, or `JOB@TIME` as in \
                 `finance/reconcile@2026-11-29T02:10:00Z`"
                    .to_owned()
            }),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        if text == LATEST {
            return Ok(When::Latest);
        }
        let local = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
        let mut local = local.iter();
        if let Some(local) = local.find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()) {
            return Ok(When::Local(local));
        }
        WallMs::parse_rfc3339(text).map(When::At).map_err(|error| {
            format!(
                "`{text}` is not a time ({error}): write it with its offset, as in \
                 2026-11-29T02:10:00Z, or without one, as in 2026-11-29T10:10, for the clock of \
                 the job's zone, or `{LATEST}` for the newest run"
            )
        })
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

impl FromStr for Thing {
    type Err = String;

    /// `run-12` is a run although a host could be called so; a number alone is neither.
    fn from_str(text: &str) -> Result<Thing, String> {
        match text.parse() {
            Ok(subject) => Ok(Thing::Subject(subject)),
            Err(error) if text.contains(['/', '@']) => Err(error),
            Err(error) => match text.parse() {
                Ok(agent) if !text.bytes().all(|b| b.is_ascii_digit()) => Ok(Thing::Agent(agent)),
                _ => Err(format!("{error}, or a host as in `host-1`")),
            },
        }
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
            RunRef::Fire { job, when } => write!(f, "{job}@{when}"),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::At(at) => at.fmt(f),
            When::Local(local) => write!(f, "{}", local.format("%Y-%m-%dT%H:%M:%S")),
            When::Latest => f.write_str(LATEST),
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
                    when: When::At(WallMs::parse_rfc3339("2026-11-29T02:10:00Z").unwrap()),
                })),
            ),
            (
                "a/b@2026-11-29T02:10",
                Ok(Subject::Run(RunRef::Fire {
                    job: "a/b".parse().unwrap(),
                    when: When::Local("2026-11-29T02:10:00".parse().unwrap()),
                })),
            ),
            (
                "a/b@latest",
                Ok(Subject::Run(RunRef::Fire {
                    job: "a/b".parse().unwrap(),
                    when: When::Latest,
                })),
            ),
            ("12", Err("expected `run-NUMBER`")),
            ("a/b/c", Err("more than one `/`")),
            ("A/b", Err("not a valid name")),
            ("a/b@yesterday", Err("`yesterday` is not a time")),
            ("a/b@2026-11-29", Err("write it with its offset")),
            ("b@2026-11-29T02:10:00Z", Err("has no namespace")),
        ] {
            match (text.parse::<Subject>(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn things() {
        for (text, expected) in [
            ("host-1", Ok(Thing::Agent("host-1".parse().unwrap()))),
            (
                "run-12",
                Ok(Thing::Subject(Subject::Run(RunRef::Id(RunId(12))))),
            ),
            (
                "a/b",
                Ok(Thing::Subject(Subject::Job("a/b".parse().unwrap()))),
            ),
            ("12", Err("or a host as in `host-1`")),
            ("Host", Err("or a host as in `host-1`")),
            ("a/b@noon", Err("not a time")),
        ] {
            match (text.parse::<Thing>(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
