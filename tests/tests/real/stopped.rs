//! Processes that stand still for a while and wake again (SIGSTOP): a host under memory pressure,
//! a debugger, a machine that its hypervisor has paused.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use protocol::Token;
use protocol::attempt::AttemptOutcome;

use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, supervisor_name};
use crate::writers::{
    Writer, ends_undisturbed, living, open_attempts, tokens_of, two_hosts, wait_for_outcome,
    wait_for_successors,
};

/// The short trials last a little longer than the shortest takeover time.
const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(180);

/// stopped-agent: the supervisor keeps the agent's promise.
fn stopped_agent(stall: Duration) -> Result<()> {
    let job = Writer {
        seconds: 8.0 + stall.as_secs_f64(),
        ways: &["stubborn"],
        ..Writer::of("stop/agent")
    };
    let (mut site, tokens) = two_hosts(&job)?;
    site.stop(&agent_name(1))?;
    site.wait_for("the supervisor to kill at the deadline", |site| {
        Ok(living(site, &tokens)?.is_empty())
    })?;
    wait_for_successors(&mut site, job.name, &tokens)?;
    sleep(stall.saturating_sub(SHORT));
    site.go_on(&agent_name(1))?;
    site.wait_until_succeeded(PATIENCE + stall)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    ensure!(evidence.count(AttemptOutcome::Lost) == tokens.len());
    site.close()
}

#[test]
fn a_stopped_agent_s_attempts_are_dead_before_the_next_begin() -> Result<()> {
    stopped_agent(SHORT)
}

#[test]
#[ignore = "make test-full: 4 minutes"]
fn an_agent_stopped_for_three_minutes() -> Result<()> {
    stopped_agent(LONG)
}

/// The agent's beats go on, so the leases do; what ended meanwhile is told afterwards.
#[test]
fn a_stopped_supervisor_costs_time_only() -> Result<()> {
    let (mut site, _) = two_hosts(&Writer::of("stop/supervisor"))?;
    site.stop(&supervisor_name(1))?;
    sleep(SHORT);
    site.go_on(&supervisor_name(1))?;
    ends_undisturbed(site)
}

/// Nobody on the host can keep its promise, and the guard must. Who is stopped wakes in the other
/// order, the supervisor first.
fn stopped_host(job: &Writer, stopped: &[String], stall: Duration) -> Result<()> {
    let (mut site, tokens) = two_hosts(job)?;
    for name in stopped {
        site.stop(name)?;
    }
    wait_for_successors(&mut site, job.name, &tokens)?;
    ensure!(!living(&site, &tokens)?.is_empty(), "the old ones write on");
    sleep(stall.saturating_sub(SHORT));
    for name in stopped.iter().rev() {
        site.go_on(name)?;
        site.wait_for("the supervisor to make up for it", |site| {
            Ok(living(site, &tokens)?.is_empty())
        })?;
    }
    site.wait_until_succeeded(PATIENCE + stall)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check()?;
    ensure!(!evidence.overlaps().is_empty(), "nothing was overtaken");
    ensure!(evidence.refused() > 0, "no stale write was refused");
    site.close()
}

/// stopped-agent-and-supervisor.
fn stopped_agent_and_supervisor(stall: Duration) -> Result<()> {
    let job = Writer {
        seconds: 10.0 + stall.as_secs_f64(),
        ..Writer::of("stop/both")
    };
    stopped_host(&job, &[agent_name(1), supervisor_name(1)], stall)
}

#[test]
fn what_a_stopped_host_writes_past_its_lease_is_refused() -> Result<()> {
    stopped_agent_and_supervisor(SHORT)
}

#[test]
#[ignore = "make test-full: 5 minutes"]
fn a_host_stopped_for_three_minutes() -> Result<()> {
    stopped_agent_and_supervisor(LONG)
}

