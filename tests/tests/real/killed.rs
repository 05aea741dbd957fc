//! Agents and supervisors that end in the middle of shards: by SIGKILL, in order, or for an
//! upgrade.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use protocol::attempt::AttemptOutcome;

use crate::grounds::Grounds;
use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, binary, supervisor_name};
use crate::writers::{
    Writer, ends_undisturbed, living, two_hosts, wait_for_outcome, wait_for_successors,
};

#[test]
fn an_agent_killed_finds_its_attempts_again() -> Result<()> {
    let (mut site, _) = two_hosts(&Writer::of("kill/agent"))?;
    site.kill(&agent_name(1))?;
    site.start_agent(1)?;
    ends_undisturbed(site)
}

#[test]
fn an_agent_told_to_stop_leaves_its_attempts_alone() -> Result<()> {
    let (mut site, _) = two_hosts(&Writer::of("kill/sigterm-agent"))?;
    site.terminate(&agent_name(1))?;
    site.start_agent(1)?;
    ends_undisturbed(site)
}

/// The agent's binary is replaced while it runs, and both ends are started anew: the supervisor
/// and what it holds know nothing of it.
#[test]
fn an_upgrade_of_agent_and_coordinator_interrupts_nothing() -> Result<()> {
    let mut site = Site::new(2)?;
    let installed = PathBuf::from(site.path("matins"));
    fs::copy(binary()?, &installed)?;
    let grounds = Grounds {
        binary: Some(installed.clone()),
        ..Grounds::default()
    };
    for name in [&agent_name(1), &supervisor_name(1), COORDINATOR] {
        site.put(name, grounds.clone());
    }
    site.start(2, 8)?;
    let job = Writer {
        seconds: 8.0,
        ..Writer::of("kill/upgrade")
    };
    job.run(&mut site)?;
    let fresh = site.path("matins.new");
    fs::copy(binary()?, &fresh)?;
    fs::rename(&fresh, &installed)?;
    site.terminate(&agent_name(1))?;
    site.start_agent(1)?;
    site.terminate(COORDINATOR)?;
    site.start_coordinator()?;
    site.wait_for_agents(2)?;
    ends_undisturbed(site)
}

/// What the supervisor is the parent of dies with it.
#[test]
fn a_supervisor_killed_loses_its_attempts_and_they_run_again() -> Result<()> {
    let (mut site, tokens) = two_hosts(&Writer::of("kill/supervisor"))?;
    site.kill(&supervisor_name(1))?;
    site.start_supervisor(1)?;
    for token in tokens {
        wait_for_outcome(&mut site, token, AttemptOutcome::Lost)?;
    }
    ends_once(site)
}

#[test]
fn a_supervisor_told_to_stop_hands_its_attempts_back() -> Result<()> {
    let job = Writer {
        ways: &["stubborn"],
        ..Writer::of("kill/sigterm-supervisor")
    };
    let (mut site, tokens) = two_hosts(&job)?;
    site.terminate(&supervisor_name(1))?;
    ensure!(living(&site, &tokens)?.is_empty(), "it ended before them");
    site.start_supervisor(1)?;
    for token in tokens {
        wait_for_outcome(&mut site, token, AttemptOutcome::Interrupted)?;
    }
    site.wait_until_succeeded(PATIENCE)?;
    for run in site.evidence()?.runs {
        let used = run.shard_list.iter().map(|shard| shard.retries_used);
        ensure!(used.sum::<u32>() == 0, "an interruption used up a retry");
    }
    ends_once(site)
}

/// The process that reads what attempts print: another takes its place, and no attempt notices.
#[test]
fn a_log_writer_killed_is_replaced_and_interrupts_nothing() -> Result<()> {
    let job = Writer {
        ways: &["talk"],
        ..Writer::of("kill/log-writer")
    };
    let (mut site, _) = two_hosts(&job)?;
    let supervisor = site.pid(&supervisor_name(1))?;
    let log_writer = move || {
        // It is forked, so it is called like the supervisor itself.
        let called = fs::read(format!("/proc/{supervisor}/cmdline"))?;
        let children =
            fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"))?;
        let mut pids = children.split_whitespace();
        let found =
            pids.find(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c == called));
        anyhow::Ok(found.map(str::parse::<i32>).transpose()?)
    };
    let first = log_writer()?;
    let first = first.context("the supervisor has a log writer")?;
    kill(Pid::from_raw(first), Signal::SIGKILL)?;
    site.wait_for("another log writer", |_| {
        Ok(log_writer()?.is_some_and(|pid| pid != first))
    })?;
    ends_undisturbed(site)
}

/// killed-agent-and-supervisor
#[test]
fn an_orphan_that_survives_both_is_dead_before_its_lease_is_released() -> Result<()> {
    // Who may make cgroups finds also what has shed every mark of its attempt.
    let way = if geteuid().is_root() {
        "hidden"
    } else {
        "daemon"
    };
    let job = Writer {
        ways: &[way],
        ..Writer::of("kill/orphans")
    };
    let (mut site, tokens) = two_hosts(&job)?;
    site.kill(&agent_name(1))?;
    site.kill(&supervisor_name(1))?;
    let left = living(&site, &tokens)?;
    ensure!(!left.is_empty(), "no orphan has survived");
    // No spool either: all that the new ones know, they see.
    fs::remove_dir_all(site.path("data-1"))?;
    site.start_agent(1)?;
    site.start_supervisor(1)?;
    for &token in &tokens {
        wait_for_outcome(&mut site, token, AttemptOutcome::Lost)?;
    }
    ensure!(living(&site, &tokens)?.is_empty(), "an orphan lives");
    ends_once(site)
}

/// A host without a unit whose supervisor is never started again: nobody can kill what it left,
/// and nobody waits for that.
#[test]
fn an_orphan_that_nobody_sweeps_writes_in_vain() -> Result<()> {
    let job = Writer {
        ways: &["daemon"],
        ..Writer::of("kill/nobody-sweeps")
    };
    let (mut site, tokens) = two_hosts(&job)?;
    site.kill(&supervisor_name(1))?;
    site.kill(&agent_name(1))?;
    wait_for_successors(&mut site, "kill/nobody-sweeps", &tokens)?;
    let left = living(&site, &tokens)?;
    ensure!(!left.is_empty(), "no orphan has lived so long");
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check()?;
    ensure!(!evidence.overlaps().is_empty(), "nothing was overtaken");
    ensure!(evidence.refused() > 0, "no stale write was refused");
    site.start_supervisor(1)?;
    site.wait_for("the orphans to be swept", |site| {
        Ok(living(site, &tokens)?.is_empty())
    })?;
    site.close()
}

/// Everything succeeds, and no two processes of a shard were ever there at once.
fn ends_once(mut site: Site) -> Result<()> {
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    ensure!(evidence.attempts().count() > 4, "nothing ran again");
    site.close()
}
