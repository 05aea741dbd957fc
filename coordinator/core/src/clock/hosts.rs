//! What the clocks of the fleet say of this one.
//!
//! Every heartbeat carries the wall time at which its agent sent it. It arrives later, by a delay
//! that nobody measures: a beat sent at A and heard at H says that the agent's clock was at least
//! A - H ahead of ours, and at most that plus the longest the way can have taken, for which the
//! agent's own measure of a beat's way and back stands. What is left of the doubt is half of that.
//!
//! Offsets are kept against the *boot* clock of this machine, so a step of our own wall clock shows at
//! once as a disagreement with everybody, not as an error in what was heard before.
//!
//! One wrong clock among many must not count. So there is a reference only where at least three agents
//! that were heard lately, and more than half of those, lie within a second of each other; it is their
//! median. Two that contradict a third, or two camps, are no reference.

use std::collections::BTreeMap;

use protocol::host::HostClock;
use protocol::lease::QUIET_HOST;
use protocol::{AgentId, BootMs, DurationMs, Now, WallMs};

/// Fewest agents that can contradict this clock.
pub const AGENTS_MIN: usize = 3;

/// How far apart the clocks of agents that agree may lie.
pub const AGREEMENT: DurationMs = DurationMs(1_000);

/// A beat that took longer than this to be answered says nothing about clocks.
const ROUND_TRIP_MAX: DurationMs = DurationMs(500);

/// Beats of one agent that are looked at together: the least delayed of them counts.
const SAMPLES: usize = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    heard: BTreeMap<AgentId, Vec<Sample>>,
    /// What each host's own time service says, and when it was told. For people: of a clock that its
    /// own host doubts, others tell by holding it against theirs.
    told: BTreeMap<AgentId, (BootMs, HostClock)>,
}

/// The clock of one host, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClockSeen {
    pub agent: AgentId,
    /// What it is ahead of this machine's, and by how much that may be wrong; none where no beat of
    /// late says it.
    pub ahead: Option<DurationMs>,
    pub unsure: Option<DurationMs>,
    pub told: Option<HostClock>,
}

/// One beat.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: BootMs,
    /// The agent's wall time minus our boot time, in milliseconds: as though it had taken no time.
    least: i64,
    /// The same, as though the beat had taken all of the round trip.
    most: i64,
}

/// The clock that the fleet agrees on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Its wall time minus our boot time, in milliseconds.
    offset: i64,
    /// How far the truth may lie on either side of it.
    doubt: i64,
    /// How many agents agree on it.
    pub(super) agents: usize,
}

impl Hosts {
    /// A beat sent at `wall` has arrived; another was answered within `round_trip`.
    pub(super) fn hear(
        &mut self,
        agent: AgentId,
        wall: WallMs,
        round_trip: Option<DurationMs>,
        now: BootMs,
    ) {
        let Some(round_trip) = round_trip.filter(|trip| (0..=ROUND_TRIP_MAX.0).contains(&trip.0))
        else {
            return;
        };
        let least = wall.0.saturating_sub(now.0);
        let samples = self.heard.entry(agent).or_default();
        if samples.len() == SAMPLES {
            samples.remove(0);
        }
        samples.push(Sample {
            at: now,
            least,
            most: least.saturating_add(round_trip.0),
        });
    }

    pub(super) fn note_told(&mut self, agent: AgentId, told: &HostClock, now: BootMs) {
        match self.told.get_mut(&agent) {
            Some((at, before)) if before == told => *at = now,
            _ => {
                self.told.insert(agent, (now, told.clone()));
            }
        }
    }

    /// The clocks of all hosts that were heard lately.
    pub(super) fn seen(&self, now: Now) -> Vec<HostClockSeen> {
        let lately = |at: BootMs| now.boot - at < QUIET_HOST;
        let own = now.wall.0.saturating_sub(now.boot.0);
        let mut agents: Vec<AgentId> = self.heard.keys().chain(self.told.keys()).copied().collect();
        agents.sort_unstable();
        agents.dedup();
        let seen = agents.into_iter().map(|agent| {
            let samples = self.heard.get(&agent).into_iter().flatten();
            let fresh: Vec<Sample> = samples.filter(|it| lately(it.at)).copied().collect();
            let clock = together(&fresh);
            let told = self.told.get(&agent).filter(|(at, _)| lately(*at));
            HostClockSeen {
                agent,
                ahead: clock.map(|(offset, _)| DurationMs(offset.saturating_sub(own))),
                unsure: clock.map(|(_, doubt)| DurationMs(doubt)),
                told: told.map(|(_, told)| told.clone()),
            }
        });
        seen.filter(|seen| seen.ahead.is_some() || seen.told.is_some())
            .collect()
    }

    /// What the agents heard lately agree on; forgets those that were not.
    pub(super) fn reference(&mut self, now: BootMs) -> Option<Reference> {
        self.heard.retain(|_, samples| {
            samples.retain(|sample| now - sample.at < QUIET_HOST);
            !samples.is_empty()
        });
        self.told.retain(|_, (at, _)| now - *at < QUIET_HOST);
        let mut clocks: Vec<(i64, i64)> = self.heard.values().filter_map(|s| together(s)).collect();
        clocks.sort_unstable();
        let (middle, _) = *clocks.get(clocks.len().checked_sub(1)? / 2)?;
        let agree = |&&(offset, _): &&(i64, i64)| (offset - middle).abs() <= AGREEMENT.0 / 2;
        let agreeing: Vec<(i64, i64)> = clocks.iter().filter(agree).copied().collect();
        let most = agreeing.len() * 2 > clocks.len();
        let &(offset, doubt) = agreeing.get(agreeing.len().checked_sub(1)? / 2)?;
        (most && agreeing.len() >= AGENTS_MIN).then_some(Reference {
            offset,
            doubt,
            agents: agreeing.len(),
        })
    }
}

