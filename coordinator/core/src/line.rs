//! The line of shards that wait for a place, and who is next.
//!
//! Higher priority first, then oldest admission. But the first in line may ask for what nobody has
//! just now, and must not hold up those behind it that ask for something else; nor may a thousand of
//! its like be looked at again for every slot that opens. So the line has a lane for each kind of
//! demand. Whether a shard can be placed depends on its demand alone: when the first of a lane
//! cannot, the lane is blocked as a whole, until something opens that could change it.
//!
//! What shards share is given in the order of the line. A shard that wants more of a resource than
//! is left keeps those behind it from taking the rest: otherwise a stream of small ones would keep
//! a large one waiting for ever. One that wants more than there is at all keeps nobody: however much
//! is given back, it would not be enough.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::Manifest;
use profiles::matching::Ask;
use protocol::{ResourceName, RunId, WallMs};

use crate::queue::Key;

/// What a shard asks of a host, and of what all share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Demand {
    pub(crate) ask: Ask,
    /// Units of resources. In order.
    pub(crate) uses: Vec<(ResourceName, u32)>,
}

impl Demand {
    pub(crate) fn of(manifest: &Manifest) -> Demand {
        let uses = manifest.needs.uses.iter();
        Demand {
            ask: Ask::of(&manifest.needs),
            uses: uses.map(|(name, units)| (name.clone(), *units)).collect(),
        }
    }

    fn uses(&self, resource: &ResourceName) -> bool {
        self.uses.iter().any(|(name, _)| name == resource)
    }
}

/// Highest priority first, then oldest admission, then run, then shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    priority: Reverse<u8>,
    admitted_at: WallMs,
    run_id: RunId,
    shard: u32,
}

impl Order {
    pub(crate) const fn new(priority: u8, admitted_at: WallMs, key: Key) -> Order {
        Order {
            priority: Reverse(priority),
            admitted_at,
            run_id: key.0,
            shard: key.1,
        }
    }

    pub(crate) const fn key(&self) -> Key {
        (self.run_id, self.shard)
    }
}

/// Why the first of a lane gets no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    NoHost,
    /// Too little of this is left.
    Exhausted(ResourceName),
    /// It asks for more of something than there is at all.
    BeyondCapacity,
}

#[derive(Debug, Default)]
pub(crate) struct Line {
    lanes: BTreeMap<Arc<Demand>, Lane>,
    /// The first of every lane that is open.
    heads: BTreeSet<(Order, Arc<Demand>)>,
    /// The first in line of those that wait for a resource.
    waits_for: BTreeMap<ResourceName, Order>,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeSet<Order>,
    blocked: bool,
}

impl Line {
    pub(crate) fn enter(&mut self, order: Order, demand: &Arc<Demand>) {
        let lane = self.lanes.entry(Arc::clone(demand)).or_default();
        let head = lane.waiting.first().copied();
        lane.waiting.insert(order);
        // Who comes before all that wait for the same may find what is left to be enough.
        if head.is_none_or(|head| order < head) {
            if let Some(head) = head.filter(|_| !lane.blocked) {
                self.heads.remove(&(head, Arc::clone(demand)));
            }
            lane.blocked = false;
            self.heads.insert((order, Arc::clone(demand)));
        }
    }

    pub(crate) fn leave(&mut self, order: Order, demand: &Arc<Demand>) {
        let Some(lane) = self.lanes.get_mut(demand) else {
            return;
        };
        let was_head = lane.waiting.first() == Some(&order);
        if !lane.waiting.remove(&order) {
            return;
        }
        if was_head && !lane.blocked {
            self.heads.remove(&(order, Arc::clone(demand)));
            let next = lane.waiting.first().copied();
            self.heads
                .extend(next.map(|next| (next, Arc::clone(demand))));
        }
        if lane.waiting.is_empty() {
            self.lanes.remove(demand);
        }
        for (resource, _) in &demand.uses {
            if self.waits_for.get(resource) == Some(&order) {
                self.open_for_resource(resource);
            }
        }
    }

    /// The next that may be tried, and what it asks for.
    pub(crate) fn first(&self) -> Option<(Order, Arc<Demand>)> {
        self.heads.first().cloned()
    }

    /// Whether somebody before this one waits for the resource.
    pub(crate) fn is_behind(&self, order: Order, resource: &ResourceName) -> bool {
        let first = self.waits_for.get(resource);
        first.is_some_and(|first| *first < order)
    }

    /// The first of this lane cannot be placed, nor can any of it.
    pub(crate) fn block(&mut self, demand: &Arc<Demand>, obstacle: Obstacle) {
        if obstacle == Obstacle::BeyondCapacity {
            self.let_pass(demand);
        }
        let Some(lane) = self.lanes.get_mut(demand).filter(|lane| !lane.blocked) else {
            return;
        };
        lane.blocked = true;
        let Some(&head) = lane.waiting.first() else {
            return;
        };
        self.heads.remove(&(head, Arc::clone(demand)));
        if let Obstacle::Exhausted(resource) = obstacle {
            let first = self.waits_for.entry(resource).or_insert(head);
            *first = head.min(*first);
        }
    }

    /// Nobody of this lane keeps others from anything any more.
    fn let_pass(&mut self, demand: &Demand) {
        for (resource, _) in &demand.uses {
            let first = self.waits_for.get(resource);
            let lane = self.lanes.get(demand);
            if let (Some(first), Some(lane)) = (first, lane)
                && lane.waiting.contains(first)
            {
                self.open_for_resource(resource);
            }
        }
    }

