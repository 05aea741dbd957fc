//! Hosts with an init, units and a boot of their own, as systemd-nspawn machines: what happens to
//! them happens to everything on them at once.
//!
//! A machine lies in a cgroup (version 2) of its own, so `cgroup.kill` is a power cut and
//! `cgroup.freeze` a host that stalls. It shares the network of the machine around it, and the
//! site's directory under the same path.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use protocol::RunState;

use crate::site::{PATIENCE, Site, agent_name, binary};
use crate::{Line, job, lines};

/// One host of a [`Site`]: agent and supervisor are units of its own systemd.
struct Machine {
    n: u32,
    /// Overlay, mount point and console.
    directory: tempfile::TempDir,
    cgroup: PathBuf,
    nspawn: Option<Child>,
}

impl Machine {
    /// Installs the agent's units on a fresh disk. The machine is not started.
    fn install(site: &Site, n: u32, slots: u32) -> Result<Machine> {
        let directory = tempfile::Builder::new().prefix("matins-host-").tempdir()?;
        for part in ["upper", "work", "root"] {
            fs::create_dir(directory.path().join(part))?;
        }
        let tree = run(&mut Command::new(
            repository().join("tests/guest/host-tree"),
        ))?;
        let at = |part: &str| directory.path().join(part).display().to_string();
        run(Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o"])
            .arg(format!(
                "lowerdir={},upperdir={},workdir={}",
                tree.trim(),
                at("upper"),
                at("work")
            ))
            .arg(at("root")))?;
        let machine = Machine {
            n,
            // Drawn at random, and so not that of another test's machine.
            cgroup: cgroup_root()?.join(name_of(directory.path())),
            directory,
            nspawn: None,
        };
        machine.write_units(site, slots)?;
        Ok(machine)
    }

    fn write_units(&self, site: &Site, slots: u32) -> Result<()> {
        let name = agent_name(self.n);
        let identity = site.path(&format!("id-{name}"));
        let coordinator = site.agents_address();
        let units = self.root().join("etc/systemd/system");
        // What stops with the unit of the supervisor is everything it runs.
        let supervisor = "[Unit]\nStartLimitIntervalSec=0\n\
             [Service]\nExecStart=/usr/local/bin/matins supervisor --dir /var/lib/matins/supervisor\n\
             Restart=always\nRestartSec=200ms\nKillMode=control-group\nDelegate=yes\n\
             [Install]\nWantedBy=multi-user.target\n";
        let agent = format!(
            "[Unit]\nStartLimitIntervalSec=0\nAfter=matins-supervisor.service\n\
             [Service]\nExecStart=/usr/local/bin/matins agent --data /var/lib/matins/agent \
             --identity {identity} --coordinator {coordinator} \
             --supervisor /var/lib/matins/supervisor --slots {slots} --name {name}\n\
             Restart=always\nRestartSec=200ms\n\
             [Install]\nWantedBy=multi-user.target\n"
        );
        fs::write(units.join("matins-supervisor.service"), supervisor)?;
        fs::write(units.join("matins-agent.service"), agent)?;
        let wanted = units.join("multi-user.target.wants");
        fs::create_dir_all(&wanted)?;
        for unit in ["matins-supervisor.service", "matins-agent.service"] {
            std::os::unix::fs::symlink(format!("../{unit}"), wanted.join(unit))?;
        }
        Ok(())
    }

    fn boot(&mut self, site: &Site) -> Result<()> {
        fs::create_dir_all(&self.cgroup)?;
        let console = fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join("console.log"))?;
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(r#"echo $$ >"$0/cgroup.procs" && exec systemd-nspawn "$@""#)
            .arg(&self.cgroup)
            .args(["--quiet", "--register=no", "--keep-unit", "--console=pipe"])
            .arg("--kill-signal=SIGRTMIN+3")
            .arg(format!("--machine={}", name_of(self.directory.path())))
            .arg(format!("--directory={}", self.root().display()))
            .arg(format!(
                "--bind-ro={}:/usr/local/bin/matins",
                binary()?.display()
            ))
            .arg(format!("--bind={}", site.directory().display()))
            .arg("--boot")
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            // A signal for the test's own terminal is not for the machine.
            .process_group(0);
        self.nspawn = Some(command.spawn().context("starting systemd-nspawn")?);
        Ok(())
    }

    /// Everything on it ends in the same instant, and nobody is told.
    fn cut_power(&mut self) -> Result<()> {
        fs::write(self.cgroup.join("cgroup.kill"), "1")?;
        self.wait_until_dead()
    }

    /// Everything on it stands still, clocks apart.
    fn freeze(&self, frozen: bool) -> Result<()> {
        let value = if frozen { "1" } else { "0" };
        fs::write(self.cgroup.join("cgroup.freeze"), value)?;
        self.wait_for_event(&format!("frozen {value}"))
    }

    fn systemctl(&self, arguments: &[&str]) -> Result<String> {
        let init = fs::read_to_string(self.cgroup.join("payload/init.scope/cgroup.procs"))?;
        let init = init.lines().next().context("the machine has an init")?;
        run(Command::new("nsenter")
            .args(["-t", init, "-m", "-p", "-u", "--", "systemctl"])
            .args(arguments))
    }

    fn wait_until_dead(&mut self) -> Result<()> {
        if let Some(mut nspawn) = self.nspawn.take() {
            nspawn.wait()?;
        }
        self.wait_for_event("populated 0")?;
        remove_cgroups(&self.cgroup)
    }

