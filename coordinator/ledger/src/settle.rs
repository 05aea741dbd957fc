//! What the end of an attempt means for its shard, and what its shards mean for a run.

use protocol::attempt::{AttemptOutcome, Exit};
use protocol::{DurationMs, Rule, WallMs};

use crate::apply::{Context, Stop};
use crate::command::AlertKind;
use crate::rows::{RunState, ShardState};
use crate::tables::job::Policy;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// Ends in a row that use up no retry, after which a person is asked all the same.
const FREE_ENDS_MAX: u32 = 10;

/// Longest wait after such an end.
const FREE_DELAY_MAX: DurationMs = DurationMs::from_secs(60);

/// How an attempt ended, as far as its shard is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) exit: Option<Exit>,
    pub(crate) out_of_memory: bool,
    pub(crate) started: bool,
}

impl Ended {
    /// An end that nobody reported.
    pub(crate) const fn unheard(outcome: AttemptOutcome) -> Ended {
        Ended {
            outcome,
            exit: None,
            out_of_memory: false,
            started: false,
        }
    }

    /// Whether the work may have been done in part, without anybody knowing how far.
    fn is_unknown(self) -> bool {
        match self.outcome {
            AttemptOutcome::Lost | AttemptOutcome::TimedOut => true,
            AttemptOutcome::Interrupted => self.started,
            AttemptOutcome::Failed => {
                self.out_of_memory || matches!(self.exit, Some(Exit::Signal(_)))
            }
            AttemptOutcome::Succeeded
            | AttemptOutcome::Cancelled
            | AttemptOutcome::Refused
            | AttemptOutcome::NeverStarted => false,
        }
    }
}

/// A shard that may be granted at once.
pub(crate) const fn pending_at(since: WallMs) -> ShardState {
    ShardState::Pending {
        since,
        delay: DurationMs::ZERO,
    }
}

/// How long a shard rests after its `n`th free end in a row: not at all, then 1 s, 2 s, 4 s ...
fn free_delay(n: u32) -> DurationMs {
    match n {
        0 | 1 => DurationMs::ZERO,
        _ => DurationMs::from_secs(1i64 << (n - 2).min(30)).clamp_to(FREE_DELAY_MAX),
    }
}

