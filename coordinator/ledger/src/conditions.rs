//! What must have happened before a fire of the schedule may start: its turn to catch up, the runs
//! of other jobs that it comes after, the job's own fire before it.
//!
//! Found on rows, without asking any schedule: a run that is not there yet may still come, and is
//! waited for until the start deadline. What a person asks for does not wait for any of it, and a
//! run that has started once had all of it.

use jobs::{Previous, Which};
use protocol::attempt::Trigger;
use protocol::{DurationMs, JobId, Rule, RunId, WallMs};
use rusqlite::{OptionalExtension, Row, params};

use crate::admission::{Never, Verdict};
use crate::apply::{Context, Stop};
use crate::codes::{Coded, coded};
use crate::overlap::{counts, is_new};
use crate::rows::{Blocker, Namespace, RunState};
use crate::tables::job::{Policy, Predecessor};
use crate::tables::run::{OpenRun, Run};

/// As far as a local date can begin before or end after the same date in UTC, with room for a zone
/// that leaves out a day.
const DATE_SLACK: DurationMs = DurationMs(40 * 3_600_000);

const DAY: DurationMs = DurationMs(24 * 3_600_000);

/// A run that another one looks for.
#[derive(Clone, Copy, Debug)]
struct Found {
    run_id: RunId,
    state: RunState,
    fire_time: WallMs,
}

