use std::path::PathBuf;

use serde_json::Value;

use crate::asking::House;
use crate::place::{Place, fits};

fn manifest(name: &str, schedule: &str) -> String {
    format!(
        "name: demo/{name}\npurpose: Test.\nowner: me\nrepeatable: {{ safe: false }}\n\
         schedule: {schedule}\nmisfire: {{ policy: skip }}\noverlap: forbid\n\
         expected_duration: 1m\ntimeout: 2m\nrun: {{ exec: [/bin/true] }}\n"
    )
}

/// The instants that the binary names, as programs get them.
fn fires(place: &Place, arguments: &[&str]) -> Vec<String> {
    let mut all = vec!["next"];
    all.extend(arguments);
    let out = place.matins(&all).done();
    serde_json::from_str(&out).unwrap()
}

#[test]
fn programs_get_an_array_of_instants() {
    let place = Place::new();
    let new_york = |expr: &str, after: &str| {
        fires(
            &place,
            &[
                expr,
                "--dialect",
                "vixie",
                "--timezone",
                "America/New_York",
                "--after",
                after,
                "--count",
                "2",
                "--output",
                "json",
            ],
        )
    };
    assert_eq!(
        new_york("0,30 2 * * *", "2024-03-09T17:00:00Z"),
        ["2024-03-10T07:00:00Z", "2024-03-11T06:00:00Z"]
    );
    assert_eq!(
        new_york("@daily", "2024-03-09T12:00:00-05:00"),
        ["2024-03-10T05:00:00Z", "2024-03-11T04:00:00Z"]
    );
    let dash = fires(
        &place,
        &[
            "--after",
            "2024-03-09T17:00:00Z",
            "-o",
            "json",
            "--",
            "5-6 0 * * *",
        ],
    );
    assert_eq!(dash.len(), 5);
}

#[test]
fn a_schedule_that_has_ended_says_so_and_gives_what_there_was() {
    let place = Place::new();
    let arguments = [
        "next",
        "0 0 0 1 1 ? 2025-2026",
        "--dialect",
        "quartz",
        "--after",
        "2025-06-01T00:00:00Z",
        "--output",
        "json",
    ];
    let said = place.matins(&arguments);
    let words = said.stderr.clone();
    assert_eq!(said.done(), "[\n  \"2026-01-01T00:00:00Z\"\n]\n");
    assert_eq!(
        words,
        "only 1 fire after 2025-06-01T00:00:00Z: its last is 2026-01-01T00:00:00Z\n"
    );
    let out = place.matins(&arguments[..6]).done();
    assert!(out.ends_with(&words), "{out}");
}

#[test]
fn people_see_local_times_and_what_the_clock_does() {
    let place = Place::new();
    let out = place
        .matins(&[
            "next",
            "0,30 1 * * *",
            "--timezone",
            "Europe/London",
            "--after",
            "2024-03-30T12:00:00Z",
            "--count",
            "2",
        ])
        .done();
    fits(&out);
    assert_eq!(
        out,
        "\
0,30 1 * * *  (vixie, Europe/London)
UTC                   LOCAL TIME               OFFSET  NOTE
2024-03-31T01:00:00Z  Sun 2024-03-31 02:00:00  +01:00  clock goes forward:
                                                       stands for 01:00, 01:30
2024-04-01T00:00:00Z  Mon 2024-04-01 01:00:00  +01:00  -
"
    );
}

#[test]
fn a_schedule_is_explained() {
    let place = Place::new();
    let arguments = [
        "next",
        "30 1 13 * 5",
        "--timezone",
        "Europe/London",
        "--after",
        "2024-10-20T00:00:00Z",
        "--count",
        "1",
        "--explain",
    ];
    let out = place.matins(&arguments).done();
    fits(&out);
    let (heading, rest) = out.split_once('\n').unwrap();
    assert!(
        heading.starts_with("30 1 13 * 5  (vixie, Europe/London, tzdata 20"),
        "{heading}"
    );
    assert_eq!(
        rest,
        "\
At 01:30 on the 13th of every month, and also on Friday.
  ! a day needs to satisfy only one of the two day fields: it fires on the 13th
    and also on Friday, not only where both agree

UTC                   LOCAL TIME               OFFSET
2024-10-25T00:30:00Z  Fri 2024-10-25 01:30:00  +01:00
"
    );
    let mut arguments = arguments.to_vec();
    arguments.extend(["--output", "json"]);
    let out: Value = serde_json::from_str(&place.matins(&arguments).done()).unwrap();
    assert_eq!(
        out["sentence"],
        "At 01:30 on the 13th of every month, and also on Friday."
    );
    assert_eq!(out["fires"], serde_json::json!(["2024-10-25T00:30:00Z"]));
    assert_eq!(out["warnings"][0]["kind"], "either_day");
    assert!(out["warnings"][0]["text"].is_string());
}

