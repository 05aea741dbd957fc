//! What an attempt has used beside CPU time and memory.

use protocol::attempt::{Counted, Usage};
use protocol::supervisor::End;

use crate::harness::{Home, Mounted, has_cgroups, is_possible, launch_shell};

const MIB: u64 = 1024 * 1024;

/// Longer than what is over at once.
const A_WHILE: &str = "sleep 0.3";

fn usage(end: &End) -> &Usage {
    end.usage.as_ref().expect("its supervisor measures")
}

fn end_of(script: &str, mounted: Mounted) -> End {
    let home = Home::new();
    let _supervisor = home.start_where(mounted);
    let mut agent = home.connect();
    agent.send(&launch_shell(&home, 1, script));
    let end = agent.ended(1);
    assert_eq!(end.killed, None, "{end:?} {}", home.output_of(1));
    end
}

#[test]
fn jobs_that_compute_write_and_sleep_are_told_apart() {
    if !is_possible("what a tree has used", true, &[]) {
        return;
    }
    let sleeps = end_of(A_WHILE, Mounted::All);
    let computes = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let computes = end_of(computes, Mounted::All);
    assert!(computes.cpu.0 > sleeps.cpu.0 * 5, "{computes:?} {sleeps:?}");
    // Past the cache: what is in the cache when an attempt ends is written by nobody's order.
    let writes = "dd if=/dev/zero of=it bs=1M count=16 conv=fsync 2>/dev/null; sleep 0.3";
    let writes = end_of(writes, Mounted::All);
    assert_eq!(usage(&sleeps).write_bytes.map(|bytes| bytes / MIB), Some(0));
    if is_kept_in_memory() {
        eprintln!("skipped: that writes are counted; the temporary directory is in memory");
    } else {
        assert!(usage(&writes).write_bytes > Some(8 * MIB), "{writes:?}");
    }
}

#[test]
fn stalls_and_cache_are_counted_where_the_kernel_counts_them() {
    let pressure = "/sys/fs/cgroup/unified/io.pressure";
    if !is_possible("stalls", true, &[]) || !has_cgroups("pressure", &[pressure]) {
        return;
    }
    // More processes than processors: each waits for some.
    let crowd = "for n in 1 2 3 4 5 6 7 8; do \
                 (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & done; wait; sleep 0.1";
    let end = end_of(crowd, Mounted::All);
    let of_crowd = usage(&end);
    assert!(of_crowd.stall_cpu_ms > Some(0), "{end:?}");
    assert!(of_crowd.stall_io_ms.is_some() && of_crowd.stall_memory_full_ms.is_some());
    assert!(of_crowd.memory_cache_bytes.is_some());
    assert!(!of_crowd.partial.contains(&Counted::Cpu));
    assert!(!of_crowd.partial.contains(&Counted::Memory));
    // What is over at once is not asked for more than it can tell.
    let brief = end_of("exit 0", Mounted::All);
    assert_eq!(usage(&brief).stall_cpu_ms, None);
}

#[test]
fn without_cgroups_the_children_that_were_waited_for_are_counted() {
    if !is_possible("no cgroups", true, &[]) {
        return;
    }
    let writes = "dd if=/dev/zero of=it bs=1M count=16 conv=fsync 2>/dev/null; sleep 0.3";
    let end = end_of(writes, Mounted::None);
    let used = usage(&end);
    assert_eq!(used.partial, Counted::ALL);
    assert_eq!((used.stall_io_ms, used.memory_cache_bytes), (None, None));
    if !is_kept_in_memory() {
        assert!(used.write_bytes > Some(8 * MIB), "{end:?}");
    }
}

/// Whether files in the temporary directory never come to a disk.
fn is_kept_in_memory() -> bool {
    let found = nix::sys::statfs::statfs(&std::env::temp_dir()).unwrap();
    found.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC
}
