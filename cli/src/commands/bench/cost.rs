//! What processes have used, by `/proc`.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// Processor time of a process, all its threads, in seconds. `None` where there is no such
/// process.
pub(super) fn cpu_s(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some(ticks(&stat)? as f64 / ticks_per_s as f64)
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
    fn this_process_has_used_some() {
        assert!(cpu_s(std::process::id()).is_some_and(|used| used >= 0.0));
    }
}
