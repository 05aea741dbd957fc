//! What the clocks of the other control machines say of this one.
//!
//! The members of a group ask each other for the time. With this machine's own that makes three
//! clocks in a whole group, and the median of three is right as long as two are: so a clock is
//! contradicted when most of those heard lately agree with each other against it, and agreed with when
//! most of them, itself among them, agree.
//!
//! Where one member is gone two clocks are left, and when they differ nobody can tell which of them
//! is wrong. What is known from before can: a clock that a majority has contradicted, or that was
//! set while this one was agreed with, has no say until it agrees again. Without that the two are
//! *divided*, and whoever would act by such a clock does not.
//!
//! As with the hosts, offsets are kept against the *boot* clock of this machine.

use std::collections::BTreeMap;
use std::fmt;

use protocol::{BootMs, DurationMs, Now, Role};

use super::hosts::{AGREEMENT, Reference, certainly_ahead};
use super::in_words;

/// How old a reading may be. Clocks are read every second; a leader that dies is followed within
/// two, and what was read of its clock still counts then.
const FRESH: DurationMs = DurationMs(5_000);

/// The clock of another control machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberClock {
    pub node: u64,
    pub role: Role,
    /// `None` where it has not been heard of.
    pub reading: Option<Reading>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// By how much its wall clock is ahead of this machine's boot clock, in milliseconds.
    offset: i64,
    /// By how much that may be wrong, either way.
    unsure: i64,
    /// Nobody has set it within the last minute.
    steady: bool,
    read: BootMs,
}

impl Reading {
    /// A clock that was found to be `ahead` of this machine's wall clock when both of this machine's
    /// showed `read`.
    pub fn new(ahead: DurationMs, unsure: DurationMs, steady: bool, read: Now) -> Reading {
        let own = read.wall.0.saturating_sub(read.boot.0);
        Reading {
            offset: own.saturating_add(ahead.0),
            unsure: unsure.0.max(0),
            steady,
            read: read.boot,
        }
    }

    fn is_fresh(&self, now: BootMs) -> bool {
        now - self.read < FRESH
    }
}

/// What they say of this machine's clock. `ahead` is negative where it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nobody was heard who has a say.
    Nothing,
    /// Most agree with it; it differs from their median by this.
    With { ahead: DurationMs, others: usize },
    /// Most agree with each other, and not with it.
    Against { ahead: DurationMs, others: usize },
    /// This one does not agree with it, and there is no majority.
    Divided { ahead: DurationMs, node: u64 },
}

/// What is wrong with the clock of another coordinator, as far as is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amiss {
    /// Somebody or something set it within the last minute.
    WasSet,
    /// It is ahead of this machine's, which is believed, by more than it may be.
    Apart { ahead: DurationMs },
}

impl fmt::Display for Amiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Amiss::WasSet => write!(f, "was set within the last minute"),
            Amiss::Apart { ahead } => {
                let (by, way) = in_words(ahead);
                write!(f, "is {by} {way} this coordinator's")
            }
        }
    }
}

/// How another's clock looks to a machine whose own is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Good,
    /// It was not read of late.
    Unread,
    Amiss(Amiss),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    clocks: BTreeMap<u64, MemberClock>,
    /// Those without a say: see the module.
    odd: BTreeMap<u64, DurationMs>,
}

impl Members {
    /// Every other member of the group, and how its clock was read last.
    pub(super) fn hear(&mut self, clocks: &[MemberClock]) {
        self.clocks = clocks.iter().map(|clock| (clock.node, *clock)).collect();
        self.odd.retain(|node, _| self.clocks.contains_key(node));
    }

    pub(super) fn is_alone(&self) -> bool {
        self.clocks.is_empty()
    }

    pub(super) fn has(&self, node: u64) -> bool {
        self.clocks.contains_key(&node)
    }

    /// This machine's clock was set: what it had agreed with before says nothing any more.
    pub(super) fn begin_anew(&mut self) {
        self.odd.clear();
    }

    /// A member whose clock is wrong as far as this machine knows, and by how much it is ahead of this
    /// machine's.
    pub(super) fn odd_one(&self) -> Option<(u64, DurationMs)> {
        let first = self.odd.first_key_value();
        first.map(|(&node, &ahead)| (node, ahead))
    }

