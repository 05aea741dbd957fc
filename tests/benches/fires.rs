//! What a fire costs the scheduler's core and the ledger, by how many jobs there are: run by
//! `make bench`, quoted in docs/BENCHMARKS.md. The ledger is in memory: what a disk takes is left out.
#![allow(clippy::print_stdout)] // figures are its output

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use coordinator_core::clock::Thresholds;
use coordinator_core::{Config, Core, Effect, Request, RequestId};
use jobs::Manifest;
use ledger::{Proposal, Store};
use protocol::message::Incarnation;
use protocol::{BootMs, DurationMs, Lifetime, Now, Rules, WallMs};

/// Jobs that are due each minute, few enough that a walk over all others would be seen; those are due
/// once in four years.
const DUE: usize = 100;
const MINUTES: usize = 100;

/// Jobs that are handed over at once.
const PUT: usize = 1_000;

fn main() -> Result<()> {
    println!(
        "{:>10} {:>20} {:>22}",
        "jobs", "us a fire, core", "us a fire, ledger"
    );
    for jobs in [1_000, 10_000, 100_000, 1_000_000] {
        let spent = measure(jobs)?;
        let each = |spent: Duration| spent.as_secs_f64() * 1e6 / (DUE * MINUTES) as f64;
        let (core, ledger) = (each(spent.core), each(spent.ledger));
        println!("{jobs:>10} {core:>20.1} {ledger:>22.1}");
    }
    Ok(())
}

fn measure(jobs: usize) -> Result<Spent> {
    let mut bench = Bench::new()?;
    for first in (0..jobs).step_by(PUT) {
        for number in first..first + PUT {
            bench.put(number)?;
        }
        bench.settle()?;
    }
    bench.pass(DurationMs(60_000))?;
    bench.spent = Spent::default();
    bench.fired = 0;
    for _ in 0..MINUTES {
        bench.pass(DurationMs(60_000))?;
    }
    ensure!(bench.fired == DUE * MINUTES, "{} fires", bench.fired);
    Ok(bench.spent)
}

#[derive(Default)]
struct Spent {
    core: Duration,
    ledger: Duration,
}

struct Bench {
    store: Store,
    core: Core,
    now: Now,
    fired: usize,
    spent: Spent,
}

impl Bench {
    fn new() -> Result<Bench> {
        let store = Store::open_in_memory(Rules::all())?;
        let now = Now {
            wall: WallMs(1_800_000_000_000),
            boot: BootMs(1_000_000),
        };
        let config = Config {
            node: "bench".to_owned(),
            incarnation: Incarnation(1),
            certificate: FOR_EVER,
            clock: Thresholds::default(),
        };
        let core = Core::new(config, store.working_set()?, now, Rules::all());
        let mut bench = Bench {
            store,
            core,
            now,
            fired: 0,
            spent: Spent::default(),
        };
        bench.settle()?;
        Ok(bench)
    }

    fn put(&mut self, number: usize) -> Result<()> {
        let request = Request::PutJob {
            manifest: Arc::new(manifest(number)?),
            expected: None,
            by: "bench".to_owned(),
        };
        let id = RequestId(number as u64);
        self.core.handle_request(id, request, self.now);
        Ok(())
    }

    fn pass(&mut self, time: DurationMs) -> Result<()> {
        self.now.wall = self.now.wall + time;
        self.now.boot = self.now.boot + time;
        let begun = Instant::now();
        self.core.handle_tick(self.now);
        self.spent.core += begun.elapsed();
        self.settle()
    }

    /// Commits what the core proposes until it wants nothing more. The core concludes from what it
    /// has heard when it is polled, so that counts.
    fn settle(&mut self) -> Result<()> {
        loop {
            let begun = Instant::now();
            let mut effects = Vec::new();
            effects.extend(std::iter::from_fn(|| self.core.poll_effect()));
            let proposals = std::iter::from_fn(|| self.core.poll_proposal());
            let (ids, batch): (Vec<_>, Vec<Proposal>) = proposals.unzip();
            self.spent.core += begun.elapsed();
            for effect in effects {
                if let Effect::Reply { answer, .. } = effect {
                    answer.context("a request of the benchmark's own")?;
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            let fires = batch.iter().filter(|proposal| is_fire(proposal));
            self.fired += fires.count();
            let begun = Instant::now();
            let outcomes = self.store.propose(&batch)?;
            self.spent.ledger += begun.elapsed();
            let landed = ids.into_iter().zip(outcomes).collect();
            let begun = Instant::now();
            self.core.handle_outcomes(landed, self.now);
            self.spent.core += begun.elapsed();
        }
    }
}

fn is_fire(proposal: &Proposal) -> bool {
    matches!(proposal.command, ledger::Command::Fire(_))
}

fn manifest(number: usize) -> Result<Manifest> {
    let cron = if number < DUE {
        "* * * * *"
    } else {
        "0 0 29 2 *"
    };
    let yaml = format!(
        "name: bench/j{number}\npurpose: bench\nowner: bench\n\
         repeatable: {{ safe: true, how: bench }}\n\
         schedule: {{ cron: \"{cron}\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: run_now, after: 60s }}\noverlap: allow\nexpected_duration: 1m\n\
         timeout: 1h\nretry: {{ at_most: 3, backoff: [1s] }}\n\
         run: {{ exec: [\"/bin/true\"] }}\n"
    );
    jobs::parse_manifests("bench.yaml", &yaml)
        .map_err(|problems| anyhow::anyhow!("{problems:?}"))?
        .pop()
        .context("one manifest")
}

const FOR_EVER: Lifetime = Lifetime {
    from: WallMs(0),
    until: WallMs(9_000_000_000_000),
};
