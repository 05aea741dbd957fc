//! Cgroups: one for each attempt, which holds its whole tree and what it may use.
//!
//! A process can leave its session, empty its environment and fork away from its parent; out of
//! a cgroup only root can move it. So where the kernel lets this supervisor make cgroups, they
//! are how a tree is found, killed and measured, and the walk through /proc beside them catches
//! what root moved elsewhere.
//!
//! Machines differ. Version 2 alone, with a parent delegated by systemd; version 1 alone; version 2
//! without controllers beside version 1 with them; neither, in a container or for a user without
//! rights. Each hierarchy is therefore used for what it can do: one to *hold* (kill and count),
//! one for each limit, one to count CPU time. What none of them can do is not done, and said.
//!
//! In each hierarchy the supervisor makes `matins-<hash of its directory>` below the cgroup it
//! was started in, and in that a cgroup for each attempt. By this name the next supervisor of
//! the same directory finds what is left, and no other one does. Where that one is started in
//! another cgroup, a file in the directory says where to look.

mod disks;
mod group;
mod hierarchy;
mod io_counts;
mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::attempt::{Counted, Limit, Limits, Usage};
use protocol::{BootMs, DurationMs, Token};

use super::processes::{self, Process, read_process};
use crate::clock;
use group::{members, remove};
use hierarchy::{Hierarchy, Hold, OWN, Task, find_hold, share_out};
use layout::{Mounted, Version};
use nix::sys::signal::Signal;

const SYS: &str = "/sys";

/// File in the supervisor's directory that says where its cgroups are, a path a line.
const PLACES: &str = "cgroups";

/// Longest time that killing what earlier supervisors left may take.
const SWEEP_MAX: DurationMs = DurationMs(5_000);
const PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Cgroups {
    proc: PathBuf,
    /// `matins-<hash>`.
    name: String,
    hierarchies: Vec<Hierarchy>,
    /// Where earlier supervisors of this directory had theirs and this one has none.
    former: Vec<Hierarchy>,
    /// Majors of devices that hand on what they are asked to others.
    stacked: BTreeSet<u32>,
    /// Most memory that was seen of each attempt, where the kernel keeps no peak.
    memory_seen: BTreeMap<Token, u64>,
    keeps_no_peak: bool,
    /// Cgroups of ended attempts that the kernel would not remove yet.
    lingering: Vec<PathBuf>,
}

/// What a process that is to become an attempt has found.
pub(super) struct Entered {
    /// A cgroup says which attempt it is of.
    pub(super) held: bool,
    pub(super) not_enforced: Vec<Limit>,
}

/// What is alive of an attempt by its cgroups.
#[derive(Debug, Default)]
pub(super) struct Alive {
    pub(super) processes: Vec<Process>,
    /// The kernel says that there is somebody and lists nobody: who has just ended.
    pub(super) undecided: bool,
}

/// What everything that was ever in a tree has used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu: Option<DurationMs>,
    pub(super) memory_bytes_peak: Option<u64>,
    pub(super) out_of_memory: bool,
    /// Most that was seen of it by looks now and then, where the kernel keeps no peak.
    pub(super) memory_bytes_seen: Option<u64>,
    pub(super) counted: Usage,
}

/// How much is asked about an attempt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// Every attempt's CPU time and memory.
    Brief,
    /// Its IO and what it waited for, too. These are six more files, and say nothing of what was over at
    /// once.
    Whole,
}

