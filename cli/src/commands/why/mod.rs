//! `matins why`: what became of a fire time.
//!
//! Four things are laid side by side: what was expected, whether it was triggered, how it was
//! carried out, and what came of it. From them one of the product's four failures is named, or
//! that there is none, and what to do now.

mod judge;
mod show;

use jobs::{Instant, Schedule};
use protocol::api::{Expectation, RunDetail, Status};
use protocol::{JobName, WallMs};

use crate::args::Why;
use crate::client::Client;
use crate::clock::now;
use crate::commands::{find_run, instant_in_zone_of, newest_run, path_of, schedule_of};
use crate::failure::Failure;
use crate::subject::{RunRef, When};

/// Everything that an answer rests on.
#[derive(Clone, Debug)]
struct Facts {
    job: JobName,
    at: WallMs,
    now: WallMs,
    expectation: Expectation,
    /// Of the version that decides `at`; none where there is no such version or nobody can read it.
    schedule: Option<Schedule>,
    /// What the schedule names at `at`, if it does.
    instant: Option<Instant>,
    run: Option<RunDetail>,
    status: Status,
}

pub(crate) fn why(options: &Why) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    let (job, at) = resolve(&client, &options.run)?;
    let facts = gather(&client, job, at)?;
    let finding = judge::judge(&facts);
    options
        .asking
        .output
        .print(&show::data(&facts, &finding), |room| {
            show::text(&facts, &finding, room)
        })
}

fn resolve(client: &Client, run: &RunRef) -> Result<(JobName, WallMs), Failure> {
    let (job, when) = match run {
        RunRef::Id(_) => {
            let run = find_run(client, run)?.run;
            return Ok((run.job, run.fire_time));
        }
        RunRef::Fire { job, when } => (job, when),
    };
    let at = match when {
        When::At(at) => *at,
        When::Local(local) => instant_in_zone_of(client, job, *local)?,
        When::Latest => newest_run(client, job)?.fire_time,
    };
    Ok((job.clone(), at))
}

fn gather(client: &Client, job: JobName, at: WallMs) -> Result<Facts, Failure> {
    let path = format!("{}/expectation", path_of(&job));
    let expectation: Expectation = client.get(&path, &[("at", at.to_rfc3339())])?;
    let run = match expectation.run {
        Some(run) => Some(find_run(client, &RunRef::Id(run))?),
        None => None,
    };
    let version = expectation.version.as_ref();
    let schedule = version.and_then(|version| schedule_of(&job, &version.manifest).ok());
    let instant = match (&schedule, version) {
        (Some(schedule), Some(version)) => schedule.instant_at(version.starts, at),
        _ => None,
    };
    Ok(Facts {
        job,
        at,
        now: now(),
        schedule,
        instant,
        run,
        status: client.get("/api/v1/status", &[])?,
        expectation,
    })
}

impl Facts {
    /// The instants of the version in force on both sides of the one that was asked for.
    fn neighbours(&self) -> (Option<WallMs>, Option<WallMs>) {
        let (Some(schedule), Some(version)) = (&self.schedule, &self.expectation.version) else {
            return (None, None);
        };
        let before = schedule
            .previous_before(version.starts, self.at)
            .map(|instant| instant.at)
            .filter(|&at| at > version.starts);
        let after = schedule
            .next_after(version.starts, self.at)
            .map(|instant| instant.at)
            .filter(|&at| version.ends.is_none_or(|ends| at <= ends));
        (before, after)
    }
}
