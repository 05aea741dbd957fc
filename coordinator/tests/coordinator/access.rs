//! Who may do what: every operation of the API's own description is asked for with a token of every
//! role and reach, and what is said there is what is enforced.

use std::collections::BTreeMap;

use protocol::api::{
    Alert, ApiToken, AuditEntry, CreatedToken, Job, JobDetail, RevokeTokenAnswer, Run, RunUsage,
};
use protocol::attempt::{AttemptOutcome, Exit};
use protocol::{ApiRole, RunState};
use serde_json::{Value, json};

use crate::agent::FakeAgent;
use crate::fires::run_by_hand;
use crate::house::{Answer, Coordinator, House, YEARLY, manifest};

/// A job with a run and an alert of its own, in a namespace.
struct Target {
    namespace: &'static str,
    run: String,
    fire_time: String,
    alert: String,
}

fn make(coordinator: &Coordinator, body: &Value) -> Answer {
    coordinator.call("POST", "/api/v1/tokens", Some(body))
}

fn token(coordinator: &Coordinator, name: &str, role: &str, namespaces: &Value) -> String {
    let body = json!({ "name": name, "role": role, "namespaces": namespaces, "by": "ada" });
    let made: CreatedToken = make(coordinator, &body).ok();
    made.token
}

fn ask(coordinator: &Coordinator, token: &str, method: &str, path: &str) -> Answer {
    coordinator.call_raw(method, path, Some(&format!("Bearer {token}")), None)
}

fn target(coordinator: &Coordinator, agent: &FakeAgent, namespace: &'static str) -> Target {
    let job = format!("{namespace}/job");
    let text = "retry: { at_most: 0, backoff: [1s] }\nrepeatable: { safe: false }";
    coordinator.put_job(&job, &manifest(&job, YEARLY, text));
    let run = run_by_hand(coordinator, &job);
    let (token, _) = agent.hear_start();
    agent.started(token);
    agent.ended(token, AttemptOutcome::Failed, Some(Exit::Code(3)));
    let detail = coordinator.wait_for_state(&run, RunState::NeedsConfirmation);
    let alerts: Vec<Alert> = coordinator.get(&format!("/api/v1/alerts?job={job}"));
    Target {
        namespace,
        run,
        fire_time: detail.run.fire_time.to_rfc3339(),
        alert: alerts[0].id.to_string(),
    }
}

/// The path of an operation, about this target where it is about a job.
fn path_to(target: &Target, template: &str) -> String {
    let id = if template.contains("/alerts/") {
        &target.alert
    } else {
        &target.run
    };
    let name = match template.split('/').nth(3) {
        Some("jobs") => "job",
        Some("agents") => "host-1",
        _ => "other",
    };
    let path = template
        .replace("{namespace}", target.namespace)
        .replace("{name}", name)
        .replace("{id}", id)
        .replace("{shard}", "0");
    let query = match template.rsplit('/').next() {
        Some("by-fire-time") => format!(
            "?job={}/job&fire_time={}",
            target.namespace, target.fire_time
        ),
        Some("expectation") => format!("?at={}", target.fire_time),
        _ => String::new(),
    };
    path + &query
}

/// What an operation takes, with a value for each field that it cannot do without.
fn body_for(document: &Value, operation: &Value, target: &Target) -> Option<String> {
    let content = &operation["requestBody"]["content"]["application/json"];
    let schema = content["schema"]["$ref"].as_str()?;
    let schema = document.pointer(schema.strip_prefix('#')?)?;
    let job = format!("{}/job", target.namespace);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = required.iter().map(|field| {
        let field = field.as_str().unwrap();
        let value = match field {
            "reason" => json!("a test"),
            "manifest" => json!(manifest(&job, YEARLY, "")),
            "verdict" => json!("failed"),
            "capacity" | "uses" => json!(1),
            "expires_at" => json!("2100-01-01T00:00:00Z"),
            "secret" | "request" => json!("nothing"),
            "address" => json!("127.0.0.1:1"),
            "node" => json!(9),
            "name" => json!("made-by-the-test"),
            "role" => json!("viewer"),
            "namespaces" => json!(null),
            other => panic!("no value for {other}: add one"),
        };
        (field.to_owned(), value)
    });
    Some(fields.collect::<serde_json::Map<_, _>>().into()).map(|body: Value| body.to_string())
}

