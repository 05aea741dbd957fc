//! From a process that the kernel has killed for its memory to what its job is advised, with real processes.

use serde_json::Value;

use crate::place::{Place, agent, coordinator, fits, manifest, wait_for};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 256 * MIB;

/// Its first attempt takes more memory than it may have, every later one none.
fn hungry() -> String {
    let eat = "head -c 400000000 /dev/zero | tail -c 390000000 >/dev/null";
    let exec = format!("[\"/bin/sh\", \"-c\", \"test $MATINS_ATTEMPT -gt 1 || {eat}\"]");
    manifest("demo/hungry", "0 0 1 1 *", 1, &exec) + "limits: { memory: 256MiB }\n"
}

/// A limit that was met: so much more than it at once, and half as much again as was seen once there are
/// runs enough.
#[test]
fn a_job_whose_memory_ran_out_is_advised_more() {
    let place = Place::new();
    place.authority("ca", "prod");
    place.issue("ca", "coordinator", "c1", "c1");
    place.issue("ca", "agent", "h1", "h1");
    let arguments = [
        &coordinator("data", "127.0.0.1:0")[..],
        &["--identity", "c1"],
    ]
    .concat();
    let _coordinator = place.start_coordinator("coordinator", &arguments);
    let agents = wait_for("the coordinator to say where it listens", || {
        let log = place.read("coordinator.out");
        let (_, rest) = log.split_once("agents=")?;
        let (address, _) = rest.split_once(char::is_whitespace)?;
        Some(address.to_owned())
    });
    let _supervisor = place.start("supervisor", &["supervisor", "--dir", "s"]);
    let _agent = place.start("agent", &agent("a", "h1", &agents));
    let here = |arguments: &[&str]| place.matins(&[arguments, &["--data", "data"]].concat());
    let json = |arguments: &[&str]| -> Value {
        let said = here(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&said.done()).unwrap()
    };
    place.write("hungry.yaml", &hungry());
    here(&["apply", "-f", "hungry.yaml"]).done();
    let run = || -> Value {
        let asked = json(&["run", "demo/hungry", "--reason", "to see what it takes"]);
        let id = asked["run"].as_str().unwrap();
        wait_for("the run to be over", || {
            let run = json(&["describe", id]);
            (run["state"] == "succeeded").then_some(run)
        })
    };

    let first = run();
    let attempts = first["shard_list"][0]["attempts"].as_array().unwrap();
    let limited = |attempt: &Value| attempt["limits_not_enforced"].is_null();
    if !attempts.iter().all(limited) {
        eprintln!("skipped: no cgroup can be written here, and the limit holds nobody");
        return;
    }
    assert_eq!(attempts.len(), 2, "{first:#}");
    assert_eq!(attempts[0]["out_of_memory"], true, "{first:#}");
    let advice = || {
        let job = json(&["describe", "demo/hungry"]);
        let advice = job["profile"]["observed"][0]["memory_advice"].clone();
        assert_eq!(advice["exhausted_at_bytes"], LIMIT, "{job:#}");
        advice["bytes"].as_u64().unwrap()
    };
    assert_eq!(advice(), LIMIT + 100 * MIB);

    for _ in 0..4 {
        run();
    }
    let advised = advice();
    // Half as much again as the most that was seen, which the limit was.
    assert!(
        (LIMIT + 100 * MIB + 1..=LIMIT / 2 * 3).contains(&advised),
        "{advised}"
    );
    let shown = here(&["describe", "demo/hungry"]).done();
    fits(&shown);
    assert!(shown.contains("for 256.0 MiB were not enough"), "{shown}");
}
