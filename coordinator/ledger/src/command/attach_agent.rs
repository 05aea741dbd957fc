use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::attempt::AttemptOutcome;
use protocol::message::{FRAME_BYTES_MAX, Incarnation, LABELS_MAX, SLOTS_MAX};
use protocol::{AgentId, AgentName, Label, Rule, SessionId, Token};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, TEXT_BYTES_MAX, malformed};
use crate::command::AlertKind;
use crate::ended::Ended;
use crate::outcome::Done;
use crate::rows::AgentRow;
use crate::tables::agent::{Agent, Session};
use crate::tables::attempt::find_attempt;
use crate::tables::record::On;
use crate::tables::shard::Shard;

/// An agent attaches: a new session begins, the one before is dead, and leases are reconciled
/// with the supervisor's table.
///
/// A lease that the table does not hold is released at once: as `never_started` if the supervisor
/// alive at the grant is still the one that speaks, otherwise as `lost` if the host vouches that
/// nothing of before is alive (`swept`). A host can vouch for the boot it speaks from and for no
/// other: one that names another boot may have rebooted, or be a copy of a machine that works on
/// out of reach, and nothing it says tells which. What cannot be verified dead waits for its expiry.
///
/// What the table holds beyond its leases is to be killed, and its receipts are to be sent. The
/// outcome names those that may still count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachAgent {
    pub name: AgentName,
    pub boot_id: String,
    pub agent: Incarnation,
    pub supervisor: Incarnation,
    pub swept: bool,
    pub slots: u32,
    /// In any order.
    pub labels: Vec<Label>,
    /// Attempts in the supervisor's table, running or ended.
    pub holds: Vec<Token>,
}