impl Reference {
    /// Ahead of this machine's clock by so much, for certain.
    #[cfg(test)]
    pub(super) fn of(now: Now, ahead: i64) -> Reference {
        Reference {
            offset: now.wall.0 - now.boot.0 + ahead,
            doubt: 0,
            agents: AGENTS_MIN,
        }
    }

    /// Its wall time minus this machine's boot time, and by how much that may be wrong.
    pub(super) fn offset(self) -> (i64, i64) {
        (self.offset, self.doubt)
    }

    /// How far a clock is ahead of the fleet's (negative: behind it), as far as that is certain.
    pub(super) fn ahead(&self, wall: WallMs, boot: BootMs) -> DurationMs {
        certainly_ahead(wall, boot, self.offset, self.doubt)
    }
}

/// How far a clock is ahead of another, whose wall time minus our boot time is `offset`, give or take
/// `doubt`; as far as that is certain.
pub(super) fn certainly_ahead(wall: WallMs, boot: BootMs, offset: i64, doubt: i64) -> DurationMs {
    let ahead = wall.0.saturating_sub(boot.0).saturating_sub(offset);
    let certain = (ahead.saturating_abs() - doubt).max(0);
    DurationMs(certain * ahead.signum())
}

/// The middle of what an agent's beats allow, and half of its width.
fn together(samples: &[Sample]) -> Option<(i64, i64)> {
    let least = samples.iter().map(|sample| sample.least).max()?;
    let most = samples.iter().map(|sample| sample.most).min()?;
    // Beats that contradict each other: its clock was set meanwhile. The newest holds.
    let newest = samples.last()?;
    let (least, most) = if least <= most {
        (least, most)
    } else {
        (newest.least, newest.most)
    };
    let half = (most - least) / 2;
    Some((least + half, half + (most - least) % 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000_000;

    /// How far ahead a right clock is found, and by how many, where each agent's clock is wrong by
    /// `error` and its beats took `delay` of a round trip of twice that.
    fn ahead(agents: &[(i64, i64)]) -> Option<(i64, usize)> {
        let mut hosts = Hosts::default();
        let now = BootMs(50_000);
        for (i, &(error, delay)) in agents.iter().enumerate() {
            let wall = WallMs(START + now.0 + error - delay);
            let trip = Some(DurationMs(2 * delay));
            hosts.hear(AgentId(i as i64 + 1), wall, trip, now);
        }
        let reference = hosts.reference(now)?;
        let ahead = reference.ahead(WallMs(START + now.0), now);
        Some((ahead.0, reference.agents))
    }

    #[test]
    fn a_reference_is_a_majority_of_at_least_three() {
        let day = 86_400_000;
        for (agents, expected) in [
            (&[] as &[(i64, i64)], None),
            (&[(0, 0), (0, 0)], None),
            (&[(0, 0), (0, 0), (0, 0)], Some((0, 3))),
            // One of three is wrong: who, cannot be told.
            (&[(0, 0), (0, 0), (day, 0)], None),
            (&[(0, 0), (0, 0), (0, 0), (day, 0)], Some((0, 3))),
            (&[(0, 0), (0, 0), (0, 0), (-day, 0)], Some((0, 3))),
            // Two camps.
            (
                &[(0, 0), (0, 0), (0, 0), (day, 0), (day, 0), (day, 0)],
                None,
            ),
            // They agree that this clock is wrong.
            (&[(day, 0), (day + 300, 0), (day - 300, 0)], Some((-day, 3))),
            (
                &[(-2_000, 0), (-2_000, 0), (-2_000, 0), (0, 0)],
                Some((2_000, 3)),
            ),
            // A way that takes long is no wrong clock, and a wrong clock shows through it.
            (&[(0, 200), (0, 150), (0, 250)], Some((0, 3))),
            (&[(-900, 200), (-900, 150), (-900, 250)], Some((700, 3))),
            // Too long a way says nothing.
            (&[(-900, 300), (-900, 300), (-900, 300)], None),
        ] {
            assert_eq!(ahead(agents), expected, "{agents:?}");
        }
    }

    #[test]
    fn beats_of_one_agent_narrow_the_doubt_and_old_ones_are_forgotten() {
        let mut hosts = Hosts::default();
        let mut at = BootMs(1_000);
        // Delayed by 100 ms, by none, by 100 ms; each of a round trip of 100 ms.
        for delay in [100, 0, 100] {
            for agent in 1..=3 {
                let wall = WallMs(START + at.0 - delay);
                hosts.hear(AgentId(agent), wall, Some(DurationMs(100)), at);
            }
            at = at + DurationMs(5_000);
        }
        let right = WallMs(START + at.0);
        let reference = hosts.reference(at).unwrap();
        assert_eq!(reference.ahead(right, at), DurationMs(0));
        assert_eq!(reference.doubt, 0);
        let later = at + QUIET_HOST;
        assert_eq!(hosts.reference(later), None);
        assert!(hosts.heard.is_empty());
    }

    #[test]
    fn an_agent_whose_clock_was_set_is_believed_as_it_is_now() {
        let mut hosts = Hosts::default();
        for (at, error) in [(1_000, 0), (6_000, -7_000)] {
            for agent in 1..=3 {
                let wall = WallMs(START + at + error);
                hosts.hear(AgentId(agent), wall, Some(DurationMs(10)), BootMs(at));
            }
        }
        let (wall, boot) = (WallMs(START + 6_000), BootMs(6_000));
        let reference = hosts.reference(boot).unwrap();
        assert_eq!(reference.ahead(wall, boot), DurationMs(7_000 - 5 - 5));
    }
}
