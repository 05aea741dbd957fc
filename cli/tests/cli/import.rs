//! Imports of what other schedulers keep: the public corpus against its stated truths, and what
//! becomes of the directory that is written to.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::place::Place;

const ZONE: &str = "Asia/Shanghai";

fn corpus() -> PathBuf {
    let directory = std::env::var_os("MATINS_CORPUS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus")),
        PathBuf::from,
    );
    directory.join("import")
}

/// What an import of one file left behind.
struct Imported {
    file: String,
    report: Value,
}

impl Imported {
    fn entries(&self, kind: &str) -> Vec<&Value> {
        let entries = self.report["files"][0]["entries"].as_array().unwrap();
        entries
            .iter()
            .filter(|entry| entry["kind"] == kind)
            .collect()
    }

    fn manifests(&self) -> &Vec<Value> {
        self.report["manifests"].as_array().unwrap()
    }

    /// One field of every manifest.
    fn of_manifests(&self, field: &str) -> Vec<&str> {
        let fields = self.manifests().iter().map(|m| m[field].as_str());
        fields.flatten().collect()
    }

    #[track_caller]
    fn is(&self, what: &str, found: impl serde::Serialize, expected: &Value) {
        let found = serde_json::to_value(found).unwrap();
        assert_eq!(&found, expected, "{} of {}", what, self.file);
    }
}

fn import(place: &Place, file: &str, source: &str) -> Imported {
    let path = corpus().join(file);
    let out = format!("out/{file}");
    let arguments = [
        "import",
        source,
        path.to_str().unwrap(),
        "--timezone",
        ZONE,
        "-o",
        &out,
    ];
    let said = place.matins(&arguments);
    let report: Value = serde_json::from_str(&place.read(&format!("{out}/report.json")))
        .unwrap_or_else(|error| panic!("{file}: {error} {said:?}"));
    let bad = report["bad"].as_u64().unwrap();
    assert_eq!(said.status, i32::from(bad > 0), "{file}: {said:?}");
    crate::place::fits(&said.stdout);
    let lines = report["files"][0]["lines"].as_object().unwrap();
    let sum: u64 = lines
        .iter()
        .filter(|(name, _)| *name != "total")
        .map(|(_, n)| n.as_u64().unwrap())
        .sum();
    assert_eq!(Some(sum), lines["total"].as_u64(), "{file}");
    let manifests = report["manifests"].as_array().unwrap();
    for manifest in manifests {
        let yaml = place.read(&format!("{out}/{}", manifest["path"].as_str().unwrap()));
        assert!(yaml.contains("\nbegins: paused"), "{yaml}");
    }
    if !manifests.is_empty() {
        // Read by the parser, all of them.
        place.matins(&["next", "-f", &out]).done();
    }
    Imported {
        file: file.to_owned(),
        report,
    }
}

fn check_crontab(import: &Imported, truth: &Value) {
    let environment: Vec<String> = import
        .entries("environment")
        .iter()
        .map(|entry| {
            let read = |name: &str| entry["read"][name].as_str().unwrap().to_owned();
            format!("{}={}", read("name"), read("value"))
        })
        .collect();
    import.is("environment", environment, &truth["env"]);
    let bad: Vec<&Value> = import.entries("bad").iter().map(|e| &e["line"]).collect();
    let stated = truth["bad_lines"].as_array().unwrap();
    let stated: Vec<&Value> = stated.iter().map(|bad| &bad["line"]).collect();
    assert_eq!(bad, stated, "{}", import.file);
    let mut schedules: Vec<(u64, &str)> = import
        .manifests()
        .iter()
        .map(|m| (m["line"].as_u64().unwrap(), m["schedule"].as_str().unwrap()))
        .collect();
    let starts_at_boot = import.entries("not_carried_over");
    schedules.extend(
        starts_at_boot
            .iter()
            .map(|e| (e["line"].as_u64().unwrap(), "@reboot")),
    );
    schedules.sort_unstable();
    let lines: Vec<u64> = schedules.iter().map(|(line, _)| *line).collect();
    let schedules: Vec<&str> = schedules.iter().map(|(_, schedule)| *schedule).collect();
    import.is("lines", lines, &truth["lines"]);
    import.is("schedules", schedules, &truth["schedules"]);
    import.is("jobs", import.manifests().len(), &truth["timed"]);
    let mut users: BTreeSet<&str> = import.of_manifests("user").into_iter().collect();
    for stated in truth["users"].as_array().unwrap() {
        // One whose only line is `@reboot` has no manifest.
        users.insert(stated.as_str().unwrap());
    }
    import.is("users", users, &truth["users"]);
}

