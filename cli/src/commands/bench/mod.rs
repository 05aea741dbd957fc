//! `matins bench`: what this machine carries. Nothing here is a test; a figure is as good as the
//! quiet around it.
//!
//! All but `next` run a Matins of their own ([`site`]): a real coordinator on a real disk, real
//! agents that speak QUIC with it. What they did is read from its ledger afterwards, so that
//! measuring takes nothing from what is measured.

mod cost;
mod idle;
mod lateness;
mod leases;
mod next;
mod site;
mod spawn;
mod yardstick;

use ledger::LeaseTimes;
use protocol::WallMs;

use crate::args::Bench;
use crate::failure::Failure;

pub(crate) fn bench(what: &Bench) -> Result<(), Failure> {
    match what {
        Bench::Leases(options) => leases::leases(options),
        Bench::Lateness {
            site,
            jobs,
            processes,
        } => lateness::lateness(site, *jobs, *processes),
        Bench::Spawn { site, seconds } => spawn::spawn(site, *seconds),
        Bench::Idle {
            site,
            jobs,
            seconds,
        } => idle::idle(site, *jobs, *seconds),
        Bench::Next { output } => next::next(*output),
    }
}

/// The leases of a site that ended in [`from`, `until`).
fn leases_ended(
    site: &site::Site,
    from: WallMs,
    until: WallMs,
) -> Result<Vec<LeaseTimes>, Failure> {
    site.read()?.leases_ended(from, until).map_err(|error| {
        Failure::of_error("reading the ledger", &error, "see the error, and try again")
    })
}

/// Processor time in all, as microseconds of each of so many.
fn us_each(cpu_s: f64, count: f64) -> f64 {
    cpu_s * 1e6 / count.max(1.0)
}

/// The value that `percent` of these do not exceed; `None` of none. Sorts them.
fn percentile(values: &mut [i64], percent: usize) -> Option<i64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    values
        .get((values.len() * percent).div_ceil(100).clamp(1, last + 1) - 1)
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<i64> = (1..=200).rev().collect();
        for (percent, expected) in [(0, 1), (1, 2), (50, 100), (99, 198), (100, 200)] {
            assert_eq!(percentile(&mut values, percent), Some(expected));
        }
        assert_eq!(percentile(&mut [7], 99), Some(7));
        assert_eq!(percentile(&mut [], 50), None);
    }
}
