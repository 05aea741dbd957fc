//! From a manifest to a run that has succeeded, and the ways in which it does not.

use protocol::RunState;
use protocol::api::{Agent, Alert, JobDetail, Run, RunAnswer, RunDetail, Status};
use protocol::attempt::{AttemptOutcome, Exit, Trigger};
use protocol::message::CoordinatorBody;
use serde_json::json;

use crate::agent::{End, FakeAgent};
use crate::house::{Coordinator, House, YEARLY, manifest, wait_for};
use crate::outputs::printed;

/// Starts a run by hand and answers its id.
pub(crate) fn run_by_hand(coordinator: &Coordinator, job: &str) -> String {
    let body = json!({ "by": "tester", "reason": "a test" });
    let path = format!("/api/v1/jobs/{job}/runs");
    let answer: RunAnswer = coordinator.call("POST", &path, Some(&body)).ok();
    answer.run.to_string()
}

#[test]
fn a_job_fires_and_the_ledger_proves_it() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    let put = coordinator.put_job("t/tick", &manifest("t/tick", "@every 1s", "shards: 2"));
    assert_eq!(
        (&put["result"], &put["version"]),
        (&json!("created"), &json!(1))
    );
    assert!(put["next_fire"].is_string(), "{put}");

    let (first, work) = agent.hear_start();
    assert_eq!(work.job.as_str(), "t/tick");
    assert_eq!(
        (work.shards, work.attempt, work.trigger),
        (2, 1, Trigger::Scheduled)
    );
    assert_eq!(work.exec, ["/bin/true", &work.shard.to_string()]);
    let (second, other) = agent.hear_start();
    assert_eq!((other.run_id, other.shard), (work.run_id, 1 - work.shard));
    agent.has_output(first, &printed(b"what it wrote\n"), End::Orderly);
    agent.succeed(first);
    agent.succeed(second);

    let run = work.run_id.to_string();
    let detail = coordinator.wait_for_state(&run, RunState::Succeeded);
    assert_eq!((detail.run.succeeded, detail.run.shards), (2, 2));
    assert_eq!(detail.run.fire_time, work.fire_time);
    let attempt = &detail.shard_list[work.shard as usize].attempts[0];
    assert_eq!(attempt.token, first);
    assert_eq!(attempt.agent.as_str(), "host-1");
    assert_eq!(attempt.outcome, Some(AttemptOutcome::Succeeded));
    assert!(attempt.started_at.is_some() && attempt.ended_at.is_some());

    let fire_time = work.fire_time.to_rfc3339();
    let same: RunDetail = coordinator.get(&format!(
        "/api/v1/runs/by-fire-time?job=t/tick&fire_time={fire_time}"
    ));
    assert_eq!(same, detail);

    let path = format!("/api/v1/runs/{run}/shards/{}/log", work.shard);
    let output = coordinator.call("GET", &path, None);
    assert_eq!(
        (output.status, output.body),
        (200, json!("what it wrote\n"))
    );
    let path = format!(
        "/api/v1/runs/{run}/shards/{}/log?token={second}",
        other.shard
    );
    let why = coordinator
        .call("GET", &path, None)
        .refused(404, "not_found");
    assert!(why.contains("no such output"), "{why}");
    let path = format!(
        "/api/v1/runs/{run}/shards/{}/log?token={first}",
        other.shard
    );
    coordinator
        .call("GET", &path, None)
        .refused(404, "not_found");
    let path = format!("/api/v1/runs/{run}/shards/2/log");
    coordinator
        .call("GET", &path, None)
        .refused(404, "not_found");

    let job: JobDetail = coordinator.get("/api/v1/jobs/t/tick");
    assert!(
        job.job.next_fire > Some(work.fire_time),
        "{:?}",
        job.job.next_fire
    );
    assert_eq!(job.manifest["shards"], 2);
    let status: Status = coordinator.get("/api/v1/status");
    assert_eq!(
        (status.node.as_str(), status.clock.as_str()),
        ("c1", "no_reference")
    );
    assert_eq!((status.jobs, status.agents, status.agents_ready), (1, 1, 1));
    assert!(status.epoch.is_some());
}

#[test]
fn runs_are_listed_in_pages() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, "overlap: queue"));
    coordinator.put_job("t/b", &manifest("t/b", YEARLY, ""));
    let ids: Vec<String> = (0..5).map(|_| run_by_hand(&coordinator, "t/a")).collect();
    let other = run_by_hand(&coordinator, "t/b");

    let list = |query: &str| -> Vec<String> {
        let runs: Vec<Run> = coordinator.get(&format!("/api/v1/runs?{query}"));
        runs.iter().map(|run| run.run.to_string()).collect()
    };
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(list("job=t/a"), newest_first);
    assert_eq!(list("limit=1").as_slice(), std::slice::from_ref(&other));
    assert_eq!(list(&format!("after={}&limit=2", ids[1])), ids[2..4]);
    assert_eq!(
        list(&format!("ids={},{other}", ids[0])),
        [other, ids[0].clone()]
    );
    assert_eq!(list("job=t/a&state=ready"), ids[..1]);
    assert_eq!(list("job=t/a&state=waiting").len(), 4);
    assert_eq!(list("state=succeeded"), Vec::<String>::new());
}

