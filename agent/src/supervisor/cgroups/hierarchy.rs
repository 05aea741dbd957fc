//! One hierarchy of cgroups, and what it does for attempts.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use protocol::Token;
use protocol::attempt::{Limit, Limits};

use super::group::{self, make, members, remove, write};
use super::layout::{Mounted, Version};
use crate::supervisor::processes::{self, Process, read_process};

/// Of a process that has no attempt's cgroup to be in.
pub(super) const OWN: &str = "supervisor";

/// What one hierarchy does for attempts.
#[derive(Debug)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// The cgroup this supervisor was started in.
    pub(super) own: PathBuf,
    /// Of all attempts.
    pub(super) parent: PathBuf,
    pub(super) hold: Option<Hold>,
    pub(super) tasks: BTreeSet<Task>,
    /// Controllers of version 2 that were handed down to attempts.
    pub(super) enabled: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Limits memory, counts its peak, and notices what was killed for want of it.
    Memory,
    Pids,
    CpuWeight,
    CpuTime,
    /// Where a disk heeds it.
    IoWeight,
    /// Counts what is read from and written to disks.
    Io,
    /// Counts how long something waited. Version 2 alone does so.
    Stalls,
}

/// By the names of controllers, of version 1 and of version 2 where they differ.
const TASKS: [(&str, Task); 8] = [
    ("memory", Task::Memory),
    ("pids", Task::Pids),
    ("cpu", Task::CpuWeight),
    ("cpuacct", Task::CpuTime),
    ("blkio", Task::IoWeight),
    ("io", Task::IoWeight),
    ("blkio", Task::Io),
    ("io", Task::Io),
];

/// How everything in a cgroup is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// One write that no fork escapes.
    Kill,
    /// Stop everything, so that nothing can fork, then kill one by one.
    Freeze {
        file: &'static str,
        frozen: &'static str,
        thawed: &'static str,
    },
}

/// Before Linux 5.14, which has `cgroup.kill`.
const FREEZE_V2: Hold = Hold::Freeze {
    file: "cgroup.freeze",
    frozen: "1",
    thawed: "0",
};
const FREEZE_V1: Hold = Hold::Freeze {
    file: "freezer.state",
    frozen: "FROZEN",
    thawed: "THAWED",
};

impl Hierarchy {
    /// `None` where it could be of no use.
    pub(super) fn prepare(
        mounted: Mounted,
        name: &str,
        weighs_io: bool,
    ) -> Result<Option<Hierarchy>, Refused> {
        let has = |name: &str| mounted.controllers.iter().any(|c| c == name);
        let tasks: BTreeSet<Task> = TASKS
            .into_iter()
            .filter_map(|(name, task)| has(name).then_some(task))
            // To count alone, a hierarchy of its own is too much: to make a cgroup in it and to remove it
            // costs every attempt more than what it would tell.
            .filter(|task| weighs_io || !matches!(task, Task::IoWeight | Task::Io))
            .collect();
        if mounted.version == Version::V1 && tasks.is_empty() && !has("freezer") {
            return Ok(None);
        }
        // One that was started by its predecessor's cgroup begins where that one began.
        let own = match mounted.own.strip_prefix("/") {
            Ok(_) if mounted.own.ends_with(Path::new(name).join(OWN)) => {
                let above = mounted.own.ancestors().nth(2);
                above.unwrap_or(&mounted.own).to_owned()
            }
            _ => mounted.own.clone(),
        };
        let parent = own.join(name);
        make(&parent).map_err(|error| (parent.clone(), error))?;
        let mut hierarchy = Hierarchy {
            version: mounted.version,
            own,
            parent,
            hold: None,
            tasks,
            enabled: Vec::new(),
        };
        hierarchy.hold = find_hold(&hierarchy.parent);
        if mounted.version == Version::V2 {
            let parent = hierarchy.parent.clone();
            let enabled = hierarchy.enable_controllers();
            enabled.map_err(|error| (parent.clone(), error))?;
            hierarchy.tasks = TASKS
                .into_iter()
                .filter_map(|(name, task)| hierarchy.enabled.contains(&name).then_some(task))
                .filter(|task| weighs_io || *task != Task::IoWeight)
                .collect();
            // Counted in every cgroup, without any controller.
            if parent.join("cpu.stat").exists() {
                hierarchy.tasks.insert(Task::CpuTime);
            }
            if parent.join("io.pressure").exists() {
                hierarchy.tasks.insert(Task::Stalls);
            }
        }
        Ok(Some(hierarchy))
    }

