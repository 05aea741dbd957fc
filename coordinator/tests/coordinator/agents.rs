//! What agents may do, and what it costs them alone.

use protocol::Token;
use protocol::message::{AgentMessage, CoordinatorBody};
use serde_json::json;

use crate::agent::FakeAgent;
use crate::house::{House, YEARLY, manifest, wait_for};

#[test]
fn a_heartbeat_is_acknowledged_with_the_live_leases() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, "shards: 2"));
    let body = json!({ "by": "x", "reason": "y" });
    coordinator
        .call("POST", "/api/v1/jobs/t/a/runs", Some(&body))
        .ok::<serde_json::Value>();
    let mut tokens = [agent.hear_start().0, agent.hear_start().0];
    tokens.sort();
    for beat in 1..=3 {
        agent.beat(beat, tokens.to_vec());
        let live = agent.hear("the acknowledgement", |body| match body {
            CoordinatorBody::HeartbeatAck {
                beat: acked, live, ..
            } if acked == beat => Some(live),
            _ => None,
        });
        assert_eq!(live, tokens);
    }
}

#[test]
fn garbage_closes_its_own_connection_and_no_other() {
    let house = House::new();
    let coordinator = house.start();
    let good = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    for (name, words) in [
        ("host-2", json!({ "nonsense": {} })),
        ("host-3", json!(["not", "a", "message"])),
        (
            "host-4",
            json!({ "heartbeat": { "session": 1, "beat": -1 } }),
        ),
    ] {
        let bad = FakeAgent::attach(&house, &coordinator, name, 8);
        bad.say_json(words);
        let end = bad.hear_end();
        assert!(end.contains("receiving a message"), "{end}");
    }
    good.beat(1, Vec::new());
    good.hear("an acknowledgement", |body| {
        matches!(body, CoordinatorBody::HeartbeatAck { beat: 1, .. }).then_some(())
    });
}

#[test]
fn a_revoked_agent_is_shut_out_and_a_person_sees_it() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    let body = json!({ "by": "ada", "reason": "its key was copied" });
    let revoke = |name: &str| {
        let path = format!("/api/v1/agents/{name}/revoke");
        coordinator.call("POST", &path, Some(&body))
    };
    let answer: serde_json::Value = revoke("host-1").ok();
    assert_eq!(answer, json!({ "agent": "host-1", "known": true }));
    let end = agent.hear_end();
    assert!(end.contains("revoked"), "{end}");
    let again = FakeAgent::connect(&house, &coordinator, "host-1");
    again.follow_invitation(8, Vec::new());
    let end = again.hear_end();
    assert!(end.contains("its key was copied"), "{end}");

    let agents: Vec<protocol::api::Agent> = coordinator.call("GET", "/api/v1/agents", None).ok();
    assert_eq!(agents[0].state, "revoked");
    let alerts: Vec<protocol::api::Alert> = coordinator.call("GET", "/api/v1/alerts", None).ok();
    assert_eq!(alerts[0].kind, "agent_revoked");
    let answer: serde_json::Value = revoke("host-7").ok();
    assert_eq!(answer, json!({ "agent": "host-7", "known": false }));
}

#[test]
fn an_attach_that_cannot_be_accepted_is_told_why() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::connect(&house, &coordinator, "host-1");
    agent.follow_invitation(0, Vec::new());
    let reason = agent.hear("a refusal", |body| match body {
        CoordinatorBody::AttachRefused { reason } => Some(reason),
        _ => None,
    });
    let end = agent.hear_end();
    assert!(end.contains(&reason), "{end:?} names {reason:?}");
}

#[test]
fn a_second_attach_asks_the_first_connection_and_takes_its_place() {
    let house = House::new();
    let coordinator = house.start();
    let old = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    let new = FakeAgent::connect(&house, &coordinator, "host-1");
    let nonce = new.follow_invitation(8, vec![Token(77)]);
    old.hear("the question", |body| {
        (body == CoordinatorBody::NonceQuery { nonce }).then_some(())
    });
    old.say(AgentMessage::NonceAnswer { nonce, mine: true });
    let kill = new.hear("to be attached", |body| match body {
        CoordinatorBody::Attached { kill, .. } => Some(kill),
        _ => None,
    });
    assert_eq!(kill, [Token(77)], "an attempt that nobody granted");
    let end = old.hear_end();
    assert!(end.contains("replaced by a newer connection"), "{end}");
}

#[test]
fn an_agent_that_does_not_read_is_cut_off_and_blocks_nobody() {
    let house = House::new();
    let coordinator = house.start();
    let deaf = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    deaf.deafen();
    // Each beat is answered; the answers fill the stream's window, and then the queue.
    for beat in 1..=20_000 {
        deaf.beat(beat, Vec::new());
    }
    let end = deaf.hear_end();
    assert!(end.contains("does not read"), "{end}");
    let good = FakeAgent::attach(&house, &coordinator, "host-2", 8);
    good.beat(1, Vec::new());
    good.hear("an acknowledgement", |body| {
        matches!(body, CoordinatorBody::HeartbeatAck { beat: 1, .. }).then_some(())
    });
}

#[test]
fn an_agent_has_only_so_many_connections() {
    let house = House::new();
    let coordinator = house.start();
    let agents: Vec<FakeAgent> = (0..9)
        .map(|_| FakeAgent::connect(&house, &coordinator, "host-1"))
        .collect();
    let end = wait_for("the ninth to be sent away", || {
        agents.iter().find_map(FakeAgent::ended_with)
    });
    assert!(end.contains("8 connections already"), "{end}");
    FakeAgent::attach(&house, &coordinator, "host-2", 8);
}
