//! Both coordinators are away at once: for seconds, and for minutes.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use protocol::RunState;

use crate::chance::{chance, seed};
use crate::end::settle;
use crate::journal::Journal;
use crate::site::{GROUP, PATIENCE, Site};
use crate::writers::Writer;

const COORDINATORS: [&str; 2] = ["c1", "c2"];

/// Both are restarted within ten seconds, told to end or killed, and in either order; what runs
/// goes on.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn both_restarted_within_ten_seconds_interrupt_nothing() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let each = Writer::ticking("restart/each", "@every 2s");
    each.apply(&site)?;
    let long = Writer {
        seconds: 60.0,
        takeover: "60s",
        ..Writer::of("restart/long")
    };
    long.run(&mut site)?;
    for (kill, order) in [(false, ["c1", "c2"]), (true, ["c2", "c1"])] {
        for name in order {
            if kill {
                site.kill(name)?;
            } else {
                site.terminate(name)?;
            }
            sleep(Duration::from_secs(2));
        }
        for name in order {
            site.start_control(name)?;
            sleep(Duration::from_secs(1));
        }
        for name in COORDINATORS {
            site.wait_until_ready(name)?;
        }
        site.wait_for_leader()?;
        site.wait_for_agents(2)?;
    }
    let limit = Duration::from_secs(60);
    let ended = settle(&mut site, journal, &[&each], limit)?;
    ended.nobody_was_overtaken()?;
    ended.nothing_was_interrupted(&long)?;
    site.close()
}

/// Nobody leads for longer than most leases last: who may work on for ten minutes does so to the
/// end, and its receipts wait for whoever comes.
fn both_down(length: Duration) -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let patient = Writer {
        seconds: length.as_secs_f64() / 2.0,
        takeover: "10m",
        ..Writer::of("down/patient")
    };
    patient.run(&mut site)?;
    for name in COORDINATORS {
        site.kill(name)?;
    }
    sleep(length);
    for name in COORDINATORS {
        site.start_control(name)?;
    }
    let journal = Journal::begin_when_led(&mut site)?;
    site.wait_for("every receipt to come", |site| {
        let runs = site.runs()?;
        let mut own = runs
            .iter()
            .filter(|run| run.job.to_string() == patient.name);
        Ok(own.all(|run| run.state == RunState::Succeeded))
    })?;
    let ended = settle(&mut site, journal, &[], Duration::ZERO)?;
    ended.nobody_was_overtaken()?;
    let attempts = ended.evidence.attempts().count();
    ensure!(attempts == 4, "{attempts} attempts of what ran to its end");
    site.close()
}

#[test]
#[ignore = "make test-full: a minute"]
fn both_down_for_forty_seconds_while_work_ends() -> Result<()> {
    both_down(Duration::from_secs(40))
}

#[test]
#[ignore = "make test-full: six minutes"]
fn both_down_for_five_minutes_while_work_ends() -> Result<()> {
    both_down(Duration::from_secs(300))
}

/// All three lose their power at once, again and again, in the middle of their work.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn all_three_killed_at_once_ten_times() -> Result<()> {
    let mut rng = chance(seed());
    let mut site = Site::of_three(2)?;
    site.start(2, 16)?;
    let journal = Journal::begin(&site)?;
    let each = Writer {
        schedule: "@every 1s",
        shards: 2,
        seconds: 0.3,
        takeover: "60s",
        ..Writer::of("power/each")
    };
    each.apply(&site)?;
    for _ in 0..10 {
        sleep(Duration::from_millis(rng.between(200, 6_000) as u64));
        for name in GROUP {
            site.signal(name, Signal::SIGKILL)?;
        }
        for name in GROUP {
            site.wait_for_end(name)?;
        }
        for name in GROUP {
            site.start_control(name)?;
        }
    }
    for name in COORDINATORS {
        site.wait_until_ready(name)?;
    }
    let ended = settle(&mut site, journal, &[&each], PATIENCE)?;
    ended.nobody_was_overtaken()?;
    site.close()
}

/// A job that forbids overlap is still running when it is due again, and the lead changes hands just
/// then: whoever leads says that it was skipped and why, and does not start it twice.
#[test]
#[ignore = "make test-full: a minute"]
fn a_forbid_job_across_its_next_fire_and_a_failover() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let forbid = Writer {
        schedule: "@every 8s",
        shards: 2,
        seconds: 13.0,
        overlap: "forbid",
        takeover: "60s",
        ..Writer::of("forbid/long")
    };
    forbid.apply(&site)?;
    site.wait_for("the first to run", |site| {
        let runs = site.runs()?;
        Ok(runs.iter().any(|run| run.state == RunState::Running))
    })?;
    for round in 0..3 {
        let leader = site.wait_for_leader()?;
        if round == 1 {
            site.terminate(&leader)?;
        } else {
            site.kill(&leader)?;
        }
        // It is due again while nobody leads, or while the other one has just begun to.
        sleep(Duration::from_millis(500));
        site.start_control(&leader)?;
        site.wait_until_ready(&leader)?;
        sleep(Duration::from_secs(7));
    }
    let limit = Duration::from_secs(60);
    let ended = settle(&mut site, journal, &[&forbid], limit)?;
    ended.nobody_was_overtaken()?;
    let skipped = ended
        .evidence
        .runs
        .iter()
        .filter(|run| run.run.state == RunState::Skipped);
    let mut skipped = skipped.peekable();
    ensure!(skipped.peek().is_some(), "none was skipped");
    for run in skipped {
        let reason = format!("{:?}", run.run.reason);
        ensure!(reason.contains("run-"), "it does not say why: {run:?}");
    }
    site.close()
}

/// The others stand still while a batch of the leader is on its way to them, and it is told to end:
/// nobody can take the lead, and nothing comes back, but it ends. They go on without it.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn a_leader_whose_others_are_gone_ends_when_it_is_told_to() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let each = Writer {
        schedule: "@every 1s",
        seconds: 0.2,
        takeover: "60s",
        ..Writer::of("restart/alone")
    };
    each.apply(&site)?;
    let leader = site.wait_for_leader()?;
    let others = ["c1", "c2", "w"].map(str::to_owned);
    let others: Vec<String> = others.into_iter().filter(|it| *it != leader).collect();
    for name in &others {
        site.stop(name)?;
    }
    site.wait_for("the leader to find itself alone", |site| {
        Ok(!site.leads(&leader))
    })?;
    // Its job fires every second.
    sleep(Duration::from_secs(2));
    site.terminate(&leader)?;
    for name in &others {
        site.go_on(name)?;
    }
    site.wait_for_leader_but(&leader)?;
    site.start_control(&leader)?;
    site.wait_until_ready(&leader)?;
    settle(&mut site, journal, &[&each], Duration::ZERO)?;
    site.close()
}
