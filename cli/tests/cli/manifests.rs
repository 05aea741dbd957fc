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
    place.write("jobs/deeper/still/d.yaml", "name: [");
    place.write("jobs/.hidden/e.yaml", "not: read");
    place.write("jobs/.e.yaml", "not: read");
    // There is no coordinator: none is asked before everything has been read.
    let said = place.matins(&["apply", "-f", "jobs"]);
    said.refused(
        2,
        &[
            "jobs/a.yaml:5:19: schedule.cron",
            "jobs/b.yml:2:9: shards",
            "jobs/deeper/still/d.yaml:1:7:",
            "jobs/b.yml:1:1:",
            "timezone",
            "reading 4 manifest files",
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

/// A directory is read to its end, whatever is in it, and what cannot be read is named.
#[test]
fn what_is_wrong_with_the_files_themselves_is_said_with_the_rest() {
    let place = Place::new();
    place.write("jobs/a.yaml", "owner: @finance\n");
    place.write(
        "jobs/deeper/b.yaml",
        &manifest("demo/b", "* * * * *", 1, ECHO),
    );
    place.write("jobs/nameless.yaml", &"#".repeat(2 << 20));
    for (link, target) in [
        ("jobs/deeper/loop", ".."),
        ("jobs/nowhere.yaml", "missing"),
        ("jobs/nowhere", "missing"),
        ("jobs/linked.yaml", "deeper/b.yaml"),
    ] {
        std::os::unix::fs::symlink(target, place.path(link)).unwrap();
    }
    let fifo = std::process::Command::new("mkfifo")
        .arg(place.path("jobs/pipe.yml"))
        .status();
    assert!(fifo.unwrap().success());
    let said = place.matins(&["apply", "-f", "jobs", "-f", "absent", "--dry-run"]);
    said.refused(
        2,
        &[
            "jobs/deeper/loop: the link leads back",
            "jobs/nowhere.yaml: No such file",
            "jobs/pipe.yml: this is no file but a pipe",
            "absent: No such file",
            "jobs/a.yaml:1:8: owner",
            "jobs/linked.yaml: demo/b is in jobs/deeper/b.yaml too",
            "jobs/nameless.yaml:1:1: the file has more than 1048576 bytes",
        ],
    );
    crate::place::fits(&said.stderr);
}
