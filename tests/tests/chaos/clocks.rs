//! The leader's wall clock is set (libfaketime): it fires nothing by it, and gives the lead to the
//! coordinator whose clock is right. A host of one is no reference: the control machines have only
//! each other.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use protocol::api::{Alert, Status};

use crate::end::settle;
use crate::faketime::{Clock, library};
use crate::journal::Journal;
use crate::site::{GROUP, Site};
use crate::writers::Writer;

/// How long a clock is left wrong.
const WRONG_FOR: Duration = Duration::from_secs(10);

/// A clock that was set counts again after a minute.
const STEADY_AGAIN: Duration = Duration::from_secs(65);

/// How late a fire may be for a change of leader.
const LATE: i64 = 5_000;

struct Trial {
    site: Site,
    clocks: BTreeMap<&'static str, Clock>,
    journal: Journal,
    each: Writer<'static>,
}

impl Trial {
    /// A group whose control machines have clocks of their own, and a job that has fired; `None` where that
    /// cannot be had.
    fn start() -> Result<Option<Trial>> {
        let Some(library) = library()? else {
            return Ok(None);
        };
        let mut site = Site::of_three(1)?;
        let mut clocks = BTreeMap::new();
        for name in GROUP {
            clocks.insert(name, Clock::of(&mut site, &[name], library, "+0")?);
        }
        site.start(1, 8)?;
        let journal = Journal::begin(&site)?;
        let each = brief("clocks/each");
        each.apply(&site)?;
        let paused = brief("clocks/paused");
        paused.apply(&site)?;
        site.matins(&["pause", paused.name, "--reason", "not now"])?;
        let mut trial = Trial {
            site,
            clocks,
            journal,
            each,
        };
        trial.fires_in_time()?;
        Ok(Some(trial))
    }

    /// The leader's clock is set, and set right again after a while; in between somebody applies and
    /// resumes, by whoever leads.
    fn set_leader_by(&mut self, offset: &str) -> Result<()> {
        let leader = self.site.wait_for_leader()?;
        let clock = self.clocks.get(leader.as_str());
        let clock = clock.context("the leader has a clock")?;
        clock.set(offset)?;
        // Whoever leads at this moment refuses it, or sets no watermark by a wrong clock.
        let changed = brief("clocks/applied");
        if let Err(error) = changed.apply(&self.site) {
            println!("applied as the clock was set: {error:#}");
        }
        let next = self.site.wait_for_leader_but(&leader)?;
        changed.apply(&self.site)?;
        self.site.matins(&["resume", "clocks/paused"])?;
        self.fires_in_time()?;
        sleep(WRONG_FOR);
        ensure!(
            self.site.leader().as_deref() == Some(next.as_str()),
            "{next} does not lead any more"
        );
        let alerts: Vec<Alert> = self.site.get("alerts")?;
        let ahead = alerts.iter().find(|alert| alert.kind == "clock_behind");
        ensure!(ahead.is_none(), "a watermark was set: {ahead:?}");
        let clock = self.clocks.get(leader.as_str());
        clock.context("the leader has a clock")?.set("+0")?;
        self.site
            .matins(&["pause", "clocks/paused", "--reason", "not now"])?;
        println!("{leader} was set by {offset}, and {next} led");
        self.fires_in_time()
    }

    /// Something that comes due from now on is fired in time.
    fn fires_in_time(&mut self) -> Result<()> {
        let (from, job) = (now()?, self.each.name);
        self.site.wait_for("the next fire", |site| {
            let runs = site.runs()?;
            let mut since = runs.iter().filter(|run| run.job.to_string() == job);
            Ok(since.any(|run| run.fire_time.0 > from))
        })?;
        let runs = self.site.runs()?;
        let since = runs.iter().filter(|run| run.job.to_string() == job);
        for run in since.filter(|run| run.fire_time.0 > from) {
            let by = run.admitted_at.0 - run.fire_time.0;
            ensure!((0..LATE).contains(&by), "{by} ms after its time: {run:?}");
        }
        Ok(())
    }

    fn settle(mut self) -> Result<()> {
        let (site, journal) = (&mut self.site, self.journal);
        let ended = settle(site, journal, &[&self.each], Duration::ZERO)?;
        ended.nobody_was_overtaken()?;
        self.site.close()
    }
}

/// Often due, and soon done.
fn brief(name: &str) -> Writer<'_> {
    Writer {
        schedule: "@every 2s",
        shards: 1,
        seconds: 0.5,
        ..Writer::of(name)
    }
}

fn now() -> Result<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(since.as_millis().try_into()?)
}

/// step-forward-25h.
#[test]
fn a_leader_whose_clock_is_a_day_ahead_gives_the_lead_away() -> Result<()> {
    let Some(mut trial) = Trial::start()? else {
        return Ok(());
    };
    trial.set_leader_by("+25h")?;
    trial.settle()
}

/// The same with a clock that is a little ahead, and one that is behind, one after the other: the
/// lead goes to and fro.
#[test]
#[ignore = "make test-full: four minutes"]
fn whoever_s_clock_is_set_gives_the_lead_to_the_other() -> Result<()> {
    let Some(mut trial) = Trial::start()? else {
        return Ok(());
    };
    for offset in ["+5m", "-2h", "+24h"] {
        trial.set_leader_by(offset)?;
        sleep(STEADY_AGAIN);
    }
    trial.settle()
}

/// wrong-standby: a coordinator whose clock is wrong leads when it is alone, fires nothing then, and
/// gives the lead back.
#[test]
#[ignore = "make test-full: two minutes"]
fn a_coordinator_with_a_wrong_clock_leads_only_while_it_is_alone() -> Result<()> {
    let Some(mut trial) = Trial::start()? else {
        return Ok(());
    };
    let right = trial.site.wait_for_leader()?;
    let coordinators = trial.site.coordinators();
    let names: Vec<String> = coordinators.map(|machine| machine.name.clone()).collect();
    let wrong = names.into_iter().find(|name| *name != right);
    let wrong = wrong.context("there are two")?;
    trial.clocks[wrong.as_str()].set("+5m")?;
    sleep(STEADY_AGAIN);
    trial.fires_in_time()?;
    let alerts: Vec<Alert> = trial.site.get("alerts")?;
    let told = alerts.iter().any(|alert| alert.kind == "clock_differs");
    ensure!(told, "nobody is told that {wrong} is wrong: {alerts:?}");

    // A person gives it the lead, and it gives it back.
    let before = trial.site.matins(&["cluster", "transfer"]);
    println!("transferred: {before:?}");
    trial.site.wait_for_leader_but(&wrong)?;
    trial.fires_in_time()?;

    // It is the only one.
    trial.site.kill(&right)?;
    let alone = trial.site.wait_for_leader_but(&right)?;
    ensure!(alone == wrong, "{alone} leads");
    let clock = trial.site.get::<Status>("status")?.clock;
    ensure!(clock == "held", "its clock is {clock}");
    let fired = trial.site.runs()?.len();
    sleep(WRONG_FOR);
    let runs = trial.site.runs()?;
    ensure!(
        runs.iter()
            .skip(fired)
            .all(|run| run.job.to_string() != trial.each.name),
        "it fires by a wrong clock"
    );
    trial.site.start_control(&right)?;
    trial.site.wait_for_leader_but(&wrong)?;
    trial.fires_in_time()?;
    trial.clocks[wrong.as_str()].set("+0")?;
    trial.settle()
}
