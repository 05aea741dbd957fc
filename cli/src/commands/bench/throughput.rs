//! A stretch of steady work: how much of it ended, and what each piece cost.

use std::thread;
use std::time::{Duration, Instant};

use jobs::Manifest;
use ledger::{LeaseTimes, RunFilter, RunState};

use super::site::Site;
use super::{leases_ended, no_op, of_ledger};
use crate::clock;
use crate::failure::Failure;
use crate::output::talk;

/// What comes before is not counted.
const WARM_UP: Duration = Duration::from_secs(2);

/// Jobs with runs behind each other, of so many shards each.
pub(super) struct Supply {
    pub(super) jobs: u32,
    pub(super) shards: u32,
    /// More pieces than any machine does in a second.
    pub(super) per_s: u32,
}

impl Supply {
    /// Fills the ledger with work for so long, of jobs that no schedule fires.
    pub(super) fn fill(
        &self,
        site: &Site,
        seconds: u32,
        job: impl Fn(u32) -> Manifest,
    ) -> Result<(), Failure> {
        let pieces = self.per_s * (seconds + WARM_UP.as_secs() as u32);
        site.fill(
            (0..self.jobs).map(job).collect(),
            pieces.div_ceil(self.jobs * self.shards),
        )
    }
}

/// A job of a [`Supply`]: due some day that is far off, run by hand.
pub(super) fn on_demand(name: &str, shards: u32, run: &str) -> Manifest {
    let schedule = "{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }";
    no_op(name, schedule, "{ policy: skip }", shards, run)
}

pub(super) struct Throughput {
    pub(super) ended: Vec<LeaseTimes>,
    pub(super) seconds: f64,
    pub(super) per_s: f64,
    /// Processor time of each, in microseconds.
    pub(super) coordinator_us: f64,
    pub(super) agents_us: f64,
}

/// Lets a site whose agents have attached work for so long, and stops it. An error where the
/// supply did not last: it would be measured, and not the site.
pub(super) fn measure(site: &mut Site, seconds: u32) -> Result<Throughput, Failure> {
    talk(&format!("measuring for {seconds} s"));
    thread::sleep(WARM_UP);
    let (begun, cpu_begun, from) = (Instant::now(), site.cpu(), clock::now());
    thread::sleep(Duration::from_secs(seconds.into()));
    let (seconds, cpu, until) = (begun.elapsed().as_secs_f64(), site.cpu(), clock::now());
    site.check_alive()?;
    site.stop();
    if !has_work_left(site)? {
        return Err(Failure::failed(
            "measuring how much is done in a second",
            "all work that had been prepared was done before the time was over",
            "measure for a shorter time",
        ));
    }
    let ended = leases_ended(site, from, until)?;
    let count = ended.len() as f64;
    let us_each = |used_s: f64| used_s * 1e6 / count.max(1.0);
    Ok(Throughput {
        ended,
        seconds,
        per_s: count / seconds,
        coordinator_us: us_each(cpu.coordinator_s - cpu_begun.coordinator_s),
        agents_us: us_each(cpu.agents_s - cpu_begun.agents_s),
    })
}

/// Whether a run has not begun yet.
fn has_work_left(site: &Site) -> Result<bool, Failure> {
    let waiting = RunFilter {
        state: Some(RunState::Waiting),
        limit: 1,
        ..RunFilter::default()
    };
    let runs = site.read()?.runs(&waiting);
    let runs = runs.map_err(|error| of_ledger(&error))?;
    Ok(!runs.rows.is_empty())
}
