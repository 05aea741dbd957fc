//! What people do at a bad moment: they cancel what does not listen, and run it again at once;
//! they copy the disk of a host.

use anyhow::{Context, Result, ensure};
use protocol::RunState;
use protocol::api::Agent;
use protocol::attempt::AttemptOutcome;

use crate::site::{PATIENCE, Site, agent_name};
use crate::writers::{Writer, living, tokens_of};

/// cancel-then-rerun, and fence-rerun: the second day's run writes in between, and the first
/// day's rerun may write after it.
#[test]
fn a_rerun_waits_for_what_was_cancelled_and_writes_after_everybody() -> Result<()> {
    let mut site = Site::new(1)?;
    site.start(1, 8)?;
    let job = Writer {
        shards: 2,
        seconds: 3.0,
        ways: &["stubborn"],
        ..Writer::of("people/impatient")
    };
    job.run(&mut site)?;
    let first = site.runs()?.first().context("it runs")?.run.to_string();
    let cancelled = tokens_of(&site, &agent_name(1))?;
    site.matins(&["cancel", &first, "--reason", "test"])?;
    site.matins(&["rerun", &first, "--reason", "test"])?;
    site.wait_until_succeeded(PATIENCE)?;
    ensure!(
        living(&site, &cancelled)?.is_empty(),
        "what was cancelled lives"
    );
    site.evidence()?.check_without_overlap()?;

    job.run(&mut site)?;
    let second = site.runs()?.last().context("it runs")?.run.to_string();
    site.matins(&["cancel", &second, "--reason", "test"])?;
    site.wait_for("the second to be cancelled", |site| {
        Ok(site
            .runs()?
            .iter()
            .any(|run| run.state == RunState::Cancelled))
    })?;
    job.run(&mut site)?;
    site.wait_for("the third to succeed", |site| {
        Ok(site
            .runs()?
            .last()
            .is_some_and(|run| run.state == RunState::Succeeded))
    })?;
    site.matins(&["rerun", &second, "--reason", "test"])?;
    // A writer that is refused does not succeed.
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    ensure!(evidence.count(AttemptOutcome::Succeeded) == 6);
    ensure!(evidence.refused() == 0, "a rerun was refused");
    site.close()
}

/// cloned-host: a copy of a host appears while the host works. Neither is believed, and nothing
/// that the one holds is given away on the other's word.
#[test]
fn a_host_and_its_clone_are_both_quarantined() -> Result<()> {
    let mut site = Site::new(2)?;
    site.start(2, 8)?;
    let job = Writer {
        seconds: 5.0,
        takeover: "60s",
        ..Writer::of("people/clone")
    };
    job.run(&mut site)?;
    let tokens = tokens_of(&site, &agent_name(1))?;
    ensure!(!tokens.is_empty(), "host 1 has no shard");
    // The clone's own host is the third.
    site.start_supervisor(3)?;
    site.start_clone(3, &agent_name(1))?;
    site.wait_for("the name to be quarantined", |site| {
        let agents: Vec<Agent> = site.get("agents")?;
        Ok(agents.iter().any(|agent| agent.state == "quarantined"))
    })?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    for (_, attempt) in evidence
        .attempts()
        .filter(|(_, a)| tokens.contains(&a.token))
    {
        let released = attempt.outcome == Some(AttemptOutcome::NeverStarted)
            || attempt.outcome == Some(AttemptOutcome::Lost);
        ensure!(!released, "given away on the clone's word: {attempt:?}");
    }
    ensure!(
        evidence.attempts().count() == 4,
        "something was granted again"
    );
    site.close()
}
