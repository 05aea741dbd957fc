//! What a person asks of a job, a run or an alert. Each is asked in the user's name.

use std::collections::BTreeMap;

use protocol::api::{
    CancelRequest, ClearAlertAnswer, ClearAlertRequest, ConfirmRequest, PauseAnswer, PauseRequest,
    RedoAnswer, RedoRequest, RerunRequest, ResumeRequest, RunAnswer, RunRequest,
};
use protocol::{RunId, WallMs};

use crate::args::{Alerts, Asking, Cancel, Confirm, Pause, Redo, Rerun, Resume, Run, Verdict};
use crate::client::Client;
use crate::commands::{asking_user, find_run, path_of};
use crate::failure::Failure;
use crate::paint::in_tone;
use crate::subject::RunRef;
use crate::text::count;

pub(crate) fn run(options: &Run) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let path = format!("{}/runs", path_of(&options.job));
    let request = RunRequest {
        params: once_each(&options.params)?,
        fire_time: options.at,
        by: Some(asking_user()),
        reason: options.reason.clone(),
    };
    tell(&options.asking, &client.post(&path, &request)?)
}

fn once_each(params: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for (name, value) in params {
        if let Some(first) = values.insert(name.clone(), value.clone()) {
            return Err(Failure::bad_input(
                format!("reading --param {name}"),
                format!("it is given twice, as `{first}` and as `{value}`"),
                "give it once",
            ));
        }
    }
    Ok(values)
}

pub(crate) fn rerun(options: &Rerun) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let run = id_of(&client, &options.run)?;
    let request = RerunRequest {
        failed: options.failed,
        shard: options.shard,
        by: Some(asking_user()),
        reason: options.reason.clone(),
    };
    let path = format!("/api/v1/runs/{run}/rerun");
    tell(&options.asking, &client.post(&path, &request)?)
}

pub(crate) fn redo(options: &Redo) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let run = id_of(&client, &options.run)?;
    let request = RedoRequest {
        by: Some(asking_user()),
        reason: options.reason.clone(),
        force: options.force,
    };
    let answer: RedoAnswer = client.post(&format!("/api/v1/runs/{run}/redo"), &request)?;
    options.asking.output.print(&answer, |_| {
        format!(
            "{} {}, execution {}\n",
            answer.run,
            in_tone(answer.state.as_str()),
            answer.execution
        )
    })
}

pub(crate) fn cancel(options: &Cancel) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let run = id_of(&client, &options.run)?;
    let request = CancelRequest {
        by: Some(asking_user()),
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
        by: Some(asking_user()),
        reason: options.reason.clone(),
    };
    let path = format!("/api/v1/runs/{run}/confirm");
    tell(&options.asking, &client.post(&path, &request)?)
}

pub(crate) fn pause(options: &Pause) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let request = PauseRequest {
        by: Some(asking_user()),
        reason: options.reason.clone(),
    };
    let path = format!("{}/pause", path_of(&options.job));
    let answer: PauseAnswer = client.post(&path, &request)?;
    options.asking.output.print(&answer, |_| {
        let paused = in_tone("paused");
        if answer.changed {
            format!("{} {paused}; what has fired goes on\n", answer.job)
        } else {
            format!("{} was {paused} already\n", answer.job)
        }
    })
}

pub(crate) fn resume(options: &Resume) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let request = ResumeRequest {
        by: Some(asking_user()),
    };
    let path = format!("{}/resume", path_of(&options.job));
    let answer: PauseAnswer = client.post(&path, &request)?;
    options.asking.output.print(&answer, |_| resumed(&answer))
}

fn resumed(answer: &PauseAnswer) -> String {
    let next = answer.next_fire.map_or_else(
        || "it has no next fire".to_owned(),
        |next: WallMs| format!("next fire {next}"),
    );
    if !answer.changed {
        return format!("{} was not paused; {next}\n", answer.job);
    }
    let skipped = match answer.skipped {
        0 => String::new(),
        n => format!(
            "{} that came while it was paused did not run\n",
            count(n, "fire")
        ),
    };
    format!("{} resumed; {next}\n{skipped}", answer.job)
}

pub(crate) fn alerts(what: &Alerts) -> Result<(), Failure> {
    let Alerts::Clear {
        alert,
        reason,
        asking,
    } = what;
    let request = ClearAlertRequest {
        by: Some(asking_user()),
        reason: reason.clone(),
    };
    let path = format!("/api/v1/alerts/{alert}/clear");
    let answer: ClearAlertAnswer = asking.target.find()?.post(&path, &request)?;
    asking.output.print(&answer, |_| {
        if answer.changed {
            format!("{alert} cleared\n")
        } else {
            format!("{alert} was cleared already\n")
        }
    })
}

fn id_of(client: &Client, run: &RunRef) -> Result<RunId, Failure> {
    match run {
        RunRef::Id(id) => Ok(*id),
        RunRef::Fire { .. } => Ok(find_run(client, run)?.run.run),
    }
}

fn tell(asking: &Asking, answer: &RunAnswer) -> Result<(), Failure> {
    asking.output.print(answer, |_| {
        format!("{} {}\n", answer.run, in_tone(answer.state.as_str()))
    })
}
