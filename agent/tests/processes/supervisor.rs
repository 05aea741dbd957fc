//! The supervisor: what it starts, how it kills, what it leaves behind.

use std::collections::BTreeSet;
use std::fs;

use crate::harness::{Agent, Home, is_alive, launch, launch_shell, now_ms, wait_for};
use protocol::attempt::Exit;
use protocol::supervisor::{KillCause, Request, SpawnFault};
use protocol::{BootMs, DurationMs, Token};

#[test]
fn exits_signals_and_spawn_errors_are_told() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    for (token, script, expected) in [
        (1, "exit 0", Some(Exit::Code(0))),
        (2, "exit 3", Some(Exit::Code(3))),
        (3, "kill -SEGV $$", Some(Exit::Signal(11))),
    ] {
        agent.send(&launch_shell(&home, token, script));
        agent.launched(token);
        let end = agent.ended(token);
        assert_eq!(end.exit, expected, "{script}");
        assert_eq!((end.killed, end.leftovers), (None, 0), "{script}");
        assert!(end.memory_bytes_peak > 0);
    }
    agent.send(&launch(&home, 4, &["/no/such/program"]));
    let end = agent.ended(4);
    assert_eq!((end.exit, end.started_at), (None, None));
    assert_eq!(end.spawn_fault, SpawnFault::Launch);
    let why = end.spawn_error.unwrap();
    assert!(
        why.contains("/no/such/program") && why.contains("No such file"),
        "{why}"
    );
}

#[test]
fn a_process_gets_what_the_launch_names_and_nothing_else() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "env | sort; echo in=$(cat); echo files=$(ls -A | wc -l); pwd; \
                  echo sid=$(cut -d' ' -f6 /proc/$$/stat) pid=$$; touch a; mkdir -p b/c; \
                  echo oops >&2";
    let mut order = launch_shell(&home, 7, script);
    if let Request::Launch(l) = &mut order {
        l.env.push(("MATINS_JOB".to_owned(), "a/b".to_owned()));
        // What the supervisor recognises its own by is not for the agent to choose.
        l.env.push(("MATINS_TOKEN".to_owned(), "666".to_owned()));
    }
    agent.send(&order);
    assert_eq!(agent.ended(7).exit, Some(Exit::Code(0)));
    let output = home.output_of(7);
    let lines: Vec<&str> = output.lines().collect();
    let directory = home.directory();
    let pwd = directory.join("work/7");
    for expected in [
        "MATINS_JOB=a/b",
        "MATINS_TOKEN=7",
        &format!("MATINS_SUPERVISOR={}", directory.display()),
        "in=",
        "files=0",
        &pwd.display().to_string(),
        "oops",
    ] {
        assert!(
            lines.iter().any(|l| l.trim_end() == expected),
            "{expected}: {output}"
        );
    }
    let ours = |l: &&&str| l.contains('=') && !l.starts_with(char::is_lowercase);
    let shells = ["PWD=", "_=", "SHLVL=", "OLDPWD="];
    let inherited: Vec<_> = lines
        .iter()
        .filter(ours)
        .filter(|l| !l.starts_with("MATINS_") && !l.starts_with("PATH="))
        .filter(|l| !shells.iter().any(|s| l.starts_with(s)))
        .collect();
    assert!(inherited.is_empty(), "{inherited:?}");
    let session = lines.iter().find(|l| l.starts_with("sid=")).unwrap();
    let (sid, pid) = session.split_once(' ').unwrap();
    assert_eq!(
        sid.trim_start_matches("sid="),
        pid.trim_start_matches("pid=")
    );
    wait_for("the working directory to go", || {
        !pwd.exists() && fs::read_dir(directory.join("trash")).unwrap().count() == 0
    });
}

