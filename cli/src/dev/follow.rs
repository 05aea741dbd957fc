//! The thread that speaks with the coordinator of a `matins dev`.

use std::path::Path;
use std::thread;
use std::time::Duration;

use jobs::Manifest;
use protocol::WallMs;
use protocol::api::{self, Alert, Job, Run, RunDetail};
use tokio::sync::mpsc;

use super::Line;
use super::home::Home;
use super::story::Story;
use crate::client::Client;
use crate::clock;
use crate::commands::apply;
use crate::failure::{Failure, Status};
use crate::output::talk;

/// How often the coordinator is asked whether it is up.
const START_PAUSE: Duration = Duration::from_millis(20);
/// How often it is asked what is new.
const PAUSE: Duration = Duration::from_millis(200);

/// How often it is asked what it could not answer.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(1);

/// Most runs asked for at once.
const PAGE: usize = 500;
/// Newest runs looked at to begin with: as many as are given at once.
const NEWEST: usize = 1000;
/// Newest alerts looked at.
const ALERTS: usize = 100;

pub(super) enum News {
    Up(Up),
    Line(Line),
    Failed(Failure),
}

/// The coordinator answers and has the jobs.
pub(super) struct Up {
    pub(super) url: String,
    pub(super) jobs: usize,
    /// Jobs it knows from before that have no manifest any more.
    pub(super) left_over: Vec<String>,
}

/// Applies the manifests as soon as there is a coordinator, then follows what happens. Ends with
/// the process, or when nobody listens.
pub(super) fn follow(home: &Home, manifests: Vec<Manifest>) -> mpsc::Receiver<News> {
    let (tell, news) = mpsc::channel(256);
    let data = home.coordinator();
    let since = clock::now();
    thread::spawn(move || {
        let result = apply_all(&data, &manifests, &tell).and_then(|()| run(&data, since, &tell));
        if let Err(failure) = result {
            // Nobody listens any more when everything is being ended.
            let _ = tell.blocking_send(News::Failed(failure));
        }
    });
    news
}

fn apply_all(
    data: &Path,
    manifests: &[Manifest],
    tell: &mpsc::Sender<News>,
) -> Result<(), Failure> {
    let client = wait_for_coordinator(data)?;
    let (applied, end) = apply::put_all(&client, manifests);
    end?;
    let mut refused = applied.refused;
    if let Some(last) = refused.pop() {
        for told in &refused {
            talk(&told.to_string());
        }
        return Err(Failure::Told(last));
    }
    let known: Vec<Job> = client.get("/api/v1/jobs", &[])?;
    let left_over = known
        .iter()
        .filter(|job| manifests.iter().all(|m| m.name != job.job))
        .map(|job| job.job.to_string())
        .collect();
    let up = Up {
        url: client.url().to_owned(),
        jobs: manifests.len(),
        left_over,
    };
    // Nobody listens any more when everything is being ended.
    let _ = tell.blocking_send(News::Up(up));
    Ok(())
}

/// Tells what happens until nobody listens. Where the coordinator is gone, its successor is asked;
/// what it cannot answer is said once, and asked again.
fn run(data: &Path, since: WallMs, tell: &mpsc::Sender<News>) -> Result<(), Failure> {
    let mut story: Option<Story> = None;
    let mut client = wait_for_coordinator(data)?;
    let mut complaint = None;
    while !tell.is_closed() {
        let lines = match &mut story {
            Some(story) => go_on(&client, story),
            None => begin(&client, since).map(|(begun, lines)| {
                story = Some(begun);
                lines
            }),
        };
        match lines {
            Ok(lines) => {
                for line in lines {
                    // Nobody listens any more when everything is being ended.
                    let _ = tell.blocking_send(News::Line(line));
                }
                thread::sleep(PAUSE);
            }
            Err(Failure::Told(told)) if told.status == Status::Unreachable => {
                client = wait_for_coordinator(data)?;
            }
            Err(Failure::Told(told)) => {
                if complaint.as_ref() != Some(&told) {
                    talk(&told.to_string());
                    complaint = Some(told);
                }
                thread::sleep(COMPLAINT_PAUSE);
            }
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
        }
    }
    Ok(())
}

fn begin(client: &Client, since: WallMs) -> Result<(Story, Vec<Line>), Failure> {
    let newest: Vec<Run> = client.get("/api/v1/runs", &[("limit", NEWEST.to_string())])?;
    let alerts = newest_alerts(client)?;
    Ok(Story::begin(newest, &alerts, since))
}

fn go_on(client: &Client, story: &mut Story) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    loop {
        let after = story.poll_after();
        let query = [("after", after.to_string()), ("limit", PAGE.to_string())];
        let new: Vec<Run> = client.get("/api/v1/runs", &query)?;
        lines.extend(story.handle_new(&new));
        if new.len() < PAGE {
            break;
        }
    }
    let followed: Vec<String> = story.poll_followed().map(|run| run.to_string()).collect();
    for page in followed.chunks(PAGE) {
        let query = [("ids", page.join(",")), ("limit", PAGE.to_string())];
        let runs: Vec<Run> = client.get("/api/v1/runs", &query)?;
        lines.extend(story.handle_followed(&runs));
    }
    lines.extend(story.handle_alerts(&newest_alerts(client)?));
    for line in &mut lines {
        tell_attempts(client, line)?;
    }
    lines.sort_by_key(|line| line.at);
    Ok(lines)
}

/// Adds to a run's end how many attempts it took, where that was more than one a shard.
fn tell_attempts(client: &Client, line: &mut Line) -> Result<(), Failure> {
    let Some(run) = line.ended else {
        return Ok(());
    };
    let detail: RunDetail = client.get(&format!("/api/v1/runs/{run}"), &[])?;
    let execution = detail.run.execution;
    let attempts = detail.shard_list.iter().flat_map(|shard| &shard.attempts);
    let attempts = attempts
        .filter(|attempt| attempt.execution == execution)
        .count();
    if attempts > detail.run.shards as usize {
        line.detail = format!("{}, {attempts} attempts", line.detail);
    }
    Ok(())
}

fn newest_alerts(client: &Client) -> Result<Vec<Alert>, Failure> {
    client.get("/api/v1/alerts", &[("limit", ALERTS.to_string())])
}

/// Waits for as long as it takes; whoever started the coordinator gives up on one that does not
/// come up.
fn wait_for_coordinator(data: &Path) -> Result<Client, Failure> {
    loop {
        let answer = Client::of_data(data).and_then(|client| {
            let _: api::Status = client.get("/api/v1/status", &[])?;
            Ok(client)
        });
        match answer {
            Err(Failure::Told(told)) if told.status == Status::Unreachable => {
                thread::sleep(START_PAUSE);
            }
            answer => return answer,
        }
    }
}
