//! What the kernel says of this process: the metrics that every process of a Prometheus has.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// Name, kind, help and value. What the kernel does not tell is left out.
pub(crate) type Reading = (&'static str, &'static str, &'static str, f64);

pub(crate) fn read() -> Vec<Reading> {
    let text = |file: &str| fs::read_to_string(file).ok();
    let ticks = setting(SysconfVar::CLK_TCK);
    let page_bytes = setting(SysconfVar::PAGE_SIZE);
    let units = ticks.zip(page_bytes);
    let mut readings = Vec::new();
    let stat = text("/proc/self/stat").zip(units);
    let boot = text("/proc/stat").and_then(|stat| parse_boot_time(&stat));
    if let Some(stat) = stat.and_then(|(stat, units)| parse_stat(&stat, units)) {
        readings.extend([
            (
                "process_cpu_seconds_total",
                "counter",
                "User and system CPU time.",
                stat.cpu_s,
            ),
            (
                "process_resident_memory_bytes",
                "gauge",
                "Memory in use.",
                stat.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "gauge",
                "Memory mapped.",
                stat.virtual_bytes,
            ),
            ("process_threads", "gauge", "Threads.", stat.threads),
        ]);
        if let Some(boot) = boot {
            readings.push((
                "process_start_time_seconds",
                "gauge",
                "When the process began, since the epoch.",
                boot + stat.started_s,
            ));
        }
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        readings.push((
            "process_open_fds",
            "gauge",
            "File descriptors open.",
            descriptors.count() as f64,
        ));
    }
    if let Some(most) = text("/proc/self/limits").and_then(|limits| parse_fds_max(&limits)) {
        readings.push((
            "process_max_fds",
            "gauge",
            "File descriptors that may be open.",
            most,
        ));
    }
    readings
}

fn setting(of: SysconfVar) -> Option<f64> {
    let value = sysconf(of).ok().flatten()?;
    Some(value as f64)
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_s: f64,
    threads: f64,
    /// Since the machine's boot.
    started_s: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

/// Reads /proc/PID/stat, whose second field is a name in parentheses that may hold anything.
///
/// `units`: clock ticks in a second, and bytes in a page.
fn parse_stat(text: &str, (ticks, page_bytes): (f64, f64)) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(") ")?;
    // The first of these is field 3 of proc_pid_stat(5).
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some(Stat {
        cpu_s: (field(14)? + field(15)?) / ticks,
        threads: field(20)?,
        started_s: field(22)? / ticks,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * page_bytes,
    })
}

fn parse_boot_time(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// The soft limit of /proc/PID/limits; `None` where there is none.
fn parse_fds_max(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let text = "42 (a) b) S 1 42 42 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 7 0 12345 \
                    1000000 25 18446744073709551615 1 1 0";
        let expected = Stat {
            cpu_s: 2.0,
            threads: 7.0,
            started_s: 123.45,
            virtual_bytes: 1_000_000.0,
            resident_bytes: 102_400.0,
        };
        assert_eq!(parse_stat(text, (100.0, 4096.0)), Some(expected));
        assert_eq!(parse_stat("42 (short) S 1", (100.0, 4096.0)), None);
        assert_eq!(parse_boot_time("cpu 1\nbtime 1700000000\n"), Some(1.7e9));
        let limits = "Limit  Soft  Hard\nMax open files            1024     4096     files\n";
        assert_eq!(parse_fds_max(limits), Some(1024.0));
        assert_eq!(parse_fds_max("Max open files unlimited unlimited"), None);
    }

    #[test]
    fn this_process_is_read_whole() {
        assert_eq!(read().len(), 7);
    }
}
