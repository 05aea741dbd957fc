//! Whether runs and gaps tile a schedule that people pause and outages interrupt: each instant is a
//! run, or lies in one gap that counts it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use protocol::api::{Gap, JobDetail};

use crate::evidence::Evidence;
use crate::site::Site;

/// Each of these jobs with the distance of its instants.
pub(crate) fn check(site: &Site, evidence: &Evidence, jobs: &[(&str, i64)]) -> Result<()> {
    for (job, every_ms) in jobs {
        let detail: JobDetail = site.get(&format!("jobs/{job}"))?;
        let gaps: Vec<Gap> = site.get(&format!("jobs/{job}/gaps?limit=1000"))?;
        let mut runs = BTreeSet::new();
        for run in &evidence.runs {
            let run = &run.run;
            if run.job.to_string() == *job && run.namespace == "scheduled" {
                ensure!(runs.insert(run.fire_time.0), "twice: {run:?}");
            }
        }
        let gaps: Vec<_> = gaps
            .iter()
            .map(|gap| (gap.from.0, gap.through.0, gap.count))
            .collect();
        let tiles = tile(&runs, &gaps, *every_ms, detail.job.fired_through.0);
        let in_gaps = tiles.with_context(|| format!("the schedule of {job}"))?;
        let fired = runs.len();
        println!("{job}: {fired} fires, {in_gaps} instants in gaps; none missing, none twice");
    }
    Ok(())
}

/// How many instants lie in gaps; each `(from, through, count)`, `from` itself not in it.
fn tile(
    runs: &BTreeSet<i64>,
    gaps: &[(i64, i64, u64)],
    every_ms: i64,
    through: i64,
) -> Result<u64> {
    let first = *runs.first().context("it never fired")?;
    let mut gaps = gaps.to_vec();
    gaps.sort_unstable();
    ensure!(
        gaps.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "gaps overlap: {gaps:?}"
    );
    let on_grid = |at: &&i64| (**at - first) % every_ms == 0;
    let off = runs.iter().find(|at| !on_grid(at));
    ensure!(off.is_none(), "{off:?} is no instant of it");
    let newest = *runs.last().context("it never fired")?;
    ensure!(newest <= through, "{newest} lies beyond {through}");
    let (mut in_gaps, mut at) = (0, first);
    while at <= through {
        let covers = |gap: &&(i64, i64, u64)| gap.0 < at && at <= gap.1;
        let covered = gaps.iter().find(covers);
        ensure!(
            runs.contains(&at) != covered.is_some(),
            "{at}: covered by {covered:?}, and {} run",
            u32::from(runs.contains(&at)),
        );
        in_gaps += u64::from(covered.is_some());
        at += every_ms;
    }
    let counted: u64 = gaps
        .iter()
        .filter(|gap| gap.1 > first)
        .map(|gap| gap.2)
        .sum();
    ensure!(
        counted == in_gaps,
        "gaps count {counted} instants of {in_gaps}"
    );
    Ok(in_gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instant_is_a_run_or_in_a_gap() {
        let check = |runs: &[i64], gaps: &[(i64, i64, u64)], through, expected: Option<u64>| {
            let runs = runs.iter().copied().collect();
            let found = tile(&runs, gaps, 10, through);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{found:?}");
        };
        check(&[10, 20, 30], &[], 39, Some(0));
        check(&[10, 30], &[], 39, None);
        check(&[10, 20, 30], &[], 40, None);
        check(&[10, 20, 31], &[], 31, None);
        check(&[10, 40], &[(10, 39, 2)], 45, Some(2));
        // A gap that counts otherwise, that covers a run, that leaves an instant out.
        check(&[10, 40], &[(10, 39, 3)], 45, None);
        check(&[10, 40], &[(10, 40, 3)], 45, None);
        check(&[10, 40], &[(10, 25, 1)], 45, None);
        check(&[10, 20, 30], &[], 25, None);
    }
}
