//! How every trial ends: all is healed, and everybody who saw anything must agree.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::evidence::Evidence;
use crate::fires::check_fires;
use crate::journal::{self, Journal};
use crate::site::{PATIENCE, Site};
use crate::writers::Writer;

/// A job that has fired all the while, and how often it does.
pub(crate) struct Fired<'a>(pub(crate) Writer<'a>, pub(crate) i64);

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
) -> Result<Evidence> {
    let leader = site.wait_for_leader()?;
    let last = site.runs()?.last().context("something has fired")?.run;
    site.wait_within(PATIENCE + limit, "every run up to now to end", |site| {
        let runs = site.runs()?;
        let mut until = runs.iter().filter(|run| run.run <= last);
        Ok(until.all(|run| run.ended_at.is_some() || run.job.to_string() == journal::JOB))
    })?;
    let evidence = Evidence::gather_but(site, &[journal::JOB])?;
    println!("{leader} leads; {}", evidence.summary());
    evidence.check()?;
    for Fired(job, every_seconds) in fired {
        let fires = check_fires(site, job.name, every_seconds * 1_000)?;
        println!("{}: {fires} fires, none missing, none twice", job.name);
    }
    journal.check(site)?;
    nothing_panicked(site)?;
    Ok(evidence)
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