    pub(super) fn is_of_use(&self) -> bool {
        self.hold.is_some() || !self.tasks.is_empty()
    }

    pub(super) fn does(&self, task: Task) -> bool {
        self.tasks.contains(&task)
    }

    /// Whether memory is counted without its peak.
    pub(super) fn keeps_no_peak(&self) -> bool {
        let counts = self.version == Version::V2 && self.does(Task::Memory);
        counts && !self.parent.join("memory.peak").exists()
    }

    /// Whether an attempt needs a cgroup here. Where processes can be limited or disks be shared,
    /// and nothing else, only who asks for it does.
    pub(super) fn is_needed_for(&self, limits: &Limits) -> bool {
        let is_asked_for = |task: &Task| match task {
            Task::Pids => limits.pids.is_some(),
            Task::IoWeight => limits.io_weight.is_some(),
            Task::Io | Task::Stalls => false,
            Task::Memory | Task::CpuWeight | Task::CpuTime => true,
        };
        self.hold.is_some() || self.tasks.iter().any(is_asked_for)
    }

    pub(super) fn group(&self, token: Token) -> PathBuf {
        self.parent.join(format!("a{}", token.0))
    }

    /// The limits that this hierarchy now enforces.
    pub(super) fn enter(&self, token: Token, limits: &Limits) -> io::Result<Vec<Limit>> {
        let group = self.group(token);
        match make(&group) {
            // Nothing on a host is precious, and somebody has tidied up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&self.parent)?;
                make(&group)?;
            }
            made => made?,
        }
        let mut enforced = Vec::new();
        let mut set = |limit: Limit, result: io::Result<()>| match result {
            Ok(()) => enforced.push(limit),
            Err(error) => {
                let limit = limit.as_str();
                tracing::error!(%token, limit, %error, "a limit cannot be set");
            }
        };
        if let Some(bytes) = limits.memory_bytes.filter(|_| self.does(Task::Memory)) {
            let done = group::limit_memory(&group, self.version, bytes);
            set(Limit::Memory, done);
        }
        if let Some(pids) = limits.pids.filter(|_| self.does(Task::Pids)) {
            set(Limit::Pids, write(&group, "pids.max", &pids.to_string()));
        }
        if let Some(weight) = limits.cpu_weight.filter(|_| self.does(Task::CpuWeight)) {
            let done = group::weigh_cpu(&group, self.version, weight);
            set(Limit::CpuWeight, done);
        }
        if let Some(weight) = limits.io_weight.filter(|_| self.does(Task::IoWeight)) {
            set(
                Limit::IoWeight,
                group::weigh_io(&group, self.version, weight),
            );
        }
        write(&group, "cgroup.procs", "0")?;
        Ok(enforced)
    }

    pub(super) fn kill(&self, proc: &Path, group: &Path) -> io::Result<()> {
        match self.hold {
            _ if !group.exists() => Ok(()),
            Some(Hold::Kill) => write(group, "cgroup.kill", "1"),
            Some(Hold::Freeze {
                file,
                frozen,
                thawed,
            }) => {
                write(group, file, frozen)?;
                let killed = kill_each(proc, group);
                // Processes of version 1 die when they are let go.
                for below in group::with_descendants(group) {
                    write(&below, file, thawed)?;
                }
                killed
            }
            // What is in it is looked for and killed one by one, like what is in none.
            None => Ok(()),
        }
    }

    /// Moves this supervisor out of the way and hands controllers of version 2 down to attempts.
    ///
    /// Version 2 lets a cgroup have processes or controllers for those below it, not both.
    fn enable_controllers(&mut self) -> io::Result<()> {
        let available = group::words(&self.own, "cgroup.controllers")?;
        let wanted: Vec<&'static str> = ["memory", "pids", "cpu", "io"]
            .into_iter()
            .filter(|name| available.iter().any(|a| a == name))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        // The topmost one is exempt, and has no such file.
        if self.own.join("cgroup.type").exists() {
            let place = self.parent.join(OWN);
            make(&place)?;
            write(&place, "cgroup.procs", "0")?;
        }
        for name in wanted {
            let add = format!("+{name}");
            let added = write(&self.own, "cgroup.subtree_control", &add)
                .and_then(|()| write(&self.parent, "cgroup.subtree_control", &add));
            match added {
                Ok(()) => self.enabled.push(name),
                Err(error) => tracing::info!(controller = name, %error, "it is not handed down"),
            }
        }
        Ok(())
    }

    /// As far as the kernel allows; a directory that stays costs nothing.
    pub(super) fn leave(&self) {
        let place = self.parent.join(OWN);
        let undo = || -> io::Result<()> {
            for name in &self.enabled {
                write(&self.parent, "cgroup.subtree_control", &format!("-{name}"))?;
                if place.exists() {
                    write(&self.own, "cgroup.subtree_control", &format!("-{name}"))?;
                }
            }
            if place.exists() {
                write(&self.own, "cgroup.procs", "0")?;
            }
            remove(&self.parent)
        };
        if let Err(error) = undo() {
            let parent = self.parent.display();
            tracing::debug!(%parent, %error, "a cgroup of the supervisor stays");
        }
    }
}

