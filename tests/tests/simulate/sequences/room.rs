//! Hosts of which it is known what they are: who gets what a job asks for, and who hears that nobody can.

use ledger::RunState;
use protocol::{Health, Rules};

use super::{A, B, MINUTE, SECOND, alert_with, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::text;
use crate::world::people::Job;
use crate::world::registration::machine;
use crate::world::{Held, World};

sequences! {
    class_of_no_host breaks without ClassMatched;
    more_memory_than_any_host breaks without RoomSetAside;
    nobody_is_told breaks without UnplaceableGoesToPerson;
    memory_not_overcommitted breaks without RoomSetAside;
    memory_not_overcommitted_by_another_leader breaks without RoomSetAside;
    no_io_beside_a_rebuild breaks without RoomSetAside;
    failing_host_ends_its_work breaks without HealthCordonStays;
}

impl World {
    /// Two hosts of 16 cores: A with much memory and a disk that rotates, B with little and flash.
    fn begin_known(&mut self) -> Held {
        self.start_leader();
        for facts in [machine(16, 256, "hdd", 150), machine(16, 32, "ssd", 20_000)] {
            let host = self.add_host(8);
            self.set_facts(host, facts);
        }
        self.until_attached()?;
        self.run_until("both are registered", 20 * SECOND, |w| {
            let mut agents = w.truth.set.agents.values();
            agents.all(|agent| agent.profile.is_some())
        })
    }

    fn require_on(&mut self, host: usize, processes: usize, invariant: &'static str) -> Held {
        let alive = self.alive_on(host).len();
        self.require(alive == processes, "P7", invariant, || {
            format!("{alive} processes on host {host}, expected {processes}")
        });
        self.holds()
    }
}

/// A job fires, has no place for a minute, and goes to a person who is told why.
fn told_why(world: &mut World, mut job: Job, why: &str) -> Held {
    world.begin_known()?;
    job.start_deadline_s = Some(60);
    world.put(&job)?;
    world.run_past_minute(2 * MINUTE)?;
    let (run_id, _) = world.truth.runs.iter().next().expect("it fired");
    let run_id = *run_id;
    let processes = world.processes_of(run_id);
    let asks = world.state_of(run_id) == Some(RunState::NeedsConfirmation);
    let reason = text(&world.tables().rows("runs")[0], "reason").to_owned();
    world.require(
        processes == 0 && asks && reason.contains(why),
        "P7",
        "what nobody can take goes to a person with the report",
        || format!("{processes} processes, asks: {asks}, reason {reason:?}"),
    );
    heal(world)
}

/// A job is for hosts of a class, and it is known that no host is of it.
fn class_of_no_host(world: &mut World) -> Held {
    world.start_leader();
    let small = world.add_host(8);
    world.set_facts(small, machine(4, 256, "ssd", 20_000));
    let mut job = Job::every_minute("a/nowhere").at("1 * * * *");
    job.class = Some("coordinator");
    told_why(
        world,
        job,
        "3 not of class `coordinator` (3: clock.verdict does not apply",
    )
}

/// A job asks for more memory than the largest host has.
fn more_memory_than_any_host(world: &mut World) -> Held {
    let mut job = Job::every_minute("a/nowhere").at("1 * * * *");
    job.memory = Some("250GiB");
    told_why(world, job, "2 too small for 250GiB of memory")
}

/// The same, where it would wait for ever.
fn nobody_is_told(world: &mut World) -> Held {
    let mut job = Job::every_minute("a/nowhere").at("1 * * * *");
    job.cpu = Some(48);
    told_why(world, job, "2 too small for 48 processors")
}

/// Five shards ask for 60 GiB each, of which one host has room for three.
fn memory_not_overcommitted(world: &mut World) -> Held {
    three_at_a_time(world, |world| world.run_for(10 * SECOND))
}

/// The same, where the leader that granted is gone: what is set aside is in the ledger.
fn memory_not_overcommitted_by_another_leader(world: &mut World) -> Held {
    three_at_a_time(world, |world| {
        world.restart_leader_after(SECOND, true)?;
        world.run_for(5 * SECOND)?;
        world.until_attached()
    })
}

fn three_at_a_time(world: &mut World, meanwhile: fn(&mut World) -> Held) -> Held {
    const THREE: &str = "as much is at work as there is memory for";
    world.plan(&[works_for(60)]);
    world.begin_known()?;
    let mut job = Job::on_demand("a/works");
    (job.shards, job.memory) = (5, Some("60GiB"));
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.run_for(5 * SECOND)?;
    world.require_on(A, 3, THREE)?;
    meanwhile(world)?;
    world.run_for(20 * SECOND)?;
    world.require_on(A, 3, THREE)?;
    world.require_on(B, 0, THREE)?;
    world.until_state(run_id, RunState::Succeeded, 5 * MINUTE)?;
    heal(world)
}

/// An array is being rebuilt: what is for its disk waits, what is not does not, and it goes on by itself.
fn no_io_beside_a_rebuild(world: &mut World) -> Held {
    const KEPT_OFF: &str = "nothing for its disk is on a host that rebuilds an array";
    world.plan(&[works_for(30)]);
    world.begin_known()?;
    world.look_at_host(B, Health::Rebuilding, true);
    world.run_for(10 * SECOND)?;
    let mut job = Job::on_demand("a/writes");
    job.class = Some("io");
    world.put(&job)?;
    let mut computes = Job::on_demand("a/computes");
    computes.class = Some("cpu");
    computes.shards = 2;
    world.put(&computes)?;
    let writes = world.run_now("a/writes")?;
    let computes = world.run_now("a/computes")?;
    world.run_for(5 * SECOND)?;
    let started = world.processes_of(writes);
    world.require(started == 0, "P7", KEPT_OFF, || "it runs there".to_owned());
    world.require_on(B, 1, KEPT_OFF)?;
    world.until_state(computes, RunState::Succeeded, 2 * MINUTE)?;
    let started = world.processes_of(writes);
    world.require(started == 0, "P7", KEPT_OFF, || "it runs there".to_owned());
    world.look_at_host(B, Health::Ok, false);
    world.until_state(writes, RunState::Succeeded, 2 * MINUTE)?;
    heal(world)
}

/// A host fails while it works, and recovers: it is cordoned, what runs there ends well, and the next goes elsewhere.
fn failing_host_ends_its_work(world: &mut World) -> Held {
    world.plan(&[works_for(180), works_for(5)]);
    world.begin_known()?;
    let mut job = Job::on_demand("a/works");
    job.memory = Some("64GiB");
    world.put(&job)?;
    let works = world.run_now("a/works")?;
    world.until_process_on(A)?;
    for health in [Health::Failed, Health::Failed, Health::Ok, Health::Ok] {
        world.look_at_host(A, health, false);
        world.run_for(15 * SECOND)?;
    }
    let cordoned = world.truth.cordoned.contains(&world.hosts[A].identity);
    world.require(cordoned, "P4", "a host that has failed is cordoned", || {
        "it is not".to_owned()
    });
    let mut small = Job::on_demand("a/small");
    small.shards = 4;
    world.put(&small)?;
    let small = world.run_now("a/small")?;
    world.until_state(small, RunState::Succeeded, 2 * MINUTE)?;
    world.until_state(works, RunState::Succeeded, 4 * MINUTE)?;
    let attempts = world.processes_of(works);
    world.require(
        attempts == 1,
        "P4",
        "what a cordoned host runs ends there",
        || format!("{attempts} attempts"),
    );
    heal(world)
}

/// What a host loses is told of, and what it still holds is left to end.
#[test]
fn memory_that_vanishes() {
    let scenario = |world: &mut World| {
        world.plan(&[works_for(120)]);
        world.begin_known()?;
        let mut job = Job::on_demand("a/works");
        (job.shards, job.memory) = (3, Some("60GiB"));
        world.put(&job)?;
        let run_id = world.run_now("a/works")?;
        world.run_for(10 * SECOND)?;
        world.require_on(A, 3, "as much is at work as there is memory for")?;
        world.set_facts(A, machine(16, 128, "hdd", 150));
        world.run_for(10 * SECOND)?;
        world.require_on(A, 3, "what runs goes on")?;
        let mut next = Job::on_demand("a/next");
        next.memory = Some("60GiB");
        world.put(&next)?;
        let next = world.run_now("a/next")?;
        world.run_for(60 * SECOND)?;
        world.require_on(A, 3, "nothing more is given to it")?;
        world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
        world.run_for(10 * SECOND)?;
        world.require_on(A, 1, "as much is at work as there is memory for now")?;
        world.until_state(next, RunState::Succeeded, 10 * MINUTE)?;
        let told = alert_with(&world.tables(), "memory.size_bytes").is_some();
        world.require(told, "P5", "what a host has lost is told", || {
            "no alert says so".to_owned()
        });
        heal(world)
    };
    let mut world = World::new(1, Rules::all(), true);
    if let Err(violation) = scenario(&mut world) {
        panic!("{violation}\n{}", world.journal().join("\n"));
    }
}
