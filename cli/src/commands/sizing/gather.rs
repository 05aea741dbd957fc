//! What was seen, asked of the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::Manifest;
use profiles::classes::Classes;
use protocol::api::{Agent, Attempt, Job, JobDetail, Resource, Run, RunDetail};
use protocol::host::HostFacts;
use protocol::{DurationMs, RunState, WallMs};
use serde_json::Value;
use sizing::history::{History, SeenAttempt, SeenHost, SeenJob, SeenRun};

use crate::client::Client;
use crate::commands::{agent_path, path_of};
use crate::failure::Failure;
use crate::progress::Progress;

/// Newest runs of each job that are looked at: each is a request, and older ones say little.
const RUNS_PER_JOB: usize = 50;

/// Everything between two instants, and what of it was left out.
pub(super) fn gather(
    client: &Client,
    from: WallMs,
    to: WallMs,
) -> Result<(History, Vec<String>), Failure> {
    let mut progress = Progress::new();
    let mut notes = Vec::new();
    let agents: Vec<Agent> = client.list_all("/api/v1/agents", &[])?;
    let mut hosts = Vec::with_capacity(agents.len());
    for agent in agents {
        progress.show(&format!("host {}", agent.agent));
        hosts.push(host(client, agent)?);
    }
    let listed: Vec<Job> = client.list_all("/api/v1/jobs", &[])?;
    let mut jobs = Vec::with_capacity(listed.len());
    let mut cut_off = 0;
    for (at, job) in listed.iter().enumerate() {
        progress.show(&format!("job {} of {}: {}", at + 1, listed.len(), job.job));
        let detail: JobDetail = client.get(&path_of(&job.job), &[])?;
        match Manifest::from_json(&detail.manifest.to_string()) {
            Ok(manifest) => {
                let (runs, more) = runs_of(client, job, from, to)?;
                cut_off += usize::from(more);
                jobs.push(SeenJob {
                    manifest: Arc::new(manifest),
                    shards: detail.shards,
                    runs,
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
    let history = History {
        from,
        to,
        hosts,
        jobs,
        resources: resources.collect::<BTreeMap<_, _>>(),
        classes: Arc::new(Classes::built_in()),
    };
    Ok((history, notes))
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
    let (rows, more): (Vec<Run>, bool) = client.list("/api/v1/runs", &query, RUNS_PER_JOB)?;
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows.iter().rev() {
        let detail: RunDetail = client.get(&format!("/api/v1/runs/{}", row.run), &[])?;
        runs.push(seen_run(&detail));
    }
    Ok((runs, more))
}

fn seen_run(detail: &RunDetail) -> SeenRun {
    let run = &detail.run;
    // An earlier execution is another piece of work.
    let shards = detail.shard_list.iter();
    let attempts = shards.flat_map(|shard| {
        let newest = shard
            .attempts
            .iter()
            .filter(|attempt| attempt.execution == run.execution);
        newest.filter_map(|attempt| seen_attempt(shard.shard, attempt))
    });
    SeenRun {
        fire_time: run.fire_time,
        nominal: run.nominal.first().cloned(),
        admitted: run.admitted_at,
        ended: run.ended_at,
        succeeded: run.state == RunState::Succeeded && run.execution == 1,
        shards: run.shards,
        attempts: attempts.collect(),
    }
}

fn seen_attempt(shard: u32, attempt: &Attempt) -> Option<SeenAttempt> {
    Some(SeenAttempt {
        host: attempt.agent.clone(),
        shard,
        granted: attempt.granted_at,
        started: attempt.started_at?,
        ended: attempt.ended_at?,
        outcome: attempt.outcome?,
        cpu: DurationMs(attempt.cpu_ms.unwrap_or(0)),
        memory_bytes_peak: attempt.memory_bytes_peak.unwrap_or(0),
    })
}
