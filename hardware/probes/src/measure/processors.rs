//! Which processors there are to measure on, and what else goes on there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// How long somebody looks whether the machine is quiet.
const LOOK: Duration = Duration::from_secs(1);

/// Processors that this process may use, by number; at least one.
pub(super) fn allowed() -> Result<Vec<usize>, String> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(|errno| {
        format!("the kernel does not say which processors may be used: {errno}")
    })?;
    let numbers = (0..CpuSet::count()).filter(|&number| set.is_set(number).unwrap_or(false));
    let numbers: Vec<usize> = numbers.collect();
    if numbers.is_empty() {
        return Err("the kernel says that no processor may be used".to_owned());
    }
    Ok(numbers)
}

/// Holds the calling thread to one processor.
pub(super) fn pin(processor: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(processor)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|errno| format!("a thread cannot be held to processor {processor}: {errno}"))
}

/// What a processor did since boot, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
}

/// Shares of a time, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) busy_per_mille: u32,
    /// Of a virtual machine, what its hypervisor gave to others.
    pub(super) stolen_per_mille: u32,
}

/// `/proc/stat`, its processors by number.
fn parse_ticks(text: &str) -> BTreeMap<usize, Ticks> {
    let ticks = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let number = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        // user nice system idle iowait irq softirq steal; guests are counted in the first two.
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
        let all: u64 = fields.iter().sum();
        let idle = fields.get(3)? + fields.get(4).unwrap_or(&0);
        let ticks = Ticks {
            busy: all - idle,
            stolen: fields.get(7).copied().unwrap_or(0),
            all,
        };
        Some((number, ticks))
    });
    ticks.collect()
}

pub(super) fn read_ticks() -> Result<BTreeMap<usize, Ticks>, String> {
    let text = fs::read_to_string("/proc/stat")
        .map_err(|error| format!("reading /proc/stat, for how busy the machine is: {error}"))?;
    Ok(parse_ticks(&text))
}

/// What some processors did between two looks; None where that was too short to say.
pub(super) fn shares(
    processors: &[usize],
    before: &BTreeMap<usize, Ticks>,
    after: &BTreeMap<usize, Ticks>,
) -> Option<Shares> {
    let (mut busy, mut stolen, mut all) = (0, 0, 0);
    for number in processors {
        let (before, after) = (before.get(number)?, after.get(number)?);
        busy += after.busy.saturating_sub(before.busy);
        stolen += after.stolen.saturating_sub(before.stolen);
        all += after.all.saturating_sub(before.all);
    }
    let share = |part: u64| Some((part * 1000).checked_div(all)?.min(1000) as u32);
    Some(Shares {
        busy_per_mille: share(busy)?,
        stolen_per_mille: share(stolen)?,
    })
}

/// How busy these are now, by looking for a second; None where that was stopped.
pub(super) fn busy_per_mille(
    processors: &[usize],
    stop: &AtomicBool,
) -> Result<Option<u32>, String> {
    let before = read_ticks()?;
    wait(LOOK, stop);
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let found = shares(processors, &before, &read_ticks()?);
    let found = found.ok_or("/proc/stat does not tell how busy the processors are")?;
    Ok(Some(found.busy_per_mille))
}

/// Waits, but not where somebody asks to stop.
fn wait(time: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
}

/// What holds the processors down: their governors, each once, and how often they were throttled.
pub(super) struct Brakes {
    pub(super) governors: Vec<String>,
    /// Since boot, for heat; None where the kernel does not count.
    pub(super) heat_throttles: Option<u64>,
    /// Since the control group began, for its quota; None where there is none.
    pub(super) quota_throttles: Option<u64>,
}

pub(super) fn read_brakes(processors: &[usize]) -> Brakes {
    let line = |number: &usize, file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{number}/{file}");
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    let mut governors: Vec<String> = processors
        .iter()
        .filter_map(|number| line(number, "cpufreq/scaling_governor"))
        .collect();
    governors.sort();
    governors.dedup();
    let counts = processors.iter().filter_map(|number| {
        line(number, "thermal_throttle/core_throttle_count")?
            .parse()
            .ok()
    });
    Brakes {
        governors,
        heat_throttles: counts.reduce(|sum: u64, count| sum.saturating_add(count)),
        quota_throttles: read_quota_throttles(),
    }
}

/// `nr_throttled` of the control group that this process is in, of either version.
fn read_quota_throttles() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let files = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let mount = match controllers {
            "" => "/sys/fs/cgroup",
            "cpu" | "cpu,cpuacct" => "/sys/fs/cgroup/cpu",
            _ => return None,
        };
        Some(
            Path::new(mount)
                .join(path.trim_start_matches('/'))
                .join("cpu.stat"),
        )
    });
    let counts = files.filter_map(|file| parse_throttles(&fs::read_to_string(file).ok()?));
    counts.max()
}

/// `cpu.stat` of a control group.
fn parse_throttles(text: &str) -> Option<u64> {
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("nr_throttled "))?;
    count.trim().parse().ok()
}

/// A list of numbers as the kernel writes it, such as `0-3,8`.
pub(super) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last - first.min(last) > CpuSet::count() {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_busy_is_told_by_two_looks() {
        let look = |text: &str| parse_ticks(text);
        let before =
            look("cpu  9 9 9 9\ncpu0 100 0 50 800 50 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0\nintr 5\n");
        let after = look(
            "cpu  9 9 9 9\ncpu0 150 0 60 820 60 5 5 10 0 0\ncpu1 0 0 0 1100 0 0 0 0\nintr 6\n",
        );
        for (processors, expected) in [
            (&[0][..], Some((727, 90))),
            (&[1], Some((0, 0))),
            (&[0, 1], Some((380, 47))),
            (&[7], None),
        ] {
            let found = shares(processors, &before, &after);
            let found = found.map(|shares| (shares.busy_per_mille, shares.stolen_per_mille));
            assert_eq!(found, expected, "{processors:?}");
        }
        assert_eq!(shares(&[0], &before, &before), None);
    }

    #[test]
    fn lists_and_counts_of_the_kernel() {
        for (text, expected) in [
            ("0-3,8\n", Some(vec![0, 1, 2, 3, 8])),
            ("5", Some(vec![5])),
            ("", Some(vec![])),
            ("0-9999999999", None),
            ("a", None),
        ] {
            assert_eq!(parse_list(text), expected, "{text:?}");
        }
        assert_eq!(parse_throttles("nr_periods 5\nnr_throttled 3\n"), Some(3));
        assert_eq!(parse_throttles("usage_usec 5\n"), None);
    }

    #[test]
    fn a_thread_can_be_held_to_each_processor_it_may_use() {
        let allowed = allowed().unwrap();
        assert!(!allowed.is_empty());
        for processor in allowed {
            let held = thread::spawn(move || pin(processor).and_then(|()| self::allowed()));
            assert_eq!(held.join().unwrap(), Ok(vec![processor]));
        }
    }
}