    /// `stop`: what differs by more does not agree. `agreed`: this clock did when last looked at.
    pub(super) fn find(&mut self, stop: DurationMs, agreed: bool, now: Now) -> Found {
        let heard = self.clocks.values();
        let heard: Vec<(u64, Reading)> = heard
            .filter_map(|clock| Some((clock.node, clock.reading?)))
            .filter(|(_, reading)| reading.is_fresh(now.boot))
            .collect();
        let (with, against): (Vec<_>, Vec<_>) = heard
            .into_iter()
            .partition(|(node, reading)| self.agrees(*node, reading, stop, now));
        for (node, _) in &with {
            self.odd.remove(node);
        }
        let mut has_say = Vec::new();
        for &(node, reading) in &against {
            if reading.steady {
                has_say.push((node, reading));
            } else if agreed || !with.is_empty() {
                self.odd.insert(node, behind(now, &reading));
            }
        }
        let all = 1 + with.len() + has_say.len();
        if (1 + with.len()) * 2 > all {
            for (node, reading) in &has_say {
                self.odd.insert(*node, behind(now, reading));
            }
            return match with.len() {
                0 => Found::Nothing,
                others => Found::With {
                    ahead: ahead_of_median(&with, now),
                    others,
                },
            };
        }
        if let Some((ahead, others)) = majority(&has_say, all, now) {
            return Found::Against { ahead, others };
        }
        let undecided = has_say
            .iter()
            .find(|(node, _)| !self.odd.contains_key(node));
        undecided.map_or(Found::Nothing, |(node, reading)| Found::Divided {
            ahead: ahead(now, reading),
            node: *node,
        })
    }

    /// What did not agree does so again only well within the threshold.
    fn agrees(&self, node: u64, reading: &Reading, stop: DurationMs, now: Now) -> bool {
        let odd = self.odd.contains_key(&node);
        let stop = if odd { stop.0 / 2 } else { stop.0 };
        ahead(now, reading).0.saturating_abs() <= stop
    }

    /// `stop`: what differs by more does not agree. This machine's own clock is believed.
    pub(super) fn looks(&self, node: u64, stop: DurationMs, now: Now) -> Looks {
        let reading = self.clocks.get(&node).and_then(|clock| clock.reading);
        match reading.filter(|reading| reading.is_fresh(now.boot)) {
            None => Looks::Unread,
            Some(reading) if !self.agrees(node, &reading, stop, now) => {
                let ahead = behind(now, &reading);
                Looks::Amiss(Amiss::Apart { ahead })
            }
            Some(reading) if !reading.steady => Looks::Amiss(Amiss::WasSet),
            Some(_) => Looks::Good,
        }
    }

    /// A coordinator whose clock is better founded than this machine's, which is not believed: it has
    /// stood still, and agrees with a witness's or with the fleet's; and neither of them says otherwise.
    /// Where there is neither it is to agree with the time that this machine's `service` takes for right.
    pub(super) fn heir(
        &self,
        fleet: Option<Reference>,
        service: Option<(i64, i64)>,
        now: BootMs,
    ) -> Option<u64> {
        let steady = |clock: &&MemberClock| {
            let reading = clock.reading.as_ref();
            reading.is_some_and(|reading| reading.steady && reading.is_fresh(now))
        };
        let of = |role| self.clocks.values().filter(move |it| it.role == role);
        let witnesses = of(Role::Witness).filter(steady);
        let mut said: Vec<(i64, i64)> = witnesses
            .filter_map(|witness| witness.reading)
            .map(|reading| (reading.offset, reading.unsure))
            .chain(fleet.map(Reference::offset))
            .collect();
        if said.is_empty() {
            said.extend(service);
        }
        let agrees = |clock: &&MemberClock| {
            let Some(reading) = clock.reading else {
                return false;
            };
            let near = |&(offset, unsure): &(i64, i64)| {
                let apart = offset.saturating_sub(reading.offset).saturating_abs();
                apart <= AGREEMENT.0 + unsure + reading.unsure
            };
            !said.is_empty() && said.iter().all(near)
        };
        let mut heirs = of(Role::Coordinator).filter(steady).filter(agrees);
        heirs.next().map(|clock| clock.node)
    }
}

