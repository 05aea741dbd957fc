//! What the API takes and what it does not.

use std::io::{Read, Write};
use std::net::TcpStream;

use protocol::api::{Job, JobPlan, PutJobAnswer};
use serde_json::{Value, json};

use crate::house::{House, PATIENCE, YEARLY, manifest};

#[test]
fn nothing_is_answered_without_the_token() {
    let house = House::new();
    let coordinator = house.start();
    let token = coordinator.token.clone();
    let wrong = token.replace(|c| c != '0', "0");
    for authorization in [
        None,
        Some(String::new()),
        Some(token.clone()),
        Some(format!("Basic {token}")),
        Some("Bearer ".to_owned()),
        Some(format!("Bearer {wrong}")),
        Some(format!("Bearer {token}0")),
        Some(format!("Bearer {}", &token[1..])),
    ] {
        for path in [
            "/api/v1/jobs",
            "/api/v1/status",
            "/api/v1/nothing",
            "/",
            "/healthz/x",
        ] {
            coordinator
                .call_raw("GET", path, authorization.as_deref(), None)
                .refused(401, "unauthorized");
        }
        let put = coordinator.call_raw(
            "PUT",
            "/api/v1/jobs/t/a",
            authorization.as_deref(),
            Some(json!({ "manifest": manifest("t/a", YEARLY, ""), "by": "x" }).to_string()),
        );
        put.refused(401, "unauthorized");
    }
    let jobs: Vec<Job> = coordinator.get("/api/v1/jobs");
    assert_eq!(jobs, []);
    let health = coordinator.call_raw("GET", "/healthz", None, None);
    assert_eq!(
        (health.status, health.body),
        (200, json!({ "status": "ok" }))
    );
    let lower = format!("bearer {token}");
    let answer = coordinator.call_raw("GET", "/api/v1/jobs", Some(&lower), None);
    assert_eq!(answer.status, 200, "the scheme's case is free");
}