#[test]
fn times_far_away_are_answered() {
    let place = Place::new();
    for (after, first) in [
        ("0001-01-01T00:00:00Z", "1972-02-29T00:00:00Z"),
        ("2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),
        ("9990-01-01T00:00:00Z", "9992-02-29T00:00:00Z"),
    ] {
        let found = fires(
            &place,
            &["0 0 29 2 *", "--after", after, "--count", "1", "-o", "json"],
        );
        assert_eq!(found, [first], "{after}");
    }
}

#[test]
fn a_wrong_schedule_is_status_2_and_one_message() {
    let place = Place::new();
    for (arguments, words) in [
        (
            &["0 0 * * 5#3"][..],
            &["day of week `5#3`", "0 0 0 ? * 6#3"][..],
        ),
        (&["0 30 2 * * ?"], &["has 6 fields", "--dialect quartz"]),
        (
            &["30 2 * * *", "--dialect", "quartz"],
            &["has 5 fields", "vixie"],
        ),
        (
            &["0 0 * * 7", "--dialect", "k8s"],
            &["sun", "--dialect vixie"],
        ),
        (&[""], &["has 0 fields"]),
        // A field alone, though a job could have that name.
        (&["5/15"], &["`5/15` has 1 field", "write minute, hour"]),
        (&["0-59/15"], &["has 1 field"]),
        (&["--", "-5 * * * *"], &["minute `-5`"]),
        (
            &["@daily", "--timezone", "asia/shanghai"],
            &["Asia/Shanghai"],
        ),
        (
            &["finance/reconcile", "--timezone", "UTC"],
            &["its own zone"],
        ),
    ] {
        let mut all = vec!["next", "--output", "json"];
        all.extend(arguments);
        place.matins(&all).refused_with_remedy(2, words);
    }
    place.matins(&["next"]).refused(2, &["EXPR|JOB"]);
    place
        .matins(&["next", "@daily", "--count", "0"])
        .refused(2, &["--count"]);
    place
        .matins(&["next", "finance/reconcile"])
        .refused_with_remedy(3, &["matins dev"]);
}

/// What almost surely does not do what is meant is said without asking, beside the answer.
#[test]
fn a_step_past_its_field_is_warned_of() {
    let place = Place::new();
    let mut arguments = vec!["next", "*/90 * * * *", "--count", "1"];
    let out = place.matins(&arguments).done();
    fits(&out);
    for words in ["steps past 59", "`0 0-21/3 * * *`", "`30 1-22/3 * * *`"] {
        assert!(out.contains(words), "{words} in {out}");
    }
    arguments.extend(["--output", "json"]);
    let said = place.matins(&arguments);
    assert!(said.stderr.contains("steps past 59"), "{said:?}");
    let answer: Value = serde_json::from_str(&said.done()).unwrap();
    assert_eq!(answer.as_array().unwrap().len(), 1);
    // The two that are named are the 90 minutes.
    let of = |expr: &str, count: &str| {
        let after = "2026-01-01T23:59:00Z";
        fires(
            &place,
            &[expr, "--after", after, "--count", count, "-o", "json"],
        )
    };
    let mut both = [of("0 0-21/3 * * *", "8"), of("30 1-22/3 * * *", "8")].concat();
    both.sort();
    assert_eq!(both.len(), 16);
    assert!(
        both[1].contains("T01:30") && both[15].contains("T22:30"),
        "{both:?}"
    );
}

#[test]
fn expression_and_zone_are_refused_together() {
    let place = Place::new();
    place
        .matins(&["next", "0 8-20-12 * * *", "--timezone", "Asia/Shangai"])
        .refused_with_remedy(2, &["`8-20/12`", "`Asia/Shanghai`"]);
}

#[test]
fn manifests_are_asked_by_name() {
    let place = Place::new();
    place.write(
        "jobs/a.yaml",
        &manifest(
            "a",
            "{ cron: '0 0 9 ? * 2', timezone: Etc/UTC, dialect: quartz }",
        ),
    );
    place.write(
        "jobs/b.yaml",
        &manifest("b", "{ cron: '0 9 * * 2', timezone: Etc/UTC }"),
    );
    let after = ["--after", "2026-01-01T00:00:00Z", "--count", "1"];
    let mut arguments = vec!["next", "-f", "jobs"];
    arguments.extend(after);
    let out = place.matins(&arguments).done();
    fits(&out);
    for line in [
        "demo/a: 0 0 9 ? * 2  (quartz, Etc/UTC)",
        "2026-01-05T09:00:00Z  Mon 2026-01-05 09:00:00  +00:00",
        "demo/b: 0 9 * * 2  (vixie, Etc/UTC)",
        "2026-01-06T09:00:00Z  Tue 2026-01-06 09:00:00  +00:00",
    ] {
        assert!(out.lines().any(|found| found == line), "{line} in {out}");
    }
    arguments.extend(["--output", "json"]);
    let out: Value = serde_json::from_str(&place.matins(&arguments).done()).unwrap();
    let expected = serde_json::json!({
        "demo/a": ["2026-01-05T09:00:00Z"], "demo/b": ["2026-01-06T09:00:00Z"],
    });
    assert_eq!(out, expected);
    place
        .matins(&["next", "-f", "jobs", "--dialect", "vixie"])
        .refused(2, &["--dialect", "cannot be used"]);
    place.write(
        "jobs/c.yaml",
        &manifest("c", "{ cron: '0 0 L * *', timezone: Etc/UTC }"),
    );
    place.matins(&["next", "-f", "jobs"]).refused(
        2,
        &["jobs/c.yaml:5", "dialect: quartz", "nothing was computed"],
    );
}

/// The coordinator is asked for its jobs: in their dialect and zone, an interval by its own anchor.
#[test]
fn a_job_in_force_is_asked_by_its_name() {
    let house = House::new();
    house.place.write(
        "jobs.yaml",
        &[
            manifest(
                "a",
                "{ cron: '0 0 9 ? * 2', timezone: Asia/Tokyo, dialect: quartz }",
            ),
            manifest("b", "{ cron: '@every 1h', timezone: Etc/UTC }"),
        ]
        .join("---\n"),
    );
    house.matins(&["apply", "-f", "jobs.yaml"]).done();
    let out = house
        .matins(&[
            "next",
            "demo/a",
            "--after",
            "2026-01-01T00:00:00Z",
            "--count",
            "1",
        ])
        .done();
    assert_eq!(
        out,
        "\
demo/a: 0 0 9 ? * 2  (quartz, Asia/Tokyo)
UTC                   LOCAL TIME               OFFSET
2026-01-05T00:00:00Z  Mon 2026-01-05 09:00:00  +09:00
"
    );
    let described = house.matins(&["describe", "demo/a"]).done();
    assert!(
        described.contains("0 0 9 ? * 2  in Asia/Tokyo (quartz)"),
        "{described}"
    );
    let next = house.json(&["get", "jobs"])[1]["next_fire"].clone();
    assert_eq!(house.json(&["next", "demo/b", "--count", "1"])[0], next);
    house
        .matins(&["next", "demo/c"])
        .refused_with_remedy(1, &["no job `demo/c`"]);
}

#[test]
fn a_schedule_that_is_over_is_not_put_in_force() {
    let house = House::new();
    house.place.write(
        "jobs.yaml",
        &manifest(
            "a",
            "{ cron: '0 0 0 1 1 ? 2024', timezone: Etc/UTC, dialect: quartz }",
        ),
    );
    let said = house.matins(&["apply", "-f", "jobs.yaml"]);
    assert_eq!(said.status, 1, "{said:?}");
    for words in ["last fire was at 2024-01-01T00:00:00Z", "later years"] {
        let stderr = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(words), "{words} in {stderr}");
    }
}

/// Every row of the corpus goes through the library in the crate `jobs`; some through the binary.
#[test]
fn a_sample_of_the_corpus() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus");
    let root =
        std::env::var_os("MATINS_CORPUS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = root.join("cron/oracle.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no corpus at {}", path.display());
        return;
    };
    let place = Place::new();
    for row in text.lines().step_by(23) {
        let row: Value = serde_json::from_str(row).unwrap();
        let text = |field: &str| row[field].as_str().unwrap();
        let arguments = [
            "next",
            "--dialect",
            text("dialect"),
            "--timezone",
            text("tz"),
            "--after",
            text("after"),
            "--count",
            "8",
            "--output",
            "json",
            "--",
            text("expr"),
        ];
        let said = place.matins(&arguments);
        match row.get("expect") {
            Some(expected) => {
                let found: Value = serde_json::from_str(&said.done()).unwrap();
                assert_eq!(&found, expected, "{row}");
            }
            None if row["strict_only"] == true => {}
            None => said.refused_with_remedy(2, &["remedy: "]),
        }
    }
}