/// The cgroup that could not be made, and why.
pub(super) type Refused = (PathBuf, io::Error);

/// How everything in the cgroups below this one can be killed.
pub(super) fn find_hold(parent: &Path) -> Option<Hold> {
    let has = |file: &str| parent.join(file).exists();
    match () {
        () if has("cgroup.kill") => Some(Hold::Kill),
        () if has("cgroup.freeze") => Some(FREEZE_V2),
        () if has("freezer.state") => Some(FREEZE_V1),
        () => None,
    }
}

/// Rounds of SIGKILL: each finds what was forked before the last one was heard.
const ROUNDS_MAX: usize = 8;

fn kill_each(proc: &Path, group: &Path) -> io::Result<()> {
    let mut done = BTreeSet::new();
    let mut result = Ok(());
    for _ in 0..ROUNDS_MAX {
        let found = members(group).into_iter();
        let fresh: Vec<Process> = found
            .filter_map(|pid| read_process(proc, pid))
            .filter(|process| done.insert((process.pid, process.started)))
            .collect();
        if fresh.is_empty() {
            break;
        }
        // Asked again now that it is known which process is meant: it is one of this cgroup.
        let still = members(group);
        for process in fresh.iter().filter(|process| still.contains(&process.pid)) {
            result = result.and(processes::signal(proc, process, Signal::SIGKILL));
        }
    }
    result
}

/// Leaves each task to one hierarchy: version 2 where it can do it, for it does it better.
pub(super) fn share_out(hierarchies: &mut [Hierarchy]) {
    hierarchies.sort_by_key(|h| h.version == Version::V1);
    let (mut held, mut timed) = (false, false);
    for hierarchy in hierarchies {
        hierarchy.hold = hierarchy.hold.filter(|_| !held);
        held |= hierarchy.hold.is_some();
        if timed {
            hierarchy.tasks.remove(&Task::CpuTime);
        }
        timed |= hierarchy.does(Task::CpuTime);
    }
}
