//! Whole trees are killed, by each of the three mechanisms, whatever they do to get away.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::DurationMs;
use protocol::attempt::Exit;
use protocol::supervisor::KillCause;

use crate::harness::{
    Home, Mounted, has_cgroups, is_alive, is_possible, launch_shell, launch_with, wait_for,
};

/// Scripts that say `pid=` of a process that is to be killed, and do not end by themselves.
const TREES: [(&str, &str); 9] = [
    ("a double fork", "(sleep 1000 & echo pid=$!) & sleep 1000"),
    (
        "a session of its own",
        "setsid sh -c 'sleep 1000 & echo pid=$!' & sleep 1000",
    ),
    (
        "a session of its own without environment",
        "env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 1000 & echo pid=$!'; sleep 1000",
    ),
    (
        "SIGTERM ignored",
        "trap '' TERM; sh -c 'echo pid=$$; while :; do sleep 0.2; done'",
    ),
    (
        "stopped",
        "setsid sh -c 'echo pid=$$; kill -STOP $$; sleep 1000' & sleep 1000",
    ),
    (
        "three hundred processes",
        "i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; echo pid=$!; wait",
    ),
    (
        "one that forks for ever, one generation at a time",
        "next() { ( next & ) ; }; setsid sh -c 'next() { ( next & ) ; }; next' & echo pid=$$; \
         sleep 1000",
    ),
    (
        "traced, and its tracer does not care",
        "python3 -c 'import ctypes, os, signal, time\n\
         pid = os.fork()\n\
         if pid == 0:\n    ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n    os.kill(os.getpid(), signal.SIGSTOP)\n\
         print(\"pid=%d\" % pid, flush=True)\n\
         time.sleep(1000)'",
    ),
    (
        "a main thread that has ended while another runs on",
        "exec python3 -c 'import ctypes, os, threading, time\n\
         threading.Thread(target=time.sleep, args=(1000,)).start()\n\
         print(\"pid=%d\" % os.getpid(), flush=True)\n\
         ctypes.CDLL(None).syscall(60, 0)'",
    ),
];

#[test]
fn what_has_shed_everything_is_not_taken_for_another_attempts() {
    if !is_possible("telling processes apart", true, &[]) {
        return;
    }
    let home = Home::new();
    let _supervisor = home.start_where(Mounted::None);
    let mut agent = home.connect();
    let go = home.path().join("go");
    let waits = format!("while ! [ -e {} ]; do sleep 0.05; done", go.display());
    agent.send(&launch_shell(&home, 1, &waits));
    agent.launched(1);
    // Started after the first, in a session of its own, without environment, its parent ended.
    let hides =
        "(env -i /usr/bin/setsid /bin/sh -c 'echo pid=$$; exec /bin/sleep 1000' &); sleep 1000";
    agent.send(&launch_shell(&home, 2, hides));
    wait_for("the one that hides", || home.output_of(2).contains("pid="));
    let pid = home.pid_in_output(2);
    fs::write(&go, "").unwrap();
    let end = agent.ended(1);
    assert_eq!((end.exit, end.leftovers), (Some(Exit::Code(0)), 0));
    assert!(is_alive(pid), "it is the second's, which goes on");
    agent.cancel(2);
    agent.ended(2);
    assert!(!is_alive(pid));
}

