//! `matins dev`, from nothing to a run that succeeded, and through the death of its parts.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::place::{Place, Running, is_alive, manifest, signal, wait_for};

const EVERY_SECOND: &str = "@every 1s";
const ECHO: &str = "[\"echo\", \"shard {shard} of {shards}\"]";

struct House {
    place: Place,
    dev: Running,
}

impl House {
    fn start(place: Place) -> House {
        let dev = place.start(
            "dev",
            &["dev", "--jobs", "jobs", "--agents", "2", "--data", "data"],
        );
        House { place, dev }
    }

    fn with_job(exec: &str) -> House {
        let place = Place::new();
        place.write(
            "jobs/hello.yaml",
            &manifest("demo/hello", EVERY_SECOND, 2, exec),
        );
        House::start(place)
    }

    /// Waits for runs that succeeded; the newest of them.
    #[track_caller]
    fn wait_for_success(&self, count: usize) -> Value {
        wait_for("runs that succeeded", || {
            let arguments = [
                "get",
                "runs",
                "--data",
                "data",
                "--state",
                "succeeded",
                "-o",
                "json",
            ];
            let said = self.place.matins(&arguments);
            assert!(matches!(said.status, 0 | 3), "{said:?}");
            let runs: Vec<Value> = serde_json::from_str(&said.stdout).unwrap_or_default();
            (runs.len() >= count).then(|| runs[0].clone())
        })
    }

    /// Processes that `matins dev` has started, by the first words of their command lines.
    fn children(&self) -> BTreeMap<String, u32> {
        children_of(self.dev.pid())
    }

    /// Processes of its supervisors, once there are some.
    fn wait_for_attempts(&self) -> Vec<u32> {
        wait_for("attempts", || {
            let supervisors = self.children();
            let supervisors = supervisors
                .iter()
                .filter(|(name, _)| name.starts_with("supervisor"));
            let attempts: Vec<u32> = supervisors
                .flat_map(|(_, &pid)| children_of(pid).into_values())
                .collect();
            (!attempts.is_empty()).then_some(attempts)
        })
    }

    fn wait_for_another_coordinator(&self, before: u32) {
        wait_for("the coordinator to be up again", || {
            let now = self.children().get("coordinator").copied();
            let answers = || self.place.matins(&["get", "jobs", "--data", "data"]).status == 0;
            (now.is_some_and(|pid| pid != before) && answers()).then_some(())
        });
    }

    fn out(&self) -> String {
        self.place.read("dev.out")
    }
}

fn children_of(parent: u32) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let read = |file| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        let of_parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1));
        // A supervisor's log writer is no attempt.
        if of_parent != Some(&parent.to_string()) || read("comm") == "matins-logs\n" {
            continue;
        }
        let command_line = read("cmdline");
        let arguments: Vec<&str> = command_line.split('\0').collect();
        let host = arguments
            .iter()
            .find_map(|a| a.rsplit_once("/host-").filter(|_| !a.contains("pki")))
            .map_or_else(String::new, |(_, n)| format!(" {n}"));
        found.insert(format!("{}{host}", arguments.get(1).unwrap_or(&"")), pid);
    }
    found
}

