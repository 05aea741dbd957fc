//! What a fire costs by how many jobs there are, and a lease by how many hosts and how many shards
//! wait in line: both are to be flat. Run by `make bench`, quoted in docs/BENCHMARKS.md;
//! `MATINS_DRAW_COSTS=1` draws docs/costs.svg anew.
#![allow(clippy::print_stdout)] // figures are its output

use std::collections::VecDeque;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use coordinator_core::ConnId;
use job::manifest;
use protocol::{DurationMs, Token};
use scheduler::{BEGIN, Scheduler, Spent};

mod chart;
#[path = "../job/mod.rs"]
mod job;
mod scheduler;

/// Jobs that are due in one second.
const AT_ONCE: u32 = 100;
/// Seconds that are measured, of whose costs the median counts: hosts that never beat are not missed
/// for so long.
const SECONDS: u32 = 10;
/// Slots of all hosts together.
const SLOTS: u32 = 1_000;
const SHARDS: u32 = 500;
/// Leases that are measured.
const LEASES: u32 = 20_000;

fn main() -> Result<()> {
    println!("jobs       us in the core a fire   us in the ledger a fire, durable");
    let mut fires = Vec::new();
    for jobs in [1_000, 10_000, 100_000, 1_000_000] {
        let (core, ledger) = fire(jobs)?;
        println!("{jobs:>9} {core:>22.1} {ledger:>32.1}");
        fires.push((jobs, core, ledger));
    }
    println!(
        "\nhosts   shards in line   us in the core a lease   us in the ledger a lease, in memory"
    );
    let mut leases = Vec::new();
    for (hosts, in_line) in [(10, 5_000), (100, 5_000), (1_000, 5_000), (100, 50_000)] {
        let (core, ledger) = lease(hosts, in_line)?;
        println!("{hosts:>5} {in_line:>16} {core:>24.1} {ledger:>37.1}");
        if in_line == 5_000 {
            leases.push((hosts, core, ledger));
        }
    }
    if std::env::var_os("MATINS_DRAW_COSTS").is_some() {
        let drawing = chart::draw(&fires, &leases);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/costs.svg");
        std::fs::write(&path, drawing).context("writing docs/costs.svg")?;
    }
    Ok(())
}

/// Every second some jobs are due, one shard each; from the fire until its receipt is in the ledger.
fn fire(jobs: u32) -> Result<(f64, f64)> {
    let directory = tempfile::tempdir()?;
    let manifests = (0..jobs).map(|n| {
        // The day begins with a second of rest.
        let second = (n / AT_ONCE + 1) % 86_400;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let schedule = format!("cron: \"{second} {minute} {hour} * * ?\", dialect: quartz");
        manifest(&format!("daily-{n}"), &schedule, 1)
    });
    let mut scheduler = Scheduler::with_jobs(&directory.path().join("ledger.db"), manifests)?;
    for host in 0..4 {
        scheduler.attach(host, 256)?;
    }
    let (mut core, mut ledger) = (Vec::new(), Vec::new());
    let end = BEGIN + DurationMs::from_secs(i64::from(SECONDS) + 1);
    while scheduler.wall() < end {
        scheduler.spent = Spent::default();
        scheduler.go_on(DurationMs::from_secs(1))?;
        let started = std::mem::take(&mut scheduler.started);
        scheduler.finish(&started)?;
        if !started.is_empty() {
            ensure!(started.len() == AT_ONCE as usize, "all that is due begins");
            core.push(micros(scheduler.spent.core, AT_ONCE));
            ledger.push(micros(scheduler.spent.ledger, AT_ONCE));
        }
    }
    ensure!(core.len() >= SECONDS as usize, "every second has its fires");
    Ok((median(core), median(ledger)))
}

/// With every slot taken, each receipt opens one, which the next in line gets.
fn lease(hosts: u32, in_line: u32) -> Result<(f64, f64)> {
    let mut scheduler = Scheduler::in_memory()?;
    for host in 0..hosts {
        scheduler.attach(host, SLOTS / hosts)?;
    }
    // A job of its own for each run, so that all are live at once.
    for n in 0..(in_line + SLOTS + LEASES).div_ceil(SHARDS) {
        let never = "cron: \"0 0 29 2 *\"";
        scheduler.run(manifest(&format!("wide-{n}"), never, SHARDS)?)?;
    }
    let mut leases: VecDeque<(ConnId, Token)> = scheduler.started.drain(..).collect();
    ensure!(leases.len() == SLOTS as usize, "every slot is taken");
    scheduler.spent = Spent::default();
    for _ in 0..LEASES {
        let lease = leases.pop_front().context("a lease")?;
        scheduler.finish(&[lease])?;
        leases.extend(scheduler.started.drain(..));
        ensure!(leases.len() == SLOTS as usize, "the slot is taken again");
    }
    let Spent { core, ledger } = scheduler.spent;
    Ok((micros(core, LEASES), micros(ledger, LEASES)))
}

fn micros(spent: std::time::Duration, count: u32) -> f64 {
    spent.as_secs_f64() * 1e6 / f64::from(count)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