    /// There is room on a host that could take what this says.
    pub(crate) fn open_for_host(&mut self, could_take: impl Fn(&Ask) -> bool) {
        self.open(|demand| could_take(&demand.ask));
    }

    /// Some of a resource has been given back, or there is more of it.
    pub(crate) fn open_for_resource(&mut self, resource: &ResourceName) {
        self.waits_for.remove(resource);
        self.open(|demand| demand.uses(resource));
    }

    fn open(&mut self, concerned: impl Fn(&Demand) -> bool) {
        for (demand, lane) in &mut self.lanes {
            if lane.blocked && concerned(demand) {
                lane.blocked = false;
                let head = lane.waiting.first().copied();
                self.heads
                    .extend(head.map(|head| (head, Arc::clone(demand))));
            }
        }
    }

    /// Everybody in it: for checks.
    pub(crate) fn all(&self) -> impl Iterator<Item = Key> + '_ {
        let waiting = self.lanes.values().flat_map(|lane| &lane.waiting);
        waiting.map(Order::key)
    }

    /// What somebody keeps those behind from: for checks.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &ResourceName> {
        self.waits_for.keys()
    }

    /// Demands of which nobody is tried at present: for checks.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = &Arc<Demand>> {
        let blocked = self.lanes.iter().filter(|(_, lane)| lane.blocked);
        blocked.map(|(demand, _)| demand)
    }
}

#[cfg(test)]
mod tests {
    use profiles::matching::Filter;
    use protocol::Label;

    use super::*;

    fn demand(labels: &[&str], uses: &[(&str, u32)]) -> Arc<Demand> {
        let filter = Filter {
            class: None,
            labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
        };
        let uses = uses.iter();
        Arc::new(Demand {
            ask: Ask {
                filter: Arc::new(filter),
                ..Ask::default()
            },
            uses: uses.map(|(name, n)| (name.parse().unwrap(), *n)).collect(),
        })
    }

    fn order(priority: u8, at: i64, run: i64) -> Order {
        Order::new(priority, WallMs(at), (RunId(run), 0))
    }

    fn next(line: &Line) -> Option<i64> {
        line.first().map(|(order, _)| order.run_id.0)
    }

    #[test]
    fn higher_priority_first_then_older() {
        let (plain, gpu) = (demand(&[], &[]), demand(&["gpu"], &[]));
        let mut line = Line::default();
        let shards = [
            (order(50, 10, 1), &plain),
            (order(50, 5, 2), &plain),
            (order(90, 20, 3), &gpu),
            (order(50, 5, 4), &gpu),
            (order(0, 1, 5), &plain),
        ];
        for (order, demand) in shards {
            line.enter(order, demand);
        }
        let mut seen = Vec::new();
        while let Some((order, demand)) = line.first() {
            seen.push(order.run_id.0);
            line.leave(order, &demand);
        }
        assert_eq!(seen, [3, 2, 4, 1, 5]);
        assert!(line.lanes.is_empty() && line.heads.is_empty());
    }

    #[test]
    fn who_asks_for_what_nobody_has_holds_up_only_its_like() {
        let (plain, gpu) = (demand(&[], &[]), demand(&["gpu"], &[]));
        let mut line = Line::default();
        line.enter(order(90, 0, 1), &gpu);
        line.enter(order(50, 0, 2), &plain);
        line.block(&gpu, Obstacle::NoHost);
        assert_eq!(next(&line), Some(2));
        line.enter(order(50, 1, 3), &gpu);
        assert_eq!(next(&line), Some(2));
        let open_for = |line: &mut Line, labels: &[&str]| {
            let labels: Vec<Label> = labels.iter().map(|label| label.parse().unwrap()).collect();
            line.open_for_host(|ask| ask.filter.has_labels(&labels));
        };
        open_for(&mut line, &["ssd"]);
        assert_eq!(next(&line), Some(2));
        open_for(&mut line, &["gpu", "ssd"]);
        assert_eq!(next(&line), Some(1));
    }

    #[test]
    fn what_is_left_of_a_resource_is_kept_for_who_waits_longest_for_it() {
        let (large, small) = (demand(&[], &[("db", 16)]), demand(&[], &[("db", 1)]));
        let mut line = Line::default();
        let first = order(50, 0, 1);
        line.enter(first, &large);
        line.enter(order(50, 1, 2), &small);
        let db: ResourceName = "db".parse().unwrap();
        line.block(&large, Obstacle::Exhausted(db.clone()));
        assert!(line.is_behind(order(50, 1, 2), &db));
        assert!(!line.is_behind(order(90, 2, 3), &db));
        line.block(&small, Obstacle::Exhausted(db.clone()));
        assert_eq!(next(&line), None);
        // Whoever waited is gone: the others may have it.
        line.leave(first, &large);
        assert_eq!(next(&line), Some(2));
        assert!(!line.is_behind(order(50, 1, 2), &db));
    }

    #[test]
    fn who_comes_to_the_front_of_a_blocked_lane_is_tried() {
        let small = demand(&[], &[("db", 1)]);
        let mut line = Line::default();
        line.enter(order(50, 1, 1), &small);
        line.block(&small, Obstacle::Exhausted("db".parse().unwrap()));
        line.enter(order(50, 2, 2), &small);
        assert_eq!(next(&line), None);
        line.enter(order(90, 3, 3), &small);
        assert_eq!(next(&line), Some(3));
    }
}
