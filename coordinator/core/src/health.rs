//! Hosts that do not fare well, and what the class file's `[health]` says about them.
//!
//! An agent looks at its host every half minute or so, and tells with every beat what it found last. One
//! look may be wrong: a tool that ran into its time limit, a counter that was read in the middle. So a
//! finding counts once two looks in a row agree on it, and a host that goes to and fro fares as the
//! milder of its last two looks has it.
//!
//! What the rule does is a proposal like any other, judged again in the ledger, where an operator's word
//! wins. It never puts a host back: that it has recovered is for a person to believe. And it leaves most
//! of the hosts in service whatever they say, for a new version of a tool that calls everything failed
//! must not stop a night.

use std::collections::{BTreeMap, BTreeSet};

use ledger::command::{AlertKind, Command, NoteHealth, On, Over, RaiseAlert};
use ledger::{AgentRow, Cordon};
use profiles::classes::Severity;
use protocol::host::HostHealth;
use protocol::{AgentId, AgentName, BootMs, DurationMs, Health, Now, Rule};

use crate::core::{Core, Flight};

/// How often what was told is gone through, at the most.
const LOOK: DurationMs = DurationMs(5_000);

/// Reasons that a text names; the rest is counted.
const REASONS_NAMED: usize = 3;
const REASON_CHARS_MAX: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Healths {
    seen: BTreeMap<AgentId, Seen>,
    /// Of whom a look has come that nothing has been concluded from yet.
    news: BTreeSet<AgentId>,
    /// Nothing is concluded before this.
    look_at: Option<BootMs>,
}

#[derive(Debug)]
struct Seen {
    /// Which look was the newest.
    look: u64,
    newest: Health,
    /// What two looks in a row have agreed on.
    agreed: Option<Health>,
    /// What the newest look found, in words.
    reasons: String,
    /// A proposal about it is on its way.
    in_flight: bool,
    /// What a person was told last of it.
    told: Option<Told>,
    /// Its alert of before, if there was one, is still as it was.
    unsettled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    health: Health,
    spared: Option<Spared>,
}

/// Why a host is not cordoned that the rule would cordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spared {
    /// No other host is in service.
    Last,
    /// So many are cordoned by the rule already.
    Enough(usize),
}

/// Hosts as the rule counts them.
struct Counts {
    /// In service, or cordoned by the rule.
    of: usize,
    in_service: usize,
    unwell: usize,
}

/// What is to be done about one host.
enum Step {
    Nothing,
    /// Has the ledger note it, and cordon it where the rule acts.
    Note {
        act: bool,
    },
    Tell(Told),
}

impl Healths {
    /// What the newest look at a host found, as one of its beats tells.
    ///
    /// A look is the same one whenever it is told: an agent whose connection broke tells of it again in
    /// another session. One that has begun anew may count up to the same number, and waits a look longer.
    pub(crate) fn hear(&mut self, agent_id: AgentId, told: &HostHealth, two_looks: bool) {
        let health = Health::of_word(&told.health);
        let before = self.seen.get_mut(&agent_id);
        if before.as_ref().is_some_and(|seen| seen.look == told.look) {
            return;
        }
        let reasons = in_words(&told.reasons);
        self.news.insert(agent_id);
        let Some(seen) = before else {
            let seen = Seen {
                look: told.look,
                newest: health,
                agreed: (!two_looks).then_some(health),
                reasons,
                in_flight: false,
                told: None,
                unsettled: true,
            };
            self.seen.insert(agent_id, seen);
            return;
        };
        let (mild, ill) = if two_looks {
            (seen.newest.min(health), seen.newest.max(health))
        } else {
            (health, health)
        };
        seen.agreed = Some(match seen.agreed {
            Some(agreed) if mild <= agreed && agreed <= ill => agreed,
            Some(agreed) if ill < agreed => ill,
            _ => mild,
        });
        (seen.look, seen.newest) = (told.look, health);
        seen.reasons = reasons;
    }

    /// The worst of what is thought of a host now.
    pub(crate) fn worst(&self, agent_id: AgentId) -> Option<Health> {
        let seen = self.seen.get(&agent_id)?;
        Some(seen.newest.max(seen.agreed.unwrap_or(Health::Ok)))
    }

    pub(crate) fn len(&self) -> usize {
        self.seen.len() + self.news.len()
    }

    pub(crate) fn landed(&mut self, agent_id: AgentId) {
        if let Some(seen) = self.seen.get_mut(&agent_id) {
            seen.in_flight = false;
        }
    }
}

