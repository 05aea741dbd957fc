//! What a fleet carries, asked of a real coordinator whose hosts have worked.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::place::{Place, Running, agent, coordinator, fits, wait_for};

/// Classes of a site whose hosts nobody has measured.
const CLASSES: &str =
    "[class.io]\nabout = \"the two in the lab\"\nrequire = [\"cpu.usable_milli >= 1\"]\n";

/// Eight shards, on two hosts of two slots each: two rounds.
const JOB: &str = "name: books/close\n\
    purpose: Close the books of the day.\n\
    owner: finance\n\
    repeatable: { safe: true, how: it only waits }\n\
    schedule: { cron: \"30 * * * *\", timezone: Etc/UTC }\n\
    misfire: { policy: skip }\n\
    overlap: queue\n\
    expected_duration: 1m\n\
    timeout: 1h\n\
    shards: 8\n\
    run: { exec: [sleep, \"1\"] }\n";

struct Lab {
    place: Place,
    _running: Vec<Running>,
}

impl Lab {
    /// A coordinator with a class file, two hosts, and some runs that have succeeded.
    fn new(runs: usize) -> Lab {
        let place = Place::new();
        place.write("classes.toml", CLASSES);
        place.write("jobs/close.yaml", JOB);
        place.authority("ca", "prod");
        place.issue("ca", "coordinator", "c1", "c1");
        let own = ["--identity", "c1", "--classes", "classes.toml"];
        let arguments = [&coordinator("data", "127.0.0.1:0")[..], &own].concat();
        let mut running = vec![place.start_coordinator("coordinator", &arguments)];
        let agents = wait_for("the coordinator to say where it listens", || {
            let log = place.read("coordinator.out");
            let (_, rest) = log.split_once("agents=")?;
            let (address, _) = rest.split_once(char::is_whitespace)?;
            Some(address.to_owned())
        });
        for (host, dir, data) in [("h1", "s1", "a1"), ("h2", "s2", "a2")] {
            place.issue("ca", "agent", host, host);
            let supervisor = ["supervisor", "--dir", dir];
            running.push(place.start(&format!("{host}-supervisor"), &supervisor));
            let mut begin = agent(data, host, &agents);
            for word in &mut begin {
                if *word == "s" {
                    *word = dir;
                }
            }
            running.push(place.start(host, &begin));
        }
        let lab = Lab {
            place,
            _running: running,
        };
        wait_for("both hosts to be of the class", || {
            let said = lab.ask(&["classes", "--output", "json"]);
            let shown: Value = serde_json::from_str(&said).ok()?;
            let classes = shown["classes"].as_array()?;
            let io = classes.iter().find(|class| class["class"] == "io")?;
            (io["members"].as_array()?.len() == 2).then_some(())
        });
        lab.ask(&["apply", "--file", "jobs"]);
        for _ in 0..runs {
            lab.ask(&["run", "books/close", "--reason", "to learn"]);
        }
        wait_for("the runs to have succeeded", || {
            let arguments = ["get", "runs", "--state", "succeeded", "-o", "json"];
            let said = lab.matins(&arguments);
            let done: Vec<Value> = serde_json::from_str(&said.stdout).unwrap_or_default();
            (done.len() == runs).then_some(())
        });
        lab
    }

    fn matins(&self, arguments: &[&str]) -> crate::place::Said {
        self.place
            .matins(&[arguments, &["--data", "data"]].concat())
    }

    #[track_caller]
    fn ask(&self, arguments: &[&str]) -> String {
        self.matins(arguments).done()
    }

    /// The answer under a file of changes, in a form.
    #[track_caller]
    fn sizing(&self, changes: &str, output: &str) -> String {
        self.place.write("changes.toml", changes);
        self.ask(&["sizing", "--what-if", "changes.toml", "--output", output])
    }
}

/// A figure of the night as it is, and as a file has it.
#[track_caller]
fn both(answer: &Value, at: &str) -> (f64, f64) {
    let figure = |of: &str| {
        let found = answer.pointer(&format!("{of}{at}"));
        found.and_then(Value::as_f64).expect(at)
    };
    (figure("/night"), figure("/what_if/night"))
}

const LONGEST: &str = "/jobs/0/makespan_ms_max";

#[test]
fn the_night_is_asked_of_hosts_that_have_worked() {
    let lab = Lab::new(5);
    let answer =
        |changes: &str| -> Value { serde_json::from_str(&lab.sizing(changes, "json")).unwrap() };
    let more = "[[add]]\nhosts = 3\nclass = \"io\"\n";

    let added = answer(more);
    // Of the class file of the coordinator: by the built-in one no host would be in it.
    let class = &added["classes"][0];
    assert_eq!(
        (&class["class"], &class["hosts"]),
        (&"io".into(), &2.into())
    );
    let dimensions = class["dimensions"].as_array().unwrap();
    let most: BTreeMap<&str, &Value> = dimensions
        .iter()
        .map(|dimension| (dimension["name"].as_str().unwrap(), &dimension["peak"]))
        .collect();
    assert_eq!(
        (most["slots"], most["io_slots"]),
        (&4.0.into(), &0.0.into())
    );
    assert!(most.contains_key("io"), "{most:?}");
    // Ten slots for eight shards: one round instead of two.
    let (before, then) = both(&added, LONGEST);
    assert!(then < before * 0.8, "{before} and {then}");
    assert_eq!(both(&added, "/succeeded"), (24.0, 24.0));

    let doubled = answer("[[volume]]\njob = \"books/close\"\ntimes = 2\n");
    let (before, then) = both(&doubled, LONGEST);
    assert!(then > before * 1.3, "{before} and {then}");

    // Shards of ten minutes, from 23:30 on: one host is lost shortly before its first two end.
    let long = "[[volume]]\njob = \"books/close\"\ntimes = 600\n";
    let lost = answer(&format!("{long}[[lose]]\nhost = \"h2\"\nat = \"23:40\"\n"));
    let kept = answer(long);
    assert_eq!(both(&lost, "/lost_attempts"), (0.0, 2.0));
    assert_eq!(lost["what_if"]["night"]["succeeded"], 24);
    assert!(both(&lost, LONGEST).1 > both(&kept, LONGEST).1 * 1.3);

    // Two of them have three before.
    assert_eq!(added["accuracy"]["runs"], 2);
    for told in added["predictions"].as_array().unwrap() {
        let ms = |name: &str| told[name].as_i64().unwrap();
        // Two rounds of a second each.
        assert!(
            ms("replayed_ms") >= 2_000 && ms("measured_ms") >= 2_000,
            "{told}"
        );
    }

    let table = lab.sizing(more, "table");
    fits(&table);
    for word in [
        "slots for io",
        "3 more hosts of class io",
        "ledger a year, at least",
        "REPLAYED",
        "Of 2 runs",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let csv = lab.sizing(more, "csv");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("section,subject,figure,value"));
    assert!(lines.all(|line| line.split(',').count() >= 4), "{csv}");
    assert!(csv.contains("\nwhat_if,,runs,24\n"), "{csv}");

    lab.place
        .write("wrong.toml", "[[lose]]\nhost = \"h9\"\nat = \"23:40\"\n");
    lab.matins(&["sizing", "--what-if", "wrong.toml"])
        .refused_with_remedy(2, &["wrong.toml:1", "there is no host `h9`"]);
}
