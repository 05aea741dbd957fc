//! Whether a schedule is tiled by its runs.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use protocol::api::JobDetail;

use crate::site::Site;

/// Every instant of a job `@every` so often, from its first run to its newest, is a run of its
/// own; none is twice, none lies ahead of the true time. How many they are.
pub(crate) fn check_fires(site: &Site, job: &str, every_ms: i64) -> Result<usize> {
    let detail: JobDetail = site.get(&format!("jobs/{job}"))?;
    ensure!(detail.gaps.is_empty(), "{job}: gaps: {:?}", detail.gaps);
    let mut instants = BTreeSet::new();
    for run in site.runs()? {
        if run.job.to_string() == job {
            ensure!(instants.insert(run.fire_time.0), "twice: {run:?}");
        }
    }
    let instants: Vec<i64> = instants.into_iter().collect();
    for pair in instants.windows(2) {
        let apart = pair[1] - pair[0];
        ensure!(apart == every_ms, "{job}: {} then {}", pair[0], pair[1]);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let early = instants.last().filter(|newest| **newest > now);
    ensure!(early.is_none(), "{job}: {early:?} fired early, at {now}");
    Ok(instants.len())
}
