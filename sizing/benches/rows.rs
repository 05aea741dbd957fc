//! What a run and a lease take of the ledger's file: `cargo bench -p sizing --bench rows`.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)] // it measures, and says so

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ledger::Store;
use profiles::classes::Classes;
use protocol::{DurationMs, HostFacts, Rules, WallMs};
use sizing::Scenario;
use sizing::scenario::{Arrival, Host, Job, Lasts};
use sizing::simulate::simulate_over;

const BEGINS: WallMs = WallMs(1_799_971_200_000);

/// Bytes of the file after so many runs of so many shards.
fn filled(directory: &Path, runs: i64, shards: u32) -> f64 {
    let text = format!(
        "name: bench/job\npurpose: to be measured\nowner: bench\n\
         repeatable: {{ safe: true, how: it does nothing }}\n\
         schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: skip, after: 60s }}\noverlap: allow\nexpected_duration: 1m\n\
         timeout: 1h\nshards: {shards}\nrun: {{ exec: [\"/bin/true\"] }}\n"
    );
    let manifest = jobs::parse_manifests("bench.yaml", &text)
        .unwrap()
        .remove(0);
    let arrival = |number| Arrival {
        at: BEGINS + DurationMs(number * 1_000),
        job: manifest.name.clone(),
        lasts: None,
    };
    let host = |number| Host {
        name: format!("host-{number}").parse().unwrap(),
        slots: 64,
        labels: Vec::new(),
        facts: HostFacts::default(),
        lost_at: None,
    };
    let scenario = Scenario {
        begins: BEGINS,
        ends: BEGINS + DurationMs(runs * 1_000),
        patience: DurationMs(86_400_000),
        hosts: (0..4).map(host).collect(),
        arrivals: (0..runs).map(arrival).collect(),
        jobs: vec![Job {
            manifest: Arc::new(manifest),
            lasts: Lasts::Always(DurationMs(500)),
            volume: 1.0,
        }],
        resources: BTreeMap::new(),
        classes: Arc::new(Classes::built_in()),
        start_lag: DurationMs::ZERO,
        end_lag: DurationMs::ZERO,
        seed: 1,
    };
    let path = directory.join(format!("{runs}-{shards}.db"));
    let store = Store::open(&path, Rules::all()).unwrap();
    let night = simulate_over(store, &scenario).unwrap();
    assert_eq!(night.spans.len(), runs as usize * shards as usize);
    // Closed by now: what was in the write-ahead log is in the file.
    std::fs::metadata(&path).unwrap().len() as f64
}

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let of = |runs, shards| filled(directory.path(), runs, shards);
    let empty = of(1, 1);
    let (single, twelve) = (of(4_000, 1) - empty, of(4_000, 12) - empty);
    let lease = (twelve - single) / (4_000.0 * 11.0);
    let run = single / 4_000.0 - lease;
    println!("a run {run:.0} bytes, a lease with its shard {lease:.0} bytes, indexes included");
}
