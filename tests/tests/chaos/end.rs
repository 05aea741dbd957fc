//! How every trial ends: all is healed, and everybody who saw anything must agree.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::RunId;

use crate::evidence::Evidence;
use crate::fires::check_fires;
use crate::journal::{self, Journal};
use crate::person::answer_for;
use crate::site::{PATIENCE, Site};
use crate::writers::Writer;

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

    /// Each shard of a job that ran once was carried out by the attempt that began it.
    pub(crate) fn nothing_was_interrupted(&self, job: &Writer) -> Result<()> {
        let attempts = self.evidence.attempts();
        let of_job: Vec<i64> = attempts
            .filter(|(piece, _)| piece.job == job.name)
            .map(|(_, attempt)| attempt.token.0)
            .collect();
        ensure!(
            of_job.len() == job.shards as usize,
            "{}: {} shards, and attempts {of_job:?}",
            job.name,
            job.shards
        );
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
    fired: &[&Writer],
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
    for job in fired {
        let fires = check_fires(site, job.name, job.period_ms()?)?;
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
        answer_for(site, &open, &mut asked)?;
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
