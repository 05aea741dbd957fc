//! The schema held against manifests by a validator that knows nothing of Matins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, manifest};

/// Takes a schema and YAML files; answers per file with the paths of what it refuses.
const VALIDATE: &str = r#"
import json, sys, yaml
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
def refusals(document):
    return sorted({"/".join(map(str, e.absolute_path)) for e in validator.iter_errors(document)})
answers = {}
for path in sys.argv[2:]:
    documents = [d for d in yaml.safe_load_all(open(path)) if d is not None]
    answers[path] = [r for d in documents for r in refusals(d)]
print(json.dumps(answers))
"#;

/// What the schema says of the files, or nothing where this machine has no validator.
#[allow(clippy::print_stdout)] // on behalf of a test, which may
fn validate(place: &Place, files: &[PathBuf]) -> Option<Value> {
    let schema = place.matins(&["schema"]).done();
    place.write("schema.json", &schema);
    let has_validator = Command::new("python3")
        .args(["-c", "import jsonschema, yaml"])
        .output()
        .is_ok_and(|ended| ended.status.success());
    if !has_validator {
        let missing = "python3 with jsonschema and yaml (Debian: python3-jsonschema python3-yaml)";
        assert!(std::env::var_os("CI").is_none(), "CI must have {missing}");
        println!("skipped: there is no {missing}");
        return None;
    }
    let output = Command::new("python3")
        .args(["-c", VALIDATE])
        .arg(place.path("schema.json"))
        .args(files)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn yaml_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            found.push(path);
        }
    }
}

/// The manifests among the blocks of a document of the documentation.
fn manifests_in(markdown: &str) -> impl Iterator<Item = &str> {
    markdown
        .split("```yaml\n")
        .skip(1)
        .filter_map(|block| Some(block.split_once("```")?.0))
        .filter(|block| block.lines().any(|line| line.starts_with("name: ")))
}

