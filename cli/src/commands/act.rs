//! What a person asks of a job or a run. Each is asked in the user's name and with a reason.

use protocol::api::{
    CancelRequest, ConfirmRequest, RerunRequest, RevokeAnswer, RevokeRequest, RunAnswer, RunRequest,
};
use protocol::{AgentName, RunId};

use crate::args::{Asking, Cancel, Confirm, Rerun, Run, Verdict};
use crate::client::Client;
use crate::commands::{asking_user, find_run};
use crate::failure::Failure;
use crate::output::{Format, print, print_json, talk};
use crate::subject::RunRef;

pub(crate) fn run(options: &Run) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let path = format!(
        "/api/v1/jobs/{}/{}/runs",
        options.job.namespace(),
        options.job.name()
    );
    let request = RunRequest {
        params: std::collections::BTreeMap::new(),
        fire_time: options.at,
        by: asking_user(),
        reason: options.reason.clone(),
    };
    tell(&options.asking, &client.post(&path, &request)?)
}

pub(crate) fn rerun(options: &Rerun) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let run = id_of(&client, &options.run)?;
    let request = RerunRequest {
        failed: false,
        shard: options.shard,
        by: asking_user(),
        reason: options.reason.clone(),
    };
    let path = format!("/api/v1/runs/{run}/rerun");
    tell(&options.asking, &client.post(&path, &request)?)
}

pub(crate) fn cancel(options: &Cancel) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let run = id_of(&client, &options.run)?;
    let request = CancelRequest {
        by: asking_user(),
        reason: options.reason.clone(),
    };
    let path = format!("/api/v1/runs/{run}/cancel");
    tell(&options.asking, &client.post(&path, &request)?)
}

pub(crate) fn confirm(options: &Confirm) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let run = id_of(&client, &options.run)?;
    let verdict = match options.verdict {
        Verdict::Succeeded => "succeeded",
        Verdict::Retry => "retry",
        Verdict::Failed => "failed",
    };
    let request = ConfirmRequest {
        shard: options.shard,
        verdict: verdict.to_owned(),
        by: asking_user(),
        reason: options.reason.clone(),
    };
    let path = format!("/api/v1/runs/{run}/confirm");
    tell(&options.asking, &client.post(&path, &request)?)
}

pub(crate) fn revoke(name: &AgentName, reason: String, asking: &Asking) -> Result<(), Failure> {
    let client = asking.target.find()?;
    let request = RevokeRequest {
        by: asking_user(),
        reason,
    };
    let path = format!("/api/v1/agents/{name}/revoke");
    let answer: RevokeAnswer = client.post(&path, &request)?;
    if !answer.known {
        talk(&format!(
            "no agent of this name has ever attached; see that {name} is spelt as its certificate \
             spells it"
        ));
    }
    match asking.output {
        Format::Json => print_json(&answer),
        Format::Table => print(&format!("{name} revoked\n")),
    }
}

fn id_of(client: &Client, run: &RunRef) -> Result<RunId, Failure> {
    match run {
        RunRef::Id(id) => Ok(*id),
        RunRef::Fire { .. } => Ok(find_run(client, run)?.run.run),
    }
}

fn tell(asking: &Asking, answer: &RunAnswer) -> Result<(), Failure> {
    match asking.output {
        Format::Json => print_json(answer),
        Format::Table => print(&format!("{} {}\n", answer.run, answer.state)),
    }
}
