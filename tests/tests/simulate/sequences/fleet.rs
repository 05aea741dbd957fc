//! Which hosts get what: cordons, drains, labels, priority, and what shards share.

use ledger::{Cordon, RunState};
use protocol::RunId;

use super::{A, B, MINUTE, SECOND, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::text;
use crate::world::people::{Job, cordon, put_resource, uncordon};
use crate::world::{Held, Violation, World};

sequences! {
    cordon_holds breaks without CordonHolds;
    drained_while_out_of_reach breaks without DrainIsToldAgain;
    labels_matched breaks without LabelsMatched;
    class_matched breaks without ClassMatched;
    room_set_aside breaks without RoomSetAside;
    priority_first breaks without PriorityFirst;
    resource_bounded breaks without ResourcesBounded;
}

/// A host is cordoned, attaches anew, and its coordinator is replaced: it gets nothing.
fn cordon_holds(world: &mut World) -> Held {
    world.begin(2)?;
    let name = world.hosts[A].identity.clone();
    world.must(cordon(&name, Cordon::Cordoned))?;
    for id in world.connections_of(A).collect::<Vec<_>>() {
        world.break_connection(id);
    }
    world.run_for(10 * SECOND)?;
    world.until_attached()?;
    world.restart_leader_after(SECOND, true)?;
    // Until the agents have noticed, and are attached to this one.
    world.run_for(5 * SECOND)?;
    world.until_attached()?;
    let mut job = Job::on_demand("a/works");
    job.shards = 3;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_state(run_id, RunState::Succeeded, 2 * MINUTE)?;
    world.must(uncordon(&name))?;
    let run_id = world.run_now("a/works")?;
    world.until_state(run_id, RunState::Succeeded, 2 * MINUTE)?;
    let served = world.processes.values().any(|process| process.host == A);
    world.require(served, "P4", "an uncordoned host is given work", || {
        "nothing ran there".to_owned()
    });
    heal(world)
}

/// An operator drains a host at once that is out of reach just then, and the coordinator is
/// replaced before it is back.
fn drained_while_out_of_reach(world: &mut World) -> Held {
    world.plan(&[works_for(280), works_for(5)]);
    world.begin(2)?;
    let name = world.hosts[B].identity.clone();
    world.must(cordon(&name, Cordon::Cordoned))?;
    let mut job = Job::on_demand("a/works");
    job.takeover_s = 600;
    job.retries = 0;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.must(uncordon(&name))?;
    world.cut(A, true, true);
    world.run_for(20 * SECOND)?;
    let name = world.hosts[A].identity.clone();
    world.must(cordon(&name, Cordon::DrainingNow))?;
    world.restart_leader_after(SECOND, true)?;
    world.heal(A);
    // Interrupted, not failed: it has no retry to spare.
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    let on_b = world.processes.values().any(|process| process.host == B);
    world.require(on_b, "P4", "a drained host's shards run elsewhere", || {
        "nothing ran on the other host".to_owned()
    });
    heal(world)
}

/// One host has what the job needs; the other is freer.
fn labels_matched(world: &mut World) -> Held {
    world.start_leader();
    world.add_host(8);
    world.add_labelled_host(1, &["ssd"]);
    world.until_attached()?;
    let mut job = Job::on_demand("a/works");
    job.shards = 3;
    job.labels = vec!["ssd"];
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_state(run_id, RunState::Succeeded, 5 * MINUTE)?;
    heal(world)
}

/// A job is for hosts of a class, and nobody knows what the hosts are.
fn class_matched(world: &mut World) -> Held {
    let mut job = Job::every_minute("a/nowhere").at("1 * * * *");
    job.class = Some("memory");
    goes_to_a_person(world, job, "not of class `memory`")
}

/// A job asks for memory, and nobody knows how much the hosts have.
fn room_set_aside(world: &mut World) -> Held {
    let mut job = Job::every_minute("a/nowhere").at("1 * * * *");
    job.memory = Some("64MiB");
    goes_to_a_person(world, job, "of which nobody knows the memory")
}

/// Nobody gets it, and a person is told why.
fn goes_to_a_person(world: &mut World, mut job: Job, why: &str) -> Held {
    world.begin(2)?;
    job.start_deadline_s = Some(60);
    world.put(&job)?;
    world.run_for(4 * MINUTE)?;
    let tables = world.tables();
    let reason = text(&tables.rows("runs")[0], "reason").to_owned();
    let (run_id, _) = world.truth.runs.iter().next().expect("it fired");
    let asks = world.state_of(*run_id) == Some(RunState::NeedsConfirmation);
    world.require(
        asks && reason.contains(why),
        "P7",
        "what nobody can take goes to a person with the report",
        || format!("asks: {asks}, reason {reason:?}"),
    );
    heal(world)
}

/// Everybody waits for the one slot there is; the one that came last is the most important.
fn priority_first(world: &mut World) -> Held {
    world.plan(&[works_for(20)]);
    world.start_leader();
    world.add_host(1);
    world.until_attached()?;
    let mut runs = Vec::new();
    for (name, priority) in [("a/first", 50), ("a/idle", 10), ("a/urgent", 90)] {
        let mut job = Job::on_demand(name);
        job.priority = priority;
        world.put(&job)?;
        runs.push(world.run_now(name)?);
        world.run_for(SECOND)?;
    }
    for &run_id in &runs {
        world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
    }
    let order: Vec<RunId> = granted(world);
    let expected = [runs[0], runs[2], runs[1]];
    world.require(
        order == expected,
        "P7",
        "what is most urgent goes first",
        || format!("granted in the order {order:?}, expected {expected:?}"),
    );
    heal(world)
}

/// Runs in the order of their first grants.
fn granted(world: &World) -> Vec<RunId> {
    let mut order: Vec<RunId> = Vec::new();
    // Tokens grow with every grant.
    for grant in world.truth.grants.values() {
        if !order.contains(&grant.run_id) {
            order.push(grant.run_id);
        }
    }
    order
}

/// A database takes two connections, four shards want one each, and the coordinator is replaced
/// while two have them.
fn resource_bounded(world: &mut World) -> Held {
    world.plan(&[works_for(20)]);
    world.begin(2)?;
    world.must(put_resource("db", 2))?;
    let mut job = Job::on_demand("a/works");
    job.shards = 4;
    job.uses = Some(1);
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.run_for(5 * SECOND)?;
    at_most(world, 2)?;
    world.restart_leader_after(SECOND, true)?;
    world.run_for(10 * SECOND)?;
    at_most(world, 2)?;
    world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
    heal(world)
}

fn at_most(world: &mut World, processes: usize) -> Result<(), Violation> {
    let alive = world.alive.len();
    world.require(
        alive <= processes,
        "P7",
        "no more is given of a resource than there is",
        || format!("{alive} processes, room for {processes}"),
    );
    world.holds()
}
