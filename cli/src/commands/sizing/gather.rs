//! What was seen, asked of the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::Manifest;
use profiles::classes::Classes;
use protocol::api::{self, Agent, AttemptUsage, Job, JobDetail, Resource, RunUsage};
use protocol::attempt::Counted;
use protocol::host::HostFacts;
use protocol::{DurationMs, JobName, RunState, WallMs};
use serde_json::Value;
use sizing::history::{History, SeenAttempt, SeenHost, SeenJob, SeenRun};
use sizing::spans_to_see;

use crate::client::Client;
use crate::commands::{agent_path, path_of};
use crate::failure::Failure;
use crate::progress::Progress;

/// Newest runs of each job that are looked at: older ones say little.
const RUNS_PER_JOB: usize = 50;

/// Runs of all jobs that are looked at because they were beside another.
const RUNS_BESIDE_MAX: usize = 5_000;

const RUNS: &str = "/api/v1/runs/usage";

/// Everything between two instants, and what of it was left out.
pub(super) fn gather(
    client: &Client,
    from: WallMs,
    to: WallMs,
) -> Result<(History, Vec<String>), Failure> {
    let mut progress = Progress::new();
    let mut notes = Vec::new();
    let classes = classes(client)?;
    let agents: Vec<Agent> = client.list_all("/api/v1/agents", &[])?;
    let mut hosts = Vec::with_capacity(agents.len());
    for agent in agents {
        progress.show(&format!("host {}", agent.agent));
        hosts.push(host(client, agent)?);
    }
    let listed: Vec<Job> = client.list_all("/api/v1/jobs", &[])?;
    let mut jobs = Vec::with_capacity(listed.len());
    // From when on all runs of every job are known.
    let (mut cut_off, mut whole_from) = (0, from);
    for (at, job) in listed.iter().enumerate() {
        progress.show(&format!("job {} of {}: {}", at + 1, listed.len(), job.job));
        let detail: JobDetail = client.get(&path_of(&job.job), &[])?;
        match Manifest::from_json(&detail.manifest.to_string()) {
            Ok(manifest) => {
                let (runs, more) = runs_of(client, job, from, to)?;
                if let Some(oldest) = runs.first().filter(|_| more) {
                    cut_off += 1;
                    whole_from = whole_from.max(oldest.fire_time);
                }
                jobs.push(SeenJob {
                    manifest: Arc::new(manifest),
                    shards: detail.shards,
                    runs,
                    has_older: more,
                });
            }
            Err(error) => notes.push(format!("{} is left out: {error}", job.job)),
        }
    }
    if cut_off > 0 {
        notes.push(format!(
            "of {cut_off} jobs only the newest {RUNS_PER_JOB} runs were looked at; a later --from has them whole"
        ));
    }
    let resources: Vec<Resource> = client.list_all("/api/v1/resources", &[])?;
    let resources = resources.into_iter();
    let resources = resources.filter_map(|row| Some((row.resource.parse().ok()?, row.capacity)));
    let mut history = History {
        from,
        to,
        hosts,
        jobs,
        beside: Vec::new(),
        resources: resources.collect::<BTreeMap<_, _>>(),
        classes: Arc::new(classes),
    };
    progress.show("runs beside others");
    let (beside, more) = beside(client, &history, whole_from)?;
    history.beside = beside;
    if more {
        notes.push(format!(
            "of runs beside others only {RUNS_BESIDE_MAX} were looked at: some of the predictions are of a run with less beside it than it had"
        ));
    }
    Ok((history, notes))
}

/// Those that the coordinator goes by, its site's own among them.
fn classes(client: &Client) -> Result<Classes, Failure> {
    let shown: api::Classes = client.get("/api/v1/classes", &[])?;
    Classes::read_shown(&shown).map_err(|error| {
        Failure::of_error(
            "reading the classes of hosts that the coordinator goes by",
            &error,
            "use the `matins` of the coordinator's version: `matins version` names both",
        )
    })
}