impl Context<'_> {
    /// `None` where nothing of this keeps the run from starting.
    pub(crate) fn judge_conditions(
        &self,
        run: &Run,
        policy: &Policy,
    ) -> Result<Option<Verdict>, Stop> {
        if !is_new(run, &[Trigger::Scheduled, Trigger::CatchUp]) {
            return Ok(None);
        }
        if let Some(turn) = self.judge_turn(run, policy)? {
            return Ok(Some(Verdict::Wait(turn)));
        }
        if !self.rules.on(Rule::ConditionsJudgedInApply) {
            return Ok(None);
        }
        let mut waits = None;
        for predecessor in &policy.after {
            match self.judge_after(run, predecessor)? {
                // One that has failed is enough, whatever becomes of the others.
                Some(Verdict::Skip(never)) => return Ok(Some(Verdict::Skip(never))),
                verdict => waits = waits.or(verdict),
            }
        }
        if waits.is_some() {
            return Ok(waits);
        }
        Ok(self.judge_previous(run, policy)?.map(Verdict::Wait))
    }

    /// Catch-up runs of a job go oldest first, so many at once.
    fn judge_turn(&self, run: &Run, policy: &Policy) -> Result<Option<Blocker>, Stop> {
        if run.row.trigger != Trigger::CatchUp || !self.rules.on(Rule::CatchUpTakesTurns) {
            return Ok(None);
        }
        let open =
            |other: &OpenRun| other.state == RunState::Waiting || counts(other, policy.serial);
        let mut older = self.open_runs(run.row.job_id)?;
        older.retain(|other| {
            other.trigger == Trigger::CatchUp && other.fire_time < run.row.fire_time && open(other)
        });
        if older.len() < policy.catch_up_concurrency as usize {
            return Ok(None);
        }
        let newest = older.iter().max_by_key(|other| other.fire_time);
        Ok(newest.map(|other| Blocker::Turn { run: other.run_id }))
    }

    /// Of the job's own fire before. One that ended without success is still waited for, where its
    /// success is: it may be mended.
    fn judge_previous(&self, run: &Run, policy: &Policy) -> Result<Option<Blocker>, Stop> {
        let Some(needed) = policy.previous else {
            return Ok(None);
        };
        let job_id = run.row.job_id;
        let before = run.row.fire_time - DurationMs(1);
        let Some(found) = self.newest_fire(job_id, WallMs(i64::MIN), before)? else {
            return Ok(None);
        };
        let met = match needed {
            Previous::Succeeded => found.state == RunState::Succeeded,
            Previous::Ended => {
                let asks = found.state == RunState::NeedsConfirmation;
                found.state.is_final() || (asks && policy.serial == jobs::Serial::Relaxed)
            }
        };
        Ok((!met).then_some(Blocker::Previous { run: found.run_id }))
    }

    fn judge_after(&self, run: &Run, after: &Predecessor) -> Result<Option<Verdict>, Stop> {
        let job = after.job;
        let Some(found) = self.predecessor(run, after)? else {
            return Ok(Some(Verdict::Wait(Blocker::After { job, run: None })));
        };
        let run = found.run_id;
        Ok(match found.state {
            RunState::Succeeded => None,
            state if state.is_final() => Some(Verdict::Skip(Never::After { job, run, state })),
            _ => Some(Verdict::Wait(Blocker::After {
                job,
                run: Some(run),
            })),
        })
    }

    /// The run of another job that this one comes after, if it is there.
    fn predecessor(&self, run: &Run, after: &Predecessor) -> Result<Option<Found>, Stop> {
        let at = run.row.fire_time;
        match after.which {
            Which::SameFire => self.newest_fire(after.job, at, at),
            Which::SameDate => match run.row.nominal.first().and_then(|text| text.get(..10)) {
                Some(date) => self.fire_of_date(after.job, date, at),
                None => Ok(None),
            },
            Which::LatestWithin(length) => {
                // One that a person asked for is as good.
                let newest = |namespace| self.newest_run(after.job, namespace, at - length, at);
                let found = [newest(Namespace::Scheduled)?, newest(Namespace::Manual)?];
                Ok(found
                    .into_iter()
                    .flatten()
                    .max_by_key(|found| found.fire_time))
            }
        }
    }

    fn newest_fire(
        &self,
        job_id: JobId,
        from: WallMs,
        through: WallMs,
    ) -> Result<Option<Found>, Stop> {
        self.newest_run(job_id, Namespace::Scheduled, from, through)
    }

    /// The job's newest run with a fire time from `from` through `through`.
    fn newest_run(
        &self,
        job_id: JobId,
        namespace: Namespace,
        from: WallMs,
        through: WallMs,
    ) -> Result<Option<Found>, Stop> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT run_id, state, fire_time FROM runs
                 WHERE job_id = ?1 AND namespace = ?2 AND fire_time BETWEEN ?3 AND ?4
                 ORDER BY fire_time DESC LIMIT 1",
            )?
            .query_row(
                params![job_id.0, namespace.code(), from.0, through.0],
                read_found,
            )
            .optional()?)
    }

    /// Of the job's fires of a local date the newest one that is not after `at`, else the first one
    /// after it. Walks the index from `at` until the date is met, within the days that it may touch.
    fn fire_of_date(&self, job_id: JobId, date: &str, at: WallMs) -> Result<Option<Found>, Stop> {
        let Some(midnight) = self.utc_midnight(date)? else {
            return Ok(None);
        };
        let (from, through) = (midnight - DATE_SLACK, midnight + DAY + DATE_SLACK);
        let named = format!("%\"{date}T%");
        for (from, through, order) in [
            (from, at.min(through), "DESC"),
            ((at + DurationMs(1)).max(from), through, "ASC"),
        ] {
            let found = self
                .conn
                .prepare_cached(&format!(
                    "SELECT run_id, state, fire_time FROM runs
                     WHERE job_id = ?1 AND namespace = ?2 AND fire_time BETWEEN ?3 AND ?4
                        AND nominal LIKE ?5
                     ORDER BY fire_time {order} LIMIT 1"
                ))?
                .query_row(
                    params![
                        job_id.0,
                        Namespace::Scheduled.code(),
                        from.0,
                        through.0,
                        named
                    ],
                    read_found,
                )
                .optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// When a date begins in UTC; `None` for what is no date.
    fn utc_midnight(&self, date: &str) -> Result<Option<WallMs>, Stop> {
        let seconds: Option<i64> = self
            .conn
            .prepare_cached("SELECT unixepoch(?1)")?
            .query_row([date], |row| row.get(0))?;
        Ok(seconds.map(|seconds| WallMs(seconds * 1000)))
    }
}

fn read_found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok(Found {
        run_id: RunId(row.get(0)?),
        state: coded(row, 1)?,
        fire_time: WallMs(row.get(2)?),
    })
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;
    use protocol::{AgentId, SessionId, api};

    use super::*;
    use crate::command::{
        Admit, CancelRun, Confirm, Decision, Fire, Rerun, RerunScope, Verdict as Answer,
    };
    use crate::outcome::Done;
    use crate::testing::{Bed, MINUTE, attach, end, finish, fire, late_at, manual, run_at};

    const HOUR: i64 = 60;

    /// Two jobs, the second after the first, and a host.
    struct Pair {
        bed: Bed,
        import: JobId,
        job: JobId,
        agent: (AgentId, SessionId),
    }

    fn pair(policy: &str) -> Pair {
        let mut bed = Bed::new();
        let import = bed.job_named(
            "team/import",
            "overlap: allow\nretry: { at_most: 0, backoff: [1s] }",
        );
        let job = bed.job(&format!("overlap: allow\n{policy}"));
        let agent = bed.attach(attach("h1"));
        Pair {
            bed,
            import,
            job,
            agent,
        }
    }

    impl Pair {
        /// Fires a job at this minute, which is on this local date.
        fn fire_on(&mut self, job_id: JobId, minute: i64, date: &str) -> RunId {
            let from = self.bed.set.jobs[&job_id].fired_through;
            let decision = Decision::Run {
                fire_time: WallMs(minute * MINUTE),
                nominal: vec![format!("{date}T12:00:00")],
                trigger: Trigger::Scheduled,
                start_deadline: Some(DurationMs(MINUTE)),
            };
            let fired = self.bed.ok(Fire {
                decisions: vec![decision],
                ..fire(job_id, 1, from, minute * MINUTE, [])
            });
            match fired {
                Done::Fired { runs } => runs[0].0,
                other => panic!("{other:?}"),
            }
        }

        /// Ends a run in this state.
        fn end(&mut self, run_id: RunId, state: &str) {
            let (by, reason) = ("ada".to_owned(), "so".to_owned());
            let ask = |pair: &mut Pair| {
                let token = pair.bed.grant(run_id, 0, pair.agent.1);
                pair.bed
                    .ok(finish(pair.agent.0, token, end(AttemptOutcome::Failed)));
            };
            match state {
                "succeeded" => self.bed.carry_out(run_id, self.agent),
                "cancelled" => {
                    self.bed.ok(CancelRun { run_id, by, reason });
                }
                "needs_confirmation" => ask(self),
                "failed" => {
                    ask(self);
                    let (shard, verdict) = (None, Answer::Failed);
                    self.bed.ok(Confirm {
                        run_id,
                        shard,
                        verdict,
                        by,
                        reason,
                    });
                }
                other => panic!("{other}"),
            }
            assert_eq!(self.bed.state(run_id), state);
        }

        fn judge(&mut self, run_id: RunId) -> String {
            self.bed.ok(Admit { run_id });
            self.bed.state(run_id)
        }
    }

    #[test]
    fn what_became_of_the_run_before_decides() {
        for (state, expected) in [
            ("succeeded", "ready"),
            ("cancelled", "skipped"),
            ("failed", "skipped"),
            ("needs_confirmation", "waiting"),
        ] {
            let mut pair = pair("after: [{ job: team/import, match: same_fire }]");
            let before = pair.fire_on(pair.import, 5, "1970-01-01");
            let run = pair.fire_on(pair.job, 5, "1970-01-01");
            assert_eq!(pair.bed.reason(run), "after: run-1 of team/import is ready");
            pair.end(before, state);
            assert_eq!(pair.judge(run), expected, "{state}");
            match expected {
                "skipped" => {
                    assert_eq!(
                        pair.bed.reason(run),
                        format!("after: run-1 of team/import is {state}")
                    );
                    assert_eq!(
                        pair.bed
                            .view("SELECT run FROM alert_view WHERE kind = 'predecessor_failed'"),
                        ["run-2"]
                    );
                    // A person asked, so it waits for nothing.
                    pair.bed.ok(rerun(run));
                    assert_eq!(pair.bed.state(run), "ready");
                }
                "waiting" => assert_eq!(
                    pair.bed.reason(run),
                    "after: run-1 of team/import is needs_confirmation"
                ),
                _ => {}
            }
        }
    }

    fn rerun(run_id: RunId) -> Rerun {
        Rerun {
            run_id,
            scope: RerunScope::Run,
            by: "ada".to_owned(),
            reason: "mended".to_owned(),
        }
    }

    /// Which of another job's runs is meant: fires of that job as (minute, date), the minute and
    /// date of this one, and the minute of the run that it waits for.
    #[test]
    fn which_run_is_meant() {
        type Case = (
            &'static str,
            &'static [(i64, &'static str)],
            (i64, &'static str),
            Option<i64>,
        );
        const D1: &str = "1970-01-02";
        const D2: &str = "1970-01-03";
        let cases: &[Case] = &[
            (
                "match: same_fire",
                &[(100, D1), (105, D1)],
                (105, D1),
                Some(105),
            ),
            ("match: same_fire", &[(100, D1)], (105, D1), None),
            // The newest of the date that is not after it, else the first after it.
            (
                "match: same_date",
                &[(2000, D1), (2100, D1), (2300, D1)],
                (2200, D1),
                Some(2100),
            ),
            (
                "match: same_date",
                &[(2300, D1), (2400, D1)],
                (2200, D1),
                Some(2300),
            ),
            (
                "match: same_date",
                &[(2000, D1), (2300, D2)],
                (2200, D2),
                Some(2300),
            ),
            (
                "match: same_date",
                &[(2000, D1), (2100, D2)],
                (2200, D1),
                Some(2000),
            ),
            ("match: same_date", &[(2000, D1)], (2200, D2), None),
            // A zone a day ahead.
            (
                "match: same_date",
                &[(24 * HOUR - 10 * HOUR, D2)],
                (48 * HOUR, D2),
                Some(14 * HOUR),
            ),
            (
                "latest_within: 1h",
                &[(100, D1), (150, D1)],
                (160, D1),
                Some(150),
            ),
            (
                "latest_within: 1h",
                &[(100, D1), (170, D1)],
                (160, D1),
                Some(100),
            ),
            ("latest_within: 1h", &[(99, D1)], (160, D1), None),
            ("latest_within: 1h", &[(160, D1)], (160, D1), Some(160)),
        ];
        for (which, fires, (minute, date), expected) in cases {
            let mut pair = pair(&format!("after: [{{ job: team/import, {which} }}]"));
            for (minute, date) in *fires {
                pair.fire_on(pair.import, *minute, date);
            }
            let run = pair.fire_on(pair.job, *minute, date);
            let on = pair.bed.run(run).waits.map(|wait| wait.on);
            let found = match on {
                Some(Blocker::After { run, .. }) => run,
                other => panic!("{which} {fires:?}: {other:?}"),
            };
            let found = found.map(|run_id| pair.bed.run(run_id).fire_time.0 / MINUTE);
            assert_eq!(found, *expected, "{which} {fires:?} for {minute} on {date}");
        }
    }

    #[test]
    fn a_run_that_is_not_there_yet_is_waited_for() {
        let mut pair = pair("after: [{ job: team/import, match: same_fire }]");
        let run = pair.fire_on(pair.job, 5, "1970-01-01");
        assert_eq!(
            pair.bed.reason(run),
            "after: team/import has no run for this fire yet"
        );
        let before = pair.fire_on(pair.import, 5, "1970-01-01");
        assert_eq!(pair.judge(run), "waiting");
        assert_eq!(
            pair.bed.reason(run),
            format!("after: {before} of team/import is ready")
        );
    }

    /// What the API tells of a run that waits, but for its times.
    fn told(bed: &Bed, run: RunId) -> (api::RunWaitKind, String, Option<RunId>, Option<RunState>) {
        let row = bed.run(run);
        let shown = bed.store.run(run).unwrap().unwrap().run;
        let waits = shown.waits_for.unwrap();
        assert_eq!(waits.since, row.waits.unwrap().since);
        assert_eq!(waits.until, Some(row.admitted_at + DurationMs(MINUTE)));
        assert_eq!(shown.reason, Some(bed.reason(run)));
        (waits.kind, waits.job.to_string(), waits.run, waits.state)
    }

    #[test]
    fn what_a_run_waits_for_is_told_as_data_too() {
        let ready = Some(RunState::Ready);
        let import = || "team/import".to_owned();
        let mut pair = pair("after: [{ job: team/import, match: same_fire }]");
        let run = pair.fire_on(pair.job, 5, "1970-01-01");
        let kind = api::RunWaitKind::After;
        assert_eq!(told(&pair.bed, run), (kind, import(), None, None));
        let before = pair.fire_on(pair.import, 5, "1970-01-01");
        assert_eq!(pair.judge(run), "waiting");
        assert_eq!(told(&pair.bed, run), (kind, import(), Some(before), ready));
        pair.end(before, "succeeded");
        assert_eq!(pair.judge(run), "ready");
        let shown = pair.bed.store.run(run).unwrap().unwrap().run;
        assert_eq!(shown.waits_for, None);

        for (policy, kind) in [
            ("previous: succeeded", api::RunWaitKind::Previous),
            ("overlap: queue", api::RunWaitKind::Overlap),
        ] {
            let mut bed = Bed::new();
            let job = bed.job(policy);
            let (first, _) = bed.fire(job, 1);
            let (second, _) = bed.fire(job, 2);
            let own = "team/job".to_owned();
            assert_eq!(told(&bed, second), (kind, own, Some(first), ready));
        }
    }

    #[test]
    fn a_run_that_a_person_asked_for_is_as_good_where_the_newest_counts() {
        let mut pair = pair("after: [{ job: team/import, latest_within: 1h }]");
        let failed = pair.fire_on(pair.import, 5, "1970-01-01");
        pair.end(failed, "failed");
        pair.bed.at = WallMs(6 * MINUTE);
        pair.bed.ok(manual(pair.import));
        pair.end(RunId(2), "succeeded");
        let run = pair.fire_on(pair.job, 7, "1970-01-01");
        assert_eq!(pair.bed.state(run), "ready");
    }

    #[test]
    fn manual_runs_wait_for_no_condition() {
        let policy = "previous: succeeded\nafter: [{ job: team/import, match: same_fire }]";
        let mut pair = pair(policy);
        pair.bed.ok(manual(pair.job));
        assert_eq!(pair.bed.state(RunId(1)), "ready");
    }

    #[test]
    fn the_fire_before_must_have_succeeded_or_ended() {
        for (policy, state, expected) in [
            ("previous: succeeded", "succeeded", "ready"),
            ("previous: succeeded", "failed", "waiting"),
            ("previous: succeeded", "cancelled", "waiting"),
            ("previous: succeeded", "needs_confirmation", "waiting"),
            ("previous: ended", "succeeded", "ready"),
            ("previous: ended", "failed", "ready"),
            ("previous: ended", "cancelled", "ready"),
            ("previous: ended", "needs_confirmation", "ready"),
            (
                "previous: ended\nserial: strict",
                "needs_confirmation",
                "waiting",
            ),
        ] {
            let retries = "retry: { at_most: 0, backoff: [1s] }";
            let mut pair = pair(&format!("{policy}\n{retries}"));
            let first = pair.fire_on(pair.job, 1, "1970-01-01");
            assert_eq!(
                pair.bed.state(first),
                "ready",
                "the first has none before it"
            );
            let second = pair.fire_on(pair.job, 2, "1970-01-01");
            assert_eq!(pair.bed.state(second), "waiting");
            pair.end(first, state);
            // Whoever reads before it is judged again is not sent to mend what need not be.
            let is_held_up =
                policy == "previous: succeeded" && matches!(state, "failed" | "cancelled");
            let words = pair.bed.reason(second);
            assert_eq!(
                words.ends_with(" and must be rerun first"),
                is_held_up,
                "{policy} {state}: {words}"
            );
            assert_eq!(pair.judge(second), expected, "{policy} {state}");
            if expected == "waiting" {
                assert_eq!(
                    pair.bed.reason(second),
                    match state {
                        "failed" | "cancelled" => format!(
                            "previous: the fire before is run-1, which is {state} and must be rerun first"
                        ),
                        _ => format!("previous: the fire before is run-1, which is {state}"),
                    }
                );
            }
        }
    }

    #[test]
    fn a_rerun_mends_what_is_waited_for() {
        let mut pair = pair("previous: succeeded");
        let first = pair.fire_on(pair.job, 1, "1970-01-01");
        let second = pair.fire_on(pair.job, 2, "1970-01-01");
        pair.end(first, "cancelled");
        assert_eq!(pair.judge(second), "waiting");
        pair.bed.ok(rerun(first));
        pair.end(first, "succeeded");
        assert_eq!(pair.judge(second), "ready");
    }

    #[test]
    fn catch_up_runs_go_oldest_first_so_many_at_once() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: allow\ncatch_up: { at_most: 5, concurrency: 2 }");
        let agent = bed.attach(attach("h1"));
        bed.ok(Fire {
            decisions: (1..=5).map(late_at).chain([run_at(6)]).collect(),
            ..fire(job, 1, WallMs(0), 6 * MINUTE, [])
        });
        let states = |bed: &Bed| bed.view("SELECT state FROM run_view ORDER BY fire_time");
        assert_eq!(
            states(&bed),
            ["ready", "ready", "waiting", "waiting", "waiting", "ready"]
        );
        assert_eq!(
            bed.reason(RunId(4)),
            "catch_up: its turn comes after run-3, which is waiting"
        );
        bed.carry_out(RunId(2), agent);
        bed.ok(Admit { run_id: RunId(4) });
        bed.ok(Admit { run_id: RunId(3) });
        assert_eq!(
            states(&bed),
            ["ready", "succeeded", "ready", "waiting", "waiting", "ready"]
        );
    }

    /// For its turn it may wait for as long as the outage was.
    #[test]
    fn what_catches_up_has_a_deadline_only_while_it_waits_for_a_condition() {
        let mut bed = Bed::new();
        bed.job_named("team/import", "");
        let job = bed.job(
            "overlap: allow\ncatch_up: { at_most: 2, concurrency: 1 }\n\
             after: [{ job: team/import, latest_within: 1h }]",
        );
        bed.at = WallMs(9 * MINUTE);
        let late = |minute| Decision::Run {
            fire_time: WallMs(minute * MINUTE),
            nominal: Vec::new(),
            trigger: Trigger::CatchUp,
            start_deadline: Some(DurationMs(MINUTE)),
        };
        bed.ok(Fire {
            decisions: vec![late(1), late(2)],
            ..fire(job, 1, WallMs(0), 2 * MINUTE, [])
        });
        let waits = [RunId(1), RunId(2)].map(|run| {
            let shown = bed.store.run(run).unwrap().unwrap().run;
            let waits = shown.waits_for.unwrap();
            (waits.kind, waits.until)
        });
        let until = Some(WallMs(10 * MINUTE));
        assert_eq!(
            waits,
            [
                (api::RunWaitKind::After, until),
                (api::RunWaitKind::CatchUpTurn, None)
            ]
        );
    }

    #[test]
    fn without_turns_they_all_start_and_without_conditions_so_does_everything() {
        let mut bed = Bed::without(Rule::CatchUpTakesTurns);
        let job = bed.job("overlap: allow\ncatch_up: { at_most: 2 }");
        bed.ok(Fire {
            decisions: vec![late_at(1), late_at(2)],
            ..fire(job, 1, WallMs(0), 2 * MINUTE, [])
        });
        assert_eq!(bed.state(RunId(2)), "ready");
        let mut bed = Bed::without(Rule::ConditionsJudgedInApply);
        bed.job_named("team/import", "");
        let job = bed.job(
            "overlap: allow\nprevious: succeeded\nafter: [{ job: team/import, match: same_fire }]",
        );
        bed.fire(job, 1);
        bed.fire(job, 2);
        assert_eq!(bed.state(RunId(2)), "ready");
    }
}
