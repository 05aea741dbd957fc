//! Coordinator, agent and supervisor as processes of their own.

use std::fs;
use std::path::PathBuf;

use crate::place::{Place, Running, Said, agent, coordinator, is_alive, wait_for};

/// A supervisor is there for as long as its host. Heap, stack, and every page of the program and
/// its libraries that the loader had to write to, in KiB. Of a program that is not optimised the
/// loader writes to twice as much.
const SUPERVISOR_OWN_KIB_MAX: u64 = if cfg!(debug_assertions) { 1536 } else { 768 };

fn identities(place: &Place) {
    place.authority("ca", "c1");
    for (role, name) in [("coordinator", "node-1"), ("agent", "host-1")] {
        place.issue("ca", role, name, name);
    }
}

#[test]
fn an_authority_is_made_once_and_issues_as_often_as_wanted() {
    let place = Place::new();
    identities(&place);
    identities_are_complete(&place);
    let again = place.matins(&["ca", "create", "--dir", "ca", "--cluster", "c1"]);
    again.refused_with_remedy(1, &["ca/ca.pem", "not overwritten"]);
    place.issue("ca", "agent", "host-1", "host-1");
    let issue = [
        "ca", "issue", "--dir", "no", "--role", "agent", "--name", "h", "--out", "h",
    ];
    place
        .matins(&issue)
        .refused_with_remedy(1, &["no/ca.pem", "matins ca create"]);
    let issue = [
        "ca", "issue", "--dir", "ca", "--role", "agent", "--name", "H_1", "--out", "h",
    ];
    place.matins(&issue).refused(2, &["not a valid agent name"]);
}

fn identities_are_complete(place: &Place) {
    for name in ["node-1", "host-1"] {
        for file in ["ca.pem", "cert.pem", "key.pem"] {
            assert!(place.path(name).join(file).exists(), "{name}/{file}");
        }
    }
}

#[test]
fn parts_that_cannot_start_say_why() {
    let place = Place::new();
    identities(&place);
    let run = |identity, api| {
        let arguments = [&coordinator("data", api)[..], &["--identity", identity]];
        place.matins(&arguments.concat())
    };
    run("node-1", "192.0.2.1:7412").refused_with_remedy(1, &["192.0.2.1:7412"]);
    run("nowhere", "127.0.0.1:0").refused_with_remedy(1, &["nowhere"]);
    let agent = |identity, name| {
        let arguments = agent("data", identity, "127.0.0.1:1");
        place.matins(&[&arguments[..], &["--name", name]].concat())
    };
    agent("host-1", "host-2").refused_with_remedy(1, &["host-1.agent.c1.matins", "host-2"]);
    agent("node-1", "node-1").refused_with_remedy(1, &["coordinator"]);
    let mut command = place.command(&["supervisor", "--dir", "s"]);
    command.env("MATINS_LOG", "supervisor=loud");
    let said: Said = command.output().unwrap().into();
    said.refused_with_remedy(2, &["MATINS_LOG", "coordinator=debug,info"]);
    place.write("file", "");
    place
        .matins(&["supervisor", "--dir", "file"])
        .refused_with_remedy(1, &["file"]);
}

#[test]
fn a_second_coordinator_on_the_same_data_is_refused() {
    let place = Place::new();
    identities(&place);
    let on_data = coordinator("data", "127.0.0.1:0");
    let arguments = [&on_data[..], &["--identity", "node-1"]].concat();
    let mut first = place.start_coordinator("first", &arguments);
    let second = place.matins(&arguments);
    second.refused(1, &["error: ", "remedy: ", &first.pid().to_string()]);
    first.signal("TERM");
    assert_eq!(first.wait(), Some(0), "{}", place.read("first.out"));
    assert!(!place.path("data/api.json").exists());
}

#[test]
fn a_ledger_is_backed_up_under_a_bare_name_and_restored_from_it() {
    let place = Place::new();
    identities(&place);
    let on_data = coordinator("data", "127.0.0.1:0");
    let arguments = [&on_data[..], &["--identity", "node-1"]].concat();
    let mut coordinator = place.start_coordinator("coordinator", &arguments);
    let backup = ["backup", "--to", "a.backup", "--data", "data"];
    let made = place.matins(&backup).done();
    assert!(made.starts_with("made: a.backup\n"), "{made}");
    let again = place.matins(&backup);
    again.refused_with_remedy(1, &["a.backup is there already", "another name"]);
    let checked = place.matins(&["backup", "--check", "a.backup"]).done();
    assert!(checked.starts_with("whole: a.backup\n"), "{checked}");
    coordinator.signal("TERM");
    assert_eq!(coordinator.wait(), Some(0));

    let restore = ["restore", "a.backup", "--data", "new", "--reason", "lost"];
    let restored = place.matins(&restore).done();
    assert!(restored.starts_with("restored: new\n"), "{restored}");
    let again = place.matins(&restore);
    again.refused_with_remedy(1, &["new is not empty", "ledger.db"]);
}

#[test]
fn a_supervisor_is_small_and_has_one_thread() {
    let place = Place::new();
    let mut supervisor = place.start("supervisor", &["supervisor", "--dir", "s"]);
    wait_for("the supervisor's socket", || {
        place.path("s/socket").exists().then_some(())
    });
    let proc = PathBuf::from(format!("/proc/{}", supervisor.pid()));
    let threads = fs::read_dir(proc.join("task")).unwrap().count();
    assert_eq!(threads, 1);
    let own = own_kib(&fs::read_to_string(proc.join("smaps_rollup")).unwrap());
    println!("a supervisor at rest holds {own} KiB of its own");
    assert!((1..=SUPERVISOR_OWN_KIB_MAX).contains(&own), "{own} KiB");
    supervisor.signal("TERM");
    assert_eq!(
        supervisor.wait(),
        Some(0),
        "{}",
        place.read("supervisor.out")
    );
}

/// Memory that belongs to this process alone and to no file, in KiB.
fn own_kib(smaps: &str) -> u64 {
    let line = smaps.lines().find_map(|l| l.strip_prefix("Anonymous:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    kib.unwrap().parse().unwrap()
}

#[test]
fn a_part_does_not_outlive_the_process_that_it_is_tied_to() {
    let place = Place::new();
    // Whoever starts it is not the process named.
    let said = place.matins(&["supervisor", "--dir", "s", "--parent-pid", "1"]);
    said.refused_with_remedy(1, &["process 1", "is gone"]);

    // A shell that names itself, and is then killed.
    let binary = env!("CARGO_BIN_EXE_matins");
    let script = format!("{binary} supervisor --dir s --parent-pid $$ & echo $! >pid; wait");
    let mut shell = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path("."))
        .spawn()
        .unwrap();
    wait_for("the supervisor's socket", || {
        place.path("s/socket").exists().then_some(())
    });
    let pid: u32 = wait_for("its pid", || place.read("pid").trim().parse().ok());
    assert!(is_alive(pid));
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_for("the supervisor to end", || (!is_alive(pid)).then_some(()));
}

#[test]
fn a_log_that_cannot_be_written_ends_nobody() {
    let place = Place::new();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = place.command(&["supervisor", "--dir", "s"]);
    let mut supervisor = Running(command.stderr(full).spawn().unwrap());
    // It logs before it listens.
    let listens = || place.path("s/socket").exists().then_some(());
    wait_for("the supervisor to listen", listens);
    supervisor.signal("TERM");
    assert_eq!(supervisor.wait(), Some(0));
}