fn check_anacrontab(import: &Imported, truth: &Value) {
    assert!(import.manifests().is_empty(), "{}", import.file);
    let entries = import.entries("not_carried_over");
    for (field, stated) in [("period", "periods"), ("delay", "delays"), ("id", "ids")] {
        let found: Vec<&Value> = entries.iter().map(|entry| &entry["read"][field]).collect();
        import.is(field, found, &truth[stated]);
    }
}

fn check_k8s(import: &Imported, truth: &Value) {
    import.is("jobs", import.manifests().len(), &truth["jobs"]);
    let stated = truth["cronjobs"].as_array().cloned().unwrap_or_default();
    let timed = stated.iter().filter(|job| job["schedule"].is_string());
    for (manifest, stated) in import.manifests().iter().zip(timed) {
        assert_eq!(manifest["schedule"], stated["schedule"], "{}", import.file);
        let zone = stated["timeZone"].as_str().unwrap_or(ZONE);
        assert_eq!(manifest["timezone"], zone, "{}", import.file);
        let namespace = stated["namespace"].as_str().unwrap_or("default");
        let name = format!("{namespace}/{}", stated["name"].as_str().unwrap());
        assert_eq!(manifest["job"], name.as_str(), "{}", import.file);
    }
}

fn check_xxl(import: &Imported, truth: &Value) {
    import.is("jobs", import.manifests().len(), &truth["jobs"]);
    let stated = truth["schedules"].as_array().unwrap();
    let stated: Vec<&str> = stated.iter().map(|s| s["conf"].as_str().unwrap()).collect();
    assert_eq!(import.of_manifests("schedule"), stated, "{}", import.file);
}

fn check_quartz(import: &Imported, truth: &Value) {
    import.is("jobs", import.manifests().len(), &truth["jobs"]);
    let stated = truth["triggers"]
        .as_array()
        .or(truth["cron_triggers"].as_array());
    for trigger in stated.unwrap() {
        let name = &trigger["name"];
        let entries = import.entries("job");
        let entry = entries
            .iter()
            .find(|entry| &entry["read"]["trigger"] == name)
            .unwrap_or_else(|| panic!("{}: no {name}", import.file));
        let expression = trigger.get("expr").unwrap_or(&trigger["cron-expression"]);
        assert_eq!(
            &entry["read"]["cron_expression"], expression,
            "{}",
            import.file
        );
        let job = &entry["job"];
        let manifest = import
            .manifests()
            .iter()
            .find(|m| &m["job"] == job)
            .unwrap();
        let zone = trigger.get("tz").or(trigger.get("time-zone"));
        let zone = zone.and_then(Value::as_str).unwrap_or(ZONE);
        assert_eq!(manifest["timezone"], zone, "{}", import.file);
    }
}

#[test]
#[allow(clippy::print_stdout)] // on behalf of a test, which may
fn the_corpus_gives_what_it_is_stated_to_give() {
    let Ok(sources) = fs::read_to_string(corpus().join("SOURCES.tsv")) else {
        println!("skipped: there is no corpus at {}", corpus().display());
        return;
    };
    let place = Place::new();
    let mut files = 0;
    for row in sources.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        let [file, .., truth] = fields[..] else {
            panic!("{row}");
        };
        let truth: Value = serde_json::from_str(truth).unwrap();
        let kind = file.split('/').next().unwrap();
        let source = if kind == "anacrontab" {
            "crontab"
        } else {
            kind
        };
        let import = import(&place, file, source);
        match kind {
            "crontab" => check_crontab(&import, &truth),
            "anacrontab" => check_anacrontab(&import, &truth),
            "k8s" => check_k8s(&import, &truth),
            "xxl" => check_xxl(&import, &truth),
            "quartz" => check_quartz(&import, &truth),
            other => panic!("{other} is not known"),
        }
        files += 1;
    }
    assert!(files > 40, "{files}");
}

const CRONTAB: &str = "# nightly\n10 2 * * * ann /opt/report\n*/5 * * * * ann /opt/poll\n";

fn import_crontab(place: &Place) -> crate::place::Said {
    place.matins(&["import", "crontab", "tab", "--timezone", ZONE, "-o", "out"])
}

