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
    applied.warn();
    let mut refused = applied.refused;
    if let Some(last) = refused.pop() {
        for told in &refused {
            talk(&told.to_string());
        }
        return Err(Failure::Told(last));
    }
    let known: Vec<Job> = client.list_all("/api/v1/jobs", &[])?;
    let left_over = known
        .iter()
        .filter(|job| manifests.iter().all(|m| m.name != job.job))
        .map(|job| job.job.to_string())
        .collect();
    let up = Up {
        url: client.url(),
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
        let mut lines = Vec::new();
        let look = match &mut story {
            Some(story) => go_on(&client, story, &mut lines),
            None => begin(&client, since).map(|(begun, first)| {
                story = Some(begun);
                lines = first;
            }),
        };
        lines.sort_by_key(|line| line.at);
        for line in lines {
            // Nobody listens any more when everything is being ended.
            let _ = tell.blocking_send(News::Line(line));
        }
        match look {
            Ok(()) => thread::sleep(PAUSE),
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

/// Adds to `lines` what is new. They are to be told also where this is broken off: the story
/// knows them by then and gives them only once.
fn go_on(client: &Client, story: &mut Story, lines: &mut Vec<Line>) -> Result<(), Failure> {
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
    for line in lines {
        tell_attempts(client, line)?;
    }
    Ok(())
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
        // What is to be typed stays at the end.
        let (what, command) = match line.detail.split_once(": ") {
            Some((what, command)) => (what, format!(": {command}")),
            None => (line.detail.as_str(), String::new()),
        };
        line.detail = format!("{what}, {attempts} attempts{command}");
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::dev::story::tests::run;

    /// A coordinator that gives these answers, one after the other, and is gone.
    fn coordinator(answers: Vec<String>) -> (Client, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request: Vec<String> = lines
                    .map(Result::unwrap)
                    .take_while(|line| !line.is_empty())
                    .collect();
                assert!(request[0].starts_with("GET /api/v1/"), "{request:?}");
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{answer}",
                    answer.len()
                )
                .unwrap();
            }
        });
        let data = tempfile::tempdir().unwrap();
        let file = serde_json::json!({"url": url, "token": "t"}).to_string();
        std::fs::write(data.path().join("api.json"), file).unwrap();
        (Client::of_data(data.path()).unwrap(), serving)
    }

    #[test]
    fn what_a_coordinator_told_before_it_died_is_not_lost() {
        let since = WallMs::parse_rfc3339("2026-11-29T02:00:00Z").unwrap();
        let (mut story, _) = Story::begin(Vec::new(), &[], since);
        let new = serde_json::to_string(&[run(1, "ready")]).unwrap();
        let (client, serving) = coordinator(vec![new]);
        let mut lines = Vec::new();
        let result = go_on(&client, &mut story, &mut lines);
        serving.join().unwrap();
        assert!(
            matches!(&result, Err(Failure::Told(told)) if told.status == Status::Unreachable),
            "{result:?}"
        );
        let told: Vec<&str> = lines.iter().map(|line| line.what).collect();
        assert_eq!(told, ["fired"]);
    }
}
