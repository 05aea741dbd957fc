//! What stands in the heads of requests and answers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::house::{Coordinator, House, YEARLY, manifest};

fn bearer(coordinator: &Coordinator) -> String {
    format!("Bearer {}", coordinator.token)
}

/// Puts job `t/a` under a precondition.
fn put_if(
    coordinator: &Coordinator,
    more: &str,
    precondition: (&str, &str),
) -> crate::house::Answer {
    let bearer = bearer(coordinator);
    let headers = [("authorization", bearer.as_str()), precondition];
    let body = json!({ "manifest": manifest("t/a", YEARLY, more), "by": "x" });
    coordinator.call_with("PUT", "/api/v1/jobs/t/a", &headers, Some(body.to_string()))
}

#[test]
fn a_job_is_put_over_the_version_that_was_seen_and_no_other() {
    let house = House::new();
    let coordinator = house.start();
    let first = put_if(&coordinator, "", ("if-none-match", "*"));
    assert_eq!(
        (first.status, first.headers["etag"].as_str()),
        (200, "\"1\"")
    );
    let shown = coordinator.call("GET", "/api/v1/jobs/t/a", None);
    assert_eq!(shown.headers["etag"], "\"1\"");
    let again = put_if(&coordinator, "shards: 2", ("if-none-match", "*"));
    again.refused(412, "changed");
    let second = put_if(&coordinator, "shards: 2", ("if-match", "\"1\""));
    assert_eq!(second.headers["etag"], "\"2\"");
    let late = put_if(&coordinator, "shards: 3", ("if-match", "\"1\""));
    let why = late.refused(412, "changed");
    assert!(
        why.contains('2'),
        "which version is in force is told: {why}"
    );
    for nonsense in ["1", "W/\"1\"", "\"x\"", "\"0\"", "\"1\", \"2\"", "*"] {
        put_if(&coordinator, "", ("if-match", nonsense)).refused(400, "invalid");
    }
    let detail: Value = coordinator.get("/api/v1/jobs/t/a");
    assert_eq!(detail["version"], 2);
}

#[test]
fn every_answer_carries_its_request_s_id() {
    let house = House::new();
    let coordinator = house.start();
    let bearer = bearer(&coordinator);
    let own = [
        ("authorization", bearer.as_str()),
        ("x-request-id", "mine-1"),
    ];
    let fine = coordinator.call_with("GET", "/api/v1/status", &own, None);
    assert_eq!(fine.headers["x-request-id"], "mine-1");
    let refused = coordinator.call_with("GET", "/api/v1/nothing", &own, None);
    assert_eq!(refused.body["request_id"], "mine-1");
    let mut minted = BTreeSet::new();
    for headers in [&[][..], &own[..1], &[("x-request-id", "not sane")]] {
        let answer = coordinator.call_with("GET", "/api/v1/nothing", headers, None);
        let id = answer.headers["x-request-id"].clone();
        assert_eq!(answer.body["request_id"], Value::String(id.clone()));
        assert!(id.starts_with("req-"), "{id}");
        minted.insert(id);
    }
    assert_eq!(minted.len(), 3);
}

#[test]
fn what_is_not_taken_is_said_with_its_status() {
    let house = House::new();
    let coordinator = house.start();
    let bearer = bearer(&coordinator);
    let long = "x".repeat(40 * 1024);
    let body = Some("{}".to_owned());
    for (method, path, header, body, status) in [
        ("GET", "/api/v1/jobs", ("accept", "text/html"), None, 406),
        (
            "GET",
            "/api/v1/jobs",
            ("accept", "application/*"),
            None,
            200,
        ),
        (
            "PUT",
            "/api/v1/jobs/t/a",
            ("content-type", "text/plain"),
            body.clone(),
            415,
        ),
        (
            "PUT",
            "/api/v1/jobs/t/a",
            ("content-type", "application/json"),
            body,
            400,
        ),
        ("GET", "/api/v1/jobs", ("x-long", long.as_str()), None, 431),
        (
            "GET",
            &format!("/api/v1/jobs?{long}"),
            ("x", "y"),
            None,
            431,
        ),
    ] {
        let headers = [("authorization", bearer.as_str()), header];
        let answer = coordinator.call_with(method, path, &headers, body);
        if status == 200 {
            assert_eq!(answer.status, 200);
        } else {
            answer.refused(status, "invalid");
        }
    }
}

/// A client that asks in a circle is slowed down, and whoever watches the coordinator from there is
/// not; but to watch in a circle is no way around it.
#[test]
fn a_client_that_asks_too_fast_is_told_to_wait() {
    let house = House::new();
    let coordinator = house.start();
    let ask = |path| coordinator.call_raw("GET", path, None, None);
    for path in ["/api/v1/nothing", "/metrics"] {
        assert_eq!(ask("/healthz").status, 200);
        let refused = std::iter::repeat_with(|| ask(path))
            .take(20_000)
            .find(|answer| answer.status != 401)
            .expect("no machine asks so slowly for so long");
        assert_eq!(refused.headers["retry-after"], "1");
        refused.refused(429, "throttled");
    }
}

#[test]
fn the_document_describes_what_is_served() {
    let house = House::new();
    let coordinator = house.start();
    let document: Value = coordinator.get("/api/v1/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    let fields = &document["components"]["schemas"]["Run"]["properties"];
    assert_eq!(fields["run"]["pattern"], "^run-[0-9]{1,18}$");
    assert_eq!(fields["fire_time"]["format"], "date-time");
}
