//! A thousand attempts of every kind through the whole chain, and nothing has grown.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, supervisor_name};
use crate::usage::load::MIXED;

/// What a process holds of the machine.
#[derive(Clone, Debug)]
struct Held {
    name: String,
    descriptors: usize,
    memory_kib: i64,
}

fn held(site: &Site) -> Result<Vec<Held>> {
    [COORDINATOR, &agent_name(1), &supervisor_name(1)]
        .iter()
        .map(|name| {
            let pid = site.pid(name)?;
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            let memory = status
                .lines()
                .find_map(|line| line.strip_prefix("RssAnon:"));
            let memory = memory.and_then(|rest| rest.trim().strip_suffix(" kB"));
            Ok(Held {
                name: (*name).to_owned(),
                descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
                memory_kib: memory.context("its memory is told")?.parse()?,
            })
        })
        .collect()
}

const SHARDS: u32 = 100;
/// Two of five attempts are made twice.
const ATTEMPTS_A_RUN: usize = 140;

fn run(site: &mut Site) -> Result<()> {
    site.matins(&["run", "steady/mixed", "--reason", "test"])?;
    site.wait_until_succeeded(PATIENCE)?;
    // The last receipt is acknowledged, and the last directory removed.
    let work = site.path("supervisor-1/work");
    let trash = site.path("supervisor-1/trash");
    site.wait_for("the host to be tidy", |_| {
        let empty = |path: &str| Ok::<_, std::io::Error>(fs::read_dir(path)?.next().is_none());
        Ok(empty(&work)? && empty(&trash)?)
    })
}

#[test]
fn a_thousand_attempts_leave_nothing_behind() -> Result<()> {
    let mut site = Site::new(1)?;
    site.start(1, 32)?;
    let manifest = format!(
        "---\nname: steady/mixed\npurpose: test\nowner: test\n\
         repeatable: {{ safe: true, how: test }}\n\
         schedule: {{ cron: \"0 0 1 1 *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: run_now, after: 10m }}\noverlap: queue\nstart_deadline: 10m\n\
         expected_duration: 5s\ntimeout: 2m\nshards: {SHARDS}\n\
         retry: {{ at_most: 1, backoff: [100ms] }}\n\
         run: {{ exec: [\"/bin/sh\", \"-c\", {MIXED:?}] }}\n"
    );
    site.apply("steady.yaml", &manifest)?;
    run(&mut site)?;
    let before = held(&site)?;
    for _ in 0..7 {
        run(&mut site)?;
    }
    let after = held(&site)?;
    for (before, after) in before.iter().zip(&after) {
        println!("{before:?} -> {after:?}");
        let (name, grown) = (&before.name, after.memory_kib - before.memory_kib);
        ensure!(
            after.descriptors <= before.descriptors,
            "{name} holds more open"
        );
        // The coordinator keeps what SQLite has read, up to its bound.
        let limit = if *name == COORDINATOR {
            16 * 1024
        } else {
            1024
        };
        ensure!(grown <= limit, "{name} has grown by {grown} KiB");
    }
    let runs = site.runs()?.len();
    let attempts = site.evidence()?.attempts().count();
    ensure!(
        attempts == runs * ATTEMPTS_A_RUN,
        "{attempts} in {runs} runs"
    );
    site.close()
}