impl Core {
    pub(crate) fn hear_health(&mut self, agent_id: AgentId, told: &HostHealth) {
        let two_looks = self.rules.on(Rule::HealthNeedsTwoLooks);
        self.healths.hear(agent_id, told, two_looks);
    }

    /// What follows from the looks that have come since the last time.
    pub(crate) fn judge_healths(&mut self, now: Now) {
        if self.healths.news.is_empty() || self.healths.look_at.is_some_and(|at| now.boot < at) {
            return;
        }
        self.healths.look_at = Some(now.boot + LOOK);
        let mut counts = None;
        let mut over = Vec::new();
        for agent_id in std::mem::take(&mut self.healths.news) {
            self.judge_health(agent_id, &mut counts, &mut over, now);
        }
        if !over.is_empty() {
            self.settle_alerts(AlertKind::HostUnwell, Over::These(over), now);
        }
    }

    fn judge_health(
        &mut self,
        agent_id: AgentId,
        counts: &mut Option<Counts>,
        over: &mut Vec<On>,
        now: Now,
    ) {
        let Some(agent) = self.set.agents.get(&agent_id) else {
            return;
        };
        let Some(seen) = self.healths.seen.get(&agent_id) else {
            return;
        };
        let Some(health) = seen.agreed.filter(|_| agent.barred.is_none()) else {
            return;
        };
        if seen.in_flight {
            self.healths.news.insert(agent_id);
            return;
        }
        let step = self.step_for(agent, health, counts);
        let by_rule = agent.cordon == Some(Cordon::Unwell);
        let name = agent.name.clone();
        let reasons = seen.reasons.clone();
        let Some(seen) = self.healths.seen.get_mut(&agent_id) else {
            return;
        };
        match step {
            Step::Note { act } => {
                seen.in_flight = true;
                (seen.told, seen.unsettled) = (None, false);
                let reason = if by_rule && !act {
                    recovered(&name, health)
                } else {
                    format!("{}{reasons}", health.as_str())
                };
                let note = NoteHealth {
                    name,
                    health,
                    act,
                    reason,
                };
                self.propose(Flight::Health(agent_id), Command::NoteHealth(note), now);
            }
            Step::Tell(told) if seen.told == Some(told) => {}
            Step::Tell(told) => {
                (seen.told, seen.unsettled) = (Some(told), true);
                let text = told.text(&name, &reasons);
                let (kind, on) = (AlertKind::HostUnwell, On::Agent(agent_id));
                self.alert(RaiseAlert { kind, on, text }, now);
            }
            Step::Nothing => {
                seen.told = None;
                if seen.unsettled && !by_rule {
                    seen.unsettled = false;
                    over.push(On::Agent(agent_id));
                }
            }
        }
    }

    fn step_for(&self, agent: &AgentRow, health: Health, counts: &mut Option<Counts>) -> Step {
        let severity = self.classes.health.severity(health);
        let act = severity == Severity::Cordon;
        let operator_wins = self.rules.on(Rule::OperatorOverHealth);
        match agent.cordon {
            Some(Cordon::Unwell) if agent.health == Some(health) => return Step::Nothing,
            Some(Cordon::Unwell) => return Step::Note { act },
            Some(_) if operator_wins => return Step::Nothing,
            _ => {}
        }
        if let Some(accepted) = agent.health.filter(|_| operator_wins) {
            if health < accepted {
                return Step::Note { act: false };
            }
            if health == accepted && severity != Severity::Nothing {
                return Step::Nothing;
            }
        }
        let told = |spared| Step::Tell(Told { health, spared });
        match severity {
            Severity::Nothing => Step::Nothing,
            Severity::Alarm => told(None),
            Severity::Cordon => {
                let counts = counts.get_or_insert_with(|| self.count_hosts());
                if let Some(spared) = self.spared(counts) {
                    return told(Some(spared));
                }
                counts.unwell += 1;
                counts.in_service = counts.in_service.saturating_sub(1);
                Step::Note { act }
            }
        }
    }

    /// Walks over all hosts: not oftener than every [`LOOK`], and only where a host is to be cordoned.
    fn count_hosts(&self) -> Counts {
        let hosts = self.set.agents.values();
        let hosts = hosts.filter(|agent| agent.barred.is_none());
        let (mut in_service, mut unwell) = (0, 0);
        for agent in hosts {
            match agent.cordon {
                Some(Cordon::Unwell) => unwell += 1,
                None if agent.session.is_some() => in_service += 1,
                _ => {}
            }
        }
        let on_their_way = self.healths.seen.values().filter(|seen| seen.in_flight);
        let on_their_way = on_their_way.count().min(in_service);
        Counts {
            of: in_service + unwell,
            in_service: in_service - on_their_way,
            unwell: unwell + on_their_way,
        }
    }