#[test]
fn manifests_of_examples_and_documentation_are_valid() {
    let place = Place::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    yaml_files(&root.join("examples"), &mut files);
    assert!(!files.is_empty(), "there are no examples");
    let mut pages = vec![root.join("README.md")];
    for directory in [root.join("docs"), root.join("docs/operations")] {
        let entries = fs::read_dir(directory).unwrap();
        pages.extend(entries.map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for (i, block) in manifests_in(&text).enumerate() {
            let stem = page.file_stem().unwrap().to_str().unwrap();
            let name = format!("{stem}-{i}.yaml");
            place.write(&name, block);
            files.push(place.path(&name));
        }
    }
    // The same by the reader.
    for file in &files {
        let said = place.matins(&["next", "-f", file.to_str().unwrap()]);
        assert_eq!(said.status, 0, "{said:?}");
    }
    let Some(answers) = validate(&place, &files) else {
        return;
    };
    for (file, refused) in answers.as_object().unwrap() {
        assert_eq!(refused, &serde_json::json!([]), "{file}");
    }
}

/// The schema refuses nothing that the reader takes.
#[test]
fn what_the_reader_takes_is_valid() {
    let place = Place::new();
    let good = manifest("demo/a", "30 23 * * *", 1, "[\"/bin/true\"]");
    let files: Vec<PathBuf> = [
        ("\"30 23 * * *\"", "\"@every 1h30m\""),
        ("\"30 23 * * *\"", "'@daily'"),
        (
            "\"30 23 * * *\"",
            "\"0 30 2 L * ? 2030-2040\", dialect: quartz",
        ),
        ("\"30 23 * * *\"", "\" 5/15 * * * ? \", dialect: kubernetes"),
        ("Etc/UTC", "America/Argentina/Buenos_Aires"),
        ("policy: skip, after: 30s", "within: 2h"),
        (
            "policy: skip, after: 30s",
            "policy: within, within: 1d2h3m4s5ms",
        ),
        ("policy: skip, after: 30s", "policy: run_now"),
        ("safe: true, how: \"it only prints\"", "safe: false"),
        (
            "overlap: queue",
            "overlap: forbid\nrenamed_from: demo/0._-z",
        ),
        ("backoff: [1s]", "backoff: [100ms, 1d]"),
        ("shards: 1\n", "limits: {}\n"),
        ("shards: 1\n", "limits: { memory: 4096KiB }\n"),
        ("shards: 1\n", "shards: { of: 90m, target: 3m }\n"),
        (
            "shards: 1\n",
            "after: [{ job: a/b, match: same_date }, { job: a/c, latest_within: 6h }]\nprevious: ended\n",
        ),
        (
            "shards: 1\n",
            "needs: { labels: [jdk17, disk=ssd], uses: { ledger-db: 4 } }\npriority: 0\nbegins: paused\n",
        ),
        (
            "shards: 1\n",
            "params: { region: east, empty: \"\" }\nserial: strict\n",
        ),
        (
            "policy: skip, after: 30s }",
            "policy: run_now }\ncatch_up: { at_most: 3, window: 3d, concurrency: 2 }",
        ),
        (
            "\"/bin/true\"]",
            "\"/bin/true\", \"\", \"{fire_date-1d}\"]\n  user: _batch-1$",
        ),
    ]
    .iter()
    .enumerate()
    .map(|(i, (from, to))| {
        assert!(good.contains(from), "{from} is not in {good}");
        let name = format!("good-{i}.yaml");
        place.write(&name, &good.replacen(from, to, 1));
        let said = place.matins(&["next", "-f", &name]);
        assert_eq!(said.status, 0, "{to}: {said:?}");
        place.path(&name)
    })
    .collect();
    let Some(answers) = validate(&place, &files) else {
        return;
    };
    for (file, refused) in answers.as_object().unwrap() {
        assert_eq!(refused, &serde_json::json!([]), "{file}");
    }
}

/// Each kind of mistake that a schema can know: what is written instead of what, and where the
/// schema must refuse it.
#[test]
fn what_a_schema_can_refuse_is_refused() {
    let place = Place::new();
    let good = manifest("demo/a", "30 23 * * *", 1, "[\"/bin/true\"]");
    let more = "start_deadline: 45m\nlimits: { memory: 2GiB, pids: 5, cpu_weight: 7 }\n";
    let whole = format!("{good}{more}");
    let cases = [
        ("name: demo/a", "name: Demo", "name"),
        ("name: demo/a", "", ""),
        ("owner:", "ovner:", ""),
        (
            "start_deadline: 45m",
            "start_deadline: 45",
            "start_deadline",
        ),
        (
            "start_deadline: 45m",
            "start_deadline: 1m1h",
            "start_deadline",
        ),
        ("at_most: 3", "at_most: 6", "retry/at_most"),
        ("at_most: 3", "at_most: \"3\"", "retry/at_most"),
        ("backoff: [1s]", "backoff: []", "retry/backoff"),
        ("backoff: [1s]", "backoff: 1s", "retry/backoff"),
        ("memory: 2GiB", "memory: 2GB", "limits/memory"),
        ("pids: 5", "pids: 0", "limits/pids"),
        ("cpu_weight: 7", "cpu_wait: 7", "limits"),
        ("shards: 1\n", "shards: 0\n", "shards"),
        ("shards: 1\n", "shards: { of: 90m }\n", "shards"),
        ("shards: 1\n", "after: [{ job: a/b }]\n", "after/0"),
        (
            "shards: 1\n",
            "after: [{ job: a/b, match: same_fire, latest_within: 6h }]\n",
            "after/0",
        ),
        (
            "shards: 1\n",
            "needs: { labels: [JDK] }\n",
            "needs/labels/0",
        ),
        (
            "shards: 1\n",
            "needs: { uses: { db: 0 } }\n",
            "needs/uses/db",
        ),
        ("shards: 1\n", "priority: 101\n", "priority"),
        ("shards: 1\n", "params: { Region: east }\n", "params"),
        ("shards: 1\n", "begins: later\n", "begins"),
        ("overlap: queue", "overlap: never", "overlap"),
        ("\"/bin/true\"", "", "run/exec"),
        ("\"/bin/true\"", "\"\"", "run/exec/0"),
        ("\"/bin/true\"", "\"/bin/sleep\", 30", "run/exec/1"),
        ("Etc/UTC", "Utc", "schedule/timezone"),
        ("\"30 23 * * *\"", "\"30 23\"", "schedule/cron"),
    ];
    let mut files = vec![place.path("whole.yaml")];
    place.write("whole.yaml", &whole);
    for (i, (from, to, _)) in cases.iter().enumerate() {
        assert!(whole.contains(from), "{from} is not in {whole}");
        let name = format!("bad-{i}.yaml");
        place.write(&name, &whole.replacen(from, to, 1));
        files.push(place.path(&name));
        let said = place.matins(&["next", "-f", &name]);
        assert_eq!(said.status, 2, "the reader takes {to}: {said:?}");
    }
    let Some(answers) = validate(&place, &files) else {
        return;
    };
    let of = |file: &PathBuf| answers[file.to_str().unwrap()].as_array().unwrap().clone();
    assert!(of(&files[0]).is_empty(), "{:?}", of(&files[0]));
    for (file, (_, to, path)) in files[1..].iter().zip(cases) {
        let refused = of(file);
        assert!(refused.contains(&path.into()), "{to}: {refused:?}");
    }
}
