//! The power of a host is cut: agent, supervisor and everything they started are gone in one
//! instant (`cgroup.kill`), and nobody has said a word. What comes back may be the same boot, for
//! all the coordinator knows, or another: a file mounted over the kernel's boot id shows the new
//! supervisor another one.

use std::fs;
use std::rc::Rc;

use anyhow::{Result, ensure};
use protocol::api::RunDetail;
use protocol::attempt::AttemptOutcome;
use protocol::{RunState, Token};

use crate::grounds::{Cgroup, Grounds, Namespaces, possible};
use crate::site::{PATIENCE, Site, agent_name, supervisor_name};
use crate::writers::{Writer, attempt, living, tokens_of, wait_for_outcome, wait_for_successors};

/// Two hosts of which the first one's power can be cut.
struct Trial {
    site: Site,
    machine: Rc<Cgroup>,
    /// What host 1 holds.
    tokens: Vec<Token>,
}

fn begin(job: &Writer) -> Result<Trial> {
    let mut site = Site::new(2)?;
    let machine = Cgroup::new(site.directory(), "machine")?;
    put_host_1(&mut site, &machine, None);
    site.start(2, 8)?;
    job.run(&mut site)?;
    let tokens = tokens_of(&site, &agent_name(1))?;
    ensure!(!tokens.is_empty(), "host 1 has no shard");
    Ok(Trial {
        site,
        machine,
        tokens,
    })
}

fn put_host_1(site: &mut Site, machine: &Rc<Cgroup>, namespaces: Option<Rc<Namespaces>>) {
    let grounds = Grounds {
        cgroup: Some(Rc::clone(machine)),
        namespaces,
        ..Grounds::default()
    };
    site.put(&agent_name(1), grounds.clone());
    site.put(&supervisor_name(1), grounds);
}

impl Trial {
    fn cut_power(&mut self) -> Result<()> {
        self.machine.cut_power()?;
        for name in [agent_name(1), supervisor_name(1)] {
            self.site.wait_for_end(&name)?;
        }
        let tokens = self.tokens.clone();
        self.site.wait_for("everything to be gone", |site| {
            Ok(living(site, &tokens)?.is_empty())
        })
    }

    fn boot(&mut self) -> Result<()> {
        let before = self.site.attaches(1)?;
        self.site.start_supervisor(1)?;
        self.site.start_agent(1)?;
        self.site.wait_for("the host to attach again", |site| {
            Ok(site.attaches(1)? > before)
        })
    }

    fn end(mut self) -> Result<()> {
        self.site.wait_until_succeeded(PATIENCE)?;
        let evidence = self.site.evidence()?;
        println!("{}", evidence.summary());
        evidence.check_without_overlap()?;
        self.site.close()
    }
}

#[test]
fn shards_of_a_host_without_power_are_taken_over() -> Result<()> {
    if !possible("a power cut", &["unshare", "nsenter", "mount"])? {
        return Ok(());
    }
    let job = Writer {
        ways: &["stubborn", "hidden"],
        ..Writer::of("power/cut")
    };
    let mut trial = begin(&job)?;
    trial.cut_power()?;
    let tokens = trial.tokens.clone();
    wait_for_successors(&mut trial.site, job.name, &tokens)?;
    trial.boot()?;
    trial.end()
}

/// reboot-waits-for-expiry: a supervisor of another boot has nothing to say about what ran before
/// it; a clone of the machine would say the same.
#[test]
fn a_host_back_at_once_under_another_boot_id_waits_for_expiry() -> Result<()> {
    if !possible("a reboot", &["unshare", "nsenter", "mount"])? {
        return Ok(());
    }
    let mut trial = begin(&Writer::of("power/reboot"))?;
    trial.cut_power()?;
    let namespaces = Namespaces::mount()?;
    let boot_id = trial.site.path("boot-id");
    fs::write(&boot_id, "00000000-0000-4000-8000-000000000001\n")?;
    let kernels = "/proc/sys/kernel/random/boot_id";
    namespaces.run("mount", &["--bind", &boot_id, kernels])?;
    put_host_1(&mut trial.site, &trial.machine, Some(namespaces));
    trial.boot()?;
    for &token in &trial.tokens {
        let attempt = attempt(&trial.site, token)?;
        ensure!(attempt.ended_at.is_none(), "released early: {attempt:?}");
    }
    for token in trial.tokens.clone() {
        wait_for_outcome(&mut trial.site, token, AttemptOutcome::Lost)?;
    }
    trial.end()
}

/// started-then-power-cut: what the shard has done is not known, and a second run may do harm.
#[test]
fn an_unsafe_shard_that_lost_its_power_goes_to_a_person() -> Result<()> {
    if !possible("a power cut", &["unshare", "nsenter", "mount"])? {
        return Ok(());
    }
    let job = Writer {
        safe: false,
        ..Writer::of("power/unsafe")
    };
    let mut trial = begin(&job)?;
    trial.cut_power()?;
    trial.boot()?;
    for token in trial.tokens.clone() {
        wait_for_outcome(&mut trial.site, token, AttemptOutcome::Lost)?;
    }
    trial.site.wait_for("the run to ask a person", |site| {
        Ok(site
            .runs()?
            .iter()
            .all(|run| run.state == RunState::NeedsConfirmation))
    })?;
    let run = trial.site.runs()?.remove(0);
    let detail: RunDetail = trial.site.get(&format!("runs/{}", run.run))?;
    for shard in &detail.shard_list {
        let attempts = shard.attempts.len();
        ensure!(attempts == 1, "tried again without being asked: {shard:?}");
    }
    let run = run.run.to_string();
    let confirm = ["confirm", &run, "--as", "retry", "--reason", "looked at it"];
    trial.site.matins(&confirm)?;
    trial.end()
}
