use protocol::message::Incarnation;
use protocol::{BootMs, Epoch, Rule};
use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::{Done, Refusal};
use crate::rows::AgentRow;
use crate::tables::agent::list_agents;
use crate::tables::record::On;

/// Reigns without a word from a host with leases after which a person is told.
const SEVERAL: u32 = 3;

/// A leader begins its reign: mints the epoch that every later command of its scheduler carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BecomeActive {
    pub node: String,
    pub incarnation: Incarnation,
    /// The kernel's id of this start of the machine, and how long ago that was: with the time of the
    /// command it tells a later reign whether the clock was set meanwhile.
    pub boot_id: String,
    pub boot: BootMs,
    /// Version of the time zone rules that it computes instants with.
    pub tzdata: String,
    /// How many commands the ledger had applied when the leader read the state that it will decide
    /// from; `None` where nothing is decided from any.
    pub looked_at: Option<i64>,
}

impl BecomeActive {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        self.judge_look(context)?;
        let epoch = Epoch(context.meta.mint_position());
        context.meta.epoch = Some(epoch);
        context.conn.execute(
            "INSERT INTO reigns VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                epoch.0,
                clip(&self.node),
                self.incarnation.0.cast_signed(),
                context.at.0,
                clip(&self.boot_id),
                self.boot.0
            ],
        )?;
        context.conn.execute(
            "UPDATE meta SET tzdata = ?1 WHERE id = 1",
            [clip(&self.tzdata)],
        )?;
        context.changes.epoch(epoch);
        // Of an agent that is never heard of again this counts how often its leases were given
        // their full time anew.
        for mut agent in list_agents(context.conn)? {
            agent.row.silent_reigns = agent.row.silent_reigns.saturating_add(1);
            context.write_agent(&agent)?;
            tell_of_silence(context, &agent.row)?;
        }
        Ok(Done::Active { epoch })
    }

    /// A node that led, lost the lead and has it again may not notice: the working set it read
    /// lacks what another leader has committed in between, and nothing would ever bring it.
    fn judge_look(&self, context: &Context<'_>) -> Result<(), Refusal> {
        let now = context.meta.last_applied;
        match self.looked_at {
            Some(then) if then != now && context.rules.on(Rule::ReignBeginsFromItsLook) => {
                Err(Refusal::LookedTooEarly { then, now })
            }
            _ => Ok(()),
        }
    }
}

/// Every new leader gives every lease its full time again. When leaders come and go, a dead
/// host's shards would wait in silence. Told here, and not by the leader that begins: it may be
/// gone before it has said a word.
fn tell_of_silence(context: &mut Context<'_>, agent: &AgentRow) -> Result<(), Stop> {
    if agent.silent_reigns != SEVERAL || !context.rules.on(Rule::FlappingAlarm) {
        return Ok(());
    }
    if context.leases_of(agent.agent_id)?.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} holds leases and has not been heard of through {SEVERAL} changes of leader",
        agent.name
    );
    let on = On::Agent(agent.agent_id);
    context.raise(AlertKind::FlappingLeader, on, &text)
}

#[cfg(test)]
mod tests {
    use protocol::{Rule, WallMs};

    use super::*;
    use crate::command::SkipWaiting;
    use crate::testing::{Bed, attach};

    fn begin(node: &str) -> BecomeActive {
        BecomeActive {
            node: node.to_owned(),
            incarnation: Incarnation(7),
            boot_id: "boot".to_owned(),
            boot: BootMs(70),
            tzdata: "2025b".to_owned(),
            looked_at: None,
        }
    }

    fn epoch_of(done: Done) -> Epoch {
        match done {
            Done::Active { epoch } => epoch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_of_an_earlier_reign_are_refused() {
        for without in [None, Some(Rule::EpochChecked)] {
            let mut bed = without.map_or_else(Bed::new, Bed::without);
            let skip = SkipWaiting {
                run_id: protocol::RunId(1),
            };
            let first = epoch_of(bed.ok(begin("a")));
            let second = epoch_of(bed.ok(begin("a")));
            assert!(second > first);
            assert_eq!(bed.set.epoch, Some(second));
            bed.epoch = Some(first);
            let refusal = bed.refused(skip.clone());
            let stale = Refusal::StaleEpoch {
                got: first,
                current: second,
            };
            assert_eq!(refusal == stale, without.is_none());
            // Who begins a reign is never of the one in force.
            let third = epoch_of(bed.ok(begin("b")));
            bed.epoch = Some(third);
            assert!(matches!(bed.refused(skip), Refusal::NoSuchRun { .. }));
        }
    }

    #[test]
    fn a_reign_begins_from_the_state_that_was_looked_at_or_not_at_all() {
        for without in [None, Some(Rule::ReignBeginsFromItsLook)] {
            let mut bed = without.map_or_else(Bed::new, Bed::without);
            let looked_at = |then| BecomeActive {
                looked_at: Some(then),
                ..begin("a")
            };
            let then = bed.store.last_applied().unwrap();
            bed.job("");
            let outcome = bed.outcome(looked_at(then)).result;
            let now = then + 1;
            let too_early = Err(Refusal::LookedTooEarly { then, now });
            assert_eq!(outcome == too_early, without.is_none(), "{outcome:?}");
            // A refusal is a step of the ledger as well.
            let now = bed.store.last_applied().unwrap();
            let first = epoch_of(bed.ok(looked_at(now)));
            bed.epoch = Some(first);
            bed.refused(SkipWaiting {
                run_id: protocol::RunId(1),
            });
            epoch_of(bed.ok(looked_at(now + 2)));
        }
    }

    #[test]
    fn a_reign_counts_for_agents_that_do_not_attach() {
        let mut bed = Bed::new();
        let (quiet, _) = bed.attach(attach("quiet"));
        let (loud, _) = bed.attach(attach("loud"));
        bed.ok(begin("a"));
        bed.attach(attach("loud"));
        bed.at = WallMs(1000);
        bed.ok(begin("b"));
        assert_eq!(bed.set.agents[&quiet].silent_reigns, 2);
        assert_eq!(bed.set.agents[&loud].silent_reigns, 1);
        assert_eq!(
            bed.view("SELECT node, at FROM reign_view ORDER BY epoch"),
            ["a|1970-01-01T00:00:00.000Z", "b|1970-01-01T00:00:01.000Z"]
        );
        assert_eq!(bed.view("SELECT tzdata FROM meta"), ["2025b"]);
    }

    #[test]
    fn a_host_with_leases_that_is_silent_through_several_reigns_is_told_of_once() {
        for without in [None, Some(Rule::FlappingAlarm)] {
            let mut bed = without.map_or_else(Bed::new, Bed::without);
            let job_id = bed.job("shards: 1");
            let (run_id, _) = bed.fire(job_id, 1);
            let (_, session) = bed.attach(attach("holds"));
            bed.attach(attach("idle"));
            bed.grant(run_id, 0, session);
            for told_after in 1..=5 {
                bed.ok(begin("a"));
                let alerts = bed.view("SELECT kind FROM alert_view");
                let told = without.is_none() && told_after >= SEVERAL as usize;
                assert_eq!(alerts.len(), usize::from(told), "after {told_after}");
            }
        }
    }
}
