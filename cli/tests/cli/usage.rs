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
        (
            &["describe", "12"],
            &["run-NUMBER", "finance/reconcile", "host-1"],
        ),
        (&["why", "demo/x"], &["JOB@TIME"]),
        (&["why", "demo/x@noon"], &["with its offset", "latest"]),
        (&["redo", "run-1"], &["--reason"]),
        (
            &[
                "rerun", "run-1", "--failed", "--shard", "1", "--reason", "x",
            ],
            &["--shard", "cannot be used"],
        ),
        (
            &["run", "demo/x", "--param", "east", "--reason", "x"],
            &["NAME=VALUE"],
        ),
        (&["pause", "demo/x"], &["--reason"]),
        (&["drain", "host-1", "--force", "--reason", "x"], &["--now"]),
        (&["resource", "set", "db", "-1"], &["-1"]),
        (&["resource", "set", "db?x", "1"], &["`db?x`", "1 to 63 of"]),
        (&["resource", "get", "a/b"], &["`a/b`", "1 to 63 of"]),
        (&["resource", "delete", "db#x"], &["`db#x`", "1 to 63 of"]),
        (&["alerts", "clear", "12", "--reason", "x"], &["alert-"]),
        (&["sql", "--time-limit", "2m"], &["at most 60s"]),
        (&["get", "jobs", "--watch=often"], &["--watch"]),
        (&["get", "jobs", "--output", "xml"], &["table", "yaml"]),
        (&["completions", "tcsh"], &["bash", "zsh", "fish"]),
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
        &["get", "resources"],
        &["get", "jobs", "--watch"],
        &["describe", "host-1"],
        &["why", "demo/x@latest"],
        &["redo", "run-1", "--reason", "x"],
        &["pause", "demo/x", "--reason", "x"],
        &["resume", "demo/x"],
        &["alerts", "clear", "alert-1", "--reason", "x"],
        &["cordon", "host-1", "--reason", "x"],
        &["uncordon", "host-1"],
        &["drain", "host-1", "--reason", "x"],
        &["resource", "set", "db", "4"],
        &["resource", "get", "db"],
        &["resource", "delete", "db"],
        &["agent", "revoke", "host-1", "--reason", "x"],
    ] {
        let said = place.matins(arguments);
        said.refused_with_remedy(3, &["./.matins", "api.json", "matins dev", "--data"]);
    }
}

#[test]
fn a_version_is_said_without_a_coordinator_too() {
    let place = Place::new();
    let said = place.matins(&["version"]);
    assert_eq!(said.status, 0, "{said:?}");
    let own = concat!("matins ", env!("CARGO_PKG_VERSION"), ", tzdata ");
    assert!(said.stdout.starts_with(own), "{said:?}");
    assert!(said.stderr.contains("no coordinator"), "{said:?}");
    let said = place.matins(&["version", "-o", "json"]);
    assert!(said.stdout.contains("\"coordinator\": null"), "{said:?}");
    assert_eq!(said.stderr, "");
}

#[test]
fn a_shell_is_told_how_to_ask_and_is_answered() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.matins(&["completions", shell]).done();
        assert!(script.contains("MATINS_COMPLETE"), "{script}");
    }
    let mut command = place.command(&["--", "matins", "get", "ru"]);
    command
        .env("MATINS_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "2")
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "false");
    let said: crate::place::Said = command.output().unwrap().into();
    assert_eq!(said.done(), "runs");
}

/// Where groff or man are missing, the pages are only written.
#[test]
fn manual_pages_are_without_a_fault() {
    let place = Place::new();
    place.matins(&["man", "pages"]).done();
    let page = place.path("pages/matins.1");
    let man = std::process::Command::new("man")
        .args(["--warnings=all", "-l"])
        .arg(&page)
        .env("MANWIDTH", "80")
        .output();
    let Ok(man) = man else {
        assert!(std::env::var_os("CI").is_none(), "man is missing");
        eprintln!("skipped: needs man (apt install man-db)");
        return;
    };
    let faults = String::from_utf8_lossy(&man.stderr);
    assert!(man.status.success() && faults.is_empty(), "{faults}");
    let text = String::from_utf8(man.stdout).unwrap();
    assert!(text.contains("SYNOPSIS"), "{text}");
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
    by_url.env("MATINS_API", format!("http://{free}"));
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
