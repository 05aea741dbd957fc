use std::borrow::Cow;

use protocol::attempt::{AttemptEnd, AttemptOutcome};
use protocol::{AgentId, Rule, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop};
use crate::ended::Ended;
use crate::outcome::{Done, Refusal};
use crate::rows::ShardState;
use crate::tables::attempt::Attempt;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// A receipt: how an attempt ended. Counts in any epoch while no later lease of the shard was
/// granted; after that it is recorded as stale and changes nothing. So it is with a lease from before
/// a restore: whether a later one was granted, nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    pub agent_id: AgentId,
    pub token: Token,
    pub end: AttemptEnd,
}

impl Finish {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let token = self.token;
        let attempt = context.attempt_of(token, self.agent_id)?;
        if let Some(agent) = context.agent(self.agent_id)? {
            agent.refuse_revoked()?;
        }
        if attempt.heard {
            return Err(Refusal::AlreadyEnded { token }.into());
        }
        let mut run = context.run(attempt.run_id)?;
        let mut shard = context.shard(attempt.run_id, attempt.shard)?;
        if context.is_before_restore(token) {
            return self.note_stale(context, &attempt, &mut run, &mut shard);
        }
        if shard.lease().is_some_and(|lease| lease.token == token) {
            let end = self.believed(&attempt);
            context.end_attempt_by_receipt(token, &end)?;
            context.settle(&mut run, &mut shard, ended(&end, &attempt))?;
        } else if shard.token == Some(token) {
            self.correct_presumed_end(context, &attempt, &mut run, &mut shard)?;
        } else {
            return self.note_stale(context, &attempt, &mut run, &mut shard);
        }
        Ok(Done::Finished { counted: true })
    }

    /// The lease had been given up, but nobody was given another: what the host says is better
    /// than what was presumed. Only success moves the shard; whatever else it says, the expiry
    /// has already seen to the retry.
    fn correct_presumed_end(
        &self,
        context: &mut Context<'_>,
        attempt: &Attempt,
        run: &mut Run,
        shard: &mut Shard,
    ) -> Result<(), Stop> {
        if !context.rules.on(Rule::ReceiptCountsWithCurrentToken) {
            return Err(Refusal::NotCurrent { token: self.token }.into());
        }
        context.end_attempt_by_receipt(self.token, &self.believed(attempt))?;
        let undecided = matches!(
            shard.row.state,
            ShardState::Pending { .. } | ShardState::NeedsConfirmation
        );
        let succeeded = self.end.outcome == AttemptOutcome::Succeeded;
        if succeeded && undecided && !run.row.state.is_final() {
            context.move_shard(run, shard, ShardState::Succeeded, None)?;
            context.roll_up(run)?;
            context.settle_plea_of_live(run)?;
        }
        Ok(())
    }

    /// Another lease was granted since: the receipt is kept as stale.
    fn note_stale(
        &self,
        context: &mut Context<'_>,
        attempt: &Attempt,
        run: &mut Run,
        shard: &mut Shard,
    ) -> Result<Done, Stop> {
        context.note_stale_receipt(self.token, self.end.outcome)?;
        let settles = !context.rules.on(Rule::StaleReceiptChangesNothing);
        if settles && !run.row.state.is_final() {
            context.settle(run, shard, ended(&self.believed(attempt), attempt))?;
        }
        Ok(Done::Finished { counted: settles })
    }

    /// What the host said, unless it calls "never begun" what is known to have begun: then nobody
    /// knows what it did, whatever made the host forget.
    fn believed(&self, attempt: &Attempt) -> Cow<'_, AttemptEnd> {
        let never_began = matches!(
            self.end.outcome,
            AttemptOutcome::Refused | AttemptOutcome::NeverStarted
        );
        if !never_began || !has_started(&self.end, attempt) {
            return Cow::Borrowed(&self.end);
        }
        let said = self.end.reason.as_deref().unwrap_or("no reason");
        let outcome = self.end.outcome.as_str();
        Cow::Owned(AttemptEnd {
            outcome: AttemptOutcome::Lost,
            reason: Some(format!(
                "it had begun, and its host called it {outcome}: {said}"
            )),
            ..self.end.clone()
        })
    }
}

