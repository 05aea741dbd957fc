//! Commands that ask a coordinator which runs, without agents: nothing that fires is ever done.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::place::{Place, Running, Said, coordinator, fits, manifest, wait_for};

const ECHO: &str = "[\"echo\", \"hello\"]";
const YEARLY: &str = "0 0 1 1 *";

pub(crate) struct House {
    pub(crate) place: Place,
    _coordinator: Running,
}

impl House {
    pub(crate) fn new() -> House {
        let place = Place::new();
        place.authority("ca", "c1");
        place.issue("ca", "coordinator", "node-1", ".matins/identity");
        let coordinator = place.start("coordinator", &coordinator(".matins", "127.0.0.1:0"));
        wait_for("the coordinator to be up", || {
            let said = place.matins(&["get", "jobs"]);
            (said.status == 0).then_some(())
        });
        House {
            place,
            _coordinator: coordinator,
        }
    }

    pub(crate) fn matins(&self, arguments: &[&str]) -> Said {
        self.place.matins(arguments)
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--output", "json"]);
        serde_json::from_str(&self.matins(&arguments).done()).unwrap()
    }

    pub(crate) fn apply(&self, file: &str, content: &str) -> String {
        self.place.write(file, content);
        self.matins(&["apply", "-f", file]).done()
    }
}

#[test]
fn apply_says_what_changed_and_prune_deletes_what_it_names() {
    let house = House::new();
    house
        .place
        .write("jobs/a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    house
        .place
        .write("jobs/b.yaml", &manifest("demo/b", YEARLY, 2, ECHO));
    house.apply("other.yaml", &manifest("other/x", YEARLY, 1, ECHO));

    let table = house.matins(&["apply", "-f", "jobs"]).done();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["JOB", "RESULT", "VERSION", "NEXT", "FIRE"]);
    assert_eq!(rows[1][..3], ["demo/a", "created", "1"]);
    assert!(rows[1][3].ends_with("-01-01T00:00:00Z"), "{table}");
    assert_eq!(rows[2][..3], ["demo/b", "created", "1"]);
    fits(&table);

    house
        .place
        .write("jobs/b.yaml", &manifest("demo/b", YEARLY, 3, ECHO));
    let answers = house.json(&["apply", "-f", "jobs"]);
    assert_eq!(answers[0]["result"], "unchanged");
    assert_eq!(answers[1]["result"], "changed");
    assert_eq!(answers[1]["version"], 2);

    // Without --prune nothing is ever deleted; with it, only in namespaces of the files.
    std::fs::remove_file(house.place.path("jobs/a.yaml")).unwrap();
    house.matins(&["apply", "-f", "jobs"]).done();
    assert_eq!(house.json(&["get", "jobs"]).as_array().unwrap().len(), 3);
    let table = house.matins(&["apply", "-f", "jobs", "--prune"]).done();
    assert!(table.contains("demo/a  deleted"), "{table}");
    let left = house.json(&["get", "jobs"]);
    let names: Vec<&str> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["job"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["demo/b", "other/x"]);

    let back = house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    assert!(back.contains("revived"), "{back}");
}

#[test]
fn prune_spares_what_is_applied_while_it_runs() {
    let house = House::new();
    let many: Vec<String> = (0..200)
        .map(|i| manifest(&format!("demo/many-{i}"), YEARLY, 1, ECHO))
        .collect();
    house.place.write("many.yaml", &many.join("---\n"));
    house.apply("old.yaml", &manifest("demo/old", YEARLY, 1, ECHO));
    let mut pruning = house
        .place
        .start("pruning", &["apply", "-f", "many.yaml", "--prune"]);
    wait_for("the first of many to be applied", || {
        let jobs = house.matins(&["get", "jobs", "--namespace", "demo"]);
        jobs.stdout.contains("demo/many-").then_some(())
    });
    house.apply("late.yaml", &manifest("demo/late", YEARLY, 1, ECHO));
    assert_eq!(
        pruning.wait(),
        Some(0),
        "{}",
        house.place.read("pruning.out")
    );
    let jobs = house.json(&["get", "jobs", "--namespace", "demo", "--limit", "1000"]);
    let names: Vec<&str> = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["job"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"demo/late"), "{names:?}");
    assert!(!names.contains(&"demo/old"), "{names:?}");
    assert_eq!(names.len(), 201);
}