#[test]
fn a_process_inherits_no_descriptor_and_no_signal_setting() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch(&home, 1, &["/bin/ls", "/proc/self/fd"]));
    assert_eq!(agent.ended(1).exit, Some(Exit::Code(0)));
    // The fourth is the directory that ls itself reads.
    assert_eq!(home.output_of(1), "0\n1\n2\n3\n");
    agent.send(&launch(&home, 2, &["/bin/cat", "/proc/self/status"]));
    assert_eq!(agent.ended(2).exit, Some(Exit::Code(0)));
    let status = home.output_of(2);
    for name in ["SigBlk:", "SigIgn:"] {
        let value = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        let signals = u64::from_str_radix(value.trim(), 16).unwrap();
        // 32 and 33 belong to the C library, which lets nobody set them.
        assert_eq!(signals & !(0b11 << 31), 0, "{name} {value}");
    }
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_after_the_grace() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    agent.send(&launch_shell(&home, 1, script));
    wait_for("the trap", || home.output_of(1).contains("ready"));
    agent.send(&Request::Kill {
        token: Token(1),
        cause: KillCause::Cancelled,
    });
    let end = agent.ended(1);
    assert_eq!(end.exit, Some(Exit::Signal(9)));
    assert_eq!(end.killed, Some(KillCause::Cancelled));
}

#[test]
fn a_process_that_heeds_sigterm_has_its_grace() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "trap 'echo tidied; exit 5' TERM; echo ready; while :; do sleep 0.1; done";
    agent.send(&launch_shell(&home, 1, script));
    wait_for("the trap", || home.output_of(1).contains("ready"));
    agent.send(&Request::Kill {
        token: Token(1),
        cause: KillCause::Cancelled,
    });
    let end = agent.ended(1);
    assert_eq!(end.exit, Some(Exit::Code(5)));
    assert_eq!(end.killed, Some(KillCause::Cancelled));
    assert!(home.output_of(1).contains("tidied"));
}

/// Each script starts something that outlives its main process and writes its pid.
const HIDERS: [&str; 3] = [
    "sleep 1000 & echo pid=$!",
    // A session of its own, and two forks away.
    "setsid sh -c 'sleep 1000 & echo pid=$!'",
    // That, and an emptied environment.
    "env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 1000 & echo pid=$!'",
];

#[test]
fn what_a_main_process_leaves_behind_is_killed_and_counted() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    for (token, script) in (1..).zip(HIDERS) {
        agent.send(&launch_shell(&home, token, script));
        let end = agent.ended(token);
        assert_eq!(end.exit, Some(Exit::Code(0)), "{script}");
        assert_eq!(end.killed, None, "{script}");
        assert!(end.leftovers >= 1, "{script}: {end:?}");
        let pid = home.pid_in_output(token);
        assert!(
            !is_alive(pid),
            "{script}: said to have ended while {pid} lives"
        );
    }
}

#[test]
fn a_kill_reaches_the_whole_tree() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    for (token, script) in (1..).zip(HIDERS) {
        agent.send(&launch_shell(
            &home,
            token,
            &format!("{script}; sleep 1000"),
        ));
        wait_for("the hidden process", || {
            home.output_of(token).contains("pid=")
        });
        agent.send(&Request::Kill {
            token: Token(token),
            cause: KillCause::LeaseLost,
        });
        let end = agent.ended(token);
        assert_eq!(end.killed, Some(KillCause::LeaseLost), "{script}");
        let pid = home.pid_in_output(token);
        assert!(
            !is_alive(pid),
            "{script}: said to have ended while {pid} lives"
        );
    }
}

#[test]
fn one_attempts_end_leaves_the_others_alone() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    // The neighbour has a process in a session of its own, known by its environment.
    agent.send(&launch_shell(
        &home,
        1,
        &format!("{}; sleep 1000", HIDERS[1]),
    ));
    wait_for("the neighbour", || home.output_of(1).contains("pid="));
    agent.send(&launch_shell(&home, 2, HIDERS[2]));
    assert!(agent.ended(2).leftovers >= 1);
    assert!(is_alive(home.pid_in_output(1)));
}

