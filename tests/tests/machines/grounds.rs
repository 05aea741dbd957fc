//! Where a process of a site runs: under which clock, in which namespaces, in which cgroup.
//!
//! Namespaces live as long as a process that holds them, and the holder ends when the test does,
//! however that ends: then mounts and network devices are gone without anybody's doing.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns, unshare};

/// Nothing special, unless a trial says so.
#[derive(Clone, Default)]
pub(crate) struct Grounds {
    pub(crate) namespaces: Option<Rc<Namespaces>>,
    pub(crate) cgroup: Option<Rc<Cgroup>>,
    pub(crate) env: Vec<(String, String)>,
    /// Another binary than the one just built.
    pub(crate) binary: Option<PathBuf>,
}

impl Grounds {
    /// A command that starts this binary here.
    pub(crate) fn command(&self, binary: &Path) -> Command {
        let binary = self.binary.as_deref().unwrap_or(binary);
        let cgroup = self.cgroup.as_deref();
        let mut command = match (&self.namespaces, cgroup) {
            (Some(namespaces), None) => namespaces.command(binary),
            (None, None) => Command::new(binary),
            (Some(namespaces), Some(cgroup)) => cgroup.command(namespaces.command(binary)),
            (None, Some(cgroup)) => cgroup.command(Command::new(binary)),
        };
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A command that a person gives on this machine: in its namespaces, and by its true clock.
    pub(crate) fn enter(&self, program: &Path) -> Command {
        match &self.namespaces {
            Some(namespaces) => namespaces.command(program),
            None => Command::new(program),
        }
    }

    /// Does something that must see the files as a process here does.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        match &self.namespaces {
            Some(namespaces) => namespaces.inside(act),
            None => act(),
        }
    }

    /// Its network, where that is another than the trial's.
    pub(crate) fn network(&self) -> Option<PathBuf> {
        let namespaces = self.namespaces.as_ref()?;
        namespaces.network()
    }

    pub(crate) fn seen_from_outside(&self, path: &Path) -> PathBuf {
        match &self.namespaces {
            Some(namespaces) => namespaces.seen_from_outside(path),
            None => path.to_owned(),
        }
    }
}

/// A mount namespace of its own, and where it was asked for a network namespace too.
pub(crate) struct Namespaces {
    holder: Child,
    enter: Vec<String>,
}

impl Namespaces {
    pub(crate) fn mount() -> Result<Rc<Namespaces>> {
        Namespaces::of(&["--mount"])
    }

    pub(crate) fn mount_and_net() -> Result<Rc<Namespaces>> {
        Namespaces::of(&["--mount", "--net"])
    }

    fn of(kinds: &[&str]) -> Result<Rc<Namespaces>> {
        // cat ends when the pipe to it is closed, which the kernel does if nobody else does.
        let mut holder = Command::new("unshare")
            .args(kinds)
            .args(["--propagation", "private", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("making namespaces with unshare")?;
        let stdout = holder.stdout.take().context("its output is piped")?;
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        ensure!(said == "\n", "unshare made no namespaces");
        let target = format!("--target={}", holder.id());
        let enter = kinds.iter().map(|&kind| kind.to_owned()).chain([target]);
        Ok(Rc::new(Namespaces {
            enter: enter.collect(),
            holder,
        }))
    }

    /// A command in here. nsenter becomes the program, so the child is the program itself.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(&self.enter).arg("--").arg(program);
        command
    }

    /// Runs a short program in here to its end.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        finish(self.command(program).args(arguments))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Does something that must see the files as a process in here does: what is opened stays open.
    fn inside<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let mounts = format!("/proc/{}/ns/mnt", self.holder.id());
        // A thread of its own: what moves into a namespace does not come back.
        let moved = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_FS)?;
                setns(fs::File::open(mounts)?, CloneFlags::CLONE_NEWNS)?;
                act()
            });
            thread.join()
        });
        moved.map_err(|_| anyhow!("what was done inside panicked"))?
    }

    fn network(&self) -> Option<PathBuf> {
        let has_one = self.enter.iter().any(|kind| kind == "--net");
        has_one.then(|| PathBuf::from(format!("/proc/{}/ns/net", self.holder.id())))
    }

    pub(crate) fn seen_from_outside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A cgroup v2 of its own: a machine whose power can be cut.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    pub(crate) fn new(site: &Path, name: &str) -> Result<Rc<Cgroup>> {
        let mounts = cgroup_mounts()?;
        let root = mounts.iter().find(|(kind, _)| kind == "cgroup2");
        let (_, root) = root.context("no cgroups of version 2 are mounted")?;
        // Not the site's whole name, by which what Matins leaves behind is found.
        let site = site.file_name().and_then(OsStr::to_str);
        let (_, drawn) = site
            .and_then(|s| s.rsplit_once('-'))
            .context("its drawn name")?;
        let path = root.join(format!("{name}-{drawn}"));
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Rc::new(Cgroup(path)))
    }

    /// The same command, by a shell that goes in here before it becomes the program.
    fn command(&self, inner: Command) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.0)
            .arg(inner.get_program())
            .args(inner.get_args());
        command
    }

    /// Everything in it, and in every cgroup below it, is gone in one instant.
    pub(crate) fn cut_power(&self) -> Result<()> {
        Ok(fs::write(self.0.join("cgroup.kill"), "1")?)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.cut_power();
        // What was killed takes a moment to go.
        for _ in 0..200 {
            if remove_tree(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Removes a cgroup with those below it; fails while anything lives in one of them.
pub(crate) fn remove_tree(cgroup: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(cgroup)
}

/// Every mounted hierarchy of cgroups: `cgroup` or `cgroup2`, and where.
pub(crate) fn cgroup_mounts() -> Result<Vec<(String, PathBuf)>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let fields = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    Ok(fields
        .filter(|(_, kind)| kind.starts_with("cgroup"))
        .map(|(path, kind)| (kind.to_owned(), PathBuf::from(path)))
        .collect())
}

/// Runs a short program to its end, and says what it said if that was no good one.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Whether a trial can be held here. Where it cannot, says so in one line; on the machines that
/// check every change it must be.
#[allow(clippy::print_stderr)]
pub(crate) fn possible(trial: &str, programs: &[&str]) -> Result<bool> {
    let mut missing: Vec<String> = programs
        .iter()
        .filter(|program| !in_path(program))
        .map(|program| format!("the program `{program}`"))
        .collect();
    if !nix::unistd::geteuid().is_root() {
        missing.insert(0, "root".to_owned());
    }
    if missing.is_empty() {
        return Ok(true);
    }
    let missing = missing.join(", ");
    ensure!(
        std::env::var_os("CI").is_none(),
        "{trial} needs {missing}: CI must have it"
    );
    eprintln!("skipped: {trial} needs {missing}");
    Ok(false)
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}
