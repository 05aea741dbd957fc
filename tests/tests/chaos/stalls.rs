//! Processes that stand still and go on (SIGSTOP, SIGCONT): what they believed may be over by then.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::chance::{chance, seed};
use crate::end::settle;
use crate::journal::Journal;
use crate::site::{PATIENCE, Site, agent_name, supervisor_name};
use crate::writers::{Writer, living, tokens_of, wait_for_successors};

fn each(name: &str) -> Writer<'_> {
    Writer::ticking(name, "@every 3s")
}

/// The leader stands still for 2 to 20 s at a time, and wakes with its timers overdue and what it
/// was about to say unsaid.
#[test]
#[ignore = "make test-full: three minutes"]
fn a_leader_that_stands_still_and_goes_on_takes_nothing_away() -> Result<()> {
    let mut rng = chance(seed());
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let each = each("stall/each");
    each.apply(&site)?;
    let long = Writer {
        seconds: 120.0,
        takeover: "60s",
        ..Writer::of("stall/long")
    };
    long.run(&mut site)?;
    let mut lengths = vec![2_000, 20_000];
    lengths.extend((0..6).map(|_| rng.between(2_000, 12_000)));
    for length in lengths {
        let leader = site.wait_for_leader()?;
        site.stop(&leader)?;
        sleep(Duration::from_millis(length as u64));
        site.go_on(&leader)?;
        // It must not act on what it believed when it was stopped: nobody but the other leads.
        site.wait_until_ready(&leader)?;
        let now = site.leader();
        println!("{leader} stood still for {length} ms; now {now:?} leads");
        sleep(Duration::from_millis(rng.between(0, 2_000) as u64));
    }
    let limit = Duration::from_secs(120);
    let ended = settle(&mut site, journal, &[&each], limit)?;
    ended.nobody_was_overtaken()?;
    ended.nothing_was_interrupted(&long)?;
    site.close()
}

/// An agent stands still past its lease while the lead changes hands: its supervisor keeps its
/// promise, whoever leads then takes the shards over, and what the agent says when it wakes is old.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn an_agent_stopped_past_its_lease_and_a_failover() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let long = Writer {
        seconds: 30.0,
        ways: &["stubborn"],
        ..Writer::of("stall-agent/long")
    };
    long.run(&mut site)?;
    let tokens = tokens_of(&site, &agent_name(1))?;
    ensure!(!tokens.is_empty(), "host 1 has nothing");
    let each = each("stall-agent/each");
    each.apply(&site)?;
    site.stop(&agent_name(1))?;
    let leader = site.wait_for_leader()?;
    site.kill(&leader)?;
    site.wait_for_leader()?;
    site.start_control(&leader)?;
    wait_for_successors(&mut site, long.name, &tokens)?;
    ensure!(living(&site, &tokens)?.is_empty(), "it outlived its lease");
    site.go_on(&agent_name(1))?;
    site.wait_for_agents(2)?;
    let ended = settle(&mut site, journal, &[&each], PATIENCE)?;
    ended.nobody_was_overtaken()?;
    site.close()
}

/// The whole host stands still past its lease while the lead changes hands: nobody there can keep
/// the promise, and the guard must.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn a_host_stopped_past_its_lease_and_a_failover() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let long = Writer {
        seconds: 40.0,
        ..Writer::of("stall-host/long")
    };
    long.run(&mut site)?;
    let tokens = tokens_of(&site, &agent_name(1))?;
    ensure!(!tokens.is_empty(), "host 1 has nothing");
    let each = each("stall-host/each");
    each.apply(&site)?;
    for name in [agent_name(1), supervisor_name(1)] {
        site.stop(&name)?;
    }
    let leader = site.wait_for_leader()?;
    site.terminate(&leader)?;
    site.wait_for_leader()?;
    site.start_control(&leader)?;
    wait_for_successors(&mut site, long.name, &tokens)?;
    for name in [supervisor_name(1), agent_name(1)] {
        site.go_on(&name)?;
    }
    site.wait_for("the supervisor to make up for it", |site| {
        Ok(living(site, &tokens)?.is_empty())
    })?;
    site.wait_for_agents(2)?;
    let ended = settle(&mut site, journal, &[&each], PATIENCE)?;
    ensure!(ended.evidence.refused() > 0, "no stale write was refused");
    let unexcused: Vec<_> = ended
        .evidence
        .overlaps()
        .into_iter()
        .filter(|overlap| !tokens.iter().any(|token| token.0 == overlap.older.1))
        .collect();
    ensure!(unexcused.is_empty(), "overlaps: {unexcused:#?}");
    site.close()
}
