//! Between the fire and the first word to a host.

use ledger::RunState;
use ledger::command::Command;
use protocol::message::AgentMessage;

use super::{A, B, MINUTE, SECOND, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::number;
use crate::world::network::Frame;
use crate::world::people::Job;
use crate::world::{Held, World};

sequences! {
    crash_between_fire_and_grant breaks without RunAndWatermarkTogether;
    word_before_grant breaks without GrantBeforeWord;
    crash_between_grant_and_word breaks without AttachReleasesNeverStarted;
    started_then_power_cut breaks without NeverStartedNeedsSameSupervisor;
    late_start breaks without LateStartRefused;
}

const IS_GRANT: fn(&Command) -> bool = |command| matches!(command, Command::Grant(_));

/// The leader dies after the fire is committed, before the grant; another goes on.
fn crash_between_fire_and_grant(world: &mut World) -> Held {
    world.begin_as_pair(1)?;
    world.put(&Job::every_minute("a/fires"))?;
    world.until_on_its_way(IS_GRANT)?;
    world.fail_over_after(200, false)?;
    world.run_for(50 * SECOND)?;
    let granted = world.truth.grants.len();
    world.require(granted == 1, "P2", "one run, granted once", || {
        format!("{granted} leases were granted")
    });
    heal(world)
}

/// The same, where the word of the grant would have been given before the grant was safe.
fn word_before_grant(world: &mut World) -> Held {
    world.plan(&[works_for(120)]);
    world.begin(2)?;
    world.put(&Job::every_minute("a/fires"))?;
    world.commit_ms = (4 * SECOND, 4 * SECOND);
    world.until_on_its_way(IS_GRANT)?;
    // Time for the word to arrive, if it is given; not for the disk.
    world.run_for(SECOND)?;
    world.crash_leader(world.front, false);
    let runs_on = (A..=B).find(|&host| !world.alive_on(host).is_empty());
    world.cut(runs_on.unwrap_or(A), true, true);
    world.commit_ms = (1, 8);
    world.start_leader();
    world.run_for(20 * SECOND)?;
    heal(world)
}

/// The grant is committed and the leader dies before anybody hears of it.
fn crash_between_grant_and_word(world: &mut World) -> Held {
    world.begin_as_pair(1)?;
    let mut job = Job::every_minute("a/fires");
    job.safe = false;
    world.put(&job)?;
    world.until_on_its_way(IS_GRANT)?;
    world.fail_over_after(200, true)?;
    world.run_for(50 * SECOND)?;
    let (&run_id, _) = world.truth.runs.iter().next().expect("it fired");
    let state = world.state_of(run_id);
    world.require(
        state == Some(RunState::Succeeded),
        "P4",
        "what was never heard of is granted again",
        || format!("{run_id} is {state:?}"),
    );
    let tables = world.tables();
    let shard = &tables.rows("shards")[0];
    let (attempts, retries) = (number(shard, "attempts"), number(shard, "retries_used"));
    world.require(
        (attempts, retries) == (2, 0),
        "P7",
        "no retry is used up",
        || format!("{attempts} attempts, {retries} retries used up"),
    );
    heal(world)
}

/// The process runs, and the host loses power before the start is reported.
fn started_then_power_cut(world: &mut World) -> Held {
    world.plan(&[works_for(30)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/debits");
    job.safe = false;
    world.put(&job)?;
    world.hold = Some(|frame| matches!(frame, Frame::FromAgent(AgentMessage::Started(_))));
    let run_id = world.run_now("a/debits")?;
    world.until_process_on(A)?;
    world.cut_power(A);
    world.hold = None;
    world.run_for(5 * SECOND)?;
    world.boot(A);
    world.until_state(run_id, RunState::NeedsConfirmation, 2 * MINUTE)?;
    heal(world)
}

/// A start lies in the socket of an agent that stands still, until after the lease has expired
/// and the shard was granted elsewhere.
fn late_start(world: &mut World) -> Held {
    world.plan(&[works_for(120)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/late");
    job.takeover_s = 15;
    world.put(&job)?;
    world.stop_agent(A);
    world.run_now("a/late")?;
    let other = world.add_host(4);
    world.until_process_on(other)?;
    world.run_for(5 * SECOND)?;
    world.resume_agent(A);
    world.run_for(10 * SECOND)?;
    let started_here = world.processes.values().any(|process| process.host == A);
    world.require(!started_here, "P2", "a late start is refused", || {
        "the agent obeyed a start whose deadline had passed".to_owned()
    });
    heal(world)
}
