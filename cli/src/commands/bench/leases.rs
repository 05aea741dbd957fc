//! Leases a second, from a ready shard to its acknowledged receipt, without processes.

use std::thread;
use std::time::{Duration, Instant};

use jobs::{Manifest, parse_manifests};
use serde_json::json;

use super::site::{Site, Work};
use super::{leases_ended, percentile, us_each, yardstick};
use crate::args::{BenchLeases, Text};
use crate::clock;
use crate::failure::Failure;
use crate::output::{print, print_json, talk};
use crate::text::Table;

/// Runs that are live beside each other, and shards of each.
const JOBS: u32 = 64;
const SHARDS: u32 = 256;

/// There is work for so many leases a second; who does more has measured too little.
const SUPPLY_PER_S: u32 = 40_000;

/// What comes before is not counted.
const WARM_UP: Duration = Duration::from_secs(2);

pub(super) fn leases(options: &BenchLeases) -> Result<(), Failure> {
    let BenchLeases {
        agents,
        slots,
        seconds,
        ..
    } = *options;
    talk("preparing a ledger full of work");
    let mut site = Site::prepare(&options.site.dir, agents)?;
    let supply = SUPPLY_PER_S * (seconds + WARM_UP.as_secs() as u32);
    site.fill(
        (0..JOBS).map(manifest).collect(),
        supply.div_ceil(JOBS * SHARDS),
    )?;
    site.start_coordinator()?;
    site.start_agents(agents, slots, Work::Pretend)?;

    talk(&format!("measuring for {seconds} s"));
    thread::sleep(WARM_UP);
    let (begun, cpu_begun, from) = (Instant::now(), site.cpu(), clock::now());
    thread::sleep(Duration::from_secs(seconds.into()));
    let (measured, cpu, until) = (begun.elapsed(), site.cpu(), clock::now());
    site.check_alive()?;
    site.stop();

    let skip_locked = if options.no_yardstick {
        None
    } else {
        talk("measuring PostgreSQL on the same disk");
        site.open_to_all()?;
        yardstick::skip_locked(site.root(), seconds)?
    };

    let ended = leases_ended(&site, from, until)?;
    let count = ended.len() as f64;
    let per_s = count / measured.as_secs_f64();
    let mut told: Vec<i64> = ended
        .iter()
        .filter_map(|lease| Some((lease.started_at? - lease.granted_at).0))
        .collect();
    let coordinator_us = us_each(cpu.coordinator_s - cpu_begun.coordinator_s, count);
    let agents_us = us_each(cpu.agents_s - cpu_begun.agents_s, count);
    let (p50, p99) = (percentile(&mut told, 50), percentile(&mut told, 99));
    match options.site.output {
        Text::Json => print_json(&json!({
            "leases_per_s": per_s.round(),
            "grant_p50_ms": p50,
            "grant_p99_ms": p99,
            "coordinator_cpu_us_per_lease": coordinator_us,
            "agents_cpu_us_per_lease": agents_us,
            "postgresql_skip_locked_per_s": skip_locked.map(f64::round),
            "agents": agents,
            "slots": slots,
            "seconds": measured.as_secs_f64(),
        })),
        Text::Text => {
            let ms = |of: Option<i64>| of.map_or_else(String::new, |ms| format!("{ms} ms"));
            let mut table = Table::new(&["WHAT", "FIGURE"]);
            for (what, figure) in [
                (
                    "leases granted, told and ended, a second",
                    format!("{per_s:.0}"),
                ),
                ("from the decision to grant until told, median", ms(p50)),
                ("the same, 99 of 100 within", ms(p99)),
                (
                    "processor time of the coordinator, each",
                    format!("{coordinator_us:.0} us"),
                ),
                (
                    "processor time of all agents, each",
                    format!("{agents_us:.0} us"),
                ),
            ] {
                table.row(vec![what.to_owned(), figure]);
            }
            if let Some(per_s) = skip_locked {
                let what = "PostgreSQL, SKIP LOCKED, 64 clients, a second";
                table.row(vec![what.to_owned(), format!("{per_s:.0}")]);
            }
            print(&table.render())
        }
    }
}

fn manifest(n: u32) -> Manifest {
    let yaml = format!(
        "name: bench/leases-{n}\n\
         purpose: To be measured.\n\
         owner: bench\n\
         repeatable: {{ safe: true, how: it does nothing }}\n\
         schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: skip }}\n\
         overlap: queue\n\
         expected_duration: 1s\n\
         timeout: 1m\n\
         shards: {SHARDS}\n\
         run: {{ exec: [\"/bin/true\"] }}\n"
    );
    parse_manifests("bench", &yaml)
        .ok()
        .and_then(|mut read| read.pop())
        .expect("a test reads this manifest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_good() {
        assert_eq!(manifest(7).shards, jobs::Shards::Fixed(SHARDS));
    }
}
