//! What an acknowledgement promises, and when it must not be given.

use ledger::command::Command;
use protocol::message::{AgentMessage, CoordinatorBody};

use super::{A, B, FIRST, MINUTE, OTHER, SECOND, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::network::Frame;
use crate::world::people::Job;
use crate::world::{Held, World};

sequences! {
    ack_in_flight_expiry breaks without AckLeavesOutExpiring;
    ack_newborn breaks without AckSparesNewborn;
    cut_off_leader breaks without AckAfterQuorum;
    hypervisor_pause_leader breaks without AckAfterQuorum;
    short_lease_long_lease breaks without ExpiryWaitsFullTime;
    blip_20s breaks without ExpiryWaitsFullTime;
}

/// A beat arrives while the leader's own expiry of the lease is on its way to the disk. The host's
/// clock is slow beyond all margins, so that it does not end the process by itself before.
fn ack_in_flight_expiry(world: &mut World) -> Held {
    world.start_leader();
    world.add_host(4);
    world.hosts[A].clock.set_rates(world.now, -300_000, 0);
    world.until_attached()?;
    world.put_to_work()?;
    world.run_for(20 * SECOND)?;
    world.hold = Some(|frame| matches!(frame, Frame::FromAgent(AgentMessage::Heartbeat(_))));
    world.commit_ms = (2 * SECOND, 2 * SECOND);
    world.until_on_its_way(|command| matches!(command, Command::Expire(_)))?;
    world.release_held();
    world.run_for(4 * SECOND)?;
    world.commit_ms = (1, 8);
    world.hosts[A].clock.set_rates(world.now, 0, 0);
    heal(world)
}

/// An ack was written before a grant that the agent has started when it reads it.
fn ack_newborn(world: &mut World) -> Held {
    world.plan(&[works_for(60)]);
    world.begin(1)?;
    world.put(&Job::on_demand("a/works"))?;
    world.hold = Some(|frame| match frame {
        Frame::FromCoordinator(message) => {
            matches!(message.body, CoordinatorBody::HeartbeatAck { .. })
        }
        _ => false,
    });
    world.run_for(6 * SECOND)?;
    let run_id = world.run_now("a/works")?;
    world.until_process_on(A)?;
    world.release_held();
    world.run_for(30 * SECOND)?;
    let processes = world.processes_of(run_id);
    world.require(processes == 1, "P4", "the newborn lives", || {
        format!("{processes} processes were started")
    });
    heal(world)
}

/// A pair; on host A, which from now on reaches only the leader, a process under a short lease.
fn on_the_leaders_side(world: &mut World) -> Held {
    world.begin_as_pair(1)?;
    world.put_to_work()?;
    world.cut_from(A, OTHER, true, true);
    world.run_for(11 * SECOND)
}

/// The leader is cut off from its voters with a host on its side; another leads.
fn cut_off_leader(world: &mut World) -> Held {
    on_the_leaders_side(world)?;
    world.set_quorum(world.front, false);
    world.until_led_by(OTHER, 5 * SECOND)?;
    world.add_host(4);
    world.until_process_on(B)?;
    world.run_for(MINUTE)?;
    heal(world)
}

/// The leader's machine is paused, and no clock of it moves: it wakes with a quorum that looks as if it were
/// of this moment, while another leads. The pause is a little shorter than what a
/// connection outlives, so that the acknowledgement could still arrive.
fn hypervisor_pause_leader(world: &mut World) -> Held {
    on_the_leaders_side(world)?;
    let paused = world.front;
    world.pause_control(FIRST);
    world.until_led_by(OTHER, 5 * SECOND)?;
    world.run_for(7 * SECOND)?;
    // Its own way to the voters is as broken as the host's to the others.
    world.set_quorum(paused, false);
    world.unpause_control(FIRST);
    world.add_host(4);
    world.until_process_on(B)?;
    world.run_for(MINUTE)?;
    heal(world)
}

/// One host holds a short lease and a long one when its network goes for 40 seconds.
fn short_lease_long_lease(world: &mut World) -> Held {
    world.plan(&[works_for(300)]);
    world.begin(1)?;
    let (mut short, mut long) = (Job::on_demand("a/short"), Job::on_demand("a/long"));
    (short.takeover_s, long.takeover_s) = (15, 600);
    (short.timeout_s, long.timeout_s) = (900, 900);
    world.put(&short)?;
    world.put(&long)?;
    let (short, long) = (world.run_now("a/short")?, world.run_now("a/long")?);
    world.run_for(2 * SECOND)?;
    world.add_host(4);
    world.until_attached()?;
    world.cut(A, true, true);
    world.run_for(40 * SECOND)?;
    world.heal(A);
    world.run_for(MINUTE)?;
    let started = (world.processes_of(short), world.processes_of(long));
    world.require(
        started == (2, 1),
        "P4",
        "each lease has its own time",
        || format!("processes of the short and the long lease: {started:?}"),
    );
    heal(world)
}

/// The whole fleet is without network for 20 seconds.
fn blip_20s(world: &mut World) -> Held {
    world.plan(&[works_for(120)]);
    world.begin(3)?;
    let mut job = Job::on_demand("a/works");
    job.shards = 6;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.run_for(5 * SECOND)?;
    for host in 0..3 {
        world.cut(host, true, true);
    }
    world.run_for(20 * SECOND)?;
    for host in 0..3 {
        world.heal(host);
    }
    world.run_for(MINUTE)?;
    let processes = world.processes_of(run_id);
    world.require(processes == 6, "P4", "a short cut costs nothing", || {
        format!("{processes} processes were started for 6 shards")
    });
    heal(world)
}