/// How far this machine's clock is ahead of another's, as far as that is certain.
fn ahead(now: Now, reading: &Reading) -> DurationMs {
    certainly_ahead(now.wall, now.boot, reading.offset, reading.unsure)
}

fn behind(now: Now, reading: &Reading) -> DurationMs {
    DurationMs(-ahead(now, reading).0)
}

/// How far this machine's clock is ahead of the median of its own and these. Of two in the middle it
/// is the one that is further away: it may be the right one.
fn ahead_of_median(with: &[(u64, Reading)], now: Now) -> DurationMs {
    let others = with.iter().map(|(_, reading)| ahead(now, reading));
    let mut ahead: Vec<DurationMs> = others.chain([DurationMs(0)]).collect();
    ahead.sort_unstable();
    let upper = ahead[ahead.len() / 2];
    let lower = ahead[(ahead.len() - 1) / 2];
    if upper.0.saturating_abs() > lower.0.saturating_abs() {
        upper
    } else {
        lower
    }
}

/// How far this machine's clock is ahead of those that agree with each other, where they are more
/// than half of `all`.
fn majority(others: &[(u64, Reading)], all: usize, now: Now) -> Option<(DurationMs, usize)> {
    let mut sorted: Vec<&Reading> = others.iter().map(|(_, reading)| reading).collect();
    sorted.sort_unstable_by_key(|reading| reading.offset);
    let median = *sorted.get(sorted.len() / 2)?;
    let agree = |reading: &&&Reading| {
        let apart = reading
            .offset
            .saturating_sub(median.offset)
            .saturating_abs();
        apart <= AGREEMENT.0 + reading.unsure + median.unsure
    };
    let agreeing = sorted.iter().filter(agree).count();
    (agreeing * 2 > all).then(|| (ahead(now, median), agreeing))
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;

    const STOP: DurationMs = DurationMs(1_000);
    const HOUR: i64 = 3_600_000;
    const WITNESS: u64 = 3;

    fn now(boot: i64) -> Now {
        Now {
            boot: BootMs(boot),
            wall: WallMs(1_800_000_000_000 + boot),
        }
    }

    /// Clocks of nodes 2, 3, ... as they are read now, each ahead by so much and steady or not. Node 3 is
    /// the witness.
    fn clocks(boot: i64, all: &[(i64, bool)]) -> Vec<MemberClock> {
        let clocks = (2..).zip(all).map(|(node, &(ahead, steady))| MemberClock {
            node,
            role: match node {
                WITNESS => Role::Witness,
                _ => Role::Coordinator,
            },
            reading: Some(Reading::new(
                DurationMs(ahead),
                DurationMs(5),
                steady,
                now(boot),
            )),
        });
        clocks.collect()
    }

    fn with(ahead: i64, others: usize) -> Found {
        let ahead = DurationMs(ahead);
        Found::With { ahead, others }
    }

    fn against(ahead: i64, others: usize) -> Found {
        let ahead = DurationMs(ahead);
        Found::Against { ahead, others }
    }

    fn divided(ahead: i64, node: u64) -> Found {
        let ahead = DurationMs(ahead);
        Found::Divided { ahead, node }
    }

    #[test]
    fn the_median_of_three_decides_and_of_two_nobody() {
        for (all, expected) in [
            (&[] as &[(i64, bool)], Found::Nothing),
            (&[(0, true), (0, true)], with(0, 2)),
            // The median is this machine's own, or that of one in the middle.
            (&[(300, true), (-300, true)], with(0, 2)),
            (&[(305, true), (700, true)], with(-300, 2)),
            // One is wrong, and it is not this one; or it is this one.
            (&[(HOUR, true), (0, true)], with(0, 1)),
            (
                &[(HOUR + 5, true), (HOUR + 300, true)],
                against(-HOUR - 295, 2),
            ),
            // All differ from each other.
            (&[(HOUR, true), (-HOUR, true)], divided(5 - HOUR, 2)),
            // Two that are left: the other one may be right.
            (&[(305, true)], with(-300, 1)),
            (&[(2_005, true)], divided(-2_000, 2)),
            // Who was set within a minute has no say against it, but may agree.
            (&[(2_005, false)], Found::Nothing),
            (&[(HOUR, false), (HOUR, false)], Found::Nothing),
            (&[(HOUR, false), (0, false)], with(0, 1)),
            // Four, while a machine is exchanged.
            (&[(0, true), (0, true), (HOUR, true)], with(0, 2)),
            (
                &[(0, true), (HOUR, true), (HOUR, true)],
                divided(5 - HOUR, 3),
            ),
        ] {
            let mut members = Members::default();
            members.hear(&clocks(0, all));
            assert_eq!(members.find(STOP, false, now(0)), expected, "{all:?}");
        }
    }

    #[test]
    fn who_was_wrong_before_has_no_say_until_it_agrees_well() {
        let mut members = Members::default();
        members.hear(&clocks(0, &[(0, true), (HOUR, true)]));
        assert_eq!(members.find(STOP, false, now(0)), with(0, 1));
        assert_eq!(members.odd_one(), Some((3, DurationMs(HOUR - 5))));
        // The one that agreed falls silent. Just within the threshold is no agreement yet.
        for (boot, ahead, expected) in [
            (1_000, HOUR, Found::Nothing),
            (2_000, 900, Found::Nothing),
            (3_000, 400, with(-395, 1)),
        ] {
            let mut clocks = clocks(boot, &[(0, true), (ahead, true)]);
            clocks[0].reading = None;
            members.hear(&clocks);
            assert_eq!(members.find(STOP, true, now(boot)), expected, "{ahead}");
        }
        assert_eq!(members.odd_one(), None);
    }

    #[test]
    fn who_is_set_away_from_a_clock_that_was_agreed_with_is_the_wrong_one() {
        for (agreed, expected) in [(true, Found::Nothing), (false, divided(5 - HOUR, 2))] {
            let mut members = Members::default();
            members.hear(&clocks(0, &[(HOUR, false)]));
            assert_eq!(members.find(STOP, agreed, now(0)), Found::Nothing);
            members.hear(&clocks(61_000, &[(HOUR, true)]));
            assert_eq!(members.find(STOP, false, now(61_000)), expected);
        }
        // This machine's own clock was set: nothing is known of whose was right.
        let mut members = Members::default();
        members.hear(&clocks(0, &[(HOUR, false)]));
        assert_eq!(members.find(STOP, true, now(0)), Found::Nothing);
        members.begin_anew();
        members.hear(&clocks(0, &[(HOUR, true)]));
        assert_eq!(members.find(STOP, false, now(0)), divided(5 - HOUR, 2));
    }

    #[test]
    fn a_reading_counts_for_five_seconds() {
        let mut members = Members::default();
        members.hear(&clocks(0, &[(HOUR, true), (HOUR, true)]));
        assert_eq!(members.find(STOP, false, now(4_999)), against(5 - HOUR, 2));
        assert_eq!(members.find(STOP, false, now(5_000)), Found::Nothing);
        assert_eq!(members.heir(None, None, BootMs(4_999)), Some(2));
        assert_eq!(members.heir(None, None, BootMs(5_000)), None);
    }

    #[test]
    fn an_heir_is_steady_and_agrees_with_the_witness_and_the_fleet() {
        type Case = (&'static [(i64, bool)], Option<i64>, Option<u64>);
        let cases: &[Case] = &[
            (&[(HOUR, true), (HOUR, true)], None, Some(2)),
            (&[(HOUR, true), (HOUR + 1_500, true)], None, None),
            (&[(HOUR, false), (HOUR, true)], None, None),
            // Nobody to agree with, or the fleet alone, or against the fleet.
            (&[(HOUR, true), (HOUR, false)], None, None),
            (&[(HOUR, true)], None, None),
            (&[(HOUR, true)], Some(HOUR), Some(2)),
            (&[(HOUR, true), (HOUR, true)], Some(0), None),
            // Of two the one that is right.
            (&[(0, true), (HOUR, true), (HOUR, true)], None, Some(4)),
        ];
        for (all, fleet, expected) in cases {
            let mut members = Members::default();
            members.hear(&clocks(0, all));
            let fleet = fleet.map(|ahead| Reference::of(now(0), ahead));
            assert_eq!(
                members.heir(fleet, None, BootMs(0)),
                *expected,
                "{all:?} {fleet:?}"
            );
        }
    }
}