impl Cgroups {
    /// Makes the parents of attempts' cgroups wherever that is allowed.
    ///
    /// `proc` is /proc, `directory` the supervisor's own.
    pub(super) fn prepare(proc: &Path, directory: &Path) -> Cgroups {
        let name = format!("matins-{:016x}", hash(directory));
        let mut hierarchies = Vec::new();
        let mut refused = None;
        let weighs_io = disks::weigh(Path::new(SYS));
        for mounted in read_layout(proc) {
            match Hierarchy::prepare(mounted, &name, weighs_io) {
                Ok(found) => hierarchies.extend(found),
                Err((path, error)) => {
                    tracing::debug!(path = %path.display(), %error, "no cgroup can be made here");
                    refused = refused.or(Some(format!("{}: {error}", path.display())));
                }
            }
        }
        share_out(&mut hierarchies);
        for unused in hierarchies.iter().filter(|h| !h.is_of_use()) {
            unused.leave();
        }
        hierarchies.retain(Hierarchy::is_of_use);
        let former = find_former(&directory.join(PLACES), &name, &hierarchies);
        let cgroups = Cgroups {
            stacked: io_counts::read_stacked(proc),
            memory_seen: BTreeMap::new(),
            keeps_no_peak: hierarchies.iter().any(Hierarchy::keeps_no_peak),
            proc: proc.to_owned(),
            name,
            former,
            hierarchies,
            lingering: Vec::new(),
        };
        cgroups.tell(refused.as_deref());
        cgroups.note_places(&directory.join(PLACES));
        cgroups
    }

    /// The same again, where somebody has tidied the directory away.
    pub(super) fn note_places_in(&self, directory: &Path) {
        self.note_places(&directory.join(PLACES));
    }

    /// For the next supervisor. It can do without, as long as it is started in the same place.
    fn note_places(&self, file: &Path) {
        let mut places = String::new();
        for hierarchy in self.hierarchies.iter().chain(&self.former) {
            places.push_str(&hierarchy.parent.to_string_lossy());
            places.push('\n');
        }
        if let Err(error) = fs::write(file, places) {
            tracing::warn!(file = %file.display(), %error, "it cannot be noted where cgroups are");
        }
    }

    fn tell(&self, refused: Option<&str>) {
        let which = |task: Task| {
            let found = self.hierarchies.iter().find(|h| h.does(task));
            found.map_or("none", |h| h.version.as_str())
        };
        tracing::info!(
            kill = self.mechanism(),
            memory = which(Task::Memory),
            pids = which(Task::Pids),
            cpu_weight = which(Task::CpuWeight),
            io_weight = which(Task::IoWeight),
            refused,
            "how process trees are killed, and what limits them"
        );
    }

