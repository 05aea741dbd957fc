use std::io::Read;
use std::process::Stdio;

use crate::place::{Place, fits};

#[test]
fn help_and_version_are_data() {
    let place = Place::new();
    let help = place.matins(&["--help"]).done();
    for word in ["apply", "supervisor", "Exit status:", "MATINS_DATA"] {
        assert!(help.contains(word), "{word}");
    }
    fits(&help);
    let version = place.matins(&["--version"]).done();
    assert_eq!(version, concat!("matins ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn the_guard_is_printed_as_it_stands_in_its_file() {
    let place = Place::new();
    for (database, script) in [
        ("sqlite", include_str!("../../src/guard/sqlite.sql")),
        ("postgres", include_str!("../../src/guard/postgres.sql")),
    ] {
        assert_eq!(place.matins(&["guard", database]).done(), script);
    }
}

#[test]
fn a_wrong_command_line_is_status_2() {
    let place = Place::new();
    for (arguments, words) in [
        (&["bogus"][..], &["unrecognized subcommand", "bogus"][..]),
        (&[], &["Usage"]),
        (&["apply"], &["--file"]),
        (&["get", "runs", "--limit", "0"], &["--limit"]),
        (
            &["get", "runs", "--state", "lost"],
            &["possible values", "needs_confirmation"],
        ),
        (&["describe", "12"], &["run-NUMBER", "finance/reconcile"]),
        (&["run", "demo/x"], &["--reason"]),
        (&["run", "demo/x", "--reason", " "], &["say why"]),
        (
            &[
                "run",
                "demo/x",
                "--at",
                "2026-11-29T02:10:00",
                "--reason",
                "x",
            ],
            &["with its offset"],
        ),
        (
            &["confirm", "run-1", "--as", "fine", "--reason", "x"],
            &["succeeded", "retry"],
        ),
        (
            &["dev", "--jobs", "x", "--exit-after", "90"],
            &["has no unit"],
        ),
        (&["agent"], &["--data", "--slots"]),
        (&["agent", "revoke", "host-1"], &["--reason"]),
        (&["agent", "revoke", "Host 1", "--reason", "x"], &["Host 1"]),
        (&["guard", "mysql"], &["mysql", "sqlite, postgres"]),
    ] {
        place.matins(arguments).refused(2, words);
    }
}

#[test]
fn without_a_coordinator_every_question_is_status_3() {
    let place = Place::new();
    for arguments in [
        &["get", "jobs"][..],
        &["get", "runs", "--output", "json"],
        &["get", "agents"],
        &["get", "alerts"],
        &["describe", "run-1"],
        &["describe", "demo/x@2026-11-29T02:10:00Z"],
        &["run", "demo/x", "--reason", "x"],
        &["rerun", "run-1", "--reason", "x"],
        &["cancel", "run-1", "--reason", "x"],
        &["confirm", "run-1", "--as", "retry", "--reason", "x"],
        &["logs", "run-1"],
        &["agent", "revoke", "host-1", "--reason", "x"],
    ] {
        let said = place.matins(arguments);
        said.refused_with_remedy(3, &["./.matins", "api.json", "matins dev", "--data"]);
    }
}

#[test]
fn an_address_where_nobody_listens_is_status_3() {
    let place = Place::new();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let api = format!("{{\"url\":\"http://{free}\",\"token\":\"x\"}}");
    place.write("dead/api.json", &api);
    place.write("dead/coordinator/api.json", &api);
    let said = place.matins(&["get", "runs", "--data", "dead"]);
    said.refused_with_remedy(3, &[&free.to_string(), "refused"]);
    assert!(!said.stderr.contains("not known"), "{}", said.stderr);
    let said = place.matins(&["cancel", "run-1", "--reason", "x", "--data", "dead"]);
    said.refused_with_remedy(3, &["refused"]);
    assert!(
        !said.stderr.contains("not known"),
        "it was never sent: {}",
        said.stderr
    );

    let mut by_url = place.command(&["get", "runs"]);
    by_url.env("MATINS_URL", format!("http://{free}"));
    let said: crate::place::Said = by_url.output().unwrap().into();
    said.refused_with_remedy(2, &["MATINS_TOKEN_FILE is not set"]);
    place.write("token", "secret\n");
    by_url.env("MATINS_TOKEN_FILE", "token");
    let said: crate::place::Said = by_url.output().unwrap().into();
    said.refused_with_remedy(3, &[&free.to_string()]);
    // What is asked for by name comes before the environment.
    by_url.args(["--data", "elsewhere"]);
    let said: crate::place::Said = by_url.output().unwrap().into();
    said.refused_with_remedy(3, &["elsewhere"]);
}

#[test]
fn somebody_else_at_that_address_is_no_coordinator() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    place.write(
        "d/api.json",
        &format!("{{\"url\":\"http://{address}\",\"token\":\"x\"}}"),
    );
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello";
        std::io::Write::write_all(&mut stream, answer).unwrap();
    });
    let said = place.matins(&["get", "runs", "--data", "d"]);
    said.refused_with_remedy(3, &["404", "not a coordinator of Matins"]);
    answering.join().unwrap();
}

#[test]
fn a_file_that_is_not_an_address_is_told_so() {
    let place = Place::new();
    place.write("d/api.json", "{");
    place
        .matins(&["get", "runs", "--data", "d"])
        .refused_with_remedy(1, &["d/api.json"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let mut child = place
        .command(&["--help"])
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
    assert!(child.wait().unwrap().success());
    assert_eq!(stderr, "");
}
