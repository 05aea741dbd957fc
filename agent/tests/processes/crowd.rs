//! A thousand attempts of every kind, and nothing of them left.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use protocol::DurationMs;
use protocol::Token;
use protocol::attempt::Exit;
use protocol::supervisor::{End, KillCause, Request};

use crate::harness::{Agent, HEAP_ASIDE, Home, launch, launch_shell, launch_with, wait_for};

/// As many at once, as an agent with so many slots would have.
const AT_ONCE: usize = 24;

type Check = fn(&End) -> bool;

fn code(end: &End, code: i32) -> bool {
    end.exit == Some(Exit::Code(code)) && end.killed.is_none()
}

/// Script, time-out in milliseconds or none, and how it must end.
const KINDS: [(&str, Option<i64>, Check); 9] = [
    (":", None, |e| code(e, 0)),
    ("exit 3", None, |e| code(e, 3)),
    ("kill -KILL $$", None, |e| e.exit == Some(Exit::Signal(9))),
    ("sleep 1000", Some(50), |e| {
        e.killed == Some(KillCause::TimedOut)
    }),
    ("(sleep 1000 &) ; :", None, |e| {
        code(e, 0) && e.leftovers > 0
    }),
    ("setsid sleep 1000 & :", None, |e| {
        code(e, 0) && e.leftovers > 0
    }),
    ("head -c 30000 /dev/zero; echo; exit 1", None, |e| {
        code(e, 1)
    }),
    (
        "mkdir -p a/b/c; touch a/b/c/d a/e; chmod 0 a/b; exit 0",
        None,
        |e| code(e, 0),
    ),
    // Cancelled as soon as it is launched.
    ("sleep 1000", None, |e| {
        e.killed == Some(KillCause::Cancelled)
    }),
];
const CANCELLED: usize = 8;

/// Of two kinds that take more, one in a hundred.
const NO_SUCH_PROGRAM: i64 = 50;
const OUT_OF_MEMORY: i64 = 51;

fn begin(agent: &mut Agent, home: &Home, token: i64) -> Check {
    match token % 100 {
        NO_SUCH_PROGRAM => {
            agent.send(&launch(home, token, &["/no/such/program"]));
            return |e| e.exit.is_none() && e.spawn_error.is_some();
        }
        OUT_OF_MEMORY => {
            let script = "head -c 50000000 /dev/zero | tail -c 40000000 >/dev/null";
            agent.send(&launch_with(home, token, script, |l| {
                l.limits.memory_bytes = Some(8 << 20);
            }));
            return |e| e.out_of_memory || !e.not_enforced.is_empty();
        }
        _ => {}
    }
    let kind = token as usize % KINDS.len();
    let (script, timeout, check) = KINDS[kind];
    match timeout {
        Some(ms) => agent.send(&launch_with(home, token, script, |l| {
            l.timeout = DurationMs(ms);
        })),
        None => agent.send(&launch_shell(home, token, script)),
    }
    if kind == CANCELLED {
        agent.cancel(token);
    }
    check
}

/// Runs attempts with these tokens, some at a time, and checks how each has ended.
fn run(agent: &mut Agent, home: &Home, tokens: std::ops::Range<i64>) {
    let mut open: BTreeMap<i64, Check> = BTreeMap::new();
    let mut next = tokens.start;
    while next < tokens.end || !open.is_empty() {
        while next < tokens.end && open.len() < AT_ONCE {
            open.insert(next, begin(agent, home, next));
            next += 1;
        }
        let (token, end) = agent.any_end();
        let check = open.remove(&token).expect("one of those that run");
        assert!(check(&end), "{token}: {end:?}");
        agent.send(&Request::Forget {
            token: Token(token),
        });
    }
}

/// What the supervisor's descriptors lead to, but for the file that the harness writes in that
/// process now and then.
fn descriptors(pid: u32) -> Vec<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = all.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let mut targets: Vec<PathBuf> = targets
        .filter(|target| !target.ends_with(HEAP_ASIDE))
        .collect();
    targets.sort();
    targets
}

/// Processes with the supervisor of this home in their environment.
fn marked(home: &Home) -> Vec<String> {
    let mark = format!("MATINS_SUPERVISOR={}", home.directory().display());
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|e| e.file_name().into_string().ok());
    pids.filter(|pid| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == mark.as_bytes())
    })
    .collect()
}

fn nothing_stays(count: i64) {
    let home = Home::new();
    let supervisor = home.start();
    let mut agent = home.connect();
    // What is made once and kept is made by now.
    run(&mut agent, &home, 1..count / 5);
    let settled = |agent: &mut Agent| {
        agent.send(&Request::Hello);
        assert!(agent.table().attempts.is_empty());
        wait_for("the working directories to go", || {
            let count = |name| fs::read_dir(home.directory().join(name)).unwrap().count();
            count("work") + count("trash") == 0
        });
        wait_for("the supervisor's helpers to end", || {
            // The log writer stays.
            supervisor.children().len() == 1
        });
        // It has reaped them; when it answers it has let go of what it had to do with them.
        agent.send(&Request::Hello);
        agent.table();
        (home.heap_bytes(), descriptors(supervisor.pid()))
    };
    let before = settled(&mut agent);
    run(&mut agent, &home, count / 5..count + 1);
    let after = settled(&mut agent);
    assert_eq!(after.1, before.1, "descriptors");
    assert!(
        after.0 <= before.0 + 16 * 1024,
        "the heap grew from {} to {} bytes",
        before.0,
        after.0
    );
    assert_eq!(marked(&home), Vec::<String>::new());
    wait_for("the cgroups to go", || home.cgroups().is_empty());
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", supervisor.pid())).unwrap();
    assert!(!mounts.contains(&home.path().display().to_string()));
}

#[test]
fn a_thousand_attempts_leave_nothing() {
    nothing_stays(1_000);
}

#[test]
#[ignore = "make test-full: ten thousand attempts"]
fn ten_thousand_attempts_leave_nothing() {
    nothing_stays(10_000);
}

/// As when a host loses its coordinator.
#[test]
fn trees_whose_time_is_over_at_once_are_all_killed() {
    const TREES: i64 = 60;
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "setsid sleep 1000 & (sleep 1000 &) ; trap '' TERM; sleep 1000; sleep 1000";
    for token in 1..=TREES {
        agent.send(&launch_shell(&home, token, script));
    }
    wait_for("all trees to stand", || {
        marked(&home).len() >= TREES as usize * 4
    });
    // In one write, so that they are read together.
    agent.send_all((1..=TREES).map(|token| Request::Kill {
        token: Token(token),
        cause: KillCause::LeaseLost,
    }));
    let mut ended: Vec<i64> = Vec::new();
    for _ in 0..TREES {
        let (token, end) = agent.any_end();
        assert_eq!(end.killed, Some(KillCause::LeaseLost), "{token}: {end:?}");
        assert_eq!(end.exit, Some(Exit::Signal(9)), "{token}: {end:?}");
        ended.push(token);
    }
    ended.sort_unstable();
    assert!(ended.into_iter().eq(1..=TREES));
    assert_eq!(marked(&home), Vec::<String>::new());
}
