//! What processes have used, by `/proc`.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// Processor time of a process and of those that it started and that live, all their threads, in
/// seconds; 0 where there is no such process.
pub(super) fn cpu_s_with_children(pid: u32) -> f64 {
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    let stat = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let used = |pid| stat(pid).as_deref().and_then(ticks).unwrap_or(0);
    with_children(pid, used) as f64 / ticks_per_s as f64
}

/// Memory that a process and those that it started take, shared pages counted in each, in bytes.
pub(super) fn resident_bytes_with_children(pid: u32) -> u64 {
    let status = |pid| fs::read_to_string(format!("/proc/{pid}/status")).ok();
    with_children(pid, |pid| {
        status(pid).as_deref().and_then(resident_kib).unwrap_or(0) << 10
    })
}

fn with_children(pid: u32, of: impl Fn(u32) -> u64) -> u64 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    // A kernel without that file has them counted by nobody.
    let children = children.unwrap_or_default();
    let children = children
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok());
    of(pid) + children.map(of).sum::<u64>()
}

/// User and system time of a line of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    // The name of the program stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "12 (a) 1 (b) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(100));
        assert_eq!(ticks("12 (a"), None);
    }

    #[test]
    fn memory_is_found() {
        assert_eq!(
            resident_kib("Name:\tmatins\nVmRSS:\t   14336 kB\n"),
            Some(14336)
        );
        assert!(resident_bytes_with_children(std::process::id()) > 0);
    }
}
