use std::os::unix::fs::PermissionsExt;

use crate::place::{Place, manifest};

const ECHO: &str = "[\"echo\", \"hello\"]";

#[test]
fn all_problems_of_all_files_are_said_at_once_with_their_places() {
    let place = Place::new();
    place.write("jobs/a.yaml", &manifest("demo/a", "61 * * * *", 1, ECHO));
    place.write("jobs/b.yml", "name: demo/b\nshards: 0\n");
    place.write("jobs/c.yaml", &manifest("demo/c", "* * * * *", 1, ECHO));
    place.write("jobs/notes.txt", "not a manifest");
    place.write("jobs/deeper/d.yaml", "not: read");
    // There is no coordinator: none is asked before everything has been read.
    let said = place.matins(&["apply", "-f", "jobs"]);
    said.refused(
        2,
        &[
            "jobs/a.yaml:5:19: schedule.cron",
            "jobs/b.yml:2:9: shards",
            "jobs/b.yml:1:1:",
            "timezone",
            "reading 3 manifest files",
            "nothing was applied",
        ],
    );
    assert!(!said.stderr.contains("c.yaml:"), "{}", said.stderr);
    crate::place::fits(&said.stderr);
}

#[test]
fn what_is_no_manifest_at_all() {
    let place = Place::new();
    place.write("empty/notes.txt", "");
    place.write("a.yaml", &manifest("demo/a", "* * * * *", 1, ECHO));
    place.write("again.yaml", &manifest("demo/a", "* * * * *", 1, ECHO));
    place.write(
        "twice.yaml",
        &[manifest("demo/t", "* * * * *", 1, ECHO).as_str(); 2].join("---\n"),
    );
    place.write("nothing.yaml", "# nothing\n");
    std::fs::write(place.path("binary.yaml"), b"name: \xff\n").unwrap();
    place.write("syntax.yaml", "name: [\n");
    for (arguments, words) in [
        (
            &["apply", "-f", "missing.yaml"][..],
            &["missing.yaml", "No such file"][..],
        ),
        (&["apply", "-f", "empty"], &["no *.yaml"]),
        (
            &["apply", "-f", "a.yaml", "-f", "again.yaml"],
            &["demo/a", "a.yaml", "again.yaml"],
        ),
        (&["apply", "-f", "twice.yaml"], &["twice.yaml:", "demo/t"]),
        (&["apply", "-f", "nothing.yaml"], &["nothing.yaml"]),
        (&["apply", "-f", "binary.yaml"], &["binary.yaml", "UTF-8"]),
        (&["apply", "-f", "syntax.yaml"], &["syntax.yaml:"]),
    ] {
        place.matins(arguments).refused_with_remedy(2, words);
    }
}

#[test]
fn a_file_that_may_not_be_read() {
    let place = Place::new();
    place.write("a.yaml", &manifest("demo/a", "* * * * *", 1, ECHO));
    let file = place.path("a.yaml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    place
        .matins(&["apply", "-f", "a.yaml"])
        .refused_with_remedy(2, &["a.yaml", "denied"]);
}