    fn wait_for_event(&self, line: &str) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let events = fs::read_to_string(self.cgroup.join("cgroup.events"))?;
            if events.lines().any(|found| found == line) {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        bail!("host {} did not come to `{line}`", self.n)
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }
}

impl Drop for Machine {
    #[allow(clippy::print_stderr)] // for whoever reads why the test failed
    fn drop(&mut self) {
        if self.cgroup.exists() {
            let _ = fs::write(self.cgroup.join("cgroup.freeze"), "0");
            if let Err(error) = self.cut_power() {
                eprintln!("host {} is still there: {error:#}", self.n);
            }
        }
        if std::thread::panicking() {
            let console = self.directory.path().join("console.log");
            eprintln!("{}", fs::read_to_string(console).unwrap_or_default());
        }
        let _ = run(Command::new("umount").arg(self.root()));
    }
}

fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn remove_cgroups(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroups(&entry.path())?;
        }
    }
    fs::remove_dir(path).with_context(|| format!("removing {}", path.display()))
}

/// Where cgroups of version 2 are mounted.
fn cgroup_root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let found = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    found.context("no cgroup v2 hierarchy is mounted here")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Two hosts with a run of shards that take `seconds`, all of them started.
fn site_of_machines(seconds: u32, shards: u32) -> Result<(Site, Vec<Machine>, String)> {
    let mut site = Site::new(2)?;
    site.start_coordinator()?;
    let mut machines = Vec::new();
    for n in 1..=2 {
        let mut machine = Machine::install(&site, n, 8)?;
        machine.boot(&site)?;
        machines.push(machine);
    }
    wait_until_ready(&mut site, 2)?;
    let log = site.path("jobs.log");
    let body = format!("sleep {seconds};");
    let manifest = job("machine/sleeper", "0 0 1 1 *", shards, &log, &body);
    site.apply("job.yaml", &manifest)?;
    site.matins(&["run", "machine/sleeper", "--reason", "test"])?;
    site.wait_for("every shard to start", |_| {
        Ok(lines(&log).is_ok_and(|lines| lines.len() == shards as usize))
    })?;
    Ok((site, machines, log))
}

fn wait_until_ready(site: &mut Site, count: usize) -> Result<()> {
    site.wait_for("the hosts to attach", |site| {
        let agents: Vec<protocol::api::Agent> = site.get("agents")?;
        Ok(agents.iter().filter(|agent| agent.state == "ready").count() == count)
    })
}

fn wait_until_succeeded(site: &mut Site) -> Result<()> {
    site.wait_for("the run to succeed", |site| {
        let runs = site.runs()?;
        let run = runs.first().context("the run exists")?;
        ensure!(run.state != RunState::NeedsConfirmation, "{:?}", run.reason);
        Ok(run.state == RunState::Succeeded)
    })
}

/// Every shard ended once, under the highest of its tokens; how many were started again.
fn check_ends(log: &str, shards: u32) -> Result<u32> {
    let lines = lines(log)?;
    let mut again = 0;
    for shard in 0..shards {
        let of: Vec<&Line> = lines.iter().filter(|line| line.shard == shard).collect();
        let ends: Vec<i64> = of.iter().filter(|l| l.ended).map(|l| l.token).collect();
        let highest = of.iter().map(|line| line.token).max();
        ensure!(
            ends.len() == 1 && ends.first().copied() == highest,
            "shard {shard} ended once, under its last token: {of:?}"
        );
        again += u32::from(of.len() > 2);
    }
    Ok(again)
}

#[test]
#[ignore = "make test-full: boots hosts with systemd-nspawn, as root"]
fn power_cut_of_a_host_and_its_return() -> Result<()> {
    let (mut site, mut machines, log) = site_of_machines(30, 4)?;
    machines[0].cut_power()?;
    machines[0].boot(&site)?;
    wait_until_succeeded(&mut site)?;
    let again = check_ends(&log, 4)?;
    ensure!(
        again > 0,
        "the host that lost its power had at least one shard"
    );
    wait_until_ready(&mut site, 2)
}

#[test]
#[ignore = "make test-full: boots hosts with systemd-nspawn, as root"]
fn a_host_that_stalls_past_its_leases_kills_what_wakes_up() -> Result<()> {
    let (mut site, machines, log) = site_of_machines(40, 4)?;
    machines[0].freeze(true)?;
    // Its shards are granted elsewhere while it stands still.
    let before = lines(&log)?.len();
    site.wait_for("a shard to start elsewhere", |_| {
        Ok(lines(&log)?.len() > before)
    })?;
    machines[0].freeze(false)?;
    wait_until_succeeded(&mut site)?;
    let again = check_ends(&log, 4)?;
    ensure!(again > 0, "the stalled host had at least one shard");
    wait_until_ready(&mut site, 2)
}

#[test]
#[ignore = "make test-full: boots hosts with systemd-nspawn, as root"]
fn stopping_the_unit_of_the_supervisor_takes_its_attempts_down() -> Result<()> {
    let (mut site, machines, log) = site_of_machines(30, 4)?;
    machines[0].systemctl(&[
        "kill",
        "--kill-whom=main",
        "--signal=KILL",
        "matins-supervisor",
    ])?;
    wait_until_succeeded(&mut site)?;
    let again = check_ends(&log, 4)?;
    ensure!(again > 0, "the host had at least one shard");
    wait_until_ready(&mut site, 2)
}
