//! Wall clocks that are wrong or jump (libfaketime): nothing fires early, twice or never, and no
//! process lives or dies by them. The clock since boot, which leases run on, is left alone.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use protocol::RunState;
use protocol::api::{Alert, JobDetail, Status};

use crate::faketime::{Clock, library};
use crate::fires::check_fires;
use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, supervisor_name};
use crate::writers::Writer;

const EVERY: i64 = 5_000;

/// What a coordinator's clock does, and for how long.
struct Jump {
    name: &'static str,
    start: &'static str,
    steps: &'static [(&'static str, u64)],
}

/// step-forward-25h, step-back-2h, jump-over-minute: the names of three sites that live through
/// them side by side, because after each the clock must stand still for a minute.
const JUMPS: [Jump; 3] = [
    Jump {
        name: "step-forward-25h",
        start: "+0",
        steps: &[("+25h", 10), ("+0", 0)],
    },
    Jump {
        name: "step-back-2h",
        start: "+0",
        steps: &[("-2h", 10), ("+0", 0)],
    },
    // A slow clock is set right, over an instant of the schedule.
    Jump {
        name: "jump-over-minute",
        start: "-6",
        steps: &[("+0", 0)],
    },
];

#[test]
fn a_coordinator_s_clock_that_jumps_fires_nothing_early_twice_or_never() -> Result<()> {
    let Some(library) = library()? else {
        return Ok(());
    };
    let mut sites = Vec::new();
    for jump in &JUMPS {
        let mut site = Site::new(1)?;
        let clock = Clock::of(&mut site, &[COORDINATOR], library, jump.start)?;
        site.start(1, 4)?;
        let job = Writer {
            schedule: "@every 5s",
            shards: 1,
            seconds: 0.5,
            overlap: "queue",
            ..Writer::of(jump.name)
        };
        let job = Writer {
            name: &format!("clock/{}", job.name),
            ..job
        };
        job.apply(&site)?;
        sites.push((jump, site, clock));
    }
    for (_, site, _) in &mut sites {
        site.wait_for("a first run", |site| {
            Ok(site
                .runs()?
                .iter()
                .any(|run| run.state == RunState::Succeeded))
        })?;
    }
    let longest = JUMPS.iter().map(|jump| jump.steps.len()).max().unwrap_or(0);
    for step in 0..longest {
        for (jump, site, clock) in &mut sites {
            let Some((offset, _)) = jump.steps.get(step) else {
                continue;
            };
            clock.set(offset)?;
            site.wait_for("the step to be seen", |site| {
                Ok(site.get::<Status>("status")?.clock == "held")
            })?;
        }
        let pause = JUMPS.iter().filter_map(|jump| jump.steps.get(step));
        sleep(Duration::from_secs(
            pause.map(|(_, s)| *s).max().unwrap_or(0),
        ));
    }
    let before: Result<Vec<usize>> = sites.iter().map(|(_, s, _)| Ok(s.runs()?.len())).collect();
    for ((jump, mut site, _), before) in sites.into_iter().zip(before?) {
        let job = format!("clock/{}", jump.name);
        site.wait_for("the clock to be believed again", |site| {
            Ok(site.get::<Status>("status")?.clock != "held")
        })?;
        // The hold of a minute is twelve instants that came late, and then two in time.
        site.wait_for("what was held to be made up for", |site| {
            let runs = site.runs()?;
            let done = runs.iter().filter(|run| run.state == RunState::Succeeded);
            Ok(done.count() >= before + 14)
        })?;
        let fires = check_fires(&site, &job, EVERY).with_context(|| job.clone())?;
        println!("{job}: {fires} fires, none early, twice or missing");
        site.evidence()?.check_without_overlap()?;
        site.close()?;
    }
    Ok(())
}

/// Leases and time-outs run on the clock since boot: a host whose wall clock jumps while it works
/// loses nothing.
#[test]
fn a_host_s_clock_that_jumps_kills_nothing() -> Result<()> {
    let Some(library) = library()? else {
        return Ok(());
    };
    let mut site = Site::new(1)?;
    let names = [agent_name(1), supervisor_name(1)];
    let clock = Clock::of(
        &mut site,
        &names.each_ref().map(String::as_str),
        library,
        "+0",
    )?;
    site.start(1, 4)?;
    let job = Writer {
        seconds: 8.0,
        ..Writer::of("clock/host")
    };
    job.run(&mut site)?;
    for offset in ["+25h", "-2h", "+0"] {
        clock.set(offset)?;
        sleep(Duration::from_secs(2));
    }
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    evidence.check_without_overlap()?;
    ensure!(evidence.attempts().count() == 4, "something was killed");
    site.close()
}

/// outage-12h: what came due while nobody was there is one decision a job, not a flood.
#[test]
fn twelve_hours_without_a_coordinator_are_made_up_for_once() -> Result<()> {
    let Some(library) = library()? else {
        return Ok(());
    };
    let mut site = Site::new(1)?;
    let clock = Clock::of(&mut site, &[COORDINATOR], library, "+0")?;
    site.start(1, 4)?;
    let job = Writer {
        schedule: "@every 1m",
        shards: 1,
        seconds: 0.5,
        ..Writer::of("clock/outage")
    };
    job.apply(&site)?;
    site.kill(COORDINATOR)?;
    clock.set("+12h")?;
    site.start_coordinator()?;
    site.wait_for("the job to be made up for", |site| {
        let runs = site.runs()?;
        Ok(!runs.is_empty() && runs.iter().all(|run| run.state == RunState::Succeeded))
    })?;
    let detail: JobDetail = site.get(&format!("jobs/{}", job.name))?;
    let [gap] = detail.gaps.as_slice() else {
        bail!("not one gap: {:?}", detail.gaps);
    };
    let runs = site.runs()?.len() as u64;
    println!(
        "{runs} runs, {} instants in one gap: {}",
        gap.count, gap.reason
    );
    ensure!(
        (715..=725).contains(&(gap.count + runs)),
        "they are not 12 hours"
    );
    // What is no later than `misfire.after`, 10 minutes, is merely late; of the rest, one.
    ensure!(runs <= 12, "a flood");
    let alerts: Vec<Alert> = site.get("alerts")?;
    let told = alerts
        .iter()
        .filter(|a| a.job.as_ref().is_some_and(|j| j.to_string() == job.name));
    ensure!(told.count() == 1, "a person is told once: {alerts:?}");
    site.close()
}