#[test]
fn what_is_described_is_what_is_enforced() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    let targets = ["fin", "hr"].map(|namespace| target(&coordinator, &agent, namespace));
    let mut tokens = Vec::new();
    for role in ApiRole::ALL {
        for (reach, namespaces) in [("all", json!(null)), ("fin", json!(["fin"]))] {
            let name = format!("{role}-{reach}");
            let secret = token(&coordinator, &name, role.as_str(), &namespaces);
            tokens.push((name, *role, reach == "fin", secret));
        }
    }
    let document: Value = coordinator.get("/api/v1/openapi.json");
    let mut answers: BTreeMap<u16, u32> = BTreeMap::new();
    for (path, of_path) in document["paths"].as_object().unwrap() {
        for (method, operation) in of_path.as_object().unwrap() {
            let needs = &operation["security"][0]["bearer"][0];
            let reach = operation["x-matins-reach"].as_str();
            for target in &targets {
                let body = body_for(&document, operation, target);
                // What a list or a page holds is another test's.
                let one = ["/runs/{", "/runs/by-fire-time", "/alerts/{"];
                let names_one = one.iter().any(|one| path.contains(one));
                let path = path_to(target, path);
                for (name, role, limited, secret) in &tokens {
                    let answer = coordinator.call_raw(
                        &method.to_uppercase(),
                        &path,
                        Some(&format!("Bearer {secret}")),
                        body.clone(),
                    );
                    let elsewhere = target.namespace != "fin";
                    let allowed = needs.as_str().is_none_or(|needs| {
                        *role >= needs.parse().unwrap()
                            && match reach.unwrap() {
                                "common" => true,
                                "everything" => !limited,
                                "job" => !(*limited && elsewhere),
                                "within" => !(*limited && elsewhere && names_one),
                                other => panic!("{other}"),
                            }
                    });
                    *answers.entry(answer.status).or_default() += 1;
                    assert_eq!(
                        !matches!(answer.status, 401 | 403),
                        allowed,
                        "{name} {method} {path}: {} {}",
                        answer.status,
                        answer.body
                    );
                    if !allowed {
                        answer.refused(403, "forbidden");
                    }
                }
            }
        }
    }
    for status in [200, 403, 404, 409] {
        assert!(answers.get(&status).is_some_and(|&n| n > 5), "{answers:?}");
    }
}

#[test]
fn a_limited_token_is_told_of_its_own_namespaces_only() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    for namespace in ["fin", "fin-2", "hr"] {
        target(&coordinator, &agent, namespace);
    }
    coordinator.put_job(
        "fin/moved",
        &manifest("fin/moved", YEARLY, "renamed_from: hr/job"),
    );
    let fin = token(&coordinator, "fin", "operator", &json!(["fin"]));
    let hr = token(&coordinator, "hr", "operator", &json!(["hr"]));
    let get = |token: &str, path: &str| ask(&coordinator, token, "GET", path);

    let names = |jobs: Vec<Job>| -> Vec<String> {
        jobs.into_iter().map(|job| job.job.to_string()).collect()
    };
    let listed: Vec<Job> = get(&fin, "/api/v1/jobs").ok();
    assert_eq!(names(listed), ["fin/job", "fin/moved"]);
    let listed: Vec<Job> = get(&hr, "/api/v1/jobs").ok();
    assert_eq!(names(listed), [""; 0]);
    let listed: Vec<Job> = get(&fin, "/api/v1/jobs?namespace=fin-2").ok();
    assert_eq!(names(listed), [""; 0]);
    for path in ["/api/v1/runs", "/api/v1/runs?job=hr/job"] {
        let runs: Vec<Run> = get(&hr, path).ok();
        assert_eq!(runs, [], "{path}");
        let runs: Vec<Run> = get(&fin, path).ok();
        assert!(
            runs.iter().all(|run| run.job.namespace() == "fin") && !runs.is_empty(),
            "{path}"
        );
    }
    let usages = |token: &str| -> Vec<RunUsage> { get(token, "/api/v1/runs/usage").ok() };
    assert_eq!(usages(&hr), []);
    let seen = usages(&fin);
    assert!(seen.iter().all(|run| run.job.namespace() == "fin") && !seen.is_empty());
    let alerts: Vec<Alert> = get(&fin, "/api/v1/alerts?all=true").ok();
    assert_eq!(alerts.len(), 2);
    let audit: Vec<AuditEntry> = get(&fin, "/api/v1/audit").ok();
    assert!(!audit.is_empty());
    for entry in audit {
        assert_eq!(entry.job.unwrap().namespace(), "fin");
    }
    // An old name leads to a job that is another's now.
    for path in ["", "/gaps", "/expectation?at=2026-01-01T00:00:00Z"] {
        let path = format!("/api/v1/jobs/hr/job{path}");
        get(&hr, &path).refused(403, "forbidden");
    }
    // Nor does a manifest take over what is another's.
    let text = manifest("hr/taken", YEARLY, "renamed_from: fin/job");
    let body = json!({ "manifest": text }).to_string();
    for (method, path) in [
        ("PUT", "/api/v1/jobs/hr/taken"),
        ("POST", "/api/v1/jobs/hr/taken/plan"),
    ] {
        let bearer = format!("Bearer {hr}");
        let why = coordinator
            .call_raw(method, path, Some(&bearer), Some(body.clone()))
            .refused(403, "forbidden");
        assert!(why.contains("the token hr is operator of hr/*"), "{why}");
    }
    let detail: JobDetail = coordinator.get("/api/v1/jobs/fin/job");
    assert_eq!(detail.job.version, 1);
}