#[test]
fn from_nothing_to_a_run_that_succeeded_and_through_the_death_of_any_part() {
    let mut house = House::with_job(ECHO);
    let run = house.wait_for_success(1);
    let id = run["run"].as_str().unwrap();
    let described = house
        .place
        .matins(&["describe", id, "--data", "data"])
        .done();
    assert!(described.contains("succeeded, 2/2 shards"), "{described}");
    let log = house
        .place
        .matins(&["logs", id, "--shard", "1", "--data", "data"])
        .done();
    assert_eq!(log, "shard 1 of 2\n");
    let at = format!("demo/hello@{}", run["fire_time"].as_str().unwrap());
    let by_time = house
        .place
        .matins(&["logs", &at, "--shard", "0", "--data", "data"])
        .done();
    assert_eq!(by_time, "shard 0 of 2\n");
    let logs = |more: &[&str]| {
        let arguments = [&["logs", id, "--data", "data"], more].concat();
        house.place.matins(&arguments).done()
    };
    let all = "shard 0 | shard 0 of 2\nshard 1 | shard 1 of 2\n";
    assert_eq!(logs(&[]), all);
    let followed = logs(&["--follow"]);
    let mut lines: Vec<&str> = followed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.join("\n") + "\n", all);
    assert_eq!(logs(&["--stream", "stderr"]), "");
    assert_eq!(logs(&["--tail", "0"]), "");
    assert_eq!(logs(&["--since", "2100-01-01T00:00:00Z"]), "");
    let stamped = logs(&["--timestamps", "--shard", "1", "--attempt", "1"]);
    assert!(
        stamped.starts_with("20") && stamped.ends_with("Z shard 1 of 2\n"),
        "{stamped}"
    );
    let json = logs(&["--output", "json", "--shard", "1"]);
    let line: serde_json::Value = serde_json::from_str(json.trim_end()).unwrap();
    assert_eq!(line["content"], "shard 1 of 2");
    assert_eq!(line["job"], "demo/hello");

    let parts: Vec<String> = house.children().into_keys().collect();
    assert_eq!(
        parts,
        [
            "agent 1",
            "agent 2",
            "coordinator",
            "supervisor 1",
            "supervisor 2"
        ]
    );

    for part in ["coordinator", "agent 1", "supervisor 2"] {
        let before = house.children()[part];
        signal(before, "KILL");
        wait_for("the part to be up again", || {
            house
                .children()
                .get(part)
                .filter(|&&pid| pid != before)
                .copied()
        });
        let so_far = house
            .place
            .matins(&["get", "runs", "--data", "data", "-o", "json"]);
        let newest: Vec<Value> = serde_json::from_str(&so_far.stdout).unwrap_or_default();
        let newest = newest.first().map_or(0, number);
        wait_for("a later run to succeed", || {
            (number(&house.wait_for_success(1)) > newest).then_some(())
        });
    }
    let out = house.out();
    assert_eq!(out.matches("died").count(), 3, "{out}");
    for line in ["coordinator", "host-1-agent", "host-2-supervisor"] {
        let said = out
            .lines()
            .find(|l| l.contains(line) && l.contains("died"))
            .unwrap();
        assert!(said.contains("SIGKILL, up again as"), "{said}");
    }

    let children = house.children();
    house.dev.signal("TERM");
    assert_eq!(house.dev.wait(), Some(0), "{}", house.out());
    assert!(children.values().all(|&pid| !is_alive(pid)), "{children:?}");
    every_run_is_told_once(&house);
}

fn number(run: &Value) -> u64 {
    run["run"]
        .as_str()
        .unwrap()
        .strip_prefix("run-")
        .unwrap()
        .parse()
        .unwrap()
}

/// Whatever died meanwhile: each fire time has one line when it fires, and at most one when it
/// succeeds, and never the second before the first.
#[track_caller]
fn every_run_is_told_once(house: &House) {
    let out = house.out();
    let mut begun = std::collections::BTreeSet::new();
    let mut ended = std::collections::BTreeSet::new();
    for line in out.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (Some(who), Some(what)) = (words.next(), words.next()) else {
            continue;
        };
        match what {
            "fired" | "waits" => assert!(begun.insert(who), "{who} fired twice:\n{out}"),
            "succeeded" => {
                assert!(begun.contains(who), "{who} never fired:\n{out}");
                assert!(ended.insert(who), "{who} succeeded twice:\n{out}");
            }
            _ => {}
        }
    }
    assert!(ended.len() >= 2, "{out}");
}