#[test]
fn a_failure_shows_a_terminal_nothing_that_it_would_obey() {
    let place = Place::new();
    let said = place.matins(&["apply", "-f", "no\u{1b}[2J\u{202e}.yaml"]);
    said.refused(
        2,
        &["error: reading no\\u{1b}[2J\\u{202e}.yaml", "1 problem"],
    );
    assert!(!said.stderr.contains(['\u{1b}', '\u{202e}']), "{said:?}");
}

#[test]
fn a_list_of_what_nobody_knows_is_no_empty_list() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    for what in ["runs", "alerts", "audit"] {
        let said = house.matins(&["get", what, "--job", "demo/none"]);
        said.refused_with_remedy(1, &["there is no job `demo/none`", "matins get jobs"]);
    }
    for what in ["runs", "audit"] {
        let said = house.matins(&["get", what, "--agent", "host-9"]);
        said.refused_with_remedy(1, &["host-9", "matins get agents"]);
    }
    assert_eq!(
        house.matins(&["get", "runs", "--job", "demo/a"]).stderr,
        "no runs\n"
    );

    // Of a job that is no more, what it did is still told.
    house
        .matins(&["run", "demo/a", "--reason", "to have a run"])
        .done();
    house.apply("b.yaml", &manifest("demo/b", YEARLY, 1, ECHO));
    house.matins(&["apply", "-f", "b.yaml", "--prune"]).done();
    let failed = house.matins(&["get", "runs", "--job", "demo/a", "--state", "failed"]);
    assert_eq!(failed.stderr, "no runs\n");
}

#[test]
fn a_circle_of_new_jobs_is_named_and_nothing_of_it_is_applied() {
    let house = House::new();
    let after = |name: &str, other: &str| {
        let after = format!("after: [{{ job: demo/{other}, match: same_fire }}]\n");
        manifest(&format!("demo/{name}"), YEARLY, 1, ECHO) + &after
    };
    let all = [after("a", "b"), after("b", "c"), after("c", "a")].join("---\n");
    house.place.write("circle.yaml", &all);
    for more in [&[][..], &["--dry-run"]] {
        let arguments = [&["apply", "-f", "circle.yaml"], more].concat();
        house.matins(&arguments).refused_with_remedy(
            2,
            &["demo/a comes after demo/b comes after demo/c comes after demo/a"],
        );
    }
    assert_eq!(house.json(&["get", "jobs"]), serde_json::json!([]));
}

#[test]
fn what_the_coordinator_refuses_does_not_hinder_the_rest() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    house.apply("b.yaml", &manifest("demo/b", YEARLY, 1, ECHO));
    // A rename onto a name that is taken.
    let taken = manifest("demo/b", YEARLY, 1, ECHO) + "renamed_from: demo/a\n";
    house.place.write("jobs/1.yaml", &taken);
    house
        .place
        .write("jobs/2.yaml", &manifest("demo/c", YEARLY, 1, ECHO));
    let said = house.matins(&["apply", "-f", "jobs", "--prune"]);
    assert_eq!(said.status, 1, "{said:?}");
    assert!(said.stdout.contains("demo/c  created"), "{said:?}");
    assert!(
        said.stderr.contains("1 refused as said above, 1 applied"),
        "{said:?}"
    );
    assert!(said.stderr.contains("nothing was pruned"), "{said:?}");
    fits(&said.stderr);
    assert_eq!(house.json(&["get", "jobs"]).as_array().unwrap().len(), 3);
}

