//! What people do with jobs, runs and alerts that stand: pause, redo, failed shards, clear.

use protocol::RunState;
use protocol::api::{Alert, ClearAlertAnswer, JobDetail, PauseAnswer, RedoAnswer, RunAnswer};
use protocol::attempt::{AttemptOutcome, Exit, Trigger};
use serde_json::json;

use crate::agent::FakeAgent;
use crate::fires::run_by_hand;
use crate::house::{House, YEARLY, manifest};

#[test]
fn a_paused_job_says_since_when_by_whom_and_why_until_it_is_resumed() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, "begins: paused"));
    let detail: JobDetail = coordinator.get("/api/v1/jobs/t/a");
    assert_eq!(detail.job.next_fire, None);
    assert_eq!(
        detail.job.paused.unwrap().reason,
        "its manifest says `begins: paused`"
    );
    let ask = |verb: &str| -> PauseAnswer {
        let body = match verb {
            "pause" => json!({ "by": "ada", "reason": "the bank is shut" }),
            _ => json!({ "by": "ada" }),
        };
        let path = format!("/api/v1/jobs/t/a/{verb}");
        coordinator.call("POST", &path, Some(&body)).ok()
    };
    let resumed = ask("resume");
    assert!(resumed.changed && !resumed.paused && resumed.next_fire.is_some());
    assert!(!ask("resume").changed);
    let paused = ask("pause");
    assert!(paused.changed && paused.paused && paused.next_fire.is_none());
    let detail: JobDetail = coordinator.get("/api/v1/jobs/t/a");
    let pause = detail.job.paused.unwrap();
    assert_eq!(
        (pause.by.as_str(), pause.reason.as_str()),
        ("ada", "the bank is shut")
    );
    let body = json!({ "by": "ada", "reason": "" });
    coordinator
        .call("POST", "/api/v1/jobs/t/a/pause", Some(&body))
        .refused(400, "invalid");
}

#[test]
fn a_failed_run_is_told_of_rerun_redone_and_told_of_no_more() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    let text = "retry: { at_most: 0, backoff: [1s] }\nrepeatable: { safe: false }";
    coordinator.put_job("t/pay", &manifest("t/pay", YEARLY, text));
    let run = run_by_hand(&coordinator, "t/pay");
    let (token, _) = agent.hear_start();
    agent.started(token);
    agent.ended(token, AttemptOutcome::Failed, Some(Exit::Code(3)));
    coordinator.wait_for_state(&run, RunState::NeedsConfirmation);
    let open = || -> Vec<Alert> { coordinator.get("/api/v1/alerts") };
    let alert = open().remove(0);
    assert_eq!((alert.count, alert.cleared_at), (1, None));
    for words in [
        "exit 3 on host-1",
        "it went wrong",
        "matins confirm run-1 --as",
    ] {
        assert!(alert.text.contains(words), "{}", alert.text);
    }

    let both = json!({ "failed": true, "shard": 0 });
    coordinator
        .ask_run(&run, "rerun", both)
        .refused(400, "invalid");
    let answer: RunAnswer = coordinator
        .ask_run(&run, "rerun", json!({ "failed": true }))
        .ok();
    assert_eq!(answer.state, RunState::Ready);
    assert_eq!(open(), [], "who asked has an answer");
    let (token, _) = agent.hear_start();
    agent.started(token);
    agent.succeed(token);
    coordinator.wait_for_state(&run, RunState::Succeeded);

    let why = coordinator
        .ask_run(&run, "redo", json!({}))
        .refused(409, "refused");
    assert!(why.contains("not declared harmless"), "{why}");
    let redone: RedoAnswer = coordinator
        .ask_run(&run, "redo", json!({ "force": true }))
        .ok();
    assert_eq!(redone.execution, 3);
    let (token, work) = agent.hear_start();
    assert_eq!(work.trigger, Trigger::Redo);
    assert!(work.redo < Some(token.0) && work.redo < work.fence);
    agent.started(token);
    agent.succeed(token);
    coordinator.wait_for_state(&run, RunState::Succeeded);
    let all: Vec<Alert> = coordinator.get("/api/v1/alerts?all=true");
    assert!(all[0].cleared_at.is_some() && all[0].cleared_by.is_none());
}

#[test]
fn a_person_clears_an_alert_once_and_it_stays_on_record() {
    let house = House::new();
    let coordinator = house.start();
    let body = json!({ "by": "ada", "reason": "its disk was sold" });
    coordinator
        .call("POST", "/api/v1/agents/host-9/revoke", Some(&body))
        .ok::<serde_json::Value>();
    let alerts: Vec<Alert> = coordinator.get("/api/v1/alerts");
    assert_eq!(alerts[0].agent.as_ref().unwrap().as_str(), "host-9");
    let path = format!("/api/v1/alerts/{}/clear", alerts[0].id);
    let clear = || -> ClearAlertAnswer { coordinator.call("POST", &path, Some(&body)).ok() };
    assert!(clear().changed);
    assert!(!clear().changed);
    let all: Vec<Alert> = coordinator.get("/api/v1/alerts?all=true");
    assert_eq!(all[0].cleared_by.as_deref(), Some("ada"));
    coordinator
        .call("POST", "/api/v1/alerts/alert-99/clear", Some(&body))
        .refused(404, "not_found");
}

#[test]
fn a_run_by_hand_is_given_parameters_that_its_manifest_names() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("t/p", &manifest("t/p", YEARLY, "params: { region: east }"));
    let ask = |params: serde_json::Value| {
        let body = json!({ "by": "ada", "reason": "to see", "params": params });
        coordinator.call("POST", "/api/v1/jobs/t/p/runs", Some(&body))
    };
    let why = ask(json!({ "regoin": "west" })).refused(409, "refused");
    assert!(why.contains("there is no parameter `regoin`"), "{why}");
    let run: RunAnswer = ask(json!({ "region": "west" })).ok();
    let detail = coordinator.run(&run.run.to_string());
    assert_eq!(detail.run.params["region"], "west");
}
