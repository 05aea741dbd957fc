//! A whole site: one coordinator or a control group, agents and their supervisors, as real processes
//! that can be killed, stopped and cut off one by one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::RunState;
use protocol::api;
use serde::de::DeserializeOwned;

use crate::client::{Ask, Client, Door};
use crate::control::Control;
use crate::evidence::{self, Evidence};
use crate::grounds::Grounds;
use crate::leftovers;

/// How long anything here may take before the test gives up, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Name of the one coordinator's process, where there is no group.
pub(crate) const COORDINATOR: &str = "coordinator";

/// The machines of a control group.
pub(crate) const GROUP: [&str; 3] = ["c1", "c2", "w"];

/// Every process carries its directory, so that whatever the test leaves behind is its own.
pub(crate) struct Site {
    directory: tempfile::TempDir,
    /// What writers are run by.
    pub(crate) python: String,
    control: Vec<Control>,
    /// Asks whoever leads.
    client: Client,
    slots: u32,
    /// Given to every agent beside what it needs.
    agent_options: Vec<String>,
    grounds: BTreeMap<String, Grounds>,
    processes: BTreeMap<String, Child>,
    closed: bool,
}

impl Site {
    /// A site on loopback with certificates for `agents` agents; nothing runs yet.
    pub(crate) fn new(agents: u32) -> Result<Site> {
        Site::at("127.0.0.1", agents)
    }

    /// The same, its coordinator at this address of the test's own network namespace.
    pub(crate) fn at(address: &str, agents: u32) -> Result<Site> {
        Site::of(vec![Control::alone(COORDINATOR, address)?], agents)
    }

    /// A site on loopback with the certificates of a group of three.
    pub(crate) fn of_three(agents: u32) -> Result<Site> {
        let control = (1..).zip(GROUP);
        let control = control.map(|(node, name)| Control::on_loopback(name, node));
        Site::of(control.collect::<Result<_>>()?, agents)
    }

