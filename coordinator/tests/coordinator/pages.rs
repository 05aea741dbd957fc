//! Lists over HTTP: their pages together are the whole list, however small they are.

use serde_json::{Value, json};

use crate::house::{Coordinator, House};

/// All rows of a list, from link to link.
fn list(coordinator: &Coordinator, path: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut target = path.to_owned();
    loop {
        let answer = coordinator.call("GET", &target, None);
        let link = answer.headers.get("link").cloned();
        rows.extend(answer.ok::<Vec<Value>>());
        let Some(link) = link else {
            return rows;
        };
        let (next, rest) = link[1..].split_once('>').unwrap();
        assert_eq!(rest, "; rel=\"next\"");
        next.clone_into(&mut target);
    }
}

#[test]
fn hosts_resources_and_alerts_are_listed_by_page() {
    let house = House::new();
    let coordinator = house.start();
    for name in ["c", "a", "b"] {
        let body = json!({ "capacity": 3, "by": "ada" });
        let path = format!("/api/v1/resources/{name}");
        coordinator.call("PUT", &path, Some(&body)).ok::<Value>();
        let body = json!({ "by": "ada", "reason": "sold" });
        let path = format!("/api/v1/agents/host-{name}/revoke");
        coordinator.call("POST", &path, Some(&body)).ok::<Value>();
    }
    for limit in ["", "limit=1", "limit=2", "limit=3"] {
        for (path, field, expected) in [
            ("agents?", "agent", &["host-a", "host-b", "host-c"][..]),
            ("resources?", "resource", &["a", "b", "c"]),
            ("alerts?", "agent", &["host-b", "host-a", "host-c"]),
            (
                "alerts?kind=agent_revoked&all=true&",
                "agent",
                &["host-b", "host-a", "host-c"],
            ),
            ("alerts?kind=clock_held&", "agent", &[]),
            ("alerts?job=t/none&", "agent", &[]),
            ("alerts?namespace=t&", "agent", &[]),
        ] {
            let path = format!("/api/v1/{path}{limit}");
            let rows = list(&coordinator, &path);
            let shown: Vec<&str> = rows
                .iter()
                .map(|row| row[field].as_str().unwrap())
                .collect();
            assert_eq!(shown, expected, "{path}");
        }
    }
    let hosts = list(&coordinator, "/api/v1/agents?limit=2");
    assert!(hosts.iter().all(|host| host["state"] == "revoked"));
    for query in [
        "agents?limit=0",
        "resources?limit=1001",
        "alerts?limit=0",
        "agents?cursor=x",
        "alerts?cursor=x",
        "alerts?kind=none",
    ] {
        let answer = coordinator.call("GET", &format!("/api/v1/{query}"), None);
        answer.refused(400, "invalid");
    }
}
