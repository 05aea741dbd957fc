//! The files of one cgroup, in both versions.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use protocol::DurationMs;

use super::layout::Version;

/// Its name in the cgroup above, and its own `.`; each one below adds its `..`.
const LINKS_OF_CHILDLESS: u64 = 2;

/// One that is there already is no error.
pub(super) fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

pub(super) fn write(group: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = group.join(file);
    let mut opened = OpenOptions::new().write(true).truncate(true).open(path)?;
    opened.write_all(value.as_bytes())
}

pub(super) fn read(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

pub(super) fn words(group: &Path, file: &str) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(group.join(file))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The cgroups directly below this one. One that is gone has none.
pub(super) fn children(group: &Path) -> io::Result<Vec<PathBuf>> {
    // A directory of cgroups counts those below it, and nearly always there is none.
    if fs::metadata(group).is_ok_and(|found| found.nlink() == LINKS_OF_CHILDLESS) {
        return Ok(Vec::new());
    }
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The cgroup and all below it, those below first: an attempt that may can make some.
pub(super) fn with_descendants(group: &Path) -> Vec<PathBuf> {
    let mut found = vec![group.to_owned()];
    let mut seen = 0;
    while let Some(next) = found.get(seen).cloned() {
        found.extend(children(&next).unwrap_or_default());
        seen += 1;
    }
    found.reverse();
    found
}

/// Removes the cgroup and all below it. One that is gone is no error.
pub(super) fn remove(group: &Path) -> io::Result<()> {
    // Nearly always there is nothing below it.
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(()) => return Ok(()),
        Err(_) => {}
    }
    for below in with_descendants(group) {
        match fs::remove_dir(&below) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The processes in the cgroup and below it, ended ones not yet reaped possibly among them.
pub(super) fn members(group: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    for group in with_descendants(group) {
        // Gone, or of threads, whose processes are listed in a cgroup above.
        let list = read(&group, "cgroup.procs").unwrap_or_default();
        let pids = list.split_ascii_whitespace().flat_map(str::parse::<i32>);
        // Zero is one in a space of process ids that is not ours.
        found.extend(pids.filter(|pid| *pid > 0));
    }
    found
}

/// Version 2: whether anything is alive in the cgroup or below it.
pub(super) fn is_populated(group: &Path) -> bool {
    read(group, "cgroup.events").is_some_and(|text| field(&text, "populated") != Some(0))
}

pub(super) fn limit_memory(group: &Path, version: Version, bytes: u64) -> io::Result<()> {
    let limit = bytes.to_string();
    match version {
        Version::V1 => {
            write(group, "memory.limit_in_bytes", &limit)?;
            // Where swap is counted, there is none beyond the limit. It must not be below the
            // other, and so comes second.
            optional(write(group, "memory.memsw.limit_in_bytes", &limit))
        }
        Version::V2 => {
            write(group, "memory.max", &limit)?;
            optional(write(group, "memory.swap.max", "0"))?;
            // A tree that has lost one process at random is of no use to anybody.
            optional(write(group, "memory.oom.group", "1"))
        }
    }
}

/// A file that this kernel does not have is no error.
fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Weights are those of version 2, 1 to 10,000 around 100; version 1 counts around 1,024.
pub(super) fn weigh_cpu(group: &Path, version: Version, weight: u16) -> io::Result<()> {
    match version {
        Version::V1 => {
            let shares = (u32::from(weight) * 1024 / 100).max(2);
            write(group, "cpu.shares", &shares.to_string())
        }
        Version::V2 => write(group, "cpu.weight", &weight.to_string()),
    }
}

/// Weights are those of version 2, around 100. Which file is there depends on what shares the disks;
/// `bfq` counts to 1,000, and `cfq` from 10 to 1,000 around 500.
pub(super) fn weigh_io(group: &Path, version: Version, weight: u16) -> io::Result<()> {
    let of_bfq = weight.min(1_000).to_string();
    let (file, value, of_cost) = match version {
        Version::V1 => {
            let of_cfq = (u32::from(weight) * 5).clamp(10, 1_000).to_string();
            ("blkio.bfq.weight", of_bfq, ("blkio.weight", of_cfq))
        }
        Version::V2 => {
            let of_cost = ("io.weight", format!("default {weight}"));
            ("io.bfq.weight", of_bfq, of_cost)
        }
    };
    let other = write(group, of_cost.0, &of_cost.1);
    match write(group, file, &value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => other,
        written => written.and(optional(other)),
    }
}

pub(super) fn cpu_time(group: &Path, version: Version) -> Option<DurationMs> {
    let milliseconds = match version {
        Version::V1 => read(group, "cpuacct.usage")?.trim().parse::<u64>().ok()? / 1_000_000,
        Version::V2 => field(&read(group, "cpu.stat")?, "usage_usec")? / 1_000,
    };
    i64::try_from(milliseconds).ok().map(DurationMs)
}

pub(super) fn memory_peak(group: &Path, version: Version) -> Option<u64> {
    let file = match version {
        Version::V1 => "memory.max_usage_in_bytes",
        // Since Linux 5.19.
        Version::V2 => "memory.peak",
    };
    read(group, file)?.trim().parse().ok()
}

/// What is charged to the cgroup at this moment: when nothing in it is alive, page cache.
pub(super) fn memory_now(group: &Path, version: Version) -> Option<u64> {
    let file = match version {
        Version::V1 => "memory.usage_in_bytes",
        Version::V2 => "memory.current",
    };
    read(group, file)?.trim().parse().ok()
}

/// Microseconds since the cgroup was made, of the line `some` or `full`.
pub(super) fn pressure_us(group: &Path, file: &str, line: &str) -> Option<u64> {
    let text = read(group, file)?;
    let rest = text.lines().find_map(|found| found.strip_prefix(line))?;
    let total = rest
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok()
}

/// How many processes of the cgroup the kernel has killed for want of memory, be it the
/// cgroup's or the host's.
pub(super) fn oom_kills(group: &Path, version: Version) -> u64 {
    let file = match version {
        Version::V1 => "memory.oom_control",
        Version::V2 => "memory.events",
    };
    read(group, file)
        .and_then(|text| field(&text, "oom_kill"))
        .unwrap_or(0)
}

/// Of a file of lines `name value`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then(|| value.trim().parse().ok())?
    })
}