    /// A site with these control machines, and certificates for all.
    pub(crate) fn of(control: Vec<Control>, agents: u32) -> Result<Site> {
        let directory = tempfile::Builder::new().prefix("matins-real-").tempdir()?;
        let mut site = Site {
            directory,
            python: evidence::python()?,
            control,
            client: Client::new(Vec::new()),
            slots: 0,
            agent_options: Vec::new(),
            grounds: BTreeMap::new(),
            processes: BTreeMap::new(),
            closed: false,
        };
        site.client = site.client_of_all();
        let pki = site.path("pki");
        site.matins(&["ca", "create", "--dir", &pki, "--cluster", "real"])?;
        for machine in site.control.clone() {
            site.issue_control(&machine)?;
        }
        for n in 1..=agents {
            site.issue("agent", &agent_name(n), &[])?;
        }
        evidence::create_tables(&site)?;
        Ok(site)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory().join(name).to_string_lossy().into_owned()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where a process is to run from its next start on; [`Grounds::default`] is nowhere special.
    pub(crate) fn put(&mut self, name: &str, grounds: Grounds) {
        self.grounds.insert(name.to_owned(), grounds);
        self.client = self.client_of_all();
    }

    /// From its next start on, every agent has these options too.
    pub(crate) fn set_agent_options(&mut self, options: &[&str]) {
        self.agent_options = options.iter().map(|&option| option.to_owned()).collect();
    }

    pub(crate) fn grounds(&self, name: &str) -> Grounds {
        self.grounds.get(name).cloned().unwrap_or_default()
    }

    /// The coordinator or the group, and every agent with its supervisor; returns when all are
    /// attached.
    pub(crate) fn start(&mut self, agents: u32, slots: u32) -> Result<()> {
        self.slots = slots;
        if self.control.len() == 1 {
            self.start_coordinator()?;
        } else {
            self.form_group()?;
        }
        for n in 1..=agents {
            self.start_supervisor(n)?;
            self.start_agent(n)?;
        }
        self.wait_for_agents(agents)
    }

    pub(crate) fn wait_for_agents(&mut self, ready: u32) -> Result<()> {
        self.wait_for("every agent to attach", |site| {
            let attached: Vec<api::Agent> = site.get("agents")?;
            let count = attached.iter().filter(|agent| agent.state == "ready");
            Ok(count.count() >= ready as usize)
        })
    }

    /// How often this agent has attached, by its own log. The coordinator believes in a host for
    /// a while after its death.
    pub(crate) fn attaches(&self, n: u32) -> Result<usize> {
        let log = fs::read_to_string(self.path(&format!("{}.log", agent_name(n))))?;
        let attached = log.lines().filter(|line| line.contains(": attached "));
        Ok(attached.count())
    }

    /// The first control machine begins a group, and the others are added to it.
    fn form_group(&mut self) -> Result<()> {
        let (first, others) = self.control.split_first().context("somebody begins")?;
        let (first, others) = (first.name.clone(), others.to_vec());
        self.start_control(&first)?;
        self.wait_for("the first one to lead", |site| Ok(site.leads(&first)))?;
        for other in &others {
            self.start_control(&other.name)?;
            self.wait_for("another one to be added", |site| {
                site.matins(&["cluster", "add", &other.peers]).map(|_| true)
            })?;
        }
        Ok(())
    }

    pub(crate) fn start_coordinator(&mut self) -> Result<()> {
        self.start_control(COORDINATOR)
    }

    pub(crate) fn start_control(&mut self, name: &str) -> Result<()> {
        let arguments = self.arguments_of(self.control(name)?);
        // What an earlier one left says nothing about this one.
        let _ = fs::remove_file(self.api_file(name));
        self.spawn(name, &arguments)
    }

    /// A certificate with another number, for a machine that has lost its disk.
    pub(crate) fn renumber(&mut self, name: &str, node: u32) -> Result<()> {
        let mut machines = self.control.iter_mut();
        let machine = machines.find(|m| m.name == name).context("it is one")?;
        machine.node = node;
        machine.joins = true;
        let machine = machine.clone();
        fs::remove_dir_all(self.path(&format!("id-{}", machine.identity)))?;
        let data = self.seen_by(name, &self.directory().join(name));
        let _ = fs::remove_dir_all(data);
        self.issue_control(&machine)
    }

    pub(crate) fn coordinator_arguments(&self) -> Vec<String> {
        self.arguments_of(&self.control[0])
    }

    fn arguments_of(&self, machine: &Control) -> Vec<String> {
        let identity = self.path(&format!("id-{}", machine.identity));
        machine.arguments(&self.path(&machine.name), &identity)
    }

    /// Where agents find the first coordinator.
    pub(crate) fn agents_address(&self) -> String {
        self.control[0].agents.clone()
    }

    pub(crate) fn control(&self, name: &str) -> Result<&Control> {
        let found = self.control.iter().find(|machine| machine.name == name);
        found.with_context(|| format!("{name} is no control machine"))
    }

    pub(crate) fn coordinators(&self) -> impl Iterator<Item = &Control> {
        self.control.iter().filter(|m| m.is_coordinator())
    }

    pub(crate) fn control_names(&self) -> Vec<String> {
        self.control.iter().map(|m| m.name.clone()).collect()
    }

    /// Whether this coordinator says that it acts.
    pub(crate) fn leads(&self, name: &str) -> bool {
        self.door(name).affirms("/leader")
    }

    /// Who of a group acts now, by its own word.
    pub(crate) fn leader(&self) -> Option<String> {
        let mut names = self.coordinators().map(|machine| machine.name.clone());
        names.find(|name| self.processes.contains_key(name) && self.leads(name))
    }

    /// Waits until somebody acts, and says who.
    pub(crate) fn wait_for_leader(&mut self) -> Result<String> {
        self.wait_for_leader_but("")
    }

    /// Waits until somebody else than this one acts.
    pub(crate) fn wait_for_leader_but(&mut self, before: &str) -> Result<String> {
        let found = RefCell::new(None);
        self.wait_for("somebody to lead", |site| {
            *found.borrow_mut() = site.leader().filter(|now| now != before);
            Ok(found.borrow().is_some())
        })?;
        found.into_inner().context("somebody leads")
    }

    /// Waits until this one answers that it could take over, or acts.
    pub(crate) fn wait_until_ready(&mut self, name: &str) -> Result<()> {
        self.wait_for("a control machine to be ready", |site| {
            let answer = site.door(name).ask("/readyz", Ask::Get)?;
            ensure!(answer.is_success(), "{name}: {answer:?}");
            Ok(true)
        })
    }

    pub(crate) fn start_supervisor(&mut self, n: u32) -> Result<()> {
        let directory = self.path(&supervisor_name(n));
        let arguments = ["supervisor", "--dir", &directory].map(str::to_owned);
        self.spawn(&supervisor_name(n), &arguments)
    }

    pub(crate) fn start_agent(&mut self, n: u32) -> Result<()> {
        self.start_clone(n, &agent_name(n))
    }

    /// The agent of host n, with the identity of another one.
    pub(crate) fn start_clone(&mut self, n: u32, name: &str) -> Result<()> {
        let arguments = [
            "agent",
            "--data",
            &self.path(&format!("data-{n}")),
            "--identity",
            &self.path(&format!("id-{name}")),
            "--supervisor",
            &self.path(&supervisor_name(n)),
            "--slots",
            &self.slots.to_string(),
            "--name",
            name,
            "--measure",
            "off",
        ]
        .map(str::to_owned);
        let coordinators = self.coordinators();
        let coordinators: Vec<String> = coordinators
            .flat_map(|machine| ["--coordinator".to_owned(), machine.agents.clone()])
            .collect();
        let arguments = [&arguments, coordinators.as_slice(), &self.agent_options].concat();
        self.spawn(&agent_name(n), &arguments)
    }

    /// SIGKILL, and wait until it is gone.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        let mut child = self.take(name)?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and wait until it has ended in order.
    pub(crate) fn terminate(&mut self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGTERM)?;
        let status = self.wait_for_end(name)?;
        ensure!(status.success(), "{name} ended with {status} on SIGTERM");
        Ok(())
    }

