//! Limits, and what a whole tree has used.

use protocol::DurationMs;
use protocol::attempt::{Exit, Limit};
use protocol::supervisor::KillCause;

use crate::harness::{
    Home, Mounted, has_cgroups, is_possible, launch_shell, launch_with, wait_for,
};

const MIB: u64 = 1024 * 1024;

#[test]
fn a_tree_that_needs_more_memory_than_it_may_have_is_ended_for_that() {
    if !is_possible("a memory limit", true, &[]) {
        return;
    }
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let hungry = "head -c 100000000 /dev/zero | tail -c 90000000 >/dev/null; echo status=$?";
    agent.send(&launch_with(&home, 1, hungry, |l| {
        l.limits.memory_bytes = Some(40 * MIB);
    }));
    let end = agent.ended(1);
    assert_eq!(end.not_enforced, []);
    assert!(end.out_of_memory, "{end:?} {}", home.output_of(1));
    let peak = end.memory_bytes_peak;
    assert!((20 * MIB..=40 * MIB).contains(&peak), "{peak}");
    // The same without a limit, and a neighbour that never was in need.
    agent.send(&launch_shell(&home, 2, hungry));
    let end = agent.ended(2);
    assert!(!end.out_of_memory);
    assert_eq!(home.output_of(2), "status=0\n");
    assert!(
        end.memory_bytes_peak > 60 * MIB,
        "{}",
        end.memory_bytes_peak
    );
}

#[test]
fn a_fork_bomb_stays_within_its_limit_and_is_killed() {
    if !is_possible("a limit of processes", true, &[]) {
        return;
    }
    for mounted in [Mounted::All, Mounted::V1] {
        let v1 = "/sys/fs/cgroup/freezer";
        if mounted == Mounted::V1 && !has_cgroups("version 1", &["/sys/fs/cgroup/unified", v1]) {
            return;
        }
        let home = Home::new();
        let _supervisor = home.start_where(mounted);
        let mut agent = home.connect();
        // The main process forks once, before there is a bomb that could keep it from it.
        let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null & exec sleep 1000";
        agent.send(&launch_with(&home, 1, bomb, |l| {
            l.limits.pids = Some(40);
            l.timeout = DurationMs(1_500);
        }));
        agent.launched(1);
        let end = agent.ended(1);
        assert_eq!(end.killed, Some(KillCause::TimedOut));
        assert_eq!(end.not_enforced, []);
        // A neighbour has what the bomb could not take.
        agent.send(&launch_shell(&home, 2, "exit 0"));
        assert_eq!(agent.ended(2).exit, Some(Exit::Code(0)));
    }
}

#[test]
fn a_weight_is_set_and_what_a_whole_tree_used_is_counted() {
    if !is_possible("a weight", true, &[]) {
        return;
    }
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    // Not waited for, so that it is in nobody's account but the cgroup's.
    let burner = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let script = format!(
        "cat /proc/self/cgroup; setsid sh -c '{burner}; : >{burnt}' & \
         for f in /sys/fs/cgroup/cpu*/ /sys/fs/cgroup/ /sys/fs/cgroup/*/; do \
         cat ${{f}}{name}/a1/cpu.shares ${{f}}{name}/a1/cpu.weight 2>/dev/null; done; \
         while ! [ -e {burnt} ]; do sleep 0.05; done",
        name = home_name(&home),
        burnt = home.path().join("burnt").display(),
    );
    agent.send(&launch_with(&home, 1, &script, |l| {
        l.limits.cpu_weight = Some(50);
    }));
    let end = agent.ended(1);
    assert_eq!(end.not_enforced, []);
    let output = home.output_of(1);
    assert!(
        output.lines().any(|line| line == "512" || line == "50"),
        "{output}"
    );
    assert!(end.cpu > DurationMs(10), "{:?}", end.cpu);
}

/// The directory must be there for its name to be known.
fn home_name(home: &Home) -> String {
    wait_for("the supervisor's directory", || {
        home.path().join("supervisor").exists()
    });
    home.cgroup_name()
}

#[test]
fn a_limit_that_this_host_cannot_enforce_is_said_if_it_was_asked_for() {
    if !is_possible("no cgroups", true, &[]) {
        return;
    }
    let home = Home::new();
    let _supervisor = home.start_where(Mounted::None);
    let mut agent = home.connect();
    agent.send(&launch_with(&home, 1, "exit 0", |l| {
        l.limits.memory_bytes = Some(40 * MIB);
        l.limits.cpu_weight = Some(50);
    }));
    let end = agent.ended(1);
    assert_eq!(end.exit, Some(Exit::Code(0)));
    assert_eq!(end.not_enforced, [Limit::Memory, Limit::CpuWeight]);
    assert!(end.memory_bytes_peak > 0, "of its largest process");
    agent.send(&launch_shell(&home, 2, "exit 0"));
    assert_eq!(agent.ended(2).not_enforced, []);
}
