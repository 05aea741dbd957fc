//! What those see who watch a coordinator.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::agent::FakeAgent;
use crate::house::{Coordinator, House, YEARLY, manifest};

/// The metrics as text.
fn metrics(coordinator: &Coordinator) -> String {
    let answer = coordinator.call("GET", "/metrics", None);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    answer.body.as_str().unwrap().to_owned()
}

fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        (name == series).then_some(value)
    });
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{metrics}"));
    line.parse().unwrap()
}

#[test]
fn what_happens_is_counted() {
    let house = House::new();
    let coordinator = house.start();
    let agent = FakeAgent::attach(&house, &coordinator, "host-1", 8);
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, ""));
    let body = json!({ "by": "x", "reason": "y" });
    let _: serde_json::Value = coordinator
        .call("POST", "/api/v1/jobs/t/a/runs", Some(&body))
        .ok();
    let _ = agent.hear_start();
    let text = metrics(&coordinator);
    for (series, expected) in [
        ("matins_leader", 1.0),
        ("matins_clock_trusted", 1.0),
        ("matins_jobs", 1.0),
        ("matins_runs_open{state=\"running\"}", 1.0),
        ("matins_runs_open{state=\"waiting\"}", 0.0),
        ("matins_shards_open{state=\"leased\"}", 1.0),
        ("matins_agents{state=\"ready\"}", 1.0),
        ("matins_executions_total{trigger=\"manual\"}", 1.0),
        ("matins_leases_granted_total", 1.0),
        ("matins_alerts_open{kind=\"needs_confirmation\"}", 0.0),
        // By hand, it has no hour to be late for.
        ("matins_fire_lateness_seconds_count", 0.0),
    ] {
        assert!(
            (value(&text, series) - expected).abs() < 1e-9,
            "{series} in\n{text}"
        );
    }
    for series in [
        "matins_commit_seconds_count",
        "matins_commands_total{result=\"done\"}",
        "matins_agent_connections",
        "matins_ledger_bytes{file=\"database\"}",
        "process_resident_memory_bytes",
    ] {
        assert!(value(&text, series) > 0.0, "{series}");
    }
    lint(&text);
}

/// What Prometheus' own tool has to say of it.
#[allow(clippy::print_stderr)] // says why nothing is linted
fn lint(metrics: &str) {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut tool = match tool {
        Ok(tool) => tool,
        Err(error) => {
            let why = format!("promtool (apt: prometheus) does not run: {error}");
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("not linted: {why}");
            return;
        }
    };
    tool.stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let said = tool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.is_empty(), "{text}");
}

#[test]
fn a_coordinator_that_leads_is_ready_and_says_so_to_everybody() {
    let house = House::new();
    let coordinator = house.start();
    for path in ["/healthz", "/readyz"] {
        let answer = coordinator.call_raw("GET", path, None, None);
        assert_eq!(
            (answer.status, answer.body),
            (200, json!({ "status": "ok" }))
        );
    }
    coordinator
        .call_raw("GET", "/metrics", None, None)
        .refused(401, "unauthorized");
}