fn trees_die(mounted: Mounted) {
    let home = Home::new();
    let _supervisor = home.start_where(mounted);
    let mut agent = home.connect();
    for (token, (what, script)) in (1..).zip(TREES) {
        agent.send(&launch_shell(&home, token, script));
        wait_for(what, || home.output_of(token).contains("pid="));
        let pid = home.pid_in_output(token);
        agent.cancel(token);
        let end = agent.ended(token);
        assert_eq!(end.killed, Some(KillCause::Cancelled), "{what}");
        assert!(!is_alive(pid), "{what}: ended while {pid} lives");
    }
    assert_eq!(home.cgroups(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn trees_die_by_the_best_this_machine_has() {
    trees_die(Mounted::All);
}

#[test]
fn trees_die_by_version_1_alone() {
    let v1 = "version 1 alone";
    if is_possible(v1, true, &[]) && has_cgroups(v1, &[UNIFIED, FREEZER]) {
        trees_die(Mounted::V1);
    }
}

#[test]
fn trees_die_without_cgroups() {
    if is_possible("no cgroups", true, &[]) {
        trees_die(Mounted::None);
    }
}

/// On a machine that has both versions.
const UNIFIED: &str = "/sys/fs/cgroup/unified";
const FREEZER: &str = "/sys/fs/cgroup/freezer/cgroup.procs";

#[test]
fn an_attempt_is_in_its_cgroup_before_its_program_begins() {
    for (mounted, line) in [(Mounted::All, "0::"), (Mounted::V1, ":freezer:")] {
        if !is_possible("cgroups", true, &[]) {
            return;
        }
        if mounted == Mounted::V1 && !has_cgroups("version 1", &[UNIFIED, FREEZER]) {
            return;
        }
        let home = Home::new();
        let _supervisor = home.start_where(mounted);
        let mut agent = home.connect();
        agent.send(&launch_shell(&home, 1, "cat /proc/self/cgroup"));
        assert_eq!(agent.ended(1).exit, Some(Exit::Code(0)));
        let expected = format!("{}/a1", home.cgroup_name());
        let output = home.output_of(1);
        let held = output.lines().find(|l| l.contains(line)).unwrap();
        assert!(held.ends_with(&expected), "{mounted:?}: {output}");
        assert!(home.cgroups().is_empty(), "gone with its attempt");
    }
}

#[test]
fn root_that_moves_out_of_its_cgroup_is_found_all_the_same() {
    if !is_possible("moving out", true, &[]) {
        return;
    }
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "setsid env -i /bin/sh -c '\
                  for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do \
                  case $f in */matins-*) ;; *) echo $$ >$f;; esac; done 2>/dev/null; \
                  cat /proc/self/cgroup; echo pid=$$; : >moved; exec /bin/sleep 1000'";
    for (token, ends_by_itself) in [(1, true), (2, false)] {
        let wait = if ends_by_itself {
            "& while ! [ -e moved ]; do sleep 0.05; done"
        } else {
            ""
        };
        agent.send(&launch_shell(&home, token, &format!("{script} {wait}")));
        wait_for("the one that moves", || {
            home.output_of(token).contains("pid=")
        });
        assert!(!home.output_of(token).contains(&home.cgroup_name()));
        if !ends_by_itself {
            agent.cancel(token);
        }
        let end = agent.ended(token);
        let pid = home.pid_in_output(token);
        assert!(!is_alive(pid), "ended while {pid} lives");
        assert_eq!(end.leftovers, u32::from(ends_by_itself));
    }
}

#[test]
fn a_supervisor_sweeps_what_only_a_cgroup_still_shows() {
    if !is_possible("a sweep by cgroup", true, &[]) {
        return;
    }
    for mounted in [Mounted::All, Mounted::V1] {
        if mounted == Mounted::V1 && !has_cgroups("version 1", &[UNIFIED, FREEZER]) {
            return;
        }
        let home = Home::new();
        let supervisor = home.start_where(mounted);
        let mut agent = home.connect();
        let script = "env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 1000 & echo pid=$!'; sleep 9";
        agent.send(&launch_shell(&home, 1, script));
        wait_for("the hider", || home.output_of(1).contains("pid="));
        let pid = home.pid_in_output(1);
        supervisor.signal(Signal::SIGKILL);
        supervisor.wait();
        assert!(is_alive(pid), "there is something to sweep");
        let _next = home.start_where(mounted);
        let (_agent, table) = home.connect_for_table();
        assert!(table.swept && !is_alive(pid), "{mounted:?}");
        wait_for("its cgroup to go", || home.cgroups().is_empty());
    }
}

#[test]
fn two_supervisors_leave_each_others_attempts_alone() {
    let (one, other) = (Home::new(), Home::new());
    let _one = one.start();
    let mut agent = one.connect();
    agent.send(&launch_shell(&one, 1, "echo pid=$$; exec sleep 1000"));
    wait_for("the process", || one.output_of(1).contains("pid="));
    for _ in 0..2 {
        let second = other.start();
        other.connect();
        second.signal(Signal::SIGKILL);
        second.wait();
    }
    assert!(is_alive(one.pid_in_output(1)));
    // The last of them has left its cgroups: the next one cleans up, and takes its own with it.
    let last = other.start();
    other.connect();
    last.signal(Signal::SIGTERM);
    assert!(last.wait());
}

/// A file system that stands still: whoever writes to it sleeps where no signal wakes him.
struct Frozen {
    directory: tempfile::TempDir,
}

impl Frozen {
    fn new() -> Frozen {
        let directory = tempfile::tempdir().unwrap();
        let frozen = Frozen { directory };
        let image = frozen.path("image");
        run("truncate", &["-s", "8M", &image]);
        run("mkfs.ext4", &["-q", "-F", &image]);
        fs::create_dir(frozen.path("mount")).unwrap();
        run("mount", &["-o", "loop", &image, &frozen.path("mount")]);
        run("fsfreeze", &["-f", &frozen.path("mount")]);
        frozen
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn thaw(&self) {
        run("fsfreeze", &["-u", &self.path("mount")]);
    }
}

/// Whether this process waits to write to a file system that stands still. That it sleeps where no
/// signal wakes it would not tell: so does, for a moment, who waits for a page, or enters a cgroup.
fn hangs(pid: &str) -> bool {
    let stack = fs::read_to_string(format!("/proc/{pid}/stack")).unwrap_or_default();
    stack.contains("mnt_want_write")
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may be thawed already.
        let _ = Command::new("fsfreeze")
            .args(["-u", &self.path("mount")])
            .output();
        let mut gone = false;
        for _ in 0..200 {
            let umount = Command::new("umount").arg(self.path("mount")).output();
            gone = umount.is_ok_and(|output| output.status.success());
            if gone {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(
            gone || std::thread::panicking(),
            "{} stays mounted",
            self.path("mount")
        );
    }
}

/// A mount, taken away when the test is done with it.
struct Bound(String);

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).output();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
}

#[test]
fn what_cannot_be_killed_is_not_told_as_dead_and_holds_up_nobody() {
    let needs = [
        "/dev/loop-control",
        "/proc/self/stack",
        "/sbin/fsfreeze",
        "/sbin/mkfs.ext4",
    ];
    if !is_possible("a process in uninterruptible sleep", true, &needs) {
        return;
    }
    let frozen = Frozen::new();
    let home = Home::new();
    let supervisor = home.start();
    let mut agent = home.connect();
    // One hangs in its program, one before it, one as a leftover of a main process that is done.
    let touch = format!("touch {}", frozen.path("mount/a"));
    agent.send(&launch_shell(
        &home,
        1,
        &format!("echo pid=$$; exec {touch}"),
    ));
    let work = home.directory().join("work/2");
    fs::create_dir_all(&work).unwrap();
    let work = work.display().to_string();
    run("mount", &["--bind", &frozen.path("mount"), &work]);
    let work = Bound(work);
    agent.send(&launch_shell(&home, 2, "true"));
    let go = home.path().join("go");
    let waits = format!("while ! [ -e {} ]; do sleep 0.05; done", go.display());
    agent.send(&launch_shell(
        &home,
        3,
        &format!("setsid {touch} & echo pid=$!; {waits}"),
    ));
    let [program, leftover] = [1, 3].map(|token| {
        wait_for("it to say who it is", || {
            home.output_of(token).contains("pid=")
        });
        let pid = home.pid_in_output(token).to_string();
        wait_for("it to hang", || hangs(&pid));
        pid
    });
    wait_for("the one before its program to hang", || {
        let children = supervisor.children().into_iter();
        let mut others = children.filter(|pid| ![&program, &leftover].contains(&pid));
        others.any(|pid| hangs(&pid))
    });
    fs::write(&go, "").unwrap();
    wait_for("the leftover to be one", || {
        supervisor.children().contains(&leftover)
    });
    agent.cancel(1);
    agent.cancel(2);
    // While they are killed in vain, others start and end.
    for token in 10..14 {
        agent.send(&launch_with(&home, token, "sleep 1000", |launch| {
            launch.timeout = DurationMs(700);
        }));
        let end = agent.ended(token);
        assert_eq!(end.killed, Some(KillCause::TimedOut));
    }
    let (mut agent, table) = home.connect_for_table();
    for token in [1, 2, 3] {
        let held = table.attempts.iter().find(|held| held.token.0 == token);
        assert_eq!(held.unwrap().end, None, "{token} is told as dead");
    }
    assert!(is_alive(supervisor.pid().cast_signed()));
    frozen.thaw();
    drop(work);
    let mut ends = std::collections::BTreeMap::new();
    while ends.len() < 3 {
        let (token, end) = agent.any_end();
        ends.insert(token, end);
    }
    assert!(matches!(ends[&1].exit, Some(Exit::Signal(9 | 15))));
    assert_eq!(
        (ends[&2].exit, ends[&2].killed),
        (None, Some(KillCause::Cancelled))
    );
    assert_eq!(
        (ends[&3].exit, ends[&3].leftovers),
        (Some(Exit::Code(0)), 1)
    );
}

#[test]
fn a_process_nobody_started_here_is_no_attempts() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
    agent.send(&launch_shell(&home, 1, "exit 0"));
    assert_eq!(agent.ended(1).leftovers, 0);
    let pid = Pid::from_raw(stranger.id().cast_signed());
    assert!(is_alive(pid.as_raw()));
    kill(pid, Signal::SIGKILL).unwrap();
    stranger.wait().unwrap();
}