    fn spared(&self, counts: &Counts) -> Option<Spared> {
        if !self.rules.on(Rule::HealthSparesTheFleet) {
            return None;
        }
        let percent = self.classes.health.cordon_at_most_percent as usize;
        let most = (counts.of * percent / 100).max(1);
        if counts.in_service <= 1 {
            Some(Spared::Last)
        } else if counts.unwell >= most {
            Some(Spared::Enough(counts.unwell))
        } else {
            None
        }
    }
}

impl Told {
    fn text(&self, name: &AgentName, reasons: &str) -> String {
        let is = format!("{name} is {}{reasons}", self.health.as_str());
        match self.spared {
            None => format!(
                "{is}; it stays in service, unless you take it out: `matins cordon {name} --reason TEXT`"
            ),
            Some(Spared::Last) => {
                format!("{is}; it is not cordoned for that, because no other host is in service")
            }
            Some(Spared::Enough(unwell)) => format!(
                "{is}; it is not cordoned for that, because {unwell} of the hosts are already, and the rule \
                 leaves most in service: see whether what judges them is right"
            ),
        }
    }
}

fn recovered(name: &AgentName, health: Health) -> String {
    format!(
        "it was cordoned for its health, and is {} now; `matins uncordon {name}` puts it back into service",
        health.as_str()
    )
}

/// `: array md0 has failed; drive sdb is gone; and 2 more`, or nothing.
fn in_words(reasons: &[String]) -> String {
    let named = reasons.iter().take(REASONS_NAMED);
    let mut named: Vec<String> = named
        .map(|reason| {
            let plain = reason.chars().filter(|c| !c.is_control());
            plain.take(REASON_CHARS_MAX).collect()
        })
        .collect();
    if reasons.len() > named.len() {
        named.push(format!("and {} more", reasons.len() - named.len()));
    }
    if named.is_empty() {
        return String::new();
    }
    format!(": {}", named.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Health = Health::Ok;
    const DEGRADED: Health = Health::Degraded;
    const FAILED: Health = Health::Failed;

    /// What is agreed on after each look: its number and what it found.
    fn check(looks: &[(u64, Health, Option<Health>)]) {
        let mut healths = Healths::default();
        for (place, &(look, health, expected)) in looks.iter().enumerate() {
            let told = HostHealth {
                look,
                health: health.as_str().to_owned(),
                reasons: Vec::new(),
                rebuilding: false,
            };
            healths.hear(AgentId(1), &told, true);
            let agreed = healths.seen[&AgentId(1)].agreed;
            assert_eq!(agreed, expected, "look {place} of {looks:?}");
        }
    }

    #[test]
    fn two_looks_must_agree() {
        check(&[(1, FAILED, None), (2, FAILED, Some(FAILED))]);
        // Two beats that tell of one look.
        check(&[(1, FAILED, None), (1, FAILED, None)]);
        // One bad look among good ones, and the other way round.
        check(&[
            (1, OK, None),
            (2, OK, Some(OK)),
            (3, FAILED, Some(OK)),
            (4, OK, Some(OK)),
            (5, FAILED, Some(OK)),
            (6, FAILED, Some(FAILED)),
            (7, OK, Some(FAILED)),
            (8, FAILED, Some(FAILED)),
            (9, OK, Some(FAILED)),
            (10, OK, Some(OK)),
        ]);
        // Both are ill, though not equally.
        check(&[
            (1, OK, None),
            (2, OK, Some(OK)),
            (3, FAILED, Some(OK)),
            (4, DEGRADED, Some(DEGRADED)),
            (5, FAILED, Some(DEGRADED)),
            (6, FAILED, Some(FAILED)),
            (7, DEGRADED, Some(FAILED)),
            (8, OK, Some(DEGRADED)),
            (9, OK, Some(OK)),
        ]);
        // An agent that has begun anew counts its looks from the start, and may be where the one before
        // ended.
        check(&[(5, FAILED, None), (1, FAILED, Some(FAILED))]);
        check(&[
            (1, FAILED, None),
            (1, FAILED, None),
            (2, FAILED, Some(FAILED)),
        ]);
    }

    #[test]
    fn reasons_are_named_in_bounds() {
        for (reasons, expected) in [
            (&[] as &[&str], ""),
            (&["md0 is gone"], ": md0 is gone"),
            (&["a", "b\n", "c", "d", "e"], ": a; b; c; and 2 more"),
        ] {
            let reasons: Vec<String> = reasons.iter().map(|&text| text.to_owned()).collect();
            assert_eq!(in_words(&reasons), expected);
        }
    }
}
