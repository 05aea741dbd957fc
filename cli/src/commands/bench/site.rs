//! A Matins for one measurement: everything below one directory, on the disk that is measured.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobs::Manifest;
use ledger::command::{ManualRun, PutJob};
use ledger::{Done, Proposal, Reader, Store};
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::Pid;
use protocol::api::Agent;
use protocol::{DurationMs, Rules};
use transport::Role;
use transport::ca::{self, CA_LIFETIME, Subject, Validity};

use super::group::Machine;
use super::net::Net;
use super::{cost, of_ledger};
use crate::args::{Timers, Voters};
use crate::client::Client;
use crate::clock;
use crate::commands::ca::{issue, of_ca};
use crate::failure::{Failure, chain};

/// Prefix of the directories of measurements; the process that made one follows.
const PREFIX: &str = "matins-bench-";

/// Commands in one batch where the ledger is filled.
const BATCH: usize = 4096;

const START_LIMIT: Duration = Duration::from_secs(60);
const LONG_LIMIT: Duration = Duration::from_secs(300);
const STOP_LIMIT: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What agents do with their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Run,
    /// Nothing is run; each attempt is said to have taken so many milliseconds.
    Pretend {
        takes_ms: u32,
    },
}

pub(super) struct Site {
    root: PathBuf,
    /// The control machines, the one first that begins the group.
    pub(super) machines: Vec<Machine>,
    /// Where these have networks of their own.
    pub(super) net: Option<Net>,
    pub(super) timers: Timers,
    pub(super) parts: Vec<Part>,
}

/// A process of it.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) child: Child,
}

/// Processor time that a site has used, all control machines together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub(super) coordinator_s: f64,
    pub(super) agents_s: f64,
}

/// Resident memory of a site, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) coordinator_bytes: u64,
    pub(super) agents_bytes: u64,
}

impl Site {
    /// As [`Site::prepare_group`], with one coordinator.
    pub(super) fn prepare(dir: &Path, agents: u32) -> Result<Site, Failure> {
        Site::prepare_group(dir, agents, Voters::One, Timers::Default, None)
    }

    /// Makes the directory, an authority, and identities for the control machines and so many
    /// agents.
    pub(super) fn prepare_group(
        dir: &Path,
        agents: u32,
        voters: Voters,
        timers: Timers,
        net: Option<Net>,
    ) -> Result<Site, Failure> {
        let failed = |error: io::Error| failed(dir, &error);
        refuse_memory(dir)?;
        remove_leftovers(dir).map_err(failed)?;
        let dir = fs::canonicalize(dir).map_err(failed)?;
        if dir.to_str().is_none() {
            return Err(Failure::bad_input(
                format!("measuring in {}", dir.display()),
                "its name is not UTF-8",
                "name another directory with --dir",
            ));
        }
        let root = dir.join(format!("{PREFIX}{}", std::process::id()));
        let machines = Machine::all(voters, net.is_some()).map_err(failed)?;
        let data = machines.iter().map(|machine| root.join(machine.name));
        for path in std::iter::once(root.clone()).chain(data) {
            let made = DirBuilder::new().mode(0o700).create(path);
            made.map_err(failed)?;
        }
        let site = Site {
            root,
            machines,
            net,
            timers,
            parts: Vec::new(),
        };
        site.issue_identities(agents)?;
        Ok(site)
    }

