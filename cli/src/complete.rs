//! What a shell may complete: beside commands and options the names that a coordinator knows.
//!
//! The shell runs this program for it on every key, so whatever does not answer at once is left
//! out: who types must not wait, and is told nothing of failures.

use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use protocol::api::{Agent, ApiToken, Job, Resource, Run};
use serde::de::DeserializeOwned;

use crate::client::{PAGE_ROWS_MAX, Target};

/// Variable by which a shell says that it wants to know.
pub(crate) const COMPLETE: &str = "MATINS_COMPLETE";

const PATIENCE: Duration = Duration::from_millis(500);

/// Newest runs that are offered. Of names there are as many as one page may hold.
const RUNS: usize = 30;

pub(crate) fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(list_jobs)
}

pub(crate) fn runs() -> ArgValueCandidates {
    ArgValueCandidates::new(list_runs)
}

/// Jobs, runs and hosts.
pub(crate) fn subjects() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let all = list_jobs().into_iter().chain(list_runs());
        all.chain(list_agents()).collect::<Vec<_>>()
    })
}

pub(crate) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(list_agents)
}

pub(crate) fn resources() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let of = |resource: &Resource| (resource.resource.clone(), String::new());
        list("/api/v1/resources", PAGE_ROWS_MAX, of)
    })
}

pub(crate) fn tokens() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let of = |token: &ApiToken| (token.name.to_string(), token.role.to_string());
        list("/api/v1/tokens", PAGE_ROWS_MAX, of)
    })
}

fn list_jobs() -> Vec<CompletionCandidate> {
    let of = |job: &Job| (job.job.to_string(), job.purpose.clone());
    list("/api/v1/jobs", PAGE_ROWS_MAX, of)
}

fn list_runs() -> Vec<CompletionCandidate> {
    let of = |run: &Run| {
        let what = format!("{}@{} {}", run.job, run.fire_time, run.state);
        (run.run.to_string(), what)
    };
    list("/api/v1/runs", RUNS, of)
}

fn list_agents() -> Vec<CompletionCandidate> {
    let of = |agent: &Agent| (agent.agent.to_string(), agent.state.clone());
    list("/api/v1/agents", PAGE_ROWS_MAX, of)
}

fn list<T: DeserializeOwned>(
    path: &str,
    rows: usize,
    of: impl Fn(&T) -> (String, String),
) -> Vec<CompletionCandidate> {
    let found: Vec<T> = Target::default()
        .find()
        .and_then(|client| {
            client
                .within(PATIENCE)
                .get(path, &[("limit", rows.to_string())])
        })
        .unwrap_or_default();
    let named = found.iter().map(of);
    named
        .map(|(name, help)| CompletionCandidate::new(name).help(Some(help.into())))
        .collect()
}