#[test]
fn deadlines_hold_when_the_agent_is_gone() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let mut order = launch_shell(&home, 1, "echo pid=$$; exec sleep 1000");
    if let Request::Launch(l) = &mut order {
        l.deadline = BootMs(now_ms() + 700);
    }
    agent.send(&order);
    agent.launched(1);
    wait_for("the process", || home.output_of(1).contains("pid="));
    drop(agent);
    let pid = home.pid_in_output(1);
    wait_for("the deadline to be enforced", || !is_alive(pid));
    wait_for("the end in the table", || {
        let (_, table) = home.connect_for_table();
        table.attempts[0].end.is_some()
    });
    let (mut agent, table) = home.connect_for_table();
    let end = table.attempts[0].end.clone().unwrap();
    assert_eq!(end.killed, Some(KillCause::LeaseLost));
    // Held until it is told to forget.
    agent.send(&Request::Forget { token: Token(1) });
    agent.send(&Request::Hello);
    assert!(agent.table().attempts.is_empty());
}

#[test]
fn an_extension_moves_the_deadline() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let first = now_ms() + 500;
    let mut order = launch_shell(&home, 1, "sleep 1; exit 4");
    if let Request::Launch(l) = &mut order {
        l.deadline = BootMs(first);
    }
    agent.send(&order);
    agent.send(&Request::Extend {
        token: Token(1),
        deadline: BootMs(first + 60_000),
    });
    let end = agent.ended(1);
    assert!(now_ms() > first);
    assert_eq!((end.killed, end.exit), (None, Some(Exit::Code(4))));
}

#[test]
fn a_time_out_kills() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let mut order = launch_shell(&home, 1, "sleep 1000");
    if let Request::Launch(l) = &mut order {
        l.timeout = DurationMs(300);
    }
    agent.send(&order);
    let end = agent.ended(1);
    assert_eq!(end.killed, Some(KillCause::TimedOut));
}

#[test]
fn an_agent_that_comes_back_finds_its_attempts() {
    let home = Home::new();
    let _supervisor = home.start();
    let (mut first, before) = home.connect_for_table();
    let mut order = launch_shell(&home, 1, "sleep 1000");
    if let Request::Launch(l) = &mut order {
        l.takeover = DurationMs(15_000);
    }
    first.send(&order);
    first.launched(1);
    let (_second, table) = home.connect_for_table();
    assert_eq!(table.incarnation, before.incarnation);
    assert!(table.swept);
    let [held] = &table.attempts[..] else {
        panic!("{table:?}");
    };
    assert_eq!((held.token, held.takeover), (Token(1), DurationMs(15_000)));
    assert_eq!(held.output, home.output(1).display().to_string());
    assert!(held.started_at.is_some() && held.end.is_none());
    assert!(first.is_cut(), "one agent at a time");
}

#[test]
fn what_a_dead_agent_wrote_is_not_obeyed_after_the_table() {
    let home = Home::new();
    let supervisor = home.start();
    let mut dead = home.connect();
    supervisor.signal(nix::sys::signal::Signal::SIGSTOP);
    dead.send(&launch_shell(&home, 1, "touch ../../started"));
    drop(dead);
    let mut fresh = Agent::connect(&home);
    fresh.send(&Request::Hello);
    supervisor.signal(nix::sys::signal::Signal::SIGCONT);
    assert!(fresh.table().attempts.is_empty());
    // Whatever the supervisor was to do with that launch it has done when it answers again.
    fresh.send(&Request::Hello);
    assert!(fresh.table().attempts.is_empty());
    assert!(!home.directory().join("started").exists());
}

#[test]
fn a_supervisor_that_was_killed_is_followed_by_one_that_sweeps_before_it_answers() {
    let home = Home::new();
    let supervisor = home.start();
    let (mut agent, before) = home.connect_for_table();
    let mut pids = Vec::new();
    for (token, script) in (1..).zip(&HIDERS[..2]) {
        agent.send(&launch_shell(
            &home,
            token,
            &format!("{script}; echo main=$$; sleep 1000"),
        ));
        wait_for("the processes", || home.output_of(token).contains("main="));
        pids.push(home.pid_in_output(token));
    }
    supervisor.signal(nix::sys::signal::Signal::SIGKILL);
    supervisor.wait();
    assert!(
        pids.iter().any(|&pid| is_alive(pid)),
        "there is something to sweep"
    );
    let _next = home.start();
    let (_agent, table) = home.connect_for_table();
    for pid in pids {
        assert!(!is_alive(pid), "{pid} outlives the sweep");
    }
    assert!(table.swept && table.attempts.is_empty());
    assert_ne!(table.incarnation, before.incarnation);
    wait_for("the old working directories to go", || {
        !home.directory().join("work/1").exists()
    });
}

