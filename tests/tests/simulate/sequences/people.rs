//! What people do at a bad moment.

use coordinator_core::{Request, RequestError};
use ledger::command::Verdict;
use ledger::{Refusal, RunState};
use protocol::attempt::Exit;
use protocol::{RunId, WallMs};

use super::{MINUTE, SECOND, fails_after, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::tables::{number, text};
use crate::world::people::{Job, cancel, confirm, redo, rerun, run};
use crate::world::process::Behaviour;
use crate::world::{Held, Violation, World};

sequences! {
    cancel_then_rerun breaks without LeaseEndsByReceiptOrExpiry;
    forbid_manual_in_between breaks without OverlapJudgedInApply;
    fence_rerun breaks without FencePerExecution;
    run_ahead breaks without ManualRunsStayInThePast;
    redo_while_leased breaks without LeaseEndsByReceiptOrExpiry;
    fence_redo breaks without FencePerExecution;
    redo_not_harmless breaks without RedoNeedsHarmless;
    nobody_answers breaks without PersonIsReminded;
}

/// A run that is cancelled, and whose process does not heed SIGTERM.
fn cancelled_and_deaf(world: &mut World) -> Result<RunId, Violation> {
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
    Ok(run_id)
}

/// Cancelled, and at once asked for again, while the process does not heed SIGTERM.
fn cancel_then_rerun(world: &mut World) -> Held {
    let run_id = cancelled_and_deaf(world)?;
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

/// A later run writes, and then the first is asked for once more.
fn again_after_tuesday(world: &mut World, monday: RunId, again: Request) -> Held {
    let tuesday = world.run_now("a/works")?;
    world.until_state(tuesday, RunState::Succeeded, MINUTE)?;
    world.must(again)?;
    world.run_for(SECOND)?;
    world.until_state(monday, RunState::Succeeded, MINUTE)?;
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
    again_after_tuesday(world, monday, rerun(monday))
}

/// Cancelled, and at once to be redone, while the process does not heed SIGTERM.
fn redo_while_leased(world: &mut World) -> Held {
    let run_id = cancelled_and_deaf(world)?;
    let answer = world.ask(redo(run_id, false))?;
    world.run_for(SECOND)?;
    let refused = matches!(
        answer,
        Err(RequestError::Refused(Refusal::WrongRunState { .. }))
    );
    world.require(refused, "P2", "no redo while a lease lives", || {
        format!("{answer:?}")
    });
    world.until_state(run_id, RunState::Cancelled, MINUTE)?;
    world.must(redo(run_id, false))?;
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    heal(world)
}

/// Monday's run has succeeded, Tuesday's writes, Monday's is redone.
fn fence_redo(world: &mut World) -> Held {
    world.plan(&[works_for(5)]);
    world.begin(1)?;
    world.put(&Job::on_demand("a/works"))?;
    let monday = world.run_now("a/works")?;
    world.until_state(monday, RunState::Succeeded, MINUTE)?;
    again_after_tuesday(world, monday, redo(monday, false))
}

/// Work that must not be done twice has been done, and somebody asks for all of it again.
fn redo_not_harmless(world: &mut World) -> Held {
    world.plan(&[works_for(5)]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/pays");
    job.safe = false;
    world.put(&job)?;
    let run_id = world.run_now("a/pays")?;
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    let answer = world.ask(redo(run_id, false))?;
    let refused = matches!(
        answer,
        Err(RequestError::Refused(Refusal::NotHarmless { .. }))
    );
    world.require(
        refused,
        "P2",
        "what is not harmless is redone by force only",
        || format!("{answer:?}"),
    );
    world.must(redo(run_id, true))?;
    world.run_for(SECOND)?;
    world.until_state(run_id, RunState::Succeeded, MINUTE)?;
    heal(world)
}

/// A run needs a person, and nobody answers for ten hours, while leaders come and go.
fn nobody_answers(world: &mut World) -> Held {
    const HOURS: i64 = 60 * MINUTE;
    world.plan(&[fails_after(2, Exit::Code(1))]);
    world.begin(1)?;
    let mut job = Job::on_demand("a/works");
    job.retries = 0;
    world.put(&job)?;
    let run_id = world.run_now("a/works")?;
    world.until_state(run_id, RunState::NeedsConfirmation, MINUTE)?;
    for _ in 0..2 {
        world.restart_leader_after(5 * HOURS, true)?;
        world.run_for(MINUTE)?;
    }
    let tables = world.tables();
    let counts: Vec<i64> = tables
        .rows("alerts")
        .iter()
        .filter(|alert| text(alert, "text").contains("needs a person"))
        .map(|alert| number(alert, "count"))
        .collect();
    world.require(
        counts == [3],
        "P7",
        "who is needed is told again while it lasts",
        || format!("told {counts:?} times in ten hours"),
    );
    world.must(confirm(run_id, Verdict::Succeeded))?;
    crate::invariants::audit(world)?;
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
