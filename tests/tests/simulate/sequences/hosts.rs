//! Agents, supervisors and hosts that stop, die, or are not who they say.

use ledger::RunState;
use protocol::RunId;

use super::{A, B, MINUTE, SECOND, alert_with, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::Job;
use crate::world::process::Behaviour;
use crate::world::{Held, Violation, World};

sequences! {
    latch breaks without DeadlineLatch;
    stopped_agent breaks without SupervisorEnforcesDeadline;
    stopped_supervisor breaks without SupervisorMustAnswer;
    stopped_agent_and_supervisor breaks without FencedWrites;
    killed_agent_and_supervisor breaks without SweepBeforeAnswer;
    orphan_that_cannot_be_killed breaks without LostNeedsVerifiedDead;
    orphaned_spool breaks without NeverStartedNeedsSameSupervisor;
    clone_while_out_of_contact breaks without SweepProvesItsOwnBoot;
    reboot_waits_for_expiry breaks without SweepProvesItsOwnBoot;
    cloned_host breaks without DuplicatesQuarantined;
    cloned_host_through_failover breaks without DuplicatesQuarantined;
    reconnect_same_process breaks without NonceBeforeVerdict;
}

/// So many hosts, and a process under a short lease on the first.
fn under_way_on_a(world: &mut World, hosts: usize) -> Result<RunId, Violation> {
    world.begin(1)?;
    let run_id = world.put_to_work()?;
    for _ in 1..hosts {
        world.add_host(4);
    }
    world.until_attached()?;
    world.run_for(11 * SECOND)?;
    Ok(run_id)
}

/// The machine stands still until half a second after the deadline; then an old ack is read
/// before anything else.
fn latch(world: &mut World) -> Held {
    under_way_on_a(world, 1)?;
    let pid = *world.alive.iter().next().expect("it runs");
    let token = world.processes[&pid].token;
    // From here on the acks take long enough that the next one finds nobody awake.
    world.hosts[A].set_delay((2_500, 2_500));
    let before = world.deadlines[&(A, token)];
    world.run_until("the last ack in time", 20 * SECOND, move |w| {
        w.deadlines[&(A, token)] > before
    })?;
    // The next beat leaves, and its ack comes while the machine stands still.
    world.run_for(4 * SECOND)?;
    world.stall_host(A);
    let deadline = world.deadlines[&(A, token)];
    world.run_until("half a second past the deadline", MINUTE, move |w| {
        w.host_now(A).boot.0 >= deadline.0 + 500
    })?;
    world.resume_host(A);
    world.run_for(5 * SECOND)?;
    world.hosts[A].set_delay((1, 4));
    heal(world)
}

/// The agent stands still for three minutes; its supervisor does not.
fn stopped_agent(world: &mut World) -> Held {
    under_way_on_a(world, 2)?;
    world.stop_agent(A);
    world.until_process_on(B)?;
    world.run_for(3 * MINUTE)?;
    world.resume_agent(A);
    heal(world)
}

/// The supervisor alone stands still, and its agent would beat on for what nobody watches.
fn stopped_supervisor(world: &mut World) -> Held {
    under_way_on_a(world, 2)?;
    world.stop_supervisor(A);
    world.until_process_on(B)?;
    world.resume_supervisor(A);
    heal(world)
}

/// Both stand still for three minutes while the job writes on: two processes, one of them
/// without a say.
fn stopped_agent_and_supervisor(world: &mut World) -> Held {
    under_way_on_a(world, 2)?;
    world.stop_agent(A);
    world.stop_supervisor(A);
    world.until_process_on(B)?;
    world.run_for(2 * MINUTE)?;
    let refused = world.results.refused;
    world.require(
        refused > 0,
        "P2",
        "an overtaken process cannot write",
        || "the older process wrote on and nothing was refused".to_owned(),
    );
    world.resume_supervisor(A);
    world.resume_agent(A);
    heal(world)
}

/// Both are killed; an orphan survives; both come back knowing nothing.
fn killed_agent_and_supervisor(world: &mut World) -> Held {
    under_way_on_a(world, 2)?;
    world.kill_agent(A);
    world.kill_supervisor(A);
    world.run_for(SECOND)?;
    world.start_supervisor(A);
    world.start_agent(A);
    world.run_for(30 * SECOND)?;
    heal(world)
}

/// The same, where the orphan sits in uninterruptible IO: nobody can say that it is dead.
fn orphan_that_cannot_be_killed(world: &mut World) -> Held {
    let run_id = {
        world.plan(&[
            Behaviour {
                stuck_ms: 20 * SECOND,
                ..works_for(600)
            },
            works_for(5),
        ]);
        world.begin(1)?;
        world.put(&Job::on_demand("a/works"))?;
        let run_id = world.run_now("a/works")?;
        world.until_process_on(A)?;
        run_id
    };
    world.add_host(4);
    world.until_attached()?;
    world.kill_agent(A);
    world.kill_supervisor(A);
    world.run_for(SECOND)?;
    world.start_supervisor(A);
    world.start_agent(A);
    // The host beats on without the lease, which ends all the same.
    world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
    heal(world)
}

/// What the host kept is deleted while a receipt waits.
fn orphaned_spool(world: &mut World) -> Held {
    world.plan(&[works_for(10)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.safe = false;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.cut(A, true, true);
    world.run_for(15 * SECOND)?;
    world.kill_agent(A);
    world.kill_supervisor(A);
    world.run_for(SECOND)?;
    world.start_supervisor(A);
    world.start_agent(A);
    world.heal(A);
    world.until_state(run_id, RunState::NeedsConfirmation, 3 * MINUTE)?;
    heal(world)
}

/// The network of a host is cut, and a machine made from a copy of its disk attaches meanwhile.
/// What the copy says of its own boot says nothing of the original, which works on.
fn clone_while_out_of_contact(world: &mut World) -> Held {
    world.plan(&[works_for(600)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.timeout_s = 900;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.run_for(11 * SECOND)?;
    world.cut(A, true, true);
    // Long enough that the coordinator holds no connection of this name any more.
    world.run_for(12 * SECOND)?;
    let name = world.hosts[A].identity.clone();
    world.add_host_named(name.clone(), 4);
    world.add_host_named("host-c".parse().expect("a good name"), 4);
    world.run_for(15 * SECOND)?;
    let processes = world.processes_of(run_id);
    world.require(
        processes == 1,
        "P2",
        "no lease is released on a clone's word",
        || format!("{processes} processes were started"),
    );
    // The original comes back while the copy is connected: now it shows.
    world.heal(A);
    world.run_for(10 * SECOND)?;
    are_quarantined_and_told_of(world, &name);
    world.plan(&[works_for(5)]);
    world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
    heal(world)
}

/// A host reboots at once. To the ledger it might be a copy of one that works on, so its lease
/// ends by its time, counted from the last beat before; then the shard runs again.
fn reboot_waits_for_expiry(world: &mut World) -> Held {
    let run_id = under_way_on_a(world, 1)?;
    let pid = *world.alive.iter().next().expect("it runs");
    let token = world.processes[&pid].token;
    world.plan(&[works_for(5)]);
    world.cut_power(A);
    world.run_for(SECOND)?;
    world.boot(A);
    world.run_for(5 * SECOND)?;
    let current = world.truth.is_current(token);
    world.require(
        current,
        "P2",
        "no lease is released on another boot's word",
        || format!("{token} was released by the attach after a reboot"),
    );
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    heal(world)
}

/// Both machines of this name get no work any more, and a person is told.
fn are_quarantined_and_told_of(world: &mut World, name: &protocol::AgentName) {
    let agents = world.truth.set.agents.values();
    let quarantined = agents
        .filter(|agent| agent.name == *name)
        .all(|agent| agent.barred == Some(ledger::Bar::Quarantined));
    let told = alert_with(&world.tables(), name.as_str()).is_some();
    world.require(
        quarantined && told,
        "P2",
        "clones are quarantined and told of",
        || format!("quarantined: {quarantined}, told: {told}"),
    );
}

/// A copy of host A attaches beside it; another host takes over what they held.
fn copy_appears(world: &mut World, run_id: RunId) -> Held {
    let name = world.hosts[A].identity.clone();
    world.add_host_named(name.clone(), 4);
    world.run_for(2 * MINUTE)?;
    are_quarantined_and_told_of(world, &name);
    let third = "host-c".parse().expect("a good name");
    world.add_host_named(third, 4);
    world.plan(&[works_for(5)]);
    world.until_state(run_id, RunState::Succeeded, 3 * MINUTE)?;
    heal(world)
}

/// Two machines with one identity attach in turn.
fn cloned_host(world: &mut World) -> Held {
    let run_id = under_way_on_a(world, 1)?;
    copy_appears(world, run_id)
}

/// The copy appears while leaders change: neither is attached when the next one begins.
fn cloned_host_through_failover(world: &mut World) -> Held {
    world.add_standby();
    let run_id = under_way_on_a(world, 1)?;
    world.crash_leader(world.front, true);
    copy_appears(world, run_id)
}

/// The path changes; the same process attaches anew while the old connection still answers.
fn reconnect_same_process(world: &mut World) -> Held {
    let run_id = under_way_on_a(world, 1)?;
    world.change_path(A);
    world.run_for(30 * SECOND)?;
    let processes = world.processes_of(run_id);
    world.require(processes == 1, "P4", "a new path kills nothing", || {
        format!("{processes} processes were started")
    });
    heal(world)
}