    fn mechanism(&self) -> &'static str {
        let hold = self.hierarchies.iter().find_map(|h| h.hold);
        match hold {
            Some(Hold::Kill) => "cgroup.kill",
            Some(Hold::Freeze { file, .. }) => file,
            None => "a walk through /proc",
        }
    }

    /// Kills what earlier supervisors left in cgroups of ours; whether nothing of it is alive.
    pub(super) fn sweep(&mut self) -> io::Result<bool> {
        let until: BootMs = clock::now().boot + SWEEP_MAX;
        let own = std::process::id().cast_signed();
        loop {
            let mut alive = 0;
            for hierarchy in self.hierarchies.iter().chain(&self.former) {
                for group in group::children(&hierarchy.parent)? {
                    let is_own = group.file_name().is_some_and(|name| name == OWN);
                    if !is_own {
                        hierarchy.kill(&self.proc, &group)?;
                    }
                    for process in self.alive_in(&group).into_iter().filter(|p| p.pid != own) {
                        alive += 1;
                        processes::signal(&self.proc, &process, Signal::SIGKILL)?;
                    }
                }
            }
            if alive == 0 {
                break;
            }
            if clock::now().boot >= until {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
        for hierarchy in &self.hierarchies {
            for group in group::children(&hierarchy.parent)? {
                if group.file_name().is_none_or(|name| name != OWN) && remove(&group).is_err() {
                    self.lingering.push(group);
                }
            }
        }
        for former in std::mem::take(&mut self.former) {
            if remove(&former.parent).is_err() {
                self.lingering.push(former.parent);
            }
        }
        Ok(true)
    }

    /// Puts the calling process, which is to become this attempt, into cgroups with these limits.
    pub(super) fn enter(&self, token: Token, limits: &Limits) -> Entered {
        let mut entered = Entered {
            held: false,
            not_enforced: Vec::new(),
        };
        let mut wanted = BTreeSet::new();
        wanted.extend(limits.memory_bytes.map(|_| Limit::Memory));
        wanted.extend(limits.pids.map(|_| Limit::Pids));
        wanted.extend(limits.cpu_weight.map(|_| Limit::CpuWeight));
        wanted.extend(limits.io_weight.map(|_| Limit::IoWeight));
        for hierarchy in self.hierarchies.iter().filter(|h| h.is_needed_for(limits)) {
            match hierarchy.enter(token, limits) {
                Ok(enforced) => {
                    entered.held = true;
                    wanted.retain(|limit| !enforced.contains(limit));
                }
                Err(error) => {
                    let parent = hierarchy.parent.display();
                    tracing::error!(%token, %parent, %error, "an attempt runs without this cgroup");
                }
            }
        }
        entered.not_enforced = wanted.into_iter().collect();
        entered
    }

    /// Kills everything in this attempt's cgroups.
    pub(super) fn kill(&self, token: Token) -> io::Result<()> {
        let mut result = Ok(());
        for hierarchy in &self.hierarchies {
            result = result.and(hierarchy.kill(&self.proc, &hierarchy.group(token)));
        }
        result
    }

    /// What is alive in this attempt's cgroups.
    pub(super) fn alive(&self, token: Token) -> Alive {
        let mut alive = Alive::default();
        for hierarchy in &self.hierarchies {
            let group = hierarchy.group(token);
            let is_v2 = hierarchy.version == Version::V2;
            if is_v2 && !group::is_populated(&group) {
                continue;
            }
            let found = self.alive_in(&group);
            alive.undecided |= is_v2 && found.is_empty();
            for process in found {
                if !alive.processes.contains(&process) {
                    alive.processes.push(process);
                }
            }
        }
        alive
    }

    fn alive_in(&self, group: &Path) -> Vec<Process> {
        let pids = members(group);
        let alive = pids
            .into_iter()
            .filter_map(|pid| read_process(&self.proc, pid));
        alive.filter(|process| !process.dead).collect()
    }

    /// Which attempt's cgroup a process is in.
    pub(super) fn owner(&self, pid: i32) -> Option<Token> {
        if self.hierarchies.is_empty() {
            return None;
        }
        let text = fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        parse_owner(&text, &self.name)
    }

    /// What the attempt's tree has used, as far as it is counted.
    pub(super) fn used(&self, token: Token, account: Account) -> Used {
        let mut used = Used {
            memory_bytes_seen: self.memory_seen.get(&token).copied(),
            ..Used::default()
        };
        let whole = account == Account::Whole;
        for hierarchy in &self.hierarchies {
            let group = hierarchy.group(token);
            if hierarchy.does(Task::CpuTime) {
                used.cpu = group::cpu_time(&group, hierarchy.version);
            }
            if hierarchy.does(Task::Memory) {
                used.memory_bytes_peak = group::memory_peak(&group, hierarchy.version);
                used.out_of_memory = group::oom_kills(&group, hierarchy.version) > 0;
            }
            if whole && hierarchy.does(Task::Memory) {
                used.counted.memory_cache_bytes = group::memory_now(&group, hierarchy.version);
            }
            if whole && hierarchy.does(Task::Io) {
                self.add_io(&mut used.counted, &group, hierarchy.version);
            }
            if whole && hierarchy.does(Task::Stalls) {
                add_stalls(&mut used.counted, &group);
            }
        }
        used
    }

    /// Whether memory must be looked at while attempts run: version 2 before Linux 5.19 counts it
    /// and keeps no peak.
    pub(super) fn keeps_no_peak(&self) -> bool {
        self.keeps_no_peak
    }

    /// Looks at the memory of these attempts, a small file for each.
    pub(super) fn look_at_memory(&mut self, tokens: impl Iterator<Item = Token>) {
        let memory = self.hierarchies.iter().find(|h| h.does(Task::Memory));
        let Some(hierarchy) = memory else {
            return;
        };
        for token in tokens {
            let now = group::memory_now(&hierarchy.group(token), hierarchy.version);
            let seen = self.memory_seen.entry(token).or_default();
            *seen = now.unwrap_or(0).max(*seen);
        }
    }

    fn add_io(&self, counted: &mut Usage, group: &Path, version: Version) {
        // Without a cgroup here, which attempts have who ask for a weight, nothing was counted.
        let Some(io) = io_counts::read(group, version, &self.stacked) else {
            return;
        };
        counted.read_bytes = Some(io.read_bytes);
        counted.write_bytes = Some(io.write_bytes);
        counted.read_operations = Some(io.read_operations);
        counted.write_operations = Some(io.write_operations);
        // What goes to a disk by way of the cache is nobody's there.
        if version == Version::V1 {
            counted.partial.push(Counted::Io);
        }
    }

    /// Removes the cgroups of an attempt of which nothing is alive.
    pub(super) fn remove(&mut self, token: Token) {
        self.memory_seen.remove(&token);
        for hierarchy in &self.hierarchies {
            let group = hierarchy.group(token);
            if remove(&group).is_err() {
                self.lingering.push(group);
            }
        }
    }

    /// Tries again what the kernel would not remove: it holds on to a cgroup for a moment after
    /// its last process has ended.
    pub(super) fn remove_lingering(&mut self) {
        self.lingering.retain(|group| remove(group).is_err());
    }

    /// Removes what this supervisor has made for itself.
    pub(super) fn leave(&mut self) {
        self.remove_lingering();
        for hierarchy in &self.hierarchies {
            hierarchy.leave();
        }
    }
}

fn add_stalls(counted: &mut Usage, group: &Path) {
    let milliseconds = |file, line| Some(group::pressure_us(group, file, line)? / 1_000);
    counted.stall_cpu_ms = milliseconds("cpu.pressure", "some");
    counted.stall_memory_ms = milliseconds("memory.pressure", "some");
    counted.stall_memory_full_ms = milliseconds("memory.pressure", "full");
    counted.stall_io_ms = milliseconds("io.pressure", "some");
}

fn read_layout(proc: &Path) -> Vec<Mounted> {
    let read = |file| fs::read_to_string(proc.join("self").join(file));
    match (read("mountinfo"), read("cgroup")) {
        (Ok(mountinfo), Ok(cgroup)) => layout::parse(&mountinfo, &cgroup),
        (Err(error), _) | (_, Err(error)) => {
            tracing::info!(%error, "it cannot be read which cgroups there are");
            Vec::new()
        }
    }
}

/// Cgroups that an earlier supervisor noted and that are still there.
fn find_former(file: &Path, name: &str, current: &[Hierarchy]) -> Vec<Hierarchy> {
    // Before the first supervisor of a directory there is none.
    let places = fs::read_to_string(file).unwrap_or_default();
    places
        .lines()
        .map(PathBuf::from)
        .filter(|parent| parent.ends_with(name) && parent.exists())
        .filter(|parent| current.iter().all(|h| h.parent != *parent))
        .map(|parent| Hierarchy {
            version: Version::V1,
            own: PathBuf::new(),
            hold: find_hold(&parent),
            parent,
            tasks: BTreeSet::new(),
            enabled: Vec::new(),
        })
        .collect()
}

fn parse_owner(cgroup: &str, name: &str) -> Option<Token> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.split('/').skip_while(|part| *part != name).skip(1);
        parts.next()?.strip_prefix('a')?.parse().ok().map(Token)
    })
}

/// FNV-1a, for names that must be the same every time and need withstand nobody.
fn hash(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