impl Context<'_> {
    /// Moves a shard on after an attempt of it has ended, then its run.
    pub(crate) fn settle(
        &mut self,
        run: &mut Run,
        shard: &mut Shard,
        ended: Ended,
    ) -> Result<(), Stop> {
        let (to, reason) = self.judge_end(run, shard, ended)?;
        shard.again = false;
        self.move_shard(run, shard, to, reason)?;
        self.roll_up(run)
    }

    fn judge_end(
        &self,
        run: &Run,
        shard: &mut Shard,
        ended: Ended,
    ) -> Result<(ShardState, Option<String>), Stop> {
        if ended.outcome == AttemptOutcome::Succeeded {
            return Ok((ShardState::Succeeded, None));
        }
        let cancelling = shard.lease().is_some_and(|lease| lease.cancelling);
        if cancelling || ended.outcome == AttemptOutcome::Cancelled {
            let to = if shard.again {
                pending_at(self.at)
            } else {
                ShardState::Cancelled
            };
            return Ok((to, None));
        }
        let policy = self.policy(run.row.job_id, run.row.version)?;
        Ok(self.judge_failure(&policy, shard, ended))
    }

    fn judge_failure(
        &self,
        policy: &Policy,
        shard: &mut Shard,
        ended: Ended,
    ) -> (ShardState, Option<String>) {
        let outcome = ended.outcome.as_str();
        let to_person = |reason: String| (ShardState::NeedsConfirmation, Some(reason));
        if ended.is_unknown() && !policy.safe && self.rules.on(Rule::UnsafeUnknownGoesToPerson) {
            return to_person(format!(
                "{outcome}: nobody knows what it did, and a second run is not declared harmless"
            ));
        }
        if ended.outcome.uses_retry() || !self.rules.on(Rule::InterruptionsAreFree) {
            if shard.row.retries_used >= policy.retry_at_most {
                return to_person(format!(
                    "{outcome}: {} of {} retries used up",
                    shard.row.retries_used, policy.retry_at_most
                ));
            }
            let delay = policy.backoff_after(shard.row.retries_used);
            shard.row.retries_used += 1;
            shard.row.free_ends = 0;
            return self.again_after(delay, outcome);
        }
        if shard.row.free_ends >= FREE_ENDS_MAX {
            return to_person(format!(
                "{outcome}: {FREE_ENDS_MAX} ends in a row that used up no retry"
            ));
        }
        shard.row.free_ends += 1;
        self.again_after(free_delay(shard.row.free_ends), outcome)
    }

    fn again_after(&self, delay: DurationMs, outcome: &str) -> (ShardState, Option<String>) {
        let since = self.at;
        let why = format!("after {outcome}");
        (ShardState::Pending { since, delay }, Some(why))
    }

    /// Draws a run's state from the tally of its shards, and writes the run.
    pub(crate) fn roll_up(&mut self, run: &mut Run) -> Result<(), Stop> {
        let before = run.row.state;
        if !before.is_final() && run.tally.open() == 0 {
            run.row.state = if run.tally.needs_confirmation > 0 {
                RunState::NeedsConfirmation
            } else if run.tally.cancelled > 0 {
                RunState::Cancelled
            } else {
                RunState::Succeeded
            };
        }
        if run.row.state.is_final() && run.ended_at.is_none() {
            run.ended_at = Some(self.at);
        }
        if run.row.state == RunState::Succeeded {
            run.row.reason = None;
        }
        let asks = run.row.state == RunState::NeedsConfirmation && run.row.state != before;
        if asks {
            self.ask_person(run)?;
        }
        self.update_run(run)
    }

    /// Says in the run and in an alert which shards wait for a person, and why the first does.
    fn ask_person(&mut self, run: &mut Run) -> Result<(), Stop> {
        let shards = self.shards(run.row.run_id)?;
        let first = shards
            .iter()
            .find(|shard| shard.row.state == ShardState::NeedsConfirmation);
        let why = first.map_or_else(String::new, |shard| {
            let reason = shard.row.reason.as_deref().unwrap_or("no reason recorded");
            format!("shard {}: {reason}", shard.row.shard)
        });
        let text = match run.tally.needs_confirmation {
            0 | 1 => why,
            n => format!("{n} shards need confirmation; {why}"),
        };
        run.row.reason = Some(text.clone());
        self.alert(
            AlertKind::NeedsConfirmation,
            Some(run.row.job_id),
            Some(run.row.run_id),
            &text,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_after_free_ends_rises_and_stops_rising() {
        let seconds: Vec<i64> = (1..=11).map(|n| free_delay(n).0 / 1000).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(free_delay(u32::MAX), FREE_DELAY_MAX);
    }

    #[test]
    fn which_ends_leave_it_unknown_what_was_done() {
        let ended = |outcome, exit, started| Ended {
            outcome,
            exit,
            out_of_memory: false,
            started,
        };
        let without_memory = Ended {
            out_of_memory: true,
            ..ended(AttemptOutcome::Failed, Some(Exit::Code(1)), true)
        };
        for (end, unknown) in [
            (ended(AttemptOutcome::Lost, None, false), true),
            (ended(AttemptOutcome::TimedOut, None, true), true),
            (ended(AttemptOutcome::Interrupted, None, true), true),
            (ended(AttemptOutcome::Interrupted, None, false), false),
            (
                ended(AttemptOutcome::Failed, Some(Exit::Code(1)), true),
                false,
            ),
            (
                ended(AttemptOutcome::Failed, Some(Exit::Signal(9)), true),
                true,
            ),
            (without_memory, true),
            (ended(AttemptOutcome::Failed, None, false), false),
            (ended(AttemptOutcome::NeverStarted, None, false), false),
            (ended(AttemptOutcome::Refused, None, false), false),
        ] {
            assert_eq!(end.is_unknown(), unknown, "{end:?}");
        }
    }
}