#[test]
fn what_a_manifest_forbids_only_an_admin_overrules() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    let run = target(&coordinator, &agent, "fin").run;
    let operator = token(&coordinator, "op", "operator", &json!(null));
    let redo = |token: &str, force: bool| {
        let body = json!({ "reason": "a test", "force": force }).to_string();
        let path = format!("/api/v1/runs/{run}/redo");
        coordinator.call_raw("POST", &path, Some(&format!("Bearer {token}")), Some(body))
    };
    redo(&operator, false).refused(409, "refused");
    redo(&operator, true).refused(403, "forbidden");
    let admin = token(&coordinator, "boss", "admin", &json!(["fin"]));
    assert_eq!(redo(&admin, true).status, 200);
}

#[test]
fn a_token_signs_with_its_own_name_and_ends_when_it_is_revoked() {
    let house = House::new();
    let coordinator = house.start();
    coordinator.put_job("fin/job", &manifest("fin/job", YEARLY, ""));
    let ci = token(&coordinator, "ci", "operator", &json!(["fin"]));
    let pause = || {
        let body = json!({ "by": "somebody else", "reason": "a test" }).to_string();
        let path = "/api/v1/jobs/fin/job/pause";
        coordinator.call_raw("POST", path, Some(&format!("Bearer {ci}")), Some(body))
    };
    assert_eq!(pause().status, 200);
    let audit: Vec<AuditEntry> = coordinator.get("/api/v1/audit?job=fin/job&limit=1");
    assert_eq!(
        (audit[0].by.as_str(), audit[0].action.as_str()),
        ("ci", "pause")
    );
    assert_eq!(audit[0].from.as_deref(), Some("127.0.0.1"));

    let again = json!({ "name": "ci", "role": "admin", "namespaces": null });
    make(&coordinator, &again).refused(409, "refused");
    let none = json!({ "name": "none", "role": "admin", "namespaces": [] });
    make(&coordinator, &none).refused(400, "invalid");

    let body = json!({ "by": "ada", "reason": "it was in a log" });
    let revoke = || -> RevokeTokenAnswer {
        coordinator
            .call("POST", "/api/v1/tokens/ci/revoke", Some(&body))
            .ok()
    };
    assert!(revoke().changed);
    let why = pause().refused(401, "unauthorized");
    assert!(why.starts_with("the token ci was revoked at "), "{why}");
    assert!(!revoke().changed);

    let ended = json!({
        "name": "short", "role": "viewer", "namespaces": null,
        "expires_at": "2020-01-01T00:00:00Z",
    });
    let made: CreatedToken = make(&coordinator, &ended).ok();
    let why = ask(&coordinator, &made.token, "GET", "/api/v1/jobs").refused(401, "unauthorized");
    assert!(why.starts_with("the token short ended at 2020-"), "{why}");
    let last = if made.token.ends_with('0') { "1" } else { "0" };
    let unknown = format!("{}{last}", &made.token[..made.token.len() - 1]);
    ask(&coordinator, &unknown, "GET", "/api/v1/jobs").refused(401, "unauthorized");

    let listed: Vec<ApiToken> = coordinator.get("/api/v1/tokens");
    let names: Vec<&str> = listed.iter().map(|token| token.name.as_str()).collect();
    assert_eq!(names, ["ci", "short"]);
    assert_eq!(listed[0].revoked_by.as_deref(), Some("ada"));
    // Neither secret is anywhere on the disk.
    for file in ["ledger.db", "ledger.db-wal", "log.db", "log.db-wal"] {
        let bytes = std::fs::read(house.data().join(file)).unwrap_or_default();
        for secret in [&ci, &made.token] {
            let secret = &secret.as_bytes()["matins_".len()..];
            assert!(
                !bytes.windows(secret.len()).any(|part| part == secret),
                "a secret is in {file}"
            );
        }
    }
    drop(coordinator);
    let coordinator = house.start();
    let why = ask(&coordinator, &ci, "GET", "/api/v1/jobs").refused(401, "unauthorized");
    assert!(why.contains("revoked"), "{why}");
}