#[test]
fn a_main_process_dies_with_its_supervisor() {
    let home = Home::new();
    let supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_shell(&home, 1, "echo pid=$$; exec sleep 1000"));
    wait_for("the process", || home.output_of(1).contains("pid="));
    let pid = home.pid_in_output(1);
    supervisor.signal(nix::sys::signal::Signal::SIGKILL);
    supervisor.wait();
    wait_for("the process to die", || !is_alive(pid));
}

#[test]
fn a_second_supervisor_is_refused() {
    let home = Home::new();
    let _first = home.start();
    home.connect();
    let second = home.start();
    assert!(!second.wait(), "the second must fail");
    home.connect();
}

#[test]
fn sigterm_to_the_supervisor_interrupts_and_tells() {
    let home = Home::new();
    let supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_shell(
        &home,
        1,
        &format!("{}; sleep 1000", HIDERS[1]),
    ));
    wait_for("the processes", || home.output_of(1).contains("pid="));
    let pid = home.pid_in_output(1);
    supervisor.signal(nix::sys::signal::Signal::SIGTERM);
    let end = agent.ended(1);
    assert_eq!(end.killed, Some(KillCause::SupervisorStopped));
    assert!(!is_alive(pid));
    assert!(supervisor.wait(), "an orderly end");
}

#[test]
fn no_end_is_overlooked_in_a_crowd_of_others() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    for round in 0..25 {
        let tokens = round * 8 + 1..=round * 8 + 8;
        for token in tokens.clone() {
            // With orphans, whose ends are heard of beside those of the main processes.
            agent.send(&launch_shell(&home, token, "(:&) ; (:&) ; :"));
        }
        // From here on nothing but the ends themselves makes the supervisor look.
        let mut open: BTreeSet<i64> = tokens.collect();
        while !open.is_empty() {
            open.remove(&agent.any_end().0);
        }
    }
}

#[test]
fn an_output_directory_that_was_deleted_is_made_again() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    fs::remove_dir(home.path().join("output")).unwrap();
    agent.send(&launch_shell(&home, 1, "echo here"));
    let end = agent.ended(1);
    assert_eq!(end.exit, Some(Exit::Code(0)), "{:?}", end.spawn_error);
    assert_eq!(home.output_of(1), "here\n");
}

#[test]
fn a_directory_that_was_deleted_is_made_again_and_nothing_running_is_lost() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_shell(&home, 1, "sleep 1000"));
    agent.launched(1);
    fs::remove_file(home.directory().join("socket")).unwrap();
    let _agent = home.connect();
    fs::remove_dir_all(home.directory()).unwrap();
    // An agent that was started again meanwhile has nothing but the socket's path.
    let (mut agent, table) = home.connect_for_table();
    let known: Vec<Token> = table.attempts.iter().map(|a| a.token).collect();
    assert_eq!(known, [Token(1)]);
    agent.send(&launch_shell(&home, 2, "true"));
    agent.launched(2);
    assert_eq!(agent.ended(2).exit, Some(Exit::Code(0)));
    let second = home.start();
    assert!(!second.wait(), "the lock must be held again");
}

#[test]
fn a_supervisor_whose_directory_another_has_taken_stops() {
    let home = Home::new();
    let first = home.start();
    home.connect();
    fs::rename(home.directory(), home.path().join("moved")).unwrap();
    let _second = home.start();
    home.connect();
    assert!(first.wait(), "an orderly end");
}
