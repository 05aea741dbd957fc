//! What a site has left on the machine. Everything it starts carries its directory's name: in
//! the command, in the environment, or as the directory it works in.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::grounds::{cgroup_mounts, remove_tree};

/// Processes, cgroups and mounts of this site, in words.
pub(crate) fn of(site: &Path) -> Result<Vec<String>> {
    let mut left: Vec<String> = processes(site)
        .into_iter()
        .map(|pid| format!("process {pid}: {}", command_line(pid)))
        .collect();
    for cgroup in cgroups(site)? {
        left.push(format!("cgroup {}", cgroup.display()));
    }
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let site = site.to_string_lossy();
    for mount in mounts.lines().filter(|line| line.contains(&*site)) {
        left.push(format!("mount {mount}"));
    }
    Ok(left)
}

/// Kills what is left and removes its cgroups. The directory's name is drawn at random for one
/// site, so nothing else can be meant.
pub(crate) fn remove(site: &Path) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let left = processes(site);
        for pid in &left {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        let cgroups = cgroups(site).unwrap_or_default();
        for cgroup in &cgroups {
            let _ = remove_tree(cgroup);
        }
        if left.is_empty() && cgroups.is_empty() {
            return;
        }
        sleep(Duration::from_millis(20));
    }
}

/// Pids of everything alive that carries the site's directory, but for the test itself.
pub(crate) fn processes(site: &Path) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let needle = site.as_os_str().as_bytes();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| pid != own && is_alive(pid) && carries(pid, needle))
        .collect()
}

/// A process that has ended but was not reaped is not alive.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !state.starts_with(['Z', 'X'])
    })
}

fn carries(pid: i32, needle: &[u8]) -> bool {
    let contains = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    contains(&read("cmdline"))
        || contains(&read("environ"))
        || contains(directory.as_os_str().as_bytes())
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Cgroups of any hierarchy that this site's supervisors have made.
pub(crate) fn cgroups(site: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(site)?.filter_map(|entry| Some(entry.ok()?.path()));
    let names: Vec<String> = entries
        .filter(|path| path.is_dir())
        .map(|path| cgroup_of(&path))
        .collect();
    let mut found = Vec::new();
    for (_, mount) in cgroup_mounts()? {
        find_named(&mount, &names, &mut found);
    }
    Ok(found)
}

/// How a supervisor of this directory names what it makes: by FNV-1a.
fn cgroup_of(directory: &Path) -> String {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = directory.as_os_str().as_bytes();
    format!(
        "matins-{:016x}",
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash)
    )
}

fn find_named(directory: &Path, names: &[String], found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if names.iter().any(|name| **name == *entry.file_name()) {
            found.push(path);
        } else {
            find_named(&path, names, found);
        }
    }
}