#[test]
fn a_run_by_hand_is_listed_described_cancelled_and_run_again() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 2, ECHO));
    assert_eq!(house.matins(&["get", "runs"]).stderr, "no runs\n");

    let answer = house
        .matins(&["run", "demo/a", "--reason", "to see it"])
        .done();
    assert_eq!(answer, "run-1 ready\n");
    let runs = house.json(&["get", "runs", "--job", "demo/a", "--state", "ready"]);
    assert_eq!(runs[0]["run"], "run-1");
    assert_eq!(runs[0]["shards"], 2);
    assert_eq!(
        house.json(&["get", "runs", "--state", "failed"]),
        serde_json::json!([])
    );

    let text = house.matins(&["describe", "run-1"]).done();
    for word in [
        "run-1  demo/a@",
        "ready, 0/2 shards",
        "manual",
        "to see it",
        "pending",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    fits(&text);
    let detail = house.json(&["describe", "run-1"]);
    assert_eq!(detail["executions"][0]["reason"], "to see it");
    assert_eq!(detail["shard_list"][1]["state"], "pending");

    let answer = house.json(&["cancel", "run-1", "--reason", "enough"]);
    assert_eq!(
        answer,
        serde_json::json!({"run": "run-1", "state": "cancelled"})
    );
    let again = house.matins(&["cancel", "run-1", "--reason", "enough"]);
    again.refused_with_remedy(1, &["run-1", "cancelled"]);
    let answer = house
        .matins(&["rerun", "run-1", "--shard", "1", "--reason", "after all"])
        .done();
    assert_eq!(answer, "run-1 ready\n");
    let confirm = [
        "confirm",
        "run-1",
        "--shard",
        "1",
        "--as",
        "succeeded",
        "--reason",
        "x",
    ];
    house.matins(&confirm).refused_with_remedy(1, &["run-1"]);

    let job = house.matins(&["describe", "demo/a"]).done();
    for word in [
        "demo/a  (job-1, version 1)",
        "0 0 1 1 *  in Etc/UTC",
        "\"echo\" \"hello\"",
        "run-1",
    ] {
        assert!(job.contains(word), "{word}: {job}");
    }
    fits(&job);
    for list in ["jobs", "runs", "alerts", "agents"] {
        fits(&house.matins(&["get", list]).done());
    }
}

#[test]
fn a_pause_is_shown_and_a_resume_fires_from_then_on() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    let pause = ["pause", "demo/a", "--reason", "the bank is closed"];
    assert!(house.matins(&pause).done().starts_with("demo/a paused"));
    assert!(house.matins(&pause).done().contains("already"));
    let job = house.matins(&["describe", "demo/a"]).done();
    assert!(job.contains("the bank is closed"), "{job}");
    assert!(house.matins(&["get", "jobs"]).done().contains("paused"));
    let resumed = house.matins(&["resume", "demo/a"]).done();
    assert!(
        resumed.starts_with("demo/a resumed; next fire"),
        "{resumed}"
    );
    let again = house.matins(&["resume", "demo/a"]).done();
    assert!(again.contains("was not paused"), "{again}");
}