/// What was under way while a run that can be told was, where the newest runs of every job do not have
/// it all: long enough before, as the longest run that was seen.
fn beside(
    client: &Client,
    history: &History,
    whole_from: WallMs,
) -> Result<(Vec<(JobName, SeenRun)>, bool), Failure> {
    let runs = history.jobs.iter().flat_map(|job| &job.runs);
    let longest = runs
        .filter_map(|run| Some(run.done_at()? - run.fire_time))
        .max();
    let longest = longest.unwrap_or(DurationMs::ZERO);
    let (mut found, mut asked_from) = (BTreeMap::new(), None);
    for (from, until) in spans_to_see(history) {
        // Spans come in their order, and what two of them ask for is asked for once.
        let from = (from - longest).max(asked_from.unwrap_or(WallMs(i64::MIN)));
        if from >= whole_from {
            break;
        }
        let left = RUNS_BESIDE_MAX.saturating_sub(found.len()).max(1);
        let query = [("from", from.to_rfc3339()), ("to", until.to_rfc3339())];
        let (rows, more): (Vec<RunUsage>, bool) = client.list(RUNS, &query, left)?;
        for row in &rows {
            found.insert(row.run, (row.job.clone(), seen_run(row, history.to)));
        }
        if more {
            return Ok((found.into_values().collect(), true));
        }
        asked_from = Some(until);
    }
    Ok((found.into_values().collect(), false))
}

fn host(client: &Client, agent: Agent) -> Result<SeenHost, Failure> {
    let detail: Value = client.get(&agent_path(&agent.agent), &[])?;
    let facts = detail.pointer("/profile/facts").cloned();
    // A host that has not registered says nothing of itself.
    let facts: Option<HostFacts> = facts.and_then(|facts| serde_json::from_value(facts).ok());
    let labels = agent.labels.iter().filter_map(|label| label.parse().ok());
    Ok(SeenHost {
        labels: labels.collect(),
        slots: agent.slots,
        facts: facts.unwrap_or_default(),
        in_service: agent.state == "ready",
        name: agent.agent,
    })
}

/// Oldest first; whether there are older ones.
fn runs_of(
    client: &Client,
    job: &Job,
    from: WallMs,
    to: WallMs,
) -> Result<(Vec<SeenRun>, bool), Failure> {
    let query = [
        ("job", job.job.to_string()),
        ("from", from.to_rfc3339()),
        ("to", to.to_rfc3339()),
    ];
    let (rows, more): (Vec<RunUsage>, bool) = client.list(RUNS, &query, RUNS_PER_JOB)?;
    let runs = rows.iter().rev().map(|row| seen_run(row, to));
    Ok((runs.collect(), more))
}

fn seen_run(row: &RunUsage, to: WallMs) -> SeenRun {
    // An earlier execution is another piece of work.
    let newest = row.attempts.iter();
    let newest = newest.filter(|attempt| attempt.execution == row.execution);
    SeenRun {
        run: row.run,
        fire_time: row.fire_time,
        nominal: row.nominal.first().cloned(),
        admitted: row.admitted_at,
        ended: row.ended_at,
        succeeded: row.state == RunState::Succeeded && row.execution == 1,
        shards: row.shards,
        attempts: newest.map(|attempt| seen_attempt(attempt, to)).collect(),
    }
}

fn seen_attempt(attempt: &AttemptUsage, to: WallMs) -> SeenAttempt {
    let started = attempt.started_at.unwrap_or(attempt.granted_at);
    let usage = attempt.usage.as_ref();
    let operations = usage.and_then(|usage| {
        let both = usage.read_operations.zip(usage.write_operations);
        both.map(|(reads, writes)| reads.saturating_add(writes))
    });
    SeenAttempt {
        host: attempt.agent.clone(),
        shard: attempt.shard,
        granted: attempt.granted_at,
        started,
        ended: attempt.ended_at.unwrap_or(to).max(started),
        outcome: attempt.outcome,
        cpu: DurationMs(attempt.cpu_ms.unwrap_or(0)),
        memory_bytes_peak: attempt.memory_bytes_peak.unwrap_or(0),
        operations,
        operations_partial: usage.is_some_and(|usage| usage.partial.contains(&Counted::Io)),
        text_bytes: attempt.text_bytes,
    }
}
