//! `matins apply --dry-run`: everything is said, and nothing is done.

use std::process::Command;

use serde_json::{Value, json};

use crate::asking::House;
use crate::place::{Place, Said, fits, manifest};

const ECHO: &str = "[\"echo\", \"hello\"]";
const YEARLY: &str = "0 0 1 1 *";

/// The last position of the ledger that was given out, and the lines of its audit.
fn ledger_of(house: &House) -> String {
    let count = "import sqlite3, sys\n\
        c = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
        print(c.execute('SELECT position, last_applied, (SELECT count(*) FROM audit) FROM meta').fetchone())";
    let output = Command::new("python3")
        .args(["-c", count])
        .arg(house.place.path(".matins/ledger.db"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_would_change_is_shown_and_does_not() {
    let house = House::new();
    let shanghai = |schedule, shards| {
        manifest("demo/b", schedule, shards, ECHO).replace("Etc/UTC", "Asia/Shanghai")
    };
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    house.apply("b.yaml", &shanghai("30 23 * * *", 2));
    house.apply("d.yaml", &manifest("demo/d", YEARLY, 1, ECHO));
    let before = (ledger_of(&house), house.json(&["get", "jobs"]));

    house
        .place
        .write("jobs/a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    let changed = shanghai("45 23 * * *", 3) + "limits: { memory: 2GiB }\n";
    house.place.write(
        "jobs/sub/b.yaml",
        &changed.replace("\"hello\"", "\"good bye\""),
    );
    house
        .place
        .write("jobs/c.yaml", &manifest("demo/c", YEARLY, 1, ECHO));
    let said = house.matins(&["apply", "-f", "jobs", "--dry-run"]);
    assert_eq!(
        said.stderr,
        "nothing was changed: apply without --dry-run to do it\n"
    );
    let text = said.done();
    fits(&text);
    assert!(
        text.starts_with("demo/a  unchanged, version 1\ndemo/c  created, version 1\n"),
        "{text}"
    );
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for line in [
        "demo/b  changed, version 1 -> 2",
        "schedule.cron: \"30 23 * * *\" -> \"45 23 * * *\"",
        "shards: 2 -> 3",
        "limits.memory: left out -> \"2GiB\"",
        "run.exec[1]: \"hello\" -> \"good bye\"",
    ] {
        assert!(lines.contains(&line), "{line}: {text}");
    }
    let fires = lines
        .iter()
        .filter(|line| line.contains("T15:45:00Z") && line.contains("T23:45:00+08:00"));
    assert_eq!(fires.count(), 3, "{text}");
    assert!(!text.contains("demo/d"), "{text}");

    let plans = house.json(&["apply", "-f", "jobs", "--dry-run", "--prune"]);
    let results: Vec<(&str, &str)> = plans
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| {
            (
                plan["job"].as_str().unwrap(),
                plan["result"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        results,
        [
            ("demo/a", "unchanged"),
            ("demo/c", "created"),
            ("demo/b", "changed"),
            ("demo/d", "deleted")
        ]
    );
    let changed = &plans[2];
    assert_eq!(
        (&changed["version_before"], &changed["version"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(
        changed["changes"][0],
        json!({"field": "schedule.cron", "before": "30 23 * * *", "after": "45 23 * * *"})
    );
    assert!(changed["cut_over"].is_string());
    assert_eq!(changed["next_fires"].as_array().unwrap().len(), 3);
    assert_eq!(plans[0]["changes"], json!([]));
    assert_eq!((ledger_of(&house), house.json(&["get", "jobs"])), before);

    // And then it comes as was said.
    let answers = house.json(&["apply", "-f", "jobs", "--prune"]);
    let came: Vec<&str> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["result"].as_str().unwrap())
        .collect();
    assert_eq!(came, ["unchanged", "created", "changed", "deleted"]);
    assert_ne!(ledger_of(&house), before.0);
}

#[test]
fn a_deletion_tells_what_it_ends_and_a_refusal_why() {
    let house = House::new();
    house.apply("a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    house.apply("b.yaml", &manifest("demo/b", YEARLY, 1, ECHO));
    for _ in 0..2 {
        house
            .matins(&["run", "demo/b", "--reason", "to have a run"])
            .done();
    }
    let said = house.matins(&["apply", "-f", "a.yaml", "--dry-run", "--prune"]);
    let text = said.done();
    assert!(
        text.ends_with("demo/b  deleted\n  cancelled   2 runs of it that have not ended\n"),
        "{text}"
    );
    assert_eq!(house.json(&["get", "jobs"]).as_array().unwrap().len(), 2);

    // A name of before leads to the job, and a job that is renamed is not one without a manifest.
    let renamed = manifest("demo/c", YEARLY, 1, ECHO) + "renamed_from: demo/b\n";
    house
        .place
        .write("jobs/a.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    house.place.write("jobs/c.yaml", &renamed);
    let plans = house.json(&["apply", "-f", "jobs", "--dry-run", "--prune"]);
    assert_eq!(plans.as_array().unwrap().len(), 2, "{plans}");
    assert_eq!(plans[1]["result"], "renamed");
    assert_eq!(
        plans[1]["changes"][0],
        json!({"field": "name", "before": "demo/b", "after": "demo/c"})
    );

    house.matins(&["apply", "-f", "jobs", "--prune"]).done();
    house
        .place
        .write("jobs/b.yaml", &manifest("demo/b", YEARLY, 1, ECHO));
    let said = house.matins(&[
        "apply",
        "-f",
        "jobs",
        "--dry-run",
        "--prune",
        "--output",
        "json",
    ]);
    assert_eq!(said.status, 1, "{said:?}");
    let plans: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (&plans[1]["job"], &plans[1]["result"]),
        (&json!("demo/b"), &json!("refused"))
    );
    assert!(said.stderr.contains("1 would be refused"), "{said:?}");
    let said = house.matins(&["apply", "-f", "jobs", "--dry-run"]);
    assert!(said.stdout.contains("demo/b  refused\n  why "), "{said:?}");
    fits(&said.stdout);
    fits(&said.stderr);
}

#[test]
fn a_plan_ends_as_an_apply_would() {
    let place = Place::new();
    place.write("bad.yaml", "name: demo/a\n");
    place.write("good.yaml", &manifest("demo/a", YEARLY, 1, ECHO));
    place.write("token", "0123");
    place
        .matins(&["apply", "-f", "bad.yaml", "--dry-run"])
        .refused_with_remedy(2, &["bad.yaml:1:1: purpose is missing"]);
    // Nobody listens there.
    let said: Said = place
        .command(&["apply", "-f", "good.yaml", "--dry-run"])
        .env("MATINS_API", "http://127.0.0.1:9")
        .env("MATINS_TOKEN_FILE", place.path("token"))
        .output()
        .unwrap()
        .into();
    said.refused_with_remedy(3, &["asking the coordinator", "and ask again"]);
    assert!(!said.stderr.contains("whether it was done"), "{said:?}");
}

#[test]
fn what_a_job_asks_for_in_vain_is_said_and_the_job_is_taken() {
    let house = House::new();
    let text = manifest("demo/a", YEARLY, 1, ECHO) + "needs: { class: ledger }\n";
    house.place.write("a.yaml", &text);
    let planned = house.matins(&["apply", "-f", "a.yaml", "--dry-run"]).done();
    fits(&planned);
    assert!(
        planned.contains("  warning     needs.class: there is no class `ledger`"),
        "{planned}"
    );

    let said = house.matins(&["apply", "-f", "a.yaml"]);
    fits(&said.stderr);
    assert_eq!(
        said.stderr,
        "warning: demo/a: needs.class: there is no class `ledger`: `matins classes`\n    \
         lists those there are\n"
    );
    assert!(said.done().contains("created"));
    let again = house.json(&["apply", "-f", "a.yaml"]);
    assert_eq!(again[0]["result"], "unchanged");
    assert_eq!(again[0]["warnings"][0]["kind"], "no_such_class");
}