#[test]
fn what_cannot_be_understood_is_refused_with_its_reason() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, ""));
    let put = |text: &str| json!({ "manifest": text, "by": "x" }).to_string();
    let asked = json!({ "by": "x", "reason": "y" }).to_string();
    let long = json!({ "by": "x", "reason": "y".repeat(5000) }).to_string();
    let two = format!(
        "{}---\n{}",
        manifest("t/a", YEARLY, ""),
        manifest("t/b", YEARLY, "")
    );
    let (get, post, jobs_a) = ("GET", "POST", "/api/v1/jobs/t/a");
    for (method, path, body, status, kind, part) in [
        (
            get,
            "/api/v1/jobs/",
            "",
            404,
            "not_found",
            "nothing at this path",
        ),
        (
            get,
            "/api/v2/jobs",
            "",
            404,
            "not_found",
            "nothing at this path",
        ),
        (
            post,
            "/api/v1/jobs",
            "",
            405,
            "invalid",
            "POST means nothing",
        ),
        (
            "DELETE",
            "/healthz",
            "",
            405,
            "invalid",
            "DELETE means nothing",
        ),
        (
            get,
            "/api/v1/jobs/t/none",
            "",
            404,
            "not_found",
            "no job `t/none`",
        ),
        (
            get,
            "/api/v1/jobs/T/a",
            "",
            400,
            "invalid",
            "`T` is not a valid name",
        ),
        (
            get,
            "/api/v1/jobs/t/a%2Fb",
            "",
            400,
            "invalid",
            "more than one `/`",
        ),
        (get, "/api/v1/runs/12", "", 400, "invalid", "not a run id"),
        (
            get,
            "/api/v1/runs/run-12",
            "",
            404,
            "not_found",
            "no run-12",
        ),
        (
            get,
            "/api/v1/runs?limit=0",
            "",
            400,
            "invalid",
            "between 1 and 1000",
        ),
        (
            get,
            "/api/v1/runs?limit=1001",
            "",
            400,
            "invalid",
            "between 1 and 1000",
        ),
        (
            get,
            "/api/v1/runs?limit=x",
            "",
            400,
            "invalid",
            "invalid digit",
        ),
        (
            get,
            "/api/v1/runs?state=done",
            "",
            400,
            "invalid",
            "unknown variant `done`",
        ),
        (
            get,
            "/api/v1/runs?stat=ready",
            "",
            400,
            "invalid",
            "unknown field `stat`",
        ),
        (
            get,
            "/api/v1/runs?ids=run-1,2",
            "",
            400,
            "invalid",
            "not a run id",
        ),
        (
            get,
            "/api/v1/runs?after=",
            "",
            400,
            "invalid",
            "not a run id",
        ),
        (
            get,
            "/api/v1/runs/by-fire-time",
            "",
            400,
            "invalid",
            "missing field",
        ),
        (
            get,
            "/api/v1/runs/by-fire-time?job=t/a&fire_time=now",
            "",
            400,
            "invalid",
            "not a time",
        ),
        (
            get,
            "/api/v1/runs/by-fire-time?job=t/a&fire_time=2024-02-29T00:00:00Z",
            "",
            404,
            "not_found",
            "no run of",
        ),
        (
            get,
            "/api/v1/alerts?limit=0",
            "",
            400,
            "invalid",
            "between 1 and 1000",
        ),
        (
            get,
            "/api/v1/runs/run-1/shards/x/log",
            "",
            400,
            "invalid",
            "not the number of a shard",
        ),
        (
            get,
            "/api/v1/runs/run-1/shards/0/log?token=7",
            "",
            400,
            "invalid",
            "not a token id",
        ),
        (
            "PUT",
            jobs_a,
            "",
            400,
            "invalid",
            "not what this request takes",
        ),
        (
            "PUT",
            jobs_a,
            "{",
            400,
            "invalid",
            "not what this request takes",
        ),
        (
            "PUT",
            jobs_a,
            &asked,
            400,
            "invalid",
            "unknown field `reason`",
        ),
        (
            "PUT",
            jobs_a,
            &put("name: [}"),
            400,
            "invalid",
            "manifest:1:",
        ),
        ("PUT", jobs_a, &put("name: t/a"), 400, "invalid", "purpose"),
        (
            "PUT",
            jobs_a,
            &put(&manifest("t/b", YEARLY, "")),
            400,
            "invalid",
            "that of t/b",
        ),
        ("PUT", jobs_a, &put(&two), 400, "invalid", "2 manifests"),
        (
            "DELETE",
            jobs_a,
            "{\"by\": \" \"}",
            400,
            "invalid",
            "`by` is empty",
        ),
        (
            "DELETE",
            "/api/v1/jobs/t/none",
            "{\"by\": \"x\"}",
            404,
            "not_found",
            "no job `t/none`",
        ),
        (
            post,
            "/api/v1/jobs/t/a/runs",
            "{\"by\": \"x\", \"reason\": \"\"}",
            400,
            "invalid",
            "`reason` is empty",
        ),
        (
            post,
            "/api/v1/jobs/t/a/runs",
            &long,
            400,
            "invalid",
            "longer than 4096",
        ),
        (
            post,
            "/api/v1/jobs/t/none/runs",
            &asked,
            404,
            "not_found",
            "no job `t/none`",
        ),
        (
            post,
            "/api/v1/runs/run-1/rerun",
            &asked,
            404,
            "not_found",
            "no run-1",
        ),
        (
            post,
            "/api/v1/runs/run-1/cancel",
            &asked,
            404,
            "not_found",
            "no run-1",
        ),
        (
            post,
            "/api/v1/runs/run-1/confirm",
            &asked,
            400,
            "invalid",
            "missing field `verdict`",
        ),
    ] {
        let body = Some(body.to_owned()).filter(|body| !body.is_empty());
        let bearer = format!("Bearer {}", coordinator.token);
        let answer = coordinator.call_raw(method, path, Some(&bearer), body);
        assert_eq!(
            answer.headers.contains_key("allow"),
            status == 405,
            "{method} {path}"
        );
        let why = answer.refused(status, kind);
        assert!(why.contains(part), "{method} {path}: {why}");
    }
}