#[test]
fn started_again_it_goes_on_with_the_same_data() {
    let house = House::with_job(ECHO);
    let run = house.wait_for_success(1);
    let House { place, mut dev } = house;
    dev.signal("INT");
    assert_eq!(dev.wait(), Some(0));
    assert!(!place.path("data/coordinator/api.json").exists());
    // As a coordinator leaves it that was killed, together with the address where now nobody is.
    place.write(
        "data/coordinator/api.json",
        "{\"url\":\"http://127.0.0.1:9\",\"token\":\"x\"}",
    );
    let port = place.read("data/dev.json");

    let mut house = House::start(place);
    let later = wait_for("a later run", || {
        Some(house.wait_for_success(1)).filter(|later| number(later) > number(&run))
    });
    assert_eq!(later["job"], "demo/hello");
    assert_eq!(house.place.read("data/dev.json"), port);
    house.dev.signal("TERM");
    assert_eq!(house.dev.wait(), Some(0));
}

#[test]
fn a_second_one_on_the_same_data_is_refused() {
    let mut house = House::with_job(ECHO);
    house.wait_for_success(1);
    let second = house
        .place
        .matins(&["dev", "--jobs", "jobs", "--data", "data"]);
    second.refused_with_remedy(1, &["another one", &house.dev.pid().to_string(), "--data"]);
    house.dev.signal("TERM");
    assert_eq!(house.dev.wait(), Some(0));
}

#[test]
fn manifests_with_problems_start_nothing() {
    let place = Place::new();
    place.write(
        "jobs/bad.yaml",
        &manifest("demo/bad", "61 * * * *", 1, ECHO),
    );
    let said = place.matins(&["dev", "--jobs", "jobs", "--data", "data"]);
    said.refused_with_remedy(2, &["jobs/bad.yaml:5:19: schedule.cron"]);
    assert!(!place.path("data").exists());
}

#[test]
fn it_ends_by_itself_when_it_was_told_to() {
    let place = Place::new();
    place.write(
        "jobs/hello.yaml",
        &manifest("demo/hello", EVERY_SECOND, 1, ECHO),
    );
    let out = place
        .matins(&[
            "dev",
            "--jobs",
            "jobs",
            "--agents",
            "1",
            "--exit-after",
            "3s",
        ])
        .done();
    assert!(out.contains("ask with `matins get runs`"), "{out}");
    assert!(place.path(".matins/coordinator/ledger.db").exists());
}

#[test]
fn killed_without_a_word_it_leaves_no_process_behind() {
    // The attempts are long, so that some are alive when it is killed.
    let mut house = House::with_job("[\"sleep\", \"3600\"]");
    let attempts = house.wait_for_attempts();
    let all: Vec<u32> = house.children().into_values().chain(attempts).collect();
    house.dev.signal("KILL");
    house.dev.wait();
    wait_for("all its processes to end", || {
        (!all.iter().any(|&pid| is_alive(pid))).then_some(())
    });
}

/// The coordinator comes back with another address, and nothing of an output is told twice.
#[test]
fn what_waits_and_follows_goes_on_with_a_coordinator_that_was_started_again() {
    let place = Place::new();
    let script = "echo first; while [ ! -e $GO ]; do sleep 0.05; done; printf 'second\\nthird'"
        .replace("$GO", &place.path("go").display().to_string());
    let exec = serde_json::json!(["/bin/sh", "-c", script]).to_string();
    place.write(
        "jobs/hello.yaml",
        &manifest("demo/hello", EVERY_SECOND, 1, &exec),
    );
    let house = House::start(place);
    house.wait_for_attempts();
    let detail = wait_for("a run that is leased", || {
        let said = house
            .place
            .matins(&["describe", "run-1", "--data", "data", "-o", "json"]);
        let detail: Value = serde_json::from_str(&said.stdout).ok()?;
        (detail["state"] == "running").then_some(detail)
    });
    let host = detail["shard_list"][0]["attempts"][0]["agent"]
        .as_str()
        .unwrap();
    let mut logs = house
        .place
        .start("logs", &["logs", "run-1", "--data", "data", "--follow"]);
    wait_for("the first line", || {
        (house.place.read("logs.out") == "first\n").then_some(())
    });
    let mut drain = house.place.start(
        "drain",
        &["drain", host, "--data", "data", "--reason", "a test"],
    );
    wait_for("the drain to stand", || {
        let said = house
            .place
            .matins(&["get", "agents", "--data", "data", "-o", "json"]);
        let agents: Vec<Value> = serde_json::from_str(&said.stdout).unwrap_or_default();
        let mut drained = agents.iter().filter(|agent| agent["state"] != "ready");
        drained.next().map(drop)
    });
    let before = house.children()["coordinator"];
    signal(before, "KILL");
    house.wait_for_another_coordinator(before);
    house.place.write("go", "");
    assert_eq!(logs.wait(), Some(0), "{}", house.place.read("logs.out"));
    assert_eq!(house.place.read("logs.out"), "first\nsecond\nthird");
    assert_eq!(drain.wait(), Some(0), "{}", house.place.read("drain.out"));
}