#[test]
fn why_names_what_became_of_a_time() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", "0 0 1 1 *", 2, ECHO));
    let year = house.json(&["next", "demo/a", "--count", "1"]);
    let next = year[0].as_str().unwrap().to_owned();
    house.matins(&["run", "demo/a", "--reason", "x"]).done();
    for (what, verdict, words) in [
        (format!("demo/a@{next}"), "not_yet_due", "in "),
        (
            "demo/a@2020-01-01T00:00:00Z".to_owned(),
            "not_there",
            "no version of the job",
        ),
        (
            format!("demo/a@{}", next.replace("T00:00:00Z", "T00:00:01Z")),
            "not_an_instant",
            "does not name it",
        ),
        ("demo/a@latest".to_owned(), "under_way", "0/2 shards"),
        ("run-1".to_owned(), "under_way", "0/2 shards"),
    ] {
        let answer = house.json(&["why", &what]);
        assert_eq!(answer["verdict"], verdict, "{what}: {answer}");
        let because = answer["because"].as_str().unwrap();
        assert!(because.contains(words), "{what}: {because}");
        let text = house.matins(&["why", &what]).done();
        for part in ["expected", "triggered", "executed", "result"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    house
        .matins(&["why", "demo/nobody@latest"])
        .refused_with_remedy(1, &["demo/nobody"]);
}

#[test]
fn the_ledger_answers_questions_and_is_only_read() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 2, ECHO));
    house.matins(&["run", "demo/a", "--reason", "x"]).done();
    let views = house.matins(&["sql"]).done();
    assert!(views.contains("run_view"), "{views}");
    fits(&views);
    let query = "SELECT run, name, shards FROM run_view";
    let rows = house.json(&["sql", query]);
    assert_eq!(
        rows,
        serde_json::json!([{"run": "run-1", "name": "demo/a", "shards": 2}])
    );
    let csv = house.matins(&["sql", query, "-o", "csv"]).done();
    assert_eq!(csv, "run,name,shards\r\nrun-1,demo/a,2\r\n");
    let whole = house.matins(&["sql", "SELECT * FROM run_view"]).done();
    assert!(whole.contains("fire_time"), "{whole}");
    fits(&whole);
    for (query, words) in [
        ("DELETE FROM runs", "only reading"),
        ("ATTACH 'x.db' AS x", "only reading"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT nosuch FROM run_view", "nosuch"),
        ("", "nothing is selected"),
    ] {
        house
            .matins(&["sql", query])
            .refused_with_remedy(2, &[words]);
    }
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT count(*) FROM n";
    house
        .matins(&["sql", endless, "--time-limit", "100ms"])
        .refused_with_remedy(1, &["longer than 100ms"]);
    house
        .matins(&["sql", "SELECT 1", "--data", "nowhere"])
        .refused_with_remedy(1, &["nowhere"]);
    // The coordinator goes on.
    house.matins(&["run", "demo/a", "--reason", "y"]).done();
}

#[test]
fn every_list_is_written_in_every_form() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 2, ECHO));
    house.matins(&["run", "demo/a", "--reason", "x"]).done();
    for list in ["jobs", "runs"] {
        let wide = house.matins(&["get", list, "-o", "wide"]).done();
        assert_eq!(wide.lines().count(), 2, "{wide}");
        let yaml = house.matins(&["get", list, "-o", "yaml"]).done();
        assert!(yaml.starts_with("- "), "{yaml}");
        assert!(yaml.contains("job: demo/a"), "{yaml}");
    }
    let yaml = house.matins(&["describe", "run-1", "-o", "yaml"]).done();
    assert!(yaml.contains("  - attempts: []\n"), "{yaml}");
    // No colours where nobody looks.
    for arguments in [&["get", "runs"][..], &["describe", "run-1"]] {
        let text = house.matins(arguments).done();
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn a_list_of_alerts_is_called_cut_off_only_where_it_is() {
    let house = House::new();
    for host in ["host-8", "host-9"] {
        let revoke = ["agent", "revoke", host, "--reason", "x"];
        house.matins(&revoke).done();
    }
    for (limit, rows, expected) in [("1", 1, true), ("2", 2, false), ("3", 2, false)] {
        let said = house.matins(&["get", "alerts", "--limit", limit]);
        assert_eq!(
            said.stdout.matches("agent_revoked").count(),
            rows,
            "{said:?}"
        );
        assert_eq!(
            said.stderr.contains("--limit shows more"),
            expected,
            "{said:?}"
        );
    }
}

#[test]
fn a_watch_on_a_pipe_writes_again_what_has_changed_and_ends_by_interrupt() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    let mut watch = house
        .place
        .start("watch", &["get", "runs", "--watch=200ms"]);
    wait_for("a first page", || {
        house
            .place
            .read("watch.out")
            .contains("no runs")
            .then_some(())
    });
    house.matins(&["run", "demo/a", "--reason", "x"]).done();
    wait_for("a second page", || {
        house
            .place
            .read("watch.out")
            .contains("run-1")
            .then_some(())
    });
    watch.signal("INT");
    assert_eq!(watch.wait(), Some(0));
    let pages = house.place.read("watch.out");
    assert_eq!(pages.matches("FIRE TIME").count(), 1, "{pages}");
}

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    for (arguments, words) in [
        (
            &["describe", "run-99"][..],
            &["run-99", "matins get runs"][..],
        ),
        (
            &["describe", "demo/nobody"],
            &["demo/nobody", "matins get jobs"],
        ),
        (
            &["describe", "demo/a@2020-01-01T00:00:00Z"],
            &["2020-01-01T00:00:00Z"],
        ),
        (&["run", "demo/nobody", "--reason", "x"], &["demo/nobody"]),
        (
            &[
                "run",
                "demo/a",
                "--at",
                "2090-01-01T00:00:00Z",
                "--reason",
                "x",
            ],
            &["2090"],
        ),
        (&["logs", "run-99", "--shard", "0"], &["run-99"]),
        (
            &["rerun", "demo/a@2020-01-01T00:00:00Z", "--reason", "x"],
            &["demo/a"],
        ),
    ] {
        house.matins(arguments).refused_with_remedy(1, words);
    }
}