fn has_started(end: &AttemptEnd, attempt: &Attempt) -> bool {
    end.started_at.is_some() || attempt.started_at.is_some()
}

fn ended<'a>(end: &'a AttemptEnd, attempt: &Attempt) -> Ended<'a> {
    Ended {
        outcome: end.outcome,
        exit: end.exit,
        out_of_memory: end.out_of_memory,
        started: has_started(end, attempt),
        reason: end.reason.as_deref(),
        tail: &end.tail,
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::{Counted, Exit, Limit, Usage};
    use protocol::{DurationMs, JobId, RunId, SessionId, WallMs};

    use super::*;
    use crate::command::{AttachAgent, CancelRun, Confirm, Expire, MarkStarted, Verdict};
    use crate::rows::RunState;
    use crate::testing::{Bed, attach, end, finish};

    const UNSAFE: &str = "repeatable: { safe: false }";

    /// A job with one granted shard.
    struct Granted {
        bed: Bed,
        job: JobId,
        run: RunId,
        agent: (AgentId, SessionId),
        token: Token,
    }

    fn granted(bed: Bed, yaml: &str) -> Granted {
        let mut bed = bed;
        let job = bed.job(yaml);
        let agent = bed.attach(AttachAgent {
            slots: 64,
            ..attach("h1")
        });
        let (run, _) = bed.fire(job, 1);
        let token = bed.grant(run, 0, agent.1);
        Granted {
            bed,
            job,
            run,
            agent,
            token,
        }
    }

    impl Granted {
        fn finish(&mut self, outcome: AttemptOutcome) -> Done {
            self.bed.ok(finish(self.agent.0, self.token, end(outcome)))
        }

        fn grant(&mut self) {
            self.token = self.bed.grant(self.run, 0, self.agent.1);
        }

        fn expire(&mut self) {
            self.bed.ok(Expire {
                run_id: self.run,
                shard: 0,
                token: self.token,
                reason: "silent for 60 s".to_owned(),
            });
        }

        fn shard_state(&self) -> &'static str {
            self.bed.shard(self.run, 0).state.as_str()
        }
    }

    #[test]
    fn only_the_holder_may_finish_and_only_once() {
        let mut at = granted(Bed::new(), "");
        let other = at.bed.attach(attach("h2"));
        let (agent_id, token) = (at.agent.0, at.token);
        let by = |agent_id, token| finish(agent_id, token, end(AttemptOutcome::Succeeded));
        assert_eq!(
            at.bed.refused(by(agent_id, Token(99))),
            Refusal::NoSuchToken { token: Token(99) }
        );
        assert_eq!(
            at.bed.refused(by(other.0, token)),
            Refusal::NotYourToken { token }
        );
        at.bed.ok(by(agent_id, token));
        assert_eq!(
            at.bed.refused(by(agent_id, token)),
            Refusal::AlreadyEnded { token }
        );
        assert_eq!(at.bed.state(at.run), "succeeded");
    }

    #[test]
    fn what_the_host_saw_is_kept() {
        let mut at = granted(Bed::new(), "");
        let seen = AttemptEnd {
            exit: Some(Exit::Signal(9)),
            memory_bytes_peak: u64::MAX,
            out_of_memory: true,
            usage: Some(Box::new(Usage {
                read_bytes: Some(u64::MAX),
                stall_io_ms: Some(7),
                partial: vec![Counted::Io, Counted::Cpu, Counted::Io],
                ..Usage::default()
            })),
            not_enforced: vec![Limit::Pids, Limit::Memory, Limit::Pids],
            reason: Some("x".repeat(10_000)),
            tail: "y".repeat(10_000),
            ..end(AttemptOutcome::Failed)
        };
        at.bed.ok(finish(at.agent.0, at.token, seen));
        assert_eq!(
            at.bed.view(
                "SELECT outcome, receipt, exit_code, exit_signal, cpu_ms, memory_bytes_peak,
                    out_of_memory, limits_not_enforced, length(reason), length(tail), started_at,
                    ended_at, read_bytes, write_bytes, stall_io_ms, counted_in_part
                 FROM attempt_view"
            ),
            [format!(
                "failed|yes|-|9|5|{}|yes|memory, pids|2048|4096|1970-01-01T00:00:00.001Z|\
                 1970-01-01T00:00:00.002Z|{0}|-|7|cpu, io",
                i64::MAX
            )]
        );
    }

    #[test]
    fn failures_use_up_retries_with_backoff_and_then_a_person_is_asked() {
        let mut at = granted(Bed::new(), "");
        for (retries, delay) in [(1, 1000), (2, 5000)] {
            at.bed.at = WallMs(retries * 10_000);
            at.finish(AttemptOutcome::Failed);
            let shard = at.bed.shard(at.run, 0);
            assert_eq!(i64::from(shard.retries_used), retries);
            let pending = ShardState::Pending {
                since: at.bed.at,
                delay: DurationMs(delay),
            };
            assert_eq!(shard.state, pending);
            assert_eq!(at.bed.run(at.run).state, RunState::Running);
            at.grant();
        }
        at.finish(AttemptOutcome::TimedOut);
        assert_eq!(at.bed.run(at.run).state, RunState::NeedsConfirmation);
        let why = "timed out after 1m on h1; 2 of 2 retries are used up";
        assert_eq!(at.bed.run(at.run).reason.as_deref(), Some(why));
        assert_eq!(
            at.bed.view("SELECT kind, run, text FROM alert_view"),
            [format!(
                "needs_confirmation|run-1|team/job@1970-01-01T00:01:00Z (run-1) needs a person: \
                 {why}. See `matins describe run-1`; to run it again: `matins rerun run-1 --failed --reason WHY`"
            )]
        );
        assert_eq!(at.bed.shard(at.run, 0).attempts, 3);
    }

    #[test]
    fn who_is_called_reads_the_cause_the_host_and_the_last_line_first() {
        for (yaml, end, expected) in [
            (
                "retry: { at_most: 0, backoff: [1s] }",
                AttemptEnd {
                    exit: Some(Exit::Code(3)),
                    tail: "connecting\npsql: error: no route to host\n\n".to_owned(),
                    ..end(AttemptOutcome::Failed)
                },
                "exit 3 on h1; it is not retried (retry.at_most is 0); \
                 its last line: psql: error: no route to host",
            ),
            (
                UNSAFE,
                AttemptEnd {
                    exit: Some(Exit::Signal(9)),
                    ..end(AttemptOutcome::Failed)
                },
                "killed by signal 9 (SIGKILL) on h1; nobody knows what it did, and a second run is \
                 not declared harmless",
            ),
        ] {
            let mut at = granted(Bed::new(), yaml);
            at.bed.ok(finish(at.agent.0, at.token, end));
            assert_eq!(at.bed.run(at.run).reason.as_deref(), Some(expected));
        }
        let alert = |bed: &Bed| bed.view("SELECT text FROM alert_view").concat();
        let mut at = granted(Bed::new(), UNSAFE);
        at.expire();
        let told = alert(&at.bed);
        assert!(
            told.contains("lost on h1: silent for 60 s; nobody knows"),
            "{told}"
        );
        assert!(
            told.ends_with(
                "then say how it is to be taken: `matins confirm run-1 --as succeeded|retry|failed --reason HOW-YOU-KNOW`"
            ),
            "{told}"
        );
    }

    #[test]
    fn what_is_tried_again_says_why_and_when() {
        let mut at = granted(Bed::new(), "");
        at.finish(AttemptOutcome::Failed);
        assert_eq!(
            at.bed.shard(at.run, 0).reason.as_deref(),
            Some("exit 1 on h1; retry 1 of 2 after 1s")
        );
        at.grant();
        at.finish(AttemptOutcome::Interrupted);
        assert_eq!(
            at.bed.shard(at.run, 0).reason.as_deref(),
            Some("interrupted on h1; once more, at no cost of a retry")
        );
    }

    #[test]
    fn an_alert_ends_when_its_run_does_however_that_comes() {
        let open = |bed: &Bed| bed.view("SELECT count(*) FROM alerts WHERE cleared_at IS NULL");
        let mut at = granted(Bed::new(), UNSAFE);
        at.expire();
        assert_eq!(open(&at.bed), ["1"]);
        at.finish(AttemptOutcome::Succeeded);
        assert_eq!(at.bed.state(at.run), "succeeded");
        assert_eq!(open(&at.bed), ["0"]);
    }

    #[test]
    fn an_unknown_end_of_an_unsafe_job_goes_to_a_person() {
        use AttemptOutcome::{Failed, Interrupted, Lost, NeverStarted, Refused, TimedOut};
        let signal = Some(Exit::Signal(9));
        let code = Some(Exit::Code(1));
        for (outcome, exit, started, with_rule, without_rule) in [
            (Lost, None, true, "needs_confirmation", "pending"),
            (TimedOut, None, true, "needs_confirmation", "pending"),
            (Failed, signal, true, "needs_confirmation", "pending"),
            (Failed, code, true, "pending", "pending"),
            (Interrupted, None, true, "needs_confirmation", "pending"),
            (Interrupted, None, false, "pending", "pending"),
            (Refused, None, false, "pending", "pending"),
            // Of one that had begun nobody can say that it never did.
            (Refused, None, true, "needs_confirmation", "pending"),
            (NeverStarted, None, true, "needs_confirmation", "pending"),
            (NeverStarted, None, false, "pending", "pending"),
        ] {
            let rule = Rule::UnsafeUnknownGoesToPerson;
            for (bed, expected) in [(Bed::new(), with_rule), (Bed::without(rule), without_rule)] {
                let mut at = granted(bed, UNSAFE);
                let end = AttemptEnd {
                    exit,
                    started_at: started.then_some(WallMs(1)),
                    ..end(outcome)
                };
                at.bed.ok(finish(at.agent.0, at.token, end));
                assert_eq!(at.shard_state(), expected, "{outcome:?} {exit:?} {started}");
            }
        }
    }

    #[test]
    fn what_had_begun_is_lost_when_its_host_says_that_it_never_began() {
        let mut at = granted(Bed::new(), UNSAFE);
        at.bed.ok(MarkStarted {
            agent_id: at.agent.0,
            token: at.token,
            at: WallMs(1),
        });
        let refused = AttemptEnd {
            reason: Some("the launch was not read".to_owned()),
            ..end(AttemptOutcome::Refused)
        };
        at.bed.ok(finish(at.agent.0, at.token, refused));
        assert_eq!(at.shard_state(), "needs_confirmation");
        assert_eq!(
            at.bed.view("SELECT outcome, reason FROM attempt_view"),
            ["lost|it had begun, and its host called it refused: the launch was not read"]
        );
    }

    #[test]
    fn interruptions_use_up_no_retry_but_end_after_ten_in_a_row() {
        let mut at = granted(Bed::new(), "");
        for n in 1..=10 {
            at.finish(AttemptOutcome::Interrupted);
            let shard = at.bed.shard(at.run, 0);
            assert_eq!((shard.retries_used, shard.free_ends), (0, n));
            let ShardState::Pending { delay, .. } = shard.state else {
                panic!("{shard:?}")
            };
            assert_eq!(delay == DurationMs(0), n == 1);
            at.grant();
        }
        at.finish(AttemptOutcome::Refused);
        assert_eq!(at.bed.run(at.run).state, RunState::NeedsConfirmation);

        let mut at = granted(Bed::without(Rule::InterruptionsAreFree), "");
        at.finish(AttemptOutcome::Interrupted);
        assert_eq!(at.bed.shard(at.run, 0).retries_used, 1);
    }

    #[test]
    fn a_failure_ends_the_row_of_free_ends() {
        let mut at = granted(Bed::new(), "");
        at.finish(AttemptOutcome::Interrupted);
        at.grant();
        at.finish(AttemptOutcome::Failed);
        assert_eq!(at.bed.shard(at.run, 0).free_ends, 0);
    }

    #[test]
    fn a_receipt_after_expiry_counts_while_nobody_else_was_given_the_shard() {
        for (yaml, outcome, after) in [
            ("", AttemptOutcome::Succeeded, "succeeded"),
            (UNSAFE, AttemptOutcome::Succeeded, "succeeded"),
            ("", AttemptOutcome::Failed, "running"),
            (UNSAFE, AttemptOutcome::Failed, "needs_confirmation"),
        ] {
            let mut at = granted(Bed::new(), yaml);
            at.expire();
            let pending = at.bed.set.shards.get(&(at.run, 0)).cloned();
            assert_eq!(at.finish(outcome), Done::Finished { counted: true });
            assert_eq!(at.bed.state(at.run), after);
            assert_eq!(
                at.bed.view("SELECT outcome, receipt FROM attempt_view"),
                [format!("{}|yes", outcome.as_str())]
            );
            if after != "succeeded" {
                assert_eq!(at.bed.set.shards.get(&(at.run, 0)).cloned(), pending);
            }
            let again = finish(at.agent.0, at.token, end(outcome));
            let token = at.token;
            assert_eq!(at.bed.refused(again), Refusal::AlreadyEnded { token });
        }
    }

    #[test]
    fn without_that_rule_it_is_refused() {
        let mut at = granted(Bed::without(Rule::ReceiptCountsWithCurrentToken), "");
        at.expire();
        let late = finish(at.agent.0, at.token, end(AttemptOutcome::Succeeded));
        assert!(matches!(at.bed.refused(late), Refusal::NotCurrent { .. }));
        assert_eq!(at.shard_state(), "pending");
    }

    #[test]
    fn a_receipt_after_a_later_grant_is_stale_and_changes_nothing() {
        for rule_on in [true, false] {
            let bed = if rule_on {
                Bed::new()
            } else {
                Bed::without(Rule::StaleReceiptChangesNothing)
            };
            let mut at = granted(bed, "");
            let old = at.token;
            at.expire();
            at.grant();
            let before = at.bed.set.clone();
            let late = finish(at.agent.0, old, end(AttemptOutcome::Succeeded));
            let counted = !rule_on;
            assert_eq!(at.bed.ok(late.clone()), Done::Finished { counted });
            assert_eq!(at.bed.set == before, rule_on);
            assert_eq!(
                at.bed
                    .view("SELECT outcome, stale_outcome FROM attempt_view ORDER BY granted_at"),
                ["lost|succeeded", "-|-"]
            );
            assert_eq!(at.bed.refused(late), Refusal::AlreadyEnded { token: old });
            // The later one ends as it would have.
            at.finish(AttemptOutcome::Succeeded);
            assert_eq!(at.bed.state(at.run), "succeeded");
        }
    }

    #[test]
    fn a_late_success_finds_a_run_that_is_final_and_leaves_it() {
        let mut at = granted(Bed::new(), UNSAFE);
        at.expire();
        at.bed.ok(Confirm {
            run_id: at.run,
            shard: None,
            verdict: Verdict::Failed,
            by: "ada".to_owned(),
            reason: "half done".to_owned(),
        });
        at.finish(AttemptOutcome::Succeeded);
        assert_eq!(
            at.bed
                .view("SELECT state, needs_confirmation, succeeded FROM run_view"),
            ["failed|1|0"]
        );

        let mut at = granted(Bed::new(), "");
        at.expire();
        at.bed.ok(CancelRun {
            run_id: at.run,
            by: "ada".to_owned(),
            reason: "wrong day".to_owned(),
        });
        at.finish(AttemptOutcome::Succeeded);
        assert_eq!(at.bed.state(at.run), "cancelled");
        // And the next fire is not in its way.
        let (next, state) = at.bed.fire(at.job, 2);
        assert_eq!((next, state), (RunId(2), RunState::Ready));
    }

    #[test]
    fn a_late_success_of_a_waiting_rerun_ends_it() {
        let mut at = granted(Bed::new(), UNSAFE);
        at.expire();
        let (other, _) = at.bed.fire(at.job, 2);
        at.bed.ok(Confirm {
            run_id: at.run,
            shard: None,
            verdict: Verdict::Retry,
            by: "ada".to_owned(),
            reason: "looked: nothing written".to_owned(),
        });
        assert_eq!(at.bed.run(at.run).state, RunState::Waiting);
        at.finish(AttemptOutcome::Succeeded);
        assert_eq!(at.bed.state(at.run), "succeeded");
        assert_eq!(at.bed.run(other).state, RunState::Ready);
    }
}
