//! What a run waits for, and what becomes of it then.

use ledger::RunState;
use protocol::attempt::Exit;
use protocol::{RunId, WallMs};

use super::{MINUTE, SECOND, fails_after, sequences, works_for};
use crate::invariants::p4_nothing_precious::heal;
use crate::invariants::p6_clocks::decisions;
use crate::invariants::p7_bounded::catch_ups;
use crate::world::people::{After, Job, Misfire, rerun};
use crate::world::process::Behaviour;
use crate::world::{Held, Violation, World};

sequences! {
    replace_with_stuck_process breaks without LeaseEndsByReceiptOrExpiry;
    forbid_two_waiting breaks without OverlapJudgedInApply;
    after_other_schedule breaks without ConditionsJudgedInApply;
    after_skipped breaks without ConditionsJudgedInApply;
    after_missed breaks without ConditionsJudgedInApply;
    after_in_confirmation breaks without WaitingIsBounded;
    previous_mended breaks without ConditionsJudgedInApply;
    catch_up_oldest_first breaks without CatchUpTakesTurns;
}

/// The run of a job at so many minutes after the world began.
fn run_at(world: &mut World, job: &str, minute: i64) -> Result<RunId, Violation> {
    let at = WallMs(crate::world::clock::BEGIN + minute * MINUTE);
    let job_id = world.job(job).job_id;
    let found = world.truth.runs.iter().find(|(_, facts)| {
        let scheduled = facts.namespace == ledger::Namespace::Scheduled;
        scheduled && facts.job_id == job_id && facts.fire_time == at
    });
    let found = found.map(|(&run_id, _)| run_id);
    world.require(found.is_some(), "P1", "what is due is settled", || {
        format!("{job} has no run at {at}")
    });
    world.holds().map(|()| found.expect("just demanded"))
}

fn reason_of(world: &World, run_id: RunId) -> String {
    let run = world.store.run(run_id).expect("the ledger can be read");
    run.and_then(|run| run.run.reason).unwrap_or_default()
}

/// The run has this state, for a reason that names this.
fn must_be(world: &mut World, run_id: RunId, state: RunState, names: &str) -> Held {
    let is = world.state_of(run_id);
    let reason = reason_of(world, run_id);
    world.require(
        is == Some(state) && reason.contains(names),
        "P1",
        "what is not run yet, or never, says why",
        || {
            format!(
                "{run_id} is {is:?} ({reason}), not {} ({names})",
                state.as_str()
            )
        },
    );
    world.holds()
}

/// The old run's process heeds no SIGTERM, and hangs in the kernel for a while after SIGKILL.
fn replace_with_stuck_process(world: &mut World) -> Held {
    world.plan(&[
        Behaviour {
            dies_of_term_ms: None,
            stuck_ms: 8 * SECOND,
            ..works_for(600)
        },
        works_for(5),
    ]);
    world.begin(2)?;
    let mut job = Job::every_minute("a/newest");
    job.overlap = "replace";
    world.put(&job)?;
    world.run_past_minute(10 * SECOND)?;
    let old = run_at(world, "a/newest", 1)?;
    world.run_past_minute(5 * SECOND)?;
    let new = run_at(world, "a/newest", 2)?;
    must_be(world, new, RunState::Waiting, &old.to_string())?;
    world.until_state(new, RunState::Succeeded, 30 * SECOND)?;
    must_be(world, old, RunState::Cancelled, &new.to_string())?;
    heal(world)
}

/// Two fires of a job that forbids overlap wait for the same run, which succeeds.
fn forbid_two_waiting(world: &mut World) -> Held {
    world.plan(&[works_for(170), works_for(60)]);
    world.begin(1)?;
    world.put(&Job::every_minute("a/import").at("1 * * * *"))?;
    let mut job = Job::every_minute("b/follows").at("2,3 * * * *");
    job.after = vec![("a/import".to_owned(), After::LatestWithin(1_800))];
    job.start_deadline_s = Some(600);
    world.put(&job)?;
    world.run_for(3 * MINUTE + 30 * SECOND)?;
    let import = run_at(world, "a/import", 1)?;
    let (one, other) = (
        run_at(world, "b/follows", 2)?,
        run_at(world, "b/follows", 3)?,
    );
    for waiting in [one, other] {
        must_be(world, waiting, RunState::Waiting, &import.to_string())?;
    }
    world.until_state(import, RunState::Succeeded, MINUTE)?;
    world.until_state(one, RunState::Succeeded, 3 * MINUTE)?;
    must_be(world, other, RunState::Skipped, &one.to_string())?;
    heal(world)
}

/// Both jobs fire once today: the import at two past, what comes after it at four past.
fn put_import_and_reconcile(world: &mut World, import: impl FnOnce(&mut Job)) -> Held {
    let mut job = Job::every_minute("a/import").at("2 8 * * *");
    job.retries = 0;
    import(&mut job);
    world.put(&job)?;
    let mut job = Job::every_minute("b/reconcile").at("4 8 * * *");
    job.after = vec![("a/import".to_owned(), After::SameDate)];
    job.start_deadline_s = Some(240);
    world.put(&job)
}

