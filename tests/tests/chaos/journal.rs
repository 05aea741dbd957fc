//! A client that changes something all the time and notes what was acknowledged: what it was told
//! is done must be there at the end, and nothing may be there twice.
//!
//! It asks for runs of a job that no host can carry out, and cancels each. Each of these commands
//! carries a reason of its own, which the audit keeps for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use protocol::api::RunAnswer;
use serde_json::json;

use crate::client::{Ask, Client};
use crate::ledgers;
use crate::site::Site;
use crate::writers::Writer;

pub(crate) const JOB: &str = "journal/asked";

/// Between two changes.
const PAUSE: Duration = Duration::from_millis(80);

/// What became of each command, by its reason.
#[derive(Default)]
struct Kept {
    /// With the run that it was about.
    acknowledged: Vec<(String, String)>,
    /// Nobody was there, or the answer did not come: it may have been carried out.
    unheard: Vec<String>,
    /// It was said that nothing was done.
    refused: Vec<String>,
}

pub(crate) struct Journal {
    over: Arc<AtomicBool>,
    writer: JoinHandle<Result<Kept>>,
}

impl Journal {
    /// Begins to write, until it is [closed](Journal::check).
    pub(crate) fn begin(site: &Site) -> Result<Journal> {
        let job = Writer {
            shards: 1,
            overlap: "allow",
            further: "needs: { labels: [nowhere] }\n",
            ..Writer::of(JOB)
        };
        job.apply(site)?;
        let over = Arc::new(AtomicBool::new(false));
        let (client, told) = (site.client(), Arc::clone(&over));
        Ok(Journal {
            over,
            writer: spawn(move || write(&client, &told)),
        })
    }

    /// The same, once somebody leads.
    pub(crate) fn begin_when_led(site: &mut Site) -> Result<Journal> {
        site.wait_for_leader()?;
        Journal::begin(site)
    }

    /// Ends it, waits until all ledgers stand at one position and are equal there, and holds what it
    /// was told against each.
    pub(crate) fn check(self, site: &Site) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        let joined = self.writer.join();
        let kept = joined.map_err(|_| anyhow!("the client panicked"))??;
        println!(
            "journal: {} acknowledged, {} unheard, {} refused",
            kept.acknowledged.len(),
            kept.unheard.len(),
            kept.refused.len()
        );
        ensure!(!kept.acknowledged.is_empty(), "nothing was acknowledged");
        // What is acknowledged is on two of three by then, and on the third soon.
        ledgers::check_equal(site)?;
        for name in site.control_names() {
            let query = "SELECT reason || ' run-' || run_id FROM audit \
                         WHERE reason LIKE 'journal %'";
            let rows = ledgers::ask(site, &name, query)?;
            kept.judge(&rows)
                .with_context(|| format!("the ledger of {name}"))?;
        }
        Ok(())
    }
}

impl Kept {
    /// Holds it against what one ledger has: a reason and a run for each command.
    fn judge(&self, rows: &[String]) -> Result<()> {
        let mut there: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in rows {
            let (reason, run) = row.rsplit_once(' ').context("a reason and a run")?;
            there.entry(reason).or_default().push(run);
        }
        let twice: Vec<_> = there.iter().filter(|(_, runs)| runs.len() > 1).collect();
        ensure!(twice.is_empty(), "carried out twice: {twice:?}");
        let is_there = |reason: &String, run: &String| {
            let runs = there.get(reason.as_str());
            runs.is_some_and(|runs| runs.contains(&run.as_str()))
        };
        let mut lost = self.acknowledged.clone();
        lost.retain(|(reason, run)| !is_there(reason, run));
        ensure!(lost.is_empty(), "acknowledged, and not there: {lost:?}");
        let mut refused = self.refused.iter();
        let done = refused.find(|reason| there.contains_key(reason.as_str()));
        ensure!(done.is_none(), "refused, and there: {done:?}");
        Ok(())
    }
}

fn write(client: &Client, over: &AtomicBool) -> Result<Kept> {
    let mut kept = Kept::default();
    let mut started = None;
    for number in 1.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let reason = format!("journal {number}");
        let body = json!({ "by": "journal", "reason": reason });
        let path = match &started {
            None => format!("/api/v1/jobs/{JOB}/runs"),
            Some(run) => format!("/api/v1/runs/{run}/cancel"),
        };
        match client.ask(&path, Ask::Post(&body)) {
            Ok(answer) if answer.is_success() => {
                let run = if let Some(run) = started.take() {
                    run
                } else {
                    let answer: RunAnswer = serde_json::from_str(&answer.text)?;
                    started.insert(answer.run.to_string()).clone()
                };
                kept.acknowledged.push((reason, run));
            }
            Ok(answer) if answer.is_of_another() => kept.refused.push(reason),
            // What became of it is not known there either, if the lead was lost meanwhile.
            Ok(answer) if answer.status == 503 => kept.unheard.push(reason),
            // It was cancelled by what was not heard.
            Ok(answer) if answer.status == 409 && started.is_some() => started = None,
            Ok(answer) => bail!("{path}: {answer:?}"),
            Err(_) => kept.unheard.push(reason),
        }
        sleep(PAUSE);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_is_there_once_and_what_was_refused_is_not() {
        let kept = Kept {
            acknowledged: vec![("journal 1".to_owned(), "run-7".to_owned())],
            unheard: vec!["journal 2".to_owned()],
            refused: vec!["journal 3".to_owned()],
        };
        let check = |rows: &[&str], expected: Option<&str>| {
            let rows: Vec<String> = rows.iter().map(|&row| row.to_owned()).collect();
            let said = kept.judge(&rows).err().map(|error| error.to_string());
            let as_expected = match (&said, expected) {
                (Some(said), Some(expected)) => said.starts_with(expected),
                (None, None) => true,
                _ => false,
            };
            assert!(as_expected, "{rows:?}: {said:?}");
        };
        check(&["journal 1 run-7"], None);
        check(&["journal 1 run-7", "journal 2 run-8"], None);
        check(&[], Some("acknowledged, and not there"));
        check(&["journal 1 run-8"], Some("acknowledged, and not there"));
        check(
            &["journal 1 run-7", "journal 2 run-8", "journal 2 run-9"],
            Some("carried out twice"),
        );
        check(
            &["journal 1 run-7", "journal 3 run-8"],
            Some("refused, and there"),
        );
    }
}
