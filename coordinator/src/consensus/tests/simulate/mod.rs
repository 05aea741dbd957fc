//! Three members under virtual time: openraft with our stores and a modelled network, and every
//! fault that a machine room has.
//!
//! One thread runs everything, and its clock moves only when nobody has anything to do. The threads
//! that work on the files are tasks here, which take the time that a disk takes ([`disks`]); the
//! files are real, and lose with the power what was not synced ([`ledger::power`]). All that is
//! drawn comes from the seed, so that a seed is a history that can be had again:
//!
//! ```text
//! MATINS_SIM_SEED=7 cargo test -p coordinator --lib simulate::random -- --nocapture
//! ```
//!
//! What must hold stands in [`invariants`], a file for each, and is asked while it runs; at the end
//! all faults are taken back, and everything must go on.

mod disks;
mod invariants;
mod operator;
mod runtime;
mod transition;
mod watch;
mod world;

use std::cell::Cell;

pub(in crate::consensus) use runtime::Runtime;
use world::World;

thread_local! {
    static VIRTUAL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is a simulation, in which nobody else may work on files meanwhile.
pub(in crate::consensus) fn is_virtual() -> bool {
    VIRTUAL.get()
}

/// Lives through one seed; answers what happened, in words.
fn run(seed: u64) -> Vec<String> {
    VIRTUAL.set(true);
    let history = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async {
            let mut world = World::begin(seed).await;
            world.live().await;
            world.heal().await;
            world.end().await
        });
    VIRTUAL.set(false);
    history
}

/// What ends the process says why, and a test that has ended tells nothing.
fn tell_of_errors() {
    let filter = tracing_subscriber::EnvFilter::new(
        std::env::var("MATINS_SIM_LOG").unwrap_or_else(|_| "coordinator=error".to_owned()),
    );
    // Another test of this process may have done the same.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .try_init();
}

fn run_each(seeds: impl Iterator<Item = u64>) {
    tell_of_errors();
    for seed in seeds {
        let failed = std::panic::catch_unwind(|| run(seed)).is_err();
        assert!(!failed, "seed {seed}: replay with MATINS_SIM_SEED={seed}");
    }
}

#[test]
fn random_faults_lose_nothing_that_was_acknowledged() {
    match std::env::var("MATINS_SIM_SEED") {
        Ok(seed) => {
            tell_of_errors();
            for line in run(seed.parse().unwrap()) {
                eprintln!("{line}");
            }
        }
        Err(_) => run_each(0..SEEDS_SHORT),
    }
}

#[test]
#[ignore = "make test-full: some hundred seeds"]
fn many_random_faults_lose_nothing_that_was_acknowledged() {
    let seeds = std::env::var("MATINS_SIM_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS_LONG, |seeds| seeds.parse().unwrap());
    run_each(SEEDS_SHORT..seeds);
}

const SEEDS_SHORT: u64 = 8;
const SEEDS_LONG: u64 = 300;

#[test]
fn a_seed_is_a_history_that_can_be_had_again() {
    tell_of_errors();
    let history = run(3);
    assert!(history.len() > 50, "{history:?}");
    assert_eq!(history, run(3));
    assert_ne!(history, run(4));
}
