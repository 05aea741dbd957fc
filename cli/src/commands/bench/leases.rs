//! Leases a second, from a ready shard to its acknowledged receipt, without processes.

use jobs::Manifest;
use serde_json::json;

use super::etcd::Etcd;
use super::site::{Site, Work};
use super::throughput::{Supply, measure, on_demand};
use super::{percentile, print_figures, show_ms, yardstick};
use crate::args::{BenchLeases, Text, Timers, Voters};
use crate::failure::Failure;
use crate::output::{print_json, talk};

/// Runs that are live beside each other, and shards of each.
const SUPPLY: Supply = Supply {
    jobs: 64,
    shards: 256,
    per_s: 100_000,
};

pub(super) fn leases(options: &BenchLeases) -> Result<(), Failure> {
    let BenchLeases {
        agents,
        slots,
        seconds,
        ..
    } = *options;
    talk("preparing a ledger full of work");
    let (dir, voters) = (&options.site.dir, options.voters);
    let mut site = Site::prepare_group(dir, agents, voters, Timers::Default, None)?;
    SUPPLY.fill(&site, seconds, manifest)?;
    site.start_group()?;
    site.start_agents(agents, slots, Work::Pretend { takes_ms: 0 })?;
    let found = measure(&mut site, seconds)?;

    let skip_locked = if options.no_yardstick {
        None
    } else {
        talk("measuring PostgreSQL on the same disk");
        site.open_to_all()?;
        yardstick::skip_locked(site.root(), seconds)?
    };

    let swaps = if options.no_yardstick || voters == Voters::One {
        None
    } else {
        talk("measuring etcd on the same disk");
        let etcd = Etcd::start(site.root())?;
        etcd.map(|etcd| etcd.swaps_per_s(seconds)).transpose()?
    };

    let mut told: Vec<i64> = found
        .ended
        .iter()
        .filter_map(|lease| Some((lease.started_at? - lease.granted_at).0))
        .collect();
    let (p50, p99) = (percentile(&mut told, 50), percentile(&mut told, 99));
    match options.site.output {
        Text::Json => print_json(&json!({
            "leases_per_s": found.per_s.round(),
            "grant_p50_ms": p50,
            "grant_p99_ms": p99,
            "coordinator_cpu_us_per_lease": found.coordinator_us,
            "agents_cpu_us_per_lease": found.agents_us,
            "postgresql_skip_locked_per_s": skip_locked.map(f64::round),
            "etcd_swaps_per_s": swaps.map(f64::round),
            "voters": match voters {
                Voters::One => 1,
                Voters::Three => 3,
            },
            "agents": agents,
            "slots": slots,
            "seconds": found.seconds,
        })),
        Text::Text => {
            let mut figures = vec![
                (
                    "leases granted, told and ended, a second",
                    format!("{:.0}", found.per_s),
                ),
                (
                    "from the decision to grant until told, median",
                    show_ms(p50),
                ),
                ("the same, 99 of 100 within", show_ms(p99)),
                (
                    "processor time of all control machines, each",
                    format!("{:.0} us", found.coordinator_us),
                ),
                (
                    "processor time of all agents, each",
                    format!("{:.0} us", found.agents_us),
                ),
            ];
            let what = "PostgreSQL, SKIP LOCKED, 64 clients, a second";
            figures.extend(skip_locked.map(|per_s| (what, format!("{per_s:.0}"))));
            let what = "etcd, three members, swaps of 64 clients, a second";
            figures.extend(swaps.map(|per_s| (what, format!("{per_s:.0}"))));
            print_figures(&figures)
        }
    }
}

fn manifest(n: u32) -> Manifest {
    let run = "{ exec: [\"/bin/true\"] }";
    on_demand(&format!("leases-{n}"), SUPPLY.shards, run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_good() {
        assert_eq!(manifest(7).shards, jobs::Shards::Fixed(SUPPLY.shards));
    }
}
