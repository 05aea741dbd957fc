//! What people hand over and ask for.

use std::sync::Arc;

use coordinator_core::{Request, RequestError};
use jobs::Manifest;
use ledger::command::{RerunScope, Verdict};
use ledger::{Cordon, Done, JobRow, RunRow};
use protocol::{AgentName, JobName, RunId, WallMs};
use serde_json::json;

use super::{Held, World};

/// A job as a person writes it, with values that suit a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    pub renamed_from: Option<String>,
    pub cron: String,
    pub dialect: &'static str,
    pub timezone: String,
    pub safe: bool,
    pub shards: u32,
    pub overlap: &'static str,
    /// A run that asks for a person holds up those after it.
    pub strict: bool,
    pub previous: Option<&'static str>,
    /// The jobs that it comes after, and which run of each.
    pub after: Vec<(String, After)>,
    pub misfire: Misfire,
    /// At most so many, so many at once.
    pub catch_up: (u32, u32),
    pub late_after_s: u32,
    pub retries: u32,
    pub backoff_s: Vec<u32>,
    pub timeout_s: u32,
    pub takeover_s: u32,
    pub start_deadline_s: Option<u32>,
    pub labels: Vec<&'static str>,
    pub class: Option<&'static str>,
    /// Processors.
    pub cpu: Option<u32>,
    pub memory: Option<&'static str>,
    /// Units of the resource `db`.
    pub uses: Option<u32>,
    pub priority: u8,
    /// Makes a version of it that differs in nothing that matters.
    pub purpose: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfire {
    RunNow,
    Skip,
    Within(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    SameFire,
    SameDate,
    LatestWithin(u32),
}

impl Job {
    pub fn every_minute(name: &str) -> Job {
        Job {
            name: name.to_owned(),
            renamed_from: None,
            cron: "* * * * *".to_owned(),
            dialect: "vixie",
            timezone: "Etc/UTC".to_owned(),
            safe: true,
            shards: 1,
            overlap: "forbid",
            strict: false,
            previous: None,
            after: Vec::new(),
            misfire: Misfire::RunNow,
            catch_up: (1, 1),
            late_after_s: 60,
            retries: 3,
            backoff_s: vec![1, 5, 30],
            timeout_s: 300,
            takeover_s: 60,
            start_deadline_s: None,
            labels: Vec::new(),
            class: None,
            cpu: None,
            memory: None,
            uses: None,
            priority: 50,
            purpose: "to be simulated".to_owned(),
        }
    }

    /// Fires once, in an hour that no test reaches but by asking.
    pub fn on_demand(name: &str) -> Job {
        Job::every_minute(name).at("0 0 1 1 *")
    }

    /// The same job with another expression.
    pub fn at(mut self, cron: &str) -> Job {
        cron.clone_into(&mut self.cron);
        self
    }

    pub fn manifest(&self) -> Arc<Manifest> {
        let misfire = match self.misfire {
            Misfire::RunNow => json!({ "policy": "run_now", "after": seconds(self.late_after_s) }),
            Misfire::Skip => json!({ "policy": "skip", "after": seconds(self.late_after_s) }),
            Misfire::Within(within) => json!({
                "policy": "within",
                "within": seconds(within),
                "after": seconds(self.late_after_s),
            }),
        };
        let backoff: Vec<String> = self.backoff_s.iter().map(|&s| seconds(s)).collect();
        let mut manifest = json!({
            "name": self.name,
            "purpose": self.purpose,
            "owner": "simulation",
            "repeatable": { "safe": self.safe, "how": "replaces its rows" },
            "schedule": { "cron": self.cron, "timezone": self.timezone, "dialect": self.dialect },
            "misfire": misfire,
            "overlap": self.overlap,
            "serial": if self.strict { "strict" } else { "relaxed" },
            "expected_duration": "10s",
            "timeout": seconds(self.timeout_s),
            "shards": self.shards,
            "retry": { "at_most": self.retries, "backoff": backoff },
            "takeover_after": seconds(self.takeover_s),
            "needs": { "labels": self.labels },
            "priority": self.priority,
            "params": { "who": EVERYBODY },
            "run": { "exec": ["/bin/job", "{shard}/{shards}", "{params.who}"] },
        });
        if let Some(class) = self.class {
            manifest["needs"]["class"] = json!(class);
        }
        if let Some(cpu) = self.cpu {
            manifest["needs"]["cpu"] = json!(cpu);
        }
        if let Some(memory) = self.memory {
            manifest["needs"]["memory"] = json!(memory);
        }
        if let Some(units) = self.uses {
            manifest["needs"]["uses"] = json!({ "db": units });
        }
        if self.misfire != Misfire::Skip {
            let (at_most, concurrency) = self.catch_up;
            manifest["catch_up"] = json!({ "at_most": at_most, "concurrency": concurrency });
        }
        if let Some(previous) = self.previous {
            manifest["previous"] = json!(previous);
        }
        if !self.after.is_empty() {
            let entries = self.after.iter().map(|(job, which)| match which {
                After::SameFire => json!({ "job": job, "match": "same_fire" }),
                After::SameDate => json!({ "job": job, "match": "same_date" }),
                After::LatestWithin(s) => json!({ "job": job, "latest_within": seconds(*s) }),
            });
            manifest["after"] = entries.collect();
        }
        if let Some(old) = &self.renamed_from {
            manifest["renamed_from"] = json!(old);
        }
        if let Some(deadline) = self.start_deadline_s {
            manifest["start_deadline"] = json!(seconds(deadline));
        }
        let manifest = Manifest::from_json(&manifest.to_string());
        Arc::new(manifest.expect("a manifest of a simulation is a good one"))
    }
}

fn seconds(n: u32) -> String {
    format!("{n}s")
}

/// What a run is given where nobody says otherwise.
pub const EVERYBODY: &str = "everybody";

/// How long a person waits for an answer.
const PATIENCE_MS: i64 = 60_000;

const BY: &str = "operator";

impl World {
    /// Asks, and runs the world until there is an answer.
    pub fn ask(
        &mut self,
        request: Request,
    ) -> Result<Result<Done, RequestError>, super::Violation> {
        let id = self.request(request);
        self.run_until("a request is answered", PATIENCE_MS, |w| {
            w.answers.contains_key(&id)
        })?;
        Ok(self.answers[&id].clone())
    }

    /// Asks for something that must be granted.
    pub fn must(&mut self, request: Request) -> Result<Done, super::Violation> {
        let text = brief(&request);
        let answer = self.ask(request)?;
        match answer {
            Ok(done) => Ok(done),
            Err(error) => {
                self.require(false, "P1", "a fair request is granted", || {
                    format!("{text}: {error}")
                });
                Err(self.holds().expect_err("just broken"))
            }
        }
    }

    pub fn put(&mut self, job: &Job) -> Held {
        self.must(put(job)).map(|_| ())
    }

    pub fn run_now(&mut self, job: &str) -> Result<RunId, super::Violation> {
        match self.must(run(job, None))? {
            Done::RunStarted { run_id, .. } => Ok(run_id),
            other => panic!("a run was asked for, the answer is {other:?}"),
        }
    }

    pub fn job(&self, name: &str) -> &JobRow {
        let found = self
            .truth
            .set
            .jobs
            .values()
            .find(|job| job.name.as_str() == name);
        found.unwrap_or_else(|| panic!("no job {name}"))
    }

    pub fn open_run(&self, run_id: RunId) -> Option<&RunRow> {
        self.truth.set.runs.get(&run_id)
    }
}

pub fn put(job: &Job) -> Request {
    Request::PutJob {
        manifest: job.manifest(),
        expected: None,
        by: BY.to_owned(),
    }
}

pub fn delete(job: &str) -> Request {
    Request::DeleteJob {
        job: name(job),
        by: BY.to_owned(),
    }
}

pub fn run(job: &str, instant: Option<WallMs>) -> Request {
    run_for(job, instant, &[])
}

/// A run with values of its own.
pub fn run_for(job: &str, instant: Option<WallMs>, params: &[(&str, &str)]) -> Request {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    Request::Run {
        job: name(job),
        instant,
        params: params.iter().map(owned).collect(),
        by: BY.to_owned(),
        reason: "asked for".to_owned(),
    }
}

pub fn pause(job: &str) -> Request {
    Request::Pause {
        job: name(job),
        by: BY.to_owned(),
        reason: "not now".to_owned(),
    }
}

pub fn resume(job: &str) -> Request {
    Request::Resume {
        job: name(job),
        by: BY.to_owned(),
    }
}

pub fn rerun(run_id: RunId) -> Request {
    rerun_of(run_id, RerunScope::Run)
}

pub fn rerun_of(run_id: RunId, scope: RerunScope) -> Request {
    Request::Rerun {
        run_id,
        scope,
        by: BY.to_owned(),
        reason: "again".to_owned(),
    }
}

pub fn redo(run_id: RunId, force: bool) -> Request {
    Request::Redo {
        run_id,
        by: BY.to_owned(),
        reason: "all of it".to_owned(),
        force,
    }
}

pub fn cancel(run_id: RunId) -> Request {
    Request::Cancel {
        run_id,
        by: BY.to_owned(),
        reason: "no more".to_owned(),
    }
}

pub fn confirm(run_id: RunId, verdict: Verdict) -> Request {
    Request::Confirm {
        run_id,
        shard: None,
        verdict,
        by: BY.to_owned(),
        reason: "looked".to_owned(),
    }
}

/// A machine is lost, stolen or sold: whoever has its key is let in no more.
pub fn revoke(agent: AgentName) -> Request {
    Request::RevokeAgent {
        agent,
        by: BY.to_owned(),
        reason: "its disk was sold".to_owned(),
    }
}

pub fn cordon(agent: &AgentName, cordon: Cordon) -> Request {
    Request::Cordon {
        agent: agent.clone(),
        cordon,
        by: BY.to_owned(),
        reason: "a new disk".to_owned(),
    }
}

pub fn uncordon(agent: &AgentName) -> Request {
    Request::Uncordon {
        agent: agent.clone(),
        by: BY.to_owned(),
    }
}

pub fn put_resource(resource: &str, capacity: u32) -> Request {
    Request::PutResource {
        resource: resource.parse().expect("a good name"),
        capacity,
        by: BY.to_owned(),
    }
}

fn name(job: &str) -> JobName {
    job.parse().expect("a good name")
}

pub fn brief(request: &Request) -> String {
    match request {
        Request::PutJob { manifest, .. } => format!(
            "put {} ({})",
            manifest.name,
            manifest.schedule().spec().cron
        ),
        other => format!("{other:?}"),
    }
}
