//! `matins bench`: what this machine carries. Nothing here is a test; a figure is as good as the
//! quiet around it.
//!
//! All but `next` and `hardware` run a Matins of their own ([`site`]): a real coordinator on a real disk, real
//! agents that speak QUIC with it. What they did is read from its ledger afterwards, so that
//! measuring takes nothing from what is measured.

mod connections;
mod cost;
mod etcd;
mod failover;
mod fleet;
mod group;
mod handover;
mod hardware;
mod idle;
mod keepalived;
mod lateness;
mod leases;
mod net;
mod next;
mod site;
mod spawn;
mod stream;
mod takeover;
mod throughput;
mod yardstick;

use jobs::{Manifest, parse_manifests};
use ledger::{LeaseTimes, Reader, ReaderError};
use protocol::WallMs;

use crate::args::Bench;
use crate::failure::Failure;
use crate::output::print;
use crate::text::Table;

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
        Bench::Failover {
            rounds,
            no_yardstick,
        } => failover::failover(rounds, !no_yardstick),
        Bench::Handover(options) => handover::handover(options),
        Bench::Connections {
            site,
            agents,
            seconds,
        } => connections::connections(site, *agents, *seconds),
        Bench::Fleet(options) => fleet::fleet(options),
        Bench::Hardware { site, rounds } => hardware::hardware(site, *rounds),
        Bench::Next { output } => next::next(*output),
    }
}

/// The leases of a site that ended in [`from`, `until`).
fn leases_ended(
    site: &site::Site,
    from: WallMs,
    until: WallMs,
) -> Result<Vec<LeaseTimes>, Failure> {
    leases_ended_at(&site.read()?, from, until)
}

fn leases_ended_at(
    reader: &Reader,
    from: WallMs,
    until: WallMs,
) -> Result<Vec<LeaseTimes>, Failure> {
    let ended = reader.leases_ended(from, until);
    ended.map_err(|error| of_ledger(&error))
}

/// A ledger cannot be read.
fn of_ledger(error: &ReaderError) -> Failure {
    Failure::of_error("reading the ledger", error, "see the error, and try again")
}

/// The manifest of a job that does nothing, or nearly. `schedule`, `misfire` and `run` are written
/// as YAML.
fn no_op(name: &str, schedule: &str, misfire: &str, shards: u32, run: &str) -> Manifest {
    read(&format!(
        "name: bench/{name}\n\
         purpose: To be measured.\n\
         owner: bench\n\
         repeatable: {{ safe: true, how: it does nothing }}\n\
         schedule: {schedule}\n\
         misfire: {misfire}\n\
         overlap: queue\n\
         expected_duration: 1s\n\
         timeout: 1m\n\
         shards: {shards}\n\
         run: {run}\n"
    ))
}

/// A manifest of usual length.
fn usual(name: &str, schedule: &str) -> String {
    format!(
        "name: bench/{name}\n\
         purpose: Match yesterday's ledger with the bank files and write the settlement table.\n\
         owner: finance-oncall\n\
         repeatable: {{ safe: true, how: \"full recompute, replaces the day\" }}\n\
         schedule: {schedule}\n\
         misfire: {{ policy: run_now, after: 60s }}\n\
         overlap: queue\n\
         expected_duration: 40m\n\
         timeout: 15m\n\
         shards: 32\n\
         retry: {{ at_most: 3, backoff: [1m, 5m, 30m] }}\n\
         run:\n  exec: [\"/opt/jobs/reconcile\", \"--date\", \"{{fire_date-1d}}\", \"--shard\", \"{{shard}}/{{shards}}\"]\n"
    )
}

/// Reads a manifest of a measurement. A test of each measurement reads its own.
fn read(yaml: &str) -> Manifest {
    parse_manifests("bench", yaml)
        .ok()
        .and_then(|mut read| read.pop())
        .expect("a test reads this manifest")
}

/// Prints what was found as a table for people.
fn print_figures(figures: &[(&str, String)]) -> Result<(), Failure> {
    let mut table = Table::new(&["WHAT", "FIGURE"]);
    for (what, figure) in figures {
        table.row(vec![(*what).to_owned(), figure.clone()]);
    }
    print(&table.render())
}

/// Milliseconds, where there are any.
fn show_ms(of: Option<i64>) -> String {
    of.map_or_else(String::new, |ms| format!("{ms} ms"))
}

/// The value that `percent` of these do not exceed; `None` of none. Sorts them.
fn percentile(values: &mut [i64], percent: usize) -> Option<i64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    values
        .get((values.len() * percent).div_ceil(100).clamp(1, last + 1) - 1)
        .copied()
}

/// The longest time between two of these, which rise, in [`from`, `until`).
fn longest_gap(rising: &[WallMs], from: WallMs, until: WallMs) -> Option<i64> {
    let first = rising.partition_point(|&at| at < from);
    let last = rising.partition_point(|&at| at < until);
    let between = &rising[first..last];
    between.windows(2).map(|two| (two[1] - two[0]).0).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_between_two_of_them() {
        let rising = [0, 10, 12, 90, 95, 400].map(WallMs);
        for (from, until, expected) in [
            (0, 100, Some(78)),
            (0, 50, Some(10)),
            (90, 401, Some(305)),
            (13, 90, None),
            (13, 91, None),
        ] {
            let gap = longest_gap(&rising, WallMs(from), WallMs(until));
            assert_eq!(gap, expected, "{from}-{until}");
        }
    }

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