#[test]
fn a_person_cancels_and_reruns() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    coordinator.put_job("t/long", &manifest("t/long", YEARLY, ""));
    let run = run_by_hand(&coordinator, "t/long");
    let (token, work) = agent.hear_start();
    assert_eq!(work.trigger, Trigger::Manual);

    coordinator
        .ask_run(&run, "rerun", json!({}))
        .refused(409, "refused");
    let answer: RunAnswer = coordinator.ask_run(&run, "cancel", json!({})).ok();
    assert_eq!(
        answer.state,
        RunState::Running,
        "its lease lives until the agent reports"
    );
    agent.hear("the cancel", |body| match body {
        CoordinatorBody::Cancel { token: named, .. } => (named == token).then_some(()),
        _ => None,
    });
    agent.ended(token, AttemptOutcome::Cancelled, Some(Exit::Signal(15)));
    coordinator.wait_for_state(&run, RunState::Cancelled);

    let answer: RunAnswer = coordinator.ask_run(&run, "rerun", json!({})).ok();
    assert_eq!(
        (answer.run.to_string(), answer.state.as_str()),
        (run.clone(), "ready")
    );
    let (again, work) = agent.hear_start();
    assert_eq!((work.run_id, work.trigger), (answer.run, Trigger::Rerun));
    let long = "the first time\n".repeat(100_000);
    agent.has_output(token, &printed(long.as_bytes()), End::Orderly);
    agent.has_output(again, &printed(b"the second time"), End::Orderly);
    agent.succeed(again);
    let detail = coordinator.wait_for_state(&run, RunState::Succeeded);
    assert_eq!(detail.run.execution, 2);
    let path = format!("/api/v1/runs/{run}/shards/0/log");
    for (path, output) in [
        (format!("{path}?token={token}"), long.as_str()),
        (format!("{path}?token={again}"), "the second time"),
        (path, "the second time"),
    ] {
        let answer = coordinator.call("GET", &path, None);
        assert_eq!((answer.status, answer.body), (200, json!(output)));
    }
    assert_eq!(detail.executions[1].by.as_deref(), Some("tester"));
    coordinator
        .ask_run(&run, "cancel", json!({}))
        .refused(409, "refused");
}

#[test]
fn an_unknown_outcome_of_an_unsafe_job_waits_for_a_person() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    coordinator.put_job(
        "t/pay",
        &manifest("t/pay", YEARLY, "repeatable: { safe: false }"),
    );
    let run = run_by_hand(&coordinator, "t/pay");
    let (token, _) = agent.hear_start();
    agent.started(token);
    agent.ended(token, AttemptOutcome::Failed, Some(Exit::Signal(9)));
    let detail = coordinator.wait_for_state(&run, RunState::NeedsConfirmation);
    assert_eq!(
        detail.shard_list[0].attempts[0].tail.as_deref(),
        Some("it went wrong")
    );
    let alerts: Vec<Alert> = coordinator.get("/api/v1/alerts?limit=10");
    assert_eq!(alerts[0].run.map(|id| id.to_string()), Some(run.clone()));

    let bad = coordinator.ask_run(&run, "confirm", json!({ "verdict": "perhaps" }));
    bad.refused(400, "invalid");
    let answer: RunAnswer = coordinator
        .ask_run(&run, "confirm", json!({ "verdict": "retry" }))
        .ok();
    assert_eq!(answer.state, RunState::Ready);
    let (token, work) = agent.hear_start();
    assert_eq!(work.attempt, 2);
    agent.started(token);
    agent.ended(token, AttemptOutcome::TimedOut, Some(Exit::Signal(9)));
    coordinator.wait_for_state(&run, RunState::NeedsConfirmation);
    let answer: RunAnswer = coordinator
        .ask_run(
            &run,
            "confirm",
            json!({ "shard": 0, "verdict": "succeeded" }),
        )
        .ok();
    assert_eq!(answer.state, RunState::Succeeded);
}

#[test]
fn a_host_that_goes_is_offline_and_its_output_out_of_reach() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, ""));
    let run = run_by_hand(&coordinator, "t/a");
    let path = format!("/api/v1/runs/{run}/shards/0/log");
    let (token, _) = agent.hear_start();
    agent.succeed(token);
    let agents: Vec<Agent> = coordinator.get("/api/v1/agents");
    assert_eq!(
        (agents[0].agent.as_str(), agents[0].state.as_str()),
        ("host-1", "ready")
    );
    drop(agent);
    wait_for("the agent to be offline", || {
        let agents: Vec<Agent> = coordinator.get("/api/v1/agents");
        (agents[0].state == "offline").then_some(())
    });
    let why = coordinator
        .call("GET", &path, None)
        .refused(503, "unavailable");
    assert!(why.contains("host-1, which is not connected"), "{why}");

    // A run that no host has taken has no output anywhere.
    let run = run_by_hand(&coordinator, "t/a");
    let path = format!("/api/v1/runs/{run}/shards/0/log");
    coordinator
        .call("GET", &path, None)
        .refused(404, "not_found");

    // Back again it is attached at once: nobody is left to be asked whether it is a second one.
    let back = FakeAgent::connect(&house, &coordinator, "host-1");
    back.follow_invitation(8, Vec::new());
    let first_word = back.hear("an answer", Some);
    assert!(
        matches!(first_word, CoordinatorBody::Attached { .. }),
        "{first_word:?}"
    );
}