/// The import is still running when the reconciliation is due.
fn after_other_schedule(world: &mut World) -> Held {
    world.plan(&[works_for(180), works_for(5)]);
    world.begin(2)?;
    put_import_and_reconcile(world, |_| {})?;
    world.run_for(4 * MINUTE + 30 * SECOND)?;
    let (import, reconcile) = (
        run_at(world, "a/import", 2)?,
        run_at(world, "b/reconcile", 4)?,
    );
    must_be(world, reconcile, RunState::Waiting, &import.to_string())?;
    world.until_state(reconcile, RunState::Succeeded, 2 * MINUTE)?;
    must_be(world, import, RunState::Succeeded, "")?;
    heal(world)
}

/// The import was skipped, because a run by hand was still live.
fn after_skipped(world: &mut World) -> Held {
    world.plan(&[works_for(200), works_for(5)]);
    world.begin(2)?;
    put_import_and_reconcile(world, |_| {})?;
    world.run_for(MINUTE)?;
    world.run_now("a/import")?;
    world.run_for(3 * MINUTE + 30 * SECOND)?;
    let (import, reconcile) = (
        run_at(world, "a/import", 2)?,
        run_at(world, "b/reconcile", 4)?,
    );
    must_be(world, import, RunState::Skipped, "overlap")?;
    must_be(world, reconcile, RunState::Skipped, &import.to_string())?;
    // A person mends it, and asks for both again.
    for run_id in [import, reconcile] {
        world.must(rerun(run_id))?;
        world.until_state(run_id, RunState::Succeeded, 5 * MINUTE)?;
    }
    heal(world)
}

/// Nobody was there when the import was due, and it is not run late.
fn after_missed(world: &mut World) -> Held {
    world.begin(2)?;
    put_import_and_reconcile(world, |import| {
        import.misfire = Misfire::Skip;
        import.late_after_s = 15;
    })?;
    world.run_for(MINUTE)?;
    world.restart_leader_after(2 * MINUTE, true)?;
    world.run_for(2 * MINUTE)?;
    let (import, reconcile) = (
        run_at(world, "a/import", 2)?,
        run_at(world, "b/reconcile", 4)?,
    );
    must_be(world, import, RunState::Missed, "skip")?;
    must_be(world, reconcile, RunState::Skipped, &import.to_string())?;
    heal(world)
}

/// The import asks for a person, who does not come.
fn after_in_confirmation(world: &mut World) -> Held {
    world.plan(&[fails_after(5, Exit::Code(1))]);
    world.begin(2)?;
    put_import_and_reconcile(world, |_| {})?;
    world.run_for(7 * MINUTE)?;
    let (import, reconcile) = (
        run_at(world, "a/import", 2)?,
        run_at(world, "b/reconcile", 4)?,
    );
    must_be(world, import, RunState::NeedsConfirmation, "")?;
    must_be(world, reconcile, RunState::Waiting, "needs_confirmation")?;
    world.restart_leader_after(SECOND, true)?;
    world.run_for(2 * MINUTE)?;
    must_be(world, reconcile, RunState::Skipped, &import.to_string())?;
    heal(world)
}

/// The fire before failed; a person mends it before the next one's start deadline.
fn previous_mended(world: &mut World) -> Held {
    world.plan(&[fails_after(5, Exit::Code(1)), works_for(5)]);
    world.begin(1)?;
    let mut job = Job::every_minute("a/chain").at("1,2 * * * *");
    job.previous = Some("succeeded");
    job.retries = 0;
    job.start_deadline_s = Some(600);
    world.put(&job)?;
    world.run_for(2 * MINUTE + 30 * SECOND)?;
    let (first, second) = (run_at(world, "a/chain", 1)?, run_at(world, "a/chain", 2)?);
    must_be(world, second, RunState::Waiting, &first.to_string())?;
    world.must(rerun(first))?;
    world.until_state(second, RunState::Succeeded, MINUTE)?;
    must_be(world, first, RunState::Succeeded, "")?;
    heal(world)
}

/// An hour down: the newest three are caught up with one by one, oldest first, and the leader dies
/// between the first and the second.
fn catch_up_oldest_first(world: &mut World) -> Held {
    world.plan(&[works_for(30)]);
    world.begin(2)?;
    let mut job = Job::every_minute("a/hourly").at("*/10 * * * *");
    job.overlap = "allow";
    job.catch_up = (3, 1);
    world.put(&job)?;
    world.run_for(MINUTE)?;
    world.restart_leader_after(64 * MINUTE, true)?;
    world.run_for(45 * SECOND)?;
    world.restart_leader_after(SECOND, false)?;
    world.run_for(3 * MINUTE)?;
    let mut starts = Vec::new();
    for minute in [40, 50, 60] {
        let run_id = run_at(world, "a/hourly", minute)?;
        must_be(world, run_id, RunState::Succeeded, "")?;
        let of_run = world.processes.values().filter(|p| p.run_id == run_id);
        starts.push(of_run.map(|process| process.granted).min());
    }
    let log = world.log.iter();
    let caught_up: usize = log
        .filter_map(|proposal| decisions(&proposal.command))
        .map(catch_ups)
        .sum();
    world.require(
        starts.is_sorted() && caught_up == 3,
        "P7",
        "what is caught up with runs oldest first",
        || format!("granted at {starts:?}, {caught_up} caught up with"),
    );
    heal(world)
}
