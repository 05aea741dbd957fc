//! How every trial ends: all is healed, and everybody who saw anything must agree.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::{RunId, RunState};

use crate::evidence::Evidence;
use crate::fires::check_fires;
use crate::journal::{self, Journal};
use crate::site::{PATIENCE, Site};
use crate::writers::Writer;

/// A job that has fired all the while, and how often it does.
pub(crate) struct Fired<'a>(pub(crate) Writer<'a>, pub(crate) i64);

/// What was seen when all had come to its end.
pub(crate) struct Ended {
    pub(crate) evidence: Evidence,
    /// How often a person answered for each run.
    pub(crate) asked: BTreeMap<RunId, usize>,
}

impl Ended {
    /// What must hold where no host stood still past its margin.
    pub(crate) fn nobody_was_overtaken(&self) -> Result<()> {
        let overlaps = self.evidence.overlaps();
        ensure!(overlaps.is_empty(), "overlaps: {overlaps:#?}");
        Ok(())
    }
}

/// Waits until all that was due by now has come to its end, then holds against each other what the
/// writers noted, what the guard let through, the ledgers and the journal.
///
/// What may differ from trial to trial (who may have been overtaken, how many attempts there may
/// be) is left to the trial.
pub(crate) fn settle(
    site: &mut Site,
    journal: Journal,
    fired: &[Fired],
    limit: Duration,
) -> Result<Ended> {
    let leader = site.wait_for_leader()?;
    let last = site.runs()?.last().context("something has fired")?.run;
    let asked = wait_until_ended(site, last, PATIENCE + limit)?;
    let evidence = Evidence::gather_but(site, &[journal::JOB])?;
    println!(
        "{leader} leads; a person answered {} times; {}",
        asked.values().sum::<usize>(),
        evidence.summary()
    );
    evidence.check()?;
    for Fired(job, every_seconds) in fired {
        let fires = check_fires(site, job.name, every_seconds * 1_000)?;
        println!("{}: {fires} fires, none missing, none twice", job.name);
    }
    journal.check(site)?;
    nothing_panicked(site)?;
    Ok(Ended { evidence, asked })
}

/// Waits until every run up to `last` is final, and answers for the person that those wait for who
/// have been tried too often, or of which nobody knows what they did. How often, of each.
fn wait_until_ended(
    site: &mut Site,
    last: RunId,
    limit: Duration,
) -> Result<BTreeMap<RunId, usize>> {
    let begun = Instant::now();
    let mut asked = BTreeMap::new();
    loop {
        let mut open = match site.runs() {
            Ok(runs) => runs,
            // Nobody leads just now.
            Err(error) => {
                ensure!(begun.elapsed() < limit, "nobody answers: {error:#}");
                sleep(Duration::from_millis(200));
                continue;
            }
        };
        open.retain(|run| {
            run.run <= last && run.ended_at.is_none() && run.job.to_string() != journal::JOB
        });
        if open.is_empty() {
            return Ok(asked);
        }
        ensure!(begun.elapsed() < limit, "still open: {open:#?}");
        for run in open
            .iter()
            .filter(|run| run.state == RunState::NeedsConfirmation)
        {
            let id = run.run.to_string();
            site.matins(&["confirm", &id, "--as", "retry", "--reason", "looked at it"])?;
            *asked.entry(run.run).or_default() += 1;
        }
        site.check_alive()?;
        sleep(Duration::from_millis(500));
    }
}

/// Nobody on any machine has panicked, whoever came up again afterwards.
fn nothing_panicked(site: &Site) -> Result<()> {
    for entry in fs::read_dir(site.directory())? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "log") {
            let log = fs::read_to_string(&path)?;
            let said = log.lines().find(|line| line.contains("panicked at"));
            ensure!(said.is_none(), "{}: {said:?}", path.display());
        }
    }
    Ok(())
}
