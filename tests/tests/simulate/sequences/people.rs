//! What people do at a bad moment.

use coordinator_core::RequestError;
use ledger::{Refusal, RunState};
use protocol::WallMs;
use protocol::attempt::Exit;

use super::{MINUTE, SECOND, fails_after, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, cancel, rerun, run};
use crate::world::process::Behaviour;
use crate::world::{Held, World};

sequences! {
    cancel_then_rerun breaks without LeaseEndsByReceiptOrExpiry;
    forbid_manual_in_between breaks without OverlapJudgedInApply;
    fence_rerun breaks without FencePerExecution;
    run_ahead breaks without ManualRunsStayInThePast;
}

/// Cancelled, and at once asked for again, while the process does not heed SIGTERM.
fn cancel_then_rerun(world: &mut World) -> Held {
    world.plan(&[
        Behaviour {
            dies_of_term_ms: None,
            ..works_for(60)
        },
        works_for(5),
    ]);
    world.begin(2)?;
    world.put(&Job::on_demand("a/works"))?;
    let run_id = world.run_now("a/works")?;
    world.run_for(5 * SECOND)?;
    world.must(cancel(run_id))?;
    world.must(rerun(run_id))?;
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    heal(world)
}

/// The leader computes a fire, and a person's run was admitted first.
fn forbid_manual_in_between(world: &mut World) -> Held {
    world.plan(&[works_for(100)]);
    world.begin(1)?;
    world.put(&Job::every_minute("a/forbids"))?;
    world.run_past_minute(-500)?;
    world.commit_ms = (2 * SECOND, 2 * SECOND);
    world.request(run("a/forbids", None));
    world.run_for(SECOND)?;
    world.commit_ms = (1, 8);
    world.run_for(10 * SECOND)?;
    let states: Vec<RunState> = world
        .fires_of("a/forbids")
        .iter()
        .map(|&(_, state)| state)
        .collect();
    world.require(
        states == [RunState::Skipped],
        "P2",
        "overlap is judged when the run is written",
        || format!("{states:?}"),
    );
    heal(world)
}

/// Monday's run is admitted, Tuesday's writes, Monday's is run again.
fn fence_rerun(world: &mut World) -> Held {
    world.plan(&[fails_after(2, Exit::Code(1)), works_for(5)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.retries = 0;
    world.put(&job)?;
    let monday = world.run_now("a/works")?;
    world.until_state(monday, RunState::NeedsConfirmation, MINUTE)?;
    let tuesday = world.run_now("a/works")?;
    world.until_state(tuesday, RunState::Succeeded, MINUTE)?;
    world.must(rerun(monday))?;
    world.until_state(monday, RunState::Succeeded, MINUTE)?;
    heal(world)
}

/// A run is asked for that names tonight's instant.
fn run_ahead(world: &mut World) -> Held {
    world.begin(1)?;
    world.put(&Job::every_minute("a/tonight").at("5 * * * *"))?;
    let tonight = WallMs(world.now.div_euclid(MINUTE) * MINUTE + 5 * MINUTE);
    let answer = world.ask(run("a/tonight", Some(tonight)))?;
    let refused = matches!(answer, Err(RequestError::Refused(Refusal::InFuture { .. })));
    world.run_for(5 * MINUTE + 10 * SECOND)?;
    let fires = world.fires_of("a/tonight");
    world.require(
        refused && fires == [(tonight.0, RunState::Succeeded)],
        "P1",
        "tonight's fire runs tonight",
        || format!("asked for ahead of time: {answer:?}; fires: {fires:?}"),
    );
    heal(world)
}
