//! A whole site on loopback: one coordinator, agents and their supervisors, as real processes
//! that can be killed one by one.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use protocol::api;
use serde::de::DeserializeOwned;

/// How long anything here may take before the test gives up, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Every process carries its directory, so that whatever the test leaves behind is its own.
pub(crate) struct Site {
    directory: tempfile::TempDir,
    agents_port: u16,
    processes: BTreeMap<String, Child>,
}

#[derive(serde::Deserialize)]
struct ApiFile {
    url: String,
    token: String,
}

impl Site {
    /// Certificates for a coordinator and `agents` agents; nothing runs yet.
    pub(crate) fn new(agents: u32) -> Result<Site> {
        let directory = tempfile::Builder::new().prefix("matins-real-").tempdir()?;
        // A free port, remembered: the coordinator comes back under the same address.
        let agents_port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        let site = Site {
            directory,
            agents_port,
            processes: BTreeMap::new(),
        };
        let pki = site.path("pki");
        site.matins(&["ca", "create", "--dir", &pki, "--cluster", "real"])?;
        site.issue("coordinator", "c1")?;
        for n in 1..=agents {
            site.issue("agent", &agent_name(n))?;
        }
        Ok(site)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory
            .path()
            .join(name)
            .to_string_lossy()
            .into_owned()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where agents find the coordinator.
    pub(crate) fn agents_address(&self) -> String {
        format!("127.0.0.1:{}", self.agents_port)
    }

    /// The coordinator, and every agent with its supervisor; returns when all are attached.
    pub(crate) fn start(&mut self, agents: u32, slots: u32) -> Result<()> {
        self.start_coordinator()?;
        for n in 1..=agents {
            self.start_supervisor(n)?;
            self.start_agent(n, slots)?;
        }
        self.wait_for("every agent to attach", |site| {
            let attached: Vec<api::Agent> = site.get("agents")?;
            let ready = attached.iter().filter(|agent| agent.state == "ready");
            Ok(ready.count() == agents as usize)
        })
    }

    pub(crate) fn start_coordinator(&mut self) -> Result<()> {
        // What an earlier one left says nothing about this one.
        let _ = fs::remove_file(self.api_file());
        let listen = self.agents_address();
        let (data, identity) = (self.path("coordinator"), self.path("id-c1"));
        self.spawn(
            "coordinator",
            &[
                "coordinator",
                "--data",
                &data,
                "--identity",
                &identity,
                "--agents-listen",
                &listen,
                "--api-listen",
                "127.0.0.1:0",
                "--node",
                "c1",
            ],
        )
    }

    pub(crate) fn start_supervisor(&mut self, n: u32) -> Result<()> {
        let directory = self.path(&format!("supervisor-{n}"));
        self.spawn(
            &format!("supervisor-{n}"),
            &["supervisor", "--dir", &directory],
        )
    }

    pub(crate) fn start_agent(&mut self, n: u32, slots: u32) -> Result<()> {
        let name = agent_name(n);
        let data = self.path(&format!("data-{n}"));
        let identity = self.path(&format!("id-{name}"));
        let supervisor = self.path(&format!("supervisor-{n}"));
        let coordinator = self.agents_address();
        let slots = slots.to_string();
        self.spawn(
            &name,
            &[
                "agent",
                "--data",
                &data,
                "--identity",
                &identity,
                "--coordinator",
                &coordinator,
                "--supervisor",
                &supervisor,
                "--slots",
                &slots,
                "--name",
                &name,
            ],
        )
    }

    /// SIGKILL, and wait until it is gone.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        let mut child = self
            .processes
            .remove(name)
            .with_context(|| format!("no {name} runs"))?;
        child.kill()?;
        child.wait()?;
        Ok(())
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

    /// Runs the CLI against this site; its standard output.
    pub(crate) fn matins(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(binary()?)
            .args(arguments)
            .env("MATINS_DATA", self.directory.path())
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

    /// GETs `/api/v1/<path>`.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let api: ApiFile = serde_json::from_str(&fs::read_to_string(self.api_file())?)?;
        let text = ureq::get(format!("{}/api/v1/{path}", api.url))
            .header("authorization", format!("Bearer {}", api.token))
            .call()?
            .body_mut()
            .read_to_string()?;
        Ok(serde_json::from_str(&text)?)
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
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < PATIENCE {
            match done(self) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => last = Some(error),
            }
            self.check_alive()?;
            sleep(Duration::from_millis(50));
        }
        bail!("waited {PATIENCE:?} in vain for {what}; last error: {last:?}")
    }

    pub(crate) fn log_tail(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(40).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn api_file(&self) -> PathBuf {
        self.directory.path().join("coordinator/api.json")
    }

    fn issue(&self, role: &str, name: &str) -> Result<()> {
        let (pki, out) = (self.path("pki"), self.path(&format!("id-{name}")));
        self.matins(&[
            "ca", "issue", "--dir", &pki, "--role", role, "--name", name, "--out", &out,
        ])
        .map(drop)
    }

    fn spawn(&mut self, name: &str, arguments: &[&str]) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path(&format!("{name}.log")))?;
        let child = Command::new(binary()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.processes.insert(name.to_owned(), child);
        Ok(())
    }
}

impl Drop for Site {
    /// Agents first, then supervisors by SIGTERM so that they take their attempts with them.
    #[allow(clippy::print_stderr)] // for whoever reads why the test failed
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in self.processes.keys() {
                eprintln!("--- last lines of {name}.log\n{}", self.log_tail(name));
            }
        }
        let (supervisors, others): (Vec<_>, Vec<_>) = self
            .processes
            .iter_mut()
            .partition(|(name, _)| name.starts_with("supervisor"));
        for (_, child) in others {
            let _ = child.kill();
            let _ = child.wait();
        }
        for (_, child) in supervisors {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(10) && matches!(child.try_wait(), Ok(None))
            {
                sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn agent_name(n: u32) -> String {
    format!("host-{n}")
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
