//! Who of the group is there, as this machine finds it at one moment.
//!
//! Whether the group can decide, whether somebody may be taken out of it, and what people see of it all
//! follow from who is heard. So it is looked at once, and whatever is said of that moment is said by
//! one look.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{BootMs, DurationMs, Now};

use crate::clock::in_millis;
use crate::consensus::{Condition, Group, Member, Peer};

/// Who leads hears the others by every heartbeat; the others hear each other by their questions for
/// the clock, one each second.
const HEARD_BY_OTHERS: DurationMs = DurationMs(2_500);

/// The members of the group, each as it was found.
pub(crate) struct Roll {
    own: u64,
    members: BTreeMap<u64, Member>,
    voters: BTreeSet<u64>,
    peers: BTreeMap<u64, Peer>,
    /// Entries that a member lacks, where that is known.
    behind: BTreeMap<u64, u64>,
    own_spare_bytes: Option<u64>,
    own_condition: Condition,
    /// Whoever was heard since is there.
    heard_since: BootMs,
    now: Now,
}

/// A member as it was found.
pub(crate) struct Found<'a> {
    pub(crate) node: u64,
    pub(crate) member: &'a Member,
    /// Nothing is known of one that has never been met, nor, as of a peer, of this machine itself.
    pub(crate) peer: Option<&'a Peer>,
    pub(crate) own: bool,
    pub(crate) votes: bool,
    pub(crate) reached: bool,
    pub(crate) behind: Option<u64>,
    /// What is left of its disk, where that is too little.
    pub(crate) spare_bytes: Option<u64>,
    /// What it says of itself, unless it is not connected to.
    pub(crate) condition: Option<&'a Condition>,
}

/// How many of those that vote are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Votes {
    pub(crate) reached: usize,
    pub(crate) voters: usize,
}

impl Votes {
    /// The fewest that can decide.
    pub(crate) fn needed(self) -> usize {
        self.voters / 2 + 1
    }

    /// Nobody decides where nobody votes.
    pub(crate) fn decide(self) -> bool {
        self.reached >= self.needed()
    }
}

impl Roll {
    pub(crate) fn call(group: &Group, now: Now) -> Roll {
        let (members, voters) = group.members();
        let heard_within = if group.leadership().borrow().leads {
            in_millis(group.timers().election_max)
        } else {
            HEARD_BY_OTHERS
        };
        let own = group.node();
        let mut behind: BTreeMap<u64, u64> = members
            .keys()
            .filter_map(|&node| Some((node, group.behind(node)?)))
            .collect();
        behind.insert(own, group.progress().behind());
        Roll {
            own,
            peers: group.peers(),
            own_spare_bytes: group.room().borrow().short(),
            own_condition: group.own_condition(),
            heard_since: now.boot - heard_within,
            members,
            voters,
            behind,
            now,
        }
    }

    /// What this machine says of itself.
    pub(crate) fn own_condition(&self) -> &Condition {
        &self.own_condition
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// There are no members as long as this machine is none, and has never been one.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn member(&self, node: u64) -> Option<&Member> {
        self.members.get(&node)
    }

    pub(crate) fn has_vote(&self, node: u64) -> bool {
        self.voters.contains(&node)
    }

    /// Whether another machine has been heard of late.
    pub(crate) fn hears(&self, node: u64) -> bool {
        let heard = self.peers.get(&node).and_then(|peer| peer.heard);
        heard.is_some_and(|heard| heard >= self.heard_since)
    }

    /// Whether a machine is there: heard of late, or this one.
    fn is_reached(&self, node: u64) -> bool {
        node == self.own || self.hears(node)
    }

    /// Those that vote now.
    pub(crate) fn votes(&self) -> Votes {
        self.count(|_| true)
    }

    /// Those that would vote if one of them did no longer.
    pub(crate) fn votes_without(&self, node: u64) -> Votes {
        self.count(|voter| voter != node)
    }

    fn count(&self, of: impl Fn(u64) -> bool) -> Votes {
        let voters: Vec<u64> = self.voters.iter().copied().filter(|&it| of(it)).collect();
        Votes {
            reached: voters.iter().filter(|&&it| self.is_reached(it)).count(),
            voters: voters.len(),
        }
    }

    /// Everybody, by the numbers of the nodes.
    pub(crate) fn members(&self) -> impl Iterator<Item = Found<'_>> {
        self.members.iter().map(|(&node, member)| {
            let peer = self.peers.get(&node);
            let own = node == self.own;
            Found {
                node,
                member,
                peer,
                own,
                votes: self.has_vote(node),
                reached: self.is_reached(node),
                behind: self.behind.get(&node).copied(),
                spare_bytes: if own {
                    self.own_spare_bytes
                } else {
                    peer.and_then(|peer| peer.spare_bytes)
                },
                condition: if own {
                    Some(&self.own_condition)
                } else {
                    let connected = peer.filter(|peer| peer.connected.is_some());
                    connected.map(|peer| &peer.condition)
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node 1 looks, at moment 10,000; who was heard before 7,500 is not there.
    fn roll(voters: &[u64], heard: &[(u64, i64)]) -> Roll {
        let heard = heard.iter().map(|&(node, at)| {
            let peer = Peer {
                heard: Some(BootMs(at)),
                ..Peer::default()
            };
            (node, peer)
        });
        Roll {
            own: 1,
            members: BTreeMap::new(),
            voters: voters.iter().copied().collect(),
            peers: heard.collect(),
            behind: BTreeMap::new(),
            own_spare_bytes: None,
            own_condition: Condition::default(),
            heard_since: BootMs(7_500),
            now: Now {
                wall: protocol::WallMs(0),
                boot: BootMs(10_000),
            },
        }
    }

    #[test]
    fn more_than_half_of_those_that_vote_decide() {
        let there = 7_500;
        let gone = 7_499;
        for (voters, heard, reached, decide) in [
            (&[][..], &[][..], 0, false),
            (&[1], &[], 1, true),
            (&[1, 2], &[(2, gone)], 1, false),
            (&[1, 2], &[(2, there)], 2, true),
            (&[1, 2, 3], &[(2, gone), (3, there)], 2, true),
            (&[1, 2, 3], &[(2, gone)], 1, false),
            // This machine has no vote.
            (&[2, 3], &[(2, there)], 1, false),
        ] {
            let votes = roll(voters, heard).votes();
            let voters = voters.len();
            assert_eq!(votes, Votes { reached, voters }, "{heard:?}");
            assert_eq!(votes.decide(), decide, "{votes:?}");
        }
    }

    #[test]
    fn the_others_are_counted_without_the_one_that_goes() {
        let roll = roll(&[1, 2, 3], &[(3, 9_000)]);
        let count = |node| {
            let votes = roll.votes_without(node);
            (votes.reached, votes.needed(), votes.decide())
        };
        assert_eq!(count(2), (2, 2, true));
        assert_eq!(count(3), (1, 2, false));
        assert_eq!(count(9), (2, 2, true));
        assert!(!roll.hears(1), "nobody hears itself");
    }
}
