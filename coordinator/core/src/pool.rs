//! The hosts that may be asked for one thing, and those of them that have room for it.
//!
//! What a shard takes is several amounts at once, and no order of hosts is that of all of them: behind
//! the host with most free slots may stand a hundred with many slots and no memory. So the hosts are
//! the leaves of a tree of which every node knows the most that any host below has of each. Where a
//! node has too little of one thing, nothing below it need be looked at; and of two nodes the one below
//! which more slots are free is opened first. A host whose room changes moves nothing but the nodes
//! above it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use profiles::matching::Amounts;

/// Where a host stands in every pool: hosts are counted as they become known, lowest id first.
pub(crate) type Position = usize;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Below node `i` are `2 i` and `2 i + 1`; the root is 1, and the leaf of position 0 is in the
    /// middle.
    nodes: Vec<Most>,
}

/// The most of each that any host below has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Most {
    rank: Rank,
    cpu_milli: u32,
    memory_bytes: u64,
    io_slots: u32,
}

/// Who is first: a host where nothing waits for memory, then one with most free slots. 0: a host
/// without a free slot, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u32);

impl Rank {
    const AT_EASE: u32 = 1 << 31;

    fn of(slots: u32, pressed: bool) -> Rank {
        let at_ease = if pressed { 0 } else { Rank::AT_EASE };
        Rank(if slots == 0 {
            0
        } else {
            slots.min(Rank::AT_EASE - 1) | at_ease
        })
    }

    const fn slots(self) -> u32 {
        self.0 & (Rank::AT_EASE - 1)
    }
}

impl Most {
    const NONE: Most = Most {
        rank: Rank(0),
        cpu_milli: 0,
        memory_bytes: 0,
        io_slots: 0,
    };

    /// Who has no slot has nothing to give.
    fn of(room: &Amounts, pressed: bool) -> Most {
        let rank = Rank::of(room.slots, pressed);
        if rank == Rank(0) {
            return Most::NONE;
        }
        Most {
            rank,
            cpu_milli: room.cpu_milli,
            memory_bytes: room.memory_bytes,
            io_slots: room.io_slots,
        }
    }

    fn either(self, other: Most) -> Most {
        Most {
            rank: self.rank.max(other.rank),
            cpu_milli: self.cpu_milli.max(other.cpu_milli),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            io_slots: self.io_slots.max(other.io_slots),
        }
    }

    fn holds(&self, takes: &Amounts) -> bool {
        takes.slots <= self.rank.slots()
            && self.rank > Rank(0)
            && takes.cpu_milli <= self.cpu_milli
            && takes.memory_bytes <= self.memory_bytes
            && takes.io_slots <= self.io_slots
    }
}

impl Pool {
    fn width(&self) -> usize {
        self.nodes.len() / 2
    }

    /// The room of the host at a position. It is not in the pool where it has none.
    pub(crate) fn put(&mut self, position: Position, room: &Amounts, pressed: bool) {
        let most = Most::of(room, pressed);
        if position >= self.width() {
            if most == Most::NONE {
                return;
            }
            self.widen(position);
        }
        let mut node = self.width() + position;
        if self.nodes[node] == most {
            return;
        }
        self.nodes[node] = most;
        while node > 1 {
            node /= 2;
            let most = self.nodes[2 * node].either(self.nodes[2 * node + 1]);
            if self.nodes[node] == most {
                return;
            }
            self.nodes[node] = most;
        }
    }

    fn widen(&mut self, position: Position) {
        let width = (position + 1).next_power_of_two();
        let mut nodes = vec![Most::NONE; width];
        nodes.extend_from_slice(&self.nodes[self.width()..]);
        nodes.resize(2 * width, Most::NONE);
        for node in (1..width).rev() {
            nodes[node] = nodes[2 * node].either(nodes[2 * node + 1]);
        }
        self.nodes = nodes;
    }

    /// Where the hosts stand on which so much is left: first who is at ease, then who has most free
    /// slots, then the lowest position.
    pub(crate) fn with_room(&self, takes: Amounts) -> WithRoom<'_> {
        let mut open = BinaryHeap::with_capacity(32);
        if let Some(root) = self.nodes.get(1).filter(|root| root.holds(&takes)) {
            open.push((root.rank, Reverse(0), 1));
        }
        WithRoom {
            pool: self,
            takes,
            open,
        }
    }

    /// Whether both hold the same hosts with the same room, and every node of this one is the most of
    /// those below it: for checks.
    pub(crate) fn is_as(&self, other: &Pool) -> bool {
        let leaves = |pool: &Pool| -> Vec<Most> {
            let mut leaves = pool.nodes[pool.width()..].to_vec();
            let last = leaves.iter().rposition(|leaf| *leaf != Most::NONE);
            leaves.truncate(last.map_or(0, |last| last + 1));
            leaves
        };
        let sums_up =
            |node: usize| self.nodes[node] == self.nodes[2 * node].either(self.nodes[2 * node + 1]);
        leaves(self) == leaves(other) && (1..self.width()).all(sums_up)
    }
}

pub(crate) struct WithRoom<'p> {
    pool: &'p Pool,
    takes: Amounts,
    /// Nodes below which somebody may have room; with each the first position below it.
    open: BinaryHeap<(Rank, Reverse<Position>, usize)>,
}

impl Iterator for WithRoom<'_> {
    type Item = Position;

    fn next(&mut self) -> Option<Position> {
        let width = self.pool.width();
        loop {
            let (_, Reverse(first), node) = self.open.pop()?;
            if node >= width {
                return Some(first);
            }
            // Of the positions below a node, half are below each of the two.
            let half = width >> (node.ilog2() + 1);
            for (child, first) in [(2 * node, first), (2 * node + 1, first + half)] {
                let most = &self.pool.nodes[child];
                if most.holds(&self.takes) {
                    self.open.push((most.rank, Reverse(first), child));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn room() -> impl Strategy<Value = (Amounts, bool)> {
        (0u32..4, 0u32..3, 0u64..3, 0u32..3, any::<bool>()).prop_map(
            |(slots, cpu_milli, memory_bytes, io_slots, pressed)| {
                let amounts = Amounts {
                    slots,
                    cpu_milli,
                    memory_bytes,
                    io_slots,
                };
                (amounts, pressed)
            },
        )
    }

    proptest! {
        /// However it came to be, it answers as a walk over all hosts would.
        #[test]
        fn it_finds_whom_a_walk_would_find(
            steps in prop::collection::vec((0usize..40, room()), 0..120),
            (takes, _) in room(),
        ) {
            let takes = Amounts { slots: 1, ..takes };
            let mut pool = Pool::default();
            let mut rooms = vec![(Amounts::default(), false); 40];
            for (position, (room, pressed)) in steps {
                pool.put(position, &room, pressed);
                rooms[position] = (room, pressed);
            }
            let mut expected: Vec<Position> = (0..rooms.len())
                .filter(|&at| rooms[at].0.holds(&takes))
                .collect();
            expected.sort_by_key(|&at| (rooms[at].1, Reverse(rooms[at].0.slots), at));
            let found: Vec<Position> = pool.with_room(takes).collect();
            prop_assert_eq!(found, expected);

            let mut afresh = Pool::default();
            for (position, (room, pressed)) in rooms.iter().enumerate() {
                afresh.put(position, room, *pressed);
            }
            prop_assert!(pool.is_as(&afresh));
        }
    }
}