    fn issue_identities(&self, agents: u32) -> Result<(), Failure> {
        let authority = self.root.join("ca");
        let cluster = "bench".parse().expect("`bench` is a name");
        let validity = Validity {
            now: clock::now(),
            lifetime: CA_LIFETIME,
        };
        ca::create(&authority, &cluster, validity)
            .map_err(|error| of_ca("making an authority".to_owned(), &error))?;
        for (node, machine) in (1..).zip(&self.machines) {
            let name = machine.name.parse().expect("each of them is a name");
            let subject = Subject::new(machine.role, &name).node(node);
            issue(&authority, &subject, &self.identity(machine.name))?;
        }
        for host in (1..=agents).map(host) {
            let name = host.parse().expect("`host-` and a number is a name");
            let subject = Subject::new(Role::Agent, &name);
            issue(&authority, &subject, &self.identity(&host))?;
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Puts jobs into the ledger, and for each so many manual runs behind each other. To be called
    /// before the coordinator is started.
    pub(super) fn fill(&self, manifests: Vec<Manifest>, runs_each: u32) -> Result<(), Failure> {
        let unfilled = |error: &dyn std::error::Error| {
            Failure::of_error("filling the ledger", error, "see the error, and try again")
        };
        let ledger = self.data(0).join(coordinator::LEDGER_FILE);
        let mut store = Store::open(&ledger, Rules::all()).map_err(|error| unfilled(&error))?;
        let mut jobs = Vec::with_capacity(manifests.len());
        let puts = manifests.into_iter().map(|manifest| {
            ledger::Command::PutJob(Box::new(PutJob {
                shards: None,
                manifest,
                cut_over: clock::now(),
                settle: None,
                expected: None,
                by: "bench".to_owned(),
            }))
        });
        propose(&mut store, puts, |done| {
            if let Done::JobPut { job_id, .. } = done {
                jobs.push(job_id);
            }
        })?;
        let rounds = (0..runs_each).flat_map(|_| jobs.iter());
        let runs = rounds.map(|&job_id| {
            ledger::Command::ManualRun(ManualRun {
                job_id,
                version: 1,
                instant: None,
                nominal: Vec::new(),
                start_deadline: Some(DurationMs::from_secs(3600)),
                params: std::collections::BTreeMap::new(),
                by: "bench".to_owned(),
                reason: "to be measured".to_owned(),
            })
        });
        propose(&mut store, runs, drop)
    }

    /// Starts agents, with supervisors where they run their work, and waits until all have
    /// attached.
    pub(super) fn start_agents(
        &mut self,
        count: u32,
        slots: u32,
        work: Work,
    ) -> Result<(), Failure> {
        for host in (1..=count).map(host) {
            let supervisor = self.root.join(format!("{host}-supervisor"));
            let mut arguments = vec![
                "agent".to_owned(),
                format!("--data={}", self.root.join(&host).display()),
                format!("--identity={}", self.identity(&host).display()),
                format!("--supervisor={}", supervisor.display()),
                format!("--slots={slots}"),
                // What is measured is Matins, not the machine.
                "--measure=off".to_owned(),
            ];
            arguments.extend(self.coordinators());
            match work {
                Work::Run => {
                    let arguments = [
                        "supervisor".to_owned(),
                        format!("--dir={}", supervisor.display()),
                    ];
                    self.start(&format!("{host}-supervisor"), &arguments)?;
                }
                Work::Pretend { takes_ms } => {
                    arguments.push(format!("--pretend-for-bench={takes_ms}"));
                }
            }
            self.start(&host, &arguments)?;
        }
        let client = self.client(0)?;
        self.wait_for("agents that have attached", |_| {
            let agents: Vec<Agent> = client.list_all("/api/v1/agents", &[])?;
            let ready = agents.iter().filter(|agent| agent.state == "ready");
            Ok(ready.count() == count as usize)
        })
    }

    /// Asks a machine, by its number among the control machines.
    pub(super) fn client(&self, machine: usize) -> Result<Client, Failure> {
        Client::of_data(&self.data(machine))
    }

    pub(super) fn data(&self, machine: usize) -> PathBuf {
        self.root.join(self.machines[machine].name)
    }

    /// Opens the ledger of the first control machine to read, running or not.
    pub(super) fn read(&self) -> Result<Reader, Failure> {
        self.read_of(0)
    }

    pub(super) fn read_of(&self, machine: usize) -> Result<Reader, Failure> {
        let path = self.data(machine).join(coordinator::LEDGER_FILE);
        Reader::open(&path).map_err(|error| of_ledger(&error))
    }

    pub(super) fn cpu(&self) -> Cpu {
        let mut cpu = Cpu::default();
        for part in &self.parts {
            let used = cost::cpu_s_with_children(part.child.id());
            if self.is_control(&part.name) {
                cpu.coordinator_s += used;
            } else {
                cpu.agents_s += used;
            }
        }
        cpu
    }

    pub(super) fn memory(&self) -> Memory {
        let of = |coordinator| {
            let parts = self.parts.iter();
            let parts = parts.filter(|part| self.is_control(&part.name) == coordinator);
            cost::resident_bytes_with_children(
                &parts.map(|part| part.child.id()).collect::<Vec<_>>(),
            )
        };
        Memory {
            coordinator_bytes: of(true),
            agents_bytes: of(false),
        }
    }

    /// Lets attempts of any user into the directory; what is secret in it stays closed.
    pub(super) fn open_to_all(&self) -> Result<(), Failure> {
        let open = fs::set_permissions(&self.root, Permissions::from_mode(0o711));
        open.map_err(|error| failed(&self.root, &error))
    }

    /// Ends every process, control machines last, so that what they were told is written.
    pub(super) fn stop(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        let (control, others): (Vec<Part>, _) = parts
            .into_iter()
            .partition(|part| self.is_control(&part.name));
        for mut part in others.into_iter().rev().chain(control.into_iter().rev()) {
            end(&mut part.child);
        }
    }

    fn is_control(&self, name: &str) -> bool {
        self.machines.iter().any(|machine| machine.name == name)
    }

    pub(super) fn identity(&self, of: &str) -> PathBuf {
        identity_in(&self.root, of)
    }

    pub(super) fn log(&self, of: &str) -> PathBuf {
        self.root.join(format!("{of}.log"))
    }

    pub(super) fn start(&mut self, name: &str, arguments: &[String]) -> Result<(), Failure> {
        let start = || {
            let mut command = self.command(name)?;
            command.args(arguments);
            command.arg(format!("--parent-pid={}", std::process::id()));
            self.spawn(name, &mut command)
        };
        self.add(name, start())
    }

    /// Has a command as a part of the site, which ends with it.
    pub(super) fn add(&mut self, name: &str, child: io::Result<Child>) -> Result<(), Failure> {
        let child = child.map_err(|error| failed(&self.root, &error))?;
        self.parts.push(Part {
            name: name.to_owned(),
            child,
        });
        Ok(())
    }

    pub(super) fn spawn(&self, name: &str, command: &mut Command) -> io::Result<Child> {
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.log(name))?;
        command
            .env_remove("MATINS_LOG")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
    }

    /// Waits for something that many agents have to do, as long as no process has died.
    pub(super) fn wait_long_for(
        &mut self,
        what: &str,
        is_there: impl Fn(&Site) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        self.wait_within(LONG_LIMIT, what, is_there)
    }

    /// Waits for something, as long as no process has died.
    pub(super) fn wait_for(
        &mut self,
        what: &str,
        is_there: impl Fn(&Site) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        self.wait_within(START_LIMIT, what, is_there)
    }

    fn wait_within(
        &mut self,
        limit: Duration,
        what: &str,
        is_there: impl Fn(&Site) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        while !is_there(self)? {
            self.check_alive()?;
            if begun.elapsed() > limit {
                return Err(Failure::failed(
                    format!("waiting for {what}"),
                    format!("there is none after {} s", limit.as_secs()),
                    "try again when this machine has less to do",
                ));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// An error where a process has ended by itself, with the end of what it said.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        for part in &mut self.parts {
            if let Ok(Some(status)) = part.child.try_wait() {
                let log = self.root.join(format!("{}.log", part.name));
                let said = fs::read_to_string(log).unwrap_or_default();
                let last = said.lines().last().unwrap_or("it said nothing").to_owned();
                return Err(Failure::failed(
                    format!("measuring with {}", part.name),
                    format!("it ended by itself ({status}): {last}"),
                    "correct that, and measure again",
                ));
            }
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
        // The next measurement looks for it.
        let _ = fs::remove_dir_all(&self.root);
    }
}

pub(super) fn identity_in(root: &Path, of: &str) -> PathBuf {
    root.join("identities").join(of)
}

pub(super) fn host(n: u32) -> String {
    format!("host-{n}")
}

fn propose(
    store: &mut Store,
    commands: impl Iterator<Item = ledger::Command>,
    mut take: impl FnMut(Done),
) -> Result<(), Failure> {
    let unfilled =
        |why: String| Failure::failed("filling the ledger", why, "see the error, and try again");
    let mut commands = commands.map(|command| Proposal {
        epoch: None,
        at: clock::now(),
        source: None,
        command,
    });
    loop {
        let batch: Vec<Proposal> = commands.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let outcomes = store.propose(&batch);
        for outcome in outcomes.map_err(|error| unfilled(chain(&error)))? {
            take(
                outcome
                    .result
                    .map_err(|refusal| unfilled(refusal.to_string()))?,
            );
        }
    }
}

/// What is written to memory says nothing of a disk.
fn refuse_memory(dir: &Path) -> Result<(), Failure> {
    let found = statfs(dir).map_err(|errno| failed(dir, &errno.into()))?;
    if found.filesystem_type() != TMPFS_MAGIC {
        return Ok(());
    }
    Err(Failure::bad_input(
        format!("measuring in {}", dir.display()),
        "it is kept in memory, and a ledger has to be on a disk",
        "name a directory on the disk that is to hold the ledger with --dir",
    ))
}

/// Removes what measurements that were killed have left behind.
fn remove_leftovers(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        if kill(Pid::from_raw(pid), None).is_err() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn end(child: &mut Child) {
    let pid = Pid::from_raw(child.id().cast_signed());
    // It can only have died in between, and then the wait says so.
    let _ = kill(pid, Signal::SIGTERM);
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begun.elapsed() > STOP_LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn failed(dir: &Path, error: &io::Error) -> Failure {
    Failure::of_error(
        format!("measuring in {}", dir.display()),
        error,
        "name a directory that you may write to with --dir",
    )
}