    /// Waits for a process that is about to end by itself.
    pub(crate) fn wait_for_end(&mut self, name: &str) -> Result<ExitStatus> {
        let mut child = self.take(name)?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            sleep(LOOK_EVERY);
        }
        self.processes.insert(name.to_owned(), child);
        bail!("{name} does not end")
    }

    /// SIGSTOP, and wait until it stands: for a moment it may go on, on another processor.
    pub(crate) fn stop(&mut self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGSTOP)?;
        let stat = format!("/proc/{}/stat", self.pid(name)?);
        self.wait_for("a process to stand still", |_| {
            let stat = fs::read_to_string(&stat)?;
            Ok(stat
                .rsplit_once(')')
                .is_some_and(|(_, s)| s.starts_with(" T")))
        })
    }

    pub(crate) fn go_on(&mut self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGCONT)
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let pid = self.pid(name)?.cast_signed();
        kill(Pid::from_raw(pid), signal).with_context(|| format!("{signal} for {name}"))
    }

    pub(crate) fn pid(&self, name: &str) -> Result<u32> {
        let child = self.processes.get(name);
        Ok(child.with_context(|| format!("no {name} runs"))?.id())
    }

    pub(crate) fn process_names(&self) -> Vec<String> {
        self.processes.keys().cloned().collect()
    }

    fn take(&mut self, name: &str) -> Result<Child> {
        let child = self.processes.remove(name);
        child.with_context(|| format!("no {name} runs"))
    }

    /// Says which of the site's processes has ended by itself, if one has.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let mut ended = None;
        for (name, child) in &mut self.processes {
            if let Some(status) = child.try_wait()? {
                ended = Some((name.clone(), status));
            }
        }
        let Some((name, status)) = ended else {
            return Ok(());
        };
        bail!(
            "{name} ended by itself with {status}; its log:\n{}",
            self.log_tail(&name)
        )
    }

    pub(crate) fn apply(&self, file_name: &str, manifests: &str) -> Result<()> {
        let file = self.path(file_name);
        fs::write(&file, manifests)?;
        self.matins(&["apply", "-f", &file]).map(drop)
    }

    /// Runs the CLI on the machine of the one that leads; its standard output.
    pub(crate) fn matins(&self, arguments: &[&str]) -> Result<String> {
        let first = self.control[0].name.clone();
        let at = self.leader().unwrap_or(first);
        let output = self
            .grounds(&at)
            .enter(&binary()?)
            .args(arguments)
            .env("MATINS_DATA", self.path(&at))
            .stdin(Stdio::null())
            .output()?;
        ensure!(
            output.status.success(),
            "matins {arguments:?} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Who asks whichever coordinator of this site leads.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    fn client_of_all(&self) -> Client {
        Client::new(self.coordinators().map(|m| self.door(&m.name)).collect())
    }

    /// Who asks this coordinator, whatever it is.
    pub(crate) fn door(&self, name: &str) -> Door {
        let network = self.grounds(name).network();
        Door::new(self.api_file(name), network)
    }

    /// GETs `/api/v1/<path>`.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.client.get(path)
    }

    /// Every run there is, oldest first.
    pub(crate) fn runs(&self) -> Result<Vec<api::Run>> {
        let mut all: Vec<api::Run> = Vec::new();
        loop {
            let after = all
                .last()
                .map_or("run-0".to_owned(), |run| run.run.to_string());
            let page: Vec<api::Run> = self.get(&format!("runs?limit=1000&after={after}"))?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Polls until `done`, within [`PATIENCE`].
    pub(crate) fn wait_for(
        &mut self,
        what: &str,
        done: impl Fn(&Site) -> Result<bool>,
    ) -> Result<()> {
        self.wait_within(PATIENCE, what, done)
    }

    pub(crate) fn wait_within(
        &mut self,
        limit: Duration,
        what: &str,
        done: impl Fn(&Site) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < limit {
            match done(self) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => last = Some(error),
            }
            self.check_alive()?;
            sleep(LOOK_EVERY);
        }
        bail!("waited {limit:?} in vain for {what}; last error: {last:?}")
    }

    /// Waits until every run there is has succeeded.
    pub(crate) fn wait_until_succeeded(&mut self, limit: Duration) -> Result<()> {
        self.wait_within(limit, "every run to succeed", |site| {
            let runs = site.runs()?;
            Ok(!runs.is_empty() && runs.iter().all(|run| run.state == RunState::Succeeded))
        })
    }

    /// What the writers, the guard and the ledger say by now.
    pub(crate) fn evidence(&self) -> Result<Evidence> {
        Evidence::gather(self)
    }

    pub(crate) fn log_tail(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(15).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Ends everything in order and demands that nothing of it is left on the machine.
    pub(crate) fn close(mut self) -> Result<()> {
        for name in self.stopping_order() {
            self.signal(&name, Signal::SIGCONT)?;
            self.terminate(&name)?;
        }
        let left = leftovers::of(self.directory())?;
        ensure!(left.is_empty(), "left behind: {left:#?}");
        self.closed = true;
        Ok(())
    }

    /// Supervisors first: they take their attempts with them.
    fn stopping_order(&self) -> Vec<String> {
        let mut names = self.process_names();
        let is_control = |name: &String| self.control.iter().any(|m| m.name == *name);
        names.sort_by_key(|name| (!name.starts_with("supervisor"), is_control(name)));
        names
    }

    fn api_file(&self, name: &str) -> PathBuf {
        self.seen_by(name, &self.directory().join(name).join("api.json"))
    }

    /// How the test sees a path that the process knows by this name.
    pub(crate) fn seen_by(&self, name: &str, path: &Path) -> PathBuf {
        match self.grounds.get(name) {
            Some(grounds) => grounds.seen_from_outside(path),
            None => path.to_owned(),
        }
    }

    fn issue_control(&self, machine: &Control) -> Result<()> {
        let node = machine.node.to_string();
        let role = if machine.is_coordinator() {
            "coordinator"
        } else {
            "witness"
        };
        self.issue(role, &machine.identity, &["--node", &node])
    }

    fn issue(&self, role: &str, name: &str, further: &[&str]) -> Result<()> {
        let (pki, out) = (self.path("pki"), self.path(&format!("id-{name}")));
        let arguments = [
            "ca", "issue", "--dir", &pki, "--role", role, "--name", name, "--out", &out,
        ];
        self.matins(&[&arguments, further].concat()).map(drop)
    }

    fn spawn(&mut self, name: &str, arguments: &[String]) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path(&format!("{name}.log")))?;
        let child = self
            .grounds(name)
            .command(&binary()?)
            .args(arguments)
            // Or it would go on where the test itself is killed.
            .args(["--parent-pid", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        self.processes.insert(name.to_owned(), child);
        Ok(())
    }
}

impl Drop for Site {
    /// After a failure: says what the processes said last, and removes what is left by force.
    #[allow(clippy::print_stderr)] // for whoever reads why the test failed
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        for name in self.processes.keys() {
            eprintln!("--- last lines of {name}.log\n{}", self.log_tail(name));
        }
        for name in self.stopping_order() {
            let Ok(mut child) = self.take(&name) else {
                continue;
            };
            let pid = Pid::from_raw(child.id().cast_signed());
            let _ = kill(pid, Signal::SIGCONT);
            let _ = kill(pid, Signal::SIGTERM);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(10) && matches!(child.try_wait(), Ok(None))
            {
                sleep(LOOK_EVERY);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        leftovers::remove(self.directory());
    }
}

pub(crate) fn agent_name(n: u32) -> String {
    format!("host-{n}")
}

pub(crate) fn supervisor_name(n: u32) -> String {
    format!("supervisor-{n}")
}

/// The product, built beside this test: `target/<profile>/matins`.
pub(crate) fn binary() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test
        .ancestors()
        .nth(2)
        .context("the test lies in target/<profile>/deps")?;
    let binary: &Path = &profile.join("matins");
    ensure!(
        binary.exists(),
        "{} is missing: cargo build -p matins",
        binary.display()
    );
    Ok(binary.to_owned())
}