#[test]
fn a_body_names_its_fields_and_its_author_in_plain_text() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, ""));
    let asked = |by: &str, reason: &str| json!({ "by": by, "reason": reason }).to_string();
    let runs = "/api/v1/jobs/t/a/runs";
    let bearer = format!("Bearer {}", coordinator.token);
    for (body, part) in [
        (
            json!([null, {}, "a", "b"]).to_string(),
            "it is an array, not an object",
        ),
        (
            format!(" \n{}", json!([null, {}, "a", "b"])),
            "it is an array, not an object",
        ),
        (
            asked("a\0b", "y"),
            "`by` holds the control character U+0000",
        ),
        (
            asked("a\nb", "y"),
            "`by` holds the control character U+000A",
        ),
        (
            asked("x", "y\u{1b}[2J"),
            "`reason` holds the control character U+001B",
        ),
        (
            asked("x", "y\u{9b}2J"),
            "`reason` holds the control character U+009B",
        ),
        (
            asked("x", "y\rz"),
            "`reason` holds the control character U+000D",
        ),
    ] {
        let answer = coordinator.call_raw("POST", runs, Some(&bearer), Some(body.clone()));
        let why = answer.refused(400, "invalid");
        assert!(why.contains(part), "{body}: {why}");
    }
    let listed: Vec<Value> = coordinator.get("/api/v1/runs");
    assert_eq!(listed, Vec::<Value>::new());
    let lines = json!({ "by": "x", "reason": "two\nlines\tof it" });
    let answer = coordinator.call("POST", runs, Some(&lines));
    assert_eq!(answer.status, 200, "{:?}", answer.body);
}

#[test]
fn a_request_that_cannot_be_understood_is_named_as_it_was_sent() {
    let house = House::new();
    let coordinator = house.start();
    let bearer = format!("Bearer {}", coordinator.token);
    for (method, path, query) in [
        ("GET", "/api/v1/runs/12", ""),
        ("GET", "/api/v1/runs", "?limit=x"),
        ("PUT", "/api/v1/jobs/t/a", ""),
        ("GET", "/api/v1/alerts", "?limit=x"),
    ] {
        let body = (method == "PUT").then(|| "{".to_owned());
        let answer = coordinator.call_raw(method, &format!("{path}{query}"), Some(&bearer), body);
        assert_eq!(answer.body["what"], format!("{method} {path}"));
        answer.refused(400, "invalid");
    }
}

#[test]
fn a_body_has_a_largest_size() {
    let house = House::new();
    let coordinator = house.start();
    let put = |bytes: usize| {
        let body = json!({ "manifest": "x".repeat(bytes), "by": "x" });
        coordinator.call("PUT", "/api/v1/jobs/t/a", Some(&body))
    };
    let why = put(1024 * 1024).refused(413, "invalid");
    assert!(why.contains("1048576 bytes"), "{why}");
    put(1024 * 1024 - 100).refused(400, "invalid");
}