#[test]
fn an_output_that_is_not_there_is_refused_for_each_shard_that_is_meant() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 2, ECHO));
    house
        .matins(&["logs", "demo/a"])
        .refused_with_remedy(1, &["it has none"]);
    house.matins(&["run", "demo/a", "--reason", "x"]).done();
    let said = house.matins(&["logs", "demo/a"]);
    assert!(
        said.stderr.contains("shard 0") && said.stderr.contains("shard 1"),
        "{said:?}"
    );
    for (arguments, status, words) in [
        (&["--token", "token-99"][..], 2, "token-99 is no attempt"),
        (&["--attempt", "3"], 2, "there is no attempt 3"),
        (&["--shard", "7"], 2, "it has no shard 7"),
        (&["--shard", "0"], 1, "shard 0"),
        (&["--shard", "0", "--since", "yesterday"], 2, "--since"),
    ] {
        let arguments = [&["logs", "run-1"], arguments].concat();
        let said = house.matins(&arguments);
        assert_eq!(said.status, status, "{said:?}");
        assert!(said.stderr.contains(words), "{said:?}");
    }
}

#[test]
fn a_wrong_token_is_refused() {
    let house = House::new();
    let api: Value = serde_json::from_str(&house.place.read(".matins/api.json")).unwrap();
    house.place.write("token", "0000");
    let mut command = house.place.command(&["get", "jobs"]);
    command.env("MATINS_API", api["url"].as_str().unwrap());
    command.env("MATINS_TOKEN_FILE", "token");
    let said: Said = command.output().unwrap().into();
    said.refused_with_remedy(1, &["token"]);
    command.env("MATINS_TOKEN_FILE", ".matins/api-token");
    let said: Said = command.output().unwrap().into();
    said.done();
}

#[test]
fn a_proxy_of_the_environment_is_not_asked() {
    let house = House::new();
    let mut command = house.place.command(&["get", "jobs"]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:9");
    }
    let said: Said = command.output().unwrap().into();
    said.done();
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    for arguments in [
        &["get", "jobs"][..],
        &["describe", "demo/a"],
        &["apply", "-f", "a.yaml"],
    ] {
        let mut child = house
            .place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert!(child.wait().unwrap().success(), "{arguments:?}");
        assert_eq!(stderr, "", "{arguments:?}");
    }
}