fn manifests(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(place.path("out/cron"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn importing_again_makes_no_second_job_and_takes_no_edit_back() {
    let place = Place::new();
    place.write("tab", CRONTAB);
    import_crontab(&place).done();
    let first = manifests(&place);
    assert_eq!(first.len(), 2);
    let edited = first
        .iter()
        .find(|name| name.starts_with("report"))
        .unwrap();
    let path = format!("out/cron/{edited}");
    let mine = place.read(&path).replace("owner: ann", "owner: finance");
    place.write(&path, &mine);
    // Lines have moved, and a third has come.
    place.write(
        "tab",
        &CRONTAB.replace(
            "# nightly\n",
            "# nightly\n0 3 * * * ann /opt/new\n# nightly\n",
        ),
    );
    import_crontab(&place).done();
    assert_eq!(manifests(&place).len(), 3);
    assert!(first.iter().all(|name| manifests(&place).contains(name)));
    assert_eq!(place.read(&path), mine);
    // Now the source says something else of the job that was edited.
    place.write("tab", &CRONTAB.replace("nightly", "every night"));
    import_crontab(&place).refused_with_remedy(1, &[edited, "edited since", "--force"]);
    assert_eq!(place.read(&path), mine);
    place
        .matins(&[
            "import",
            "crontab",
            "tab",
            "--timezone",
            ZONE,
            "-o",
            "out",
            "--force",
        ])
        .done();
    assert!(place.read(&path).contains("every night"));
    // What the source has no more is told, and stays.
    place.write("tab", "");
    let said = import_crontab(&place);
    assert_eq!(said.status, 0, "{said:?}");
    let report: Value = serde_json::from_str(&place.read("out/report.json")).unwrap();
    assert_eq!(report["left_over"].as_array().unwrap().len(), 3, "{report}");
}

#[test]
fn what_nobody_wrote_for_an_import_is_not_overwritten() {
    let place = Place::new();
    place.write("tab", CRONTAB);
    place.write("out/report.json", "{\"mine\": 1}");
    import_crontab(&place).refused_with_remedy(1, &["report.json", "no report of an import"]);
    assert_eq!(place.read("out/report.json"), "{\"mine\": 1}");
    assert!(!place.path("out/cron").exists());
}

#[test]
fn what_only_a_person_knows_is_asked() {
    let place = Place::new();
    place.write("tab", CRONTAB);
    place.write("either", "1 2 * * * one two\n");
    place.write("both", "1 2 * * * root a\n1 2 * * * /bin/b\n");
    place.write("job.yaml", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {schedule: '0 1 * * *', jobTemplate: {spec: {template: {spec: {containers: [{image: i}]}}}}}\n");
    for (arguments, words) in [
        (&["crontab", "tab"][..], &["tab:2", "--timezone"][..]),
        (
            &["k8s", "job.yaml"],
            &["job.yaml:1", "kube-controller-manager", "--timezone"],
        ),
        (
            &["crontab", "either", "--timezone", ZONE],
            &["line 1", "--user-field"],
        ),
        (&["crontab", "both", "--timezone", ZONE], &["--user-field"]),
        (
            &["crontab", "tab", "--timezone", "Shanghai"],
            &["Shanghai", "--timezone"],
        ),
        (
            &["crontab", "tab", "--timezone", ZONE, "--namespace", "A B"],
            &["--namespace"],
        ),
        (
            &["crontab", "missing", "--timezone", ZONE],
            &["missing", "No such file"],
        ),
    ] {
        let arguments = [&["import"], arguments, &["-o", "out"]].concat();
        place.matins(&arguments).refused_with_remedy(2, words);
        assert!(!place.path("out").exists(), "{arguments:?}");
    }
}

/// A hostile source costs a line in the report and no more.
#[test]
fn hostile_sources_are_told_as_what_they_are() {
    let place = Place::new();
    let binary: Vec<u8> = (0..=255).cycle().take(5000).collect();
    fs::write(place.path("binary"), &binary).unwrap();
    place.write("deep.xml", &"<a>".repeat(100_000));
    let mut bomb = "<!DOCTYPE a [<!ENTITY e0 \"x\">".to_owned();
    for i in 1..20 {
        let tenfold = format!("&e{};", i - 1).repeat(10);
        bomb.extend(["<!ENTITY e", &i.to_string(), " \"", &tenfold, "\">"]);
    }
    place.write(
        "bomb.xml",
        &format!(
            "{bomb}]><job-scheduling-data><job><name>&e19;</name></job></job-scheduling-data>"
        ),
    );
    place.write("deep.yaml", &"[".repeat(100_000));
    place.write(
        "unclosed.sql",
        "INSERT INTO xxl_job_info VALUES (1, 'x);\n\n",
    );
    for (source, file) in [
        ("crontab", "binary"),
        ("k8s", "binary"),
        ("xxl", "binary"),
        ("quartz", "binary"),
        ("quartz", "deep.xml"),
        ("quartz", "bomb.xml"),
        ("k8s", "deep.yaml"),
        ("xxl", "unclosed.sql"),
    ] {
        let out = format!("{source}-{file}");
        let said = place.matins(&["import", source, file, "--timezone", ZONE, "-o", &out]);
        assert_eq!(said.status, 1, "{source} {file}: {said:?}");
        let report: Value =
            serde_json::from_str(&place.read(&format!("{out}/report.json"))).unwrap();
        assert_eq!(report["jobs"], 0, "{source} {file}");
        assert!(report["bad"].as_u64().unwrap() > 0, "{source} {file}");
    }
}