/// stopped-supervisor: its agent notices that it answers nothing, and promises no more for it.
fn stopped_supervisor(stall: Duration) -> Result<()> {
    let job = Writer {
        // It is given up after 20 s at the latest, and then its leases have to run out.
        seconds: 30.0 + stall.as_secs_f64(),
        ..Writer::of("stop/hung")
    };
    stopped_host(&job, &[supervisor_name(1)], stall)
}

#[test]
fn shards_of_a_supervisor_that_hangs_go_elsewhere() -> Result<()> {
    stopped_supervisor(SHORT)
}

#[test]
#[ignore = "make test-full: 5 minutes"]
fn a_supervisor_stopped_for_three_minutes() -> Result<()> {
    stopped_supervisor(LONG)
}

/// stuck-fsync-leader: a coordinator that wakes with all its timers overdue expires nothing, and
/// hosts that could not reach it have kept their own promise.
#[test]
fn a_stopped_coordinator_takes_nothing_away() -> Result<()> {
    let mut site = Site::new(2)?;
    site.start(2, 8)?;
    let patient = Writer {
        seconds: 50.0,
        takeover: "60s",
        shards: 2,
        ..Writer::of("stop/patient")
    };
    let hasty = Writer {
        seconds: 40.0,
        takeover: "15s",
        shards: 2,
        ..Writer::of("stop/hasty")
    };
    let hosts = [agent_name(1), agent_name(2)];
    let all = |site: &Site| -> Result<Vec<Token>> {
        let each = hosts.iter().map(|host| tokens_of(site, host));
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    };
    patient.run(&mut site)?;
    let patient_ones = all(&site)?;
    hasty.run(&mut site)?;
    let mut hasty_ones = all(&site)?;
    hasty_ones.retain(|token| !patient_ones.contains(token));
    site.stop(COORDINATOR)?;
    sleep(Duration::from_secs(30));
    let writing = living(&site, &patient_ones)?;
    ensure!(writing.len() == 2, "the patient wrote on: {writing:?}");
    ensure!(living(&site, &hasty_ones)?.is_empty(), "the hasty did not");
    site.go_on(COORDINATOR)?;
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    let patient = evidence.attempts().filter(|(p, _)| p.job == patient.name);
    ensure!(patient.count() == 2, "an attempt was used up");
    site.close()
}

#[test]
fn an_agent_killed_while_its_coordinator_stands_still() -> Result<()> {
    let (mut site, tokens) = two_hosts(&Writer {
        ways: &["daemon"],
        ..Writer::of("stop/coordinator-and-kill")
    })?;
    site.stop(COORDINATOR)?;
    site.kill(&agent_name(1))?;
    site.kill(&supervisor_name(1))?;
    site.start_supervisor(1)?;
    site.start_agent(1)?;
    site.go_on(COORDINATOR)?;
    for token in tokens {
        wait_for_outcome(&mut site, token, AttemptOutcome::Lost)?;
    }
    site.wait_until_succeeded(PATIENCE)?;
    site.evidence()?.check_without_overlap()?;
    site.close()
}

/// late-start: a host is still believed in when it stops, so it is given shards; when it goes on
/// and finds them in its mail, others have them.
#[test]
fn a_start_that_is_read_too_late_starts_nothing() -> Result<()> {
    let mut site = Site::new(2)?;
    site.start(2, 8)?;
    let job = Writer::of("stop/late-start");
    job.apply(&site)?;
    site.stop(&agent_name(1))?;
    site.matins(&["run", job.name, "--reason", "test"])?;
    site.wait_for("the stopped host to be given shards", |site| {
        Ok(open_attempts(site)?.len() == job.shards as usize)
    })?;
    let unread = tokens_of(&site, &agent_name(1))?;
    ensure!(!unread.is_empty(), "it was given nothing");
    for &token in &unread {
        wait_for_outcome(&mut site, token, AttemptOutcome::Lost)?;
    }
    site.go_on(&agent_name(1))?;
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    let begun = |token: &Token| evidence.presences().keys().any(|(_, t)| *t == token.0);
    ensure!(!unread.iter().any(begun), "it was started after all");
    site.close()
}
