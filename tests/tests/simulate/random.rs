//! Worlds drawn from seeds: misfortune for a while, then everything is healed and must finish.

use std::{env, fs};

use ledger::{Bar, Command, Proposal};
use protocol::Rules;

use crate::invariants::{self, p4_nothing_precious};
use crate::transition::{any_facts, any_job, draw};
use crate::world::people;
use crate::world::process::Plan;
use crate::world::{Held, World};

/// How many seeds `cargo test` draws.
const SEEDS: u64 = 300;

#[test]
fn random() {
    if let Some(seed) = number("MATINS_SIM_SEED") {
        let world = World::new(seed, Rules::all(), true);
        let (world, held) = live(world);
        print_statistics(&world);
        if let Err(violation) = held {
            panic!("{}", report(seed, &world, &violation.to_string()));
        }
        return;
    }
    let seeds = number("MATINS_SIM_SEEDS").unwrap_or(SEEDS);
    let first = number("MATINS_SIM_FIRST").unwrap_or(1);
    let mut totals = Totals::default();
    for seed in first..first + seeds {
        let (world, held) = live(World::new(seed, Rules::all(), false));
        totals.add(&world);
        if held.is_err() {
            // The same again, with a journal.
            let (world, held) = live(World::new(seed, Rules::all(), true));
            let violation = held.expect_err("a seed determines its world").to_string();
            panic!("{}", report(seed, &world, &violation));
        }
    }
    println!("{seeds} seeds: {totals:?}");
}

/// A seed determines its world to the last event.
#[test]
fn a_seed_determines_its_world() {
    let (one, _) = live(World::new(7, Rules::all(), false));
    let (other, _) = live(World::new(7, Rules::all(), true));
    assert_eq!(one.events_handled, other.events_handled);
    assert_eq!(one.store.dump().unwrap(), other.store.dump().unwrap());
}

/// Lives a whole world through.
fn live(mut world: World) -> (World, Held) {
    let held = live_through(&mut world);
    (world, held)
}

fn live_through(world: &mut World) -> Held {
    begin(world)?;
    let transitions = world.rng.between(60, 200);
    for i in 0..transitions {
        let transition = draw(world);
        world.happen(transition);
        let pause = any_pause(world);
        world.run_for(pause)?;
        if i % 25 == 24 {
            invariants::audit(world)?;
        }
    }
    p4_nothing_precious::heal(world)
}

/// Often short, and often until about the next whole minute, when most things happen.
fn any_pause(world: &mut World) -> i64 {
    const MINUTE: i64 = 60_000;
    if world.rng.one_in(6) {
        let to_minute = MINUTE - world.coordinator_now().wall.0.rem_euclid(MINUTE);
        return (to_minute + world.rng.between(-300, 500)).max(0);
    }
    let longest = world.rng.pick(&[200, 10_000, 60_000]);
    world.rng.between(0, longest)
}

fn begin(world: &mut World) -> Held {
    world.in_writing = world.rng.one_in(8);
    world.tick_late_ms = world.rng.pick(&[0, 0, 20, 150, 350]);
    let drift = world.rng.pick(&[0, 0, 300, -300]);
    let now = world.now;
    world.front_clock().set_rates(now, drift, 0);
    world.plan = Plan::Any;
    world.start_leader();
    // Some sites have one coordinator.
    if !world.rng.one_in(4) {
        world.add_standby();
    }
    for _ in 0..world.rng.between(1, 4) {
        let slots = world.rng.between(1, 8) as u32;
        let labels: &[&str] = if world.rng.one_in(2) { &["ssd"] } else { &[] };
        let host = world.add_labelled_host(slots, labels);
        let drift = world.rng.between(-5_000, 5_000);
        world.hosts[host].clock.set_rates(world.now, drift, drift);
        if !world.rng.one_in(4) {
            let facts = any_facts(&mut world.rng);
            world.set_facts(host, facts);
        }
    }
    world.run_for(2_000)?;
    for _ in 0..world.rng.between(1, 4) {
        let job = any_job(world);
        world.request(people::put(&job));
    }
    world.run_for(3_000)
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Lines of the journal that a failure shows; `MATINS_SIM_JOURNAL=file` has them all.
const LINES_SHOWN: usize = 60;

fn report(seed: u64, world: &World, violation: &str) -> String {
    let journal = world.journal();
    if let Ok(file) = env::var("MATINS_SIM_JOURNAL") {
        fs::write(&file, journal.join("\n")).expect("the journal can be written");
    }
    let last = &journal[journal.len().saturating_sub(LINES_SHOWN)..];
    format!(
        "seed {seed}: {violation}\n\nthe last events:\n{}\n\nseed {seed}: {violation}\n\
         replay with: make simulate SEED={seed}",
        last.join("\n")
    )
}

fn print_statistics(world: &World) {
    let mut totals = Totals::default();
    totals.add(world);
    println!("{totals:?}");
}

/// What the worlds have seen: a simulation in which nothing happens proves nothing.
#[derive(Debug, Default)]
struct Totals {
    hours: i64,
    events: u64,
    commands: usize,
    reigns: usize,
    runs: usize,
    leases: usize,
    taken: usize,
    registered: usize,
    processes: usize,
    clones: usize,
    quarantined: usize,
    revoked: usize,
    writes: u64,
    refused_writes: u64,
    ms: i64,
}

impl Totals {
    fn add(&mut self, world: &World) {
        self.ms += world.now - crate::world::clock::BEGIN;
        self.hours = self.ms / 3_600_000;
        self.events += world.events_handled;
        self.commands += world.log.len();
        let begins = |proposal: &&Proposal| matches!(proposal.command, Command::BecomeActive(_));
        self.reigns += world.log.iter().filter(begins).count();
        self.runs += world.truth.runs.len();
        self.leases += world.truth.grants.len();
        let registers = |proposal: &&Proposal| matches!(proposal.command, Command::RegisterHost(_));
        self.registered += world.log.iter().filter(registers).count();
        self.taken += world
            .truth
            .grants
            .values()
            .filter(|grant| grant.taken_at.is_some())
            .count();
        self.processes += world.processes.len();
        self.clones += world.hosts.iter().filter(|host| host.scrapped).count();
        let agents = world.truth.set.agents.values();
        for agent in agents {
            self.quarantined += usize::from(agent.barred == Some(Bar::Quarantined));
            self.revoked += usize::from(agent.barred == Some(Bar::Revoked));
        }
        self.writes += world.results.written;
        self.refused_writes += world.results.refused;
    }
}