#[test]
fn what_is_no_http_ends_its_own_connection() {
    let house = House::new();
    let coordinator = house.start();
    let mut stream = TcpStream::connect(coordinator.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"\0\x01garbage\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    let jobs: Vec<Job> = coordinator.get("/api/v1/jobs");
    assert_eq!(jobs, []);
}

#[test]
fn jobs_are_put_changed_and_deleted() {
    let house = House::new();
    let coordinator = house.start();
    let put = |text: &str| -> Value { coordinator.put_job("t/a", text) };
    let first = manifest("t/a", YEARLY, "");
    assert_eq!(put(&first)["result"], "created");
    assert_eq!(put(&first)["result"], "unchanged");
    let changed = put(&manifest("t/a", YEARLY, "shards: 3"));
    assert_eq!(
        (&changed["result"], &changed["version"]),
        (&json!("changed"), &json!(2))
    );
    let moved = coordinator.put_job("t/b", &manifest("t/b", YEARLY, "renamed_from: t/a"));
    assert_eq!(
        (&moved["result"], &moved["id"]),
        (&json!("renamed"), &changed["id"])
    );
    let body = json!({ "manifest": first, "by": "x" });
    let why = coordinator
        .call("PUT", "/api/v1/jobs/t/a", Some(&body))
        .refused(409, "refused");
    assert!(why.contains("was renamed to `t/b`"), "{why}");

    let body = json!({ "by": "x", "reason": "y", "fire_time": "2400-02-29T00:00:00Z" });
    let run = coordinator.call("POST", "/api/v1/jobs/t/b/runs", Some(&body));
    run.refused(409, "refused");
    let body = json!({ "by": "x", "reason": "y", "fire_time": "2024-02-28T00:00:00Z" });
    let run = coordinator.call("POST", "/api/v1/jobs/t/b/runs", Some(&body));
    let why = run.refused(409, "refused");
    assert!(why.contains("names no fire"), "{why}");

    let body = json!({ "by": "x" });
    let gone: Value = coordinator
        .call("DELETE", "/api/v1/jobs/t/b", Some(&body))
        .ok();
    assert_eq!(gone, json!({ "job": "t/b" }));
    coordinator
        .call("GET", "/api/v1/jobs/t/b", None)
        .refused(404, "not_found");
    let again = coordinator.put_job("t/b", &manifest("t/b", YEARLY, ""));
    assert_eq!(
        (&again["result"], &again["id"]),
        (&json!("revived"), &changed["id"])
    );
}

/// Whoever puts a job hears at once that it would find no place, and whoever plans it too.
#[test]
fn a_job_that_asks_for_what_there_is_not_is_taken_with_a_warning() {
    let house = House::new();
    let coordinator = house.start();
    let text = manifest("t/a", YEARLY, "needs: { class: ledger }");
    let body = json!({ "manifest": text });
    let plan: JobPlan = coordinator
        .call("POST", "/api/v1/jobs/t/a/plan", Some(&body))
        .ok();
    let answer: PutJobAnswer = serde_json::from_value(coordinator.put_job("t/a", &text)).unwrap();
    assert_eq!(answer.result, "created");
    let [warning] = &answer.warnings[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (warning.kind.as_str(), warning.field.as_str()),
        ("no_such_class", "needs.class")
    );
    assert_eq!(plan.warnings, answer.warnings);
    let plain = coordinator.put_job("t/b", &manifest("t/b", YEARLY, ""));
    assert_eq!(plain["warnings"], json!([]));
}

/// What would be done is told, and nothing is: not even a version or a line of the audit.
#[test]
fn a_plan_changes_nothing() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, ""));
    let before: Vec<Job> = coordinator.get("/api/v1/jobs");
    let plan = |name: &str, manifest: Option<String>| {
        let path = format!("/api/v1/jobs/{name}/plan");
        coordinator.call("POST", &path, Some(&json!({ "manifest": manifest })))
    };
    for (name, text, result, version, followed) in [
        (
            "t/a",
            Some(manifest("t/a", YEARLY, "")),
            "unchanged",
            Some(1),
            Some(1),
        ),
        (
            "t/a",
            Some(manifest("t/a", YEARLY, "shards: 3")),
            "changed",
            Some(2),
            Some(1),
        ),
        (
            "t/b",
            Some(manifest("t/b", YEARLY, "")),
            "created",
            Some(1),
            None,
        ),
        (
            "t/b",
            Some(manifest("t/b", YEARLY, "renamed_from: t/a")),
            "renamed",
            Some(2),
            Some(1),
        ),
        ("t/a", None, "deleted", None, Some(1)),
    ] {
        let plan: JobPlan = plan(name, text).ok();
        assert_eq!((plan.result.as_str(), plan.version), (result, version));
        assert_eq!(plan.before.map(|before| before.version), followed);
        assert!(plan.cut_over >= before[0].fired_through, "{name}");
        assert_eq!((plan.open_runs, plan.leases), (0, 0));
    }
    plan("t/none", None).refused(404, "not_found");
    plan("t/a", Some("name: [}".to_owned())).refused(400, "invalid");
    let after: Vec<Job> = coordinator.get("/api/v1/jobs");
    assert_eq!(after, before);
}
