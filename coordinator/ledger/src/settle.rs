//! What the end of an attempt means for its shard, and what its shards mean for a run.

use protocol::attempt::AttemptOutcome;
use protocol::{AgentName, DurationMs, Rule, WallMs};

use crate::apply::{Context, Stop};
use crate::command::AlertKind;
use crate::ended::Ended;
use crate::rows::{RunRow, RunState, ShardState};
use crate::tables::job::Policy;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// Ends in a row that use up no retry, after which a person is asked all the same.
const FREE_ENDS_MAX: u32 = 10;

/// Longest wait after such an end.
const FREE_DELAY_MAX: DurationMs = DurationMs::from_secs(60);

/// What becomes of a shard whose attempt did not succeed.
enum Verdict {
    Again {
        delay: DurationMs,
        /// At what cost, and when.
        how: String,
    },
    /// Why it is not tried again by itself.
    Person(String),
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
        ended: Ended<'_>,
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
        ended: Ended<'_>,
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
        let host = match shard.lease() {
            Some(lease) => self.agent(lease.agent_id)?.map(|agent| agent.row.name),
            None => None,
        };
        let host = host.as_ref().map_or("its host", AgentName::as_str);
        let cause = ended.cause(host, policy.timeout);
        Ok(match self.judge_failure(&policy, shard, ended) {
            Verdict::Again { delay, how } => {
                let since = self.at;
                let why = format!("{cause}; {how}");
                (ShardState::Pending { since, delay }, Some(why))
            }
            Verdict::Person(why) => {
                let line = ended.last_line();
                let said = line.map_or_else(String::new, |line| format!("; its last line: {line}"));
                let why = format!("{cause}; {why}{said}");
                (ShardState::NeedsConfirmation, Some(why))
            }
        })
    }

    fn judge_failure(&self, policy: &Policy, shard: &mut Shard, ended: Ended<'_>) -> Verdict {
        if ended.is_unknown() && !policy.safe && self.rules.on(Rule::UnsafeUnknownGoesToPerson) {
            return Verdict::Person(
                "nobody knows what it did, and a second run is not declared harmless".to_owned(),
            );
        }
        if ended.outcome.uses_retry() || !self.rules.on(Rule::InterruptionsAreFree) {
            let (used, most) = (shard.row.retries_used, policy.retry_at_most);
            if used >= most {
                return Verdict::Person(match most {
                    0 => "it is not retried (retry.at_most is 0)".to_owned(),
                    _ => format!("{used} of {most} retries are used up"),
                });
            }
            let delay = policy.backoff_after(used);
            shard.row.retries_used += 1;
            shard.row.free_ends = 0;
            let how = format!("retry {} of {most} after {delay}", used + 1);
            return Verdict::Again { delay, how };
        }
        if shard.row.free_ends >= FREE_ENDS_MAX {
            return Verdict::Person(format!(
                "it has ended {FREE_ENDS_MAX} times in a row without using up a retry"
            ));
        }
        shard.row.free_ends += 1;
        let delay = free_delay(shard.row.free_ends);
        let how = match delay {
            DurationMs::ZERO => "once more, at no cost of a retry".to_owned(),
            delay => format!("once more after {delay}, at no cost of a retry"),
        };
        Verdict::Again { delay, how }
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
        } else {
            self.settle_alerts_of(run)?;
        }
        self.update_run(run)
    }

    /// Says in the run and in an alert which shards wait for a person, and why the first does.
    pub(crate) fn ask_person(&mut self, run: &mut Run) -> Result<(), Stop> {
        let shards = self.shards(run.row.run_id)?;
        let first = shards
            .iter()
            .find(|shard| shard.row.state == ShardState::NeedsConfirmation);
        let why = first.map_or_else(String::new, |shard| {
            let reason = shard.row.reason.as_deref().unwrap_or("no reason recorded");
            match run.row.shards {
                1 => reason.to_owned(),
                _ => format!("shard {}: {reason}", shard.row.shard),
            }
        });
        run.row.reason = Some(match run.tally.needs_confirmation {
            0 | 1 => why,
            n => format!("{n} shards need confirmation; {why}"),
        });
        run.row.asked_at = Some(self.at);
        let plea = self.plea(run)?;
        self.raise(AlertKind::NeedsConfirmation, run.on(), &plea)
    }

    /// What is said to the person whom a run needs: which run, why, and what to do next.
    pub(crate) fn plea(&self, run: &Run) -> Result<String, Stop> {
        let title = self.title(&run.row)?;
        let reason = run.row.reason.as_deref().unwrap_or("no reason recorded");
        let next = self.what_to_do(&run.row)?;
        Ok(format!("{title} needs a person: {reason}. {next}"))
    }

    /// What a person does next about a run that cannot go on by itself.
    pub(crate) fn what_to_do(&self, run: &RunRow) -> Result<String, Stop> {
        let id = run.run_id;
        let safe = self.policy(run.job_id, run.version)?.safe;
        Ok(if safe {
            format!(
                "See `matins describe {id}`; to run it again: `matins rerun {id} --failed --reason WHY`"
            )
        } else {
            format!(
                "See what it has done (`matins describe {id}`), then say how it is to be taken: \
                 `matins confirm {id} --as succeeded|retry|failed --reason HOW-YOU-KNOW`"
            )
        })
    }

    /// Of a run that goes on, no shard needs a person any more.
    pub(crate) fn settle_plea_of_live(&mut self, run: &Run) -> Result<(), Stop> {
        if !run.row.state.is_live() || run.tally.needs_confirmation > 0 {
            return Ok(());
        }
        self.settle_alert(AlertKind::NeedsConfirmation, run.on())
    }

    /// A run that asks no more has its answer, and one that has succeeded shows that its job runs
    /// again.
    pub(crate) fn settle_alerts_of(&mut self, run: &mut Run) -> Result<(), Stop> {
        let asked = run.row.state != RunState::NeedsConfirmation && run.row.asked_at.is_some();
        if asked {
            run.row.asked_at = None;
        }
        if asked || run.row.state.is_final() {
            self.settle_alert(AlertKind::NeedsConfirmation, run.on())?;
        }
        if run.row.state.is_final() {
            self.settle_alert(AlertKind::CommandRefused, run.on())?;
        }
        if run.row.state == RunState::Succeeded {
            for kind in [
                AlertKind::OverlapSkipped,
                AlertKind::StartDeadlinePassed,
                AlertKind::PredecessorFailed,
            ] {
                self.settle_alert_of_earlier(kind, &run.row)?;
            }
        }
        Ok(())
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
}
