//! Agents and supervisors are killed in the middle of a shard: it goes on where it can, and ends
//! under a higher token where it cannot.

use anyhow::{Context, Result, ensure};

use crate::site::{Site, agent_name};
use crate::{Line, job, lines};

/// A run of `shards` shards that sleep, once all of them have started somewhere.
fn site_with_sleeping_shards(seconds: u32, shards: u32) -> Result<(Site, String)> {
    let mut site = Site::new(2)?;
    site.start(2, 8)?;
    let log = site.path("jobs.log");
    // Far apart, so that one manual run is all there is.
    let body = format!("sleep {seconds};");
    site.apply(
        "job.yaml",
        &job("host/sleeper", "0 0 1 1 *", shards, &log, &body),
    )?;
    site.matins(&["run", "host/sleeper", "--reason", "test"])?;
    site.wait_for("every shard to start", |_| {
        Ok(lines(&log).is_ok_and(|lines| lines.len() == shards as usize))
    })?;
    Ok((site, log))
}

fn wait_until_succeeded(site: &mut Site) -> Result<()> {
    site.wait_for("the run to succeed", |site| {
        let runs = site.runs()?;
        let run = runs.first().context("the run exists")?;
        ensure!(run.state != "needs_confirmation", "{:?}", run.reason);
        Ok(run.state == "succeeded")
    })
}

/// Lines of one shard, in the order written.
fn of_shard(lines: &[Line], shard: u32) -> Vec<&Line> {
    lines.iter().filter(|line| line.shard == shard).collect()
}

#[test]
fn an_agent_killed_in_mid_shard_finds_its_attempts_again() -> Result<()> {
    let (mut site, log) = site_with_sleeping_shards(8, 4)?;
    site.kill(&agent_name(1))?;
    site.start_agent(1, 8)?;
    wait_until_succeeded(&mut site)?;
    let lines = lines(&log)?;
    for shard in 0..4 {
        let of = of_shard(&lines, shard);
        ensure!(
            of.len() == 2 && of[1].ended,
            "shard {shard} ran once, undisturbed: {of:?}"
        );
    }
    Ok(())
}

#[test]
fn a_host_that_loses_agent_and_supervisor_runs_the_shard_again_under_a_higher_token() -> Result<()>
{
    let (mut site, log) = site_with_sleeping_shards(4, 4)?;
    site.kill(&agent_name(1))?;
    site.kill("supervisor-1")?;
    site.start_supervisor(1)?;
    site.start_agent(1, 8)?;
    wait_until_succeeded(&mut site)?;
    let lines = lines(&log)?;
    let mut again = 0;
    for shard in 0..4 {
        let of = of_shard(&lines, shard);
        ensure!(
            of.windows(2).all(|pair| pair[0].token <= pair[1].token),
            "tokens rise: {of:?}"
        );
        let ends = of.iter().filter(|line| line.ended).count();
        ensure!(ends == 1, "shard {shard} ended {ends} times: {of:?}");
        again += u32::from(of.len() == 3);
    }
    ensure!(again > 0, "the killed host had at least one shard");
    Ok(())
}

#[test]
fn a_dead_host_s_shards_end_elsewhere() -> Result<()> {
    let (mut site, log) = site_with_sleeping_shards(4, 4)?;
    // The supervisor first: its orphans would be killed by nobody, and are the host's own.
    let orphans_end_by_themselves = ["supervisor-1", &agent_name(1)];
    for name in orphans_end_by_themselves {
        site.kill(name)?;
    }
    wait_until_succeeded(&mut site)?;
    let lines = lines(&log)?;
    for shard in 0..4 {
        let of = of_shard(&lines, shard);
        ensure!(of.iter().any(|line| line.ended), "shard {shard}: {of:?}");
        let starts: Vec<i64> = of.iter().filter(|l| !l.ended).map(|l| l.token).collect();
        ensure!(
            starts.windows(2).all(|pair| pair[0] < pair[1]),
            "tokens rise: {of:?}"
        );
    }
    ensure!(
        lines.iter().filter(|line| !line.ended).count() > 4,
        "some shard was taken over"
    );
    Ok(())
}