impl AttachAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        self.check()?;
        let known = context.agent_named(&self.name)?;
        if let Some(refusal) = known.as_ref().and_then(Agent::refusal) {
            return Err(refusal.into());
        }
        let session = SessionId(context.meta.mint_position());
        let agent_id = self.begin_session(context, known.as_ref(), session)?;

        let mut released = Vec::new();
        let mut current = BTreeSet::new();
        for mut shard in context.leases_of(agent_id)? {
            let Some(lease) = shard.lease() else { continue };
            match self.judge_lease(context, lease.token)? {
                None => {
                    current.insert(lease.token);
                }
                Some(outcome) => {
                    release(context, &mut shard, lease.token, outcome)?;
                    released.push((lease.token, outcome));
                }
            }
        }
        let foreign = |token: &&Token| !current.contains(token);
        let kill: Vec<Token> = self.holds.iter().filter(foreign).copied().collect();
        let mut owed = Vec::new();
        for &token in &kill {
            owed.extend(context.owed_receipt(token, agent_id)?);
        }
        Ok(Done::Attached {
            agent_id,
            session,
            kill,
            released,
            owed,
        })
    }

    fn check(&self) -> Result<(), Stop> {
        if self.slots > SLOTS_MAX {
            return Err(malformed(format!(
                "{} slots, more than {SLOTS_MAX}",
                self.slots
            )));
        }
        if self.labels.len() > LABELS_MAX {
            let labels = self.labels.len();
            return Err(malformed(format!(
                "{labels} labels, more than {LABELS_MAX}"
            )));
        }
        // A table reaches the coordinator in one frame.
        if self.holds.len() > FRAME_BYTES_MAX || self.boot_id.len() > TEXT_BYTES_MAX {
            return Err(malformed("an attach that no frame can have carried"));
        }
        Ok(())
    }

    fn begin_session(
        &self,
        context: &mut Context<'_>,
        known: Option<&Agent>,
        session: SessionId,
    ) -> Result<AgentId, Stop> {
        let agent_id = match known {
            Some(agent) => agent.row.agent_id,
            None => context.meta.mint_agent(),
        };
        if let Some(before) = known.and_then(|agent| agent.row.session) {
            context.end_session(before)?;
        }
        let labels: BTreeSet<Label> = self.labels.iter().cloned().collect();
        let registered = known.map(|agent| (Arc::clone(&agent.row.facts), agent.row.profile));
        let (facts, profile) = registered.unwrap_or_default();
        // What an operator has said of a host outlives its sessions.
        let known = known.filter(|_| context.rules.on(Rule::CordonHolds));
        context.write_agent(&Agent {
            row: AgentRow {
                agent_id,
                name: self.name.clone(),
                session: Some(session),
                boot_id: self.boot_id.clone(),
                supervisor: self.supervisor,
                slots: self.slots,
                labels: labels.into_iter().collect(),
                facts,
                profile,
                barred: None,
                cordon: known.and_then(|agent| agent.row.cordon),
                health: known.and_then(|agent| agent.row.health),
                silent_reigns: 0,
            },
            barred_reason: None,
            cordoned: known.and_then(|agent| agent.cordoned.clone()),
        })?;
        context.settle_alert(AlertKind::FlappingLeader, On::Agent(agent_id))?;
        context.insert_session(&Session {
            session,
            agent_id,
            boot_id: self.boot_id.clone(),
            agent: self.agent,
            supervisor: self.supervisor,
            swept: self.swept,
            ended_at: None,
        })?;
        Ok(agent_id)
    }

    /// How a lease ends that the host has nothing of, if that can be relied on.
    fn judge_lease(
        &self,
        context: &Context<'_>,
        token: Token,
    ) -> Result<Option<AttemptOutcome>, Stop> {
        if self.holds.contains(&token) || !context.rules.on(Rule::AttachReleasesNeverStarted) {
            return Ok(None);
        }
        self.judge_absent(context, token)
    }

    /// What became of a lease that the supervisor's table does not hold; `None` while something
    /// of it may be alive.
    fn judge_absent(
        &self,
        context: &Context<'_>,
        token: Token,
    ) -> Result<Option<AttemptOutcome>, Stop> {
        let Some(attempt) = find_attempt(context.conn, token)? else {
            return Ok(None);
        };
        let Some(granted_in) = context.session(attempt.session)? else {
            return Ok(None);
        };
        let same_supervisor = granted_in.supervisor == self.supervisor;
        if same_supervisor || !context.rules.on(Rule::NeverStartedNeedsSameSupervisor) {
            // A supervisor keeps an attempt until its receipt is in the ledger. One that is known
            // to have started and is not there any more did run, to an end that nobody saw.
            let outcome = match attempt.started_at {
                Some(_) if same_supervisor => AttemptOutcome::Lost,
                _ => AttemptOutcome::NeverStarted,
            };
            return Ok(Some(outcome));
        }
        let same_boot = granted_in.boot_id == self.boot_id;
        let verified_dead = if context.rules.on(Rule::SweepProvesItsOwnBoot) {
            self.swept && same_boot
        } else {
            self.swept || !same_boot
        };
        let lost = verified_dead || !context.rules.on(Rule::LostNeedsVerifiedDead);
        Ok(lost.then_some(AttemptOutcome::Lost))
    }
}