#[test]
fn a_shard_that_no_host_has_yet_is_followed_over_a_restart_of_the_coordinator() {
    const YEARLY: &str = "0 0 1 1 *";
    let place = Place::new();
    place.write("jobs/a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    let script = "echo begun; while [ ! -e $GO ]; do sleep 0.05; done"
        .replace("$GO", &place.path("go").display().to_string());
    let exec = serde_json::json!(["/bin/sh", "-c", script]).to_string();
    let one_by_one = manifest("demo/b", YEARLY, 2, &exec) + "needs: { uses: { db: 1 } }\n";
    place.write("b.yaml", &one_by_one);
    let house = House::start(place);
    let ask = |arguments: &[&str]| {
        let arguments = [arguments, &["--data", "data"]].concat();
        house.place.matins(&arguments)
    };
    wait_for("the coordinator", || {
        (ask(&["resource", "set", "db", "1"]).status == 0).then_some(())
    });
    ask(&["apply", "-f", "b.yaml"]).done();
    ask(&["run", "demo/b", "--reason", "a test"]).done();
    let follow = ["logs", "run-1", "--data", "data", "--follow"];
    let mut logs = house.place.start("logs", &follow);
    wait_for("the first shard's line", || {
        house.place.read("logs.out").contains("begun").then_some(())
    });
    let before = house.children()["coordinator"];
    signal(before, "KILL");
    house.wait_for_another_coordinator(before);
    house.place.write("go", "");
    assert_eq!(logs.wait(), Some(0), "{}", house.place.read("logs.out"));
    let out = house.place.read("logs.out");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["shard 0 | begun", "shard 1 | begun"]);
}

#[test]
fn told_to_stop_it_takes_attempts_along() {
    let mut house = House::with_job("[\"sleep\", \"3600\"]");
    let attempts = house.wait_for_attempts();
    house.dev.signal("INT");
    assert_eq!(house.dev.wait(), Some(0));
    assert!(!attempts.iter().any(|&pid| is_alive(pid)), "{attempts:?}");
}

/// Another user passes through the directory and can list nothing of it. Needs root to become
/// another user.
#[test]
fn a_job_runs_as_its_user_with_the_directory_as_it_is_made() {
    if !is_root() {
        assert!(std::env::var_os("CI").is_none(), "this test needs root");
        eprintln!("skipped: needs root, to run a job as another user");
        return;
    }
    let place = Place::new();
    // Whoever made this place keeps others out of it; a working directory of a person does not.
    place.let_pass();
    let job = manifest("demo/user", EVERY_SECOND, 1, "[\"/usr/bin/id\", \"-un\"]");
    place.write("jobs/user.yaml", &(job + "  user: nobody\n"));
    let house = House::start(place);
    let run = house.wait_for_success(1);
    let id = run["run"].as_str().unwrap();
    let said = house.place.matins(&["logs", id, "--data", "data"]).done();
    assert_eq!(said, "nobody\n");
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}