fn release(
    context: &mut Context<'_>,
    shard: &mut Shard,
    token: Token,
    outcome: AttemptOutcome,
) -> Result<(), Stop> {
    context.end_attempt_unheard(token, outcome, "the host attached without it")?;
    let mut run = context.run(shard.row.run_id)?;
    context.settle(&mut run, shard, Ended::unheard(outcome, None))
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;
    use crate::command::{CancelRun, Expire, MarkStarted, Quarantine, Rerun, RerunScope};
    use crate::outcome::Refusal;
    use crate::rows::ShardState;
    use crate::testing::{Bed, MINUTE, end, finish};

    fn first() -> AttachAgent {
        crate::testing::attach("h1")
    }

    fn released(done: Done) -> Vec<(Token, AttemptOutcome)> {
        match done {
            Done::Attached { released, .. } => released,
            other => panic!("{other:?}"),
        }
    }

    fn owed(done: Done) -> Vec<Token> {
        match done {
            Done::Attached { owed, .. } => owed.iter().map(|owed| owed.token).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn killed(done: Done) -> Vec<Token> {
        match done {
            Done::Attached { kill, .. } => kill,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_attach_begins_a_session_and_ends_the_one_before() {
        let mut bed = Bed::new();
        let (agent_id, before) = bed.attach(first());
        bed.at = WallMs(MINUTE);
        let (same, after) = bed.attach(AttachAgent {
            slots: 9,
            ..first()
        });
        assert_eq!(agent_id, same);
        assert!(after > before);
        assert_eq!(bed.set.agents[&agent_id].session, Some(after));
        assert_eq!(bed.set.agents[&agent_id].slots, 9);
        assert_eq!(
            bed.view("SELECT session, ended_at FROM session_view"),
            [
                format!("{before}|1970-01-01T00:01:00.000Z"),
                format!("{after}|-")
            ]
        );
        let (other, _) = bed.attach(crate::testing::attach("h2"));
        assert_ne!(other, agent_id);
        assert_eq!(bed.set.agents[&agent_id].supervisor, Incarnation(u64::MAX));
    }

    #[test]
    fn what_the_table_does_not_hold_is_judged_by_who_speaks() {
        use AttemptOutcome::{Lost, NeverStarted};
        let reborn = || AttachAgent {
            supervisor: Incarnation(2),
            swept: false,
            ..first()
        };
        let same_supervisor = || AttachAgent {
            swept: false,
            ..first()
        };
        let swept = || AttachAgent {
            swept: true,
            ..reborn()
        };
        let rebooted = || AttachAgent {
            boot_id: "boot-2".to_owned(),
            ..swept()
        };
        for (attach, started, rule, end) in [
            (same_supervisor(), false, None, Some(NeverStarted)),
            (same_supervisor(), true, None, Some(Lost)),
            (swept(), false, None, Some(Lost)),
            // It may be a copy of a machine that works on.
            (rebooted(), false, None, None),
            (
                rebooted(),
                false,
                Some(Rule::SweepProvesItsOwnBoot),
                Some(Lost),
            ),
            (reborn(), false, None, None),
            (
                reborn(),
                false,
                Some(Rule::NeverStartedNeedsSameSupervisor),
                Some(NeverStarted),
            ),
            (
                swept(),
                true,
                Some(Rule::NeverStartedNeedsSameSupervisor),
                Some(NeverStarted),
            ),
            (
                reborn(),
                false,
                Some(Rule::LostNeedsVerifiedDead),
                Some(Lost),
            ),
            (
                same_supervisor(),
                false,
                Some(Rule::AttachReleasesNeverStarted),
                None,
            ),
        ] {
            let mut bed = rule.map_or_else(Bed::new, Bed::without);
            let job = bed.job("");
            let (agent_id, session) = bed.attach(first());
            let (run_id, _) = bed.fire(job, 1);
            let token = bed.grant(run_id, 0, session);
            if started {
                bed.ok(MarkStarted {
                    agent_id,
                    token,
                    at: WallMs(1),
                });
            }
            let expected: Vec<_> = end.map(|end| (token, end)).into_iter().collect();
            assert_eq!(
                released(bed.ok(attach.clone())),
                expected,
                "{attach:?} {rule:?}"
            );
            let shard = bed.shard(run_id, 0);
            assert_eq!(shard.retries_used, u32::from(end == Some(Lost)));
            assert_eq!(
                shard.state.as_str(),
                if end.is_some() { "pending" } else { "leased" }
            );
        }
    }

    #[test]
    fn what_it_holds_stays_and_what_is_not_current_is_killed() {
        let mut bed = Bed::new();
        let job = bed.job("shards: 4");
        let (agent_id, session) = bed.attach(first());
        let (_, elsewhere) = bed.attach(crate::testing::attach("h2"));
        let (run_id, _) = bed.fire(job, 1);
        let live = bed.grant(run_id, 0, session);
        let ended = bed.grant(run_id, 1, session);
        bed.ok(finish(agent_id, ended, end(AttemptOutcome::Succeeded)));
        let foreign = bed.grant(run_id, 2, elsewhere);
        let unknown = Token(12_345);
        let attach = AttachAgent {
            holds: vec![live, ended, foreign, unknown],
            ..first()
        };
        let done = bed.ok(attach);
        assert_eq!(released(done.clone()), []);
        assert_eq!(killed(done), [ended, foreign, unknown]);
        assert_eq!(bed.shard(run_id, 0).state.as_str(), "leased");
        assert_eq!(bed.shard(run_id, 2).state.as_str(), "leased");
    }

    #[test]
    fn it_owes_receipts_for_what_expired_and_was_given_to_nobody_since() {
        let expire = |run_id, shard, token| Expire {
            run_id,
            shard,
            token,
            reason: "silent".to_owned(),
        };
        let mut bed = Bed::new();
        let job = bed.job("shards: 6");
        let (agent_id, session) = bed.attach(AttachAgent {
            slots: 8,
            ..first()
        });
        let (other, elsewhere) = bed.attach(crate::testing::attach("h2"));
        let (run_id, _) = bed.fire(job, 1);
        let live = bed.grant(run_id, 0, session);
        let [expired, overtaken, heard] = [1, 2, 3].map(|shard| {
            let token = bed.grant(run_id, shard, session);
            bed.ok(expire(run_id, shard, token));
            token
        });
        bed.grant(run_id, 2, elsewhere);
        bed.ok(finish(agent_id, heard, end(AttemptOutcome::Failed)));
        let foreign = bed.grant(run_id, 4, elsewhere);
        bed.ok(expire(run_id, 4, foreign));
        let absent = bed.grant(run_id, 5, session);
        bed.ok(expire(run_id, 5, absent));
        let attach = AttachAgent {
            holds: vec![live, expired, overtaken, heard, foreign, Token(12_345)],
            ..first()
        };
        let done = bed.ok(attach.clone());
        assert_eq!(owed(done.clone()), [expired]);
        let Done::Attached { owed: all, .. } = done else {
            unreachable!()
        };
        assert_eq!((all[0].run_id, all[0].shard), (run_id, 1));
        // Asked again, it is owed still; once it is paid, no more.
        assert_eq!(owed(bed.ok(attach.clone())), [expired]);
        bed.ok(finish(agent_id, expired, end(AttemptOutcome::Failed)));
        assert_eq!(owed(bed.ok(attach)), []);
        let its_own = AttachAgent {
            holds: vec![foreign],
            ..crate::testing::attach("h2")
        };
        assert_eq!(owed(bed.ok(its_own)), [foreign]);
        bed.ok(finish(other, foreign, end(AttemptOutcome::Succeeded)));
    }

    #[test]
    fn nothing_is_owed_for_a_shard_that_waits_for_a_person_or_is_done_with() {
        let mut bed = Bed::new();
        let job = bed.job("repeatable: { safe: false }");
        let (_, session) = bed.attach(first());
        let (run_id, _) = bed.fire(job, 1);
        let token = bed.grant(run_id, 0, session);
        bed.ok(Expire {
            run_id,
            shard: 0,
            token,
            reason: "silent".to_owned(),
        });
        assert_eq!(bed.shard(run_id, 0).state, ShardState::NeedsConfirmation);
        let attach = AttachAgent {
            holds: vec![token],
            ..first()
        };
        assert_eq!(owed(bed.ok(attach.clone())), []);
        bed.ok(CancelRun {
            run_id,
            by: "ada".to_owned(),
            reason: String::new(),
        });
        assert_eq!(owed(bed.ok(attach)), []);
    }

    #[test]
    fn a_lease_being_cancelled_ends_by_the_attach_and_a_rerun_goes_on() {
        for (rerun, state) in [(false, "cancelled"), (true, "running")] {
            let mut bed = Bed::new();
            let job = bed.job("");
            let (_, session) = bed.attach(first());
            let (run_id, _) = bed.fire(job, 1);
            bed.grant(run_id, 0, session);
            bed.ok(CancelRun {
                run_id,
                by: "ada".to_owned(),
                reason: String::new(),
            });
            if rerun {
                bed.ok(Rerun {
                    run_id,
                    scope: RerunScope::Run,
                    by: "ada".to_owned(),
                    reason: String::new(),
                });
            }
            bed.attach(first());
            assert_eq!(bed.state(run_id), state);
        }
    }

    #[test]
    fn a_quarantined_identity_and_an_impossible_one_are_refused() {
        let mut bed = Bed::new();
        for absurd in [
            AttachAgent {
                slots: SLOTS_MAX + 1,
                ..first()
            },
            AttachAgent {
                boot_id: "x".repeat(5000),
                ..first()
            },
            AttachAgent {
                holds: vec![Token(-1); FRAME_BYTES_MAX + 1],
                ..first()
            },
        ] {
            assert!(matches!(bed.refused(absurd), Refusal::Malformed { .. }));
        }
        bed.attach(first());
        bed.ok(Quarantine {
            name: first().name,
            reason: "two".to_owned(),
        });
        assert_eq!(
            bed.refused(first()),
            Refusal::Quarantined {
                reason: "two".to_owned()
            }
        );
    }
}
